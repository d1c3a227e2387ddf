/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/accounts.h"
#include "daemon/standing/standing-sections.h"
#include "daemon/standing/standing.h"
#include "lib/base/array.h"
#include "lib/base/escape.h"
#include "lib/base/log.h"
#include "lib/base/parse.h"

static const char PREFIX[] = "Target ";

bool standing_sections_have(const char *section)
{
	return strncmp(section, PREFIX, strlen(PREFIX)) == 0;
}

/* Returns the section of this name, which is added if there is none; NULL: no memory. */
static struct standing_section *find_or_add_section(struct standing_sections *s, const char *name)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->list[i].name, name) == 0)
			return &s->list[i];
	if (array_reserve(s->list, s->n, &s->room) < 0)
		return NULL;
	s->list[s->n] = (struct standing_section){ .name = strdup(name) };
	return s->list[s->n].name ? &s->list[s->n++] : NULL;
}

static int set_user(struct standing_rule *r, const char *value, struct reason *why)
{
	int rc = accounts_find_user(value, &r->user);

	r->has_user = true;
	/* If csightd starts all the same, the section is of no process. */
	if (rc < 0)
		r->user = ACCOUNTS_NO_UID;
	if (rc == -ESRCH)
		return reason_set(why, rc, "there is no user \"%s\"", esc(value));
	return rc < 0 ? reason_set(why, rc, "cannot look up \"%s\": %s", esc(value), strerror(-rc)) : 0;
}

/* True if the user of the section was not found: the section selects no process. */
static bool is_without_user(const struct standing_section *s)
{
	return s->rule.has_user && s->rule.user == ACCOUNTS_NO_UID;
}

static int set_text(char **to, const char *value)
{
	free(*to);
	*to = strdup(value);
	return *to ? 0 : -ENOMEM;
}

static int set_flag(bool *to, const struct ini_entry *e, struct reason *why)
{
	*to = strcmp(e->value, "yes") == 0;
	return *to || strcmp(e->value, "no") == 0
		   ? 0
		   : reason_set(why, -EINVAL, "%s must be yes or no, not \"%s\"", e->key, esc(e->value));
}

static int set_cpus(char **to, const char *value, struct reason *why)
{
	return capture_cpus_check(value) < 0
		   ? reason_set(why, -EINVAL, "cpus must be a list such as 0-3,5, not \"%s\"", esc(value))
		   : set_text(to, value);
}

static int set_ring_size(uint64_t *to, const char *value, struct reason *why)
{
	if (parse_size(value, to) == 0 && *to >= EMU_RING_SIZE_MIN && *to <= EMU_RING_SIZE_MAX &&
	    (*to & (*to - 1)) == 0)
		return 0;
	return reason_set(why, -EINVAL, "ring-size must be a power of two from 64K to 1G, not \"%s\"", esc(value));
}

static int set_number(uint64_t *to, const struct ini_entry *e, uint64_t max, struct reason *why)
{
	return parse_u64(e->value, max, to) == 0 && *to
		   ? 0
		   : reason_set(why, -EINVAL, "%s must be a number from 1 to %llu, not \"%s\"", e->key,
				(unsigned long long)max, esc(e->value));
}

static int set_timestamp_interval(uint64_t *to, const struct ini_entry *e, struct reason *why)
{
	int rc = set_number(to, e, CAPTURE_TIMESTAMP_INTERVAL_MAX, why);

	if (rc == 0 && *to & (*to - 1))
		return reason_set(why, -EINVAL, "timestamp-interval must be a power of two, not \"%s\"", esc(e->value));
	return rc;
}

static int set_return_stack(bool *no, const struct ini_entry *e, struct reason *why)
{
	int rc = set_flag(no, e, why);

	*no = !*no;
	return rc;
}

