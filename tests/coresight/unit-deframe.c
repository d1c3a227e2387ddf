/* SPDX-License-Identifier: MIT */
/* lib/coresight/deframe: frames made by hand, input in parts of any size, and real buffers compared with OpenCSD. */
#include <fcntl.h>
#include <stdlib.h>

#include <opencsd/c_api/opencsd_c_api.h>

#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/coresight/deframe.h"
#include "tests/unit.h"

enum { IDS = 256, BUFFER_MAX = 4 << 20 };

/* The output: the bytes of each source, and the runs as text. */
struct out {
	struct buf bytes[IDS];
	struct buf runs; /* "ID@OFFSET:SIZE " or "reset@OFFSET " */
	size_t stop;     /* the number of runs after which the sink fails; 0: never */
};

static int on_run(void *user, const struct deframe_run *r)
{
	struct out *o = user;

	if (r->reset)
		buf_printf(&o->runs, "reset@%" PRIu64 " ", r->offset);
	else
		buf_printf(&o->runs, "%x@%" PRIu64 ":%zu ", r->id, r->offset, r->size);
	if (!r->reset)
		buf_add(&o->bytes[r->id], r->data, r->size);
	return o->stop && --o->stop == 0 ? -ECANCELED : 0;
}

static void out_done(struct out *o)
{
	for (size_t i = 0; i < IDS; i++)
		buf_done(&o->bytes[i]);
	buf_done(&o->runs);
}

static struct deframe deframer;

static int deframe(struct out *o, const void *data, size_t size, size_t chunk)
{
	const struct deframe_sink sink = { on_run, o };
	int rc = 0;

	deframe_init(&deframer, &sink);
	for (size_t at = 0; rc == 0 && at < size; at += chunk)
		rc = deframe_push(&deframer, (const uint8_t *)data + at, MIN(chunk, size - at));
	return rc;
}

static const char *runs(const void *data, size_t size)
{
	static char text[512];
	struct out o = { 0 };

	CHECK_EQ(deframe(&o, data, size, size), 0);
	snprintf(text, sizeof(text), "%.*s", (int)o.runs.size, (const char *)o.runs.data);
	out_done(&o);
	return text;
}

/* Bit i of the last byte belongs to byte 2i: the lowest bit of data, or the delay of an ID by one byte. */
static void test_by_hand(void)
{
	static const uint8_t change[16] = { 0x21, 0xaa, 0xbe, 0xcc, 0xdc, 0xee, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0x86 };
	static const uint8_t delayed[32] = {
		0x21, 1,  2, 3, 4, 5, 6, 7, 0x23, 9, 10, 11, 12, 13, 14,   0x10, /* 0x11 after the 9 */
		16,   17, 2, 3, 4, 5, 6, 7, 8,    9, 10, 11, 12, 13, 0x25, 0x00, /* 0x12 in its last byte */
	};
	static const uint8_t back[16] = { 0x21, 1, 0x23, 3, 0x21, 5, 0x01, 7, 8, 9, 10, 11, 12, 13, 14, 0x04 };
	static const uint8_t plain[16] = { 2, 1, 4, 3, 6, 5, 8, 7, 10, 9, 12, 11, 14, 13, 16, 0xff };
	static const uint8_t fsyncs[16] = { 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0x7f,
					    0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0x7f };
	static const uint8_t got_wanted[14] = { 0xaa, 0xbf, 0xcc, 0xdd, 0xee, 2, 3, 4, 5, 6, 7, 8, 9, 11 };
	uint8_t all[64];
	struct out o = { 0 };

	CHECK_STR(runs(change, 16), "10@0:14 ");
	deframe(&o, change, 16, 16);
	CHECK(o.bytes[0x10].size == 14 && memcmp(o.bytes[0x10].data, got_wanted, 14) == 0);
	out_done(&o);
	CHECK_STR(runs(delayed, 32), "10@0:8 11@0:19 ");
	CHECK_STR(runs(delayed, 31), "10@0:8 11@0:5 ");
	CHECK_STR(runs(back, 16), "10@0:1 11@0:2 0@0:8 ");
	CHECK_STR(runs(plain, 16), "ff@0:15 ");
	memcpy(all, change, 16);
	memcpy(all + 16, plain, 16);
	memcpy(all + 32, fsyncs, 16);
	memcpy(all + 48, plain, 16);
	CHECK_STR(runs(all, 64), "10@0:29 reset@32 ff@48:15 ");
	/* Three FSYNCs are ordinary data. */
	all[47] = 0x7e;
	CHECK(!strstr(runs(all, 64), "reset"));
}

