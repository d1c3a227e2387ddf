/* SPDX-License-Identifier: MIT */
/*
 * The store: the indexed timeline of one decode, from which everything is shown and exported.
 *
 * Little-endian. A header, chunks of events in the order of decoding, then sections of fixed-size records. The header
 * is written last and locates the section table. An entry of the table has type, offset, size and record size: readers
 * ignore unknown section types and unknown trailing fields of records, so later versions can add indexes. Every part
 * has a checksum. csight-formats(5) describes the format.
 */
#ifndef CSIGHT_STORE_H
#define CSIGHT_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/calls/calls.h"

/*
 * Writing. The descriptor must be seekable, the file empty; the caller keeps the descriptor. Memory use does not grow
 * with the trace but for the index.
 */
struct store_writer;

/* What triggered the snapshot. Texts are borrowed. */
struct store_trigger {
	const char *condition; /* as a user wrote it; NULL: no trigger did */
	const char *function;  /* the pattern of its function, or NULL */
	uint32_t tid;          /* 0: unknown */
	uint64_t time;         /* on the store's clock: of the end of a call that was too long; 0: unknown */
	bool timed;            /* value is the call's duration, ns */
	uint64_t value;
};

struct store_meta {
	uint32_t pid;
	const char *program; /* name of the program */
	const char *source;  /* what was decoded: "emu", "perf.data" */
	const char *id;      /* of the snapshot, or NULL */
	/* of the store's times: "monotonic", "perf" (the kernel's own), "counter"; NULL: unknown */
	const char *clock;
	uint64_t realtime, monotonic; /* both clocks at the freeze; 0: unknown, or times are of neither clock */
	uint64_t unrecorded;          /* CPU time of the process before it was recorded, ns; 0: none, or unknown */
	uint64_t window;              /* ns before the freeze that were wanted, rather than all of the rings; 0: all */
	bool waits_unknown;           /* nothing says when threads did not run */
	struct store_trigger trigger;
};

int store_create(int fd, const struct store_meta *meta, struct store_writer **ret);

/*
 * Adds a thread. Threads may be written one after another or interleaved; *ret_thread names the thread to
 * store_event().
 */
int store_thread_add(struct store_writer *w, uint32_t tid, const char *name, uint32_t *ret_thread);

/* Adds an event. Events of one thread must come in the order in which lib/calls emits them. */
int store_event(struct store_writer *w, uint32_t thread, const struct call_event *e);

/* Ends a thread; counts may be NULL. */
int store_thread_end(struct store_writer *w, uint32_t thread, const struct calls_counts *counts);

/* True if the thread had too many segments: what follows is left out, behind a gap (GAP_TRUNCATED). */
bool store_thread_is_cut(const struct store_writer *w, uint32_t thread);

/* Records how the process ended, and in which thread (0: unknown): META "ended", "ended_thread". */
void store_set_ending(struct store_writer *w, const char *text, uint32_t tid);

/* A process of a group, whose threads are the first one and those that follow it, up to those of the next process. */
struct store_process {
	uint32_t pid, first_thread;
	const char *program;
};

/* Records a process: META "process", "process_thread", "process_program". In order of their threads. */
void store_set_process(struct store_writer *w, const struct store_process *p);

/*
 * What a program wrote about itself (lib/notes/notes.h), where the label may be any text; and samples of counters: the
 * events that a thread has caused since the first one, or a value that belongs to no thread, with tid 0.
 */
enum store_note_kind {
	STORE_NOTE_POINT,
	STORE_NOTE_SPAN,
	STORE_NOTE_OPEN,  /* a span without a known end */
	STORE_NOTE_ENDED, /* a span without a known beginning */
	STORE_NOTE_COUNTER,
	STORE_NOTE_KINDS
};

struct store_note {
	uint32_t tid;
	enum store_note_kind kind;
	const char *label;
	uint64_t time, until; /* time 0: it is not in the trace; until: of a span, else equal to time */
	int64_t value;
};

struct note;

