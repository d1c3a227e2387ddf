/* SPDX-License-Identifier: MIT */
/*
 * Compares the native engine's outlets of calls and of sums with what every range, one after another, folds to. And
 * compares lib/calls fed with merged ranges with lib/calls fed with every range.
 *
 *   outlets INPUT...
 *   outlets --generated FROM TO
 *
 * All is done by one thread, and by several with chunks of several sizes. FROM and TO are seeds of synthetic traces,
 * each of which is decoded as it is, with bytes changed, and with bytes left out. Of each input's largest source, the
 * first BYTES bytes are decoded (default 4 MB). Regions are intervals of 256 bytes, so that there are many. Bytes are
 * pushed in pieces of many sizes. Exits with 0 if all results are equal.
 */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/util.h"
#include "lib/calls/calls.h"
#include "lib/etm/native-runs.h"
#include "lib/etm/pool.h"
#include "tests/code/symbol-list.h"
#include "tests/etm/generate.h"
#include "tests/etm/trace.h"

/* A call, or an event with its element. */
struct emitted {
	uint64_t from, to, instructions;
	bool event, torn;
	struct element element;
};

/* How often a block was left, or how often for a target. */
struct tally {
	uint64_t start, end, to;
	uint64_t n;
	uint64_t taken;
};

struct listener {
	struct buf emitted, tallies;
	struct buf events; /* elements */
	struct native_sums sums;
	/* State of the folding here: */
	uint64_t instructions;
	struct basic_block last;
	bool has_last, last_taken, fresh;
	uint64_t next; /* where the next range is expected to begin, or NATIVE_UNKNOWN */
};

static uint32_t region_of(void *user, uint64_t address)
{
	return (uint32_t)(address >> 8) & INT32_MAX;
}

static void add_emitted(struct listener *l, const struct emitted *t)
{
	buf_add(&l->emitted, t, sizeof(*t));
}

static void count(struct listener *l, const struct basic_block *b, bool taken, uint64_t to, uint64_t n)
{
	struct tally t = { b->start, block_end(b), to, n, taken };

	buf_add(&l->tallies, &t, sizeof(t));
}

static struct emitted event_of(const struct element *e, uint64_t from, uint64_t instructions)
{
	struct emitted t = { 0 };

	t.event = true;
	t.from = from;
	t.instructions = instructions;
	memcpy(&t.element, e, sizeof(*e));
	return t;
}

static struct emitted call_of(uint64_t from, uint64_t to, uint64_t instructions)
{
	struct emitted t = { 0 };

	t.from = from;
	t.to = to;
	t.instructions = instructions;
	return t;
}

static uint64_t left(const struct basic_block *b, bool taken)
{
	return block_end(b) + taken;
}

static bool is_torn(const struct listener *l, uint64_t start)
{
	return l->next != NATIVE_UNKNOWN && l->next != start;
}

static void fold_block(struct listener *l, const struct basic_block *b, bool taken)
{
	bool torn = is_torn(l, b->start) || (b->always && !taken), call = !l->has_last || l->fresh || torn;

	if (l->has_last) {
		const struct basic_block *last = &l->last;

		call = call || region_of(NULL, block_end(last) - 4) != region_of(NULL, b->start) ||
		       region_of(NULL, last->start) != region_of(NULL, block_end(last) - 4) ||
		       (l->last_taken && (last->sub == SUB_LINK || last->sub == SUB_RET || last->sub == SUB_ERET));
	}
	call = call || region_of(NULL, b->start) != region_of(NULL, block_end(b) - 4);
	if (call) {
		struct emitted t = call_of(l->has_last ? left(&l->last, l->last_taken) : 0, b->start, l->instructions);

		t.torn = torn;
		add_emitted(l, &t);
	}
	if (l->has_last && l->last_taken && l->last.kind == INSTR_IBR)
		count(l, &l->last, true, b->start + 1, 1);
	count(l, b, taken, 0, 1);
	l->instructions += b->count;
	l->last = *b;
	l->has_last = true;
	l->last_taken = taken;
	l->fresh = false;
	l->next = taken ? b->target : block_end(b);
}

