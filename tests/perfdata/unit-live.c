/* SPDX-License-Identifier: MIT */
/* lib/perfdata/live.c: a recording is read in pieces of any size while it grows; damage ends it with a reason. */
#include "config.h"

#include <endian.h>
#include <stdarg.h>
#include <sys/mman.h>

#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "lib/perfdata/format.h"
#include "lib/perfdata/live.h"
#include "tests/unit.h"

enum { PID = 4000, FILE_MAX = 1 << 16 };

static uint8_t file[FILE_MAX];
static size_t size;

/* What the sink got, as text; bytes of a slice are joined. */
static struct buf events;

static int on_map(void *user, const struct pd_map *m)
{
	buf_printf(&events, "map %u %jx %jx %jx %s; ", m->pid, (uintmax_t)m->addr, (uintmax_t)m->len,
		   (uintmax_t)m->offset, m->path);
	return 0;
}

static int on_task(void *user, const struct pd_task *t)
{
	buf_printf(&events, "exit %u; ", t->tid);
	return 0;
}

static int on_slice(void *user, const struct pd_piece *p)
{
	buf_printf(&events, "slice %u %u %ju+%ju lost %ju: ", p->tid, p->index, (uintmax_t)p->offset,
		   (uintmax_t)p->size, (uintmax_t)p->lost);
	return 0;
}

static int on_bytes(void *user, const void *data, size_t n)
{
	buf_add(&events, data, n);
	return 0;
}

static int on_end(void *user)
{
	buf_printf(&events, "; ");
	return 0;
}

static int on_raw(void *user, const struct pd_live_raw *raw)
{
	if (raw->part == PD_LIVE_TRACE)
		buf_printf(&events, "%zu bytes of a CPU; ", raw->size);
	else if (raw->run)
		buf_printf(&events, "run %u on %u; ", raw->run->tid, raw->run->cpu);
	else if (raw->empty)
		buf_printf(&events, "empty %ju; ", (uintmax_t)raw->empty->time);
	return 0;
}

static int on_round(void *user, uint64_t time)
{
	buf_printf(&events, "round %ju; ", (uintmax_t)time);
	return 0;
}

static const struct pd_live_sink sink = { .map = on_map,
					  .exit = on_task,
					  .raw = on_raw,
					  .round = on_round,
					  .slice = on_slice,
					  .bytes = on_bytes,
					  .end = on_end };

static void write_slice(struct pd_writer *w, uint32_t tid, uint64_t offset, const char *bytes)
{
	struct pd_aux aux = { offset, strlen(bytes), PD_AUX_RAW, PID, tid, UINT32_MAX, 7000 };
	struct pd_buffer buffer = {
		.size = aux.size, .offset = offset, .index = tid - PID, .tid = tid, .cpu = UINT32_MAX
	};

	pd_write_aux(w, &aux);
	pd_write_buffer(w, &buffer);
	pd_write_bytes(w, bytes, strlen(bytes));
}

/* A recording, up to where its end would be. */
static void make_file(void)
{
	struct pd_cpu cpu = { PD_MAGIC_ETMV4, 0, 7, { 0x18d1, 0x10, 0x28000ea1, 0x4100f403, 0x488, 0, 0xcc } };
	struct pd_session s = { .arch = "aarch64", .pmu_type = 8, .cpus = &cpu, .n_cpus = 1, .mixed = true };
	struct pd_map map = { .pid = PID, .addr = 0x400000, .len = 0x1000, .offset = 0x2000, .path = "/bin/p" };
	struct pd_aux gap = { 10,         90,  PD_AUX_RAW | PD_AUX_GAP | 1ull << PD_AUX_INDEX_SHIFT, PID, PID + 1,
			      UINT32_MAX, 8000 };
	int fd = memfd_create("live", 0);
	struct pd_writer *w;
	uint64_t data, length;

	CHECK(fd >= 0 && pd_write_begin(fd, &s, &w) == 0);
	pd_write_comm(w, PID, PID, "prog", true, 1000);
	pd_write_map(w, &map);
	write_slice(w, PID, 0, "abc");
	write_slice(w, PID + 1, 0, "0123456789");
	map.path = "/lib/a much longer name, so that a record is more than a piece.so";
	pd_write_map(w, &map);
	pd_write_aux(w, &gap);
	write_slice(w, PID + 1, 100, "12345678");
	write_slice(w, PID, 3, "");
	pd_write_task(w, &(struct pd_task){ PID, PID, PID + 1, PID, true, 9000 });
	CHECK_EQ(pd_write_end(w), 0);
	CHECK(io_pread(fd, file, sizeof(file), 0) > 0);
	memcpy(&data, file + 40, 8);
	memcpy(&length, file + 48, 8);
	size = (size_t)(le64toh(data) + le64toh(length));
	memset(file + 48, 0, 8);
	pd_writer_free(w);
	close(fd);
}

