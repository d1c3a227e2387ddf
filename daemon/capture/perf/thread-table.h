/*
 * What the kernel's records tell of one process: its threads, when each lived, and when it was its owner's. Folded:
 * what ended before the trace reaches back to is forgotten, and there is a limit to what is kept in any case. On one
 * thread.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_THREAD_TABLE_H
#define CSIGHT_DAEMON_CAPTURE_THREAD_TABLE_H

#include "daemon/capture/capture.h"
#include "daemon/capture/perf/perf-event.h"

enum { THREAD_TABLE_ENDED_MAX = 8192, THREAD_TABLE_SPANS_MAX = 1024, THREAD_TABLE_SWITCHES_MAX = 1 << 17 };

struct thread_entry {
	uint32_t tid, parent; /* parent: the thread that made it, where its process_entry was seen */
	bool born;            /* its process_entry was seen, at start */
	uint64_t start, end;  /* start 0: before anything was seen; end 0: it lives */
	/*
	 * Until then its number was nobody else's: what stands behind its context ID is its own though a timestamp came
	 * late, or it was not the first thread and executed, which changes its number but not yet its context ID.
	 */
	uint64_t until;
	bool lingers;     /* the latter */
	uint64_t written; /* bytes of trace, where they can be told apart */
	char name[CAPTURE_NAME_SIZE];
};

struct owner_span {
	uint64_t from, to; /* to UINT64_MAX: it goes on */
};

struct thread_switch {
	uint64_t time;
	uint32_t cpu, tid;
	uint16_t misc;
};

struct thread_table {
	uint32_t pid;
	struct thread_entry *list; /* in the order in which they were met */
	size_t n, room, n_ended;
	struct owner_span *spans; /* when all that it ran was its owner's, oldest first */
	size_t n_spans, spans_room;
	struct thread_switch *switches;
	size_t first_switch, n_switches, switches_room;
	bool rights_recorded; /* as its user knows: when it gains rights by executing there is a record of it (EXIT) */
	/* of programs that it executed since thread_table_exec_checked() */
	unsigned execs;
	uint64_t last_exec;
	bool theirs;    /* its owner's program executed the last, and no record of that is missing */
	bool skipped;   /* ever: whose one was is not known, and it is nobody's */
	uint64_t since; /* it has been the same program, born or executed then; 0: longer than is known */
	bool ended;     /* its last thread did */
	bool dropped;   /* there was more than is kept, or no memory */
};

void thread_table_init(struct thread_table *t, uint32_t pid);
void thread_table_done(struct thread_table *t);

/* One record that is about it. */
void thread_table_fold(struct thread_table *t, const struct perf_record *r);

/* A FORK record of another process: a number that was this one's may be that one's now. */
void thread_table_note_fork(struct thread_table *t, const struct perf_record *r);

/* What the records did not tell: the threads that /proc shows are there at now, and those it does not show are not. */
int thread_table_scan(struct thread_table *t, uint64_t now);

/* It is its owner's from then on; or not any more: also what was said of later times is taken back. */
void thread_table_own(struct thread_table *t, uint64_t from);
void thread_table_disown(struct thread_table *t, uint64_t from);

/* Records after that time are missing: nothing that they would have ended goes on. */
void thread_table_lost_records(struct thread_table *t, uint64_t since);

/* Whether anything is its owner's at that time. */
bool thread_table_owned(const struct thread_table *t, uint64_t at);

/* The credentials are known to hold for what it runs now. */
void thread_table_exec_checked(struct thread_table *t);

struct thread_entry *thread_table_find(struct thread_table *t, uint32_t tid, uint64_t at);
void thread_table_forget(struct thread_table *t, uint64_t before);

/* Keeps at most so many that ended, or half of that. */
void thread_table_limit(struct thread_table *t, size_t n_ended);

/* Threads of the owner's times; intervals until then; process_table, deaths, and switches as records. -ENOMEM. */
int thread_table_threads(const struct thread_table *t, struct capture_thread **ret, size_t *ret_n);
int thread_table_intervals(const struct thread_table *t, uint64_t until, struct capture_interval **ret, size_t *ret_n);
void thread_table_records(const struct thread_table *t, struct buf *b);

#endif
