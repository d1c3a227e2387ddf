/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/function-lookup.h"
#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/code/symbols.h"
#include "lib/decoder/decoder.h"

/* What the child writes to its parent. */
struct lookup_result {
	int rc;
	struct function_place place; /* if rc is 0 */
};

/* Gives up the privileges of root. For other users: their own rights remain. */
static int drop_privileges(void)
{
	uid_t uid;
	gid_t gid;

	decoder_user("", &uid, &gid);
	if (uid != (uid_t)-1 &&
	    (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0))
		return -errno;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

static int parse_file(int fd, const char *name, struct function_place *ret)
{
	_cleanup_(symbols_freep) struct symbols *symbols = NULL;
	struct symbols_at at;
	int rc = symbols_load(fd, &symbols);

	if (rc < 0)
		return rc == -ENOENT ? -EIO : rc;
	rc = symbols_named(symbols, name, &at);
	if (rc < 0)
		return rc;
	*ret = (struct function_place){ at.start, at.end };
	return 0;
}

int function_lookup(int fd, const char *name, struct function_place *ret)
{
	_cleanup_close_ int from = -1, to = -1;
	struct lookup_result result = { 0 };
	int ends[2], status = 0;
	ssize_t n;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	from = ends[0];
	to = ends[1];
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		result.rc = drop_privileges();
		if (result.rc == 0)
			result.rc = parse_file(fd, name, &result.place);
		_exit(io_write(to, &result, sizeof(result)) < 0);
	}
	closep(&to);
	n = io_read(from, &result, sizeof(result));
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (n != (ssize_t)sizeof(result) || !WIFEXITED(status))
		return -EFAULT;
	if (result.rc == 0)
		*ret = result.place;
	return MIN(result.rc, 0);
}
