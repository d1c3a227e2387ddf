/* SPDX-License-Identifier: MIT */
/*
 * daemon/build-ids.c, daemon/decode/build-id-job.c: the build-ids of mapped files, which csight-decode reads for a
 * snapshot. Files that are no valid ELF files cost their own build-ids only.
 */
#include "config.h"

#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "lib/base/hex.h"
#include "lib/base/io.h"
#include "lib/perfdata/read.h"
#include "tests/daemon/help.h"
#include "tests/unit.h"

static struct tested tested;

/* A file with a PT_NOTE segment, and errors in it. */
enum kind { GOOD, OTHER, TRUNCATED, BEYOND, SEGMENTS, ENTRIES, LONG_NOTE, LONG_ID, NO_NOTE, TEXT, KINDS };

struct image {
	Elf64_Ehdr header;
	Elf64_Phdr note;
	Elf64_Nhdr head;
	char name[4];
	uint8_t id[40];
};

static void make_image(enum kind kind, struct image *ret, size_t *ret_size)
{
	struct image i = { .header = { .e_type = ET_DYN,
				       .e_machine = EM_AARCH64,
				       .e_version = 1,
				       .e_phoff = offsetof(struct image, note),
				       .e_ehsize = sizeof(Elf64_Ehdr),
				       .e_phentsize = sizeof(Elf64_Phdr),
				       .e_phnum = 1 },
			   .note = { .p_type = PT_NOTE,
				     .p_offset = offsetof(struct image, head),
				     .p_filesz = sizeof(i) - offsetof(struct image, head),
				     .p_memsz = sizeof(i) - offsetof(struct image, head) },
			   .head = { 4, 20, NT_GNU_BUILD_ID },
			   .name = "GNU" };

	memcpy(i.header.e_ident, ELFMAG, SELFMAG);
	i.header.e_ident[EI_CLASS] = ELFCLASS64;
	i.header.e_ident[EI_DATA] = ELFDATA2LSB;
	i.header.e_ident[EI_VERSION] = EV_CURRENT;
	memset(i.id, 0xa0 + (int)kind, sizeof(i.id));
	*ret_size = sizeof(i);
	if (kind == TRUNCATED)
		*ret_size = offsetof(struct image, note) + 8;
	if (kind == BEYOND) {
		i.note.p_offset = 1ull << 62;
		i.note.p_filesz = UINT64_MAX;
	}
	if (kind == SEGMENTS)
		i.header.e_phnum = 0xfffe;
	if (kind == ENTRIES)
		i.header.e_phoff = UINT64_MAX - 8;
	if (kind == LONG_NOTE)
		i.head.n_descsz = UINT32_MAX;
	if (kind == LONG_ID)
		i.head.n_descsz = 32;
	if (kind == NO_NOTE)
		i.note.p_type = PT_LOAD;
	if (kind == TEXT)
		memcpy(&i, "#!/bin/sh\n", 10);
	*ret = i;
}

static void file_path(enum kind kind, char *ret, size_t size)
{
	snprintf(ret, size, "%s/file%d.so", tested.dir, (int)kind);
}

static void write_file(const char *path, const void *bytes, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);

	CHECK(io_write(fd, bytes, size) == 0);
	close(fd);
}

/* Writes the files unless they are old, sends their descriptors, and records a mapping of each without a build-id. */
static void send_files(struct fake *f, bool old)
{
	uint8_t *log = f->map + f->header->log_offset;
	uint64_t at = 0;

	for (unsigned kind = 0; kind < KINDS; kind++) {
		struct emu_message m = {
			.magic = EMU_MAGIC, .version = EMU_VERSION, .type = EMU_FILE, .value = (int)kind + 1
		};
		struct emu_record_map *map = (struct emu_record_map *)(log + at);
		struct image image;
		char path[128];
		size_t size;
		int fd;

		file_path(kind, path, sizeof(path));
		make_image(kind, &image, &size);
		if (!old)
			write_file(path, &image, size);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		CHECK(io_send_fds(f->socket, &m, sizeof(m), &fd, 1) == 0);
		close(fd);
		size = ALIGN8(sizeof(*map) + strlen(path) + 1);
		*map = (struct emu_record_map){ .head = { EMU_REC_MAP, (uint32_t)size, now_ns(CLOCK_MONOTONIC) },
						.addr = 0x10000 + 0x1000 * kind,
						.len = 0x1000,
						.prot = PROT_READ | PROT_EXEC,
						.file = kind + 1 };
		strcpy((char *)(map + 1), path);
		at += size;
	}
	atomic_store(&f->header->log_head, at);
}

