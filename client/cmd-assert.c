/* SPDX-License-Identifier: MIT */
/* csight assert. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/assertion.h"
#include "client/client.h"
#include "client/cmd-assert.h"
#include "client/format.h"
#include "client/named-store.h"
#include "lib/base/escape.h"

enum { OPTION_NOMINAL, OPTION_RING_SIZE };
static const struct verb_option options[] = {
	[OPTION_NOMINAL] = { "nominal", 0, NULL, "take times as they are, without their error bounds" },
	[OPTION_RING_SIZE] = { "ring-size", 0, "BYTES", "of a command: history of each thread; suffixes K, M, G" },
	{ 0 },
};

/* The result of an assertion. */
struct result {
	const struct assertion *a;
	enum assertion_verdict verdict;
	struct measure is, base;
	/* With "per CALLER": numbers of calls that were judged, in which it fails, and in which it is unknown. */
	uint64_t judged, failed, unknown;
	/* Of the first call in which the assertion fails: the measured value, begin and thread. */
	struct measure first;
	uint64_t first_time;
	uint32_t first_tid;
};

struct asserting {
	struct client *client;
	struct assertion list[CMD_ASSERT_MAX];
	size_t n;
	bool nominal;
	const char *ring_size;
	const char *input;
	char **command; /* NULL: none */
	int n_command;
	struct named_store store;
	json_object *json;
	bool fails, unknown;
};

static const char *verdict_str(enum assertion_verdict v)
{
	static const char *const texts[] = { "holds", "fails", "unknown" };

	return texts[v];
}

static const char *value_text(const struct assertion *a, const struct measure *m)
{
	static char texts[4][96];
	static unsigned next;
	char *text = texts[next++ % ELEMENTS(texts)];
	uint64_t middle = m->low + (m->high - m->low) / 2;

	if (m->high == UINT64_MAX)
		snprintf(text, sizeof(texts[0]), "at least %s",
			 measure_is_time(a->metric) ? format_duration(m->low) : format_count(m->low));
	else if (measure_is_time(a->metric))
		snprintf(text, sizeof(texts[0]), "%s", format_duration_within(middle, (m->high - m->low + 1) / 2));
	else
		snprintf(text, sizeof(texts[0]), "%s", format_count(m->low));
	return text;
}

static void print_result(const struct result *r, const struct named_store *store)
{
	const struct assertion *a = r->a;
	enum format_style style = r->verdict == ASSERTION_HOLDS ? STYLE_GOOD : STYLE_BAD;

	printf("%s%-7s%s  %s", format_style(stdout, style), verdict_str(r->verdict), format_style(stdout, STYLE_PLAIN),
	       esc(a->text));
	if (r->is.unknown)
		printf(": %s", r->is.unknown);
	else if (a->per && r->failed)
		printf(": %s of %s; the first has %s, %s after the beginning, in thread %u", format_count(r->failed),
		       format_plural(r->judged, "call"), value_text(a, &r->first),
		       format_duration(named_store_since_start(store->store, r->first_time)), r->first_tid);
	else if (a->per)
		printf(": %s", format_plural(r->judged, "call"));
	else
		printf(": %s", value_text(a, &r->is));
	if (a->op == WITHIN && !r->is.unknown)
		printf(", and %s in %s", r->base.unknown ? r->base.unknown : value_text(a, &r->base), esc(a->base));
	if (!a->per && !measure_is_sum(a->metric) && !r->is.unknown)
		printf(" (%s)", format_plural(r->is.calls, "call"));
	if (r->is.absent)
		printf("; no function of the trace has the name %s", esc(a->function));
	if (r->is.cut)
		printf("; %s not traced from begin to end", format_plural(r->is.cut, "call"));
	putchar('\n');
}

static void add_interval(json_object *to, const struct measure *m)
{
	json_add_u64(to, "low", m->low);
	if (m->high != UINT64_MAX)
		json_add_u64(to, "high", m->high);
}

static void add_json(json_object *list, const struct result *r)
{
	json_object *o = json_object_new_object(), *base;
	const struct assertion *a = r->a;

	json_add_bytes(o, "assertion", a->text);
	json_add_str(o, "verdict", verdict_str(r->verdict));
	if (r->is.unknown)
		json_add_str(o, "reason", r->is.unknown);
	if (measure_is_time(a->metric))
		json_add_str(o, "unit", "ns");
	if (!a->per && !r->is.unknown)
		add_interval(o, &r->is);
	json_add_u64(o, "calls", a->per ? r->judged : r->is.calls);
	json_add_u64(o, "cut", r->is.cut);
	if (r->is.absent)
		json_add_bool(o, "absent", true);
	if (a->per) {
		json_add_u64(o, "failed", r->failed);
		if (r->failed) {
			add_interval(o, &r->first);
			json_add_u64(o, "time", r->first_time);
			json_add_u64(o, "thread", r->first_tid);
		}
	}
	if (a->op == WITHIN) {
		base = json_object_new_object();
		if (!r->base.unknown)
			add_interval(base, &r->base);
		json_add(o, "base", base);
	}
	json_array_add(list, o);
}

