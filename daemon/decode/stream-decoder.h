/*
 * One stream on its way through an engine, some bytes at a time: piece after piece, each begun anew, out of frames
 * where they are in some. Lanes of one source may be open side by side, on one thread.
 */
#ifndef CSIGHT_DECODE_STREAM_DECODER_H
#define CSIGHT_DECODE_STREAM_DECODER_H

#include "daemon/decode/input.h"
#include "daemon/decode/decode-stats.h"

enum { STREAM_DECODER_STEP = 64 << 10 };

/* Where it all goes; a negative return comes back from stream_decoder_step(). */
struct stream_decoder_sink {
	int (*element)(void *user, const struct element *e);
	int (*packet)(void *user, const struct engine_packet *p);      /* or NULL */
	int (*piece)(void *user, const struct pd_piece *p, bool ends); /* begins, or ends */
	void *user;
};

struct stream_decoder;

/*
 * What decodes, as the job names it; false: there is none of that name. With ENGINE_CHOICE_AUTO it is the native
 * engine's, and OpenCSD's where that one takes no more: a piece is begun anew then, and what has been told is not told
 * again.
 */
enum engine_choice {
	ENGINE_CHOICE_OPENCSD,
	ENGINE_CHOICE_NATIVE,
	ENGINE_CHOICE_AUTO,
	ENGINE_CHOICE_VERIFY,
	ENGINE_CHOICE_BRANCHES
};
bool stream_decoder_engine(const struct decode_job *job, enum engine_choice *ret);
const char *stream_decoder_engine_str(enum engine_choice engine);

/* The source outlives it. */
int stream_decoder_open(struct input *input, const struct stream *s, const struct stream_decoder_sink *to,
			unsigned workers, struct stream_decoder **ret);

/* Decodes at most so many bytes more, up to STREAM_DECODER_STEP. 1: there is more; 0: that was all of the stream. */
int stream_decoder_step(struct stream_decoder *sd, size_t most);

/* The stream, with what changes from piece to piece. */
const struct stream *stream_decoder_stream(const struct stream_decoder *sd);

/* Of the stream itself: bytes, and pieces that were cut, lost or that no engine takes. What elements say is not in it.
 */
const struct decode_stats *stream_decoder_stats(const struct stream_decoder *sd);

/* Where the piece at hand has its first synchronisation point; UINT64_MAX: not yet. */
uint64_t stream_decoder_sync(const struct stream_decoder *sd);

/* Bytes that have been read so far. */
uint64_t stream_decoder_bytes_read(const struct stream_decoder *sd);
struct stream_decoder *stream_decoder_close(struct stream_decoder *sd);

#endif
