/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "daemon/decode/outputs.h"

int outputs_failed(struct outputs *o, size_t i, int rc)
{
	return reason_set(&o->job->reason, rc, "writing %s: %s", decode_formats[o->list[i]->ops->format].name,
			  strerror(-rc));
}

static int open_output(struct outputs *o, struct input *input, const struct job_output *requested)
{
	const struct decode_format *format = requested->format;
	int rc;

	if (format->id == DECODE_FORMAT_AUTOFDO)
		rc = output_autofdo_new(input, requested->fd, &o->list[o->n]);
	else if (format->id == DECODE_FORMAT_BRANCHES || format->id == DECODE_FORMAT_BRANCHES_BIN)
		rc = output_branches_new(format->id, requested->fd, &o->list[o->n]);
	else
		rc = output_text_new(format->id, requested->fd, &o->list[o->n]);

	if (rc == -EOPNOTSUPP)
		return reason_set(&o->job->reason, rc, "%s: the code of this input does not come from files",
				  format->name);
	if (rc < 0)
		return rc;
	o->packets = o->packets || o->list[o->n]->ops->packet;
	o->n++;
	return 0;
}

int outputs_open(struct outputs *o, struct input *input)
{
	int rc;

	o->job = input->job;
	rc = output_calls_new(input, &o->calls);
	if (rc == 0 && o->calls)
		o->list[o->n++] = o->calls;
	for (size_t i = 0; rc == 0 && i < o->job->n_outputs; i++)
		if (o->job->outputs[i].format->basis != DECODE_FORMAT_FROM_CALLS)
			rc = open_output(o, input, &o->job->outputs[i]);
	return rc;
}

const struct element_regions *outputs_regions(struct outputs *o)
{
	const struct element_regions *regions = o->n == 1 && o->calls ? output_calls_regions(o->calls) : NULL;

	o->has_regions = regions != NULL;
	return regions;
}

int outputs_begin(struct outputs *o, const struct stream *s)
{
	for (size_t i = 0; i < o->n; i++) {
		int rc = o->list[i]->ops->begin(o->list[i], s);

		if (rc < 0)
			return outputs_failed(o, i, rc);
	}
	return 0;
}

int outputs_piece(struct outputs *o, const struct pd_piece *p)
{
	for (size_t i = 0; i < o->n; i++) {
		int rc = o->list[i]->ops->piece ? o->list[i]->ops->piece(o->list[i], p) : 0;

		if (rc < 0)
			return outputs_failed(o, i, rc);
	}
	return 0;
}

int outputs_packet(struct outputs *o, const struct engine_packet *p)
{
	for (size_t i = 0; i < o->n; i++) {
		int rc = o->list[i]->ops->packet ? o->list[i]->ops->packet(o->list[i], p) : 0;

		if (rc < 0)
			return outputs_failed(o, i, rc);
	}
	return 0;
}

bool outputs_take_batches(const struct outputs *o)
{
	for (size_t i = 0; i < o->n; i++)
		if (!o->list[i]->ops->batch || (o->list[i] == o->calls && !o->has_regions))
			return false;
	return true;
}

bool outputs_need_sums(const struct outputs *o)
{
	for (size_t i = 0; i < o->n; i++)
		if (!o->list[i]->ops->needs_sums)
			return false;
	return true;
}

void outputs_update_sums(const struct outputs *o, const struct native_batch *b, struct native_sums *sums)
{
	for (size_t i = 0; i < o->n; i++)
		if (o->list[i]->ops->sums) {
			*sums = *o->list[i]->ops->sums(o->list[i]);
			return;
		}
	if (outputs_need_sums(o))
		native_sum_executed(sums, b);
	else
		native_sum(sums, b);
}

int outputs_batch(struct outputs *o, const struct native_batch *b)
{
	for (size_t i = 0; i < o->n; i++) {
		int rc = o->list[i]->ops->batch(o->list[i], b);

		if (rc < 0)
			return outputs_failed(o, i, rc);
	}
	return 0;
}

int outputs_branches(struct outputs *o, const struct branch *list, size_t n)
{
	for (size_t i = 0; i < o->n; i++) {
		int rc = o->list[i]->ops->branches ? o->list[i]->ops->branches(o->list[i], list, n) : 0;

		if (rc < 0)
			return outputs_failed(o, i, rc);
	}
	return 0;
}

int outputs_end(struct outputs *o, const struct stream *s)
{
	for (size_t i = 0; i < o->n; i++) {
		int rc = o->list[i]->ops->end(o->list[i], s);

		if (rc < 0)
			return outputs_failed(o, i, rc);
	}
	return 0;
}

int outputs_finish(struct outputs *o)
{
	for (size_t i = 0; i < o->n; i++) {
		int rc = o->list[i]->ops->finish(o->list[i]);

		if (rc < 0)
			return outputs_failed(o, i, rc);
	}
	return 0;
}

void outputs_done(struct outputs *o)
{
	for (size_t i = 0; i < o->n; i++)
		o->list[i]->ops->free(o->list[i]);
}
