/*
 * What a decode is turned into: each kind of output is a struct output, and all are fed alike. Text formats:
 *
 *   elements   lib/etm/element.h, each line behind the trace ID in hexadecimal
 *   pcs        the address of every executed instruction, in hexadecimal, one a line
 *   packets    each packet of the trace: offset, bytes, name and fields
 *   autofdo    output-autofdo.c has it: counts by file, of all streams
 *   none       nothing; what is counted is counted all the same
 *
 * Before what comes of another stream stands a comment line: "# thread TID", or "# cpu N" where it is a CPU's.
 *
 * The others are made of calls: store (lib/store), and what lib/export makes of a store: perfetto, and calls, its tree.
 */
#ifndef CSIGHT_DECODE_OUTPUT_H
#define CSIGHT_DECODE_OUTPUT_H

#include "daemon/decode/job.h"
#include "daemon/decode/stream.h"
#include "lib/code/image.h"

struct output;

struct output_ops {
	enum decode_format_id format; /* for messages; of several formats, the first */
	/* What comes is of this stream; also where it goes on after others, told apart by their numbers. */
	int (*begin)(struct output *o, const struct stream *s);
	int (*element)(struct output *o, const struct element *e);
	int (*end)(struct output *o, const struct stream *s);
	int (*finish)(struct output *o); /* of everything */
	void (*free)(struct output *o);
	/* These may be NULL. */
	int (*piece)(struct output *o, const struct pd_piece *p); /* begins */
	int (*packet)(struct output *o, const struct engine_packet *p);
};

/* Each kind of output has this at its head. */
struct output {
	const struct output_ops *ops;
};

/* -EINVAL: no such text format. The descriptor stays the caller's. */
int output_text_new(enum decode_format_id format, int fd, struct output **ret);

/* The source outlives them. -EOPNOTSUPP: its code is of no files. */
struct input;
int output_autofdo_new(struct input *input, int fd, struct output **ret);

/*
 * One for all the formats that are made of calls, as store is the ground of all; it takes its descriptors from the job.
 * Passes over formats of other kinds; *ret is NULL where there was none of its own.
 */
int output_calls_new(const struct input *input, struct output **ret);

/* Regions that suffice for it, or NULL; as long as it lasts. */
const struct element_regions *output_calls_regions(struct output *o);

/* What it counted, for the result: calls, functions and the like. */
void output_calls_json(const struct output *o, json_object *to);

#endif
