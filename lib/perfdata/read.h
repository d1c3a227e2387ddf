/* SPDX-License-Identifier: MIT */
/*
 * Reads a perf.data file with CoreSight AUX trace. The file may be hostile. Sideband records and metadata are held in
 * memory; the trace itself is read piece by piece from the descriptor.
 *
 * An invalid header is an error. Damage after it is not: contents before the damage are kept, pd_contents.damage says
 * where it begins, and a piece whose bytes are not all in the file is shorter and has `lost` set.
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

/* The trace ID that was assigned to a CPU's trace source. */
enum { PD_HW_ID_MAJOR_SHIFT = 60 };

struct pd_hw_id {
	uint64_t value; /* as recorded; the low byte is the ID */
	struct pd_origin origin;
};

/* Sideband about the thread that runs on a CPU. */
enum pd_run_kind {
	PD_RUN_IN,
	PD_RUN_OUT,
	PD_RUN_PREEMPTED, /* out, but it could go on */
	PD_RUN_START,     /* the thread was running when tracing began */
	PD_RUN_LOST,      /* records were lost since the previous one */
};

struct pd_run {
	enum pd_run_kind kind;
	uint32_t pid, tid, cpu;
	uint64_t time;
};

/* Whose trace a slice of a CPU's buffer holds; its AUX record names the thread that ran when the slice ended. */
enum pd_slices {
	PD_SLICES_UNKNOWN,
	PD_SLICES_OF_THREADS, /* that thread's, or also those of threads with the same inherited events */
	PD_SLICES_OF_CPUS,    /* of all threads that ran on the CPU */
};

/*
 * One AUX slice, as a PERF_RECORD_AUX describes it; each is decoded separately. Pieces of a buffer are adjacent, in the
 * order in which they were recorded.
 */
struct pd_piece {
	uint32_t tid, cpu; /* of the buffer: cpu is UINT32_MAX for a thread's buffer */
	uint32_t index;    /* the buffer's */
	uint64_t flags;    /* PD_AUX_* */
	uint64_t offset;   /* in the buffer */
	uint64_t size;
	uint64_t lost; /* bytes of the slice that are missing in the file; with PD_AUX_GAP: all of it */
	uint64_t file_offset;
	size_t extents, n_extents; /* several slices that continue each other; 0: one */
	struct pd_origin origin;
};

enum pd_loss_kind {
	PD_LOSS_TRUNCATED,   /* the sink was full or unavailable, or failed */
	PD_LOSS_RECORDS,     /* the recorder lost records, or the file lacks bytes of a slice */
	PD_LOSS_OVERWRITTEN, /* the buffer wrapped before it was copied */
	PD_LOSS_PAUSED,      /* the recorder stopped and started tracing */
};

/* Trace that was executed and is in no piece: of slices that ended after `from` and before `to`. */
struct pd_loss {
	uint32_t tid, cpu; /* tid UINT32_MAX: of any thread */
	enum pd_loss_kind kind;
	uint64_t begun; /* when the first of these slices may have begun */
	uint64_t from, to;
	size_t longest; /* index of the loss that ends last, among those up to this one: see losses.c */
};

/* An event of the file. One that is not named has no samples. */
struct pd_counter {
	const char *name;
	bool frequency; /* of the CPUs that its samples name */
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
	const struct pd_map *maps; /* includes the mappings that a forked process inherits, with the time of the fork */
	size_t n_maps;
	const struct pd_hw_id *hw_ids; /* the last one of each CPU and major version */
	size_t n_hw_ids;
	const struct pd_run *runs; /* in the order of the file */
	size_t n_runs;
	const struct pd_counter *counters;
	size_t n_counters;
	const struct pd_sample *samples; /* in the order of the file */
	size_t n_samples;
	enum pd_slices slices;
	const struct pd_piece *pieces;
	size_t n_pieces;
	uint64_t aux_records;
	/*
	 * AUX records without a piece: repeated, in no buffer, empty; of the empty ones, those that report lost trace.
	 */
	uint64_t aux_repeated, aux_unplaced, aux_empty, aux_empty_lost;
	const struct pd_loss *losses, *losses_by_time; /* by thread; the same, of all threads */
	size_t n_losses;
	uint64_t lost_records;          /* from LOST records: the recorder's buffer was full */
	uint64_t first_time, last_time; /* of records; 0: no record has a time */
	struct pd_clock clock;
	bool names_clock;                     /* the events name the clock of their times, CLOCK_MONOTONIC mostly */
	const char *version, *release, *arch; /* of perf, of the kernel, of the machine; NULL: not in the file */
	const void *notes;                    /* of the program, in the form of notes_copy() */
	size_t notes_size;
	struct pd_problem damage;
};

struct pd_file;

/*
 * Opens a perf.data file. The caller keeps fd, which must stay open. *ret_contents lives as long as the pd_file.
 * -EBADMSG: not a valid file, with offset and cause in *ret_problem; -ENOMEM, -EIO.
 */
int pd_open(int fd, struct pd_file **ret, const struct pd_contents **ret_contents, struct pd_problem *ret_problem);

/* True if the thread may have lost a slice between two slices that ended at these times, or the end of the first one.
 */
bool pd_lost_between(const struct pd_contents *c, uint32_t tid, uint64_t since, uint64_t until, enum pd_loss_kind *ret);

/* True if trace that was executed in this interval may be lost, of whichever thread. */
bool pd_lost_anywhere(const struct pd_contents *c, uint64_t since, uint64_t until, enum pd_loss_kind *ret);

struct pd_file *pd_close(struct pd_file *f);

/* Reads a piece from offset at on; returns fewer than size bytes at its end, or if the file has become shorter. */
ssize_t pd_read(struct pd_file *f, const struct pd_piece *piece, uint64_t at, void *ret, size_t size);

static inline void pd_closep(struct pd_file **f)
{
	pd_close(*f);
}

/* Finds the AUX_OUTPUT_HW_ID record of a CPU; NULL if there is none, or only ones of an unknown major version. */
const struct pd_hw_id *pd_find_hw_id(const struct pd_contents *c, uint32_t cpu);

#endif
