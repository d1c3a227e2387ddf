/* SPDX-License-Identifier: MIT */
/* Makes one store of the threads of several stores, which have a common clock. */
#include <string.h>

#include "lib/store/reader.h"

static int put_event(const struct store_rewriter *to, uint32_t thread, const struct store_event *e)
{
	static const enum call_event_type types[] = { [STORE_ENTER] = CALL_EVENT_ENTER,
						      [STORE_LEAVE] = CALL_EVENT_LEAVE,
						      [STORE_GAP] = CALL_EVENT_GAP,
						      [STORE_MARK] = CALL_EVENT_MARK };
	bool frame = e->type == STORE_ENTER || e->type == STORE_LEAVE;
	struct store_event segment = *e;
	int rc = 0;

	segment.kind = e->again ? SEGMENT_AGAIN : SEGMENT_NEW;
	/* A frame that has none below begins a segment. */
	if (e->type == STORE_ENTER && e->depth == 0)
		rc = store_rewriter_put(to, thread, CALL_EVENT_SEGMENT, &segment, NULL);

	return rc < 0 ? rc : store_rewriter_put(to, thread, types[e->type], e, frame ? &e->frame : NULL);
}

static int put_thread(const struct store_rewriter *to, const struct store *s, size_t index)
{
	_cleanup_(store_iter_freep) struct store_iter *it = NULL;
	const struct store_thread *from = store_thread(s, index);
	const struct calls_counts counts = { .instructions = from->instructions, .unexplained = from->unexplained };
	struct store_event e;
	uint32_t thread;
	int rc = store_thread_add(to->writer, from->tid, from->name, &thread);

	if (rc == 0)
		rc = store_iter_new(s, index, &it);
	while (rc == 0 && (rc = store_iter_next(it, &e)) == 1) {
		e.kind = e.type == STORE_ENTER ? store_kind_now(s->layout, e.kind) : e.kind;
		rc = put_event(to, thread, &e);
	}
	return rc < 0 ? rc : store_thread_end(to->writer, thread, &counts);
}

/* *n_threads: those of the stores before. */
static int put_store(const struct store_rewriter *to, const struct store *s, uint32_t *n_threads)
{
	struct store_process process = store_process_of(s, 0);
	int rc = 0;

	process.first_thread = *n_threads;
	*n_threads += (uint32_t)s->n_threads;
	store_set_process(to->writer, &process);
	for (size_t i = 0; rc == 0 && i < s->n_notes; i++)
		rc = store_put_note(to->writer, &s->notes[i]);
	for (size_t i = 0; rc == 0 && i < s->n_threads; i++)
		rc = put_thread(to, s, i);
	return rc < 0 ? rc : store_rewriter_put_endings(to, s);
}

/* The trigger, and the thread to which it belongs in this store. */
static struct store_trigger trigger_of(const struct store *s)
{
	struct store_trigger t;

	if (store_trigger(s, &t) && !t.tid)
		t.tid = (uint32_t)store_meta_number(s, store_meta(s, "ended_thread") ? "ended_thread" : "pid");
	return t;
}

/* Returns -EXDEV if the stores have no common clock. */
static int make_meta(struct store *const *from, size_t n, struct store_meta *ret)
{
	struct store_meta meta = store_meta_all(from[0]);

	if (!meta.clock || strcmp(meta.clock, "virtual") == 0)
		return -EXDEV;
	meta.trigger = trigger_of(from[0]);
	for (size_t i = 1; i < n; i++) {
		const struct store_meta other = store_meta_all(from[i]);

		if (!other.clock || strcmp(meta.clock, other.clock) != 0)
			return -EXDEV;
		if (!meta.trigger.condition)
			meta.trigger = trigger_of(from[i]);
		meta.waits_unknown |= other.waits_unknown;
	}
	*ret = meta;
	return 0;
}

int store_merge(struct store *const *from, size_t n, const char *name, int to)
{
	/* The writer recognizes functions by their addresses, so all rewriters live until it ends. */
	_cleanup_free_ struct store_rewriter *parts = calloc(n + 1, sizeof(*parts));
	struct store_meta meta;
	uint32_t n_threads = 0;
	int rc = parts ? make_meta(from, n, &meta) : -ENOMEM;

	if (rc < 0)
		return rc;
	meta.program = meta.id = name;
	rc = store_rewriter_init(&parts[0], from[0], &meta, to);
	for (size_t i = 1; rc == 0 && i < n; i++)
		rc = store_rewriter_share(&parts[i], from[i], parts[0].writer);
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = put_store(&parts[i], from[i], &n_threads);
	if (rc == 0)
		rc = store_finish(parts[0].writer);
	for (size_t i = n; i-- > 0;) {
		if (i)
			parts[i].writer = NULL;
		store_rewriter_done(&parts[i]);
	}
	return rc == -EINVAL ? -EBADMSG : rc;
}
