/* SPDX-License-Identifier: MIT */
/*
 * A text tree for terminals: callees below their callers, in the order of first calls, with counts and durations. Calls
 * of one function with the same callers share a line, so the tree is small however long the trace.
 */
#include <string.h>

#include "lib/base/duration.h"
#include "lib/base/escape.h"
#include "lib/base/fit.h"
#include "lib/export/out.h"
#include "lib/export/stacks.h"

enum { NAME_SIZE = 256, INDENT_MAX = 120, BEFORE_NAMES = 22 };

struct tree {
	struct out out;
	const struct export_walk *walk;
	const struct export_options *options;
	struct stacks stacks;
	struct fit fit;
};

static const char *paint(const struct tree *t, const char *code)
{
	return t->options->colour ? code : "";
}

#define DIM "\033[2m"
#define BOLD "\033[1m"
#define RED "\033[31m"
#define PLAIN "\033[0m"

/* Returns the columns of what follows the name of a line. */
static size_t notes_width(const struct tree *t, const struct stacks_node *n)
{
	const struct store_function *f = store_function(t->walk->store, n->function);
	size_t width = 0;

	if (f->kind == REGION_INLINED)
		width += strlen(" (inlined)");
	if (f->kind == REGION_SYSCALL)
		width += strlen(" (system call)");
	if (n->tails)
		width += strlen(" (tail call)") + (n->tails < n->calls ? strlen("also by ") : 0) +
			 (n->folded ? strlen(", folded") : 0);
	return width + (n->before ? strlen(" (began earlier)") : 0) + (n->unfinished ? strlen(" (unfinished)") : 0);
}

/* Returns the name to print, escaped, to be freed; NULL: out of memory. */
static char *short_name(struct tree *t, const struct store_function *f)
{
	const char *text = names_short(t->options->names, f->name);
	size_t size = 4 * strlen(text) + 1;
	char *to = malloc(size);

	if (!to)
		t->out.error = -ENOMEM;
	return to ? escape_text(text, to, size) : NULL;
}

static void print_line(struct tree *t, const struct stacks_node *n)
{
	const struct store_function *f = store_function(t->walk->store, n->function);
	char time[DURATION_SIZE], count[32] = "";
	int indent = (int)MIN(2 * n->level, (uint32_t)INDENT_MAX);
	struct buf *b = &t->out.buf;
	_cleanup_free_ char *name = NULL;
	size_t room = 0;

	if (n->calls > 1)
		snprintf(count, sizeof(count), "x%s%ju", f->calls_uncertain ? "~" : "", (uintmax_t)n->calls);
	if (t->options->columns) {
		room = t->options->columns - MIN(t->options->columns, (size_t)BEFORE_NAMES + notes_width(t, n));
		indent = MIN(indent, (int)room / 2);
		room = MAX(room - (size_t)indent, (size_t)1);
	}
	buf_printf(b, "%s%10s %*s%s  %*s", paint(t, DIM),
		   duration_text(n->ns, add_saturating(n->bound, n->bound), time), 9, count, paint(t, PLAIN), indent,
		   "");
	name = short_name(t, f);
	buf_printf(b, "%s%s%s", paint(t, BOLD), name ? fit_text(&t->fit, name, room) : "", paint(t, PLAIN));
	if (f->kind == REGION_INLINED)
		buf_printf(b, " %s(inlined)%s", paint(t, DIM), paint(t, PLAIN));
	if (f->kind == REGION_SYSCALL)
		buf_printf(b, " %s(system call)%s", paint(t, DIM), paint(t, PLAIN));
	if (n->tails)
		buf_printf(b, " %s(%stail call%s)%s", paint(t, DIM), n->tails < n->calls ? "also by " : "",
			   n->folded ? ", folded" : "", paint(t, PLAIN));
	if (n->before)
		buf_printf(b, " %s(began earlier)%s", paint(t, DIM), paint(t, PLAIN));
	if (n->unfinished)
		buf_printf(b, " %s(unfinished)%s", paint(t, DIM), paint(t, PLAIN));
	buf_printf(b, "\n");
}

static void print_rest(struct tree *t, uint32_t level, const char *text)
{
	size_t indent = 1 + BEFORE_NAMES + MIN(2 * level, (uint32_t)INDENT_MAX), columns = t->options->columns;

	if (columns)
		indent = MIN(indent, columns - MIN(columns, strlen(text)));
	buf_printf(&t->out.buf, "%*s%s%s%s\n", (int)indent, "", paint(t, DIM), text, paint(t, PLAIN));
}

static int compare_longest(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x < y) - (x > y);
}

/*
 * Finds the duration that a node needs to be among the `width` longest of its siblings. *ret_ties: number of nodes of
 * exactly this duration that are; *ret_more: number of nodes left out.
 */
static int least_shown(const struct tree *t, int32_t first, uint64_t *ret_least, uint64_t *ret_ties, uint64_t *ret_more)
{
	_cleanup_free_ uint64_t *times = NULL;
	size_t n = 0, k = 0;

	*ret_least = *ret_ties = *ret_more = 0;
	for (int32_t i = first; i != STACKS_NONE; i = t->stacks.nodes[i].sibling)
		n++;
	if (n <= t->options->width)
		return 0;
	times = malloc(n * sizeof(*times));
	if (!times)
		return -ENOMEM;
	for (int32_t i = first; i != STACKS_NONE; i = t->stacks.nodes[i].sibling)
		times[k++] = t->stacks.nodes[i].ns;
	qsort(times, n, sizeof(*times), compare_longest);
	*ret_least = times[t->options->width - 1];
	while (*ret_ties < t->options->width && times[t->options->width - 1 - *ret_ties] == *ret_least)
		++*ret_ties;
	*ret_more = n - t->options->width;
	return 0;
}

