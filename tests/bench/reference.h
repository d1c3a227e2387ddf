/* SPDX-License-Identifier: MIT */
/*
 * What csight is measured against: OpenCSD with its code in buffers and a callback that does nothing. Errors are
 * negative errno. Times are processor time of the thread, in ns.
 */
#ifndef CSIGHT_TESTS_REFERENCE_H
#define CSIGHT_TESTS_REFERENCE_H

#include "lib/etm/opencsd.h"
#include "tests/etm/trace.h"

enum { PAGE = 4096 };

/* The code that a decode needs, in pages, so that neither side reads files while it is measured. */
struct page {
	uint64_t address;
	uint32_t from, to; /* the part that is available */
	uint8_t bytes[PAGE];
};

struct pages {
	const struct trace *trace;
	struct page **list; /* by address */
	size_t n;
};

/* A hash of all elements, and the numbers of ranges and instructions. */
struct said {
	uint64_t hash, elements, ranges, instructions;
};

/* For struct engine_memory; user is a struct pages, which grows by what is read. */
size_t pages_read(void *user, const struct engine_context *context, uint64_t address, void *ret, size_t size);
uint64_t pages_version(void *user, const struct engine_context *context);

/* Decodes the trace with an engine of ours, which reads its code into p. */
int reference_listen(const struct engine_ops *ops, const struct trace *t, struct pages *p, struct said *ret);

/* Receives an element, and does nothing. */
ocsd_datapath_resp_t reference_ignore(const void *user, ocsd_trc_index_t index, uint8_t id,
				      const ocsd_generic_trace_elem *e);

/* Decodes t with OpenCSD and the code of p. on NULL: its packets only. */
int reference_run(const struct trace *t, const struct pages *p, FnTraceElemIn on, double *ret);

#endif
