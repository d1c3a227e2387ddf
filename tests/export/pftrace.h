/* SPDX-License-Identifier: MIT */
/*
 * Reads a Perfetto trace file as Perfetto's trace processor would, for tests. What that ignores silently is an error
 * here: an END without a BEGIN, a slice that never ends, a packet that needs state before there is any, an undefined
 * name or track. It reads the messages that csightd writes, and shares no code with the writer.
 */
#ifndef CSIGHT_TESTS_PFTRACE_H
#define CSIGHT_TESTS_PFTRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pf_slice {
	uint64_t ts, dur;
	uint32_t depth;
	size_t thread;
	const char *name;
	char *notes; /* its annotations: "key=value key=value" */
	bool instant;
	bool counted; /* a sample of a counter, which is that of `thread`: */
	int64_t value;
};

struct pf_thread {
	uint64_t uuid, pid, tid;
	const char *name, *process;
	bool counter; /* the track of one, beneath that of a thread or of the process */
};

struct pf_attribute {
	const char *key, *text; /* text NULL: a number */
	uint64_t number;
};

struct pf_trace {
	struct pf_slice *slices; /* in the order of their begins in the file */
	size_t n_slices;
	struct pf_thread *threads;
	size_t n_threads;
	struct pf_attribute *attributes;
	size_t n_attributes;
	uint64_t packets;
	int64_t realtime; /* offset from times to CLOCK_REALTIME; 0: unknown */
	char error[200];
	void *memory; /* owned by the trace */
};

/* Returns 0, or -EBADMSG with a message in error. Call pf_done() in either case. */
int pf_read(const void *data, size_t size, struct pf_trace *ret);
void pf_done(struct pf_trace *t);

#endif
