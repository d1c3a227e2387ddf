/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/capture/perf/pause-list.h"
#include "lib/base/array.h"
#include "lib/base/util.h"

enum { PAUSES_MAX = 1 << 16 };

void pause_list_done(struct pause_list *p)
{
	free(p->list);
	*p = (struct pause_list){ 0 };
}

static void log_pause(struct replay_log *log, const struct trace_pause *pause)
{
	if (log)
		replay_log_add(log, REPLAY_PAUSE, pause->from, pause, sizeof(*pause));
}

void pause_list_add(struct pause_list *p, const struct trace_pause *pause, uint64_t oldest, struct replay_log *log)
{
	size_t kept = 0;

	log_pause(log, pause);
	if (array_reserve(p->list, p->n, &p->room) == 0)
		p->list[p->n++] = *pause;
	/* The oldest two become one. */
	if (p->n > PAUSES_MAX) {
		p->list[0].to = MAX(p->list[0].to, p->list[1].to);
		p->list[0].changed &= p->list[1].changed;
		memmove(p->list + 1, p->list + 2, (--p->n - 1) * sizeof(*p->list));
	}
	for (size_t i = 0; i < p->n; i++)
		if (p->list[i].to >= oldest)
			p->list[kept++] = p->list[i];
	p->n = kept;
}

void pause_list_change(struct pause_list *p, uint64_t began)
{
	if (!p->change_from)
		p->change_from = began;
	p->change_to = now_ns(CLOCK_MONOTONIC);
}

bool pause_list_changes(const struct pause_list *p, int64_t shift, uint64_t *ret)
{
	*ret = p->change_begun ? p->change_begun : p->change_from + (uint64_t)shift;
	return p->change_from != 0;
}

void pause_list_replay(struct pause_list *p, const struct trace_pause *pause, uint64_t oldest)
{
	size_t i = p->n;

	while (i > 0 && !(p->list[i - 1].from == pause->from && p->list[i - 1].changed == pause->changed))
		i--;
	if (i)
		p->list[i - 1] = *pause;
	else
		pause_list_add(p, pause, oldest, NULL);
}

bool pause_list_is_open(const struct pause_list *p)
{
	size_t i = 0;

	while (i < p->n && !(p->list[i].to == UINT64_MAX && p->list[i].changed))
		i++;
	return i < p->n;
}

void pause_list_settle(struct pause_list *p, uint64_t now, int64_t shift, bool off, uint64_t oldest,
		       struct replay_log *log)
{
	struct trace_pause change = { .to = off ? UINT64_MAX : p->change_to + (uint64_t)shift, .changed = 1 };

	for (size_t i = 0; i < p->n; i++) {
		struct trace_pause *open = &p->list[i];

		if (open->to != UINT64_MAX || (open->changed && off))
			continue;
		open->to = MAX(now, open->from + 1);
		log_pause(log, open);
	}
	if (!pause_list_changes(p, shift, &change.from))
		return;
	if (!off)
		pause_list_add(p, &change, oldest, log);
	else if (!p->change_begun)
		log_pause(log, &change);
	p->change_begun = off ? change.from : 0;
	p->change_from = off ? p->change_from : 0;
}
