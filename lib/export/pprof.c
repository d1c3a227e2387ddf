/* SPDX-License-Identifier: MIT */
/*
 * pprof's format: a gzipped protobuf of samples, each a stack (innermost first) with its calls, and the nanoseconds and
 * instructions in the stack itself and in nothing that it called. Field numbers are those of pprof's profile.proto.
 * Each function is one location, with the function's address.
 */
#include <stdlib.h>
#include <zlib.h>

#include "lib/base/array.h"
#include "lib/base/io.h"
#include "lib/export/protobuf.h"
#include "lib/export/stacks.h"

enum {
	PROFILE_SAMPLE_TYPE = FIELD(1, WIRE_BYTES),
	PROFILE_SAMPLE = FIELD(2, WIRE_BYTES),
	PROFILE_MAPPING = FIELD(3, WIRE_BYTES),
	PROFILE_LOCATION = FIELD(4, WIRE_BYTES),
	PROFILE_FUNCTION = FIELD(5, WIRE_BYTES),
	PROFILE_STRING = FIELD(6, WIRE_BYTES),
	PROFILE_TIME = FIELD(9, WIRE_VARINT),
	PROFILE_DURATION = FIELD(10, WIRE_VARINT),
	PROFILE_DEFAULT_TYPE = FIELD(14, WIRE_VARINT),

	TYPE_TYPE = FIELD(1, WIRE_VARINT),
	TYPE_UNIT = FIELD(2, WIRE_VARINT),

	SAMPLE_LOCATIONS = FIELD(1, WIRE_BYTES),
	SAMPLE_VALUES = FIELD(2, WIRE_BYTES),
	SAMPLE_LABEL = FIELD(3, WIRE_BYTES),
	LABEL_KEY = FIELD(1, WIRE_VARINT),
	LABEL_TEXT = FIELD(2, WIRE_VARINT),
	LABEL_NUMBER = FIELD(3, WIRE_VARINT),

	MAPPING_ID = FIELD(1, WIRE_VARINT),
	MAPPING_FILE = FIELD(5, WIRE_VARINT),
	MAPPING_HAS_FUNCTIONS = FIELD(7, WIRE_VARINT),

	LOCATION_ID = FIELD(1, WIRE_VARINT),
	LOCATION_MAPPING = FIELD(2, WIRE_VARINT),
	LOCATION_ADDRESS = FIELD(3, WIRE_VARINT),
	LOCATION_LINE = FIELD(4, WIRE_BYTES),
	LINE_FUNCTION = FIELD(1, WIRE_VARINT),

	FUNCTION_ID = FIELD(1, WIRE_VARINT),
	FUNCTION_NAME = FIELD(2, WIRE_VARINT),
	FUNCTION_SYSTEM_NAME = FIELD(3, WIRE_VARINT),
};

/* Strings are referred to by number; these are the first ones. */
static const char *const strings[] = { "", "calls", "count", "time", "nanoseconds", "instructions", "thread", "tid" };
enum {
	STRING_CALLS = 1,
	STRING_COUNT,
	STRING_TIME,
	STRING_NANOSECONDS,
	STRING_INSTRUCTIONS,
	STRING_THREAD,
	STRING_TID
};

enum { GZIP_WINDOW = 15 + 16, GZIP_MEMORY = 8, PIECE = 64 << 10 };

struct pprof_writer {
	int fd;
	z_stream gzip;
	bool open;
	struct buf buf, part, inner;
	const char **files; /* mapping N is of files[N - 1] */
	size_t n_files, cap_files;
	uint64_t n_strings;
};

static int pprof_flush(struct pprof_writer *w, int flush)
{
	static const size_t piece = PIECE;
	uint8_t *packed = malloc(piece);
	int rc = packed ? buf_error(&w->buf) : -ENOMEM;

	w->gzip.next_in = w->buf.data;
	w->gzip.avail_in = (unsigned)w->buf.size;
	do {
		w->gzip.next_out = packed;
		w->gzip.avail_out = (unsigned)piece;
		if (rc == 0 && deflate(&w->gzip, flush) == Z_STREAM_ERROR)
			rc = -EIO;
		if (rc == 0)
			rc = io_write(w->fd, packed, piece - w->gzip.avail_out);
	} while (rc == 0 && w->gzip.avail_out == 0);
	buf_clear(&w->buf);
	free(packed);
	return rc;
}

static int pprof_flush_if_full(struct pprof_writer *w)
{
	return w->buf.size >= PIECE || buf_error(&w->buf) ? pprof_flush(w, Z_NO_FLUSH) : 0;
}

static uint64_t put_string(struct pprof_writer *w, const char *text)
{
	put_text(&w->buf, PROFILE_STRING, text);
	return w->n_strings++;
}

/* Adds the part as a field and clears it. */
static void put_part(struct buf *into, unsigned field, struct buf *part)
{
	put_bytes(into, field, part->data, part->size);
	buf_clear(part);
}

static void put_type(struct pprof_writer *w, uint64_t type, uint64_t unit)
{
	put_number(&w->part, TYPE_TYPE, type);
	put_number(&w->part, TYPE_UNIT, unit);
	put_part(&w->buf, PROFILE_SAMPLE_TYPE, &w->part);
}

