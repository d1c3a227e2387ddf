/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <string.h>

#include "lib/base/duration.h"
#include "lib/base/escape.h"
#include "lib/base/parse.h"
#include "lib/trigger/trigger-spec.h"

enum { SIGNALS = 64, STATUS_MAX = 255, PERIOD_MIN = 100000000 /* ns */ };

enum value_kind {
	VALUE_NONE,
	VALUE_TEXT,
	VALUE_ADDRESS,
	VALUE_LINE,
	VALUE_SIGNAL,
	VALUE_STATUS,
	VALUE_TIME,
	VALUE_LENGTH,
	VALUE_COUNT,
	VALUE_GROUP
};

static const char all_events[] =
    "function, address, line, syscall, off-cpu-longer-than, signal, crash, exit, exit-status, oom or period";

static const char *const groups[] = { [TRIGGER_TREE] = "tree", [TRIGGER_CGROUP] = "cgroup", [TRIGGER_UNIT] = "unit" };

static const struct {
	const char *name;
	enum trigger_event event; /* TRIGGER_NONE: a rule, longer-than, within, or or, or and */
	enum value_kind kind;
} keys[] = {
	{ "function", TRIGGER_FUNCTION, VALUE_TEXT },
	{ "address", TRIGGER_ADDRESS, VALUE_ADDRESS },
	{ "line", TRIGGER_LINE, VALUE_LINE },
	{ "syscall", TRIGGER_SYSCALL, VALUE_TEXT },
	{ "off-cpu-longer-than", TRIGGER_OFF_CPU, VALUE_LENGTH },
	{ "signal", TRIGGER_SIGNAL, VALUE_SIGNAL },
	{ "crash", TRIGGER_CRASH, VALUE_NONE },
	{ "exit", TRIGGER_EXIT, VALUE_NONE },
	{ "exit-status", TRIGGER_EXIT_STATUS, VALUE_STATUS },
	{ "oom", TRIGGER_OOM, VALUE_NONE },
	{ "period", TRIGGER_PERIOD, VALUE_TIME },
	{ "longer-than", TRIGGER_NONE, VALUE_LENGTH },
	{ "or", TRIGGER_NONE, VALUE_NONE },
	{ "and", TRIGGER_NONE, VALUE_NONE },
	{ "within", TRIGGER_NONE, VALUE_TIME },
	{ "once", TRIGGER_NONE, VALUE_NONE },
	{ "max", TRIGGER_NONE, VALUE_COUNT },
	{ "every", TRIGGER_NONE, VALUE_TIME },
	{ "after", TRIGGER_NONE, VALUE_TIME },
	{ "min-history", TRIGGER_NONE, VALUE_TIME },
	{ "keep", TRIGGER_NONE, VALUE_COUNT },
	{ "group", TRIGGER_NONE, VALUE_GROUP },
	{ "exec", TRIGGER_NONE, VALUE_TEXT },
};

static int find_key(const char *name)
{
	for (size_t i = 0; i < ELEMENTS(keys); i++)
		if (strcmp(keys[i].name, name) == 0)
			return (int)i;
	return -1;
}

bool trigger_key_has_value(const char *key)
{
	int k = find_key(key);

	return k >= 0 && keys[k].kind != VALUE_NONE;
}

static const char *event_name(enum trigger_event event)
{
	for (size_t i = 0; i < ELEMENTS(keys); i++)
		if (keys[i].event == event)
			return keys[i].name;
	return "";
}

/* Parses SIGUSR1, USR1 or 10. */
static int parse_signal(const char *text, uint64_t *ret)
{
	const char *name = strncmp(text, "SIG", 3) == 0 ? text + 3 : text;

	if (parse_u64(text, SIGNALS, ret) == 0)
		return *ret ? 0 : -EINVAL;
	for (int n = 1; n <= SIGNALS; n++) {
		const char *is = sigabbrev_np(n);

		if (is && strcmp(is, name) == 0) {
			*ret = (uint64_t)n;
			return 0;
		}
	}
	return -EINVAL;
}