/*
 * Adds the notes of the program, before the first event; they are sorted by index. Their times are on the clock of the
 * store, or 0 where only marks in the trace can give them.
 */
int store_put_notes(struct store_writer *w, const struct note *notes, size_t n);

/* Adds a note whose place is known. */
int store_put_note(struct store_writer *w, const struct store_note *note);

/* Completes the file; readers reject it as unfinished otherwise. */
int store_finish(struct store_writer *w);
struct store_writer *store_writer_free(struct store_writer *w);

static inline void store_writer_freep(struct store_writer **w)
{
	store_writer_free(*w);
}

/* A calls_sink for one thread of a writer. The struct must outlive the sink. */
struct store_thread_sink {
	struct store_writer *writer;
	uint32_t thread;
};

struct calls_sink store_sink(struct store_thread_sink *to);

/*
 * Reading. Stores are hostile input: anything malformed is -EBADMSG. -ESTALE: the file has become shorter since it was
 * opened, as that of a snapshot which csightd has removed.
 */
struct store;

/*
 * Reads the tables. The descriptor stays the caller's and must stay open. -EPROTONOSUPPORT: a store of another version.
 * -ENODATA: unfinished, truncated, or damaged in its tables; store_recover() can make another store from what is whole.
 */
int store_open(int fd, struct store **ret);

/* Writes a new store from the whole chunks at the beginning of another; *ret_end is where they end. Errors as above. */
int store_recover(int fd, int to, uint64_t *ret_end);
struct store *store_close(struct store *s);

/* Reads the version of a store, whether or not store_open() can read it. -EBADMSG: the file is not a store. */
int store_read_version(int fd, uint32_t *ret);

/*
 * False for an older version, which does not record in which time threads did not run, and whose tail calls replace
 * their callers: wait_ns is 0 but unknown, and each piece of an inlined function is a call of its own.
 */
bool store_has_waits(const struct store *s);

static inline void store_closep(struct store **s)
{
	store_close(*s);
}

/* Returns a value of META, or NULL; csight-formats(5) lists the keys. */
const char *store_meta(const struct store *s, const char *key);
uint64_t store_meta_number(const struct store *s, const char *key);

/*
 * Passes how the process ended, and in which thread: its first one where that is unknown; of a group, each process that
 * ended. Returns 0, or the first other result of the callback.
 */
int store_endings(const struct store *s, int (*ending)(void *user, const char *text, uint32_t tid), void *user);

/* Passes the processes of a group, likewise; none of any other store. */
int store_processes(const struct store *s, int (*process)(void *user, const struct store_process *p), void *user);

/* Returns the process of a thread, by its index. SIZE_MAX: that of all threads, whose pid is 0 if there are several. */
struct store_process store_process_of(const struct store *s, size_t thread);

/* Sets *ret to the trigger that took the snapshot; its texts are the store's. Returns false if there was none. */
bool store_trigger(const struct store *s, struct store_trigger *ret);

/* Converts a time of the store to CLOCK_REALTIME; 0: unknown. */
uint64_t store_realtime(const struct store *s, uint64_t time);

/* More than there are kinds, so that kind % STORE_GAP_KINDS is a valid index for whatever a file contains. */
enum { STORE_GAP_KINDS = 16 };

struct store_gaps {
	uint64_t n, ns; /* ns: total duration; a gap at the end of a thread has none */
};

struct store_thread {
	uint32_t tid;
	const char *name;
	uint64_t first, last; /* ns */
	uint64_t events, slices, gaps, instructions;
	uint64_t unexplained; /* returns and jumps that fit no frame */
	uint64_t bound;       /* largest error of the thread's times; UINT64_MAX: some are not known at all */
	uint32_t deepest;
	struct store_gaps gaps_of[STORE_GAP_KINDS];
};

/*
 * Returns how much of a thread is known, in units of 0.01 %: the part of its time outside gaps, less the share of
 * unexplained jumps among its slices. SIZE_MAX: of all threads, weighted by their time.
 */
unsigned store_quality(const struct store *s, size_t thread);

