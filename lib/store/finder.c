/* SPDX-License-Identifier: MIT */
#include "lib/store/finder.h"

#include "lib/base/util.h"

struct store_finder {
	const struct store *store;
	struct store_finder_options o;
	struct store_iter *it; /* of the thread before `next`; NULL: no thread is open */
	size_t next;
};

int store_finder_new(const struct store *s, const struct store_finder_options *options, struct store_finder **ret)
{
	struct store_finder *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	f->store = s;
	f->o = *options;
	if (!f->o.until)
		f->o.until = UINT64_MAX;
	*ret = f;
	return 0;
}

struct store_finder *store_finder_free(struct store_finder *f)
{
	if (f)
		store_iter_free(f->it);
	free(f);
	return NULL;
}

/* Opens the next thread that has events. Returns 1, or 0 after the last one. */
static int open_thread(struct store_finder *f)
{
	for (; f->next < store_threads(f->store); f->next++) {
		const struct store_thread *t = store_thread(f->store, f->next);
		int rc;

		if (!t->events || (f->o.tid >= 0 && t->tid != (uint64_t)f->o.tid))
			continue;
		rc = store_iter_new(f->store, f->next, &f->it);
		if (rc == 0 && f->o.since > t->first)
			rc = store_iter_seek(f->it, f->o.since);
		if (rc < 0)
			return rc;
		if (f->o.wanted)
			store_iter_filter(f->it, f->o.wanted);
		f->next++;
		return 1;
	}
	return 0;
}

/* True if the leave ends a call that is wanted. */
static bool is_wanted(const struct store_finder *f, const struct store_event *e)
{
	/* A later piece of an inlined call is not another call. */
	if (e->frame.kind == CALL_RESUMED && e->frame.site != STORE_NO_SITE)
		return false;
	return (!f->o.wanted || f->o.wanted[e->frame.function]) && !e->frame.piece && e->frame.enter <= f->o.until &&
	       e->time - e->frame.enter >= f->o.least_ns;
}

/* Makes the call that a leave ends; the iterator is at the leave. */
static void make_call(const struct store_finder *f, const struct store_event *e, struct store_found_call *ret)
{
	const struct store_frame *stack;
	size_t depth = store_iter_stack(f->it, &stack);

	*ret = (struct store_found_call){
		.thread = f->next - 1,
		.frame = e->frame,
		.ns = e->time - e->frame.enter,
		.bound = store_duration_bound(f->store, f->next - 1, e->frame.enter, e->time),
		.instructions = e->instructions - e->frame.instructions,
		.waited_ns = store_iter_waited(f->it, e->time) - e->frame.waited,
		.depth = e->depth,
		.caller = depth ? stack[depth - 1].function : STORE_NO_CALLER,
		.left = e->kind,
		.whole = store_is_whole(e),
	};
}

/* Finds the next call of the thread. Returns 1, or 0 after the last one. */
static int next_of_thread(struct store_finder *f, struct store_found_call *ret)
{
	struct store_event e;
	int rc;

	while ((rc = store_iter_next(f->it, &e)) == 1) {
		if (e.type == STORE_LEAVE) {
			if (!is_wanted(f, &e))
				continue;
			make_call(f, &e, ret);
			return 1;
		}
		/* Calls that begin later do not match; stop once no earlier call is open. */
		if (e.time > f->o.until && (e.type == STORE_GAP || e.depth == 0))
			return 0;
	}
	return rc;
}

int store_finder_next(struct store_finder *f, struct store_found_call *ret)
{
	int rc = 0;

	for (;;) {
		if (!f->it) {
			rc = open_thread(f);
			if (rc <= 0)
				return rc;
		}
		rc = next_of_thread(f, ret);
		if (rc != 0)
			return rc;
		f->it = store_iter_free(f->it);
	}
}
