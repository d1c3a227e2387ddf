/*
 * Reads a Perfetto trace file as Perfetto's trace processor would, for tests; but what that passes over in silence is
 * an error here: an END without its BEGIN, a slice never ended, a packet that needs state before there is any, a name
 * or track that nobody defined. It knows the messages that csightd writes, and shares no code with the writer.
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
	char *notes; /* of its annotations: "key=value key=value" */
	bool instant;
};

struct pf_thread {
	uint64_t uuid, pid, tid;
	const char *name, *process;
};

struct pf_attribute {
	const char *key, *text; /* text NULL: a number */
	uint64_t number;
};

struct pf_trace {
	struct pf_slice *slices; /* in the file's order of their begins */
	size_t n_slices;
	struct pf_thread *threads;
	size_t n_threads;
	struct pf_attribute *attributes;
	size_t n_attributes;
	uint64_t packets;
	int64_t realtime; /* what to add to a time for CLOCK_REALTIME; 0: not told */
	char error[200];
	void *memory; /* its own */
};

/* 0; -EBADMSG with error filled in. pf_done() in either case. */
int pf_read(const void *data, size_t size, struct pf_trace *ret);
void pf_done(struct pf_trace *t);

#endif
