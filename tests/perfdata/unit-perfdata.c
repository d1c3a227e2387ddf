/* SPDX-License-Identifier: MIT */
/* lib/perfdata: the reader returns what was written; it reports cuts and damage, and keeps the contents before them. */
#include "config.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/perfdata/read.h"
#include "lib/perfdata/sums.h"
#include "tests/unit.h"

enum { TRACE_SIZE = 1001, THREADS = 3, PID = 4000, SUMS_END = 24 };

static uint8_t trace[TRACE_SIZE];

static struct pd_session session(const struct pd_cpu *cpu)
{
	return (struct pd_session){ .hostname = "host",
				    .release = "6.1",
				    .arch = "aarch64",
				    .cmdline = "prog a b",
				    .pmu_type = 8,
				    .snapshot = true,
				    .cpus = cpu,
				    .n_cpus = 1 };
}

/* Writes a file as csightd does: one buffer per thread, of which the last has wrapped. */
static int write_sample(int fd)
{
	struct pd_cpu cpu = { PD_MAGIC_ETMV4, 0, 7, { 0x18d1, 0x10, 0x28000ea1, 0x4100f403, 0x488, 0, 0xcc } };
	struct pd_session s = session(&cpu);
	struct pd_map map = { .pid = PID,
			      .tid = PID,
			      .addr = 0x400000,
			      .len = 0x1000,
			      .offset = 0x2000,
			      .major = 8,
			      .minor = 1,
			      .inode = 77,
			      .prot = 5,
			      .flags = 2,
			      .path = "/bin/prog",
			      .time = 1005 };
	struct pd_writer *w;
	int rc;

	rc = pd_write_begin(fd, &s, &w);
	if (rc < 0)
		return rc;
	pd_write_comm(w, PID, PID, "prog", true, 1000);
	pd_write_map(w, &map);
	map.path = "/lib/with a name that is longer than most others, to be padded.so";
	map.build_id_size = PD_BUILD_ID_MAX;
	memset(map.build_id, 0xab, sizeof(map.build_id));
	pd_write_map(w, &map);
	pd_write_map(w, &map);
	/* Another file of the same name, without a build-id. */
	map.build_id_size = 0;
	pd_write_map(w, &map);
	for (uint32_t i = 0; i < THREADS; i++) {
		struct pd_aux aux = { 0,       TRACE_SIZE - i, PD_AUX_RAW | (i == 2 ? PD_AUX_OVERWRITE : 0),
				      PID,     PID + i,        UINT32_MAX,
				      5000 + i };

		pd_write_task(w, &(struct pd_task){ PID, PID, PID + i, PID, false, 1010 });
		pd_write_itrace_start(w, PID, PID + i, UINT32_MAX, 1010);
		pd_write_aux(w, &aux);
		pd_write_task(w, &(struct pd_task){ PID, PID, PID + i, PID, true, 6000 });
	}
	for (uint32_t i = 0; i < THREADS; i++) {
		struct pd_buffer buffer = {
			.size = TRACE_SIZE - i, .reference = i + 1, .index = i, .tid = PID + i, .cpu = UINT32_MAX
		};

		pd_write_buffer(w, &buffer);
		pd_write_bytes(w, trace + i, 100);
		pd_write_bytes(w, trace + i + 100, TRACE_SIZE - i - 100);
	}
	rc = pd_write_end(w);
	pd_writer_free(w);
	return rc;
}