static int parse_line(const char *text)
{
	const char *colon = strrchr(text, ':');
	uint64_t line;

	return colon && colon > text && parse_u64(colon + 1, UINT32_MAX, &line) == 0 && line ? 0 : -EINVAL;
}

static int parse_group(const char *text, uint64_t *ret)
{
	for (size_t i = TRIGGER_TREE; i < ELEMENTS(groups); i++)
		if (strcmp(groups[i], text) == 0) {
			*ret = i;
			return 0;
		}
	return -EINVAL;
}

static int parse_length(const char *text, uint64_t *ret)
{
	uint64_t ns;
	int rc = 0;

	if (strcmp(text, "p99") == 0)
		ns = TRIGGER_P99;
	else
		rc = duration_parse(text, &ns);
	if (rc == 0)
		*ret = ns;
	return rc;
}

static int parse_value(enum value_kind kind, const char *value, uint64_t *ret)
{
	switch (kind) {
	case VALUE_ADDRESS:
		return parse_u64(value, UINT64_MAX, ret);
	case VALUE_LINE:
		return parse_line(value);
	case VALUE_SIGNAL:
		return parse_signal(value, ret);
	case VALUE_STATUS:
		return parse_u64(value, STATUS_MAX, ret);
	case VALUE_TIME:
		return duration_parse(value, ret);
	case VALUE_LENGTH:
		return parse_length(value, ret);
	case VALUE_COUNT:
		return parse_u64(value, UINT32_MAX, ret);
	case VALUE_GROUP:
		return parse_group(value, ret);
	default:
		return *value ? 0 : -EINVAL;
	}
}

static int refuse_value(const char *key, enum value_kind kind, const char *value, struct reason *why)
{
	static const char *const wanted[] = {
		[VALUE_TEXT] = "is empty or too long",
		[VALUE_ADDRESS] = "is no address; write it as 0x4005f0",
		[VALUE_LINE] = "is no FILE:LINE",
		[VALUE_SIGNAL] = "is no signal",
		[VALUE_STATUS] = "is no exit status from 0 to 255",
		[VALUE_TIME] = "is no time; write it as 5ms, with ns, us, ms, s, m or h",
		[VALUE_LENGTH] = "is no time; write it as 5ms, with ns, us, ms, s, m or h, or as p99",
		[VALUE_COUNT] = "is no number",
		[VALUE_GROUP] = "is no kind of group: tree, cgroup or unit",
	};

	return reason_set(why, -EINVAL, "%s: \"%s\" %s", key, esc(value), wanted[kind]);
}

/* Returns the condition to which keys apply. */
static struct trigger_condition *last_condition(struct trigger_spec *s)
{
	return &s->conditions[s->joins];
}

/* Sets the limit, ns or TRIGGER_P99, or replaces it. -EINVAL: off-cpu-longer-than has set it. */
static int set_limit(struct trigger_condition *c, uint64_t limit, struct reason *why)
{
	if (c->event == TRIGGER_OFF_CPU && c->timed)
		return reason_set(why, -EINVAL, "longer-than does not go with off-cpu-longer-than, which is a limit");
	c->timed = true;
	c->longer_than = limit;
	return 0;
}

static int set_event(struct trigger_spec *s, enum trigger_event event, const char *value, uint64_t number,
		     struct reason *why)
{
	struct trigger_condition *c = last_condition(s);

	if (c->event != TRIGGER_NONE)
		return reason_set(why, -EINVAL, "%s and %s: between two events of a trigger must be or, or and",
				  event_name(c->event), event_name(event));
	if (value && strlen(value) >= sizeof(c->value))
		return refuse_value(event_name(event), VALUE_TEXT, value, why);
	c->event = event;
	if (event == TRIGGER_OFF_CPU)
		return set_limit(c, number, why);
	c->number = number;
	strcpy(c->value, value ? value : "");
	return 0;
}