static void fold_event(struct listener *l, const struct element *e, uint64_t successor)
{
	struct emitted t = event_of(e, l->has_last ? left(&l->last, l->last_taken) : 0, l->instructions);

	if (e->kind == ELEM_RANGE)
		t.element.torn = is_torn(l, e->range.start);
	if (!element_is_aside(e))
		l->next = e->kind == ELEM_RANGE ? successor : NATIVE_UNKNOWN;
	l->fresh = l->fresh || e->kind != ELEM_CYCLES;

	add_emitted(l, &t);
	if (element_is_aside(e))
		return;
	if (e->kind == ELEM_RANGE) {
		if (l->has_last && l->last_taken && l->last.kind == INSTR_IBR)
			count(l, &l->last, true, e->range.start + 1, 1);
		l->instructions += e->range.count;
	}
	l->has_last = false;
}

static struct element cycles_of(uint32_t edge)
{
	struct element e;

	memset(&e, 0, sizeof(e));
	e.kind = ELEM_CYCLES;
	e.cycles = edge & ~NATIVE_CYCLES;
	return e;
}

/* Cycles may be emitted as events or among edges, which is equivalent. */
static void plain_event(struct element *to, const struct element *e)
{
	if (e->kind == ELEM_CYCLES)
		*to = cycles_of(e->cycles);
	else
		memcpy(to, e, sizeof(*e));
	to->offset = 0;
}

static void add_event(struct listener *l, const struct element *e)
{
	if (e->kind != ELEM_CYCLES)
		buf_add(&l->events, e, sizeof(*e));
}

static int on_edges(void *user, const struct native_batch *b)
{
	struct listener *l = user;
	size_t event = 0;

	native_sum(&l->sums, b);
	for (size_t i = 0; i < b->n; i++) {
		struct element e;

		if (b->edges[i] == NATIVE_EVENT) {
			plain_event(&e, &b->events[event]);
			e.torn = e.kind == ELEM_RANGE && is_torn(l, e.range.start);
			add_event(l, &e);
			fold_event(l, &e, b->successors[event++]);
		} else if (b->edges[i] & NATIVE_CYCLES) {
			e = cycles_of(b->edges[i]);
			fold_event(l, &e, NATIVE_UNKNOWN);
		} else {
			fold_block(l, &b->blocks[edge_block(b->edges[i])], edge_is_taken(b->edges[i]));
		}
	}
	return 0;
}

static uint64_t left_edge(const struct native_batch *b, uint32_t edge)
{
	return edge ? left(&b->blocks[edge_block(edge)], edge_is_taken(edge)) : 0;
}

static int on_calls(void *user, const struct native_batch *b)
{
	struct listener *l = user;
	size_t event = 0;

	for (size_t i = 0; i < b->n_calls; i++) {
		const struct native_call *c = &b->calls[i];
		struct element e;
		struct emitted t;

		if (c->edge & NATIVE_CYCLES) {
			e = cycles_of(c->edge);
			if (c->edge == NATIVE_EVENT)
				plain_event(&e, &b->events[event++]);
			t = event_of(&e, left_edge(b, c->to), c->instructions + b->instructions);
		} else {
			t = call_of(left_edge(b, c->edge), b->blocks[c->to & ~NATIVE_TORN].start,
				    c->instructions + b->instructions);
			t.torn = c->to & NATIVE_TORN;
		}
		add_emitted(l, &t);
	}
	return 0;
}

static int on_sums(void *user, const struct native_batch *b)
{
	struct listener *l = user;

	native_sum_executed(&l->sums, b);
	for (size_t i = 0; i < b->n_events; i++) {
		struct element e;

		plain_event(&e, &b->events[i]);
		add_event(l, &e);
	}
	return 0;
}

static int compare_tallies(const void *left, const void *right)
{
	const struct tally *a = left, *b = right;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	if (a->end != b->end)
		return a->end < b->end ? -1 : 1;
	if (a->taken != b->taken)
		return a->taken ? 1 : -1;
	return (a->to > b->to) - (a->to < b->to);
}

/* Merges tallies of the same block and target. */
static void merge_tallies(struct buf *tallies)
{
	struct tally *t = (struct tally *)tallies->data;
	size_t n = tallies->size / sizeof(*t), kept = 0;

	if (n)
		qsort(t, n, sizeof(*t), compare_tallies);
	for (size_t i = 0; i < n; i++) {
		if (kept && compare_tallies(&t[kept - 1], &t[i]) == 0)
			t[kept - 1].n += t[i].n;
		else
			t[kept++] = t[i];
		/* Counts that were subtracted again. */
		if (kept && !t[kept - 1].n && (i + 1 == n || compare_tallies(&t[kept - 1], &t[i + 1]) != 0))
			kept--;
	}
	tallies->size = kept * sizeof(*t);
}

