/* SPDX-License-Identifier: MIT */
/*
 * Folded stacks, for flame graphs: one line per stack, outermost frame first, with the nanoseconds spent in the stack
 * itself and in nothing that it called. Gaps are in no stack.
 */
#include <string.h>

#include "lib/base/escape.h"
#include "lib/export/out.h"
#include "lib/export/stacks.h"

enum { NAME_SIZE = 4096 };

/* Semicolons separate frames, and the last space precedes the number. */
static void put_frame(struct buf *b, const char *text)
{
	char clean[NAME_SIZE];

	escape_text(text, clean, sizeof(clean));
	for (char *c = clean; *c; c++)
		if (*c == ';')
			*c = ':';
	buf_add(b, clean, strlen(clean));
}

static void put_stack(struct buf *b, const struct store *s, const struct stacks *stacks, int32_t node)
{
	int32_t path[STACKS_DEPTH_MAX];
	size_t n = 0;

	for (int32_t i = node; i != STACKS_NONE; i = stacks->nodes[i].parent)
		path[n++] = i;
	while (n-- > 0) {
		buf_u8(b, ';');
		put_frame(b, store_function(s, stacks->nodes[path[n]].function)->name);
	}
}

static int write_thread(struct out *out, const struct store *s, size_t thread, const struct stacks *stacks)
{
	_cleanup_(buf_done) struct buf head = { 0 };
	const struct store_process process = store_process_of(s, thread);
	const struct store_thread *t = store_thread(s, thread);

	put_frame(&head, process.program);
	buf_printf(&head, "-%u;", (unsigned)process.pid);
	put_frame(&head, t->name);
	buf_printf(&head, "-%u", t->tid);
	if (buf_error(&head))
		return buf_error(&head);
	for (size_t i = 0; !out->error && i < stacks->n_nodes; i++) {
		const struct stacks_node *n = &stacks->nodes[i];

		if (!n->self_ns)
			continue;
		buf_add(&out->buf, head.data, head.size);
		put_stack(&out->buf, s, stacks, (int32_t)i);
		buf_printf(&out->buf, " %ju\n", (uintmax_t)n->self_ns);
		out_flush_if_full(out);
	}
	return out->error;
}

static int folded_write(const struct store *s, int fd, const struct export_options *o, struct export_result *ret)
{
	_cleanup_(stacks_done) struct stacks stacks = { 0 };
	_cleanup_(out_done) struct out out = { .fd = fd };
	struct export_walk walk;
	int rc = 0;

	walk_begin(&walk, s, o, ret);
	for (size_t i = 0; rc == 0 && i < store_threads(s); i++) {
		if (!walk_wants(&walk, store_thread(s, i)))
			continue;
		rc = stacks_fold(&stacks, &walk, i, STACKS_DEPTH_MAX);
		if (rc == 0)
			rc = write_thread(&out, s, i, &stacks);
		ret->slices += stacks.slices;
		ret->gaps += stacks.n_gaps;
	}
	return rc < 0 ? rc : out_finish(&out);
}

const struct export_ops export_folded = { "folded", ".folded", "folded stacks, for flame graphs", folded_write };
