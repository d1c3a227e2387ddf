/* SPDX-License-Identifier: MIT */
/* daemon/snapshot-writer.c: the copy of a jitdump in a snapshot; daemon/snapshot.c: the reason of a failed decode. */
#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "daemon/snapshot-writer.h"
#include "daemon/snapshot.h"
#include "lib/base/io.h"
#include "tests/unit.h"

enum { LIMIT = 256 << 20 };

static char work[] = "/tmp/csight-writer-XXXXXX";

/* Writes a snapshot of a target that maps a jitdump of file_size bytes, of which size belong to the copy. */
static json_object *write_snapshot(const char *id, uint64_t file_size, uint64_t size)
{
	static const struct capture_ops ops = { .name = "test" };
	struct capture_source source = { &ops };
	struct target t = { .pid = getpid(), .pidfd = -1, .uid = getuid(), .owner = getuid(), .gid = getgid() };
	struct capture_copy *c = calloc(1, sizeof(*c));
	struct snapshot_writer w = {
		.id = id, .copy = c, .target = &t, .name = strdup("program"), .exe = strdup("program")
	};
	_cleanup_close_ int spool = open(work, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_free_ char *text = NULL;
	json_object *o = NULL;
	char path[128];
	size_t n;

	t.name = t.exe = (char *)"program";
	t.ring.source = &source;
	c->jitdump = (struct capture_jitdump){ memfd_create("jitdump", MFD_CLOEXEC), size, -77 };
	CHECK_EQ(ftruncate(c->jitdump.fd, (off_t)file_size), 0);
	CHECK_EQ(pwrite(c->jitdump.fd, "JITDUMP", 7, 0), 7);
	CHECK_EQ(snapshot_writer_prepare(&w), 0);
	CHECK_EQ(snapshot_writer_run(spool, &w), 0);
	snprintf(path, sizeof(path), "%s/snapshot.json", id);
	CHECK(io_read_file(spool, path, 1 << 20, &text, &n) == 0 && json_parse(text, n, &o) == 0);
	snapshot_writer_done(&w);
	capture_copy_free(c);
	return o;
}

/* copied: expected bytes of the copy. */
static void check_jitdump(const char *id, uint64_t file_size, uint64_t size, uint64_t copied, bool cut)
{
	_cleanup_json_ json_object *o = write_snapshot(id, file_size, size);
	json_object *jitdump = NULL, *missing = NULL;
	uint64_t bytes = 0, crc = 0;
	int64_t shift = 0;
	bool is_cut = false;
	char path[128], begin[8] = "";
	struct stat st = { 0 };
	int fd;

	CHECK_EQ(json_get(o, "jitdump", json_type_object, &jitdump), 0);
	CHECK(json_get_u64(jitdump, "bytes", &bytes) == 0 && bytes == copied);
	CHECK(json_get_i64(jitdump, "clock_shift", &shift) == 0 && shift == -77);
	CHECK_EQ(json_get_u64(jitdump, "crc32", &crc), 0);
	json_get_bool(jitdump, "cut", &is_cut);
	CHECK_EQ(is_cut, cut);
	CHECK(json_get(o, "missing", json_type_array, &missing) == 0 && json_object_array_length(missing) == cut);
	snprintf(path, sizeof(path), "%s/%s/code/jitdump", work, id);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0 && fstat(fd, &st) == 0 && (uint64_t)st.st_size == copied);
	CHECK(read(fd, begin, 7) == 7 && strcmp(begin, "JITDUMP") == 0);
	close(fd);
}

/* The snapshot of a target whose execution in the kernel is traced has the kernel's code; no other one has. */
static void check_kernel(const char *id, uid_t owner, bool has)
{
	static const struct capture_ops ops = { .name = "test" };
	struct capture_source source = { &ops };
	struct target t = { .pid = getpid(), .pidfd = -1, .uid = 1000, .owner = owner, .gid = 1000 };
	struct capture_copy *c = calloc(1, sizeof(*c));
	struct snapshot_writer w = {
		.id = id, .copy = c, .target = &t, .name = strdup("program"), .exe = strdup("program")
	};
	_cleanup_close_ int spool = open(work, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_free_ char *text = NULL, *trace = NULL, *code = NULL;
	char path[128];
	size_t n = 0;

	t.name = t.exe = (char *)"program";
	t.ring.source = &source;
	c->jitdump.fd = -1;
	/* Beside it: whether filters left out a part. */
	c->filtered = has;
	if (has) {
		c->kernel =
		    (struct capture_kernel){ memfd_create("kernel", MFD_CLOEXEC), 6 << 20, 0xffff800008010000, 4096 };
		CHECK(ftruncate(c->kernel.fd, 6 << 20) == 0 && pwrite(c->kernel.fd, "KERNEL", 6, 5 << 20) == 6);
	}
	CHECK_EQ(snapshot_writer_prepare(&w), 0);
	CHECK_EQ(w.need > 6 << 20, has);
	CHECK_EQ(snapshot_writer_run(spool, &w), 0);
	CHECK_EQ(w.size > 6 << 20, has);
	snprintf(path, sizeof(path), "%s/snapshot.json", id);
	CHECK_EQ(io_read_file(spool, path, 1 << 20, &text, &n), 0);
	CHECK_EQ(text && strstr(text, "\"[kernel.kallsyms]\""), has);
	CHECK_EQ(text && strstr(text, "\"filtered\":true"), has);
	snprintf(path, sizeof(path), "%s/trace.perf.data", id);
	CHECK_EQ(io_read_file(spool, path, 1 << 20, &trace, &n), 0);
	CHECK_EQ(trace && memmem(trace, n, "[kernel.kallsyms]_stext", 23), has);
	snprintf(path, sizeof(path), "%s/code/kernel", id);
	CHECK_EQ(io_read_file(spool, path, 7 << 20, &code, &n), has ? 0 : -ENOENT);
	CHECK(!has || (n == 6 << 20 && memcmp(code + (5 << 20), "KERNEL", 6) == 0));
	snapshot_writer_done(&w);
	capture_copy_free(c);
}

/* What is read from the state that was written is the same: no part of a character is left. */
static void test_long_reason(void)
{
	struct snapshot *s = snapshot_new();

	if (!s)
		abort();
	for (int lead = 0; lead < 3; lead++) {
		char text[4096] = "", *at = text;
		size_t size;

		at = stpcpy(at, &"ab"[2 - lead]);
		while (at < text + sizeof(text) - 4)
			at = stpcpy(at, "\xe2\x86\x92");
		snapshot_set_reason(s, "%s", text);
		size = strlen(s->reason);
		CHECK((size - (size_t)lead) % 3 == 0);
		CHECK(size > 2045 && size <= 2048);
		/* These become characters of three bytes. */
		memset(text, 0xff, sizeof(text) - 1);
		snapshot_set_reason(s, "%s", text + lead);
		CHECK_EQ(strlen(s->reason), 2048 / 3);
	}
	snapshot_unref(s);
}

int main(void)
{
	char command[128];

	if (!mkdtemp(work))
		return 1;
	check_jitdump("all", 5000, 5000, 5000, false);
	/* Bytes that the program appended later do not belong to the copy. */
	check_jitdump("grown", 5000, 3000, 3000, false);
	check_jitdump("shrunk", 2000, 3000, 2000, true);
	check_jitdump("long", LIMIT + 4096, LIMIT + 4096, LIMIT, true);
	check_kernel("root", 0, true);
	check_kernel("user", 1000, false);
	check_kernel("kernel-user", 1000, true);
	test_long_reason();
	snprintf(command, sizeof(command), "rm -rf %s", work);
	return system(command) || unit_end();
}