/* That the engine stops at AArch32 is no error. */
static int accept_stop(int rc)
{
	return rc == -EOPNOTSUPP ? 0 : rc;
}

/* The number of threads, 0: none but the caller's; and the size of chunks. */
struct way {
	unsigned workers;
	size_t chunk_size;
};

static const struct way alone = { 0, 0 },
			ways[] = { { 1, 0 }, { 1, 1 }, { 2, 1 }, { 3, 0 }, { 3, 3000 }, { 16, 20000 } };

static int listen(const struct trace *t, enum native_outlet outlet, const struct way *way, struct listener *l)
{
	static int (*const listeners[])(void *, const struct native_batch *) = { on_edges, on_calls, on_sums };
	const struct native_sink sink = {
		.batch = listeners[outlet], .user = l, .outlet = outlet, .region = region_of
	};
	struct native_workers_options options = { NULL, way->workers, way->chunk_size };
	struct native_workers *w = NULL;
	struct native *e = NULL;
	struct pool *pool = NULL;
	unsigned random = 1;
	int rc = way->workers ? pool_new(way->workers, &pool) : 0;

	options.pool = pool;
	if (rc == 0)
		rc = pool ? native_workers_open(&t->config, &t->memory, &sink, &options, &w)
			  : native_open(&t->config, &t->memory, &sink, &e);
	for (size_t at = 0; rc == 0 && at < t->size;) {
		size_t n;

		random = random * 1103515245 + 12345;
		n = MIN(t->size - at, (size_t)1 << (random >> 16) % 17);
		rc = w ? native_workers_push(w, t->bytes + at, n) : native_push(e, t->bytes + at, n);
		at += n;
	}
	if (rc == 0)
		rc = w ? native_workers_finish(w) : native_finish(e);
	native_workers_close(w);
	native_close(e);
	pool_free(pool);
	return accept_stop(rc);
}

static bool same(const char *what, const struct buf *wanted, const struct buf *got, size_t size)
{
	size_t n = wanted->size / size, i = 0;

	while (i < n && i < got->size / size && memcmp(wanted->data + i * size, got->data + i * size, size) == 0)
		i++;
	if (i == n && got->size == wanted->size) {
		printf("# %zu %s\n", n, what);
		return true;
	}
	printf("# %s: %zu expected, %zu found; the first difference is at %zu\n", what, n, got->size / size, i);
	for (unsigned k = 0; k < 2 && i < n && i < got->size / size; k++) {
		const uint64_t *v = (const uint64_t *)((k ? got : wanted)->data + i * size);

		printf("# %s %" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIx64 "\n", k ? "found   " : "expected", v[0],
		       v[1], v[2], v[3]);
	}
	return false;
}

/* Compares what two outlets say was executed, and their events. */
static bool same_sums(const struct listener *wanted, const struct listener *got)
{
	const struct native_sums *a = &wanted->sums, *b = &got->sums;

	if (a->instructions == b->instructions && a->ranges == b->ranges && a->torn == b->torn &&
	    a->others == b->others)
		return same("events of sums", &wanted->events, &got->events, sizeof(struct element));
	printf("# sums: %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " expected, %" PRIu64 " %" PRIu64 " %" PRIu64
	       " %" PRIu64 " found\n",
	       a->instructions, a->ranges, a->torn, a->others, b->instructions, b->ranges, b->torn, b->others);
	return false;
}

static void listener_done(struct listener *l)
{
	buf_done(&l->emitted);
	buf_done(&l->tallies);
	buf_done(&l->events);
}

static uint32_t number_of(void *user, uint64_t address)
{
	return (uint32_t)(address >> 8) & (INT32_MAX >> 1);
}

static int on_call_event(void *user, const struct call_event *e)
{
	struct call_event plain;

	memset(&plain, 0, sizeof(plain));
	plain.type = e->type;
	plain.kind = e->kind;
	plain.time = e->time;
	plain.instructions = e->instructions;
	plain.bound = e->bound;
	plain.function = e->function;
	buf_add(user, &plain, sizeof(plain));
	return 0;
}

