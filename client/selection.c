/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "client/selection.h"
#include "lib/base/escape.h"

int selection_parse_duration(const char *text, uint64_t *ret)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = { { "", 1e9 }, { "s", 1e9 }, { "ms", 1e6 }, { "us", 1e3 }, { "ns", 1 } };
	char *end;
	double v;

	/* strtod() also accepts signs, blanks, hexadecimal and "inf". */
	if (strspn(text, "0123456789.") == 0)
		return -EINVAL;
	v = strtod(text, &end);
	for (size_t i = 0; i < ELEMENTS(units); i++) {
		if (strcmp(end, units[i].name) != 0)
			continue;
		v *= units[i].ns;
		if (v >= 1e18)
			return -EINVAL;
		*ret = (uint64_t)(v + 0.5);
		return 0;
	}
	return -EINVAL;
}

int selection_parse_time(const char *text, uint64_t first, uint64_t last, uint64_t *ret)
{
	int64_t absolute;
	uint64_t ns;
	int rc;

	if (*text == '@') {
		if (parse_i64(text + 1, 0, INT64_MAX, &absolute) < 0)
			return -EINVAL;
		*ret = (uint64_t)absolute;
		return 0;
	}
	rc = selection_parse_duration(text + (*text == '-'), &ns);
	if (rc == 0)
		*ret = *text != '-' ? first + ns : last > ns ? last - ns : 0;
	return rc;
}

static int find_thread(const struct store *s, const char *text, int64_t *ret)
{
	int64_t tid = -1;
	int found = 0;

	if (parse_i64(text, 0, INT32_MAX, &tid) < 0)
		tid = -1;
	for (size_t i = 0; i < store_threads(s); i++) {
		const struct store_thread *t = store_thread(s, i);

		if (tid >= 0 ? t->tid != tid : strcmp(t->name, text) != 0)
			continue;
		*ret = t->tid;
		found++;
	}
	return found == 0 ? -ENOENT : found > 1 && tid < 0 ? -EEXIST : 0;
}

int selection_apply(struct client *c, const struct selection *v, const struct store *s, struct export_options *o)
{
	uint64_t first = UINT64_MAX, last = 0;
	int64_t budget;
	int rc;

	for (size_t i = 0; i < store_threads(s); i++) {
		first = MIN(first, store_thread(s, i)->first);
		last = MAX(last, store_thread(s, i)->last);
	}
	if (first > last)
		first = last;
	if (v->since && selection_parse_time(v->since, first, last, &o->since) < 0)
		return client_usage(c, "--since: '%s' is not a time such as 1.5s, 20ms or -20ms", esc(v->since));
	if (v->until && selection_parse_time(v->until, first, last, &o->until) < 0)
		return client_usage(c, "--until: '%s' is not a time such as 1.5s, 20ms or -20ms", esc(v->until));
	if (v->budget) {
		if (parse_i64(v->budget, 0, INT64_MAX, &budget) < 0)
			return client_usage(c, "--budget: '%s' is not a number", esc(v->budget));
		o->budget = (uint64_t)budget;
	}
	if (!v->thread)
		return 0;
	rc = find_thread(s, v->thread, &o->tid);
	if (rc == 0)
		return 0;
	client_error(rc == -EEXIST ? "more than one thread has the name '%s'; select one by ID:"
				   : "no thread '%s' in this trace, only these:",
		     esc(v->thread));
	for (size_t i = 0; i < store_threads(s); i++)
		fprintf(stderr, "  %u  %s\n", store_thread(s, i)->tid, esc(store_thread(s, i)->name));
	return STATUS_NOT_FOUND;
}
