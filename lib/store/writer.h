/* SPDX-License-Identifier: MIT */
/* What write.c (events) and write-tables.c (the end of the file) share. */
#ifndef CSIGHT_STORE_WRITER_H
#define CSIGHT_STORE_WRITER_H

#include "lib/base/buf.h"
#include "lib/base/hash.h"
#include "lib/base/texts.h"
#include "lib/notes/notes.h"
#include "lib/store/cut-calls.h"
#include "lib/store/format.h"
#include "lib/store/histogram.h"
#include "lib/store/store.h"

enum { BLOCK_BYTES = 64 << 10 };

#define NO_SITE STORE_NO_SITE

struct writer_function {
	uint32_t name, image, file, line, build_id;
	uint64_t address, offset;
	uint32_t kind;
	bool calls_uncertain;
	uint64_t resumed; /* pieces of calls of an inlined function */
	uint64_t calls, total_ns, self_ns, wait_ns, total_instructions, self_instructions;
	uint64_t longest_ns, longest_enter, shortest_ns;
	uint32_t longest_thread;
	struct histogram times; /* of whole calls */
};

/* A place where an inlined function is called. */
struct writer_site {
	uint32_t function, file, line;
};

struct writer_frame {
	uint32_t function;
	uint32_t site; /* NO_SITE: not inlined */
	uint64_t enter, instructions, waited;
	uint8_t kind;
	bool root;
};

/* State of a function in one thread's stack, so that the totals count the time of recursive calls once. */
struct writer_use {
	uint32_t active;
	uint32_t last_block; /* number of the last block that has a leave of it, from 1 on */
	uint32_t segment;    /* the segment that ns and instructions belong to */
	bool called;         /* inlined: the last call, of which more pieces may follow, is not in the totals yet */
	bool whole;          /* it was traced from enter to leave */
	uint64_t ns, wait_ns, instructions;
	uint64_t call_ns, call_enter; /* of that call: duration of its pieces, and when it began */
};

/* Cache entry: the numbers of a region or of an inlined instance. */
struct writer_seen {
	const void *key;
	uint32_t function, site;
};

struct writer_segment {
	uint64_t time, instructions, waited;
	uint32_t first_root, n_roots;
	uint32_t marks;     /* MARK_WAS_UNCERTAIN so far */
	uint32_t uncertain; /* marks before the last root; later marks concern no frame of the segment */
	bool again;         /* it has begun with a stack that the thread has left before */
};

/* Marks of a note so far, of one thread. */
struct writer_marks {
	unsigned n;
	uint64_t index, time;
};

struct writer_note {
	uint32_t tid, label;
	enum store_note_kind kind;
	uint64_t time, until;
	int64_t value;
};

struct writer_notes;

struct writer_thread {
	uint32_t index, tid, name;
	bool ended;
	bool cut; /* it has SEGMENTS_MAX segments, and what follows is left out; only the time of the last event is kept
		   */
	uint64_t first, last, events, slices, gaps, instructions, unexplained, bound;
	uint64_t waited; /* time so far in which the thread did not run */
	uint32_t deepest;
	struct store_gaps gaps_of[STORE_GAP_KINDS];
	uint8_t gap_kind;  /* kind of the last gap */
	bool again;        /* the next frame is the first of a segment, which has begun so */
	bool after_gap;    /* the last event was a gap; the next one must begin a segment */
	struct buf blocks; /* records of BLOCKS */
	struct writer_segment *segments;
	size_t n_segments, cap_segments;
	uint32_t *roots;
	size_t n_roots, cap_roots;
	struct writer_frame *stack;
	size_t depth, cap_stack;
	struct writer_use *uses;
	size_t n_uses;
	struct cut_calls cut_calls;

	struct buf block;
	uint32_t block_number; /* from 1 on */
	struct buf leaves;     /* numbers of the functions left in the block */
	size_t block_limit;
	uint64_t block_time, block_slices, block_bound, block_segments;
	uint32_t block_events, block_roots;
	uint32_t splits; /* blocks that ended where times began or ceased to be known */
	uint64_t time;
	struct writer_marks marks;
};

struct store_writer {
	int fd;
	uint64_t offset;
	size_t named_threads, named_functions, named_sites; /* number of those whose names are in the file */
	struct buf meta;
	struct texts strings;
	struct writer_function *functions;
	size_t n_functions, cap_functions;
	struct writer_site *sites;
	size_t n_sites, cap_sites;
	struct writer_seen seen[8192]; /* indexed by a hash of the key */
	struct hash regions;           /* function numbers by struct region pointer */
	struct hash inlined_functions; /* function numbers of inlined functions by name, image, file and line */
	struct hash file_functions;    /* function numbers of others by name, text in files, and offset */
	struct texts files;            /* the numbers of an image and of its build-id */
	struct hash inlined_instances; /* site numbers by struct inlined pointer */
	struct hash site_places;       /* site numbers by function, file and line */
	struct writer_notes *sought;   /* of the program; or NULL */
	size_t n_sought;
	uint32_t mark_function;    /* its number; UINT32_MAX: unknown */
	struct writer_note *notes; /* that are placed */
	size_t n_notes, cap_notes;
	struct writer_thread **threads;
	size_t n_threads, cap_threads;
};

/* Appends to the file. */
int store_append(struct store_writer *w, const void *data, size_t size);

/* Adds a text and its NUL. */
void chunk_put_text(struct buf *b, const char *text);

/* The checksums of a chunk: of its events, and of its list of functions. */
struct chunk_sums {
	uint32_t events, leaves;
};

/*
 * Appends a chunk; its last leaves_size bytes are the list of functions. t: the thread of a block, else NULL. *ret,
 * unless ret is NULL: its checksums.
 */
int chunk_append(struct store_writer *w, enum store_chunk_type type, const struct buf *chunk, uint32_t leaves_size,
		 const struct writer_thread *t, struct chunk_sums *ret);

/* Appends a chunk with the names that are new since the last one. */
int chunk_append_names(struct store_writer *w);

/* notes.c: the writer reports each function that gets a number; the one whose calls mark notes is remembered. */
void store_notes_function(struct store_writer *w, uint32_t function, const char *name);

/* The writer reports that a call of that function has ended, which may be a mark. */
void store_notes_mark(struct store_writer *w, struct writer_thread *t, uint64_t enter, uint64_t instructions);

/* After all events: makes the notes with their places in the trace. -ENOMEM. */
int store_place_notes(struct store_writer *w);

/* Finds the numbers of what an event refers to, and assigns new ones where it is new. */
int numbering_find(struct store_writer *w, const struct region *function, const struct inlined *inlined,
		   struct writer_seen *ret);

static inline int numbering_frame(struct store_writer *w, const struct region *function, const struct inlined *inlined,
				  struct writer_frame *f)
{
	const void *key = inlined ? (const void *)inlined : function;
	struct writer_seen *seen = &w->seen[(uintptr_t)key / sizeof(struct inlined) % ELEMENTS(w->seen)];
	int rc = key && seen->key == key ? 0 : numbering_find(w, function, inlined, seen);

	f->function = seen->function;
	f->site = seen->site;
	return rc;
}

#endif