static int print_nodes(struct tree *t, int32_t first, uint32_t level)
{
	uint64_t least, ties, more, ns = 0;
	char text[96], time[DURATION_SIZE];
	int rc = least_shown(t, first, &least, &ties, &more);

	for (int32_t i = first; rc == 0 && i != STACKS_NONE; i = t->stacks.nodes[i].sibling) {
		const struct stacks_node *n = &t->stacks.nodes[i];

		if (more && (n->ns < least || (n->ns == least && !ties))) {
			ns += n->ns;
			continue;
		}
		ties -= more && n->ns == least;
		print_line(t, n);
		out_flush_if_full(&t->out);
		rc = t->out.error;
		/* The recursion is bounded by the option `depth`. */
		if (rc == 0)
			rc = print_nodes(t, n->first_child, level + 1);
		if (rc == 0 && n->deeper) {
			snprintf(text, sizeof(text), "... %ju call%s deeper", (uintmax_t)n->deeper,
				 n->deeper == 1 ? "" : "s");
			print_rest(t, level + 1, text);
		}
	}
	if (rc == 0 && more) {
		snprintf(text, sizeof(text), "... %ju more function%s, %s", (uintmax_t)more, more == 1 ? "" : "s",
			 duration_text(ns, 0, time));
		print_rest(t, level, text);
	}
	return rc;
}

static void print_header(struct tree *t, size_t index, uint64_t slices)
{
	const struct store_thread *thread = store_thread(t->walk->store, index);
	unsigned quality = store_quality(t->walk->store, index);
	char name[NAME_SIZE], time[DURATION_SIZE], error[DURATION_ERROR_SIZE], ending[4 * NAME_SIZE];
	struct buf *b = &t->out.buf;

	buf_printf(
	    b, "%sthread %u %s%s: %s, %ju call%s", paint(t, BOLD), thread->tid,
	    escape_text(thread->name, name, sizeof(name)), paint(t, PLAIN),
	    duration_text(t->stacks.last - t->stacks.first, thread->bound == UINT64_MAX ? thread->bound : 0, time),
	    (uintmax_t)slices, slices == 1 ? "" : "s");
	buf_printf(b, "%s", duration_error_text(thread->bound, error));
	if (quality < 10000)
		buf_printf(b, ", %u.%02u %% known", quality / 100, quality % 100);
	if (thread->unexplained)
		buf_printf(b, ", %ju unexplained jump%s", (uintmax_t)thread->unexplained,
			   thread->unexplained == 1 ? "" : "s");
	if (t->stacks.uncertain)
		buf_printf(b, ", depth uncertain %ju times", (uintmax_t)t->stacks.uncertain);
	buf_printf(b, "\n");
	if (walk_ending(t->walk, thread))
		buf_printf(b, "%12s%s%s%s\n", "", paint(t, RED),
			   escape_text(walk_ending(t->walk, thread), ending, sizeof(ending)), paint(t, PLAIN));
	for (unsigned i = 0; i < STORE_GAP_KINDS; i++) {
		if (t->stacks.gaps[i])
			buf_printf(b, "%s%10s  gaps: %ju, %s%s\n", paint(t, RED),
				   duration_text(t->stacks.gap_ns[i], 0, time), (uintmax_t)t->stacks.gaps[i],
				   calls_gap_str(i), paint(t, PLAIN));
	}
}

static int print_thread(struct tree *t, size_t index, struct export_result *result)
{
	int rc = stacks_fold(&t->stacks, t->walk, index, t->options->depth);

	if (rc < 0 || t->stacks.first > t->stacks.last)
		return rc;
	result->slices += t->stacks.slices;
	result->gaps += t->stacks.n_gaps;
	print_header(t, index, t->stacks.slices);
	return print_nodes(t, t->stacks.first_top, 0);
}

static void tree_done(struct tree *t)
{
	out_done(&t->out);
	fit_done(&t->fit);
	stacks_done(&t->stacks);
}

static int tree_write(const struct store *s, int fd, const struct export_options *o, struct export_result *ret)
{
	struct export_options options = *o;
	struct export_walk walk;
	_cleanup_(
	    tree_done) struct tree t = { .out.fd = fd, .walk = &walk, .options = &options, .fit.ascii = o->ascii };
	int rc = 0;

	options.depth = MIN(o->depth ? o->depth : EXPORT_TREE_DEPTH, (unsigned)EXPORT_TREE_DEPTH_MAX);
	options.width = o->width ? o->width : EXPORT_TREE_WIDTH;
	walk_begin(&walk, s, &options, ret);
	for (size_t i = 0; rc == 0 && i < store_threads(s); i++) {
		if (walk_wants(&walk, store_thread(s, i)))
			rc = print_thread(&t, i, ret);
	}
	return rc < 0 ? rc : out_finish(&t.out);
}

const struct export_ops export_tree = { "tree", ".txt", "a tree of calls, for a terminal", tree_write };
