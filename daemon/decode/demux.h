/* SPDX-License-Identifier: MIT */
/*
 * Demultiplexes the trace of CPUs into threads. Each stream is decoded into a queue of its own; elements go from the
 * queues to the outputs, thread by thread and ordered by time across CPUs.
 *
 * A stretch is a part of a stream within which the CPU cannot have switched threads. Stretches end at exceptions, where
 * tracing starts, and where the context ID changes. The thread of a stretch is determined by, in this order:
 *
 *   the context ID, if timestamps or the kernel's context-switch records order the stretches;
 *   these records, if they are unambiguous: also of an AUX slice, which may hold several threads;
 *   the AUX record of its slice, where there are no such records.
 *
 * A stretch without a thread is attributed to its CPU, and is a gap in each thread that may have executed it; the
 * thread is never guessed. So is one whose order among the stretches of its thread on other CPUs is uncertain. Of a
 * shared sink (input->shown), only stretches whose time bounds lie within an interval of their thread are emitted.
 */
#ifndef CSIGHT_DECODE_DEMUX_H
#define CSIGHT_DECODE_DEMUX_H

#include "daemon/decode/decode-stats.h"
#include "daemon/decode/outputs.h"

/* False if each stream already holds exactly one thread. */
bool demux_needed(const struct input *input);

/* Decodes all streams. Adds the statistics of all to *stats, and an object with those of each thread to threads. */
int demux_run(struct input *input, struct outputs *outputs, struct decode_stats *stats, json_object *threads);

/*
 * The same of a recording that is followed, in rounds, each of which is an input of its own: threads go on from one to
 * the next. There are no streams of CPUs.
 */
enum { DEMUX_FOLLOWED_MAX = 256 }; /* threads at a time */

struct demux;
int demux_new(struct outputs *outputs, struct decode_stats *stats, struct demux **ret);

/* Decodes a round, the trace of all CPUs up to a time. The input may be closed afterwards. */
int demux_round(struct demux *d, struct input *input, uint64_t until);

/*
 * Ends a thread, or with tid UINT32_MAX all of them, between two rounds: if it has executed nothing after a time, since
 * then another one has its number.
 */
int demux_end_thread(struct demux *d, uint32_t tid, uint64_t time);

/* Adds warnings about what was left out. */
void demux_warn(const struct demux *d, struct input *input);
struct demux *demux_free(struct demux *d);

/* Adds an object with the identity and the statistics of a stream to threads. */
void demux_add_thread(json_object *threads, const struct stream *s, const struct decode_stats *stats, bool with_bytes);

#endif
