/*
 * One stream on its way through an engine, some bytes at a time: piece after piece, each begun anew, out of frames
 * where they are in some. Lanes of one source may be open side by side, on one thread.
 */
#ifndef CSIGHT_DECODE_LANE_H
#define CSIGHT_DECODE_LANE_H

#include "daemon/decode/source.h"
#include "daemon/decode/tally.h"

enum { LANE_STEP = 64 << 10 };

/* Where it all goes; a negative return comes back from lane_step(). */
struct lane_to {
	int (*element)(void *user, const struct element *e);
	int (*packet)(void *user, const struct engine_packet *p);      /* or NULL */
	int (*piece)(void *user, const struct pd_piece *p, bool ends); /* begins, or ends */
	void *user;
};

struct lane;

/*
 * What decodes, as the job names it; false: there is none of that name. With LANE_AUTO it is the native
 * engine's, and OpenCSD's where that one takes no more: a piece is begun anew then, and what has been told is not told
 * again.
 */
enum lane_engine { LANE_OPENCSD, LANE_NATIVE, LANE_AUTO, LANE_VERIFY, LANE_BRANCHES };
bool lane_engine(const struct job *job, enum lane_engine *ret);
const char *lane_engine_str(enum lane_engine engine);

/* The source outlives it. */
int lane_open(struct source *source, const struct stream *s, const struct lane_to *to, struct lane **ret);

/* Decodes at most so many bytes more, up to LANE_STEP. 1: there is more; 0: that was all of the stream. */
int lane_step(struct lane *l, size_t most);

/* The stream, with what changes from piece to piece. */
const struct stream *lane_stream(const struct lane *l);

/* Of the stream itself: bytes, and pieces that were cut, lost or that no engine takes. What elements say is not in it.
 */
const struct tally *lane_tally(const struct lane *l);

/* Where the piece at hand has its first synchronisation point; UINT64_MAX: not yet. */
uint64_t lane_sync(const struct lane *l);

/* Bytes that have been read so far. */
uint64_t lane_read(const struct lane *l);
struct lane *lane_close(struct lane *l);

#endif