size_t store_threads(const struct store *s);
const struct store_thread *store_thread(const struct store *s, size_t index);

/* "note", "span", "open", "ended" */
const char *store_note_kind_str(enum store_note_kind kind);

/* Notes, sorted by thread and time. */
size_t store_notes(const struct store *s);
const struct store_note *store_note(const struct store *s, size_t index);

/* Sums over all threads. A frame open at a gap or at the end counts with the part that was traced. */
struct store_function {
	const char *name, *image;
	const char *file; /* source file, with the line of the declaration; "": unknown */
	uint32_t line;
	const char *build_id; /* of the image, in hexadecimal; "": unknown */
	uint64_t offset;      /* of the function in the image */
	uint64_t address;
	enum region_kind kind;
	uint64_t calls;
	bool calls_uncertain;       /* it is inlined, and where some of its calls begin is a guess */
	uint64_t total_ns, self_ns; /* total: recursive calls count once */
	uint64_t wait_ns;           /* part of total_ns in which the thread did not run */
	uint64_t total_instructions, self_instructions;
	uint64_t longest_ns, longest_enter;
	uint32_t longest_thread; /* index of the thread */
	/* Calls traced from enter to leave; median and p99 are accurate to 4 %. */
	uint64_t whole;
	uint64_t shortest_ns, median_ns, p99_ns;
};

/*
 * True if a call of this duration, which is off by at most bound, was slow: at least ten calls are known, it took as
 * long as 99 of 100 and four times as long as the median, and, by the total, about one in twenty calls at most can have
 * been as long.
 */
bool store_is_slow(const struct store_function *f, uint64_t ns, uint64_t bound);

/* True for the functions that stand for time in which the thread does not run. */
static inline bool store_is_wait(enum region_kind kind)
{
	return kind == REGION_WAITING || kind == REGION_PREEMPTED;
}

size_t store_functions(const struct store *s);
const struct store_function *store_function(const struct store *s, size_t index);

/*
 * Compilers make clones of a function, such as NAME.isra.0, NAME.constprop.1 or NAME.part.2.cold, in C++
 * "NAME [clone .isra.0]". store_merge_clones() removes the suffixes from all names, and makes iterators made later
 * return the clones of one function as that function, whose totals have the calls of all; those of its clones have
 * calls 0. Functions of one name stay apart if it is unknown which of them a clone is of. Returns 0, -ENOMEM or an
 * error of reading, after which the store may only be closed.
 */
int store_merge_clones(struct store *s);

/* Returns the length of a name without the suffixes of clones. */
size_t store_base_name(const char *name);

/* Returns the length of a name of this size without its parameter list: "f(int) const" is f, "S::operator()(int)" is
 * S::operator().
 */
size_t store_plain_name(const char *name, size_t size);

/*
 * True if a function's name equals or matches the shell pattern: as it is, or without its parameter list, suffixes of
 * compiler clones, or both.
 */
bool store_name_matches(const char *name, const char *pattern);

struct store_name {
	const char *name; /* NULL: unchanged */
	const char *file; /* NULL: file and line unchanged */
	uint32_t line;
};

/* Writes a copy of the store with new names of its functions, one struct each, to an empty file. */
int store_rename(const struct store *s, int to, const struct store_name *names);

/*
 * Writes a new store with the physical view of another to an empty file: the frames that the hardware had. A function
 * that leaves by a tail call is left then, and the one that it jumps to takes its place. -EBADMSG.
 */
int store_physical(const struct store *s, int to);

/*
 * Writes a store with the threads of n stores to an empty file. Their clones must not be merged. name: of the program
 * and the snapshot in it. -EXDEV: they have no common clock; -EBADMSG.
 */
int store_merge(struct store *const *from, size_t n, const char *name, int to);

/*
 * Writes a redacted copy of the store to an empty file: function names, numbers, build-ids and times remain; of paths
 * only their last components, also in function names; the names of program and threads are replaced. The store's clones
 * must not be merged.
 */
int store_redact(const struct store *s, int to);