/* Makes a snapshot. Returns the contents of its snapshot.json, or NULL. */
static json_object *snapshot(char *ret_id, size_t size)
{
	struct varlink_reply reply;
	char parameters[64], path[256];
	_cleanup_free_ char *text = NULL;
	const char *error, *id = "";
	json_object *o = NULL;
	size_t n;

	snprintf(parameters, sizeof(parameters), "{\"pid\": %d, \"noWait\": true}", (int)getpid());
	error = tested_call(&tested, "Snapshot", parameters, &reply);
	CHECK_STR(error, "");
	if (json_get(reply.parameters, "snapshot", json_type_object, &o) == 0)
		json_get_str(o, "id", &id);
	snprintf(ret_id, size, "%s", id);
	snprintf(path, sizeof(path), "%s/%s/snapshot.json", tested.spool, id);
	o = NULL;
	if (io_read_file(AT_FDCWD, path, 1 << 20, &text, &n) == 0)
		json_parse(text, n, &o);
	varlink_reply_done(&reply);
	CHECK(o != NULL);
	return o;
}

static const char *recorded_id(json_object *o, enum kind kind)
{
	const char *path, *id = "none";
	json_object *list;
	char wanted[128];

	file_path(kind, wanted, sizeof(wanted));
	if (json_get(o, "images", json_type_array, &list) < 0)
		return "no list";
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		json_object *image = json_object_array_get_idx(list, i);

		if (json_get_str(image, "path", &path) == 0 && strcmp(path, wanted) == 0) {
			json_get_str(image, "build_id", &id);
			return id;
		}
	}
	return "no image";
}

static unsigned count_missing(json_object *o, const char *word)
{
	json_object *list;
	unsigned n = 0;

	if (json_get(o, "missing", json_type_array, &list) < 0)
		return 1000;
	for (size_t i = 0; i < json_object_array_length(list); i++)
		n += strstr(json_object_get_string(json_object_array_get_idx(list, i)), word) != NULL;
	return n;
}

/* The mappings of trace.perf.data have the same build-ids. */
static unsigned mapped_ids(const char *id)
{
	const struct pd_contents *contents;
	struct pd_problem problem;
	struct pd_file *file;
	char path[256];
	unsigned n = 0;
	int fd;

	snprintf(path, sizeof(path), "%s/%s/trace.perf.data", tested.spool, id);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || pd_open(fd, &file, &contents, &problem) < 0)
		return 1000;
	for (size_t i = 0; i < contents->n_maps; i++)
		n += contents->maps[i].build_id_size == 20;
	pd_close(file);
	close(fd);
	return n;
}

static void check_ids(json_object *o)
{
	char id[41];

	for (int kind = 0; kind < KINDS; kind++) {
		bool has = kind == GOOD || kind == OTHER;

		for (int i = 0; i < 20; i++)
			snprintf(id + 2 * i, 3, "%02x", 0xa0 + kind);
		CHECK_STR(recorded_id(o, (enum kind)kind), has ? id : "none");
	}
	CHECK_EQ(count_missing(o, ""), 0);
}

/* True if the daemon's log has a line about that many files in the cache. */
static bool logged(unsigned cached)
{
	_cleanup_free_ char *text = NULL;
	char line[128];
	size_t n;

	snprintf(line, sizeof(line), "build-ids of %d mapped files: %u are in the cache", KINDS, cached);
	return io_read_file(AT_FDCWD, tested.log, 16 << 20, &text, &n) == 0 && strstr(text, line);
}

