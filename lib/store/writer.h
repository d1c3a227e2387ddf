/* What write.c (events) and tables.c (the end of the file) share. */
#ifndef CSIGHT_STORE_WRITER_H
#define CSIGHT_STORE_WRITER_H

#include "lib/base/buf.h"
#include "lib/base/hash.h"
#include "lib/base/texts.h"
#include "lib/store/format.h"
#include "lib/store/histogram.h"
#include "lib/store/store.h"

enum { BLOCK_BYTES = 64 << 10 };

#define NO_SITE STORE_NO_SITE

struct writer_function {
	uint32_t name, image, file, line, build_id;
	uint64_t address, offset;
	uint32_t kind;
	uint64_t calls, total_ns, self_ns, total_instructions, self_instructions;
	uint64_t longest_ns, longest_enter, shortest_ns;
	uint32_t longest_thread;
	struct histogram times; /* of whole calls */
};

/* Where an inlined function is called. */
struct writer_site {
	uint32_t function, file, line;
};

struct writer_frame {
	uint32_t function;
	uint32_t site; /* NO_SITE: it is not inlined */
	uint64_t enter, instructions;
	uint8_t kind;
	bool root;
};

/* What one thread's stack holds of a function, so that recursion counts its time once. */
struct writer_use {
	uint32_t active;
	uint32_t last_block; /* the block in which it was left last, from 1 on */
	uint32_t segment;    /* in which the next two hold */
	uint64_t ns, instructions;
};

/* A region, or an inlined function at its place, that an event named lately. */
struct writer_seen {
	const void *key;
	uint32_t function, site;
};

struct writer_segment {
	uint64_t time, instructions;
	uint32_t first_root, n_roots;
};

struct writer_thread {
	uint32_t index, tid, name;
	bool ended;
	uint64_t first, last, events, slices, gaps, instructions, unexplained, bound;
	uint32_t deepest;
	struct store_gaps gaps_of[STORE_GAP_KINDS];
	uint8_t gap;       /* of the last one */
	bool between;      /* it was the last event; the next one begins a segment */
	struct buf blocks; /* records */
	struct writer_segment *segments;
	size_t n_segments, cap_segments;
	uint32_t *roots;
	size_t n_roots, cap_roots;
	struct writer_frame *stack;
	size_t depth, cap_stack;
	struct writer_use *uses;
	size_t n_uses;

	struct buf block;
	uint32_t block_number; /* from 1 on */
	struct buf leaves;     /* functions that are left in it: numbers */
	size_t block_limit;
	uint64_t block_time, block_slices, block_bound, block_segments;
	uint32_t block_events, block_roots;
	uint64_t time;
};

struct store_writer {
	int fd;
	uint64_t offset;
	size_t named_threads, named_functions, named_sites; /* their names are in the file */
	struct buf meta;
	struct texts strings;
	struct writer_function *functions;
	size_t n_functions, cap_functions;
	struct writer_site *sites;
	size_t n_sites, cap_sites;
	struct writer_seen seen[8192]; /* by key, the last one of each place */
	struct hash regions;           /* functions, by what events name them by */
	struct hash inlined_functions; /* those that are: by name, image, file and line */
	struct hash inlined_instances; /* sites, by what events name them by */
	struct hash site_places;       /* sites, by function, file and line */
	struct writer_thread **threads;
	size_t n_threads, cap_threads;
};

/* Appends to the file. */
int store_append(struct store_writer *w, const void *data, size_t size);

/* A text with its NUL. */
void chunk_put_text(struct buf *b, const char *text);

/* Appends a chunk, of which the last left bytes are the list behind it; t: of a block, else NULL. */
int chunk_append(struct store_writer *w, enum store_chunk_type type, const struct buf *chunk, uint32_t left,
		 const struct writer_thread *t);

/* Appends the names that the next block needs. */
int chunk_append_names(struct store_writer *w);

/* What an event names, which is known from then on. */
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
