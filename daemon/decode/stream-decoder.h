/* SPDX-License-Identifier: MIT */
/*
 * Decodes one stream through an engine, a limited number of bytes per step. Pieces are decoded one after another, each
 * with a new engine; trace in formatter frames is de-framed first. Several decoders of one input may be open at once,
 * but only on one thread.
 */
#ifndef CSIGHT_DECODE_STREAM_DECODER_H
#define CSIGHT_DECODE_STREAM_DECODER_H

#include "daemon/decode/decode-stats.h"
#include "daemon/decode/input.h"
#include "lib/etm/native.h"

enum { STREAM_DECODER_STEP = 64 << 10 };

/* Receives the output. stream_decoder_step() returns a negative value that one of these functions returns. */
struct stream_decoder_sink {
	int (*element)(void *user, const struct element *e);
	int (*packet)(void *user, const struct engine_packet *p);      /* may be NULL */
	int (*piece)(void *user, const struct pd_piece *p, bool ends); /* begin or end of a piece */
	void *user;
	/* May be NULL: may be called in place of element(). It adds the batch to what the piece amounts to so far. */
	int (*batch)(void *user, const struct native_batch *b, struct native_sums *sums);
	bool sums;                                                        /* batches of NATIVE_SUMS are enough */
	int (*branches)(void *user, const struct branch *list, size_t n); /* of ENGINE_CHOICE_BRANCHES */
};

struct stream_decoder;

/*
 * With ENGINE_CHOICE_AUTO the native engine decodes. Where it does not support the source or the code, OpenCSD decodes
 * the piece again from its beginning, and elements that were already emitted are skipped.
 */
enum engine_choice {
	ENGINE_CHOICE_OPENCSD,
	ENGINE_CHOICE_NATIVE,
	ENGINE_CHOICE_AUTO,
	ENGINE_CHOICE_VERIFY,
	ENGINE_CHOICE_BRANCHES
};

/* Finds the engine that the job's options name, or the default. Returns false for an unknown name. */
bool stream_decoder_engine(const struct decode_job *job, enum engine_choice *ret);
const char *stream_decoder_engine_str(enum engine_choice engine);

/*
 * Creates a decoder. workers: number of threads besides the calling one that the engine may use. The input must outlive
 * the decoder.
 */
int stream_decoder_open(struct input *input, const struct stream *s, const struct stream_decoder_sink *to,
			unsigned workers, struct stream_decoder **ret);

/* Decodes up to max more bytes, and no more than STREAM_DECODER_STEP. Returns 1, or 0 at the end of the stream. */
int stream_decoder_step(struct stream_decoder *sd, size_t max);

/* The stream; its tid and pid may change with each piece. */
const struct stream *stream_decoder_stream(const struct stream_decoder *sd);

/* Counts bytes, and pieces that are truncated, incomplete or not supported. Elements are not counted. */
const struct decode_stats *stream_decoder_stats(const struct stream_decoder *sd);

/* True if the last piece that ended had a sync point. */
bool stream_decoder_synced(const struct stream_decoder *sd);

/* Offset of the first sync point in the current piece; UINT64_MAX until it has been found. */
uint64_t stream_decoder_sync(const struct stream_decoder *sd);

/* Bytes read from the input so far. */
uint64_t stream_decoder_bytes_read(const struct stream_decoder *sd);
struct stream_decoder *stream_decoder_close(struct stream_decoder *sd);

#endif
