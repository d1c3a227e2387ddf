/* SPDX-License-Identifier: MIT */
/* lib/perfdata: files that only perf writes: compressed records, other metadata, several CPUs, perf's own snapshots. */
#include "config.h"

#include <sys/mman.h>
#include <zstd.h>

#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/perfdata/format.h"
#include "lib/perfdata/read.h"
#include "tests/unit.h"

enum { SAMPLE = PD_SAMPLE_TID | PD_SAMPLE_TIME | PD_SAMPLE_CPU | PD_SAMPLE_IDENTIFIER, ID = 9, PD_HEADS_SAME = 4096 };

static void patch64(struct buf *b, size_t at, uint64_t v)
{
	memcpy(b->data + at, &v, 8);
}

static size_t begin(struct buf *b, uint32_t type, uint16_t misc)
{
	size_t at = b->size;

	buf_u32(b, type);
	buf_u16(b, misc);
	buf_u16(b, 0);
	return at;
}

static void end(struct buf *b, size_t at)
{
	uint16_t size = (uint16_t)(b->size - at);

	memcpy(b->data + at + 6, &size, 2);
}

static void end_by(struct buf *b, size_t at, uint32_t tid, uint32_t cpu, uint64_t time)
{
	buf_u32(b, tid);
	buf_u32(b, tid);
	buf_u64(b, time);
	buf_u32(b, cpu);
	buf_u32(b, 0);
	buf_u64(b, ID);
	end(b, at);
}

static void comm(struct buf *b, uint32_t tid, uint64_t time)
{
	size_t at = begin(b, PD_REC_COMM, 0);

	buf_u32(b, tid);
	buf_u32(b, tid);
	buf_add(b, "named\0\0", 8);
	end_by(b, at, tid, 0, time);
}

static uint64_t aux_time = 100;

static void aux(struct buf *b, uint64_t offset, uint64_t size, uint64_t flags, uint32_t tid, uint32_t cpu)
{
	size_t at = begin(b, PD_REC_AUX, 0);

	buf_u64(b, offset);
	buf_u64(b, size);
	buf_u64(b, flags);
	end_by(b, at, tid, cpu, aux_time);
}

static void aux_at(struct buf *b, uint64_t time, uint64_t offset, uint64_t size, uint64_t flags, uint32_t tid,
		   uint32_t cpu)
{
	aux_time = time;
	aux(b, offset, size, flags, tid, cpu);
	aux_time = 100;
}

static void hw_id(struct buf *b, uint64_t value, uint32_t cpu)
{
	size_t at = begin(b, PD_REC_AUX_OUTPUT_HW_ID, 0);

	buf_u64(b, value);
	end_by(b, at, 7, cpu, 50);
}

static void info(struct buf *b, uint64_t version, uint32_t cpus)
{
	size_t at = begin(b, PD_REC_AUXTRACE_INFO, 0);

	buf_u32(b, PD_AUXTRACE_CS_ETM);
	buf_u32(b, 0);
	buf_u64(b, version);
	buf_u64(b, (uint64_t)8 << 32 | cpus);
	buf_u64(b, 0);
	for (uint32_t i = 0; i < cpus; i++) {
		/* Later versions may have more parameters than are known here, and unknown trace sources. */
		uint64_t params = version == 0 ? 7 : 9 + i;

		buf_u64(b, version >= 2 && i == 1 ? 0x6060606060606060 : PD_MAGIC_ETMV4);
		buf_u64(b, i);
		if (version > 0)
			buf_u64(b, params);
		for (uint64_t p = 0; p < params; p++)
			buf_u64(b, p == 1 && version >= 2 ? 0x80000010 + 2 * i : 0x100 * i + p);
	}
	end(b, at);
}

static void buffer(struct buf *b, uint64_t size, uint64_t offset, uint32_t tid, uint32_t cpu)
{
	size_t at = begin(b, PD_REC_AUXTRACE, 0);

	buf_u64(b, size);
	buf_u64(b, offset);
	buf_u64(b, b->size);
	buf_u32(b, 0);
	buf_u32(b, tid);
	buf_u32(b, cpu);
	buf_u32(b, 0);
	end(b, at);
	buf_zero(b, size);
}

