/* SPDX-License-Identifier: MIT */
/*
 * A capture backend supplies trace from one kind of source; its interface is struct capture_ops. The memory of a source
 * may be written by the traced program: a backend copies it once and validates the copy before use.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_H
#define CSIGHT_DAEMON_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/base/buf.h"
#include "lib/base/ending.h"
#include "lib/base/reason.h"
#include "lib/emu/ring.h"
#include "lib/perfdata/write.h"

enum { CAPTURE_NAME_SIZE = 17, CAPTURE_MISSING_MAX = 64 << 10 };

struct capture_ops;

/* What the sources of one account may have together. */
struct capture_share {
	uid_t account;
	uint64_t rings; /* bytes */
	bool divided;   /* it gets at most half of the rings, and of the events, that others leave */
};

/* One source of trace: a target of a backend. A backend embeds this as the first member of its own struct. */
struct capture_source {
	const struct capture_ops *ops;
	struct capture_share share; /* set by target_new(), and before arm() */
};

/* What a ring keeps: its newest trace, or the first, after which recording stops. ANY: the default, or what there is.
 */
enum capture_mode { CAPTURE_MODE_ANY, CAPTURE_MODE_RING, CAPTURE_MODE_FILL };

/* "ring" or "fill"; NULL for CAPTURE_MODE_ANY. */
const char *capture_mode_str(enum capture_mode mode);

/* -EINVAL: the text is no mode. */
int capture_mode_parse(const char *text, enum capture_mode *ret);

enum {
	CAPTURE_CYCLE_THRESHOLD_MAX = 4095,    /* TRCCCCTLR.THRESHOLD has 12 bits */
	CAPTURE_TIMESTAMP_INTERVAL_MAX = 8192, /* the PMU's next value means one without end */
};

/* What a trace should contain. A source that cannot satisfy an option refuses to arm and reports which. */
struct capture_options {
	bool kernel; /* include execution in the kernel */
	bool cycles; /* cycle counts */
	bool no_timestamps, no_contexts;
	bool branch_broadcast;       /* the targets of all taken branches */
	bool no_return_stack;        /* the targets of returns, too, that a return stack predicts */
	uint64_t cycle_threshold;    /* least number of cycles in a count, or 0 for that of the trace unit's driver */
	uint64_t timestamp_interval; /* cycles between timestamps, a power of two, or 0 for the default */
	uint32_t thread;             /* the only one that is traced, or 0 for all */
	const char *filter;          /* address filters in the syntax of perf, or NULL */
	const char *sink;            /* name of the sink, or NULL for the best one */
	const char *counters;        /* names of events that are counted (pmu-counters.h), or NULL */
	const char *cpus;            /* the only ones that are traced, as parse_ranges() has them, or NULL for all */
	uint64_t ring_size;          /* bytes of each ring, a power of two, or 0 for that of the settings */
	enum capture_mode mode;
	bool at_exec; /* the process is within execve() when it is armed for the first time */
};

/* -EINVAL: the text is no list of CPUs, or names none. */
int capture_cpus_check(const char *text);

/* Copies the options with their texts, which capture_options_done() frees. -ENOMEM. */
int capture_options_copy(const struct capture_options *o, struct capture_options *ret);
void capture_options_done(struct capture_options *o);

/*
 * Compares the options that are wanted with those that a source has; what is not wanted is not compared. -EEXIST: they
 * differ, and ret names each difference.
 */
int capture_options_compare(const struct capture_options *have, const struct capture_options *wanted,
			    struct reason *ret);

/* What a recording lacks between two copies of a ring, in bytes: of the thread, and of earlier threads of the ring. */
struct capture_lost {
	uint64_t own, earlier;
};

struct capture_thread {
	uint32_t tid;
	char name[CAPTURE_NAME_SIZE];
	uint64_t start_ns, end_ns; /* end: 0 while the thread lives */
	uint64_t size;             /* bytes of trace available */
	uint64_t written;          /* bytes written in total */
	uint64_t instructions, truth;
	bool wrapped, running;
	bool full; /* its ring is full, in the mode fill: the thread is recorded no longer */
	/* Only in a copy: */
	uint32_t slot, serial; /* its ring, and which thread of that it is, counted from 1 */
	struct capture_lost lost;
	uint64_t until_ns; /* time at the freeze of a thread that sleeps, if not that of the copy; else 0 */
	bool acknowledged; /* the thread obeyed the freeze, or could not have been running */
	uint8_t *data;     /* byte p of the stream is at p % room */
	size_t room;
	uint64_t from;                /* position of the first available byte in the stream */
	uint8_t end[EMU_PENDING_MAX]; /* completes the stream of an ended thread; follows the size bytes */
	size_t end_size;
	bool ended; /* of a drain that is live: nothing follows in the stream */
};

