#include "config.h"

#include <ctype.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/capture/process/credentials.h"
#include "daemon/capture/process/proc.h"
#include "lib/base/util.h"

enum { STATUS_MAX = 16 << 10 };

static bool read_four(const char *status, const char *key, uint32_t ret[4])
{
	const char *at = strstr(status, key);

	return at && sscanf(at + strlen(key), "%u %u %u %u", &ret[0], &ret[1], &ret[2], &ret[3]) == 4;
}

/* One number for each PID namespace that it is in, the outermost first; a line without is of an old kernel. */
static bool read_contained(const char *status)
{
	const char *at = strstr(status, "\nNSpid:");
	unsigned n = 0;

	for (at = at ? at + 7 : ""; *at && *at != '\n';) {
		at += strspn(at, " \t");
		n += isdigit((unsigned char)*at) != 0;
		at += strcspn(at, " \t\n");
	}
	return n > 1;
}

/* Files of /proc/PID are root's where the process may not be looked into, and where its first thread has ended. */
static int read_status(int dir, char status[STATUS_MAX], struct stat *ret_maps)
{
	if (proc_text(dir, "status", status, STATUS_MAX) < 0 || fstatat(dir, "maps", ret_maps, 0) < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	return strstr(status, "\nState:\tZ") ? -EAGAIN : 0;
}

int credentials_read(pid_t pid, struct credentials *ret)
{
	struct credentials c = { 0 };
	_cleanup_close_ int dir = -1;
	const char *permitted;
	struct stat st;
	char path[32], status[STATUS_MAX];
	int rc;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	rc = read_status(dir, status, &st);
	/* It may have ended between the two; then it is asked again. */
	for (unsigned i = 0; rc == 0 && st.st_uid == 0 && i < 2; i++)
		rc = read_status(dir, status, &st);
	if (rc < 0)
		return rc;
	permitted = strstr(status, "\nCapPrm:");
	if (!read_four(status, "\nUid:", c.uid) || !read_four(status, "\nGid:", c.gid) || !permitted)
		return -EBADMSG;
	c.permitted = strtoull(permitted + 8, NULL, 16);
	c.dumpable = st.st_uid == c.uid[1];
	c.contained = read_contained(status);
	*ret = c;
	return 0;
}

bool credentials_owned(const struct credentials *c, uid_t owner)
{
	if (owner == 0)
		return true;
	for (unsigned i = 0; i < 4; i++)
		if (c->uid[i] != owner || c->gid[i] != c->gid[0])
			return false;
	return c->permitted == 0 && c->dumpable;
}
