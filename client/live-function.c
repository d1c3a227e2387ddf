/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "client/client.h"
#include "client/function-lookup.h"
#include "client/live-function.h"
#include "lib/base/array.h"
#include "lib/base/escape.h"
#include "lib/base/io.h"
#include "lib/code/elf.h"
#include "lib/store/store.h"

enum { LINE_SIZE = PATH_MAX + 128, PLACE_ENDS_MAX = 5 };

struct mapped_elf {
	char *path, device[16];
	uint64_t inode;
};

struct mapped_elves {
	struct mapped_elf *list;
	size_t n, room;
};

static void mapped_elves_done(struct mapped_elves *m)
{
	for (size_t i = 0; i < m->n; i++)
		free(m->list[i].path);
	free(m->list);
}

/* Adds a file of a line of maps, unless it is known, or is not of the program but of the emulator. */
static int add_file(struct mapped_elves *m, const struct mapped_elf *found)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->list[i].inode == found->inode && strcmp(m->list[i].device, found->device) == 0)
			return 0;
	if (array_reserve(m->list, m->n, &m->room) < 0)
		return -ENOMEM;
	m->list[m->n] = *found;
	m->list[m->n].path = strdup(found->path);
	if (!m->list[m->n].path)
		return -ENOMEM;
	m->n++;
	return 0;
}

/*
 * Reads which files a process has mapped. exe: the program's file; under an emulator, that is not the file which the
 * process executes.
 */
