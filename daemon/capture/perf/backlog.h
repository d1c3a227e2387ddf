/* SPDX-License-Identifier: MIT */
/*
 * What csight-keeper has read from rings of records while no daemon was connected: it precedes what is still in the
 * ring. Capture thread only.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_BACKLOG_H
#define CSIGHT_DAEMON_CAPTURE_BACKLOG_H

#include "daemon/capture/perf/aux-buffer.h"
#include "daemon/keeper/protocol.h"

struct backlog {
	int fd;
	uint32_t ring;
	uint64_t from, size; /* position of its first byte in the ring */
};

struct backlog_list {
	struct backlog *list;
	size_t n, room;
};

/* Takes the descriptor of a message KEEPER_BACKLOG. -ENOMEM. */
int backlog_add(struct backlog_list *b, const struct keeper_message *m, int *fd);

/* Folds the records of all, of these rings, which continue behind them; empties the list. */
void backlog_read_all(struct backlog_list *b, struct aux_buffer *rings, size_t n_rings, struct buf *scratch);
void backlog_done(struct backlog_list *b);

#endif