static void test_round_trip(int fd)
{
	const struct pd_contents *c = NULL;
	struct pd_problem problem;
	struct pd_file *f = NULL;
	uint8_t got[TRACE_SIZE];

	if (!CHECK_EQ(pd_open(fd, &f, &c, &problem), 0)) {
		printf("# %s at %" PRIu64 "\n", problem.cause, problem.offset);
		return;
	}
	CHECK(c->damage.cause == NULL);
	CHECK_EQ(c->n_cpus, 1);
	CHECK_EQ(c->cpus[0].magic, PD_MAGIC_ETMV4);
	CHECK_EQ(c->cpus[0].n_params, 7);
	CHECK_EQ(c->cpus[0].params[6], 0xcc);
	CHECK_EQ(c->pmu_type, 8);
	CHECK_STR(c->version, PACKAGE_STRING);
	CHECK_EQ(c->n_comms, 1);
	CHECK(c->comms[0].exec && c->comms[0].tid == PID && c->comms[0].time == 1000);
	CHECK_STR(c->comms[0].name, "prog");
	CHECK_EQ(c->n_maps, 4);
	CHECK_STR(c->maps[0].path, "/bin/prog");
	CHECK(c->maps[0].inode == 77 && c->maps[0].build_id_size == 0 && c->maps[0].time == 1005);
	CHECK(c->maps[1].build_id_size == 20 && c->maps[1].build_id[19] == 0xab && c->maps[1].addr == 0x400000);
	CHECK_EQ(strlen(c->maps[1].path), 65);
	CHECK_STR(c->maps[3].path, c->maps[1].path);
	CHECK(c->maps[3].inode == 77 && c->maps[3].build_id_size == 0);
	CHECK_EQ(c->n_tasks, 2 * THREADS);
	CHECK_EQ(c->n_pieces, THREADS);
	for (uint32_t i = 0; i < THREADS && i < c->n_pieces; i++) {
		const struct pd_piece *p = &c->pieces[i];

		CHECK(p->tid == PID + i && p->cpu == UINT32_MAX && p->index == i && p->origin.pid == PID);
		CHECK_EQ(p->size, TRACE_SIZE - i);
		CHECK(p->offset == 0 && p->lost == 0 && p->flags & PD_AUX_RAW);
		CHECK_EQ(pd_read(f, p, 0, got, sizeof(got)), TRACE_SIZE - i);
		CHECK(memcmp(got, trace + i, TRACE_SIZE - i) == 0);
		CHECK_EQ(pd_read(f, p, TRACE_SIZE - 10, got, sizeof(got)), 10 - i);
	}
	pd_close(f);
}

/* Reads all contents and up to 64 blocks of each piece. Returns 0 or the error of pd_open(). */
static int survey(int fd, uint64_t *ret_bytes, bool *ret_damage)
{
	const struct pd_contents *c;
	struct pd_problem problem;
	struct pd_file *f;
	uint8_t bytes[4096];
	uint64_t seen = 0, names = 0;
	int rc = pd_open(fd, &f, &c, &problem);

	if (rc < 0)
		return rc == -EBADMSG && !problem.cause ? -EIO : rc;
	for (size_t i = 0; i < c->n_comms; i++)
		names += strlen(c->comms[i].name);
	for (size_t i = 0; i < c->n_maps; i++)
		names += strlen(c->maps[i].path) + c->maps[i].build_id_size;
	for (size_t i = 0; i < c->n_pieces; i++) {
		ssize_t n, limit = 64;
		uint64_t at = 0;

		while (limit-- && (n = pd_read(f, &c->pieces[i], at, bytes, sizeof(bytes))) > 0)
			at += (uint64_t)n;
		seen += at;
	}
	*ret_bytes = seen + (names == UINT64_MAX);
	*ret_damage = c->damage.cause != NULL;
	pd_close(f);
	return 0;
}

static int memfd_of(const void *data, size_t size)
{
	int fd = memfd_create("perfdata", MFD_CLOEXEC);

	if (fd >= 0 && io_pwrite(fd, data, size, 0) < 0)
		closep(&fd);
	return fd;
}

/* Any changed bit is reported, and removes only the trace around it. */
static void test_flipped(const uint8_t *data, size_t size, uint64_t whole)
{
	uint64_t refused = 0, cut = 0, silent = 0, odd = 0;

	for (size_t at = 0; at < size; at++) {
		_cleanup_close_ int fd = memfd_of(data, size);
		uint8_t byte = data[at] ^ (uint8_t)(1 << at % 8);
		uint64_t bytes = 0;
		bool damaged = false;
		int rc;

		odd += io_pwrite(fd, &byte, 1, (off_t)at) < 0;
		rc = survey(fd, &bytes, &damaged);
		refused += rc == -EBADMSG;
		silent += rc == 0 && !damaged;
		cut += rc == 0 && bytes < whole;
		odd += rc < 0 && rc != -EBADMSG;
		odd += rc == 0 && bytes < whole - TRACE_SIZE;
	}
	CHECK_EQ(silent, 0);
	CHECK_EQ(odd, 0);
	CHECK_EQ(cut, whole);
	CHECK(refused > 1000);
}

