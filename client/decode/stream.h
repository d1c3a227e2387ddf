/*
 * The streams of an input: one a trace source and buffer, each some pieces to be decoded one by one, in the order in
 * which they are decoded: of a perf.data by thread, else by CPU; of a snapshot by trace ID.
 */
#ifndef CSIGHT_DECODE_STREAM_H
#define CSIGHT_DECODE_STREAM_H

#include "lib/etm/engine.h"
#include "lib/perfdata/read.h"

struct stream {
	uint32_t tid, cpu; /* whose buffer: cpu UINT32_MAX for one of a thread */
	uint32_t pid;	   /* UINT32_MAX: not known */
	const char *name;  /* of the thread, or "" */
	struct engine_config config;
	bool supported; /* an engine knows its protocol */
	uint64_t magic; /* of its metadata, to say what it is where it is not */
	bool formatted;	     /* in frames, of which this source's bytes are taken */
	const char *buffer;  /* an Arm snapshot's, whose name is the source's then; else NULL */
	const struct pd_piece *pieces;
	size_t n_pieces;
	uint64_t bytes;
	bool shares; /* another stream, before it, has the same bytes */
};

struct streams {
	struct stream *list;
	size_t n;
	struct pd_task *owners; /* sorted by tid: which process a thread belongs to */
	size_t n_owners;
};

/* What is in *ret points into the contents. only_thread -1: all. */
int streams_find(const struct pd_contents *contents, int64_t only_thread, struct streams *ret);

enum { TRACE_IDS = 128 };

/*
 * Of streams out of frames, keeps those whose trace IDs the frames have, and adds those that nothing else tells of: ids
 * says which there are in a stream's pieces. What it returned where that was negative.
 */
int streams_keep(struct streams *s, int (*ids)(void *user, const struct stream *stream, bool ret[TRACE_IDS]), void *user);
void streams_done(struct streams *s);

/* The process of a thread; UINT32_MAX: not known. */
uint32_t streams_pid(const struct streams *s, uint32_t tid);

#endif