static int read_maps(pid_t pid, const char *exe, struct mapped_elves *ret)
{
	char path[64], line[LINE_SIZE];
	_cleanup_fclose_ FILE *f = NULL;
	struct stat emulator = { 0 }, program;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	if (stat(path, &emulator) < 0)
		return -errno;
	if (exe && stat(exe, &program) == 0 && program.st_ino == emulator.st_ino && program.st_dev == emulator.st_dev)
		emulator.st_ino = 0;
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f)) {
		struct mapped_elf found = { .path = NULL };
		int at = 0;

		line[strcspn(line, "\n")] = 0;
		if (sscanf(line, "%*x-%*x %*s %*x %15s %" SCNu64 " %n", found.device, &found.inode, &at) < 2 || !at ||
		    line[at] != '/' || found.inode == emulator.st_ino)
			continue;
		found.path = line + at;
		if (add_file(ret, &found) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Opens a file if it is the one that is mapped, and has code of the emulated machine. */
static int open_file(const struct mapped_elf *m)
{
	_cleanup_close_ int fd = open(m->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct elf_identity is;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_ino != m->inode ||
	    elf_identify(fd, &is) < 0 || is.machine != ELF_MACHINE_AARCH64)
		return -ENOENT;
	return TAKE_FD(fd);
}

static bool read_instruction(void *data, uint64_t at, uint32_t *ret)
{
	uint8_t bytes[4];

	if (io_pread(*(const int *)data, bytes, sizeof(bytes), at) != sizeof(bytes))
		return false;
	*ret = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
	return true;
}

int live_function_ends(int fd, uint64_t start, uint64_t end, struct function_ends *ret, struct reason *why)
{
	return function_ends_find(start, end, read_instruction, &fd, ret, why);
}

/* Adds the addresses at which the function returns, which trace units need: the emulator finds returns by itself. */
static void add_ends(json_object *o, int fd, const struct function_place *p, struct reason *why)
{
	uint64_t start = p->go ? function_ends_skip_check(p->start, p->end, read_instruction, &fd) : p->start;
	json_object *list = json_object_new_array();
	uint64_t places[PLACE_ENDS_MAX];
	struct function_ends ends = { .places = places, .room = PLACE_ENDS_MAX };
	int rc = live_function_ends(fd, start, p->end, &ends, why);

	for (size_t i = 0; rc == 0 && i < ends.n; i++) {
		char text[24];

		snprintf(text, sizeof(text), "0x%" PRIx64, ends.places[i]);
		json_array_add(list, json_object_new_string(text));
	}
	json_add(o, "ends", list);
	json_add_bool(o, "loops", ends.loops);
	if (p->go)
		json_add_hex(o, "go", start);
}

static json_object *add_place(json_object *list, const struct mapped_elf *m, const struct function_place *p)
{
	json_object *o = json_object_new_object();

	json_add_hex(o, "address", p->start);
	json_add_u64(o, "size", p->end - p->start);
	json_add_u64(o, "inode", m->inode);
	json_add_str(o, "device", m->device);
	json_array_add(list, o);
	return o;
}

/* True if all are one function, of which the compiler made clones. */
static bool is_one_function(const struct function_place *p, size_t n)
{
	size_t size = store_base_name(p[0].name);

	for (size_t i = 1; i < n; i++)
		if (store_base_name(p[i].name) != size || strncmp(p[i].name, p[0].name, size) != 0 ||
		    strcmp(p[i].name, p[0].name) == 0)
			return false;
	return true;
}

static int fail_ambiguous(const char *pattern, const struct mapped_elf *m, const struct function_place *p, size_t n)
{
	client_error("more than one function of %s matches '%s'; name one of them, or give its --address:",
		     esc(m->path), esc(pattern));
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, "  %s  at offset 0x%" PRIx64 "\n", esc(p[i].name), p[i].start);
	if (n == FUNCTION_PLACES_MAX)
		fprintf(stderr, "  and perhaps others\n");
	return STATUS_NOT_FOUND;
}

/*
 * Looks for a function in one file. Returns 0 with its places in *ret; -1 if the file has no such function, or cannot
 * be read; or an exit status after an error message.
 */
static int find_in_file(const struct mapped_elf *m, const char *pattern, json_object **ret, struct reason *why)
{
	struct function_place places[FUNCTION_PLACES_MAX];
	_cleanup_close_ int fd = open_file(m);
	size_t n = 0, same = 0;
	int rc;

	if (fd < 0)
		return -1;
	rc = function_lookup_all(fd, pattern, places, &n);
	if (rc < 0 || n == 0)
		return -1;
	/* A name that is written in full means that function, whatever else it matches. */
	for (size_t i = 0; i < n; i++)
		if (strcmp(places[i].name, pattern) == 0)
			places[same++] = places[i];
	n = same ? same : n;
	if (!is_one_function(places, n))
		return fail_ambiguous(pattern, m, places, n);
	*ret = json_object_new_array();
	for (size_t i = 0; i < n; i++)
		add_ends(add_place(*ret, m, &places[i]), fd, &places[i], why);
	return 0;
}

/* Lists the files that a process has mapped. Returns 0, or an exit status after an error message. */
static int list_files(pid_t pid, const char *exe, struct mapped_elves *ret)
{
	int rc = read_maps(pid, exe, ret);

	if (rc == 0)
		return STATUS_OK;
	client_error("cannot read which files process %d has mapped: %s", (int)pid, strerror(-rc));
	return rc == -EACCES ? STATUS_DENIED : STATUS_NOT_FOUND;
}

int live_function_line(pid_t pid, const char *exe, const char *line, json_object **ret)
{
	_cleanup_(mapped_elves_done) struct mapped_elves files = { .n = 0 };
	struct function_place places[FUNCTION_PLACES_MAX];
	uint64_t next = 0, is;
	int rc = list_files(pid, exe, &files);
	size_t n = 0, i;

	if (rc != STATUS_OK)
		return rc;
	for (i = 0; i < files.n && !n; i++) {
		_cleanup_close_ int fd = open_file(&files.list[i]);

		if (fd < 0 || function_lookup_line(fd, line, places, &n, &is) < 0)
			continue;
		next = is && (!next || is < next) ? is : next;
	}
	if (n > FUNCTION_PLACES_MAX) {
		client_error("%s is in %zu functions and inlined copies, and at most %d can be watched", esc(line), n,
			     FUNCTION_PLACES_MAX);
		return STATUS_FAILED;
	}
	if (!n) {
		client_error(
		    "no code of process %d is of line %s in the debug data of the %zu files that it has mapped%s",
		    (int)pid, esc(line), files.n, next ? "" : "; build it with -g");
		if (next)
			fprintf(stderr, "  the next line with code is %" PRIu64 "\n", next);
		return STATUS_NOT_FOUND;
	}
	*ret = json_object_new_array();
	for (size_t j = 0; j < n; j++)
		add_place(*ret, &files.list[i - 1], &places[j]);
	return STATUS_OK;
}

int live_function_find(pid_t pid, const char *exe, const char *pattern, json_object **ret, struct reason *ret_why)
{
	_cleanup_(mapped_elves_done) struct mapped_elves files = { .n = 0 };
	int rc = list_files(pid, exe, &files);

	if (rc != STATUS_OK)
		return rc;
	for (unsigned libraries = 0; libraries < 2; libraries++)
		for (size_t i = 0; i < files.n; i++) {
			if ((exe && strcmp(files.list[i].path, exe) == 0) == (libraries == 1))
				continue;
			rc = find_in_file(&files.list[i], pattern, ret, ret_why);
			if (rc >= 0)
				return rc;
		}
	client_error("no function of process %d matches '%s' in the symbol tables of the %zu files that it has mapped",
		     (int)pid, esc(pattern), files.n);
	return STATUS_NOT_FOUND;
}