static int judge_call(void *user, const struct measure *value, uint64_t time, uint32_t tid)
{
	struct result *r = user;
	enum assertion_verdict v = assertion_judge(r->a, value, NULL);

	r->judged++;
	r->unknown += v == ASSERTION_UNKNOWN;
	if (v != ASSERTION_FAILS)
		return 0;
	if (!r->failed++) {
		r->first = *value;
		r->first_time = time;
		r->first_tid = tid;
	}
	return 0;
}

static int judge_per(const struct store *s, const struct measure_options *o, struct result *r)
{
	const struct measure_sink sink = { judge_call, r };
	int rc = measure_per_call(s, o, r->a->per, &sink, &r->is);

	if (rc == 0 && !r->is.unknown && !r->judged)
		r->is.unknown = "no call was traced from its begin to its end";
	r->verdict = r->failed ? ASSERTION_FAILS : r->is.unknown || r->unknown ? ASSERTION_UNKNOWN : ASSERTION_HOLDS;
	return rc;
}

/* Measures the trace with which "within" compares. Returns 0 or an exit status. */
static int measure_base(struct asserting *t, const struct measure_options *o, struct result *r)
{
	_cleanup_(named_store_close) struct named_store base = NAMED_STORE_NONE;
	int rc = named_store_open(t->client, r->a->base, &base), error;

	if (rc != STATUS_OK)
		return rc;
	error = measure_function(base.store, o, &r->base);
	if (error == 0)
		return STATUS_OK;
	client_error("cannot read the calls of %s: %s", esc(r->a->base), client_read_problem(-error));
	return STATUS_FAILED;
}

/* Measures what an assertion is about, and judges it. Returns 0 or an exit status. */
static int judge(struct asserting *t, struct result *r)
{
	const struct measure_options o = { r->a->metric, r->a->function, t->nominal };
	int rc;

	if (r->a->op == WITHIN) {
		rc = measure_base(t, &o, r);
		if (rc != STATUS_OK)
			return rc;
	}
	rc = r->a->per ? judge_per(t->store.store, &o, r) : measure_function(t->store.store, &o, &r->is);
	if (rc < 0) {
		client_error("cannot read the calls: %s", client_read_problem(-rc));
		return STATUS_FAILED;
	}
	if (!r->a->per)
		r->verdict = assertion_judge(r->a, &r->is, &r->base);
	return STATUS_OK;
}

static int judge_all(struct asserting *t)
{
	json_object *list = json_object_new_array();

	t->json = json_object_new_object();
	json_add(t->json, "assertions", list);
	for (size_t i = 0; i < t->n; i++) {
		struct result r = { .a = &t->list[i] };
		int rc = judge(t, &r);

		if (rc != STATUS_OK)
			return rc;
		t->fails |= r.verdict == ASSERTION_FAILS;
		t->unknown |= r.verdict == ASSERTION_UNKNOWN;
		if (t->client->json)
			add_json(list, &r);
		else if (!t->client->quiet || r.verdict != ASSERTION_HOLDS)
			print_result(&r, &t->store);
	}
	json_add_str(t->json, "verdict", t->fails ? "fails" : t->unknown ? "unknown" : "holds");
	if (t->client->json)
		client_print_json(t->json);
	return t->fails ? STATUS_DIFFERS : t->unknown ? STATUS_FAILED : STATUS_OK;
}

/*
 * Executes csight run in place of this process: it runs the command, takes a snapshot at its end, and checks the
 * assertions.
 */
static int run_command(struct asserting *t)
{
	char **argv = calloc((size_t)t->n_command + t->n + 12, sizeof(*argv)), **to = argv, *text;
	struct client *c = t->client;
	int rc = argv ? 0 : -ENOMEM;

	if (rc == 0) {
		*to++ = (char *)"csight";
		*to++ = (char *)"run";
		*to++ = (char *)"--emu";
		*to++ = (char *)"--snapshot";
		if (c->json)
			*to++ = (char *)"--json";
		if (c->quiet)
			*to++ = (char *)"--quiet";
		if (t->nominal)
			*to++ = (char *)"--nominal";
	}
	if (rc == 0 && c->socket && asprintf(to++, "--socket=%s", c->socket) < 0)
		rc = -ENOMEM;
	if (rc == 0 && t->ring_size && asprintf(to++, "--ring-size=%s", t->ring_size) < 0)
		rc = -ENOMEM;
	for (size_t i = 0; rc == 0 && i < t->n; i++) {
		rc = asprintf(&text, "--assert=%s", t->list[i].text) < 0 ? -ENOMEM : 0;
		*to++ = text;
	}
	if (rc == 0) {
		*to++ = (char *)"--";
		memcpy(to, t->command, (size_t)t->n_command * sizeof(*to));
		execv("/proc/self/exe", argv);
		rc = -errno;
	}
	client_error("cannot run %s: %s", esc(t->command[0]), strerror(-rc));
	return STATUS_FAILED;
}

