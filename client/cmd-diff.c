/* csight diff. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "client/format.h"
#include "client/stored.h"
#include "lib/base/escape.h"
#include "lib/base/json.h"

enum { OPTION_LIMIT, OPTION_FUNCTION };
enum { LIMIT = 40 };

static const struct verb_option options[] = {
	[OPTION_LIMIT] = { "limit", 'n', "N", "only the N functions that changed most, 40 unless told; 0: all" },
	[OPTION_FUNCTION] = { "function", 'f', "NAME", "only functions of this name; * and ? stand for any letters" },
	{ 0 },
};

/* What functions of one name and file come to; they may have been loaded at several places. */
struct side {
	uint64_t calls, total_ns, self_ns, longest_ns, whole, median_ns;
};

struct pair {
	const char *name, *image;
	struct side side[2];
};

struct diff {
	const char *function;
	int64_t limit;
	struct stored stored[2];
	struct pair *list;
	size_t n;
};

static const char *file_of(const char *image)
{
	const char *last = strrchr(image, '/');

	return last ? last + 1 : image;
}

static int compare_names(const void *left, const void *right)
{
	const struct pair *a = left, *b = right;
	int order = strcmp(a->name, b->name);

	return order ? order : strcmp(a->image, b->image);
}

static uint64_t change(const struct pair *p)
{
	uint64_t a = p->side[0].self_ns, b = p->side[1].self_ns;

	return a > b ? a - b : b - a;
}

static int compare_changes(const void *left, const void *right)
{
	uint64_t a = change(left), b = change(right);

	return a == b ? compare_names(left, right) : a < b ? 1 : -1;
}

static void add_side(struct side *to, const struct side *from)
{
	/* The median of many places is that of the place most called. */
	if (from->whole > to->whole)
		to->median_ns = from->median_ns;
	to->calls += from->calls;
	to->total_ns += from->total_ns;
	to->self_ns += from->self_ns;
	to->whole += from->whole;
	to->longest_ns = MAX(to->longest_ns, from->longest_ns);
}

static void collect(struct diff *d, unsigned which)
{
	const struct store *s = d->stored[which].store;

	for (size_t i = 0; i < store_functions(s); i++) {
		const struct store_function *f = store_function(s, i);
		struct pair *p = &d->list[d->n];

		if (!f->calls || (d->function && !stored_name_is(f->name, d->function)))
			continue;
		*p = (struct pair){ .name = f->name, .image = file_of(f->image) };
		p->side[which] =
		    (struct side){ f->calls, f->total_ns, f->self_ns, f->longest_ns, f->whole, f->median_ns };
		d->n++;
	}
}

/* Both sides' functions, by name and file. */
static int compare(struct diff *d)
{
	size_t n = 0;

	d->list =
	    calloc(store_functions(d->stored[0].store) + store_functions(d->stored[1].store) + 1, sizeof(*d->list));
	if (!d->list) {
		client_error("not enough memory");
		return STATUS_FAILED;
	}
	collect(d, 0);
	collect(d, 1);
	qsort(d->list, d->n, sizeof(*d->list), compare_names);
	for (size_t i = 0; i < d->n; i++) {
		if (n && compare_names(&d->list[n - 1], &d->list[i]) == 0) {
			add_side(&d->list[n - 1].side[0], &d->list[i].side[0]);
			add_side(&d->list[n - 1].side[1], &d->list[i].side[1]);
		} else {
			d->list[n++] = d->list[i];
		}
	}
	d->n = n;
	qsort(d->list, d->n, sizeof(*d->list), compare_changes);
	if (d->n || !d->function)
		return STATUS_OK;
	client_error("no function '%s' ran in either of them", esc(d->function));
	return STATUS_NOT_FOUND;
}

static const char *what(const struct pair *p)
{
	if (!p->side[0].calls)
		return "new";
	if (!p->side[1].calls)
		return "gone";
	return p->side[1].self_ns > p->side[0].self_ns   ? "slower"
	       : p->side[1].self_ns < p->side[0].self_ns ? "faster"
							 : "same";
}

static void cell_time(struct table *t, bool there, uint64_t ns)
{
	table_cell(t, MARK_NONE, there ? format_duration(ns) : "-");
}

