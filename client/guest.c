/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "client/guest.h"
#include "lib/base/escape.h"
#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/code/elf.h"

/* Sets the reason; false, for `return REFUSE(...)`. */
#define REFUSE(r, ...) (reason_set((r), 0, __VA_ARGS__) != 0)

static bool read_interpreter(struct elf *e, struct guest *ret)
{
	const struct elf_segment *segment = elf_segment(e, ELF_SEGMENT_INTERPRETER);
	struct reader name;

	if (!segment)
		return true;
	if (segment->size == 0 || segment->size >= sizeof(ret->interpreter) ||
	    elf_bytes(e, segment->offset, segment->size, &name) < 0)
		return false;
	memcpy(ret->interpreter, name.at, rd_left(&name));
	ret->interpreter[rd_left(&name)] = 0;
	return true;
}

static bool has_code(const struct elf *e)
{
	size_t n;
	const struct elf_segment *segments = elf_segments(e, &n);

	for (size_t i = 0; i < n; i++)
		if (segments[i].type == ELF_SEGMENT_LOAD && segments[i].code)
			return true;
	return false;
}

static bool read_headers(int fd, struct guest *ret, struct reason *r)
{
	_cleanup_(elf_freep) struct elf *e = NULL;

	if (elf_open(fd, &e) < 0)
		return REFUSE(r, "its ELF headers are damaged");
	if (!read_interpreter(e, ret))
		return REFUSE(r, "the name of its interpreter is damaged");
	return has_code(e) || REFUSE(r, "it is an aarch64 file without code to run");
}

static bool read_program(int fd, struct guest *ret, struct reason *r)
{
	struct elf_identity id;
	char start[4] = { 0 };
	ssize_t n = io_pread(fd, start, sizeof(start), 0);

	if (n < 0)
		return REFUSE(r, "%s", strerror((int)-n));
	if (start[0] == '#' && start[1] == '!')
		return REFUSE(r,
			      "it is a script; run its interpreter, an aarch64 program, with the script as argument");
	if (memcmp(start, "\177ELF", sizeof(start)) != 0)
		return REFUSE(r, "it is no ELF program");
	if (elf_identify(fd, &id) < 0)
		return REFUSE(r, "its ELF headers are damaged");
	if (id.machine != ELF_MACHINE_AARCH64)
		return REFUSE(
		    r, "it is a program for %s; --emu runs those for aarch64 (build it with aarch64-linux-gnu-gcc)",
		    elf_machine_name(id.machine));
	if (id.bits != 64 || id.big_endian)
		return REFUSE(r, "it is for aarch64, but not a 64-bit little-endian program");
	if (id.type != ELF_TYPE_EXECUTABLE && id.type != ELF_TYPE_SHARED)
		return REFUSE(r, id.type == ELF_TYPE_RELOCATABLE ? "it is an object file; link it first"
								 : "it is an ELF file, but no program");
	return read_headers(fd, ret, r);
}

static bool find_in_path(const char *name, char *ret, size_t size)
{
	const char *at = getenv("PATH");

	for (size_t n; at && *at; at += n + (at[n] == ':')) {
		n = strcspn(at, ":");
		if (n && (size_t)snprintf(ret, size, "%.*s/%s", (int)n, at, name) < size && access(ret, X_OK) == 0)
			return true;
	}
	return false;
}

bool guest_find(const char *name, char *ret, size_t size, struct reason *r)
{
	if (strchr(name, '/'))
		return (size_t)snprintf(ret, size, "%s", name) < size || REFUSE(r, "%s", strerror(ENAMETOOLONG));
	if (find_in_path(name, ret, size))
		return true;
	return access(name, F_OK) == 0
		   ? REFUSE(r, "it is not on the PATH; for the file in this directory, write ./%s", esc(name))
		   : REFUSE(r, "it is not on the PATH");
}

bool guest_program(const char *path, struct guest *ret, struct reason *r)
{
	_cleanup_close_ int fd = -1;
	struct stat st;

	*ret = (struct guest){ 0 };
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return REFUSE(r, "%s", strerror(errno));
	if (fstat(fd, &st) < 0)
		return REFUSE(r, "%s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return REFUSE(r, S_ISDIR(st.st_mode) ? "it is a directory" : "it is not a regular file");
	if (!read_program(fd, ret, r))
		return false;
	/* Even root cannot execute a file that has no permission for it. */
	return access(path, X_OK) == 0 || REFUSE(r, "it is not executable (%s); chmod +x makes it so", strerror(errno));
}

bool guest_interpreter_in(const struct guest *g, const char *sysroot)
{
	char path[2 * PATH_MAX];

	if (!*g->interpreter)
		return true;
	snprintf(path, sizeof(path), "%s%s", sysroot ? sysroot : "", g->interpreter);
	return access(path, R_OK) == 0;
}

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

bool guest_emulator(const char *plugin, char *ret, size_t size, struct reason *r)
{
	const char *named = getenv("QEMU_AARCH64");
	int rc;

	if (named && *named && strchr(named, '/'))
		snprintf(ret, size, "%s", named);
	else if (!find_in_path(named && *named ? named : "qemu-aarch64", ret, size))
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
