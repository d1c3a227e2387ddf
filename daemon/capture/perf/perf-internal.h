/* SPDX-License-Identifier: MIT */
/*
 * State shared by the files of the perf backend: perf.c (the machine), perf-target.c (one target), perf-copy.c
 * (snapshots), perf-counters.c, perf-drain.c (recordings), perf-keep.c (rings that outlive the daemon), perf-watch.c
 * (watch points).
 */
#ifndef CSIGHT_DAEMON_CAPTURE_PERF_INTERNAL_H
#define CSIGHT_DAEMON_CAPTURE_PERF_INTERNAL_H

#include <pthread.h>
#include <sys/queue.h>

#include "daemon/capture/perf/arena.h"
#include "daemon/capture/perf/process-table.h"
#include "daemon/capture/perf/filter.h"
#include "daemon/capture/perf/grid.h"
#include "daemon/capture/perf/kernel-code.h"
#include "daemon/capture/perf/replay-log.h"
#include "daemon/capture/perf/perf.h"
#include "daemon/capture/perf/pmu-counters.h"
#include "daemon/capture/process/process.h"
#include "daemon/capture/perf/sideband.h"
#include "daemon/capture/perf/thread-table.h"

enum { CPUS_TEXT_MAX = 512 };

struct perf_target {
	struct capture_source base;
	struct perf_machine *m;
	pid_t pid;
	uid_t uid;
	int pidfd;
	struct capture_options options; /* owns its texts */
	/* Used by the capture thread only: */
	TAILQ_ENTRY(perf_target) link;
	LIST_ENTRY(perf_target) pid_link;
	bool linked, armed, shared, contained;
	bool adopted;          /* its history is that of an earlier daemon */
	struct plan *plan;     /* where the target has rings of its own */
	struct filter *filter; /* in the form that the kernel accepts, or NULL */
	struct grid grid;
	struct pmu_counters counters;
	struct replay_log *log; /* if a keeper has the rings, or NULL */
	uint64_t replayed;      /* time of the last sideband record that an earlier daemon folded */
	bool restored_partly;   /* the replay log of an earlier daemon was not complete */
	struct thread_table thread_table;
	struct process_code *process;
	uint64_t armed_at;     /* in the records' clock */
	uint64_t unrecorded;   /* CPU time of the process before armed_at, ns; 0: none, or unknown */
	uint64_t next_publish; /* CLOCK_MONOTONIC */
	uint64_t lost_records;
	bool rescans;           /* records were lost, and its threads have not been listed since */
	uint64_t flooded_since; /* no record of a mapping that was left out is earlier; 0: none was */
	uint64_t flooded_until; /* time of the last one */
	bool paused;            /* alone, or with all others */
	bool failing;           /* its own rings did not start */
	bool filled;            /* its rings are full, and that was published */
	/* Its events are to be restarted once more, after a failure at failed_since. */
	bool again;
	uint64_t failed_since;
	int unread;               /* why process is NULL: negative errno, or 0 */
	struct perf_watch *watch; /* perf-watch.c; NULL: nothing was watched. Changed under the machine's lock. */
	uint64_t kept_since;      /* what describes trace of that time and later is kept for recordings */
	/* Read by any thread: */
	_Atomic bool lost;
	_Atomic unsigned recordings;
	/* CPU time of the process when it was armed, ns; UINT64_MAX: not armed yet */
	_Atomic uint64_t cpu_time;
	/* Under the machine's lock, published by the capture thread: */
	struct capture_thread *threads;
	size_t n_threads;
	uint64_t held, memory, code_memory; /* code_memory: the part of memory that a copy's log is made of */
	uint64_t log_memory;                /* the part that is the replay log */
	uint64_t shared_memory;             /* of the shared sinks' rings, which are larger than ring-size at times */
	struct reason trouble;
	struct buf missing;
	SLIST_ENTRY(perf_target) dead;
};