/* Begins the next condition. */
static int set_join(struct trigger_spec *s, const char *key, struct reason *why)
{
	bool all = strcmp(key, "and") == 0;

	if (last_condition(s)->event == TRIGGER_NONE)
		return reason_set(why, -EINVAL, "%s needs an event before it: %s", key, all_events);
	if (trigger_spec_count(s) == TRIGGER_CONDITIONS_MAX)
		return reason_set(why, -EINVAL, "%s: a trigger has at most %d events", key, TRIGGER_CONDITIONS_MAX);
	if (s->joins && s->all != all)
		return reason_set(why, -EINVAL, "or and and: between the events of a trigger is one of them, not both");
	s->all = all;
	s->joins++;
	return 0;
}

static int set_exec(struct trigger_spec *s, const char *command, struct reason *why)
{
	size_t n = strlen(command);

	if (n >= sizeof(s->exec))
		return refuse_value("exec", VALUE_TEXT, command, why);
	/* Nothing of an earlier one stays: specs are compared as bytes. */
	memset(s->exec, 0, sizeof(s->exec));
	memcpy(s->exec, command, n);
	return 0;
}

static void set_rule(struct trigger_spec *s, const char *key, uint64_t number)
{
	if (strcmp(key, "within") == 0) {
		s->within = number;
	} else if (strcmp(key, "once") == 0 || strcmp(key, "max") == 0) {
		s->limited = true;
		s->max = strcmp(key, "once") == 0 ? 1 : number;
	} else if (strcmp(key, "every") == 0) {
		s->every = number;
	} else if (strcmp(key, "after") == 0) {
		s->after = number;
	} else if (strcmp(key, "min-history") == 0) {
		s->min_history = number;
	} else if (strcmp(key, "group") == 0) {
		s->group = (enum trigger_group)number;
	} else {
		s->keep = (unsigned)number;
	}
}

int trigger_spec_set(struct trigger_spec *s, const char *key, const char *value, struct reason *why)
{
	int k = find_key(key);
	uint64_t number = 0;

	if (k < 0)
		return reason_set(why, -EINVAL, "\"%s\" is neither an event nor a rule of a trigger", esc(key));
	if (keys[k].kind == VALUE_NONE && value && *value)
		return reason_set(why, -EINVAL, "%s has no value, but \"%s\" was given", key, esc(value));
	if (keys[k].kind != VALUE_NONE && !value)
		return reason_set(why, -EINVAL, "%s lacks its value", key);
	/* csight(1) writes worst=N, csightd.conf(5) and texts of triggers may as well. */
	if (strcmp(key, "keep") == 0 && strncmp(value, "worst=", 6) == 0)
		value += 6;
	if (keys[k].kind != VALUE_NONE && parse_value(keys[k].kind, value, &number) < 0)
		return refuse_value(key, keys[k].kind, value, why);
	if (keys[k].event != TRIGGER_NONE)
		return set_event(s, keys[k].event, keys[k].kind == VALUE_NONE ? NULL : value, number, why);
	if (strcmp(key, "or") == 0 || strcmp(key, "and") == 0)
		return set_join(s, key, why);
	if (strcmp(key, "longer-than") == 0)
		return set_limit(last_condition(s), number, why);
	if (strcmp(key, "within") == 0 && number == 0)
		return reason_set(why, -EINVAL, "within: \"%s\" is no time in which several hits fit", esc(value));
	if (strcmp(key, "keep") == 0 && (number == 0 || number > TRIGGER_KEEP_MAX))
		return reason_set(why, -EINVAL, "keep: \"%s\" is not a number from 1 to %d", esc(value),
				  TRIGGER_KEEP_MAX);
	if (strcmp(key, "exec") == 0)
		return set_exec(s, value, why);
	set_rule(s, key, number);
	return 0;
}

