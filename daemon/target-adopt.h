/* SPDX-License-Identifier: MIT */
/* Makes a target of a running process, for a capture that needs no help from the process itself. */
#ifndef CSIGHT_DAEMON_TARGET_ADOPT_H
#define CSIGHT_DAEMON_TARGET_ADOPT_H

#include "daemon/target.h"
#include "daemon/trace-units.h"
#include "lib/base/reason.h"

struct target_adoption {
	struct trace_units *units;
	struct target_list *targets;
	const struct settings *settings;
	pid_t pid;
	uid_t caller;   /* with a right to the process, by policy_process() */
	bool of_caller; /* the target is charged to the caller, not to its owner */
	const struct capture_options *options;
	uint64_t start; /* proc_file_start() of the process; 0: any */
};

/*
 * *ret: disarmed, and borrowed from the list. -EOPNOTSUPP: this machine cannot trace it; -EPERM: the configuration
 * forbids it; -EACCES: the process has credentials that are not its owner's alone; -EDQUOT: the
 * ledger refused it, see ret_refusal; -ESRCH. ret_reason: may stay empty.
 */
int target_adopt(const struct target_adoption *a, struct target **ret, struct reason *ret_reason,
		 struct ledger_refusal *ret_refusal);

#endif
