/* Makes a target of a process that runs already, for a capture that needs no help from the process itself. */
#ifndef CSIGHT_DAEMON_TARGET_ADOPT_H
#define CSIGHT_DAEMON_TARGET_ADOPT_H

#include "daemon/target.h"

/*
 * The target is disarmed, and borrowed. The caller's right to the process was looked at before. -EOPNOTSUPP: this
 * machine cannot trace it; -EPERM: the configuration forbids it; -EACCES: its credentials are not its owner's alone;
 * -EUSERS: its owner has too many targets; -ESRCH. ret_reason: in words.
 */
int target_adopt(struct daemon *d, pid_t pid, uid_t caller, const struct capture_options *options, struct target **ret,
		 char *ret_reason, size_t reason_size);

#endif