static void begin(struct fake *f, bool old)
{
	fake_make(f);
	CHECK_EQ(fake_hello(f, &tested), 0);
	send_files(f, old);
	fake_run(f, 1, true);
	while (atomic_load(&fake_slot(f, 0)->head) == 0)
		usleep(1000);
}

/* The server of csight-decode. */
static pid_t find_decoder(const char *children)
{
	char path[64], name[32];
	pid_t found = 0;
	char *end;

	for (long pid; (pid = strtol(children, &end, 10)) > 0; children = end) {
		_cleanup_close_ int fd = -1;

		snprintf(path, sizeof(path), "/proc/%ld/comm", pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && read(fd, name, sizeof(name)) == 14 && memcmp(name, "csight-decode\n", 14) == 0)
			found = (pid_t)pid;
	}
	return found;
}

/* A child of csightd, or where units start it, the newest of systemd's. */
static pid_t decoder(void)
{
	int parent = getenv("CSIGHT_UNITS") ? 1 : (int)tested.pid;
	static char text[1 << 16];
	char path[64];
	pid_t found = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", parent, parent);
	for (int n = 0; n < 500 && !found; n++) {
		_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

		text[MAX(length, 0)] = 0;
		found = find_decoder(text);
		if (!found)
			usleep(20000);
	}
	return found;
}

static void test_ids(void)
{
	char id[64];
	json_object *o;
	struct fake f;

	begin(&f, false);
	/* A file that has just been changed is not cached. */
	usleep(1100000);
	o = snapshot(id, sizeof(id));
	check_ids(o);
	CHECK_EQ(mapped_ids(id), 2);
	json_object_put(o);
	CHECK(logged(0));
	CHECK(!logged(KINDS));
	o = snapshot(id, sizeof(id));
	check_ids(o);
	CHECK_EQ(mapped_ids(id), 2);
	json_object_put(o);
	CHECK(logged(KINDS));
	fake_done(&f);
}

/* csight-decode ends, or does not answer: the snapshot lacks the build-ids, and says so. */
static void test_unavailable(void)
{
	pid_t server, killer;
	char id[64];
	json_object *o;
	struct fake f;

	begin(&f, true);
	server = decoder();
	CHECK(server > 0 && kill(server, SIGSTOP) == 0);
	o = snapshot(id, sizeof(id));
	CHECK_STR(recorded_id(o, GOOD), "none");
	CHECK_EQ(count_missing(o, "build-ids of 10 mapped files are unknown: csight-decode took too long"), 1);
	CHECK_EQ(count_missing(o, ""), 1);
	json_object_put(o);
	killer = fork();
	if (killer == 0) {
		usleep(300000);
		kill(server, SIGKILL);
		_exit(0);
	}
	o = snapshot(id, sizeof(id));
	CHECK_STR(recorded_id(o, GOOD), "none");
	CHECK_EQ(count_missing(o, "build-ids of 10 mapped files are unknown: csight-decode"), 1);
	json_object_put(o);
	waitpid(killer, NULL, 0);
	CHECK(decoder() != server);
	o = snapshot(id, sizeof(id));
	for (int n = 0; n < 50 && strcmp(recorded_id(o, GOOD), "none") == 0; n++) {
		json_object_put(o);
		usleep(100000);
		o = snapshot(id, sizeof(id));
	}
	check_ids(o);
	json_object_put(o);
	fake_done(&f);
}

int main(void)
{
	static const char *const options[] = { "--verbose", NULL };

	tested_start(&tested, options);
	test_ids();
	CHECK_EQ(tested_end(&tested), 0);
	/* Another daemon, whose cache is empty. */
	tested_start_again(&tested, options);
	test_unavailable();
	CHECK_EQ(tested_end(&tested), 0);
	tested_clean(&tested);
	return unit_end();
}