/* The events of a process that an earlier daemon has opened, and what was recorded about it since. */
struct perf_kept {
	uint64_t group; /* for the keeper */
	uint32_t pid;
	struct buf records;
	uint64_t switches_lost; /* since when they are not collected; 0: they are */
	TAILQ_ENTRY(perf_kept) link;
};

/* What the targets of an account have caused on the capture thread, beside what was requested (perf-share.c). */
struct perf_account {
	uid_t account;
	uint64_t rest_until; /* CLOCK_MONOTONIC */
	uint64_t window;     /* likewise, its begin */
	unsigned n_changes;  /* records of mappings and names in the window */
};

enum { PERF_PIDS = 1024 };

struct perf_machine {
	pthread_mutex_t lock;
	struct plan_settings settings;
	struct reason hazard; /* what settings.hazard points to */
	char *sysroot, *sink, *cpus, *keeper_path;
	int poll_fd;
	/* Written by the capture thread under the lock, which also reads it without. */
	struct topology *topology;
	/* under the lock: freed by the event loop, to be closed by the capture thread */
	SLIST_HEAD(, perf_target) dead;
	/* Used by the capture thread only: */
	struct keeper_client *keeper;      /* or NULL */
	bool keeper_failed;                /* and that was logged */
	uint64_t next_keeper, claim_until; /* CLOCK_MONOTONIC */
	TAILQ_HEAD(, perf_kept) kept;      /* not taken by a target yet */
	bool arena_kept;                   /* the arena of an earlier daemon is not taken yet */
	bool claiming;                     /* the keeper does not know yet that all was taken */
	struct kernel_code *kernel;
	struct sideband *sideband;
	struct process_table *process_table; /* if everything is traced at all times, else NULL */
	struct arena arena;
	TAILQ_HEAD(, perf_target) sources;
	LIST_HEAD(, perf_target) by_pid[PERF_PIDS]; /* the same, by pid modulo their number */
	struct perf_account *accounts;
	size_t n_accounts, accounts_room;
	uint64_t reading; /* CLOCK_MONOTONIC: when the records were last read */
	unsigned n_private, n_shared, n_contained;
	uint64_t memory; /* of private rings, bytes */
	char online[CPUS_TEXT_MAX];
	uint64_t next_maintenance, next_cpus; /* CLOCK_MONOTONIC */
	struct reason trouble;                /* of the arena */
	_Atomic bool paused;                  /* read by the event loop, too */
	_Atomic unsigned drain_ms;            /* until the next drain at the latest; read by the event loop, too */
	struct buf scratch;
};

static inline struct perf_target *perf_target_of(struct capture_source *source)
{
	return container_of(source, struct perf_target, base);
}

/* Opens the sideband events if there is a target or an arena; closes them otherwise. */
int perf_machine_open_sideband(struct perf_machine *m, struct reason *why);

/* Reads the topology again: modules and CPUs may have come or gone. */
void perf_machine_reread_topology(struct perf_machine *m);

/* Opens or restarts the arena. Owns the plan from then on, also on failure. */
int perf_machine_open_arena(struct perf_machine *m, struct plan *p, struct reason *why);
void perf_machine_close_arena(struct perf_machine *m);

/* Closes the targets that were freed. */
void perf_machine_free_dead(struct perf_machine *m);

/* Reads all available records and passes them to the targets. */
void perf_machine_read_records(struct perf_machine *m);

/* Appends to why which processes or sysfs users may hold the sinks of this plan. */
void perf_machine_name_holders(const struct perf_machine *m, const struct plan *p, struct reason *why);

/* Closes what the target has open. Capture thread only. */
void perf_target_close(struct perf_target *s);

/* Opens events on CPUs that are new; closes the target if the process makes the calls for that wait. */
void perf_target_add_cpus(struct perf_target *s);

/* Checks the owner again if the process has executed a program. */
void perf_target_check_owner(struct perf_target *s);

