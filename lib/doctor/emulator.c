/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/escape.h"
#include "lib/base/io.h"
#include "lib/base/path.h"
#include "lib/base/util.h"
#include "lib/doctor/emulator.h"

/* Sets the reason; false, for `return REFUSE(...)`. */
#define REFUSE(r, ...) (reason_set((r), 0, __VA_ARGS__) != 0)

/*
 * An emulator without support for plugins rejects the option; one with it prints its version and exits. What prints no
 * version is no emulator: -EPROTO.
 */
static int try_plugin(const char *emulator, const char *plugin)
{
	char version[256] = "";
	int null, status, ends[2];
	ssize_t n;
	pid_t pid;

	if (access(emulator, X_OK) < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		null = open("/dev/null", O_RDWR);
		dup2(null, STDIN_FILENO);
		dup2(ends[1], STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		unsetenv("QEMU_PLUGIN");
		execl(emulator, emulator, "-plugin", plugin, "-version", (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	n = pid < 0 ? -errno : io_read(ends[0], version, sizeof(version) - 1);
	close(ends[0]);
	if (pid < 0)
		return (int)n;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return -ENOEXEC;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return -EOPNOTSUPP;
	return strstr(version, "qemu") || strstr(version, "QEMU") ? 0 : -EPROTO;
}

bool emulator_find(const char *plugin, char *ret, size_t size, struct reason *r)
{
	const char *named = getenv("QEMU_AARCH64");
	int rc;

	if (named && *named && strchr(named, '/'))
		snprintf(ret, size, "%s", named);
	else if (!path_find_program(named && *named ? named : "qemu-aarch64", ret, size))
		return REFUSE(
		    r,
		    "there is no %s on the PATH; on Debian 12, apt install qemu-user; elsewhere a QEMU 6 or later "
		    "built with --enable-plugins, named by $QEMU_AARCH64",
		    named && *named ? esc(named) : "qemu-aarch64");
	rc = try_plugin(ret, plugin);
	if (rc == 0)
		return true;
	if (rc == -EOPNOTSUPP)
		return REFUSE(
		    r,
		    "%s takes no plugins (static builds do not); Debian 12's package qemu-user does, or build QEMU "
		    "with --enable-plugins, and name it by $QEMU_AARCH64",
		    esc(ret));
	if (rc == -EPROTO)
		return REFUSE(
		    r,
		    "%s is no QEMU: it prints no version, so the program would not run under the emulated trace "
		    "unit; name a qemu-aarch64 by $QEMU_AARCH64",
		    esc(ret));
	return REFUSE(r, "%s cannot be run: %s", esc(ret), strerror(-rc));
}
