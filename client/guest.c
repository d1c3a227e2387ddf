/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "client/guest.h"
#include "lib/base/escape.h"
#include "lib/base/io.h"
#include "lib/base/path.h"
#include "lib/base/util.h"
#include "lib/code/elf.h"

/* Sets the reason, and evaluates to false, for `return REFUSE(...)`. */
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

bool guest_find(const char *name, char *ret, size_t size, struct reason *r)
{
	if (strchr(name, '/'))
		return (size_t)snprintf(ret, size, "%s", name) < size || REFUSE(r, "%s", strerror(ENAMETOOLONG));
	if (path_find_program(name, ret, size))
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
