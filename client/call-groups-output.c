/* SPDX-License-Identifier: MIT */
#include "client/call-groups-output.h"

#include "client/format.h"
#include "client/text-table.h"

enum { DIFFERENCES_LISTED = 32 };

static const char *value_text(const struct call_groups *g, uint64_t value, uint64_t bound)
{
	return g->list->measure == MEASURE_INSTRUCTIONS ? format_count(value) : format_duration_within(value, bound);
}

static void add_share(struct text_table *t, uint64_t part, uint64_t whole)
{
	char text[32];

	snprintf(text, sizeof(text), "%.1f %%", whole ? 100.0 * (double)part / (double)whole : 0);
	text_table_add(t, STYLE_PLAIN, text);
}

/* Adds what distinguishes a group: how, and the function. */
static void add_description(struct text_table *t, const struct call_groups *g, const struct call_group *group,
			    const struct names *names)
{
	struct group_difference d;
	size_t n = group->mixed ? 0 : call_groups_compare(g, group, &d, 1);
	char rest[32] = "", how[64];

	if (!n) {
		text_table_add(t, STYLE_PLAIN, group->mixed ? "other shapes" : "usual");
		text_table_add(t, STYLE_PLAIN, "");
		return;
	}
	if (d.calls && d.usual_calls)
		snprintf(how, sizeof(how), "×%s, not ×%s", format_count(d.calls), format_count(d.usual_calls));
	if (n > 1)
		snprintf(rest, sizeof(rest), "; %zu more", n - 1);
	text_table_add(t, STYLE_PLAIN, !d.calls ? "without" : !d.usual_calls ? "with" : how);
	text_table_add_with(t, STYLE_PLAIN, names_short(names, store_function(g->list->store, d.function)->name), rest);
}

void call_groups_output_text(const struct call_groups *g, size_t n, uint64_t bound, const struct names *names, FILE *to)
{
	static const char *const head[] = { "CALLS>", "SHARE>", "TIME>", "MEDIAN>", "MAX>", "GROUP", "FUNCTION~" };
	static const char *const head_instructions[] = { "CALLS>", "SHARE>", "INSTR>",   "MEDIAN>",
							 "MAX>",   "GROUP",  "FUNCTION~" };
	_cleanup_(text_table_freep) struct text_table *t =
	    text_table_new(g->list->measure == MEASURE_TIME ? head : head_instructions, ELEMENTS(head));

	for (size_t i = 0; i < MIN(n, g->n); i++) {
		const struct call_group *group = &g->groups[i];

		text_table_add(t, STYLE_PLAIN, format_count(group->calls));
		add_share(t, group->calls, g->calls);
		add_share(t, group->value, g->value);
		text_table_add(t, STYLE_PLAIN,
			       value_text(g, histogram_nth(&group->values, (group->calls + 1) / 2), bound));
		text_table_add(t, STYLE_PLAIN, value_text(g, call_list_value(g->list, &group->slowest), bound));
		add_description(t, g, group, names);
	}
	text_table_print(t, to);
	if (n < g->n)
		fprintf(to, "%s more; --limit=0 shows all\n", format_plural(g->n - n, "group"));
}

static json_object *differences_json(const struct call_groups *g, const struct call_group *group)
{
	struct group_difference differences[DIFFERENCES_LISTED];
	size_t n = call_groups_compare(g, group, differences, DIFFERENCES_LISTED);
	json_object *list = json_object_new_array();

	for (size_t i = 0; i < MIN(n, (size_t)DIFFERENCES_LISTED); i++) {
		json_object *o = json_object_new_object();

		json_add_bytes(o, "function", store_function(g->list->store, differences[i].function)->name);
		json_add_u64(o, "calls", differences[i].calls);
		json_add_u64(o, "usual_calls", differences[i].usual_calls);
		json_array_add(list, o);
	}
	return list;
}

json_object *call_groups_output_json(const struct call_groups *g, size_t n)
{
	json_object *list = json_object_new_array();

	for (size_t i = 0; i < MIN(n, g->n); i++) {
		const struct call_group *group = &g->groups[i];
		json_object *o = json_object_new_object();

		json_add_u64(o, "calls", group->calls);
		json_add_u64(o, "total", group->value);
		json_add_u64(o, "median", histogram_nth(&group->values, (group->calls + 1) / 2));
		json_add_u64(o, "max", call_list_value(g->list, &group->slowest));
		json_add_u64(o, "max_at", group->slowest.enter);
		json_add_u64(o, "max_thread", store_thread(g->list->store, group->slowest.thread)->tid);
		json_add_bool(o, "usual", group == call_groups_usual(g));
		if (group->mixed)
			json_add_bool(o, "mixed", true);
		json_add(o, "differences", differences_json(g, group));
		json_array_add(list, o);
	}
	return list;
}
