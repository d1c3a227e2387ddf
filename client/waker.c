/* SPDX-License-Identifier: MIT */
#include "client/waker.h"

#include <string.h>

#include "lib/base/util.h"

/* The last part of the wait that is searched first, and by how much more each time; events that are read at most. */
enum { FIRST_PART = 1000000, PART_GROWTH = 10, EVENTS_MAX = 1 << 22 };

struct waker_search {
	const struct store *store;
	const uint8_t *is_library;
	const struct wait_interval *wait;
	struct waker *found;
	bool any;
	uint64_t events;
};

static bool is_futex(const struct store *s, uint32_t function)
{
	const struct store_function *f = store_function(s, function);

	return f->kind == REGION_SYSCALL && strcmp(f->name, "futex") == 0;
}

/* Returns the innermost of the program's own functions, else the outermost of those with source, else the outermost. */
static uint32_t own_function(const struct waker_search *w, const struct store_iter *it)
{
	const struct store_frame *stack;
	size_t depth = store_iter_stack(it, &stack);
	uint32_t best = stack[0].function;

	for (size_t i = 0; i < depth; i++) {
		uint32_t function = stack[i].function;

		if (!w->is_library[function] || (w->is_library[best] && !store_function(w->store, best)->file[0] &&
						 store_function(w->store, function)->file[0]))
			best = function;
	}
	return best;
}

/* Searches a thread from a time on. */
static int search_thread(struct waker_search *w, uint32_t thread, uint64_t from)
{
	_cleanup_(store_iter_freep) struct store_iter *it = NULL;
	struct store_event e;
	int rc = store_iter_new(w->store, thread, &it);

	if (rc == 0)
		rc = store_iter_seek(it, from);
	while (rc == 0 && w->events++ < EVENTS_MAX && (rc = store_iter_next(it, &e)) == 1 && e.time <= w->wait->to) {
		rc = 0;
		if (e.type != STORE_ENTER || !is_futex(w->store, e.frame.function) ||
		    (w->any && e.time <= w->found->time))
			continue;
		w->any = true;
		*w->found = (struct waker){ thread, own_function(w, it), e.time };
	}
	return MIN(rc, 0);
}

int waker_find(const struct store *s, const uint8_t *is_library, const struct wait_interval *wait, struct waker *ret)
{
	struct waker found;
	struct waker_search w = { .store = s, .is_library = is_library, .wait = wait, .found = &found };
	const char *clock = store_meta(s, "clock");
	/* The virtual clock of the thread that woke this one may be behind: lib/emu/thread-clock.h. */
	uint64_t all = clock && strcmp(clock, "virtual") == 0 ? wait->to : wait->to - wait->from;
	int rc = is_futex(s, wait->syscall) ? 0 : -ENOENT;

	for (uint64_t part = FIRST_PART; rc == 0 && !w.any && w.events < EVENTS_MAX;) {
		for (uint32_t i = 0; rc == 0 && i < store_threads(s); i++)
			if (i != wait->thread)
				rc = search_thread(&w, i, wait->to - MIN(part, all));
		if (part >= all)
			break;
		part = part > all / PART_GROWTH ? all : part * PART_GROWTH;
	}
	if (rc < 0)
		return rc;
	if (!w.any)
		return -ENOENT;
	*ret = found;
	return 0;
}
