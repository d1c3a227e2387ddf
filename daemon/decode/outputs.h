/* SPDX-License-Identifier: MIT */
/* All outputs of a job, which receive the same elements. On failure, the functions set the reason of the job. */
#ifndef CSIGHT_DECODE_OUTPUTS_H
#define CSIGHT_DECODE_OUTPUTS_H

#include "daemon/decode/input.h"
#include "daemon/decode/output.h"

struct outputs {
	struct decode_job *job;
	struct output *list[DECODER_OUTPUTS_MAX];
	size_t n;
	struct output *calls; /* the one made of calls, or NULL */
	bool has_regions;     /* engines may merge ranges */
	bool packets;         /* an output uses packets; formatting them takes longer than all other decoding */
};

int outputs_open(struct outputs *o, struct input *input);

/* Regions within which engines may merge ranges; NULL if an output needs each range. */
const struct element_regions *outputs_regions(struct outputs *o);

/* Returns true if all outputs read batches. */
bool outputs_take_batches(const struct outputs *o);

/* Returns true if sums of batches are enough for all outputs. */
bool outputs_need_sums(const struct outputs *o);

/*
 * Updates the sums of the current piece after a batch that the outputs have read: copies the sums that an output keeps,
 * or else adds the batch.
 */
void outputs_update_sums(const struct outputs *o, const struct native_batch *b, struct native_sums *sums);

/* Call the operation of the same name of each output. */
int outputs_begin(struct outputs *o, const struct stream *s);
int outputs_piece(struct outputs *o, const struct pd_piece *p);
int outputs_batch(struct outputs *o, const struct native_batch *b);
int outputs_branches(struct outputs *o, const struct branch *list, size_t n);
int outputs_packet(struct outputs *o, const struct engine_packet *p);
int outputs_end(struct outputs *o, const struct stream *s);
int outputs_finish(struct outputs *o);
void outputs_done(struct outputs *o);

/* Sets the reason for a failure of output i, and returns rc. */
int outputs_failed(struct outputs *o, size_t i, int rc);

static inline int outputs_element(struct outputs *o, const struct element *e)
{
	for (size_t i = 0; i < o->n; i++) {
		int rc = o->list[i]->ops->element(o->list[i], e);

		if (rc < 0)
			return outputs_failed(o, i, rc);
	}
	return 0;
}

#endif
