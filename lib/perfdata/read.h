/*
 * Reads a perf.data with CoreSight AUX data; the file is hostile. What stands beside the trace (maps, names, metadata)
 * is held in memory, the trace itself is read piece by piece from the descriptor.
 *
 * A header that cannot be believed is an error. Damage further on is not: what stands before it is kept, and
 * pd_damage() tells where it begins; a piece whose bytes are not all there is shorter and marked so.
 */
#ifndef CSIGHT_PERFDATA_READ_H
#define CSIGHT_PERFDATA_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/perfdata/write.h"

struct pd_problem {
	uint64_t offset;   /* in the file */
	const char *cause; /* NULL: none */
};

struct pd_comm {
	uint32_t pid, tid;
	bool exec;
	uint64_t time;
	const char *name;
};

/* Which trace ID a CPU's source was given. */
struct pd_hw_id {
	uint64_t value; /* as it was recorded; the low byte is the ID */
	struct pd_origin origin;
};

/* What the kernel said of who ran on a CPU. */
enum pd_run_kind {
	PD_RUN_IN,
	PD_RUN_OUT,
	PD_RUN_START, /* tracing was begun while it ran */
	PD_RUN_LOST,  /* records were lost since the one before it */
};

struct pd_run {
	enum pd_run_kind kind;
	uint32_t pid, tid, cpu;
	uint64_t time;
};

/* What the slices of a CPU's buffer are: their records tell which thread ran when each ended. */
enum pd_slices {
	PD_SLICES_UNKNOWN,
	PD_SLICES_OF_THREADS, /* each of that thread alone */
	PD_SLICES_OF_CPUS,    /* of whatever ran there */
};

/*
 * One slice of trace, as a PERF_RECORD_AUX describes it: to be decoded by itself. Pieces of a buffer stand together, in
 * the order in which they were recorded.
 */
struct pd_piece {
	uint32_t tid, cpu; /* whose buffer it is: cpu UINT32_MAX for one of a thread */
	uint32_t index;    /* the buffer's */
	uint64_t flags;    /* PD_AUX_* */
	uint64_t offset;   /* in the buffer */
	uint64_t size;
	uint64_t lost; /* bytes that the record names and the file does not have */
	uint64_t file_offset;
	struct pd_origin origin;
};

struct pd_contents {
	const struct pd_cpu *cpus; /* metadata */
	size_t n_cpus;
	uint64_t metadata_version;
	uint32_t pmu_type;
	bool snapshot;
	const struct pd_comm *comms;
	size_t n_comms;
	const struct pd_task *tasks;
	size_t n_tasks;
	const struct pd_map *maps; /* those that a process has of its parent are there, too, after its fork */
	size_t n_maps;
	const struct pd_hw_id *hw_ids;
	size_t n_hw_ids;
	const struct pd_run *runs; /* in the order of the file */
	size_t n_runs;
	enum pd_slices slices;
	const struct pd_piece *pieces;
	size_t n_pieces;
	uint64_t aux_records; /* of them, these give no piece: */
	uint64_t aux_repeated, aux_unplaced;
	uint64_t aux_empty, aux_empty_lost; /* of the empty ones, those that say that trace was lost: */
	const struct pd_origin *losses;     /* by thread and time */
	size_t n_losses;
	uint64_t lost_records;          /* that the recorder had no room for */
	uint64_t first_time, last_time; /* of records; 0: none has one */
	struct pd_clock clock;
	const char *version, *release,
	    *arch; /* the writer's, the kernel's, the machine's; NULL: the file does not say */
	struct pd_problem damage;
};

struct pd_file;

/*
 * fd stays the caller's and must stay open. -EBADMSG: not such a file, with offset and cause in *ret_problem;
 * -ENOMEM, -EIO. *ret_contents lives as long as the file.
 */
int pd_open(int fd, struct pd_file **ret, const struct pd_contents **ret_contents, struct pd_problem *ret_problem);

/* Whether a sink could not be had, from then to then, for this thread. */
bool pd_lost_within(const struct pd_contents *c, uint32_t tid, uint64_t from, uint64_t to);

struct pd_file *pd_close(struct pd_file *f);

/* Bytes of a piece from at on; fewer than size at its end, or where the file became shorter since. */
ssize_t pd_read(struct pd_file *f, const struct pd_piece *piece, uint64_t at, void *ret, size_t size);

static inline void pd_closep(struct pd_file **f)
{
	pd_close(*f);
}

#endif