static void put_head(struct pprof_writer *w, const struct store *s, const struct export_result *result)
{
	uint64_t time = store_meta_number(s, "realtime"), frozen = store_meta_number(s, "monotonic");

	for (size_t i = 0; i < ELEMENTS(strings); i++)
		put_string(w, strings[i]);
	put_type(w, STRING_CALLS, STRING_COUNT);
	put_type(w, STRING_INSTRUCTIONS, STRING_COUNT);
	put_type(w, STRING_TIME, STRING_NANOSECONDS);
	if (time && frozen)
		put_number(&w->buf, PROFILE_TIME, time - (frozen - MIN(result->since, frozen)));
	put_number(&w->buf, PROFILE_DURATION, result->until - result->since);
	put_number(&w->buf, PROFILE_DEFAULT_TYPE, STRING_TIME);
}

/* Finds the number of a file's mapping; writes the mapping if it is new. */
static int mapping_of(struct pprof_writer *w, const char *file, uint64_t *ret)
{
	uint64_t name;

	for (size_t i = w->n_files; i-- > 0;)
		if (strcmp(w->files[i], file) == 0) {
			*ret = i + 1;
			return 0;
		}
	if (array_reserve(w->files, w->n_files, &w->cap_files) < 0)
		return -ENOMEM;
	w->files[w->n_files++] = file;
	*ret = w->n_files;
	name = put_string(w, file);
	put_number(&w->part, MAPPING_ID, *ret);
	put_number(&w->part, MAPPING_FILE, name);
	put_number(&w->part, MAPPING_HAS_FUNCTIONS, 1);
	put_part(&w->buf, PROFILE_MAPPING, &w->part);
	return 0;
}

/* Function N of the store is function and location N + 1. */
static int put_function(struct pprof_writer *w, const struct store_function *f, uint64_t id)
{
	uint64_t mapping = 0, name = put_string(w, f->name);
	int rc = f->image && *f->image ? mapping_of(w, f->image, &mapping) : 0;

	if (rc < 0)
		return rc;
	put_number(&w->part, FUNCTION_ID, id);
	put_number(&w->part, FUNCTION_NAME, name);
	put_number(&w->part, FUNCTION_SYSTEM_NAME, name);
	put_part(&w->buf, PROFILE_FUNCTION, &w->part);
	put_number(&w->inner, LINE_FUNCTION, id);
	put_number(&w->part, LOCATION_ID, id);
	if (mapping)
		put_number(&w->part, LOCATION_MAPPING, mapping);
	put_number(&w->part, LOCATION_ADDRESS, f->address);
	put_part(&w->part, LOCATION_LINE, &w->inner);
	put_part(&w->buf, PROFILE_LOCATION, &w->part);
	return pprof_flush_if_full(w);
}

static int put_sample(struct pprof_writer *w, const struct stacks *stacks, int32_t node, uint64_t name, uint32_t tid)
{
	const struct stacks_node *n = &stacks->nodes[node];

	for (int32_t i = node; i != STACKS_NONE; i = stacks->nodes[i].parent)
		buf_varint(&w->inner, stacks->nodes[i].function + 1);
	put_part(&w->part, SAMPLE_LOCATIONS, &w->inner);
	buf_varint(&w->inner, n->calls);
	buf_varint(&w->inner, n->self_instructions);
	buf_varint(&w->inner, n->self_ns);
	put_part(&w->part, SAMPLE_VALUES, &w->inner);
	put_number(&w->inner, LABEL_KEY, STRING_THREAD);
	put_number(&w->inner, LABEL_TEXT, name);
	put_part(&w->part, SAMPLE_LABEL, &w->inner);
	put_number(&w->inner, LABEL_KEY, STRING_TID);
	put_number(&w->inner, LABEL_NUMBER, tid);
	put_part(&w->part, SAMPLE_LABEL, &w->inner);
	put_part(&w->buf, PROFILE_SAMPLE, &w->part);
	return pprof_flush_if_full(w);
}

static int put_thread(struct pprof_writer *w, const struct store_thread *t, const struct stacks *stacks)
{
	uint64_t name = put_string(w, t->name);
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < stacks->n_nodes; i++)
		rc = put_sample(w, stacks, (int32_t)i, name, t->tid);
	return rc;
}

static void pprof_writer_done(struct pprof_writer *w)
{
	if (w->open)
		deflateEnd(&w->gzip);
	buf_done(&w->buf);
	buf_done(&w->part);
	buf_done(&w->inner);
	free(w->files);
}

static int pprof_write(const struct store *s, int fd, const struct export_options *o, struct export_result *ret)
{
	_cleanup_(stacks_done) struct stacks stacks = { 0 };
	_cleanup_(pprof_writer_done) struct pprof_writer w = { .fd = fd };
	struct export_walk walk;
	int rc = 0;

	if (deflateInit2(&w.gzip, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, GZIP_MEMORY, Z_DEFAULT_STRATEGY) !=
	    Z_OK)
		return -ENOMEM;
	w.open = true;
	walk_begin(&walk, s, o, ret);
	put_head(&w, s, ret);
	for (size_t i = 0; rc == 0 && i < store_functions(s); i++)
		rc = put_function(&w, store_function(s, i), i + 1);
	for (size_t i = 0; rc == 0 && i < store_threads(s); i++) {
		if (!walk_wants(&walk, store_thread(s, i)))
			continue;
		rc = stacks_fold(&stacks, &walk, i, STACKS_DEPTH_MAX);
		if (rc == 0)
			rc = put_thread(&w, store_thread(s, i), &stacks);
		ret->slices += stacks.slices;
		ret->gaps += stacks.n_gaps;
	}
	if (rc == 0)
		rc = buf_error(&w.part) ? buf_error(&w.part) : buf_error(&w.inner);
	return rc < 0 ? rc : pprof_flush(&w, Z_FINISH);
}

const struct export_ops export_pprof = { "pprof", ".pb.gz", "for pprof: calls, instructions and time", pprof_write };