/* The trace of a thread after a damaged range is a separate piece. */
static void test_stretch(void)
{
	enum { SIZE = 300001, FLIPPED = 140000, SPAN = 64 << 10 };
	_cleanup_close_ int fd = memfd_create("perfdata", MFD_CLOEXEC);
	_cleanup_free_ uint8_t *bytes = calloc(1, SIZE);
	struct pd_cpu cpu = { PD_MAGIC_ETMV4, 0, 7, { 0 } };
	struct pd_aux aux = { .size = SIZE, .flags = PD_AUX_RAW, .pid = PID, .tid = PID, .cpu = UINT32_MAX };
	struct pd_buffer buffer = { .size = SIZE, .tid = PID, .cpu = UINT32_MAX };
	struct pd_session s = session(&cpu);
	const struct pd_contents *c;
	struct pd_problem problem;
	struct pd_writer *w;
	struct pd_file *f;
	uint64_t at;

	if (!CHECK_EQ(pd_write_begin(fd, &s, &w), 0))
		return;
	pd_write_aux(w, &aux);
	pd_write_buffer(w, &buffer);
	for (size_t i = 0; i < SIZE; i++)
		bytes[i] = (uint8_t)(i % 251);
	pd_write_bytes(w, bytes, SIZE);
	CHECK_EQ(pd_write_end(w), 0);
	pd_writer_free(w);
	if (!CHECK(pd_open(fd, &f, &c, &problem) == 0 && c->n_pieces == 1 && !c->damage.cause))
		return;
	at = c->pieces[0].file_offset;
	pd_close(f);
	CHECK_EQ(io_pwrite(fd, &(uint8_t){ 255 }, 1, (off_t)(at + FLIPPED)), 0);
	if (!CHECK(pd_open(fd, &f, &c, &problem) == 0 && c->n_pieces == 2 && c->damage.cause))
		return;
	CHECK_EQ(c->damage.offset, at + 2 * SPAN);
	CHECK_EQ(c->pieces[0].size, 2 * SPAN);
	CHECK_EQ(c->pieces[0].lost, SPAN);
	CHECK_EQ(c->pieces[1].offset, 3 * SPAN);
	CHECK_EQ(c->pieces[1].size, SIZE - 3 * SPAN);
	CHECK(c->pieces[1].flags & PD_AUX_PARTIAL && !(c->pieces[0].flags & PD_AUX_PARTIAL));
	CHECK_EQ(pd_read(f, &c->pieces[1], 0, bytes, SIZE), SIZE - 3 * SPAN);
	CHECK_EQ(bytes[0], 3 * SPAN % 251);
	pd_close(f);
}

/* Writes bytes [from, to) of a thread's stream, byte p being p % 251, as a slice. */
static void write_slice(struct pd_writer *w, uint32_t index, uint64_t from, uint64_t to, uint64_t flags)
{
	struct pd_aux aux = { from, to - from, PD_AUX_RAW | flags, PID, PID + index, UINT32_MAX, 1000 };
	struct pd_buffer buffer = {
		.size = to - from, .offset = from, .index = index, .tid = PID + index, .cpu = UINT32_MAX
	};

	pd_write_aux(w, &aux);
	if (flags & PD_AUX_GAP)
		return;
	pd_write_buffer(w, &buffer);
	for (uint64_t at = from; at < to; at++)
		pd_write_bytes(w, &(uint8_t){ (uint8_t)(at % 251) }, 1);
}

/* True if a piece has the bytes from its offset on, read in parts of any size. */
static bool reads_well(struct pd_file *f, const struct pd_piece *p)
{
	uint8_t bytes[1000];

	for (size_t part = 1; part <= sizeof(bytes); part += 333)
		for (uint64_t at = 0; at < p->size; at += part) {
			ssize_t n = pd_read(f, p, at, bytes, part);

			if (n != (ssize_t)MIN((uint64_t)part, p->size - at))
				return false;
			for (ssize_t i = 0; i < n; i++)
				if (bytes[i] != (uint8_t)((p->offset + at + (uint64_t)i) % 251))
					return false;
		}
	return true;
}