/* Writes a complete file with these records. */
static int file_of(const struct buf *records)
{
	_cleanup_buf_ struct buf b = { 0 };
	int fd = memfd_create("kinds", MFD_CLOEXEC);

	buf_u64(&b, PD_MAGIC);
	buf_u64(&b, PD_HEADER_SIZE);
	buf_u64(&b, PD_ATTR_SIZE_MIN + 16);
	buf_u64(&b, PD_HEADER_SIZE + 8);
	buf_u64(&b, PD_ATTR_SIZE_MIN + 16);
	buf_u64(&b, 0);
	buf_u64(&b, records->size);
	buf_zero(&b, PD_HEADER_SIZE - b.size);
	buf_u64(&b, ID);
	buf_u32(&b, 8);
	buf_u32(&b, PD_ATTR_SIZE_MIN);
	buf_u64(&b, 0);
	buf_u64(&b, 1);
	buf_u64(&b, SAMPLE);
	buf_u64(&b, 0);
	buf_u64(&b, PD_ATTR_SAMPLE_ID_ALL);
	buf_zero(&b, 16);
	buf_u64(&b, PD_HEADER_SIZE);
	buf_u64(&b, 8);
	patch64(&b, 40, b.size);
	buf_add(&b, records->data, records->size);
	CHECK_EQ(io_pwrite(fd, b.data, b.size, 0), 0);
	return fd;
}

static struct pd_file *open_file(const struct buf *records, const struct pd_contents **ret)
{
	struct pd_problem problem = { 0 };
	struct pd_file *f = NULL;
	static int fds[16], n;
	int rc;

	fds[n] = file_of(records);
	rc = pd_open(fds[n++], &f, ret, &problem);
	if (!CHECK_EQ(rc, 0))
		printf("# %s at %" PRIu64 "\n", problem.cause ? problem.cause : "-", problem.offset);
	return f;
}

static void test_metadata(uint64_t version, uint32_t cpus)
{
	_cleanup_buf_ struct buf b = { 0 };
	const struct pd_contents *c;
	struct pd_file *f;

	info(&b, version, cpus);
	hw_id(&b, 0x0100000000000a21, 2);
	f = open_file(&b, &c);
	if (!f)
		return;
	CHECK(c->damage.cause == NULL);
	CHECK_EQ(c->metadata_version, version);
	CHECK_EQ(c->n_cpus, cpus);
	for (size_t i = 0; i < c->n_cpus && i < cpus; i++) {
		CHECK_EQ(c->cpus[i].cpu, i);
		CHECK_EQ(c->cpus[i].n_params, version == 0 ? 7 : MIN(9 + i, (size_t)PD_PARAMS_MAX));
		CHECK_EQ(c->cpus[i].params[6], 0x100 * i + 6);
	}
	CHECK(c->n_hw_ids == 1 && c->hw_ids[0].value == 0x0100000000000a21 && c->hw_ids[0].origin.cpu == 2);
	CHECK(c->first_time == 50 && c->last_time == 50);
	pd_close(f);
}

/* Compresses records as one zstd stream, cut into parts of a fixed size. */
static void add_compressed(struct buf *to, const struct buf *records, size_t part, bool newer)
{
	ZSTD_CStream *s = ZSTD_createCStream();
	static uint8_t out[60000];

	for (size_t at = 0; at < records->size; at += part) {
		ZSTD_inBuffer in = { records->data + at, MIN(part, records->size - at), 0 };
		ZSTD_outBuffer o = { out, sizeof(out), 0 };
		size_t start = begin(to, newer ? PD_REC_COMPRESSED2 : PD_REC_COMPRESSED, 0), pad;

		CHECK_EQ(ZSTD_compressStream2(s, &o, &in, ZSTD_e_flush), 0);
		if (newer)
			buf_u64(to, o.pos);
		buf_add(to, out, o.pos);
		pad = newer ? ALIGN8(to->size) - to->size : 0;
		buf_zero(to, pad);
		end(to, start);
	}
	ZSTD_freeCStream(s);
}

