/*
 * Where trace bytes come from: a backend is a struct capture_ops. What a source's memory says is hostile, and is copied
 * once and checked before it is used.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_H
#define CSIGHT_DAEMON_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/emu/ring.h"
#include "lib/perfdata/write.h"

enum { CAPTURE_NAME_SIZE = 17, CAPTURE_MISSING_MAX = 64 << 10 };

struct capture_ops;

/* A source of trace: one target of a backend, which embeds this in a struct of its own. */
struct capture_source {
	const struct capture_ops *ops;
};

/* What a trace is to hold; a source that cannot do one of them refuses to arm, and says which. */
struct capture_options {
	bool kernel; /* what runs in the kernel too */
	bool cycles; /* cycle counts */
	bool no_timestamps, no_contexts;
	const char *filter; /* the kernel's text of address filters, or NULL */
	const char *sink;   /* its name, or NULL: the best there is */
};

struct capture_thread {
	uint32_t tid;
	char name[CAPTURE_NAME_SIZE];
	uint64_t start_ns, end_ns; /* end: 0 while it lives */
	uint64_t size;             /* bytes of trace that are there */
	uint64_t written;          /* ever */
	uint64_t instructions, truth;
	bool wrapped, running;
	/* In a copy: */
	bool acknowledged; /* it obeyed the freeze, or could not have been running */
	uint8_t *data;     /* byte p of the stream is at p % room */
	size_t room;
	uint64_t from;                /* the stream's first byte that is there */
	uint8_t end[EMU_PENDING_MAX]; /* what completes the stream of one that is gone; after size bytes */
	size_t end_size;
};

/* The stream in pieces, in order: n counts from 0; false after the last. */
bool capture_piece(const struct capture_thread *t, unsigned n, const uint8_t **ret, size_t *ret_size);

/* An AUX buffer of the kernel's: one CPU's, of a target or of the machine. */
struct capture_ring {
	uint32_t cpu;
	uint8_t *data; /* its newest bytes, in order; the first of them is byte `from` of all that were ever written */
	size_t size;
	uint64_t from;
	struct pd_aux *slices; /* what the kernel said of them, oldest first; offsets count from byte 0 ever */
	size_t n_slices;
};

/* A record of the kernel's; the body (what stands before its sample_id) follows, padded to 8. */
struct capture_record {
	uint32_t type;
	uint16_t misc, size; /* size: of the body */
	struct pd_origin origin;
};

/* When a thread was the target's: nothing outside is shown, where rings hold other processes too. */
struct capture_interval {
	uint32_t tid;
	uint64_t from, to; /* ns of the records' clock */
};

/* A file with code that was mapped; the loop takes it over (fd becomes -1), or has it from an earlier copy (fd is -1).
 */
struct capture_file {
	uint32_t id; /* by which the log calls it */
	int fd;
};

/* What was in the rings at one moment; private memory. */
struct capture_copy {
	/* Trace units: one of the process under the emulator, else one a CPU. */
	struct pd_cpu *cpus;
	size_t n_cpus;
	uint32_t pmu_type;
	uint64_t pmu_config;
	struct capture_thread *threads; /* with their bytes, where each has a ring of its own */
	size_t n_threads;
	struct capture_ring *rings;
	size_t n_rings;
	struct buf records; /* of the kernel beside the trace (who ran, was born, died; not mappings): capture_record */
	struct pd_clock clock; /* from the trace's timestamps to ns; not known: they are CLOCK_MONOTONIC ns */
	int64_t shift;         /* what is to be added to CLOCK_MONOTONIC for the clock of those ns; 0: not known */
	bool shared;           /* the rings hold other processes' control flow, too */
	struct capture_interval *intervals;
	size_t n_intervals;
	struct capture_file *files; /* all that its log names; NULL: they come by themselves */
	size_t n_files;
	uint8_t *log; /* records of lib/emu/ring.h */
	size_t log_size;
	uint64_t time, monotonic; /* of the freeze, ns */
	uint64_t blind;           /* ns until the thaw */
	struct buf missing;       /* texts, each ended by NUL */
};

struct capture_copy *capture_copy_free(struct capture_copy *c);

/* Notes in words what the copy lacks. */
void capture_note_missing(struct capture_copy *c, const char *fmt, ...) _printf_(2, 3);

/* Appends a struct capture_record and its padded body. */
void capture_add_record(struct buf *b, uint32_t type, uint16_t misc, const void *body, size_t size,
			const struct pd_origin *origin);

struct capture_ops {
	const char *name;
	/*
	 * On the capture lane. alive: whether the process still runs. limit: bytes of trace, the newest are kept.
	 * A reason may be given where one fails.
	 */
	int (*arm)(struct capture_source *s);
	int (*disarm)(struct capture_source *s);
	int (*copy)(struct capture_source *s, bool alive, size_t limit, struct capture_copy **ret);
	/* From the loop, at any time. threads: what is in the rings now, without data; the caller frees. */
	int (*threads)(struct capture_source *s, struct capture_thread **ret, size_t *ret_n);
	bool (*holds)(struct capture_source *s);
	void (*missing)(struct capture_source *s, struct buf *b);
	/* Why no trace comes although it is armed, as text; it stays empty while all is well. May be NULL. */
	void (*trouble)(struct capture_source *s, struct buf *b);
	uint64_t (*memory)(struct capture_source *s);
	struct capture_source *(*free)(struct capture_source *s);
};

#endif