static struct pd_writer *begin_recording(int fd)
{
	struct pd_cpu cpu = { PD_MAGIC_ETMV4, 0, 7, { 0 } };
	struct pd_session s = session(&cpu);
	struct pd_writer *w;

	s.mixed = true;
	return CHECK_EQ(pd_write_begin(fd, &s, &w), 0) ? w : NULL;
}

/* Slices of two threads in turn, with records between them; those that continue each other are one piece. */
static void test_recording(void)
{
	_cleanup_close_ int fd = memfd_create("perfdata", MFD_CLOEXEC);
	struct pd_writer *w = begin_recording(fd);
	const struct pd_contents *c;
	struct pd_problem problem;
	struct pd_file *f;
	uint64_t at;

	if (!w)
		return;
	write_slice(w, 0, 100, 1101, 0);
	write_slice(w, 1, 0, 700, 0);
	write_slice(w, 0, 1101, 1102, PD_AUX_CONTINUES);
	pd_write_comm(w, PID, PID, "prog", false, 1);
	write_slice(w, 0, 1102, 3000, PD_AUX_CONTINUES);
	write_slice(w, 0, 3000, 5000, PD_AUX_GAP);
	write_slice(w, 0, 5000, 5500, 0);
	write_slice(w, 1, 700, 1400, PD_AUX_CONTINUES);
	write_slice(w, 1, 1400, 9000, PD_AUX_GAP | 1ull << PD_AUX_INDEX_SHIFT);
	CHECK_EQ(pd_write_end(w), 0);
	pd_writer_free(w);
	if (!CHECK(pd_open(fd, &f, &c, &problem) == 0 && c->n_pieces == 5 && !c->damage.cause && c->n_comms == 1))
		return;
	CHECK(c->pieces[0].offset == 100 && c->pieces[0].size == 2900 && c->pieces[0].lost == 0);
	CHECK(c->pieces[1].offset == 3000 && c->pieces[1].size == 0 && c->pieces[1].lost == 2000);
	CHECK(c->pieces[2].offset == 5000 && c->pieces[2].size == 500);
	CHECK(c->pieces[3].index == 1 && c->pieces[3].offset == 0 && c->pieces[3].size == 1400);
	CHECK(c->pieces[4].index == 1 && c->pieces[4].offset == 1400 && c->pieces[4].lost == 7600);
	for (size_t i = 0; i < c->n_pieces; i++)
		CHECK(reads_well(f, &c->pieces[i]));
	CHECK_EQ(c->aux_unplaced, 0);
	at = c->pieces[0].file_offset;
	pd_close(f);
	/* The first slice is damaged: the others still continue each other. */
	CHECK_EQ(io_pwrite(fd, &(uint8_t){ 255 }, 1, (off_t)at + 50), 0);
	if (!CHECK(pd_open(fd, &f, &c, &problem) == 0 && c->n_pieces == 6))
		return;
	CHECK(c->pieces[0].size == 0 && c->pieces[0].lost == 1001);
	CHECK(c->pieces[1].offset == 1101 && c->pieces[1].size == 1899 && reads_well(f, &c->pieces[1]));
	pd_close(f);
}