/* Iterates over the contiguous parts of the stream, in order: n counts from 0; returns false after the last. */
bool capture_piece(const struct capture_thread *t, unsigned n, const uint8_t **ret, size_t *ret_size);

/* Contents of one AUX buffer: of one CPU, for one target or for the arena. */
struct capture_ring {
	uint32_t cpu;
	uint8_t *data; /* the newest bytes, oldest first; data[0] is byte `from` of all bytes ever written */
	size_t size;
	uint64_t from;
	/* AUX records, oldest first; their offsets count from the first byte ever written */
	struct pd_aux *slices;
	size_t n_slices;
	uint64_t lost; /* bytes before `from` that a recording lacks */
};

/* A kernel record. Its body (the part before sample_id) follows, padded to a multiple of 8. */
struct capture_record {
	uint32_t type;
	uint16_t misc, size; /* size of the body, in bytes */
	struct pd_origin origin;
};

/* An interval in which a thread belonged to the target. Where rings are shared, nothing outside it may be shown. */
struct capture_interval {
	uint32_t tid;
	uint64_t from, to; /* ns of the records' clock */
};

/*
 * A mapped file with code. The event loop takes ownership of fd and sets it to -1; -1 on entry means that the loop has
 * the descriptor from an earlier copy.
 */
struct capture_file {
	uint32_t id; /* identifier in the code log */
	int fd;
};

/* A jitdump: a file in which the program describes the code that it generates, with times of CLOCK_MONOTONIC. */
struct capture_jitdump {
	int fd;        /* -1: none */
	uint64_t size; /* bytes of it that belong to the copy */
	int64_t shift; /* added to CLOCK_MONOTONIC it gives the records' clock */
};

/* A copy of the code that the kernel executes: a core file with the names of its functions. */
struct capture_kernel {
	int fd;                 /* a sealed memfd; unset if size is 0 */
	uint64_t size;          /* bytes of the file; 0: there is no copy */
	uint64_t start, length; /* of the kernel's own code */
};

/* Contents of the rings at one moment, in private memory. */
struct capture_copy {
	/* Trace units: one for a process under the emulator, else one per CPU. */
	struct pd_cpu *cpus;
	size_t n_cpus;
	uint32_t pmu_type;
	uint64_t pmu_config;
	struct capture_thread *threads; /* with data, where each thread has a ring of its own */
	size_t n_threads;
	struct capture_ring *rings;
	size_t n_rings;
	struct buf records;    /* sideband other than mappings (switches, forks, exits): capture_record */
	struct pd_clock clock; /* converts trace timestamps to ns; unknown: they are CLOCK_MONOTONIC ns */
	int64_t shift;         /* ns to add to CLOCK_MONOTONIC for the time of the trace; 0: unknown */
	bool virtual_clock;    /* times are not those of CLOCK_MONOTONIC, but of the emulator's virtual clock */
	bool shared;           /* the rings also hold the control flow of other processes */
	bool filtered;         /* address filters leave out a part of the trace */
	struct capture_interval *intervals;
	size_t n_intervals;
	struct capture_file *files; /* all files that the log names; NULL: the program sends them itself */
	size_t n_files;
	struct capture_jitdump jitdump; /* owned */
	struct capture_kernel kernel;   /* owned; of a target whose execution in the kernel is traced */
	struct pd_event *counters;      /* owned, with their names: events that were counted */
	size_t n_counters;
	struct buf samples; /* of these: struct pd_sample */
	uint8_t *log;       /* records of lib/emu/ring.h; NULL with a size: it was not copied */
	size_t log_size;
	uint64_t time, monotonic; /* of the freeze: CLOCK_REALTIME, and the clock of the times, ns */
	uint64_t blind;           /* time without tracing, ns */
	uint64_t unrecorded;      /* CPU time of the process before it was armed, at most, ns; 0: none, or unknown */
	uint64_t since;           /* the decode begins at this time of the records' clock; 0: with the first byte */
	struct buf notes;         /* of the program, as notes_copy() appends them (lib/notes/notes.h) */
	struct buf missing;       /* texts about data that could not be recorded, each terminated by NUL */
};

struct capture_copy *capture_copy_free(struct capture_copy *c);
void capture_copy_drop_rings(struct capture_copy *c);

/*
 * Removes from the last copy of a recording of rings what is later than a time of the kernel's records, from which on
 * the process may be another user's: all but threads, their mappings and records of that time.
 */
