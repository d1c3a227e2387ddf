/*
 * Threads out of a perf.data's streams. Each stream goes through its engine into a queue of its own; what comes out of
 * the queues goes to the thread that did it, in the order of time across CPUs.
 *
 * What a CPU did is cut into stretches, within each of which the CPU cannot have gone from one thread to another: at
 * exceptions, where tracing begins, and where the context ID changes. A stretch is a thread's by
 *
 *   the context ID, where there are times with it, or slices of trace are not of one thread each;
 *   else the record of its slice of trace;
 *   else the kernel's records of who ran, where they leave no doubt.
 *
 * What is nobody's by these is told as the CPU's, never guessed. Of a shared sink (source->shown) nothing goes out but
 * what lies, with all that bounds its time, within an interval of its thread.
 */
#ifndef CSIGHT_DECODE_DEMUX_H
#define CSIGHT_DECODE_DEMUX_H

#include "daemon/decode/outputs.h"
#include "daemon/decode/decode-stats.h"

/* Whether there is anything to put together: else streams are what threads did. */
bool demux_needed(const struct input *input);

/* tally: of all; threads: an array that each thread is added to, with its counts. */
int demux_run(struct input *input, struct outputs *outputs, struct decode_stats *stats, json_object *threads);

/* What a stream is of, and what was counted of it. */
void demux_add_thread(json_object *threads, const struct stream *s, const struct decode_stats *t, bool with_bytes);

#endif
