/* SPDX-License-Identifier: MIT */
/* lib/store/call.c: the events of single calls in random stores, and stores of some, against all events of the thread.
 */
#include "config.h"

#include <stdio.h>

#include "lib/base/array.h"
#include "lib/store/call.h"
#include "tests/store/storegen.h"
#include "tests/unit.h"

/* What a sink has received, or all events of a thread. */
struct events {
	struct store_event *list;
	size_t n, cap;
	size_t calls; /* that ended */
};

static int keep(void *user, const struct store_event *e, uint32_t depth)
{
	struct events *to = user;

	if (array_reserve(to->list, to->n, &to->cap) < 0)
		return -ENOMEM;
	to->list[to->n] = *e;
	to->list[to->n++].depth = depth;
	return 0;
}

static int end_call(void *user, const struct store_call *call)
{
	struct events *to = user;

	(void)call;
	to->calls++;
	return 0;
}

static void read_all(const struct store *s, size_t thread, struct events *ret)
{
	_cleanup_(store_iter_freep) struct store_iter *it = NULL;
	struct store_event e;
	int rc = store_iter_new(s, thread, &it);

	*ret = (struct events){ 0 };
	while (rc == 0 && (rc = store_iter_next(it, &e)) == 1)
		rc = keep(ret, &e, e.depth);
	CHECK_EQ(rc, 0);
}

/* A call of one function, outermost and not inlined, and the range of its events. */
struct found {
	struct store_call call;
	size_t from, to;
};

static size_t find_calls(const struct events *all, uint32_t function, uint32_t thread, struct found *ret, size_t max)
{
	size_t n = 0, open = 0, from = 0;

	for (size_t i = 0; i < all->n && n < max; i++) {
		const struct store_event *e = &all->list[i];

		if ((e->type != STORE_ENTER && e->type != STORE_LEAVE) || e->frame.function != function)
			continue;
		if (e->type == STORE_ENTER && open++ == 0)
			from = i;
		if (e->type != STORE_LEAVE || --open)
			continue;
		ret[n].from = from;
		ret[n].to = i + 1;
		ret[n++].call = (struct store_call){ .enter = e->frame.enter,
						     .end = e->time,
						     .begin = e->frame.instructions,
						     .instructions = e->instructions - e->frame.instructions,
						     .ns = e->time - e->frame.enter,
						     .thread = thread };
	}
	return n;
}

/* Returns the number of events of a range that differ from those read, at *at; depths and times are relative. */
static size_t differences(const struct events *all, const struct found *f, const struct events *got, size_t *at,
			  bool rebased)
{
	uint32_t depth = all->list[f->from].depth;
	size_t n = 0;

	for (size_t i = f->from; i < f->to; i++) {
		const struct store_event *want = &all->list[i], *have = &got->list[*at];

		if (*at >= got->n)
			return n + f->to - i;
		++*at;
		n += want->type != have->type || want->frame.function != have->frame.function ||
		     want->depth - depth != have->depth || want->time - (rebased ? f->call.enter : 0) != have->time ||
		     want->instructions - (rebased ? f->call.begin : 0) != have->instructions;
	}
	return n;
}

enum { CALLS_MAX = 2000 };

static struct found found[CALLS_MAX];
static struct store_call calls[CALLS_MAX];

static size_t single(const struct store *s, const uint8_t *roots, const struct events *all, size_t n)
{
	size_t wrong = 0;

	for (size_t i = 0; i < n; i++) {
		struct events got = { 0 };
		const struct store_call_sink sink = { keep, &got };
		size_t at = 0;

		wrong += store_call_read(s, roots, &found[i].call, &sink) != 0;
		wrong += differences(all, &found[i], &got, &at, false) + got.n - at;
		free(got.list);
	}
	return wrong;
}

/* Reads every call, or every other one. */
static size_t several(const struct store *s, const uint8_t *roots, const struct events *all, size_t n, size_t step)
{
	struct events got = { 0 };
	const struct store_calls_sink sink = { keep, end_call, &got };
	size_t wrong, at = 0, listed = 0;

	for (size_t i = 0; i < n; i += step)
		calls[listed++] = found[i].call;
	wrong = store_calls_read(s, roots, calls, listed, &sink) != 0;
	for (size_t i = 0; i < n; i += step)
		wrong += differences(all, &found[i], &got, &at, false);
	wrong += got.n - at + (got.calls != listed);
	free(got.list);
	return wrong;
}

static size_t extracted(const struct store *s, const uint8_t *roots, const struct events *all, size_t n)
{
	const char *const thread_names[] = { "one", "two" };
	const struct store_extract from = { roots, calls, thread_names, MIN(n, (size_t)2) };
	int fd = memfd_create("calls", MFD_CLOEXEC);
	_cleanup_(store_closep) struct store *to = NULL;
	size_t wrong = store_extract_calls(s, fd, &from) != 0 || store_open(fd, &to) != 0;

	for (size_t i = 0; !wrong && i < from.n; i++) {
		struct events got;
		size_t at = 0;

		read_all(to, i, &got);
		/* Functions have other numbers there, so compare all else. */
		for (size_t k = 0; k < got.n; k++)
			got.list[k].frame.function = all->list[MIN(found[i].from + k, all->n - 1)].frame.function;
		wrong += differences(all, &found[i], &got, &at, true) + got.n - at;
		wrong += strcmp(store_thread(to, i)->name, thread_names[i]) != 0;
		free(got.list);
	}
	close(fd);
	return wrong;
}

int main(void)
{
	struct thread threads[3] = { 0 };
	int fd = make_store(threads, 3, 30000);
	_cleanup_(store_closep) struct store *s = NULL;
	uint8_t *roots;
	size_t seen = 0;

	CHECK(fd >= 0 && store_open(fd, &s) == 0);
	roots = calloc(store_functions(s) + 1, 1);
	for (size_t t = 0; t < 3; t++) {
		struct events all;

		read_all(s, t, &all);
		for (uint32_t f = 0; f < 12; f++) {
			const struct store_function *function = store_function(s, f);
			size_t n = find_calls(&all, f, (uint32_t)t, found, CALLS_MAX);

			if (function->kind == REGION_INLINED || !n)
				continue;
			roots[f] = 1;
			CHECK_EQ(single(s, roots, &all, MIN(n, (size_t)100)), 0);
			CHECK_EQ(several(s, roots, &all, n, 2), 0);
			CHECK_EQ(several(s, roots, &all, n, 1), 0);
			CHECK_EQ(extracted(s, roots, &all, n), 0);
			roots[f] = 0;
			seen += n;
		}
		free(all.list);
		free(threads[t].events);
	}
	CHECK(seen > 500);
	calls[0].begin++;
	roots[0] = 1;
	CHECK_EQ(store_calls_read(s, roots, calls, 1, &(struct store_calls_sink){ keep, NULL, &(struct events){ 0 } }),
		 -ENOENT);
	free(roots);
	close(fd);
	return unit_end();
}