/* Returns a new text: the name of a function without the directories of paths in it. NULL: no memory. */
char *store_redact_name(const char *name);

/* A place where an inlined function is called. */
struct store_site {
	uint32_t function;
	uint32_t line;
	const char *file; /* "": unknown */
};

const struct store_site *store_site(const struct store *s, size_t index);

#define STORE_NO_SITE UINT32_MAX

/*
 * Returns the largest error of the duration between two times of a thread, in ns: the sum of the error bounds around
 * both. 0: it is exact; UINT64_MAX: it is not known.
 */
uint64_t store_duration_bound(const struct store *s, size_t thread, uint64_t from, uint64_t to);

/*
 * Sets bounds[i] to the largest error of a duration of each function, from the blocks in which its calls end and from
 * its longest call. Errors as of iterators.
 */
int store_function_bounds(const struct store *s, uint64_t *bounds);

struct store_frame {
	uint32_t function;
	uint32_t site;  /* STORE_NO_SITE: not inlined */
	uint8_t kind;   /* enum call_kind */
	uint32_t clone; /* the function before clones were merged */
	/* merged clones: a part that the compiler split off the function of the frame around it; not a call of its own
	 */
	bool piece;
	uint64_t enter;
	uint64_t instructions; /* of the thread, when the frame was entered */
	uint64_t waited;       /* store_iter_waited() when the frame was entered */
};

enum store_event_type { STORE_ENTER, STORE_LEAVE, STORE_GAP, STORE_MARK };

struct store_event {
	enum store_event_type type;
	uint8_t kind; /* enum call_kind, leave_kind, gap_kind or mark_kind, by type */
	uint64_t time;
	uint64_t bound; /* largest error of the times around it, ns; 0: exact; UINT64_MAX: not known */
	uint64_t instructions;
	uint32_t depth;           /* of the frame entered or left; 0: outermost */
	bool again;               /* enter: the thread has left this frame, the outermost of a stack, before */
	struct store_frame frame; /* enter, leave */
	uint64_t until;           /* gap: when tracing resumed; the time of the gap where it did not */
};

/* True if the leave ends a call that was traced from enter to leave. */
bool store_is_whole(const struct store_event *leave);

struct store_iter;

/* Iterates over the events of a thread. The store must outlive the iterator. */
int store_iter_new(const struct store *s, size_t thread, struct store_iter **ret);

/* Moves to the first event at or after time; the stack is what was open just before it. */
int store_iter_seek(struct store_iter *it, uint64_t time);

/* Returns true, and the gap, if the time sought last lies in one. */
bool store_iter_gap(const struct store_iter *it, struct store_event *ret);

/*
 * Lets the iterator skip blocks in which none of the wanted functions is left; wanted has a byte for each function, not
 * 0 where it is wanted. All leaves of wanted functions are still returned, with the enter data of their frames; of
 * other events only some are. NULL: returns all events.
 */
void store_iter_filter(struct store_iter *it, const uint8_t *wanted);

/* Returns 1 with an event, or 0 at the end. */
int store_iter_next(struct store_iter *it, struct store_event *ret);

/*
 * Returns for how long the thread had not run at a time, from the beginning of its trace on: it waited, or was
 * preempted. time lies between the event returned last, or the time sought, and the next one.
 */
uint64_t store_iter_waited(const struct store_iter *it, uint64_t time);

/* Returns the depth, and the open frames, outermost first; valid until the next call. */
size_t store_iter_stack(const struct store_iter *it, const struct store_frame **ret);

/* Returns the depth of the stack up to the innermost frame that is not inlined; 0: there is none. */
size_t store_iter_place(const struct store_iter *it);

struct store_iter *store_iter_free(struct store_iter *it);

static inline void store_iter_freep(struct store_iter **it)
{
	store_iter_free(*it);
}

/* Returns the time since which about `slices` slices begin before until, of one thread or of all (-1). */
uint64_t store_last_slices(const struct store *s, int64_t tid, uint64_t until, uint64_t slices);

#endif
