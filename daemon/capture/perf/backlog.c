/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "daemon/capture/perf/backlog.h"
#include "lib/base/array.h"
#include "lib/base/io.h"
#include "lib/base/util.h"

int backlog_add(struct backlog_list *b, const struct keeper_message *m, int *fd)
{
	int rc = array_reserve(b->list, b->n, &b->room);

	if (rc == 0)
		b->list[b->n++] = (struct backlog){ TAKE_FD(*fd), m->number, m->position, m->data_size };
	return rc;
}

static void read_one(struct aux_buffer *a, const struct backlog *b, struct buf *scratch)
{
	uint64_t skip = a->replayed - MIN(a->replayed, b->from), size = b->size - MIN(b->size, skip);
	uint8_t *to;

	buf_clear(scratch);
	to = buf_reserve(scratch, size);
	/* A gap in the records is a gap in the ring. */
	if (!to || b->from > MAX(a->replayed, a->ring.position) || io_pread(b->fd, to, size, skip) != (ssize_t)size) {
		aux_note_lost(a, 1);
		return;
	}
	if (a->log)
		replay_log_add(a->log, a->number, b->from + b->size, to, size);
	aux_fold_all(a, to, size);
	a->replayed = b->from + b->size;
}

void backlog_read_all(struct backlog_list *b, struct aux_buffer *rings, size_t n_rings, struct buf *scratch)
{
	for (size_t i = 0; i < b->n; i++) {
		if (b->list[i].ring < n_rings)
			read_one(&rings[b->list[i].ring], &b->list[i], scratch);
		closep(&b->list[i].fd);
	}
	b->n = 0;
	for (size_t n = 0; n < n_rings; n++) {
		if (!rings[n].ring.page)
			continue;
		/* Another daemon had this ring's backlog, and ended before its records were in the log. */
		if (rings[n].ring.position > rings[n].replayed)
			aux_note_lost(&rings[n], 1);
		rings[n].ring.position = MAX(rings[n].ring.position, rings[n].replayed);
	}
}

void backlog_done(struct backlog_list *b)
{
	for (size_t i = 0; i < b->n; i++)
		closep(&b->list[i].fd);
	free(b->list);
	*b = (struct backlog_list){ 0 };
}