int standing_sections_set(struct standing_sections *s, const struct ini_entry *e, struct reason *why)
{
	struct standing_section *t = find_or_add_section(s, e->section + strlen(PREFIX));

	if (!t)
		return reason_set(why, -ENOMEM, "out of memory");
	const struct {
		const char *key;
		char **text;
		bool *flag;
	} keys[] = {
		{ .key = "name", .text = &t->rule.name },
		{ .key = "exe", .text = &t->rule.exe },
		{ .key = "unit", .text = &t->rule.unit },
		{ .key = "cgroup", .text = &t->rule.cgroup },
		{ .key = "filter", .text = (char **)&t->options.filter },
		{ .key = "sink", .text = (char **)&t->options.sink },
		{ .key = "counters", .text = (char **)&t->options.counters },
		{ .key = "kernel", .flag = &t->options.kernel },
		{ .key = "cycles", .flag = &t->options.cycles },
		{ .key = "no-timestamps", .flag = &t->options.no_timestamps },
		{ .key = "no-contexts", .flag = &t->options.no_contexts },
		{ .key = "branch-broadcast", .flag = &t->options.branch_broadcast },
	};

	for (size_t i = 0; i < ELEMENTS(keys); i++)
		if (strcmp(e->key, keys[i].key) == 0)
			return keys[i].text ? set_text(keys[i].text, e->value) : set_flag(keys[i].flag, e, why);
	if (strcmp(e->key, "cpus") == 0)
		return set_cpus((char **)&t->options.cpus, e->value, why);
	if (strcmp(e->key, "user") == 0)
		return set_user(&t->rule, e->value, why);
	if (strcmp(e->key, "ring-size") == 0)
		return set_ring_size(&t->options.ring_size, e->value, why);
	if (strcmp(e->key, "retstack") == 0)
		return set_return_stack(&t->options.no_return_stack, e, why);
	if (strcmp(e->key, "cycle-threshold") == 0)
		return set_number(&t->options.cycle_threshold, e, CAPTURE_CYCLE_THRESHOLD_MAX, why);
	if (strcmp(e->key, "timestamp-interval") == 0)
		return set_timestamp_interval(&t->options.timestamp_interval, e, why);
	if (strcmp(e->key, "mode") == 0)
		return capture_mode_parse(e->value, &t->options.mode) == 0
			   ? 0
			   : reason_set(why, -EINVAL, "mode is neither ring nor fill");
	if (strcmp(e->key, "tree") == 0)
		return reason_set(why, -EINVAL, "tree names a process that runs; set it with csight arm --tree");
	return reason_set(why, -EINVAL, "\"%s\" is no option of a standing target", esc(e->key));
}

int standing_sections_check(const struct standing_sections *s, struct reason *why)
{
	for (size_t i = 0; i < s->n; i++) {
		struct reason inner = { "" };

		if (standing_rule_check(&s->list[i].rule, &inner) < 0)
			return reason_set(why, -EINVAL, "[Target %s]: %s", esc(s->list[i].name), inner.text);
		for (size_t j = 0; j < i; j++)
			if (!is_without_user(&s->list[i]) && standing_rule_equal(&s->list[i].rule, &s->list[j].rule))
				return reason_set(why, -EINVAL, "[Target %s]: [Target %s] selects the same processes",
						  esc(s->list[i].name), esc(s->list[j].name));
	}
	return 0;
}

static bool section_equal(const struct standing_section *a, const struct standing_section *b)
{
	return strcmp(a->name, b->name) == 0 && standing_rule_equal(&a->rule, &b->rule) &&
	       standing_options_equal(&a->options, &b->options);
}

bool standing_sections_equal(const struct standing_sections *a, const struct standing_sections *b)
{
	for (size_t i = 0; i < a->n && i < b->n; i++)
		if (!section_equal(&a->list[i], &b->list[i]))
			return false;
	return a->n == b->n;
}

void standing_sections_done(struct standing_sections *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->list[i].name);
		standing_rule_done(&s->list[i].rule);
		capture_options_done(&s->list[i].options);
	}
	free(s->list);
	*s = (struct standing_sections){ .list = NULL };
}

static bool is_rule_of(const struct standing *s, const struct standing_section *section)
{
	return s->section && strcmp(s->section, section->name) == 0 && standing_rule_equal(&s->rule, &section->rule) &&
	       standing_options_equal(&s->options, &section->options);
}

static bool is_current(const struct standing_sections *sections, const struct standing *s)
{
	for (size_t i = 0; i < sections->n; i++)
		if (is_rule_of(s, &sections->list[i]))
			return true;
	return false;
}

static bool is_set(const struct standing_list *all, const struct standing_section *section)
{
	const struct standing *s;

	TAILQ_FOREACH (s, standing_list_all(all), link)
		if (is_rule_of(s, section))
			return true;
	return false;
}

void standing_sections_apply(const struct standing_sections *sections, struct standing_list *all, struct audit *audit)
{
	const struct audit_actor by = audit_self(audit);
	struct standing *s, *next;

	for (s = TAILQ_FIRST(standing_list_all(all)); s; s = next) {
		next = TAILQ_NEXT(s, link);
		if (s->section && !is_current(sections, s))
			standing_remove(s);
	}
	for (size_t i = 0; i < sections->n; i++) {
		const struct standing_section *section = &sections->list[i];
		const struct standing_request request = {
			.rule = section->rule, .options = section->options, .by = &by, .section = section->name
		};
		struct ledger_refusal limit = { 0 };
		struct reason why = { "" };
		int rc;

		if (is_without_user(section) || is_set(all, section))
			continue;
		rc = standing_add(all, &request, &s, &why, &limit);
		if (rc == -EDQUOT)
			ledger_explain(&limit, &why);
		if (rc < 0)
			log_warning("cannot set [Target %s]: %s", esc(section->name),
				    *why.text ? why.text : strerror(-rc));
	}
}
