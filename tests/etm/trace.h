/* SPDX-License-Identifier: MIT */
/*
 * Loads the bytes of one trace source from any input that csight decodes, with its registers and its code, for programs
 * that compare engines. If the source has several pieces, the largest one is loaded.
 */
#ifndef CSIGHT_TESTS_TRACE_H
#define CSIGHT_TESTS_TRACE_H

#include "lib/etm/engine.h"

struct trace {
	struct engine_config config;
	uint8_t *bytes;
	size_t size;
	/* The code of the input's images; one thread at a time may read it. */
	struct engine_memory memory;
	struct trace_source *source;
};

/*
 * input: a perf.data, or the directory of a snapshot (csight's or Arm's). id: a trace ID, or -1 for the one with the
 * most bytes. Errors are printed on standard error.
 */
int trace_load(const char *input, int id, struct trace *ret);
void trace_done(struct trace *t);

/* The input's buffer as it is, in formatter frames; the caller frees it. -ENOENT: the input has no frames. */
int trace_frames(const struct trace *t, uint8_t **ret, size_t *ret_size);

#endif
