/*
 * The streams of an input: one a trace source and buffer, each some pieces to be decoded one by one, in the order in
 * which they are decoded: of a perf.data by thread, else by CPU; of a snapshot by trace ID.
 */
#ifndef CSIGHT_DECODE_STREAM_H
#define CSIGHT_DECODE_STREAM_H

#include "lib/etm/engine.h"
#include "lib/perfdata/read.h"

/*
 * Whatever elements are told of: a source's own stream, or what a thread did, put together of pieces of several.
 */
struct stream {
	uint32_t number;   /* among those that outputs are told of */
	uint32_t tid, cpu; /* whose buffer: cpu UINT32_MAX for one of a thread */
	uint32_t pid;      /* UINT32_MAX: not known */
	const char *name;  /* of the thread, or "" */
	struct engine_config config;
	bool supported;     /* an engine knows its protocol */
	uint64_t magic;     /* of its metadata, to say what it is where it is not */
	bool formatted;     /* in frames, of which this source's bytes are taken */
	const char *buffer; /* an Arm snapshot's, whose name is the source's then; else NULL */
	const struct pd_piece *pieces;
	size_t n_pieces;
	uint64_t bytes;
	uint32_t source_cpu; /* whose trace unit it is; UINT32_MAX: not known */
	bool of_threads;     /* each piece is of the thread that its record names */
	/*
	 * It has context IDs and times, which tell more: the kernel goes from one thread to another that inherited the
	 * same events without stopping them, and a piece is of both.
	 */
	bool by_context;
	bool shares; /* another stream, before it, has the same bytes */
};

struct stream_list {
	struct stream *list;
	size_t n;
	struct pd_task *owners; /* sorted by tid: which process a thread belongs to */
	size_t n_owners;
};

/*
 * What is in *ret points into the contents. only_thread -1: all; else buffers of other threads are left out. slices:
 * what those of CPUs' buffers are.
 */
int stream_list_find(const struct pd_contents *contents, int64_t only_thread, enum pd_slices slices,
		     struct stream_list *ret);

/* Of a piece: a thread's raw bytes come from the CPU on which it ran. */
void stream_configure(const struct pd_contents *contents, const struct stream *s, const struct pd_piece *piece,
		      struct engine_config *ret);

/* Of a thread, from its last record; "": none. */
const char *stream_thread_name(const struct pd_contents *contents, uint32_t tid);

enum { TRACE_IDS = 128 };

/*
 * Of streams out of frames, keeps those whose trace IDs the frames have, and adds those that nothing else tells of: ids
 * says which there are in a stream's pieces. What it returned where that was negative.
 */
int stream_list_filter(struct stream_list *s, int (*ids)(void *user, const struct stream *stream, bool ret[TRACE_IDS]),
		       void *user);
void stream_list_done(struct stream_list *s);

/* The context ID that Linux gives to threads: that of EL1, or of EL2 where the kernel runs there. False: not told. */
bool stream_thread_id(const struct stream *s, const struct engine_context *context, uint32_t *ret);

/* The process of a thread; UINT32_MAX: not known. */
uint32_t stream_list_pid(const struct stream_list *s, uint32_t tid);

#endif
