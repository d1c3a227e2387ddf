/* SPDX-License-Identifier: MIT */
/*
 * Both engines decode synthetic traces to the expected elements, except for features that OpenCSD 1.3.3 lacks.
 *
 *   unit-generate SEED [WITHOUT]    shows how a trace without these features (a mask) is decoded: packets, elements,
 * differences
 */
#include "config.h"

#include <stdlib.h>

#include "lib/base/util.h"
#include "lib/etm/guard.h"
#include "tests/etm/generate.h"
#include "tests/unit.h"

enum { SIZE = 3000, TEXT = 256, ALL = (1 << GENERATE_FEATURES) - 1 };

struct check {
	const struct generated *g;
	size_t n; /* equal elements so far */
	char got[TEXT];
	bool differs, shows;
};

static uint64_t same_version(void *user, const struct engine_context *context)
{
	return 0;
}

static int on_element(void *user, const struct element *e)
{
	struct check *c = user;
	char want[TEXT] = "", text[TEXT];

	element_format(e, text, sizeof(text));
	if (c->shows)
		printf("%6llu %s\n", (unsigned long long)e->offset, text);
	if (c->differs)
		return 0;
	if (c->n < c->g->n_truth)
		element_format(&c->g->truth[c->n], want, sizeof(want));
	c->differs = strcmp(want, text) != 0;
	c->n += !c->differs;
	strcpy(c->got, text);
	return 0;
}

static int on_packet(void *user, const struct engine_packet *p)
{
	printf("%6llu    %s\n", (unsigned long long)p->offset, p->text);
	return 0;
}

static bool decode(const struct engine_ops *ops, const struct generated *g, bool shows, struct check *ret)
{
	const struct engine_memory memory = { generate_read, same_version, false, g->code };
	const struct element_sink sink = { on_element, ret, shows && ops == &opencsd_engine_ops ? on_packet : NULL };
	struct engine *e = NULL;
	int rc = ops->open(&g->config, &memory, &sink, &e);

	*ret = (struct check){ .g = g, .shows = shows };
	/* Push pieces of random sizes. */
	for (size_t at = 0, n; rc == 0 && at < g->size; at += n) {
		n = MIN(g->size - at, (size_t)997);
		rc = ops->push(e, g->bytes + at, n);
	}
	if (rc == 0)
		rc = ops->finish(e);
	ops->close(e);
	return rc == 0 && ret->n == g->n_truth && !ret->differs;
}

static void print_difference(const struct engine_ops *ops, uint64_t seed, unsigned without, const struct check *c)
{
	char text[TEXT] = "";

	printf("# seed %llu without %#x, %s:\n", (unsigned long long)seed, without, ops->name);
	for (size_t i = c->n > 6 ? c->n - 6 : 0; i <= c->n && i < c->g->n_truth; i++) {
		element_format(&c->g->truth[i], text, sizeof(text));
		printf("#   %s%s\n", i == c->n ? "want " : "     ", text);
	}
	printf("#   got  %s\n", c->differs ? c->got : "nothing more");
}

/* Counts the traces that are not decoded to their expected elements. */
static unsigned count_differences(const struct engine_ops *ops, unsigned seeds, unsigned without, bool prints,
				  unsigned *used)
{
	unsigned wrong = 0;

	for (uint64_t seed = 1; seed <= seeds; seed++) {
		struct generated g;
		struct check c;

		generate(seed, SIZE, without, &g);
		*used |= g.used;
		if (!decode(ops, &g, false, &c) && wrong++ < 3 && prints)
			print_difference(ops, seed, without, &c);
		generated_done(&g);
	}
	return wrong;
}

static int show(uint64_t seed, unsigned without)
{
	static const struct engine_ops *const engines[] = { &opencsd_engine_ops, &native_engine_ops };

	for (size_t i = 0; i < ELEMENTS(engines); i++) {
		struct generated g;
		struct check c;

		generate(seed, SIZE, without, &g);
		if (!decode(engines[i], &g, true, &c))
			print_difference(engines[i], seed, without, &c);
		generated_done(&g);
	}
	return 0;
}

static void test_native(void)
{
	unsigned used = 0;

	CHECK_EQ(count_differences(&native_engine_ops, 400, 0, true, &used), 0);
	CHECK_EQ(used, ALL);
	/* Each feature alone: its traces consist of little else. */
	for (unsigned bit = 0; bit < GENERATE_FEATURES; bit++) {
		unsigned wrong = count_differences(&native_engine_ops, 30, ALL & ~(1u << bit), true, &used);

		unit_check(wrong == 0, __FILE__, __LINE__, "native: %s alone", generate_feature_str(bit));
	}
}

/* The features that OpenCSD 1.3.3 decodes wrongly, alone or only in combination. */
static void test_opencsd(void)
{
	static const struct {
		unsigned features;
		const char *reason;
	} wrong[] = {
		{ GENERATE_RETURN_STACK,
		  "it ends in a crash at an exception whose address is the last branch's target as well" },
		{ GENERATE_COMPARE_BRANCHES, "it does not know the instructions" },
		{ GENERATE_PAUTH_LR, "it does not know the instructions" },
		{ GENERATE_RESETS, "it takes the packet for one that an address follows" },
		{ GENERATE_INSTRUMENTATION, "it does not know the packet" },
		{ GENERATE_MARKERS, "timestamps before the first marker are emitted" },
		{ GENERATE_SPECULATION | GENERATE_CYCLES, "what cycle counts commit is not committed" },
		{ GENERATE_SPECULATION | GENERATE_Q, "some of it comes out of order" },
	};
	unsigned known = 0, used = 0;

	for (size_t i = 0; i < ELEMENTS(wrong); i++) {
		unsigned features = wrong[i].features, bad;

		bad = strcmp(opencsd_version(NULL), "1.3.3") == 0
			  ? count_differences(&opencsd_engine_ops, 150, ALL & ~features, false, &used)
			  : 1;
		unit_check(bad > 0, __FILE__, __LINE__, "OpenCSD 1.3.3 is wrong of what has features %#x: %s", features,
			   wrong[i].reason);
		known |= features & (features - 1) ? 0 : features;
	}
	CHECK_EQ(count_differences(&opencsd_engine_ops, 200, known | GENERATE_SPECULATION, true, &used), 0);
	/* At the end of the trace it forgets source addresses that are not committed. */
	CHECK_EQ(count_differences(&opencsd_engine_ops, 200, known | GENERATE_CYCLES | GENERATE_Q | GENERATE_SOURCES,
				   true, &used),
		 0);
}

/* A trace that ends with uncommitted P0 elements behind a transaction's end and a timestamp: only these two are
 * emitted. */
static void test_end(void)
{
	struct generated g;
	struct check c;

	generate(0x5d8c6756a177d3df, 0x957, 0x8033288, &g);
	CHECK(decode(&native_engine_ops, &g, false, &c));
	generated_done(&g);
}

int main(int argc, char **argv)
{
	/* A crash of OpenCSD is not a failure of the test. */
	guard_install();
	if (argc > 1)
		return show(strtoull(argv[1], NULL, 0), argc > 2 ? (unsigned)strtoul(argv[2], NULL, 0) : 0);
	test_native();
	test_opencsd();
	test_end();
	return unit_end();
}
