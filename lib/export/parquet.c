/* SPDX-License-Identifier: MIT */
/*
 * Parquet, for queries over the snapshots of many machines: a table of calls, or one of functions. Each row has its
 * host, snapshot and build-id, so that files of any number of snapshots are one table.
 */
#include <errno.h>
#include <stdlib.h>

#include "lib/base/array.h"
#include "lib/calls/calls.h"
#include "lib/export/parquet-file.h"
#include "lib/export/walk.h"

/* The first columns of both tables. */
#define ORIGIN_COLUMNS                                                                             \
	{ "host", PARQUET_TEXT }, { "snapshot", PARQUET_TEXT }, { "snapshot_time", PARQUET_TIME }, \
	    { "program", PARQUET_TEXT }, { "pid", PARQUET_NUMBER }, { "function", PARQUET_TEXT },  \
	    { "image", PARQUET_TEXT },                                                             \
	{                                                                                          \
		"build_id", PARQUET_TEXT                                                           \
	}

static const struct parquet_column call_columns[] = {
	ORIGIN_COLUMNS,
	{ "tid", PARQUET_NUMBER },
	{ "thread", PARQUET_TEXT },
	{ "caller", PARQUET_TEXT },
	{ "depth", PARQUET_NUMBER },
	{ "start_ns", PARQUET_NUMBER }, /* in the clock of the trace */
	{ "duration_ns", PARQUET_NUMBER },
	{ "bound_ns", PARQUET_NUMBER }, /* largest error of the duration */
	{ "instructions", PARQUET_NUMBER },
	{ "whole", PARQUET_BOOL }, /* traced from enter to leave */
	{ "inlined", PARQUET_BOOL },
};

static const struct parquet_column function_columns[] = {
	ORIGIN_COLUMNS,
	{ "calls", PARQUET_NUMBER },
	{ "whole_calls", PARQUET_NUMBER },
	{ "total_ns", PARQUET_NUMBER },
	{ "self_ns", PARQUET_NUMBER },
	{ "wait_ns", PARQUET_NUMBER },
	{ "min_ns", PARQUET_NUMBER },
	{ "median_ns", PARQUET_NUMBER },
	{ "p99_ns", PARQUET_NUMBER },
	{ "max_ns", PARQUET_NUMBER },
	{ "total_instructions", PARQUET_NUMBER },
	{ "self_instructions", PARQUET_NUMBER },
};

struct calls_table {
	struct parquet_file file;
	const struct store *store;
	const struct export_options *options;
	size_t thread;
	uint32_t *stack; /* functions of the open frames */
	size_t n_stack, cap_stack;
	struct export_result *result;
};

static const char *known(const char *text)
{
	return text ? text : "";
}

static void put_origin(struct parquet_file *f, const struct store *s, const struct export_options *o,
		       const struct store_function *function)
{
	parquet_text(f, known(o->host));
	parquet_text(f, known(store_meta(s, "id")));
	parquet_number(f, store_meta_number(s, "realtime"));
	parquet_text(f, known(store_meta(s, "program")));
	parquet_number(f, store_meta_number(s, "pid"));
	parquet_text(f, function->name);
	parquet_text(f, function->image);
	parquet_text(f, function->build_id);
}

static void put_call(struct calls_table *t, const struct store_event *e, bool cut)
{
	const struct store_function *function = store_function(t->store, e->frame.function);
	const struct store_thread *thread = store_thread(t->store, t->thread);
	struct parquet_file *f = &t->file;
	uint64_t enter = e->frame.enter;

	put_origin(f, t->store, t->options, function);
	parquet_number(f, thread->tid);
	parquet_text(f, thread->name);
	parquet_text(f, t->n_stack ? store_function(t->store, t->stack[t->n_stack - 1])->name : "");
	parquet_number(f, e->depth);
	parquet_number(f, enter);
	parquet_number(f, e->time - MIN(e->time, enter));
	parquet_number(f, store_duration_bound(t->store, t->thread, enter, e->time));
	parquet_number(f, e->instructions - MIN(e->instructions, e->frame.instructions));
	parquet_bool(f, !cut && store_is_whole(e));
	parquet_bool(f, e->frame.site != STORE_NO_SITE);
	t->result->slices++;
}

static int on_event(void *user, const struct store_event *e, bool cut)
{
	struct calls_table *t = user;

	switch (e->type) {
	case STORE_ENTER:
		if (array_reserve(t->stack, t->n_stack, &t->cap_stack) < 0)
			return -ENOMEM;
		t->stack[t->n_stack++] = e->frame.function;
		break;
	case STORE_LEAVE:
		t->n_stack -= t->n_stack > 0;
		if (!e->frame.piece)
			put_call(t, e, cut);
		break;
	case STORE_GAP:
		t->result->gaps++;
		break;
	default:
		break;
	}
	return t->file.error;
}

static int calls_write(const struct store *s, int fd, const struct export_options *o, struct export_result *ret)
{
	struct calls_table t = { .store = s, .options = o, .result = ret };
	struct walk_sink sink = { on_event, &t };
	struct export_walk walk;
	int rc = 0;

	walk_begin(&walk, s, o, ret);
	parquet_begin(&t.file, fd, call_columns, ELEMENTS(call_columns));
	for (t.thread = 0; rc == 0 && t.thread < store_threads(s); t.thread++) {
		t.n_stack = 0;
		if (walk_wants(&walk, store_thread(s, t.thread)))
			rc = walk_thread(&walk, t.thread, &sink);
	}
	if (rc == 0)
		rc = parquet_finish(&t.file);
	parquet_done(&t.file);
	free(t.stack);
	return rc;
}

static int functions_write(const struct store *s, int fd, const struct export_options *o, struct export_result *ret)
{
	struct parquet_file f;
	struct export_walk walk;
	int rc;

	walk_begin(&walk, s, o, ret);
	parquet_begin(&f, fd, function_columns, ELEMENTS(function_columns));
	for (size_t i = 0; i < store_functions(s); i++) {
		const struct store_function *function = store_function(s, i);

		if (!function->calls)
			continue;
		put_origin(&f, s, o, function);
		parquet_number(&f, function->calls);
		parquet_number(&f, function->whole);
		parquet_number(&f, function->total_ns);
		parquet_number(&f, function->self_ns);
		parquet_number(&f, function->wait_ns);
		parquet_number(&f, function->whole ? function->shortest_ns : 0);
		parquet_number(&f, function->median_ns);
		parquet_number(&f, function->p99_ns);
		parquet_number(&f, function->longest_ns);
		parquet_number(&f, function->total_instructions);
		parquet_number(&f, function->self_instructions);
		ret->slices += function->calls;
	}
	rc = parquet_finish(&f);
	parquet_done(&f);
	return rc;
}

const struct export_ops export_parquet = { "parquet", ".parquet", "a table of calls, for SQL", calls_write, true };
const struct export_ops export_parquet_functions = { "parquet-functions", ".functions.parquet",
						     "a table of functions, for SQL", functions_write, true };
