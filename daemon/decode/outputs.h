/* All outputs of a job, which are fed alike. Where one fails, its errno comes back, and the reason is in the job. */
#ifndef CSIGHT_DECODE_OUTPUTS_H
#define CSIGHT_DECODE_OUTPUTS_H

#include "daemon/decode/output.h"
#include "daemon/decode/input.h"

struct outputs {
	struct decode_job *job;
	struct output *list[DECODER_OUTPUTS_MAX];
	size_t n;
	struct output *calls; /* among them, or NULL */
	bool packets;         /* somebody wants them: their text costs more than all the rest */
};

int outputs_open(struct outputs *o, struct input *input);
/* Where all of them can do without ranges that stay within a region; else NULL. */
const struct element_regions *outputs_regions(struct outputs *o);
int outputs_begin(struct outputs *o, const struct stream *s);
int outputs_piece(struct outputs *o, const struct pd_piece *p);
int outputs_packet(struct outputs *o, const struct engine_packet *p);
int outputs_end(struct outputs *o, const struct stream *s);
int outputs_finish(struct outputs *o);
void outputs_done(struct outputs *o);

/* One of them, by its place, gave this error. */
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