static int check_condition(const struct trigger_condition *c, struct reason *why)
{
	if (c->timed && c->event != TRIGGER_FUNCTION && c->event != TRIGGER_SYSCALL && c->event != TRIGGER_OFF_CPU)
		return reason_set(why, -EINVAL, "longer-than is for function and syscall; %s takes no time",
				  event_name(c->event));
	if (c->event == TRIGGER_SYSCALL && !c->timed)
		return reason_set(why, -EINVAL, "syscall needs longer-than, which may be 0");
	if (c->event == TRIGGER_PERIOD && c->number < PERIOD_MIN)
		return reason_set(why, -EINVAL, "period: \"%s\" is less than 100ms", esc(c->value));
	return 0;
}

static bool is_same_event(const struct trigger_condition *a, const struct trigger_condition *b)
{
	if (a->event == TRIGGER_PERIOD)
		return b->event == TRIGGER_PERIOD;
	return a->event == b->event && a->number == b->number &&
	       (a->event == TRIGGER_SIGNAL || strcmp(a->value, b->value) == 0);
}

/* Two conditions of one event would count each of its hits twice. A trigger has one period. */
static int check_distinct(const struct trigger_spec *s, struct reason *why)
{
	for (unsigned i = 0; i < trigger_spec_count(s); i++)
		for (unsigned k = 0; k < i; k++)
			if (is_same_event(&s->conditions[i], &s->conditions[k]))
				return reason_set(why, -EINVAL, "%s%s%s is there twice",
						  event_name(s->conditions[i].event),
						  *s->conditions[i].value ? " " : "", esc(s->conditions[i].value));
	return 0;
}

/*
 * Checks the conditions that the key "and" joins. The end of a process is none of them: csightd learns of the end
 * afterwards, so that the time between it and the other hits would be a guess.
 */
static int check_all(const struct trigger_spec *s, struct reason *why)
{
	if (s->within && !s->all)
		return reason_set(why, -EINVAL, "within is for several events with and between them");
	if (!s->all)
		return 0;
	if (!s->within)
		return reason_set(why, -EINVAL,
				  "and needs within, the time in which all events have a hit: within 5ms");
	for (unsigned i = 0; i < trigger_spec_count(s); i++) {
		if (s->conditions[i].event == TRIGGER_PERIOD)
			return reason_set(why, -EINVAL, "period has no part in and: it is no event of the process");
		if (trigger_condition_of_end(&s->conditions[i]))
			return reason_set(why, -EINVAL,
					  "%s: the end of a process has no part in and, since its time is known too "
					  "late; signal has the time of a signal that ends it",
					  event_name(s->conditions[i].event));
	}
	return 0;
}

int trigger_spec_check(const struct trigger_spec *s, struct reason *why)
{
	int rc = 0;

	if (s->conditions[0].event == TRIGGER_NONE)
		return reason_set(why, -EINVAL, "a trigger needs an event: %s", all_events);
	if (s->conditions[s->joins].event == TRIGGER_NONE)
		return reason_set(why, -EINVAL, "%s needs an event after it: %s", s->all ? "and" : "or", all_events);
	for (unsigned i = 0; i < trigger_spec_count(s) && rc == 0; i++) {
		rc = check_condition(&s->conditions[i], why);
		if (rc == 0 && s->keep && !s->conditions[i].timed)
			rc = reason_set(
			    why, -EINVAL,
			    "keep is for events with a limit (longer-than): it keeps those of the longest durations");
	}
	if (rc == 0 && s->keep && s->group != TRIGGER_ALONE)
		rc = reason_set(why, -EINVAL,
				"keep and group exclude each other: a group has several snapshots for each hit");
	if (rc == 0)
		rc = check_all(s, why);
	return rc < 0 ? rc : check_distinct(s, why);
}

/* Copies the next word of a text to ret and advances the text. Returns false at its end. -EINVAL in *rc. */
static bool next_word(const char **text, char *ret, size_t size, int *rc)
{
	const char *s = *text + strspn(*text, " \t");
	bool quoted = *s == '"';
	size_t n = 0;

	if (!*s)
		return false;
	for (s += quoted; *s && (quoted ? *s != '"' : *s != ' ' && *s != '\t'); s++) {
		if (quoted && *s == '\\' && s[1])
			s++;
		if (n + 1 < size)
			ret[n] = *s;
		n++;
	}
	if (n >= size || (quoted && *s != '"'))
		*rc = -EINVAL;
	ret[MIN(n, size - 1)] = 0;
	*text = s + (quoted && *s);
	return *rc == 0;
}

