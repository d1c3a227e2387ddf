/* Who may do what. Owners act on what is theirs, root on everything, nobody else on anything. */
#ifndef CSIGHT_DAEMON_POLICY_H
#define CSIGHT_DAEMON_POLICY_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether caller may act on, and read, what belongs to owner. */
bool policy_owns(uid_t caller, uid_t owner);

/*
 * Whether caller may act on this process: 0, -ESRCH (there is none) or -EACCES. A process whose uids differ among
 * themselves has privileges that its starter lacks, and is root's.
 */
int policy_process(uid_t caller, pid_t pid);

#endif
