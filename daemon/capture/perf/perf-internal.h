/* What the parts of the perf backend share: perf.c (the machine), perf-source.c (one target), perf-copy.c. */
#ifndef CSIGHT_DAEMON_CAPTURE_PERF_INTERNAL_H
#define CSIGHT_DAEMON_CAPTURE_PERF_INTERNAL_H

#include <pthread.h>
#include <sys/queue.h>

#include "daemon/capture/perf/arena.h"
#include "daemon/capture/perf/process-table.h"
#include "daemon/capture/perf/filter.h"
#include "daemon/capture/perf/grid.h"
#include "daemon/capture/perf/perf.h"
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
	struct capture_options options; /* with texts of its own */
	/* the lane's: */
	TAILQ_ENTRY(perf_target) link;
	bool linked, armed, shared, contained;
	struct plan *plan;     /* where it has rings of its own */
	struct filter *filter; /* as the kernel is given it, or NULL */
	struct grid grid;
	struct thread_table thread_table;
	struct process *process;
	uint64_t armed_at;     /* in the records' clock */
	uint64_t next_publish; /* CLOCK_MONOTONIC */
	uint64_t lost_records;
	bool failing; /* its own rings did not start */
	int unread;   /* why there is no process, negative errno, or 0 */
	/* atomic: */
	_Atomic bool lost;
	_Atomic uint64_t cpu_time; /* of the process when it was armed, ns; UINT64_MAX: not armed yet */
	/* Under the machine's lock, as the lane told last: */
	struct capture_thread *threads;
	size_t n_threads;
	uint64_t held, memory;
	struct reason trouble;
	struct buf missing;
	SLIST_ENTRY(perf_target) dead;
};

struct perf_machine {
	pthread_mutex_t lock;
	struct plan_settings settings;
	char *sysroot, *sink;
	int poll_fd;
	/* Written by the lane, under the lock; the lane reads it without. */
	struct topology *topology;
	SLIST_HEAD(, perf_target) dead; /* under the lock: freed by the loop, to be ended by the lane */
	/* the lane's: */
	struct sideband *sideband;
	struct process_table *process_table; /* where everything is traced always, else NULL */
	struct arena arena;
	TAILQ_HEAD(, perf_target) sources;
	unsigned n_private, n_shared, n_contained;
	uint64_t memory; /* of private rings */
	char online[CPUS_TEXT_MAX];
	uint64_t next_care, next_cpus; /* CLOCK_MONOTONIC */
	struct reason trouble;         /* of what all share */
	struct buf scratch;
};

static inline struct perf_target *perf_target_of(struct capture_source *source)
{
	return container_of(source, struct perf_target, base);
}

/* Opens the sideband events for a target, or closes those that nobody needs. */
int perf_machine_open_sideband(struct perf_machine *m, struct reason *why);

/* The topology anew: modules and CPUs may have come or gone. */
void perf_machine_reread_topology(struct perf_machine *m);

/* The arena for this plan (taken, also on failure), where it does not run yet. */
int perf_machine_open_arena(struct perf_machine *m, struct plan *p, struct reason *why);
void perf_machine_close_arena(struct perf_machine *m);

/* Takes in all records that there are. */
void perf_machine_read_records(struct perf_machine *m);

/* Adds in words who may have the sinks of this plan. */
void perf_machine_name_holders(const struct perf_machine *m, const struct plan *p, struct reason *why);

/* On the lane: ends what it has open. */
void perf_target_close(struct perf_target *s);

/* Whose it is after it executed something. */
void perf_target_check_owner(struct perf_target *s);
bool perf_target_record(struct perf_target *s, const struct perf_record *r); /* false: it is not about it */

/* Records were lost: what is known is found out anew. */
void perf_target_rescan(struct perf_target *s, uint64_t since);

/* Retries, forgets, and tells the loop. */
void perf_target_maintain(struct perf_target *s, uint64_t now);

/* For the kernel, or NULL. */
const char *perf_target_filter(const struct perf_target *s);

const struct plan *perf_target_plan(const struct perf_target *s);
struct aux_buffer *perf_target_rings(const struct perf_target *s);

/* Adds what is not as it should be with the trace of a target, in words that its owner may read. */
void perf_target_report_missing(const struct perf_target *s, struct buf *b);

int perf_copy(struct capture_source *source, bool alive, size_t limit, struct capture_copy **ret);

#endif
