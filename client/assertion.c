/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/assertion.h"
#include "lib/base/duration.h"
#include "lib/base/escape.h"
#include "lib/base/parse.h"
#include "lib/base/util.h"

static const struct {
	const char *text;
	enum assertion_operator op;
} operators[] = {
	{ "<=", AT_MOST }, { "<", LESS }, { ">=", AT_LEAST }, { ">", MORE }, { "==", EQUAL }, { "!=", UNEQUAL },
};

static const char *skip_blanks(const char *s)
{
	return s + strspn(s, " \t");
}

/* Copies a text without the blanks at its end. */
static char *copy_trimmed(const char *s, size_t n)
{
	while (n && isspace((unsigned char)s[n - 1]))
		n--;
	return strndup(s, n);
}

/* Parses METRIC(FUNCTION) and advances the text. The function's own parentheses are balanced. */
static int parse_subject(struct assertion *a, const char **text, struct reason *why)
{
	const char *s = skip_blanks(*text), *open = strchr(s, '('), *end;
	unsigned depth = 0;
	char name[32];

	for (end = open; end && *end; end++) {
		depth += *end == '(';
		if (*end == ')' && --depth == 0)
			break;
	}
	if (!open || !*end || end == open + 1)
		return reason_set(why, -EINVAL, "it does not begin as calls(FUNCTION) does");
	snprintf(name, sizeof(name), "%.*s", (int)(open - s), s);
	if (!measure_find(name, &a->metric))
		return reason_set(why, -EINVAL, "there is no metric \"%s\", only %s", esc(name), MEASURE_METRICS);
	open = skip_blanks(open + 1);
	a->function = copy_trimmed(open, (size_t)(end - open));
	*text = skip_blanks(end + 1);
	return a->function ? 0 : -ENOMEM;
}

/* Parses N% of TRACE. */
static int parse_within(struct assertion *a, const char *text, struct reason *why)
{
	char *end;
	double percent = strtod(text, &end);
	const char *s = skip_blanks(end + (*end == '%'));

	if (end == text || *end != '%' || !(percent >= 0 && percent <= 1000) || strncmp(s, "of", 2) != 0 ||
	    (s[2] != ' ' && s[2] != '\t') || !*skip_blanks(s + 2))
		return reason_set(why, -EINVAL,
				  "\"within\" is not followed by a percentage and a trace: within 2%% of ID");
	s = skip_blanks(s + 2);
	a->op = WITHIN;
	a->tolerance = percent / 100;
	a->base = copy_trimmed(s, strlen(s));
	return a->base ? 0 : -ENOMEM;
}

/* Parses VALUE [per CALLER]. */
static int parse_limit(struct assertion *a, const char *text, struct reason *why)
{
	const char *per = strstr(text, " per ");
	_cleanup_free_ char *value = copy_trimmed(text, per ? (size_t)(per - text) : strlen(text));
	bool time = measure_is_time(a->metric);

	if (!value)
		return -ENOMEM;
	if ((time ? duration_parse(value, &a->value) : parse_u64(value, UINT64_MAX - 1, &a->value)) < 0)
		return reason_set(why, -EINVAL,
				  time ? "\"%s\" is no time; write it as 2ms, with ns, us, ms, s, m or h"
				       : "\"%s\" is no number",
				  esc(value));
	if (!per)
		return 0;
	per = skip_blanks(per + strlen(" per "));
	if (!*per || !measure_is_sum(a->metric))
		return reason_set(why, -EINVAL, "per FUNCTION follows calls, instructions and total only");
	a->per = copy_trimmed(per, strlen(per));
	return a->per ? 0 : -ENOMEM;
}

int assertion_parse(const char *text, struct assertion *ret, struct reason *why)
{
	struct assertion a = { .text = text };
	int rc = parse_subject(&a, &text, why);
	size_t i = 0;

	while (rc == 0 && i < ELEMENTS(operators) && strncmp(text, operators[i].text, strlen(operators[i].text)) != 0)
		i++;
	if (rc == 0 && strncmp(text, "within ", 7) == 0) {
		rc = parse_within(&a, skip_blanks(text + 7), why);
	} else if (rc == 0 && i < ELEMENTS(operators)) {
		a.op = operators[i].op;
		rc = parse_limit(&a, skip_blanks(text + strlen(operators[i].text)), why);
	} else if (rc == 0) {
		rc = reason_set(why, -EINVAL,
				"\"%s\" is neither a comparison (< <= > >= == !=) nor \"within N%% of TRACE\"",
				esc(text));
	}
	if (rc < 0)
		assertion_done(&a);
	else
		*ret = a;
	return rc;
}

void assertion_done(struct assertion *a)
{
	free(a->function);
	free(a->base);
	free(a->per);
	*a = (struct assertion){ .text = NULL };
}

/* Returns the verdict on an assertion that holds for all possible values (always) or for none (never). */
static enum assertion_verdict verdict_of(bool always, bool never)
{
	return always ? ASSERTION_HOLDS : never ? ASSERTION_FAILS : ASSERTION_UNKNOWN;
}

static enum assertion_verdict invert(enum assertion_verdict v)
{
	return v == ASSERTION_UNKNOWN ? v : v == ASSERTION_HOLDS ? ASSERTION_FAILS : ASSERTION_HOLDS;
}

static enum assertion_verdict judge_within(const struct assertion *a, const struct measure *is,
					   const struct measure *base)
{
	long double low = is->low, high = is->high, least = base->low, most = base->high;
	long double up = 1 + (long double)a->tolerance, down = 1 - (long double)a->tolerance;

	if (base->unknown)
		return ASSERTION_UNKNOWN;
	/* A limit without bound is infinite. */
	if (is->high == UINT64_MAX || base->high == UINT64_MAX)
		return verdict_of(false, (base->high != UINT64_MAX && low > most * up) ||
					     (is->high != UINT64_MAX && high < least * down));
	return verdict_of(high <= least * up && low >= most * down, low > most * up || high < least * down);
}

enum assertion_verdict assertion_judge(const struct assertion *a, const struct measure *is, const struct measure *base)
{
	uint64_t v = a->value;

	if (is->unknown)
		return ASSERTION_UNKNOWN;
	switch (a->op) {
	case LESS:
		return verdict_of(is->high < v, is->low >= v);
	case AT_MOST:
		return verdict_of(is->high <= v, is->low > v);
	case MORE:
		return invert(verdict_of(is->high <= v, is->low > v));
	case AT_LEAST:
		return invert(verdict_of(is->high < v, is->low >= v));
	case EQUAL:
	case UNEQUAL:
		v = verdict_of(is->low == v && is->high == v, is->low > v || is->high < v);
		return a->op == EQUAL ? (enum assertion_verdict)v : invert((enum assertion_verdict)v);
	default:
		return judge_within(a, is, base);
	}
}