void capture_copy_cut(struct capture_copy *c, uint64_t time);

/* Records a text that describes what the copy lacks. */
void capture_note_missing(struct capture_copy *c, const char *fmt, ...) _printf_(2, 3);

/* Appends a struct capture_record and its padded body to b. */
void capture_add_record(struct buf *b, uint32_t type, uint16_t misc, const void *body, size_t size,
			const struct pd_origin *origin);

/* The trouble of an armed source that is paused. */
#define CAPTURE_PAUSED "all recording is paused on this machine; csight resume --all continues it"

/* How far a ring has been recorded, by a recording that goes on while the program runs. */
struct capture_position {
	uint32_t serial;      /* of the thread that used it last; 0: none did */
	uint64_t to, earlier; /* of its stream; bytes of earlier threads of the ring */
	bool ended;           /* its end has been drained, of a drain that is live */
	/* Of a CPU's ring: */
	bool unknown;     /* its trace unit was unknown when the recording began, so that it cannot be recorded */
	bool continues;   /* what is behind `to` continues what was drained */
	uint64_t since;   /* in the records' clock: since then trace is missing, if what is behind `to` is lost */
	uint64_t counted; /* where the samples of the CPU's counters have been recorded to */
};

/* How far the records about a process have been recorded that has trace units, and how fast its rings fill. */
struct capture_records {
	uint64_t time;     /* of the kernel's records */
	uint64_t switches; /* number of switches, of all that ever were */
	uint64_t switched; /* time of the newest of these */
	uint64_t flushed;  /* CLOCK_MONOTONIC, when the sinks were last emptied into the rings; 0: never */
	uint64_t round;    /* a live drain copies what was in the rings at this time, in several steps; 0: a new one */
	double rate;       /* parts of the ring that fills first, in a ns */
	uint64_t armed;    /* when the source was armed whose rings these are */
	uint64_t listed;   /* a live drain has had the threads that had begun or ended until then */
};

/* The positions of all rings. Zeros before the first drain(), which allocates the list; the caller frees it. */
struct capture_positions {
	struct capture_position *list;
	uint32_t n, next; /* next: the ring that is drained first, so that each has its turn */
	uint64_t log;     /* bytes of the log that have been drained; UINT64_MAX: the rest of it is damaged */
	struct capture_records records;
};

/* How much is drained. */
struct capture_drain {
	size_t most;  /* bytes */
	double least; /* nothing, unless a ring is full to this part, or a thread has ended */
	/*
	 * The copy gets the names and mappings that are new in the log, and no trace before the log has been drained;
	 * and each thread that has ended, also without trace.
	 */
	bool live;
	bool ended; /* of one that is live: the process has ended, and the streams of its threads are completed */
	/* Results: */
	double fullest; /* part of a ring that was to be drained */
	uint64_t round; /* of rings, live: all trace up to this time has been copied, of all CPUs; 0: not yet */
	bool flushed;   /* of rings: all that there was in the sinks has been looked at */
	bool more;      /* there was more */
};

/* The log of a drain, whose size is not known: the last copy writes it, and all of it belongs to the recording. */
#define CAPTURE_LOG_ALL (SIZE_MAX - 1)

/* What a copy may take. The program cannot raise it: what is more is left out, and noted as missing. */
struct capture_limits {
	size_t trace; /* bytes; the newest are kept */
	size_t log;   /* bytes of a log that the program writes; the oldest are kept */
	uint64_t
	    last; /* ns before the copy, or the program's end: older trace is left out, as far as its time is known */
	const struct capture_positions *since; /* only what is behind these, as drain() would; or NULL */
	bool closed;                           /* no trace at all */
	uint64_t gone;                         /* CLOCK_MONOTONIC, no earlier than the program's end; 0 while it runs */
};

/* The ends of a watched function, each an address or offset as emu_watch.place is; n 0: unknown. */
enum { CAPTURE_WATCH_ENDS = 5 };
struct capture_watch_ends {
	uint64_t places[CAPTURE_WATCH_ENDS];
	unsigned n;
	bool loops; /* the function jumps to its own beginning */
	uint64_t
	    go; /* of a function of Go: what each call executes once, behind the check of the stack; 0: it is none */
};

struct capture_watch_list {
	struct emu_watch watches[EMU_WATCHES_MAX];
	struct capture_watch_ends ends[EMU_WATCHES_MAX]; /* of functions */
};

/* How a source watches, in words that are printed. */
struct capture_watch_state {
	const char *mechanism, *cost; /* cost: of each hit */
	uint64_t rests, rested_ns;    /* how often and how long the source did not watch, because of too many hits */
};