static void test_compressed(size_t part, bool newer)
{
	_cleanup_buf_ struct buf b = { 0 }, inner = { 0 };
	const struct pd_contents *c;
	struct pd_file *f;

	for (uint32_t i = 0; i < 5000; i++)
		comm(&inner, 100 + i, 1000 + i);
	aux(&inner, 0, 32, 0, 7, 0);
	info(&b, 1, 1);
	add_compressed(&b, &inner, part, newer);
	buffer(&b, 32, 0, 7, UINT32_MAX);
	f = open_file(&b, &c);
	if (!f)
		return;
	CHECK(c->damage.cause == NULL);
	CHECK_EQ(c->n_comms, 5000);
	CHECK(c->n_comms == 5000 && c->comms[4999].tid == 5099 && c->comms[4999].time == 5999);
	CHECK(c->n_pieces == 1 && c->pieces[0].size == 32);
	pd_close(f);
}

static void test_garbled_stream(void)
{
	_cleanup_buf_ struct buf b = { 0 };
	const struct pd_contents *c;
	struct pd_file *f;
	size_t at;

	info(&b, 1, 1);
	at = begin(&b, PD_REC_COMPRESSED, 0);
	buf_add(&b, "this is no zstd stream at all", 29);
	end(&b, at);
	comm(&b, 7, 10);
	aux(&b, 0, 32, PD_AUX_RAW, 7, 0);
	buffer(&b, 32, 0, 7, UINT32_MAX);
	f = open_file(&b, &c);
	if (!f)
		return;
	CHECK(c->damage.cause && strstr(c->damage.cause, "compressed"));
	CHECK(c->n_comms == 1 && c->n_pieces == 1);
	pd_close(f);
}

/* Compressed data must not contain compressed records or trace. */
static void test_nested(void)
{
	_cleanup_buf_ struct buf b = { 0 }, inner = { 0 }, innermost = { 0 };
	const struct pd_contents *c;
	struct pd_file *f;

	comm(&innermost, 1, 1);
	add_compressed(&inner, &innermost, 1000, false);
	buffer(&inner, 64, 0, 7, UINT32_MAX);
	info(&b, 1, 1);
	add_compressed(&b, &inner, 1000, false);
	f = open_file(&b, &c);
	if (!f)
		return;
	CHECK(c->n_comms == 0 && c->n_pieces == 0);
	pd_close(f);
}

static void test_slices(void)
{
	_cleanup_buf_ struct buf b = { 0 };
	const struct pd_contents *c;
	struct pd_file *f;

	info(&b, 1, 4);
	/* Slices of CPU 2's buffer, by several threads; one is empty, and one reports lost trace. */
	aux(&b, 1000, 100, 0, 7, 2);
	aux(&b, 1100, 0, 0, 8, 2);
	aux(&b, 1100, 0, PD_AUX_TRUNCATED, 8, 2);
	aux(&b, 1100, 60, PD_AUX_TRUNCATED, 8, 2);
	/* A snapshot of CPU 3: offsets are ends of slices, and the beginning of the oldest slice was overwritten. */
	aux(&b, 5008, 128, PD_AUX_OVERWRITE, 9, 3);
	aux(&b, 5072, 64, PD_AUX_OVERWRITE, 9, 3);
	aux(&b, 4000, 128, PD_AUX_OVERWRITE, 9, 3);
	buffer(&b, 256, 1000, UINT32_MAX, 2);
	buffer(&b, 128, 4944, UINT32_MAX, 3);
	f = open_file(&b, &c);
	if (!f)
		return;
	CHECK_EQ(c->aux_records, 7);
	CHECK(c->aux_empty == 2 && c->aux_empty_lost == 1);
	CHECK_EQ(c->aux_unplaced, 1);
	if (CHECK_EQ(c->n_pieces, 4)) {
		const struct pd_piece *p = c->pieces;

		CHECK(p[0].cpu == 2 && p[0].offset == 1000 && p[0].size == 100 && p[0].origin.tid == 7);
		CHECK(p[1].cpu == 2 && p[1].offset == 1100 && p[1].size == 60 && p[1].flags & PD_AUX_TRUNCATED);
		/* The slice is 4880 to 5008, of which the buffer has the part from 4944 on. */
		CHECK(p[2].cpu == 3 && p[2].offset == 4944 && p[2].size == 64 && p[2].flags & PD_AUX_PARTIAL);
		CHECK(p[2].file_offset + 64 == p[3].file_offset);
		CHECK(p[3].offset == 5008 && p[3].size == 64 && !(p[3].flags & PD_AUX_PARTIAL));
	}
	pd_close(f);
}

