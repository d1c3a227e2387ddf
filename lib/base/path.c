/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/path.h"

static int fits(int n, size_t size)
{
	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

static const char *absolute_env(const char *name)
{
	const char *v = getenv(name);

	return v && v[0] == '/' ? v : NULL;
}

int path_user_socket(char *ret, size_t size)
{
	const char *dir = absolute_env("XDG_RUNTIME_DIR");

	if (dir)
		return fits(snprintf(ret, size, "%s/csight/csight.sock", dir), size);
	return fits(snprintf(ret, size, "/tmp/csight-%u/csight.sock", (unsigned)getuid()), size);
}

int path_user_spool(char *ret, size_t size)
{
	const char *dir = absolute_env("XDG_STATE_HOME"), *home = absolute_env("HOME");

	if (dir)
		return fits(snprintf(ret, size, "%s/csight", dir), size);
	if (home)
		return fits(snprintf(ret, size, "%s/.local/state/csight", home), size);
	return fits(snprintf(ret, size, "/var/tmp/csight-%u", (unsigned)getuid()), size);
}

int path_user_cache(char *ret, size_t size)
{
	const char *dir = absolute_env("XDG_CACHE_HOME"), *home = absolute_env("HOME");

	if (dir)
		return fits(snprintf(ret, size, "%s/csight", dir), size);
	return home ? fits(snprintf(ret, size, "%s/.cache/csight", home), size) : -ENOENT;
}

bool path_find_program(const char *name, char *ret, size_t size)
{
	const char *at = getenv("PATH");

	for (size_t n; at && *at; at += n + (at[n] == ':')) {
		n = strcspn(at, ":");
		if (n && (size_t)snprintf(ret, size, "%.*s/%s", (int)n, at, name) < size && access(ret, X_OK) == 0)
			return true;
	}
	return false;
}

int path_emu_socket(const char *socket, char *ret, size_t size)
{
	return fits(snprintf(ret, size, "%s.emu", socket), size);
}

int path_make_dir(const char *path, unsigned mode, bool parents)
{
	struct stat st;

	if (parents) {
		char upper[4096];

		if (strlen(path) >= sizeof(upper))
			return -ENAMETOOLONG;
		for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
			memcpy(upper, path, (size_t)(slash - path));
			upper[slash - path] = 0;
			if (mkdir(upper, 0755) < 0 && errno != EEXIST)
				return -errno;
		}
	}
	if (mkdir(path, mode) == 0)
		return 0;
	if (errno != EEXIST)
		return -errno;
	if (lstat(path, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	if ((st.st_uid != getuid() && st.st_uid != 0) || (st.st_mode & 022))
		return -EPERM;
	return 0;
}

int path_helper(const char *name, const char *installed_dir, char *ret, size_t size)
{
	static const char *const beside[] = { "", ".libs/" };
	char exe[4096];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *slash;

	if (n > 0) {
		exe[n] = 0;
		slash = strrchr(exe, '/');
		if (slash)
			slash[1] = 0;
		for (size_t i = 0; slash && i < sizeof(beside) / sizeof(beside[0]); i++)
			if (fits(snprintf(ret, size, "%s%s%s", exe, beside[i], name), size) == 0 &&
			    access(ret, R_OK) == 0)
				return 0;
	}
	if (fits(snprintf(ret, size, "%s/%s", installed_dir, name), size) < 0)
		return -ENAMETOOLONG;
	return access(ret, R_OK) < 0 ? -errno : 0;
}
