/*
 * The store: one file a decode, from which everything is shown and exported.
 *
 * Little-endian. A header, blocks of events as they came, then sections of fixed records; the header, written last, has
 * the section table's place. A section has a type, an offset, a size and a record size: a reader takes the part of each
 * record that it knows and passes over sections that it does not know, so later indexes fit in. All has checksums.
 * lib/store/format.h has the records, and csight-formats(5) tells others.
 */
#ifndef CSIGHT_STORE_H
#define CSIGHT_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/calls/calls.h"

/* Writing. The descriptor must be seekable and empty; it stays the caller's. Memory does not grow with the trace. */
struct store_writer;

struct store_meta {
	uint32_t pid;
	const char *program; /* its name */
	const char *source;  /* what was decoded: "emu", "perf.data" */
	const char *id;      /* of the snapshot; NULL: none */
	const char *clock;   /* of its times: "monotonic", "perf" (the kernel's own), "counter"; NULL: not known */
	uint64_t realtime, monotonic; /* both clocks at the freeze; 0: not known, or times are of neither */
};

int store_create(int fd, const struct store_meta *meta, struct store_writer **ret);

/* Threads may be written one after another or in turns; the number handed out names the thread to store_event(). */
int store_thread_add(struct store_writer *w, uint32_t tid, const char *name, uint32_t *ret_thread);

/* The events of one thread come in the order that lib/calls gives them. */
int store_event(struct store_writer *w, uint32_t thread, const struct call_event *e);

/* The thread has ended; NULL counts where there are none. */
int store_thread_end(struct store_writer *w, uint32_t thread, const struct calls_counts *counts);

/* Completes the file; without it no reader takes it. */
int store_finish(struct store_writer *w);
struct store_writer *store_writer_free(struct store_writer *w);

static inline void store_writer_freep(struct store_writer **w)
{
	store_writer_free(*w);
}

/* A calls_sink for one thread of a writer; to must stay where it is while the sink is in use. */
struct store_to {
	struct store_writer *writer;
	uint32_t thread;
};

struct calls_sink store_sink(struct store_to *to);

/* Reading. A store is hostile: -EBADMSG is the answer to anything that is not as it should be. */
struct store;

/*
 * Reads the tables; the descriptor stays the caller's and must stay open. -EPROTONOSUPPORT: another version's.
 * -ENODATA: it was never finished, is cut, or its tables are damaged; store_recover() makes another one of what is
 * whole.
 */
int store_open(int fd, struct store **ret);

/* Writes a store of what another's first whole chunks have to an empty file; they end at *ret_end. Errors as above. */
int store_recover(int fd, int to, uint64_t *ret_end);
struct store *store_close(struct store *s);

static inline void store_closep(struct store **s)
{
	store_close(*s);
}

/* A value of the store's own description: pid, program, source, id, clock, realtime, monotonic; NULL: absent. */
const char *store_meta(const struct store *s, const char *key);
uint64_t store_meta_number(const struct store *s, const char *key);

/* A time of the store's on CLOCK_REALTIME; 0: not known. */
uint64_t store_realtime(const struct store *s, uint64_t time);

/* There are fewer kinds; whatever a file says, kind % STORE_GAP_KINDS is one. */
enum { STORE_GAP_KINDS = 8 };

struct store_gaps {
	uint64_t n, ns; /* how long they last; one at the end does not */
};

struct store_thread {
	uint32_t tid;
	const char *name;
	uint64_t first, last; /* ns */
	uint64_t events, slices, gaps, instructions;
	uint64_t unexplained; /* returns and jumps that fitted nothing */
	uint64_t bound;       /* the worst of its times may be off by as much */
	uint32_t deepest;
	struct store_gaps gaps_of[STORE_GAP_KINDS];
};

/*
 * How much of a thread is known, in hundredths of a percent: the part of its time that is no gap, less the share of
 * jumps that nothing explained. SIZE_MAX: of all threads, by their time.
 */
unsigned store_quality(const struct store *s, size_t thread);

size_t store_threads(const struct store *s);
const struct store_thread *store_thread(const struct store *s, size_t index);

/* Sums over all threads. A frame open at a gap or an end counts with what was seen of it. */
struct store_function {
	const char *name, *image;
	const char *file; /* of its source, with the line that it is declared in; "": not known */
	uint32_t line;
	const char *build_id; /* of the image, in hexadecimal; "": not known */
	uint64_t offset;      /* of the function in the image */
	uint64_t address;
	enum region_kind kind;
	uint64_t calls;
	uint64_t total_ns, self_ns; /* total: recursive calls counted once */
	uint64_t total_instructions, self_instructions;
	uint64_t longest_ns, longest_enter;
	uint32_t longest_thread; /* index */
	/* Of those calls that were seen whole; the two in the middle to within 4 %. */
	uint64_t whole;
	uint64_t shortest_ns, median_ns, p99_ns;
};

size_t store_functions(const struct store *s);
const struct store_function *store_function(const struct store *s, size_t index);

struct store_name {
	const char *name; /* NULL: what it has stays */
	const char *file; /* the same, and its line */
	uint32_t line;
};

/* Writes the same store with other names of its functions, one for each, to an empty file. */
int store_rename(const struct store *s, int to, const struct store_name *names);

/* Where an inlined function is called. */
struct store_site {
	uint32_t function;
	uint32_t line;
	const char *file; /* "": not known */
};

size_t store_sites(const struct store *s);
const struct store_site *store_site(const struct store *s, size_t index);

#define STORE_NO_SITE UINT32_MAX

struct store_frame {
	uint32_t function;
	uint32_t site; /* STORE_NO_SITE: it is not inlined */
	uint8_t kind;  /* enum call_kind */
	uint64_t enter;
	uint64_t instructions; /* of the thread, when it was entered */
};

enum store_event_type { STORE_ENTER, STORE_LEAVE, STORE_GAP, STORE_MARK };

struct store_event {
	enum store_event_type type;
	uint8_t kind; /* enum call_kind, leave_kind, gap_kind, mark_kind */
	uint64_t time;
	uint64_t instructions;
	uint32_t depth;           /* of the frame entered or left; 0: outermost */
	struct store_frame frame; /* enter, leave */
	uint64_t until;           /* gap: when tracing went on; the gap's own time where it never did */
};

struct store_iter;

/* Goes through the events of a thread; the store outlives it. */
int store_iter_new(const struct store *s, size_t thread, struct store_iter **ret);

/* To the first event at or after time; the stack is what was open just before it. */
int store_iter_seek(struct store_iter *it, uint64_t time);

/*
 * From here on whole stretches may be passed over in which none of these functions (a byte each, wanted where it is not
 * 0) is left: every leaving of them is told, and their frames' own beginning with it; of others only some. NULL: all is
 * told.
 */
void store_iter_only(struct store_iter *it, const uint8_t *wanted);

/* 1: an event; 0: the end. */
int store_iter_next(struct store_iter *it, struct store_event *ret);

/* What is open now, outermost first; valid until the next call. */
size_t store_iter_stack(const struct store_iter *it, const struct store_frame **ret);
struct store_iter *store_iter_free(struct store_iter *it);

static inline void store_iter_freep(struct store_iter **it)
{
	store_iter_free(*it);
}

/* The time from which on about this many slices begin before until, over all threads or one (-1: all). */
uint64_t store_last_slices(const struct store *s, int64_t tid, uint64_t until, uint64_t slices);

#endif