static void test_losses(void)
{
	_cleanup_buf_ struct buf b = { 0 };
	const struct pd_contents *c;
	enum pd_loss_kind kind;
	struct pd_file *f;
	size_t at;

	info(&b, 1, 3);
	/* CPU 0: after the slice of thread 8 is one without a record. */
	aux_at(&b, 10, 0, 64, PD_AUX_RAW, 7, 0);
	aux_at(&b, 20, 64, 64, PD_AUX_RAW, 8, 0);
	aux_at(&b, 40, 192, 64, PD_AUX_RAW, 7, 0);
	/* CPU 1: the sink of thread 7 stops at 50, and works again in the slice that ends at 90. */
	aux_at(&b, 50, 0, 64, PD_AUX_RAW | PD_AUX_TRUNCATED, 7, 1);
	aux_at(&b, 70, 64, 64, PD_AUX_RAW, 8, 1);
	aux_at(&b, 90, 128, 64, PD_AUX_RAW, 7, 1);
	/* Thread 9 was refused its sink and never ran there again. Tracing was stopped after 100. */
	aux_at(&b, 95, 192, 0, PD_AUX_TRUNCATED, 9, 1);
	aux_at(&b, 100, 100, 0, PD_AUX_TRUNCATED | PD_AUX_PARTIAL, UINT32_MAX, UINT32_MAX);
	/* It was stopped between 130 and 140, on one CPU after the other. */
	aux_at(&b, 140, 130, 0, PD_AUX_PARTIAL, UINT32_MAX, UINT32_MAX);
	/* CPU 2: records were lost after its only slice. */
	aux_at(&b, 110, 0, 64, PD_AUX_RAW, 10, 2);
	at = begin(&b, PD_REC_LOST, 0);
	buf_u64(&b, 0);
	buf_u64(&b, 3);
	end_by(&b, at, 0, 2, 120);
	for (uint32_t cpu = 0; cpu < 3; cpu++)
		buffer(&b, 256, 0, UINT32_MAX, cpu);
	f = open_file(&b, &c);
	if (!f)
		return;
	CHECK(!pd_lost_between(c, 7, 0, 10, &kind) && !pd_lost_between(c, 8, 10, 20, &kind));
	CHECK(pd_lost_between(c, 7, 10, 40, &kind) && kind == PD_LOSS_RECORDS);
	CHECK(pd_lost_between(c, 10, 30, 35, &kind) && kind == PD_LOSS_RECORDS);
	CHECK(!pd_lost_between(c, 7, 40, 50, &kind) && !pd_lost_between(c, 8, 40, 70, &kind));
	CHECK(pd_lost_between(c, 7, 50, 90, &kind) && kind == PD_LOSS_TRUNCATED);
	CHECK(pd_lost_between(c, 7, 60, 65, &kind) && !pd_lost_between(c, 7, 90, 99, &kind));
	CHECK(!pd_lost_between(c, 9, 80, 95, &kind) && pd_lost_between(c, 9, 95, 99, &kind));
	CHECK(pd_lost_between(c, 9, 150, 200, &kind) && kind == PD_LOSS_TRUNCATED);
	CHECK(pd_lost_between(c, 8, 70, 105, &kind) && kind == PD_LOSS_PAUSED);
	CHECK(!pd_lost_between(c, 8, 101, 110, &kind));
	CHECK(pd_lost_between(c, 8, 101, 115, &kind) && kind == PD_LOSS_RECORDS &&
	      !pd_lost_between(c, 8, 120, 130, &kind));
	CHECK(pd_lost_between(c, 8, 132, 135, &kind) && kind == PD_LOSS_PAUSED);
	CHECK(!pd_lost_between(c, 8, 140, 150, &kind));
	/* On a CPU whose slices hold any thread, the truncated slice may have begun at any time. */
	CHECK(pd_lost_anywhere(c, 5, 8, &kind) && pd_lost_anywhere(c, 60, 65, &kind));
	/* A sink that fails may report it after the thread has run. */
	CHECK(pd_lost_anywhere(c, 91, 93, &kind));
	CHECK_EQ(c->aux_empty_lost, 1);
	pd_close(f);
}

