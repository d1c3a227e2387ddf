/* SPDX-License-Identifier: MIT */
/*
 * The perf.data of a snapshot: written at once, or of a recording, piece by piece while the program runs, where slices
 * of its threads' streams precede the other records. A part that is missing between two slices is an AUX record of its
 * length without bytes. On one thread at a time.
 *
 * A live one goes to a pipe in the order in which it is appended: names and mappings, then the trace that needs them,
 * and PERF_RECORD_EXIT of each thread behind its last trace. It takes memory for the present threads alone. That of
 * rings is decoded in rounds, each of which ends with PERF_RECORD_FINISHED_ROUND and a time, up to which it has all
 * trace; other records in it may be later.
 */
#ifndef CSIGHT_DAEMON_TRACE_FILE_H
#define CSIGHT_DAEMON_TRACE_FILE_H

#include "daemon/snapshot-writer.h"

/* perf's name of the kernel as a file. The name of its mapping is this and the symbol at its start, as _stext. */
#define TRACE_FILE_KERNEL "[kernel.kallsyms]"

struct trace_file;

/* In bytes of trace. */
struct trace_file_counts {
	uint64_t bytes, lost;
	uint64_t gaps;   /* their number */
	uint64_t size;   /* bytes of the file so far */
	uint64_t memory; /* bytes in memory */
	bool full;       /* it has as many threads, or slices of their streams, as it may have */
};

/* Makes the file in a directory. exe: of the target; c has the trace units and the clock. */
int trace_file_begin(int dir, const struct target *t, const char *exe, const struct capture_copy *c, bool recording,
		     struct trace_file **ret);

/* The same of a live one, of a target that is not renamed. */
int trace_file_begin_live(const struct target *t, const struct capture_copy *c, struct trace_file **ret);

/* Ends a round of a live one of rings: the trace up to this time. */
void trace_file_end_round(struct trace_file *f, uint64_t time);

/* Moves what has been appended to a live file to the end of *ret. */
int trace_file_take(struct trace_file *f, struct buf *ret);

/* Appends a copy that was drained. Of a live file, c->log has only the part of the log that is new. */
int trace_file_append(struct trace_file *f, const struct capture_copy *c);

/*
 * Appends the last copy, whose threads become all that were recorded, without data. closed: the copy is later than the
 * end of the recording, and has nothing for it.
 */
int trace_file_append_last(struct trace_file *f, struct capture_copy *c, bool closed);

/* Writes all that remains, and syncs the file. */
int trace_file_end(struct trace_file *f, const struct snapshot_writer *sw);

struct trace_file_counts trace_file_counts(const struct trace_file *f);

/* Closes the file. Returns NULL. */
struct trace_file *trace_file_free(struct trace_file *f);

#endif
