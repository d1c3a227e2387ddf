/* SPDX-License-Identifier: MIT */
/* Collects what a recording lacks: from AUX records, from gaps between slices of a buffer, from LOST records. */
#ifndef CSIGHT_PERFDATA_LOSSES_H
#define CSIGHT_PERFDATA_LOSSES_H

#include "lib/base/buf.h"
#include "lib/perfdata/read.h"

struct pd_losses {
	struct buf by_thread; /* struct pd_loss */
	struct buf by_time;   /* the same, of all threads */
};

/* Adds a loss whose interval is not known yet: it begins at the record's time. */
void pd_add_loss(struct pd_losses *l, const struct pd_origin *o, enum pd_loss_kind kind);

/* Adds a time in which tracing was off; from equals to: it was off for a moment after that. */
void pd_add_pause(struct pd_losses *l, uint64_t from, uint64_t to, enum pd_loss_kind kind);

/*
 * Completes the list. Marks pieces that follow missing bytes of their buffer as PD_AUX_PARTIAL if they have no time.
 * Pieces are in the order of struct pd_contents. -ENOMEM.
 */
int pd_make_losses(struct pd_losses *l, struct pd_piece *pieces, size_t n_pieces, const struct pd_run *runs,
		   size_t n_runs, bool shared);

void pd_losses_done(struct pd_losses *l);

#endif