/* True if the process has not ended. */
bool perf_target_exists(const struct perf_target *s);
/* Adds a record to the replay log and folds it into the target's state. False: it is not about this target. */
bool perf_target_record(struct perf_target *s, const struct perf_record *r);

/* Folds a record that is in the replay log already. */
void perf_target_fold(struct perf_target *s, const struct perf_record *r);

/* perf-keep.c: connects to the keeper, unless that was tried a moment ago. */
void perf_keep_connect(struct perf_machine *m);
/* Connects; some time after that, closes what no target has taken. */
void perf_keep_maintain(struct perf_machine *m);
void perf_keep_forget(struct perf_machine *m);
/* True if records of the process are collected until its target takes the rings of an earlier daemon. */
bool perf_keep_wants(const struct perf_machine *m, uint32_t pid);
/* Collects the record of such a process, and returns true: it must not be folded now. */
bool perf_keep_record(struct perf_machine *m, uint32_t pid, const struct perf_record *r);
/* Adds a record to the replay log, if there is one; no switch that would only show pauses. */
void perf_keep_log(struct perf_target *s, const struct perf_record *r);
/* Sets the keeper and the group of the target's grid. To be called before its rings are opened or taken. */
void perf_keep_prepare(struct perf_target *s);
/* Takes the rings that an earlier daemon has opened by the same plan. False: there are none. */
bool perf_keep_adopt(struct perf_target *s, const struct plan *p);
/* Begins the replay log of rings that were just opened; logs a warning if that fails. */
void perf_keep_begin(struct perf_target *s, const struct plan *p);
/* The same for the arena; p is owned on success. */
bool perf_keep_adopt_arena(struct perf_machine *m, struct plan *p);
void perf_keep_begin_arena(struct perf_machine *m);
/* Add REPLAY_OWNED, or REPLAY_LOST or REPLAY_LEFT_OUT (place), to the replay log. */
void perf_keep_log_owned(struct perf_target *s, uint64_t from);
void perf_keep_log_lost(struct perf_target *s, uint32_t place, uint64_t since, uint64_t until);
/* Returns since when all records are known: that of its arming, unless the replay log has lost older ones. */
uint64_t perf_keep_recorded_since(const struct perf_target *s);
/* Folds what earlier daemons have recorded, if anything. */
void perf_keep_replay(struct perf_target *s);

/* Rebuilds the state of the target after records since this time were lost. */
void perf_target_rescan(struct perf_target *s, uint64_t since);

/* The same, and its threads are listed when the share of its account permits. Until then no owner is known for it. */
void perf_target_lost_records(struct perf_target *s, uint64_t since);
void perf_target_catch_up(struct perf_target *s);

/* False: its program causes more of such records than csightd follows; what they say is lost. */
bool perf_target_follows(struct perf_target *s, const struct perf_record *r);

/* All records of this time have been read. */
void perf_target_end_flood(struct perf_target *s);

/* Periodic work: restarts failed rings, discards expired data, publishes the status for the event loop. */
void perf_target_maintain(struct perf_target *s, uint64_t now);

struct process_of perf_target_process(const struct perf_target *s);

const struct plan *perf_target_plan(const struct perf_target *s);
struct aux_buffer *perf_target_rings(const struct perf_target *s);

/* Returns the oldest time for which there may be trace; 0: unknown. */
uint64_t perf_target_oldest(const struct perf_target *s);

/* Appends texts that describe what the trace of the target lacks, for its owner to read. */
void perf_target_report_missing(const struct perf_target *s, struct buf *b);

/* perf-share.c: returns how many events more, and how many bytes of rings more, the user of the target may have. */
size_t perf_share_events(const struct perf_target *s);
uint64_t perf_share_rings(const struct perf_target *s);

/* True if the targets of its account have taken their share of the capture thread's time. */
bool perf_share_rests(const struct perf_target *s);
void perf_share_worked(struct perf_target *s, uint64_t begun);