/* Makes all memory one file, with a function in each region in which something ran. */
static int make_regions(const struct buf *tallies, struct symbols **ret_symbols, struct region_map **ret)
{
	const struct tally *t = (const struct tally *)tallies->data;
	size_t n = tallies->size / sizeof(*t), kept = 0;
	struct symbol *list = calloc(n + 1, sizeof(*list));
	struct region_mapping all = { .len = UINT64_MAX, .path = "/all" };
	int rc = list ? 0 : -ENOMEM;

	for (size_t i = 0; rc == 0 && i < n; i++) {
		uint64_t start = t[i].start & ~(uint64_t)255;

		if (!kept || list[kept - 1].start != start)
			list[kept++] = (struct symbol){ start, start + 256, "function" };
	}
	if (rc == 0)
		rc = symbols_from_list(list, kept, ret_symbols);
	free(list);
	all.symbols = *ret_symbols;
	if (rc == 0)
		rc = region_map_new(ret);
	return rc == 0 ? region_map_add(*ret, &all) : rc;
}

/* Decodes in pieces of many sizes, and adds the engine's statistics to ret. */
static int decode(const struct trace *t, const struct element_sink *sink, struct buf *ret)
{
	struct engine_stats stats;
	struct engine *e = NULL;
	unsigned random = 1;
	int rc = native_engine_ops.open(&t->config, &t->memory, sink, &e);

	for (size_t at = 0; rc == 0 && at < t->size;) {
		size_t n;

		random = random * 1103515245 + 12345;
		n = MIN(t->size - at, (size_t)1 << (random >> 16) % 17);
		rc = native_engine_ops.push(e, t->bytes + at, n);
		at += n;
	}
	if (rc == 0)
		rc = native_engine_ops.finish(e);
	if (rc == 0)
		native_engine_ops.stats(e, &stats);
	if (rc == 0)
		buf_add(ret, &stats, sizeof(stats));
	native_engine_ops.close(e);
	return accept_stop(rc);
}

/* Calls of batches. */
struct stacker {
	struct calls *calls;
	struct native_runs runs;
};

static int on_stacker_batch(void *user, const struct native_batch *b)
{
	struct stacker *s = user;

	return calls_batch(s->calls, &s->runs, b);
}

/* Adds the call events of a trace to ret. how: regions, pool and chunk_size; merged: by calls_batch(). */
static int stack(const struct trace *t, struct region_map *map, const struct element_sink *how, bool merged,
		 struct buf *ret)
{
	const struct calls_sink to = { on_call_event, ret };
	struct element_sink sink = *how;
	struct stacker stacker;
	struct calls *calls = NULL;
	int rc = calls_new(map, &to, &calls);

	sink.element = calls_element;
	sink.user = stacker.calls = calls;
	native_runs_init(&stacker.runs, &sink);
	sink.batch = merged ? on_stacker_batch : NULL;
	sink.user = merged ? (void *)&stacker : calls;
	sink.workers = sink.pool ? pool_threads(sink.pool) : 0;
	if (rc == 0)
		rc = decode(t, &sink, ret);
	if (rc == 0)
		rc = calls_end(calls, 0);
	if (rc == 0)
		buf_add(ret, calls_counts(calls), sizeof(struct calls_counts));
	calls_free(calls);
	return rc;
}

static int on_element(void *user, const struct element *e)
{
	char text[256] = { 0 };
	size_t n = element_format(e, text, sizeof(text) - 9);

	memcpy(text + n + 1, &e->offset, sizeof(e->offset));
	text[n] = e->torn ? '!' : '.';
	buf_add(user, text, n + 9);
	return 0;
}

/* Elements and call events by several threads are those of one. */
static bool check_workers(const struct trace *t, struct region_map *map, const struct element_regions *regions,
			  const struct buf *stacks)
{
	struct buf wanted = { 0 }, got = { 0 };
	bool good = decode(t, &(struct element_sink){ .element = on_element, .user = &wanted }, &wanted) == 0;

	for (size_t i = 0; i < ELEMENTS(ways) && good; i++) {
		struct pool *pool = NULL;
		struct element_sink sink = { .element = on_element, .user = &got };

		good = pool_new(ways[i].workers, &pool) == 0;
		sink.pool = pool;
		sink.workers = ways[i].workers;
		sink.chunk_size = ways[i].chunk_size;
		good = good && decode(t, &sink, &got) == 0 &&
		       same("bytes of elements by several threads", &wanted, &got, 1);
		buf_clear(&got);
		sink = (struct element_sink){ .regions = regions, .pool = pool, .chunk_size = ways[i].chunk_size };
		for (int merged = 0; merged < 2 && good; merged++) {
			good = stack(t, map, &sink, merged, &got) == 0 &&
			       same("bytes of call events by several threads", stacks, &got, 1);
			buf_clear(&got);
		}
		pool_free(pool);
	}
	buf_done(&wanted);
	buf_done(&got);
	return good;
}