static int parse_assertion(struct client *c, const char *text, struct assertion *ret)
{
	struct reason why = { "" };

	return assertion_parse(text, ret, &why) < 0
		   ? client_usage(c, "'%s': %s", esc(text), why.text[0] ? why.text : "out of memory")
		   : 0;
}

static int add_assertion(struct asserting *t, const char *text)
{
	int rc;

	if (t->n == CMD_ASSERT_MAX)
		return client_usage(t->client, "at most %d assertions are accepted", CMD_ASSERT_MAX);
	rc = parse_assertion(t->client, text, &t->list[t->n]);
	t->n += rc == 0;
	return rc;
}

/* Sorts the arguments: one with a parenthesis is an assertion, another one names the trace. */
static int add_arguments(struct asserting *t)
{
	struct client *c = t->client;

	for (int i = 0; i < c->argc; i++) {
		int rc = 0;

		if (strchr(c->argv[i], '('))
			rc = add_assertion(t, c->argv[i]);
		else if (t->input || t->command)
			rc = client_usage(c, "'%s' is neither an assertion, such as 'p99(F) < 2ms', nor the only trace",
					  esc(c->argv[i]));
		else
			t->input = c->argv[i];
		if (rc != 0)
			return rc;
	}
	if (!t->n)
		return client_usage(c, "missing assertion, such as 'p99(F) < 2ms'");
	if (!t->input && !t->command)
		return client_usage(c, NAMED_STORE_MISSING ", or -- and a command");
	if (t->command && trace_options_given(&c->trace))
		return client_usage(c, "--images, --buffer and --regs apply to files, not to a command");
	if (t->ring_size && !t->command)
		return client_usage(c, "--ring-size has no effect without a command");
	return -1;
}

static int assert_parse(struct client *c, struct asserting *t)
{
	const char *value;
	int o;

	for (int i = 1; i < c->argc; i++)
		if (strcmp(c->argv[i], "--") == 0) {
			t->command = c->argv + i + 1;
			t->n_command = c->argc - i - 1;
			c->argc = i;
			c->argv[i] = NULL;
		}
	while ((o = client_option(c, &value)) >= 0)
		if (o == OPTION_NOMINAL)
			t->nominal = true;
		else
			t->ring_size = value;
	if (o == CLIENT_STOP)
		return c->status;
	if (t->command && !t->n_command)
		return client_usage(c, "missing command after --");
	return add_arguments(t);
}

static void asserting_done(struct asserting *t)
{
	for (size_t i = 0; i < t->n; i++)
		assertion_done(&t->list[i]);
	json_object_put(t->json);
	named_store_close(&t->store);
}

static int assert_run(struct client *c)
{
	_cleanup_(asserting_done) struct asserting t = { .client = c, .store = NAMED_STORE_NONE };
	int rc = assert_parse(c, &t);

	if (rc >= 0)
		return rc;
	if (t.command)
		return run_command(&t);
	rc = named_store_open(c, t.input, &t.store);
	return rc == STATUS_OK ? judge_all(&t) : rc;
}

int cmd_assert_check(struct client *c, const char *text)
{
	struct assertion a;
	int rc = parse_assertion(c, text, &a);

	if (rc == 0)
		assertion_done(&a);
	return rc;
}

int cmd_assert_snapshot(struct client *c, const char *const *texts, size_t n, bool nominal, const char *id)
{
	_cleanup_(asserting_done) struct asserting t = { .client = c, .nominal = nominal, .store = NAMED_STORE_NONE };
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = add_assertion(&t, texts[i]);
	if (rc == 0)
		rc = named_store_open(c, id, &t.store);
	return rc == 0 ? judge_all(&t) : rc;
}

const struct verb cmd_assert = {
	.name = "assert",
	.arguments = "ASSERTION... ID|FILE|-- COMMAND...",
	.summary = "check what functions do: 'p99(F) < 2ms', 'calls(G) == 1 per H'",
	.flags = VERB_SOCKET | VERB_JSON | VERB_QUIET | VERB_TRACE,
	.options = options,
	.run = assert_run,
};
