/*
 * What a decode is turned into: one struct an output that was asked for, all fed alike. Text formats:
 *
 *   elements   lib/etm/element.h, each line behind the trace ID in hexadecimal
 *   pcs        the address of every executed instruction, in hexadecimal, one a line
 *   none       nothing; what is counted is counted all the same
 *
 * Before each stream stands a comment line: "# thread TID", or "# cpu N" where a buffer is a CPU's.
 */
#ifndef CSIGHT_DECODE_OUTPUT_H
#define CSIGHT_DECODE_OUTPUT_H

#include "client/decode/stream.h"

struct output;

struct output_ops {
	const char *format;
	int (*begin)(struct output *o, const struct stream *s);
	int (*element)(struct output *o, const struct element *e);
	int (*end)(struct output *o);	 /* of the stream */
	int (*finish)(struct output *o); /* of everything */
	void (*free)(struct output *o);
};

/* Each kind of output has this at its head. */
struct output {
	const struct output_ops *ops;
};

/* -EINVAL: no such text format. The descriptor stays the caller's. */
int output_text_new(const char *format, int fd, struct output **ret);

#endif