/* A live session: the header comes first, nothing is written to a descriptor, and a reader takes it as unfinished. */
static void test_live(void)
{
	_cleanup_close_ int fd = memfd_create("perfdata", MFD_CLOEXEC);
	struct pd_cpu cpu = { PD_MAGIC_ETMV4, 0, 7, { 0 } };
	struct pd_session s = session(&cpu);
	_cleanup_buf_ struct buf first = { 0 }, all = { 0 };
	const struct pd_contents *c;
	struct pd_problem problem;
	struct pd_writer *w;
	uint64_t bytes = 0, lost = 0;
	struct pd_file *f;

	s.live = true;
	if (!CHECK_EQ(pd_write_begin(-1, &s, &w), 0))
		return;
	CHECK_EQ(pd_write_take(w, &first), 0);
	buf_add(&all, first.data, first.size);
	CHECK(first.size > 376 && memcmp(first.data, "PERFILE2", 8) == 0);
	write_slice(w, 0, 100, 1101, 0);
	write_slice(w, 1, 0, 700, 0);
	CHECK_EQ(pd_write_take(w, &all), 0);
	CHECK_EQ(pd_write_size(w), all.size);
	write_slice(w, 0, 1101, 200000, PD_AUX_CONTINUES);
	write_slice(w, 0, 200000, 210000, PD_AUX_GAP);
	write_slice(w, 0, 210000, 210500, 0);
	pd_write_task(w, &(struct pd_task){ .pid = PID, .tid = PID, .exit = true, .time = 1001 });
	write_slice(w, 1, 700, 1400, PD_AUX_CONTINUES);
	CHECK_EQ(pd_write_take(w, &all), 0);
	CHECK_EQ(pd_write_take(w, &all), 0);
	CHECK_EQ(pd_write_size(w), all.size);
	pd_writer_free(w);
	CHECK_EQ(io_pwrite(fd, all.data, all.size, 0), 0);
	if (!CHECK_EQ(pd_open(fd, &f, &c, &problem), 0))
		return;
	CHECK_STR(c->damage.cause, "the recording was not finished");
	CHECK_EQ(c->n_cpus, 1);
	CHECK_EQ(c->n_pieces, 4);
	for (size_t n = 0; n < c->n_pieces; n++) {
		CHECK(reads_well(f, &c->pieces[n]));
		bytes += c->pieces[n].size;
		lost += c->pieces[n].lost;
	}
	CHECK_EQ(bytes, 199900 + 1400 + 500);
	CHECK_EQ(lost, 10000);
	pd_close(f);
}

/* Threads that had one thread ID, one after the other: each piece has the bytes of its own thread. */
static void test_reused_id(void)
{
	_cleanup_close_ int fd = memfd_create("perfdata", MFD_CLOEXEC);
	static const uint64_t ends[][2] = { { 3000, 5000 }, { 1000, 1500 }, { 3000, 3100 }, { 1000, 3000 } };
	struct pd_writer *w = begin_recording(fd);
	const struct pd_contents *c;
	struct pd_problem problem;
	struct pd_file *f;
	uint8_t byte;

	if (!w)
		return;
	for (uint32_t n = 0; n < ELEMENTS(ends); n++)
		for (unsigned i = 0; i < 2; i++) {
			uint64_t from = i ? ends[n][0] : 0, to = ends[n][i];
			struct pd_aux aux = { from,       to - from, PD_AUX_RAW | (i ? PD_AUX_CONTINUES : 0), PID, PID,
					      UINT32_MAX, 1000 + n };
			struct pd_buffer buffer = {
				.size = to - from, .offset = from, .index = n, .tid = PID, .cpu = UINT32_MAX
			};

			pd_write_aux(w, &aux);
			pd_write_buffer(w, &buffer);
			for (uint64_t at = from; at < to; at++)
				pd_write_bytes(w, &(uint8_t){ (uint8_t)n }, 1);
		}
	CHECK_EQ(pd_write_end(w), 0);
	pd_writer_free(w);
	if (!CHECK_EQ(pd_open(fd, &f, &c, &problem), 0))
		return;
	CHECK_EQ(c->aux_unplaced, 0);
	CHECK_EQ(c->n_pieces, ELEMENTS(ends));
	for (size_t i = 0; i < c->n_pieces; i++) {
		const struct pd_piece *p = &c->pieces[i];

		CHECK_EQ(p->index, i);
		CHECK_EQ(p->size, ends[i % ELEMENTS(ends)][1]);
		for (uint64_t at = 0; at < p->size; at += 50)
			CHECK(pd_read(f, p, at, &byte, 1) == 1 && byte == p->index);
	}
	pd_close(f);
}