static void test_stopped(void)
{
	static const uint8_t frame[16] = { 0x21, 1, 0x23, 3, 0x25, 5, 0x27, 7 };
	struct out o = { .stop = 2 };

	CHECK_EQ(deframe(&o, frame, 16, 16), -ECANCELED);
	out_done(&o);
}

static bool same_bytes(const struct out *a, const struct out *b)
{
	for (size_t i = 0; i < IDS; i++)
		if (a->bytes[i].size != b->bytes[i].size ||
		    (a->bytes[i].size && memcmp(a->bytes[i].data, b->bytes[i].data, a->bytes[i].size) != 0))
			return false;
	return true;
}

/* Frames with some changes of source, more than fit in the arena. */
static size_t make_frames(uint8_t *to, size_t frames)
{
	uint32_t random = 12345;

	for (size_t i = 0; i < frames * 16; i++) {
		random = random * 1664525 + 1013904223;
		to[i] = (uint8_t)(random >> 24);
		if (i % 2 == 0 && random >> 8 & 31)
			to[i] &= 0xfe;
	}
	return frames * 16;
}

static void test_chunks(void)
{
	static const size_t sizes[] = { 1, 2, 7, 15, 17, 31, 4093, 65536 };
	uint8_t *frames = malloc(200000);
	size_t size = make_frames(frames, 10000) + 9;
	struct out whole = { 0 };

	deframe(&whole, frames, size, size);
	for (size_t i = 0; i < ELEMENTS(sizes); i++) {
		struct out o = { 0 };

		deframe(&o, frames, size, sizes[i]);
		CHECK(same_bytes(&whole, &o));
		out_done(&o);
	}
	out_done(&whole);
	free(frames);
}

/* An OpenCSD packet processor that only stores its input. */
static struct out reference;

static ocsd_datapath_resp_t take_bytes(const void *handle, const ocsd_datapath_op_t op, const ocsd_trc_index_t index,
				       const uint32_t size, const uint8_t *data, uint32_t *ret_used)
{
	if (op == OCSD_OP_DATA) {
		buf_add((struct buf *)handle, data, size);
		*ret_used = size;
	}
	return OCSD_RESP_CONT;
}

static void no_monitor(const void *handle, const int flags)
{
}

static ocsd_err_t create(const int flags, const void *config, const ocsd_extern_dcd_cb_fns *library,
			 ocsd_extern_dcd_inst_t *ret)
{
	const uint8_t *id = config;

	ret->fn_data_in = take_bytes;
	ret->fn_update_pkt_mon = no_monitor;
	ret->decoder_handle = &reference.bytes[*id];
	ret->p_decoder_name = (char *)"keeper";
	ret->cs_id = *id;
	return OCSD_OK;
}

static ocsd_err_t destroy(const void *handle)
{
	return OCSD_OK;
}

static ocsd_err_t id_of(const void *config, unsigned char *ret)
{
	*ret = *(const uint8_t *)config;
	return OCSD_OK;
}

static ocsd_err_t no_text(const void *packet, char *ret, const int size)
{
	return OCSD_OK;
}

