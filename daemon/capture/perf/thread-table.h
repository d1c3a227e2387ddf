/* SPDX-License-Identifier: MIT */
/*
 * The threads of one process according to the sideband: when each lived, and when the process was its owner's. Data
 * older than the trace is dropped, and the total is bounded. For use by one thread.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_THREAD_TABLE_H
#define CSIGHT_DAEMON_CAPTURE_THREAD_TABLE_H

#include "daemon/capture/capture.h"
#include "daemon/capture/perf/perf-event.h"
#include "lib/base/hash.h"

enum { THREAD_TABLE_ENDED_MAX = 8192, THREAD_TABLE_SPANS_MAX = 1024, THREAD_TABLE_SWITCHES_MAX = 1 << 17 };

struct thread_entry {
	uint32_t tid, parent; /* parent: the creating thread, if the fork was recorded */
	bool born;            /* the fork was recorded, at start */
	uint64_t start, end;  /* start 0: before the first record; end 0: it lives */
	/*
	 * Until this time no other thread had the number. Trace with its context ID up to then is its own: a timestamp
	 * may come late, and a thread that is not the first keeps its context ID for a while after an exec changed its
	 * number.
	 */
	uint64_t until;
	bool lingers;     /* the thread executed a program under another number */
	uint64_t written; /* bytes of trace, where they can be attributed */
	uint32_t former;  /* 1 + index of the entry before it with the same number; 0: there is none */
	char name[CAPTURE_NAME_SIZE];
};

struct owner_span {
	uint64_t from, to; /* to UINT64_MAX: until further notice */
};

struct thread_switch {
	uint64_t time;
	uint32_t cpu, tid;
	uint16_t misc;
	bool lost; /* no switch: those of the CPU between the last one before and the next one after were lost */
};

struct thread_table {
	uint32_t pid;
	struct thread_entry *list; /* in order of discovery */
	size_t n, room, n_ended;
	struct hash newest;       /* index of the last entry of each number */
	struct owner_span *spans; /* when the process ran its owner's programs only, oldest first */
	size_t n_spans, spans_room;
	struct thread_switch *switches;
	size_t first_switch, n_switches, switches_room;
	uint64_t gone_switches;   /* number of those that were before the list's first */
	uint64_t gone_until;      /* time of the newest one that is not kept; 0: all are */
	bool privileges_recorded; /* set by the user: the kernel records an EXIT when an exec gains privileges */
	/* Execs since thread_table_exec_checked(): */
	unsigned execs;
	uint64_t last_exec;
	bool exec_owned; /* the last exec was by the owner's program, and no record about it was lost */
	/* set once an exec's owner could not be determined; that interval is attributed to no user */
	bool owner_unknown;
	uint64_t since; /* the process has been the same program since this fork or exec; 0: unknown */
	bool ended;     /* all threads have ended */
	bool dropped;   /* a limit was reached, or memory was short */
};

void thread_table_init(struct thread_table *t, uint32_t pid);
void thread_table_done(struct thread_table *t);

/* Adds one record of this process. */
void thread_table_fold(struct thread_table *t, const struct perf_record *r);

/* Adds a FORK record of another process, which may reuse the number of an ended thread. Returns whether it does. */
bool thread_table_note_fork(struct thread_table *t, const struct perf_record *r);

/* Adds a thread that was known when an earlier daemon armed the process, if none has its number. */
void thread_table_add(struct thread_table *t, const struct thread_entry *k);

/* Adds threads that /proc shows, as of now, and ends those it does not show. */
int thread_table_scan(struct thread_table *t, uint64_t now);

/* Sets the owner from this time on; disown also revokes what was set for later times. */
void thread_table_own(struct thread_table *t, uint64_t from);
void thread_table_disown(struct thread_table *t, uint64_t from);

/* Records after this time were lost: open intervals end there. */
void thread_table_lost_records(struct thread_table *t, uint64_t since);

/* True if the process was its owner's at this time. */
bool thread_table_owned(const struct thread_table *t, uint64_t at);

/* The credentials of the current program have been verified. */
void thread_table_exec_checked(struct thread_table *t);

struct thread_entry *thread_table_find(struct thread_table *t, uint32_t tid, uint64_t at);
void thread_table_forget(struct thread_table *t, uint64_t before);

/* Drops ended threads down to n_ended / 2 if there are more than n_ended. */
void thread_table_limit(struct thread_table *t, size_t n_ended);

/* Switches after this moment were lost: pauses that it falls into end there. cpu: on this CPU; UINT32_MAX: on any. */
void thread_table_lost_switches(struct thread_table *t, uint64_t since, uint32_t cpu);

/*
 * Lists of threads, of intervals up to a time, and of records (fork and exit) since one. Sets `dropped` for too many
 * intervals. -ENOMEM.
 */
int thread_table_threads(const struct thread_table *t, struct capture_thread **ret, size_t *ret_n);
int thread_table_intervals(struct thread_table *t, uint64_t until, struct capture_interval **ret, size_t *ret_n);
void thread_table_records(const struct thread_table *t, uint64_t since, struct buf *b);

/* Appends records of the switches that a recording does not have yet, and moves its position behind them. */
void thread_table_switches(const struct thread_table *t, struct capture_records *position, struct buf *b);

#endif
