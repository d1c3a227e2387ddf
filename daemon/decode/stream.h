/* SPDX-License-Identifier: MIT */
/*
 * The streams of an input: the trace of one trace source in one buffer, as pieces that are decoded one by one. The list
 * is in decode order: of a perf.data by thread or CPU, of an Arm snapshot by trace ID.
 */
#ifndef CSIGHT_DECODE_STREAM_H
#define CSIGHT_DECODE_STREAM_H

#include "lib/etm/engine.h"
#include "lib/perfdata/read.h"

/* Origin of elements: a stream of the input, or, for outputs of demux.c, a thread whose pieces belong to several
 * streams. */
struct stream {
	uint32_t number;   /* identifies the stream to outputs */
	uint32_t tid, cpu; /* of the buffer; cpu is UINT32_MAX for the buffer of a thread */
	uint32_t pid;      /* UINT32_MAX: unknown */
	const char *name;  /* of the thread, or "" */
	struct engine_config config;
	bool supported;     /* an engine supports the protocol */
	uint64_t magic;     /* of the metadata: identifies an unsupported trace source */
	bool formatted;     /* trace is in formatter frames, which may hold other trace sources as well */
	const char *buffer; /* name of an Arm snapshot's buffer, name being the trace source; else NULL */
	const struct pd_piece *pieces;
	size_t n_pieces;
	uint64_t bytes;
	uint32_t source_cpu; /* CPU of the trace unit; UINT32_MAX: unknown */
	bool of_threads;     /* each piece holds only the thread that its AUX record names */
	/*
	 * Threads are determined by context ID instead, or by records of switches. The AUX record is less exact: the
	 * kernel may switch between threads that inherited the same events without stopping them, and then a piece
	 * holds both.
	 */
	bool by_context, by_switches;
	bool shares;     /* has the same bytes as an earlier stream of the list */
	bool ends_early; /* of demux.c: the thread may run on, untraced or in a later stream */
};

struct stream_list {
	struct stream *list;
	size_t n;
	struct pd_task *owners; /* process of each thread; sorted by tid */
	size_t n_owners;
};

/*
 * Lists the streams of a perf.data; strings and pieces in *ret point into the contents. only_thread: skip buffers of
 * other threads; -1: skip none. slices: what AUX slices of CPUs' buffers hold.
 */
int stream_list_find(const struct pd_contents *contents, int64_t only_thread, enum pd_slices slices,
		     struct stream_list *ret);

/*
 * Fills the configuration for a piece. Raw trace of a thread was written by the trace unit of the CPU on which the
 * thread ran.
 */
void stream_configure(const struct pd_contents *contents, const struct stream *s, const struct pd_piece *piece,
		      struct engine_config *ret);

/* Returns the name of a thread in its last record, or "". */
const char *stream_thread_name(const struct pd_contents *contents, uint32_t tid);

enum { TRACE_IDS = 128 };

/*
 * Removes formatted streams whose trace ID does not occur in the frames, and adds an unsupported stream for each trace
 * ID that no metadata describes. ids() reads the pieces of a stream and sets ret[ID] for each ID in them; a negative
 * return of it is returned.
 */
int stream_list_filter(struct stream_list *s, int (*ids)(void *user, const struct stream *stream, bool ret[TRACE_IDS]),
		       void *user);
void stream_list_done(struct stream_list *s);

/*
 * Finds the thread ID, which Linux writes to the context ID of EL1, or of EL2 where the kernel runs there. Returns
 * false if the trace has not given one.
 */
bool stream_thread_id(const struct stream *s, const struct engine_context *context, uint32_t *ret);

/* Updates the context by which code is read, after an element. */
void stream_note_context(struct engine_context *to, const struct element *e);

/* Returns the process ID of a thread; UINT32_MAX: unknown. */
uint32_t stream_list_pid(const struct stream_list *s, uint32_t tid);

#endif