static bool deframe_opencsd(const uint8_t *data, size_t size)
{
	dcd_tree_handle_t tree = ocsd_create_dcd_tree(OCSD_TRC_SRC_FRAME_FORMATTED,
						      OCSD_DFRMTR_FRAME_MEM_ALIGN | OCSD_DFRMTR_RESET_ON_4X_FSYNC);
	uint32_t used = 0;
	bool good = tree;

	for (unsigned i = 1; good && i <= DEFRAME_ID_MAX; i++) {
		uint8_t config = (uint8_t)i, id;

		good = ocsd_dt_create_decoder(tree, "keeper", OCSD_CREATE_FLG_FULL_DECODER, &config, &id) == OCSD_OK;
	}
	good = good && ocsd_dt_process_data(tree, OCSD_OP_DATA, 0, (uint32_t)size, data, &used) == OCSD_RESP_CONT;
	if (tree)
		ocsd_destroy_dcd_tree(tree);
	return good && used == size;
}

static bool same_as_opencsd(const uint8_t *data, size_t size)
{
	struct out ours = { 0 };
	bool same = deframe_opencsd(data, size);

	deframe(&ours, data, size, size);
	buf_clear(&ours.bytes[0]);
	for (size_t i = DEFRAME_ID_MAX + 1; i < IDS; i++)
		buf_clear(&ours.bytes[i]);
	same = same && same_bytes(&ours, &reference);
	out_done(&ours);
	out_done(&reference);
	reference = (struct out){ 0 };
	return same;
}

static void test_opencsd(void)
{
	static ocsd_extern_dcd_fact_t factory = { create, destroy, id_of, no_text, 0 };
	const char *top = getenv("top_srcdir"), *corpus = getenv("CSIGHT_CORPUS");
	static const char *const files[] = { "TC2/cstrace.bin",         "Snowball/cstrace.bin",
					     "juno_r1_1/cstrace.bin",   "juno-uname-002/trace.bin",
					     "stm_only/cstraceitm.bin", "bugfix-exact-match/cstrace.bin" };
	uint8_t *frames = malloc(200000);
	char dir[4096];

	ocsd_def_errlog_init(OCSD_ERR_SEV_NONE, 0);
	CHECK_EQ(ocsd_register_custom_decoder("keeper", &factory), OCSD_OK);
	CHECK(same_as_opencsd(frames, make_frames(frames, 10000)));
	free(frames);
	if (corpus)
		snprintf(dir, sizeof(dir), "%s", corpus);
	else
		snprintf(dir, sizeof(dir), "%s/../shared/corpus", top ? top : ".");
	for (size_t i = 0; i < ELEMENTS(files); i++) {
		_cleanup_free_ char *data = NULL;
		char path[8192];
		size_t size = 0;

		snprintf(path, sizeof(path), "%s/snapshots/%s", dir, files[i]);
		if (io_read_file(AT_FDCWD, path, BUFFER_MAX, &data, &size) < 0)
			unit_skip(files[i], "the corpus is not available");
		else
			unit_check(same_as_opencsd((uint8_t *)data, size), __FILE__, __LINE__,
				   "%s: the same bytes as OpenCSD's deframer", files[i]);
	}
}

static int count_run(void *user, const struct deframe_run *r)
{
	*(uint64_t *)user += r->size;
	return 0;
}

/* "unit-deframe FILE" measures the speed on a file. */
static int measure(const char *path)
{
	_cleanup_free_ char *data = NULL;
	uint64_t best = UINT64_MAX, bytes = 0;
	const struct deframe_sink sink = { count_run, &bytes };
	size_t size;

	if (io_read_file(AT_FDCWD, path, BUFFER_MAX, &data, &size) < 0)
		return 1;
	for (unsigned i = 0; i < 100; i++) {
		uint64_t started = now_ns(CLOCK_MONOTONIC);

		deframe_init(&deframer, &sink);
		deframe_push(&deframer, data, size);
		best = MIN(best, now_ns(CLOCK_MONOTONIC) - started);
	}
	printf("%s: %.0f MB/s\n", path, (double)size * 1e3 / (double)best);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2)
		return measure(argv[1]);
	test_by_hand();
	test_stopped();
	test_chunks();
	test_opencsd();
	return unit_end();
}