/* Reads a file in pieces. Returns what pd_live_push() returned last. */
static int read_file(const uint8_t *data, size_t n, size_t piece, const char **ret_cause)
{
	struct pd_live *l = NULL;
	int rc = pd_live_new(&sink, &l);

	buf_clear(&events);
	for (size_t at = 0; rc == 0 && at < n; at += piece)
		rc = pd_live_push(l, data + at, MIN(piece, n - at));
	if (ret_cause)
		*ret_cause = rc < 0 ? pd_live_problem(l).cause : pd_live_whole(l) ? NULL : "cut";
	if (rc == 0 && data == file && n == size)
		CHECK(pd_live_contents(l)->n_cpus && pd_live_contents(l)->cpus[0].params[2] == 0x28000ea1);
	pd_live_free(l);
	buf_u8(&events, 0);
	return rc;
}

static void test_pieces(void)
{
	static const char want[] =
	    "map 4000 400000 1000 2000 /bin/p; slice 4000 0 0+3 lost 0: abc; "
	    "slice 4001 1 0+10 lost 0: 0123456789; "
	    "map 4000 400000 1000 2000 /lib/a much longer name, so that a record is more than a piece.so; "
	    "slice 4001 1 10+0 lost 90: slice 4001 1 100+8 lost 0: 12345678; empty 7000; slice 4000 0 3+0 lost 0: ; "
	    "exit 4001; ";
	const char *cause;

	for (size_t piece = 1; piece <= size; piece += piece < 200 ? 1 : 97) {
		CHECK_EQ(read_file(file, size, piece, &cause), 0);
		CHECK(!cause);
		CHECK_STR((const char *)events.data, want);
	}
}

/* What is complete of a recording that is cut is passed on. */
static void test_cut(void)
{
	const char *cause;
	size_t least = 0, wrong = 0;

	for (size_t n = 0; n < size; n++) {
		wrong += read_file(file, n, 64, &cause) != 0 || events.size < least;
		least = events.size;
	}
	CHECK_EQ(wrong, 0);
}

static void check_cause(size_t at, uint8_t value, const char *cause)
{
	uint8_t before = file[at];
	const char *got;

	file[at] = value;
	CHECK_EQ(read_file(file, size, size, &got), -EBADMSG);
	CHECK_STR(got, cause);
	file[at] = before;
}

static size_t find_record(uint32_t type)
{
	uint64_t data;
	size_t at;

	memcpy(&data, file + 40, 8);
	for (at = (size_t)le64toh(data); file[at] != type || file[at + 1];)
		at += (size_t)(file[at + 6] | file[at + 7] << 8) + (file[at] == PD_REC_AUXTRACE ? file[at + 8] : 0);
	return at;
}

static void test_damage(void)
{
	check_cause(0, 'X', "not a perf.data");
	check_cause(8, 16, "perf.data written to a pipe is not supported");
	check_cause(40 + 3, 7, "not a perf.data that is being recorded");
	check_cause(24 + 3, 0xff, "the events lie after the end of the file");
	check_cause(find_record(PD_REC_AUXTRACE_INFO) + 8, 9, "the trace is not CoreSight trace");
	check_cause(find_record(PD_REC_AUXTRACE_INFO), 60,
		    "the recording does not begin with metadata of CoreSight trace");
	check_cause(find_record(PD_REC_COMM) + 6, 7, "a record has an impossible size");
	check_cause(find_record(PD_REC_MMAP2) + 6, 8 + 48, "a record is too short for its type");
	check_cause(find_record(PD_REC_AUX), 60, "trace does not follow its AUX record");
	check_cause(find_record(PD_REC_AUX) + 8, 1, "trace does not follow its AUX record");
	check_cause(find_record(PD_REC_AUX) + 16, 200, "trace does not follow its AUX record");
}