static void add_pair(struct table *t, const struct pair *p)
{
	const struct side *a = &p->side[0], *b = &p->side[1];
	char text[64];

	table_cell(t, strcmp(what(p), "slower") == 0 || strcmp(what(p), "new") == 0 ? MARK_BAD : MARK_NONE, what(p));
	snprintf(text, sizeof(text), "%c%s", b->self_ns < a->self_ns ? '-' : '+', format_duration(change(p)));
	table_cell(t, MARK_NONE, text);
	cell_time(t, a->calls, a->self_ns);
	cell_time(t, b->calls, b->self_ns);
	cell_time(t, a->whole, a->median_ns);
	cell_time(t, b->whole, b->median_ns);
	table_cell(t, MARK_NONE, format_count(a->calls));
	table_cell(t, MARK_NONE, format_count(b->calls));
	table_cell(t, MARK_NONE, p->name);
	table_cell(t, MARK_NONE, p->image);
}

static json_object *side_json(const struct side *s)
{
	json_object *o = json_object_new_object();

	json_add_u64(o, "calls", s->calls);
	json_add_u64(o, "total", s->total_ns);
	json_add_u64(o, "self", s->self_ns);
	json_add_u64(o, "max", s->longest_ns);
	if (s->whole)
		json_add_u64(o, "median", s->median_ns);
	return o;
}

static void print_json(const struct diff *d, size_t n)
{
	_cleanup_json_ json_object *all = json_object_new_object();
	json_object *list = json_object_new_array();

	for (size_t i = 0; i < n; i++) {
		const struct pair *p = &d->list[i];
		json_object *o = json_object_new_object();

		json_add_bytes(o, "name", p->name);
		json_add_bytes(o, "image", p->image);
		json_add_str(o, "what", what(p));
		json_object_object_add(o, "a", side_json(&p->side[0]));
		json_object_object_add(o, "b", side_json(&p->side[1]));
		json_object_array_add(list, o);
	}
	json_object_object_add(all, "functions", list);
	printf("%s\n", json_object_to_json_string_ext(all, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
}

static void print(struct client *c, const struct diff *d)
{
	static const char *const head[] = { "WHAT",      "SELF>",    "SELF A>",  "SELF B>",  "MEDIAN A>",
					    "MEDIAN B>", "CALLS A>", "CALLS B>", "FUNCTION", "IMAGE" };
	_cleanup_(table_freep) struct table *t = NULL;
	size_t n = d->limit ? MIN(d->n, (size_t)d->limit) : d->n;

	if (c->json) {
		print_json(d, n);
		return;
	}
	t = table_new(head, ELEMENTS(head));
	for (size_t i = 0; i < n; i++)
		add_pair(t, &d->list[i]);
	table_print(t, stdout);
	if (n < d->n)
		printf("%s more, which changed less; --limit=0 shows all\n", format_plural(d->n - n, "function"));
}

static int parse(struct client *c, struct diff *d)
{
	const char *value;
	int o;

	while ((o = client_option(c, &value)) >= 0) {
		if (o == OPTION_FUNCTION)
			d->function = value;
		else if (parse_number(value, 0, INT32_MAX, &d->limit) < 0)
			return client_usage(c, "--limit: '%s' is no number", esc(value));
	}
	if (o == CLIENT_STOP)
		return c->status;
	if (c->argc != 2)
		return client_usage(c, "two snapshots: their ids or files");
	return -1;
}

static void diff_done(struct diff *d)
{
	free(d->list);
	stored_done(&d->stored[0]);
	stored_done(&d->stored[1]);
}

static int run(struct client *c)
{
	_cleanup_(diff_done) struct diff d = { .limit = LIMIT, .stored = { STORED_NONE, STORED_NONE } };
	int rc = parse(c, &d);

	if (rc >= 0)
		return rc;
	rc = stored_open(c, c->argv[0], &d.stored[0]);
	if (rc == 0)
		rc = stored_open(c, c->argv[1], &d.stored[1]);
	if (rc == 0)
		rc = compare(&d);
	if (rc == 0)
		print(c, &d);
	return rc;
}

const struct verb cmd_diff = {
	.name = "diff",
	.arguments = STORED_ARGUMENT " " STORED_ARGUMENT,
	.summary = "what got slower between two snapshots, what is new, what is gone",
	.flags = VERB_SOCKET | VERB_JSON,
	.options = options,
	.run = run,
};