/* Counts a record that a program can cause at will. False: its account has more in PERF_DRAIN_MS than csightd folds. */
bool perf_share_count_record(struct perf_target *s);
/* Returns the bytes of the rings and of the replay log that the target has of its own. */
uint64_t perf_share_memory(const struct perf_target *s);

/* perf-watch.c: opens the events of the list after the target was armed, or closes them. */
void perf_watch_arm(struct perf_target *s);
void perf_watch_close(struct perf_target *s);
void perf_watch_free(struct perf_target *s);
void perf_watch_record(struct perf_target *s, const struct perf_record *r);
/* Reads hits, and freezes the rings at a hit for which hold() requested that. */
void perf_watch_drain(struct perf_target *s);
/* True if hits of the target cause no notice. */
bool perf_watch_polls(const struct perf_target *s);
/* Returns since when a hit has stopped tracing, CLOCK_MONOTONIC; 0: none has. perf_watch_thaw() continues tracing. */
uint64_t perf_watch_held(const struct perf_target *s);
void perf_watch_thaw(struct perf_target *s);
/* Returns the number of events that watch the target. */
size_t perf_watch_events(const struct perf_target *s);
extern const struct capture_watching perf_watching;

int perf_copy(struct capture_source *source, bool alive, const struct capture_limits *limits,
	      struct capture_copy **ret);

/* perf-counters.c: opens the counters of the target's options on the CPUs where they are not open. */
int perf_counters_open(struct perf_target *s, struct reason *why);
void perf_counters_close(struct perf_target *s);
/* Counts on CPUs that are new. */
void perf_counters_extend(struct perf_target *s);
/* Adds the samples of the counters; of a recording those behind the positions, which move. */
int perf_counters_copy(struct perf_target *s, struct capture_positions *p, struct capture_copy *c);
/* Appends texts that describe what is not counted. */
void perf_counters_report_missing(const struct perf_target *s, struct buf *b);

/* Parts of a copy, which a drain has, too: see perf-copy.c. */
/* True if the CPU of the ring is traced, and its trace can be decoded. */
bool perf_copy_has_registers(const struct perf_target *s, const struct aux_buffer *ring);
int perf_copy_units(const struct perf_target *s, struct capture_copy *c);
void perf_copy_starts(const struct perf_target *s, struct capture_copy *c);

/* Appends the names and mappings of the process, if it is there, as process_write_mappings() does. */
int perf_copy_mappings(struct perf_target *s, struct buf *ret);

/*
 * Adds what the decoder cannot see in the slices: when tracing was off, up to that time or later, and lost records at
 * the end of a ring.
 */
void perf_copy_losses(const struct perf_target *s, uint64_t since, struct capture_copy *c);

/* Stops the sinks of a target, those of its rings or the shared ones, and starts them. */
void perf_target_stop(struct perf_target *s);
void perf_target_start(struct perf_target *s);

/* Starts the shared sinks of CPUs again that began without context IDs. The records have been read. */
void perf_restore_contexts(struct perf_machine *m);
void perf_copy_hide_others(struct capture_copy *c);

/* perf-drain.c: a recording that goes on while the process runs. */
int perf_drain(struct capture_source *source, struct capture_positions *positions, struct capture_drain *drain,
	       struct capture_copy **ret);
void perf_drain_recorded(struct capture_source *source, bool begins);
const char *perf_not_live(const struct capture_source *source);

/* Returns since when what describes the trace of recordings has to be kept; UINT64_MAX: there are none. */
uint64_t perf_drain_kept(struct perf_target *s);

/* The last copy of a recording: adds the rest of the rings; cuts all else where another user's program may run. */
int perf_drain_last(struct perf_target *s, const struct capture_limits *limits, struct capture_copy *c);
void perf_drain_cut(const struct perf_target *s, const struct capture_positions *since, struct capture_copy *c);

#endif
