/*
 * One trace source's bytes in memory, out of whatever csight decodes, with its registers and its code: for programs
 * that put engines beside each other. Of a source with several pieces it is the largest one.
 */
#ifndef CSIGHT_TESTS_TRACE_H
#define CSIGHT_TESTS_TRACE_H

#include "lib/etm/engine.h"

struct trace {
	struct engine_config config;
	uint8_t *bytes;
	size_t size;
	/* Code as the input's images have it; may be asked from one thread. */
	struct engine_memory memory;
	struct trace_source *source;
};

/*
 * input: a perf.data, a snapshot's directory (csight's or Arm's). id: a trace ID, or -1 for the one with the most
 * bytes. What is wrong is said on standard error.
 */
int trace_load(const char *input, int id, struct trace *ret);
void trace_done(struct trace *t);

/* What stands around the bytes: the input's buffer in frames, as it is. Free it. -ENOENT: it is in none. */
int trace_frames(const struct trace *t, uint8_t **ret, size_t *ret_size);

#endif