int trigger_spec_parse(const char *text, struct trigger_spec *ret, struct reason *why)
{
	char key[32], value[TRIGGER_VALUE_SIZE];
	struct trigger_spec s = { 0 };
	int rc = 0;

	while (rc == 0 && next_word(&text, key, sizeof(key), &rc)) {
		bool more = trigger_key_has_value(key) && next_word(&text, value, sizeof(value), &rc);

		if (rc == 0)
			rc = trigger_spec_set(&s, key, more ? value : NULL, why);
		if (rc < 0 && why && why->text[0])
			return rc;
	}
	if (rc < 0)
		return reason_set(why, rc, "a word of the trigger is too long, or lacks its closing quote");
	rc = trigger_spec_check(&s, why);
	if (rc == 0)
		*ret = s;
	return rc;
}

static void put_value(struct buf *b, const char *key, const char *value)
{
	bool plain = *value && !value[strcspn(value, " \t\"\\")];

	buf_printf(b, "%s%s", b->size && b->data[b->size - 1] ? " " : "", key);
	if (plain)
		buf_printf(b, " %s", value);
	if (plain || !*value)
		return;
	buf_printf(b, " \"");
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			buf_u8(b, '\\');
		buf_u8(b, (uint8_t)*value);
	}
	buf_u8(b, '"');
}

static void put_time(struct buf *b, const char *key, uint64_t ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = { { "h", 3600000000000u }, { "m", 60000000000u }, { "s", 1000000000 },
		      { "ms", 1000000 },       { "us", 1000 },        { "ns", 1 } };
	char text[32];
	size_t i = 0;

	while (i + 1 < ELEMENTS(units) && (ns == 0 || ns % units[i].ns))
		i++;
	snprintf(text, sizeof(text), "%llu%s", (unsigned long long)(ns / units[i].ns), units[i].name);
	put_value(b, key, text);
}

static void put_number(struct buf *b, const char *key, uint64_t n)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
	put_value(b, key, text);
}

static void put_condition(struct buf *b, const struct trigger_condition *c)
{
	const char *limit = c->event == TRIGGER_OFF_CPU ? event_name(c->event) : "longer-than";

	if (c->event != TRIGGER_OFF_CPU)
		put_value(b, event_name(c->event), c->value);
	if (c->timed && c->longer_than == TRIGGER_P99)
		put_value(b, limit, "p99");
	else if (c->timed)
		put_time(b, limit, c->longer_than);
}

void trigger_condition_text(const struct trigger_condition *c, struct buf *ret)
{
	put_condition(ret, c);
	buf_u8(ret, 0);
}

void trigger_spec_append_text(const struct trigger_spec *s, struct buf *ret)
{
	for (unsigned i = 0; i < trigger_spec_count(s); i++) {
		if (i)
			put_value(ret, s->all ? "and" : "or", "");
		put_condition(ret, &s->conditions[i]);
	}
	if (s->all)
		put_time(ret, "within", s->within);
	buf_u8(ret, 0);
}

void trigger_spec_rules(const struct trigger_spec *s, struct buf *ret)
{
	if (s->limited && s->max == 1)
		put_value(ret, "once", "");
	else if (s->limited)
		put_number(ret, "max", s->max);
	if (s->every)
		put_time(ret, "every", s->every);
	if (s->after)
		put_time(ret, "after", s->after);
	if (s->min_history)
		put_time(ret, "min-history", s->min_history);
	if (s->keep)
		put_number(ret, "keep", s->keep);
	if (s->group != TRIGGER_ALONE)
		put_value(ret, "group", groups[s->group]);
	if (s->exec[0])
		put_value(ret, "exec", s->exec);
	buf_u8(ret, 0);
}