static void test_cut(const uint8_t *data, size_t size, uint64_t whole)
{
	uint64_t least = 0, silent = 0, odd = 0;

	for (size_t cut = 0; cut < size; cut++) {
		_cleanup_close_ int fd = memfd_of(data, cut);
		uint64_t bytes = 0;
		bool damaged = false;
		int rc = survey(fd, &bytes, &damaged);

		silent += rc == 0 && !damaged;
		odd += rc < 0 && rc != -EBADMSG;
		if (rc == 0 && bytes < least)
			odd++;
		if (rc == 0)
			least = bytes;
	}
	CHECK_EQ(odd, 0);
	CHECK_EQ(silent, 0);
	CHECK(least == whole);
}

static void test_garbled(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size);
	uint32_t seed = 1;
	unsigned odd = 0;

	for (unsigned round = 0; round < 6000; round++) {
		uint64_t bytes;
		bool damaged;
		int rc;

		memcpy(copy, data, size);
		for (unsigned i = 0; i <= round % 3; i++) {
			seed = seed * 1103515245 + 12345;
			/* Mostly in headers and records, not in trace. */
			copy[(seed >> 8) % (round % 4 ? MIN(size, (size_t)1600) : size)] =
			    (uint8_t)(round % 5 ? seed >> 24 : 0xff);
		}
		_cleanup_close_ int fd = memfd_of(copy, size);
		rc = survey(fd, &bytes, &damaged);
		if (rc < 0 && rc != -EBADMSG && rc != -ENOMEM)
			odd++;
	}
	CHECK_EQ(odd, 0);
	free(copy);
}

static void test_repeated_and_unplaced(void)
{
	_cleanup_close_ int fd = memfd_create("perfdata", MFD_CLOEXEC);
	struct pd_cpu cpu = { PD_MAGIC_ETMV4, 0, 7, { 0 } };
	struct pd_session s = session(&cpu);
	struct pd_buffer buffer = { .size = 64, .offset = 4096, .reference = 1, .tid = 7, .cpu = UINT32_MAX };
	struct pd_aux aux = { 4096, 16, 0, 7, 7, UINT32_MAX, 10 };
	const struct pd_contents *c;
	struct pd_problem problem;
	struct pd_writer *w;
	struct pd_file *f;

	CHECK_EQ(pd_write_begin(fd, &s, &w), 0);
	pd_write_aux(w, &aux);
	aux.offset += 16;
	pd_write_aux(w, &aux);
	pd_write_aux(w, &aux);
	aux.offset += 40; /* exceeds the buffer */
	pd_write_aux(w, &aux);
	aux.offset = 4096;
	aux.tid = 8; /* a thread without a buffer */
	pd_write_aux(w, &aux);
	pd_write_buffer(w, &buffer);
	pd_write_bytes(w, trace, 64);
	CHECK_EQ(pd_write_end(w), 0);
	pd_writer_free(w);
	if (!CHECK_EQ(pd_open(fd, &f, &c, &problem), 0))
		return;
	CHECK_EQ(c->aux_records, 5);
	CHECK_EQ(c->aux_repeated, 1);
	CHECK_EQ(c->aux_unplaced, 2);
	CHECK_EQ(c->n_pieces, 2);
	CHECK(c->pieces[0].offset == 4096 && c->pieces[1].offset == 4112 && c->pieces[1].size == 16);
	pd_close(f);
}

static void test_writer_errors(void)
{
	_cleanup_close_ int fd = memfd_create("perfdata", MFD_CLOEXEC), full = open("/dev/full", O_RDWR | O_CLOEXEC);
	struct pd_cpu cpu = { PD_MAGIC_ETMV4, 0, 7, { 0 } };
	struct pd_session s = session(&cpu);
	struct pd_buffer buffer = { .size = 8, .reference = 1, .tid = 7, .cpu = UINT32_MAX };
	struct pd_writer *w;

	CHECK_EQ(pd_write_begin(fd, &s, &w), 0);
	pd_write_buffer(w, &buffer);
	pd_write_bytes(w, trace, 7);
	CHECK_EQ(pd_write_end(w), -EINVAL);
	pd_writer_free(w);
	CHECK_EQ(write_sample(full), -ENOSPC);
}

