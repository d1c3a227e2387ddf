/* SPDX-License-Identifier: MIT */
/*
 * Parquet, for queries over the snapshots of many machines: a table of calls, or one of functions. Each row has its
 * host, snapshot and build-id, so that files of any number of snapshots are one table.
 */
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

static const char *known(const char *text)
{
	return text ? text : "";
}

/* p: the process of a call, or that of all threads. */
static void put_origin(struct parquet_file *f, const struct store *s, const struct export_options *o,
		       const struct store_process *p, const struct store_function *function)
{
	parquet_text(f, known(o->host));
	parquet_text(f, known(store_meta(s, "id")));
	parquet_number(f, store_meta_number(s, "realtime"));
	parquet_text(f, p->program);
	parquet_number(f, p->pid);
	parquet_text(f, function->name);
	parquet_text(f, function->image);
	parquet_text(f, function->build_id);
}

static void put_call(struct parquet_file *f, const struct store *s, const struct export_options *o,
		     const struct store_process *p, const struct store_found_call *c)
{
	const struct store_thread *thread = store_thread(s, c->thread);

	put_origin(f, s, o, p, store_function(s, c->frame.function));
	parquet_number(f, thread->tid);
	parquet_text(f, thread->name);
	parquet_text(f, c->caller != STORE_NO_CALLER ? store_function(s, c->caller)->name : "");
	parquet_number(f, c->depth);
	parquet_number(f, c->frame.enter);
	parquet_number(f, c->ns);
	parquet_number(f, c->bound);
	parquet_number(f, c->instructions);
	parquet_bool(f, c->whole);
	parquet_bool(f, c->frame.site != STORE_NO_SITE);
}

static int put_calls(struct parquet_file *f, const struct export_walk *w, const struct export_options *o,
		     struct export_result *ret)
{
	const struct store_finder_options wanted = { .tid = w->tid, .since = w->since, .until = w->until };
	_cleanup_(store_finder_freep) struct store_finder *finder = NULL;
	struct store_process process = { 0 };
	struct store_found_call call;
	size_t thread = SIZE_MAX;
	int rc = store_finder_new(w->store, &wanted, &finder);

	while (rc == 0 && (rc = store_finder_next(finder, &call)) == 1) {
		if (call.thread != thread) {
			thread = call.thread;
			process = store_process_of(w->store, thread);
		}
		put_call(f, w->store, o, &process, &call);
		ret->slices++;
		rc = f->error;
	}
	return rc;
}

static int calls_write(const struct store *s, int fd, const struct export_options *o, struct export_result *ret)
{
	struct parquet_file f;
	struct export_walk walk;
	int rc;

	walk_begin(&walk, s, o, ret);
	for (size_t i = 0; i < store_threads(s); i++)
		ret->gaps += walk_wants(&walk, store_thread(s, i)) ? store_thread(s, i)->gaps : 0;
	parquet_begin(&f, fd, call_columns, ELEMENTS(call_columns));
	rc = put_calls(&f, &walk, o, ret);
	if (rc == 0)
		rc = parquet_finish(&f);
	parquet_done(&f);
	return rc;
}

static int functions_write(const struct store *s, int fd, const struct export_options *o, struct export_result *ret)
{
	const struct store_process process = store_process_of(s, SIZE_MAX);
	struct parquet_file f;
	struct export_walk walk;
	int rc;

	walk_begin(&walk, s, o, ret);
	parquet_begin(&f, fd, function_columns, ELEMENTS(function_columns));
	for (size_t i = 0; i < store_functions(s); i++) {
		const struct store_function *function = store_function(s, i);

		if (!function->calls)
			continue;
		put_origin(&f, s, o, &process, function);
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