static void map(struct buf *b, uint32_t pid, uint64_t address, uint32_t prot, uint64_t time)
{
	size_t at = begin(b, PD_REC_MMAP2, 0);

	buf_u32(b, pid);
	buf_u32(b, pid);
	buf_u64(b, address);
	buf_u64(b, 0x1000);
	buf_zero(b, 8 + 4 + 4 + 8 + 8);
	buf_u32(b, prot);
	buf_u32(b, 2);
	buf_add(b, "/a/file", 8);
	end_by(b, at, pid, 0, time);
}

static void fork_of(struct buf *b, uint32_t pid, uint32_t parent, uint64_t time)
{
	size_t at = begin(b, PD_REC_FORK, 0);

	buf_u32(b, pid);
	buf_u32(b, parent);
	buf_u32(b, pid);
	buf_u32(b, parent);
	buf_u64(b, time);
	end_by(b, at, pid, 0, time);
}

static void test_inherited(void)
{
	_cleanup_buf_ struct buf b = { 0 };
	const struct pd_contents *c;
	struct pd_file *f;

	info(&b, 1, 1);
	map(&b, 10, 0x1000, PROT_READ | PROT_EXEC, 1);
	map(&b, 10, 0x2000, PROT_READ, 2);
	map(&b, 10 + PD_HEADS_SAME, 0x7000, PROT_EXEC, 2);
	map(&b, 10, 0x3000, PROT_EXEC, 3);
	fork_of(&b, 20, 10, 5);
	map(&b, 10, 0x4000, PROT_EXEC, 6); /* after the fork of 20, before the next one */
	map(&b, 20, 0x5000, PROT_EXEC, 7);
	fork_of(&b, 30, 20, 8);
	fork_of(&b, 40, 10, 9);
	f = open_file(&b, &c);
	if (!f)
		return;
	if (CHECK_EQ(c->n_maps, 6 + 2 + 3 + 3)) {
		const struct pd_map *m = c->maps;

		CHECK(m[6].pid == 20 && m[6].addr == 0x1000 && m[6].time == 5 && strcmp(m[6].path, "/a/file") == 0);
		CHECK(m[7].pid == 20 && m[7].addr == 0x3000 && m[7].time == 5);
		CHECK(m[8].pid == 30 && m[8].addr == 0x1000 && m[10].pid == 30 && m[10].addr == 0x5000);
		CHECK(m[11].pid == 40 && m[13].pid == 40 && m[13].addr == 0x4000);
	}
	pd_close(f);
}

/* The records of two CPUs: what a fork is later than, or earlier than, may come behind it in the file or before it. */
static void test_inherited_by_time(void)
{
	_cleanup_buf_ struct buf b = { 0 };
	const struct pd_contents *c;
	struct pd_file *f;

	info(&b, 1, 1);
	map(&b, 10, 0x9000, PROT_EXEC, 20);
	fork_of(&b, 20, 10, 5);
	map(&b, 10, 0x1000, PROT_EXEC, 3);
	f = open_file(&b, &c);
	if (!f)
		return;
	if (CHECK_EQ(c->n_maps, 2 + 1))
		CHECK(c->maps[2].pid == 20 && c->maps[2].addr == 0x1000 && c->maps[2].time == 5);
	pd_close(f);
}

int main(void)
{
	test_inherited();
	test_inherited_by_time();
	test_metadata(0, 3);
	test_metadata(1, 1);
	test_metadata(2, 3);
	test_metadata(3, 12);
	test_compressed(1000, false);
	test_compressed(333, true);
	test_compressed(200000, true);
	test_garbled_stream();
	test_nested();
	test_slices();
	test_losses();
	return unit_end();
}
