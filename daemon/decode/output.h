/* SPDX-License-Identifier: MIT */
/*
 * The outputs of a decode. Each kind of output extends struct output, and receives the same elements. What the formats
 * contain is described in csight-formats(5); lib/export/decode-formats.h lists them.
 *
 *   output-text.c      elements, pcs, packets, none
 *   output-branches.c  branches, branches-bin
 *   output-autofdo.c   autofdo
 *   output-calls.c     all formats made of calls: a store (lib/store), and what lib/export writes from one
 */
#ifndef CSIGHT_DECODE_OUTPUT_H
#define CSIGHT_DECODE_OUTPUT_H

#include "daemon/decode/job.h"
#include "daemon/decode/stream.h"
#include "lib/code/image.h"
#include "lib/etm/native.h"

struct buf;
struct output;

struct output_ops {
	enum decode_format_id format; /* for messages; of several formats, the first */
	/* The next elements belong to this stream, which may have begun before; s->number identifies it. */
	int (*begin)(struct output *o, const struct stream *s);
	int (*element)(struct output *o, const struct element *e);
	int (*end)(struct output *o, const struct stream *s); /* the stream is complete */
	int (*finish)(struct output *o);                      /* all streams are complete */
	void (*free)(struct output *o);
	/* May be NULL: */
	int (*piece)(struct output *o, const struct pd_piece *p); /* begin of a piece */
	int (*packet)(struct output *o, const struct engine_packet *p);
	/*
	 * May be called in place of element(), if all outputs of the job have it. The output of calls gets batches of
	 * NATIVE_CALLS, by its own regions.
	 */
	int (*batch)(struct output *o, const struct native_batch *b);
	bool needs_sums; /* batch() accepts batches of NATIVE_SUMS, if all outputs do */
	/* Returns the sums of all batches of the current piece, so that the caller need not add them up. */
	const struct native_sums *(*sums)(const struct output *o);
	/* Receives branches, in the formats that branches_engine_ops decodes: they have no elements. */
	int (*branches)(struct output *o, const struct branch *list, size_t n);
};

/* The first member of each kind of output. */
struct output {
	const struct output_ops *ops;
};

/*
 * Creates a text output. The descriptor stays the caller's. Returns -EINVAL for a format that is not among those of
 * output-text.c.
 */
int output_text_new(enum decode_format_id format, int fd, struct output **ret);

/* Creates the output of DECODE_FORMAT_BRANCHES or DECODE_FORMAT_BRANCHES_BIN. The descriptor stays the caller's. */
int output_branches_new(enum decode_format_id format, int fd, struct output **ret);

/*
 * Creates the output of autofdo. The input must outlive it. Returns -EOPNOTSUPP if the code of the input does not come
 * from files.
 */
struct input;
int output_autofdo_new(struct input *input, int fd, struct output **ret);

/*
 * One output for all formats of the job that are made of calls, since all are written from one store. It uses the
 * descriptors of the job. *ret is NULL if the job has no such format.
 */
int output_calls_new(struct input *input, struct output **ret);

/*
 * Regions within which engines may merge ranges without changing the calls; NULL if there is more than one process, or
 * no memory. They live as long as the output.
 */
const struct element_regions *output_calls_regions(struct output *o);

/* Adds statistics to the result: calls, functions, and so on. */
void output_calls_json(const struct output *o, json_object *to);

/* Appends the line with which text outputs begin a new stream. Returns 0 or negative errno. */
int output_heading(struct buf *out, const struct stream *s);

#endif