/* Files written by perf, if they are available. */
static void test_corpus(const char *name, size_t pieces, uint32_t cpus, uint64_t version, bool raw)
{
	const char *corpus = getenv("CSIGHT_CORPUS"), *top = getenv("top_srcdir");
	_cleanup_close_ int fd = -1;
	const struct pd_contents *c;
	struct pd_problem problem;
	struct pd_file *f;
	char path[4096];
	size_t placed = 0;

	if (corpus)
		snprintf(path, sizeof(path), "%s/perfdata/%s", corpus, name);
	else
		snprintf(path, sizeof(path), "%s/../shared/corpus/perfdata/%s", top ? top : ".", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		unit_skip(name, "no corpus here (CSIGHT_CORPUS)");
		return;
	}
	if (!CHECK_EQ(pd_open(fd, &f, &c, &problem), 0))
		return;
	CHECK(c->damage.cause == NULL);
	CHECK_EQ(c->n_pieces, pieces);
	CHECK_EQ(c->n_cpus, cpus);
	CHECK_EQ(c->metadata_version, version);
	CHECK_EQ(c->aux_unplaced, 0);
	for (size_t i = 0; i < c->n_pieces; i++)
		placed += c->pieces[i].lost == 0 && !(c->pieces[i].flags & PD_AUX_RAW) == !raw;
	CHECK_EQ(placed, pieces);
	pd_close(f);
}

/* "unit-perfdata FILE" writes the sample to FILE, to be checked with other readers. */
/* As many spans as a long recording of many small slices has: one wrong byte is found. */
static void test_many_spans(void)
{
	enum { SPANS = (1 << 20) + 5, AT = SPANS - 7 };
	_cleanup_close_ int fd = memfd_create("sums", MFD_CLOEXEC);
	_cleanup_buf_ struct buf file = { 0 }, damaged = { 0 };
	struct sums sums = { 0 };

	for (uint32_t i = 0; i < SPANS; i++) {
		buf_u8(&file, (uint8_t)i);
		sums_add(&sums, file.data + i, 1);
		sums_cut(&sums, i % 2);
	}
	sums_end(&sums, SPANS, &file);
	file.data[AT] ^= 1;
	CHECK_EQ(io_pwrite(fd, file.data, file.size, 0), 0);
	CHECK_EQ(sums_check(fd, file.size, &damaged), 1);
	if (CHECK_EQ(damaged.size, sizeof(struct stretch)))
		CHECK_EQ(((const struct stretch *)damaged.data)->from, AT);
	buf_done(&sums.spans);
}

int main(int argc, char **argv)
{
	_cleanup_close_ int fd = argc == 2 ? open(argv[1], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)
					   : memfd_create("perfdata", MFD_CLOEXEC);
	uint64_t whole = 0, end;
	bool damaged = true;
	size_t size;
	uint8_t *data;

	/* A-sync, trace info, then atoms with some trace-on packets among them. */
	for (size_t i = 0; i < sizeof(trace); i++)
		trace[i] = i < 11 ? 0 : i == 11 ? 0x80 : i == 12 ? 1 : i == 13 ? 0 : i % 251 ? 0xf7 : 0x04;
	CHECK_EQ(write_sample(fd), 0);
	if (argc == 2)
		return unit_end();
	test_round_trip(fd);
	CHECK(survey(fd, &whole, &damaged) == 0 && !damaged);
	CHECK_EQ(whole, 3 * TRACE_SIZE - 3);
	size = (size_t)lseek(fd, 0, SEEK_END);
	data = malloc(size);
	CHECK_EQ(pread(fd, data, size, 0), size);
	test_cut(data, size, whole);
	test_flipped(data, size, whole);
	test_stretch();
	test_many_spans();
	test_recording();
	test_live();
	test_reused_id();
	/* A file without checksums may yield wrong contents, but must not crash the reader. */
	memcpy(&end, data + size - SUMS_END, sizeof(end));
	test_garbled(data, (size_t)end);
	free(data);
	test_repeated_and_unplaced();
	test_writer_errors();
	test_corpus("perf_etm.data", 4, 8, 1, false);
	test_corpus("vm-etr.data", 2, 2, 1, false);
	test_corpus("vm-trbe.data", 3, 2, 1, true);
	return unit_end();
}
