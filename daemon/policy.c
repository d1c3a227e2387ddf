#include "config.h"

#include <string.h>
#include <sys/syscall.h>

#include "daemon/policy.h"
#include "lib/base/util.h"

bool policy_owns(uid_t caller, uid_t owner)
{
	return caller == 0 || caller == owner;
}

/* The four uids of a process from /proc; (uid_t)-1 where they are not all the same. */
static int read_uid(pid_t pid, uid_t *ret)
{
	_cleanup_fclose_ FILE *f = NULL;
	char path[64], line[256];
	unsigned uid[4];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return errno == ENOENT || errno == ESRCH ? -ESRCH : -EACCES;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "Uid: %u %u %u %u", &uid[0], &uid[1], &uid[2], &uid[3]) != 4)
			continue;
		*ret = uid[0] == uid[1] && uid[0] == uid[2] && uid[0] == uid[3] ? uid[0] : (uid_t)-1;
		return 0;
	}
	return -ESRCH;
}

int policy_process(uid_t caller, pid_t pid)
{
	_cleanup_close_ int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	uid_t owner = (uid_t)-1;
	int rc;

	/* EINVAL: the number of a thread that leads no process. */
	if (pidfd < 0)
		return errno == ESRCH || errno == EINVAL ? -ESRCH : -errno;
	rc = read_uid(pid, &owner);
	/* What was read is the process's own only where it still lives: its number may have gone to another. */
	if (syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) < 0 && errno == ESRCH)
		return -ESRCH;
	if (rc < 0)
		return rc;
	return policy_owns(caller, owner) ? 0 : -EACCES;
}
