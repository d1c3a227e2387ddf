/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <sys/syscall.h>

#include "daemon/capture/process/credentials.h"
#include "daemon/policy.h"
#include "lib/base/util.h"

bool policy_owns(uid_t caller, uid_t owner)
{
	return caller == 0 || caller == owner;
}

uid_t policy_owner(uid_t uid, bool kernel, uid_t requester)
{
	return kernel && requester != uid ? 0 : uid;
}

bool policy_administers(uid_t caller)
{
	return caller == 0 || caller == getuid();
}

int policy_process(uid_t caller, pid_t pid)
{
	_cleanup_close_ int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct credentials c;
	int rc;

	/* EINVAL: the tid of a thread that does not lead a process. */
	if (pidfd < 0)
		return errno == ESRCH || errno == EINVAL ? -ESRCH : -errno;
	rc = credentials_read_pidfd(pid, pidfd, &c);
	if (rc < 0)
		return rc == -ESRCH ? -ESRCH : -EACCES;
	return policy_owns(caller, credentials_uid(&c)) ? 0 : -EACCES;
}