/* Random damage ends in a reason, or in other contents. */
static void test_random_damage(void)
{
	uint8_t bad[FILE_MAX];
	uint32_t seed = 1;
	unsigned odd = 0, refused = 0;

	for (unsigned i = 0; i < 20000; i++) {
		const char *cause = NULL;
		int rc;

		memcpy(bad, file, size);
		for (unsigned k = 0; k < 1 + i % 4; k++) {
			seed = seed * 1103515245 + 12345;
			bad[(seed >> 8) % size] = (uint8_t)(seed >> 3);
		}
		rc = read_file(bad, size, 1 + i % 500, &cause);
		odd += (rc != 0 && rc != -EBADMSG) || (rc < 0 && !cause);
		refused += rc < 0;
	}
	CHECK_EQ(odd, 0);
	CHECK(refused > 1000);
}

/* A recording of two CPUs, in two rounds. */
static void make_cpu_file(void)
{
	static const uint32_t others[2] = { UINT32_MAX, UINT32_MAX };
	struct pd_cpu cpus[2] = { { PD_MAGIC_ETMV4, 0, 7, { 0x18d1, 0x10, 0x28000ea1, 0x4100f403, 0x488, 0, 0xcc } } };
	struct pd_session s = { .arch = "aarch64", .pmu_type = 8, .cpus = cpus, .n_cpus = 2, .live = true };
	struct pd_map map = { .pid = PID, .addr = 0x400000, .len = 0x1000, .offset = 0x2000, .path = "/bin/p" };
	struct pd_origin in = { PID, PID + 2, 1, 5000 };
	struct buf out = { 0 };
	struct pd_writer *w;

	cpus[1] = cpus[0];
	cpus[1].cpu = 1;
	CHECK_EQ(pd_write_begin(-1, &s, &w), 0);
	pd_write_map(w, &map);
	pd_write_record(w, PD_REC_SWITCH_CPU_WIDE, 0, others, sizeof(others), &in);
	pd_write_aux(w, &(struct pd_aux){ 0, 5, PD_AUX_RAW, PID, PID + 2, 1, 6000 });
	pd_write_aux(w, &(struct pd_aux){ 5, 4, PD_AUX_RAW, PID, PID, 1, 6500 });
	pd_write_buffer(w, &(struct pd_buffer){ .size = 9, .index = 1, .tid = UINT32_MAX, .cpu = 1 });
	pd_write_bytes(w, "123456789", 9);
	pd_write_round(w, 7000);
	pd_write_aux(w, &(struct pd_aux){ 7100, 0, PD_AUX_PARTIAL, UINT32_MAX, UINT32_MAX, UINT32_MAX, 7200 });
	pd_write_round(w, 8000);
	CHECK_EQ(pd_write_take(w, &out), 0);
	memcpy(file, out.data, out.size);
	size = out.size;
	buf_done(&out);
	pd_writer_free(w);
}

/* The trace of CPUs is passed on as it is; a slice may come in pieces, with the padding behind it. */
static void test_cpus(void)
{
	static const char before[] = "map 4000 400000 1000 2000 /bin/p; run 4002 on 1; ",
			  after[] = "round 7000; empty 7200; round 8000; ";
	const char *cause;
	char want[200];

	snprintf(want, sizeof(want), "%s16 bytes of a CPU; %s", before, after);
	CHECK_EQ(read_file(file, size, size, &cause), 0);
	CHECK_STR((const char *)events.data, want);
	for (size_t piece = 1; piece <= size; piece += 7) {
		CHECK_EQ(read_file(file, size, piece, &cause), 0);
		CHECK(!cause && strncmp((const char *)events.data, before, strlen(before)) == 0);
		CHECK(strcmp((const char *)events.data + events.size - 1 - strlen(after), after) == 0);
	}
	file[find_record(PD_REC_FINISHED_ROUND) + 6] = 8;
	CHECK_EQ(read_file(file, size, size, &cause), -EBADMSG);
	CHECK_STR(cause, "a round has no time");
}

int main(void)
{
	make_file();
	test_pieces();
	test_cut();
	test_damage();
	test_random_damage();
	make_cpu_file();
	test_cut();
	test_cpus();
	buf_done(&events);
	return unit_end();
}