/*
 * Watch points of a source: a list of lib/emu/ring.h. Hits, counts and hold() name a watch point by its slot, the index
 * in the list. set() and release() run on the capture thread; the others may be called by the event loop at any time,
 * and do not wait.
 */
struct capture_watching {
	/* Replaces the list. On failure, with why, the former list remains in effect. */
	int (*set)(struct capture_source *s, const struct capture_watch_list *list, struct reason *why);
	/*
	 * Freezes the rings at once, as a hit does, while no operation on them runs; copy() or release() follows. NULL:
	 * the source cannot.
	 */
	void (*freeze)(struct capture_source *s);
	/* Lets the rings continue, if a hit or freeze() has frozen them. */
	int (*release)(struct capture_source *s);
	/* Makes the next hit of a slot with a value of at least `least` freeze the rings; UINT64_MAX: none does. */
	void (*hold)(struct capture_source *s, uint32_t slot, uint64_t least);
	/* Requests a notice of the next hit. */
	void (*want)(struct capture_source *s);
	/*
	 * Copies the hits after number *cursor, at most max, and advances it; older ones may have been overwritten. A
	 * cursor beyond the last hit is set to that.
	 */
	size_t (*hits)(struct capture_source *s, uint64_t *cursor, struct emu_hit *ret, size_t max);
	/* Copies the counts of all slots. */
	int (*counts)(struct capture_source *s, struct emu_watch_count *ret);
	/* True if the list is in effect. *ret_limits: EMU_CANNOT_… */
	bool (*applied)(struct capture_source *s, uint32_t *ret_limits);
	/* Describes how the source watches watch points of this kind. */
	void (*state)(struct capture_source *s, enum emu_watch_kind kind, struct capture_watch_state *ret);
	/* True if the hits of a process that has ended at that time, CLOCK_MONOTONIC, are all known. */
	bool (*settled)(struct capture_source *s, uint64_t ended);
};

struct capture_ops {
	const char *name;
	/* These run on the capture thread. alive: the process still runs. */
	int (*arm)(struct capture_source *s);
	int (*disarm)(struct capture_source *s);
	int (*copy)(struct capture_source *s, bool alive, const struct capture_limits *limits,
		    struct capture_copy **ret);
	/*
	 * Copies what rings have got since the positions, and moves these, while the process goes on; on any thread, or
	 * if drains_rings on the capture thread. *ret has trace units, threads with data or rings, and the size of the
	 * log, or what is new in it, or CAPTURE_LOG_ALL.
	 */
	int (*drain)(struct capture_source *s, struct capture_positions *positions, struct capture_drain *drain,
		     struct capture_copy **ret);
	bool drains_rings; /* and not streams of threads */
	/* Returns why a source that is armed has no live drain, or NULL. May be NULL: all have one. */
	const char *(*not_live)(const struct capture_source *s);
	/* A recording begins, or has been saved: until then, what describes its trace is kept. May be NULL. */
	void (*recorded)(struct capture_source *s, bool begins);
	/*
	 * These may be called by the event loop at any time. threads: ring contents without data; the caller frees the
	 * list.
	 */
	int (*threads)(struct capture_source *s, struct capture_thread **ret, size_t *ret_n);
	bool (*holds)(struct capture_source *s);
	void (*missing)(struct capture_source *s, struct buf *b);
	/* Checks whether the source, which exists, satisfies the options. -EEXIST: ret names those that it does not. */
	int (*check)(struct capture_source *s, const struct capture_options *wanted, struct reason *ret);
	/* How the process ended, if the source knows; else *ret is unchanged. May be NULL. */
	void (*ending)(struct capture_source *s, struct ending *ret);
	/*
	 * Appends the reason why an armed source delivers no trace, as text; appends nothing while it does. May be
	 * NULL.
	 */
	void (*trouble)(struct capture_source *s, struct buf *b);
	/* Stops recording, and keeps the history, or continues; on the capture thread. */
	void (*pause)(struct capture_source *s, bool paused);
	/* Whether it can be paused alone, at any time; NULL: it can. */
	bool (*pausable)(struct capture_source *s);
	uint64_t (*memory)(struct capture_source *s);
	/* Before free(): returns the descriptor of the memory, which the caller closes. NULL: it has none. */
	int (*take_memory)(struct capture_source *s);
	/* Returns upper bounds of a copy without limits, bytes: of its trace, and of its log with room to grow. */
	void (*copy_max)(struct capture_source *s, uint64_t *ret_trace, uint64_t *ret_log);
	const struct capture_watching *watching; /* NULL: it has no watch points */
	struct capture_source *(*free)(struct capture_source *s);
};

#endif
