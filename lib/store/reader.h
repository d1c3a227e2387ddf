/* SPDX-License-Identifier: MIT */
/* What read.c (tables) and iter.c (events) share. */
#ifndef CSIGHT_STORE_READER_H
#define CSIGHT_STORE_READER_H

#include "lib/base/reader.h"
#include "lib/store/format.h"
#include "lib/store/store.h"

struct stored_block {
	uint64_t offset, first, last, slices, bound, segments;
	uint32_t size, events, roots, leaves_size;
	uint32_t checksum, leaves_checksum;
};

struct stored_segment {
	uint64_t time, instructions, waited, first_root;
	uint32_t n_roots;
	/* the stack is uncertain from the beginning up to the MARK_WAS_UNCERTAIN with this number, the first being 1 */
	uint32_t uncertain;
	uint32_t flags;
};

struct stored_thread {
	struct store_thread shown;
	uint64_t first_block, n_blocks, first_segment, n_segments;
};

struct stored_section {
	uint32_t record;
	uint64_t offset, size;
	uint32_t checksum;
};

/* What store_merge_clones() made of a function. */
struct merged_function {
	uint32_t function; /* the function that stands for it */
	bool piece;        /* a part that the compiler split off */
};

struct store {
	int fd;
	uint32_t version;
	const struct store_layout *layout; /* of this version */
	uint64_t size;
	struct stored_section sections[SECTION_TYPES];
	char *meta, *strings;
	size_t meta_size, strings_size; /* without the NUL added in memory */
	struct store_function *functions;
	size_t n_functions;
	struct store_site *sites;
	size_t n_sites;
	struct stored_thread *threads;
	size_t n_threads;
	struct stored_block *blocks;
	size_t n_blocks;
	struct stored_segment *segments;
	size_t n_segments;
	uint32_t *roots;
	size_t n_roots;
	struct store_note *notes;
	size_t n_notes;
	struct merged_function *merged; /* by function; NULL: clones are not merged */
};

/* Reads exactly size bytes of the file. */
int store_read_at(const struct store *s, uint64_t offset, void *ret, size_t size);

/* As store_read_at(), but -EBADMSG where the checksum differs. */
int store_read_checked(const struct store *s, uint64_t offset, void *ret, size_t size, uint32_t checksum);

/*
 * Reads the header and checks magic and version: -EBADMSG if the file is not a store, -EPROTONOSUPPORT. *ret_rest reads
 * the rest of the header.
 */
int store_read_header(struct store *s, struct reader *ret_rest, uint8_t bytes[STORE_HEADER_SIZE]);

/* Returns all values of META. */
struct store_meta store_meta_all(const struct store *s);

/* Returns the kind of call in the present version: where a tail call replaced its caller, there is none to nest it in.
 */
static inline uint8_t store_kind_now(const struct store_layout *l, uint8_t kind)
{
	return kind == CALL_TAIL && !l->nested ? CALL_PLAIN : kind;
}

/* An event as it is encoded in a block. */
struct written_event {
	enum store_code code;
	uint64_t time, instructions; /* since the event before */
	uint64_t value;              /* operand of the code, or 0 */
};

int store_read_event(struct reader *r, struct written_event *ret);

/* Writes events of a store to another one: the writer, and the functions and sites of the store as it knows them. */
struct store_rewriter {
	struct store_writer *writer;
	struct region *functions;
	struct inlined *sites;
};

/* The store must outlive the rewriter. Call store_rewriter_done() even if this fails. */
int store_rewriter_init(struct store_rewriter *r, const struct store *s, const struct store_meta *meta, int to);
/* Initializes a rewriter with the writer of another one, which the caller takes back from r->writer before
 * store_rewriter_done(). */
int store_rewriter_share(struct store_rewriter *r, const struct store *s, struct store_writer *writer);
void store_rewriter_done(struct store_rewriter *r);

/* Writes an event with kind, time, instructions and bound of *at; f: its frame, or NULL. */
int store_rewriter_put(const struct store_rewriter *r, uint32_t thread, enum call_event_type type,
		       const struct store_event *at, const struct store_frame *f);

/* Records how the processes of a store ended. Returns 0. */
int store_rewriter_put_endings(const struct store_rewriter *r, const struct store *s);

/* Records the processes of a store, whose threads are written in their order. */
void store_rewriter_put_processes(const struct store_rewriter *r, const struct store *s);

#endif
