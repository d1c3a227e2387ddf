/*
 * What the kernel's records tell of one process: its threads, when each lived, and when it was its owner's. Folded:
 * what ended before the trace reaches back to is forgotten, and there is a limit to what is kept in any case. On one
 * thread.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_TASKS_H
#define CSIGHT_DAEMON_CAPTURE_TASKS_H

#include "daemon/capture/capture.h"
#include "daemon/capture/perf/pevent.h"

enum { TASKS_ENDED_MAX = 8192, TASKS_SPANS_MAX = 1024, TASKS_SWITCHES_MAX = 1 << 17 };

struct task {
	uint32_t tid, parent; /* parent: the thread that made it, where its birth was seen */
	bool born;            /* its birth was seen, at start */
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

struct task_span {
	uint64_t from, to; /* to UINT64_MAX: it goes on */
};

struct task_switch {
	uint64_t time;
	uint32_t cpu, tid;
	uint16_t misc;
};

struct tasks {
	uint32_t pid;
	struct task *list; /* in the order in which they were met */
	size_t n, room, n_ended;
	struct task_span *spans; /* when all that it ran was its owner's, oldest first */
	size_t n_spans, spans_room;
	struct task_switch *switches;
	size_t first_switch, n_switches, switches_room;
	bool rights_told; /* as its user knows: when it gains rights by executing there is a record of it (EXIT) */
	/* of programs that it executed since tasks_checked() */
	unsigned execs;
	uint64_t last_exec;
	bool theirs;    /* its owner's program executed the last, and no record of that is missing */
	bool skipped;   /* ever: whose one was is not known, and it is nobody's */
	uint64_t since; /* it has been the same program, born or executed then; 0: longer than is known */
	bool ended;     /* its last thread did */
	bool dropped;   /* there was more than is kept, or no memory */
};

void tasks_init(struct tasks *t, uint32_t pid);
void tasks_done(struct tasks *t);

/* The process that FORK, EXIT, COMM and MMAP2 records are about, of switches who it is that runs; 0 for none. */
uint32_t tasks_pid_of(const struct pevent_record *r);

/* One record that is about it. */
void tasks_fold(struct tasks *t, const struct pevent_record *r);

/* A FORK record of another process: a number that was this one's may be that one's now. */
void tasks_forked(struct tasks *t, const struct pevent_record *r);

/* What the records did not tell: the threads that /proc shows are there at now, and those it does not show are not. */
int tasks_scan(struct tasks *t, uint64_t now);

/* It is its owner's from then on; or not any more: also what was said of later times is taken back. */
void tasks_own(struct tasks *t, uint64_t from);
void tasks_disown(struct tasks *t, uint64_t from);

/* Records after that time are missing: nothing that they would have ended goes on. */
void tasks_missed(struct tasks *t, uint64_t since);

/* Whether anything is its owner's at that time. */
bool tasks_owned(const struct tasks *t, uint64_t at);

/* The credentials are known to hold for what it runs now. */
void tasks_checked(struct tasks *t);

struct task *tasks_find(struct tasks *t, uint32_t tid, uint64_t at);
void tasks_forget(struct tasks *t, uint64_t before);

/* Keeps at most so many that ended, or half of that. */
void tasks_limit(struct tasks *t, size_t n_ended);

/* Threads of the owner's times; intervals until then; births, deaths, and switches as records. -ENOMEM. */
int tasks_tell_threads(const struct tasks *t, struct capture_thread **ret, size_t *ret_n);
int tasks_tell_intervals(const struct tasks *t, uint64_t until, struct capture_interval **ret, size_t *ret_n);
void tasks_tell_records(const struct tasks *t, struct buf *b);

/* Adds one record as capture.h has them. */
void tasks_put_record(struct buf *b, uint32_t type, uint16_t misc, const void *body, size_t size,
		      const struct pd_origin *origin);

#endif