static bool check_stacks(const struct trace *t, const struct buf *tallies)
{
	const struct element_regions regions = { number_of, NULL };
	const struct element_sink alone_of = { .regions = &regions };
	struct buf wanted = { 0 }, got = { 0 };
	struct symbols *symbols = NULL;
	struct region_map *map = NULL;
	int rc = make_regions(tallies, &symbols, &map);
	bool good;

	if (rc == 0)
		rc = stack(t, map, &(struct element_sink){ 0 }, false, &wanted);
	if (rc == 0)
		rc = stack(t, map, &alone_of, false, &got);
	good = rc == 0 && same("bytes of call events", &wanted, &got, 1);
	buf_clear(&got);
	if (rc == 0)
		rc = stack(t, map, &alone_of, true, &got);
	good = good && rc == 0 && same("bytes of call events of batches", &wanted, &got, 1) &&
	       check_workers(t, map, &regions, &wanted);
	buf_done(&wanted);
	buf_done(&got);
	region_map_free(map);
	symbols_free(symbols);
	return good;
}

/* The other outlets, by one thread or several, emit what the edges amount to. */
static bool check_outlets(const struct trace *t, const struct way *way, const struct listener *wanted)
{
	struct listener calls = { 0 }, sums = { 0 };
	bool good = listen(t, NATIVE_CALLS, way, &calls) == 0 && listen(t, NATIVE_SUMS, way, &sums) == 0;

	good = good && same("calls and events", &wanted->emitted, &calls.emitted, sizeof(struct emitted));
	good = good && same_sums(wanted, &sums);
	listener_done(&calls);
	listener_done(&sums);
	return good;
}

static bool check(const struct trace *t)
{
	struct listener edges = { .next = NATIVE_UNKNOWN, .sums.next = NATIVE_UNKNOWN };
	bool good;

	good = listen(t, NATIVE_EDGES, &alone, &edges) == 0;
	merge_tallies(&edges.tallies);
	good = good && check_outlets(t, &alone, &edges) && check_stacks(t, &edges.tallies);
	for (size_t i = 0; i < ELEMENTS(ways) && good; i++)
		good = check_outlets(t, &ways[i], &edges);
	listener_done(&edges);
	return good;
}

static bool check_input(const char *input)
{
	const char *most = getenv("BYTES");
	struct trace t;
	bool good;

	if (trace_load(input, -1, &t) < 0)
		return false;
	t.size = MIN(t.size, most ? strtoull(most, NULL, 10) : (size_t)4000000);
	printf("# %s, %zu bytes\n", input, t.size);
	good = check(&t);
	trace_done(&t);
	return good;
}

static uint64_t same_version(void *user, const struct engine_context *context)
{
	return 0;
}

static void damage(struct trace *t, unsigned kind, uint64_t random)
{
	size_t from, n;

	for (unsigned i = 0; kind == 1 && i < t->size / 2000 + 1; i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		t->bytes[(random >> 20) % t->size] = (uint8_t)(random >> 11);
	}
	/* Packets of 24 taken atoms, which may return more often than a return stack has entries. */
	for (unsigned i = 0; kind == 3 && i < t->size / 60 + 1; i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		t->bytes[(random >> 20) % t->size] = 0xd4;
	}
	if (kind == 2) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		from = (random >> 20) % t->size;
		n = MIN(t->size - from, (size_t)(random >> 11) % 5000);
		memmove(t->bytes + from, t->bytes + from + n, t->size - from - n);
		t->size -= n;
	}
}

static bool check_generated(uint64_t from, uint64_t to)
{
	bool good = true;

	for (uint64_t seed = from; seed < to; seed++)
		for (unsigned kind = 0; kind < 4; kind++) {
			struct generated g;
			struct trace t = { 0 };

			generate(seed, 20000 + seed % 7 * 20000, (unsigned)(seed * 0x9e3779b97f4a7c15u >> 45), &g);
			t.config = g.config;
			t.bytes = g.bytes;
			t.size = g.size;
			t.memory = (struct engine_memory){ generate_read, same_version, false, g.code };
			damage(&t, kind, seed);
			if (!check(&t)) {
				printf("# of seed %" PRIu64 ", %u\n", seed, kind);
				good = false;
			}
			generated_done(&g);
		}
	return good;
}

int main(int argc, char **argv)
{
	bool good = argc > 1;

	if (argc == 4 && strcmp(argv[1], "--generated") == 0)
		return !check_generated(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
	for (int i = 1; i < argc; i++)
		good = check_input(argv[i]) && good;
	return !good;
}
