/* SPDX-License-Identifier: MIT */
/* What may be missing between two stretches of a thread: lost trace, or execution whose thread is unknown. */
#ifndef CSIGHT_DECODE_DEMUX_LOSS_H
#define CSIGHT_DECODE_DEMUX_LOSS_H

#include "daemon/decode/demux-state.h"

/* Determines since when trace is whole, and when the first event failed. The feeds are open. */
void demux_loss_init(struct demux *d);

/*
 * A slice of a full buffer that several CPUs share begins at the same time for all of them, but each CPU can only be
 * decoded from its first sync point on. Any thread may have run on the CPU before. A feed reaches that point before a
 * stretch of the slice is emitted: u, the head of the feed. The same is so for a slice of several threads that has
 * overwritten its own beginning.
 */
void demux_loss_before_piece(struct demux *d, struct feed *f, const struct element_unit *u);

/*
 * True if nothing is missing between the last stretch of the thread and this one. AUX slices of a thread are contiguous
 * if the thread left by an exception, or in the kernel, where it switches to another, and no trace was lost.
 */
bool demux_loss_none(const struct demux *d, const struct feed *f, const struct track *t, const struct element_unit *u,
		     enum element_reason *ret_why);

/* True if the thread has run on a CPU that is not traced since its last stretch, up to a time. */
bool demux_loss_untraced(const struct demux *d, const struct track *t, uint64_t until);

/* Nothing in an AUX slice could be decoded: its thread, or any thread if it may hold several, may have run there. */
void demux_loss_of_slice(struct demux *d, const struct feed *f, const struct element_unit *u);

/* A stretch is left out: its thread, or each thread that may have executed it, misses it somewhere in its bounds. */
void demux_loss_of_stretch(struct demux *d, struct feed *f, const struct element_unit *u);

/* The same for a thread whose track begins: stretches that were left out before may be later than its first one. */
void demux_loss_before_thread(const struct demux *d, struct track *t);

/*
 * At the end of a round: what is missing behind the last stretch of each thread is determined now, since the records of
 * the next round do not show it.
 */
int demux_loss_end_round(struct demux *d, uint64_t until);

/* A thread has ended: its events no longer matter, whether they were on or off. */
void demux_loss_end_thread(struct demux *d, uint32_t tid);

#endif
