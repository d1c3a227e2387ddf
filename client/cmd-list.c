/* SPDX-License-Identifier: MIT */
/* csight list. */
#include <inttypes.h>
#include <pwd.h>
#include <string.h>

#include "client/client.h"
#include "client/format.h"
#include "client/text-table.h"
#include "lib/base/escape.h"

enum { OPTION_REASON, OPTION_LABEL, OPTION_OWNER, OPTION_KEPT };

static const struct verb_option options[] = {
	[OPTION_REASON] = { "reason", 0, "TEXT", "only those whose reason contains TEXT" },
	[OPTION_LABEL] = { "label", 0, "NAME[=VALUE]", "only those with this label; repeatable" },
	[OPTION_OWNER] = { "owner", 0, "USER", "only those of this user, a name or number" },
	[OPTION_KEPT] = { "kept", 0, NULL, "only those that are kept" },
	{ 0 },
};

struct list_filter {
	const char *reason, *labels[CLIENT_LABELS_MAX];
	size_t n_labels;
	bool kept, has_owner;
	uid_t owner;
};

static int find_owner(struct client *c, const char *name, struct list_filter *ret)
{
	const struct passwd *user = getpwnam(name);
	int64_t uid;

	ret->has_owner = true;
	if (user)
		ret->owner = user->pw_uid;
	else if (parse_i64(name, 0, UINT32_MAX - 1, &uid) == 0)
		ret->owner = (uid_t)uid;
	else
		return client_usage(c, "--owner: there is no user '%s'", esc(name));
	return STATUS_OK;
}

static int parse_list(struct client *c, struct list_filter *ret)
{
	const char *value;
	int o, rc = 0;

	while (rc == 0 && (o = client_option(c, &value)) >= 0)
		switch (o) {
		case OPTION_REASON:
			ret->reason = value;
			break;
		case OPTION_LABEL:
			if (ret->n_labels == CLIENT_LABELS_MAX)
				rc = client_usage(c, "at most %d labels are accepted", CLIENT_LABELS_MAX);
			else
				ret->labels[ret->n_labels++] = value;
			break;
		case OPTION_OWNER:
			rc = find_owner(c, value, ret);
			break;
		case OPTION_KEPT:
			ret->kept = true;
			break;
		}
	if (rc != 0)
		return rc;
	if (o == CLIENT_STOP)
		return c->status;
	return c->argc ? client_usage(c, "unexpected argument '%s'", esc(c->argv[0])) : -1;
}

/* Returns true if a snapshot has the label. wanted: NAME or NAME=VALUE. */
static bool has_label(const struct csight_object *s, const char *wanted)
{
	const char *equal = strchr(wanted, '=');
	size_t n = equal ? (size_t)(equal - wanted) : strlen(wanted);

	for (size_t i = 0; i < csight_count(s, "labels"); i++) {
		const struct csight_object *label = csight_item(s, "labels", i);
		const char *name = csight_text(label, "name"), *value = csight_text(label, "value");

		if (name && value && strlen(name) == n && memcmp(name, wanted, n) == 0 &&
		    (!equal || strcmp(value, equal + 1) == 0))
			return true;
	}
	return false;
}

/* Returns the user who may read a snapshot. */
static int64_t owner_of(const struct csight_object *s)
{
	return csight_number(s, "owner", csight_number(s, "uid", -1));
}

/* Returns a new text: the reason of a snapshot from its caller, or the trigger; NULL if it has none. */
static char *reason_of(const struct csight_object *s)
{
	const char *why = csight_text(s, "why"), *condition = csight_text(csight_field(s, "trigger"), "condition");
	char *text = NULL;

	if (why)
		return strdup(why);
	return condition && asprintf(&text, "trigger: %s", condition) >= 0 ? text : NULL;
}

static bool matches(const struct csight_object *s, const struct list_filter *f)
{
	_cleanup_free_ char *reason = f->reason ? reason_of(s) : NULL;

	if ((f->reason && (!reason || !strstr(reason, f->reason))) || (f->kept && !csight_flag(s, "kept")) ||
	    (f->has_owner && owner_of(s) != (int64_t)f->owner))
		return false;
	for (size_t i = 0; i < f->n_labels; i++)
		if (!has_label(s, f->labels[i]))
			return false;
	return true;
}

static void add_owner(struct text_table *t, const struct csight_object *s)
{
	int64_t uid = owner_of(s);
	const struct passwd *user = uid >= 0 ? getpwuid((uid_t)uid) : NULL;
	char text[32];

	snprintf(text, sizeof(text), "%" PRId64, uid);
	text_table_add(t, STYLE_PLAIN, user ? user->pw_name : text);
}

static void add_snapshot_row(struct text_table *t, const struct csight_object *s, bool owners)
{
	const char *state = csight_text(s, "state");
	const struct csight_object *ended = csight_field(s, "ended");
	enum format_style style = STYLE_PLAIN;
	_cleanup_free_ char *reason = reason_of(s);
	char text[64];

	if (state && strcmp(state, "raw") == 0)
		style = STYLE_BAD;
	else if (state && strcmp(state, "ready") == 0)
		style = STYLE_GOOD;
	text_table_add(t, STYLE_PLAIN, csight_text(s, "id"));
	if (owners)
		add_owner(t, s);
	text_table_add(t, STYLE_PLAIN, format_time((uint64_t)csight_number(s, "time", 0)));
	snprintf(text, sizeof(text), "%" PRId64, csight_number(s, "pid", 0));
	text_table_add(t, STYLE_PLAIN, text);
	text_table_add(t, STYLE_PLAIN, csight_text(s, "name"));
	snprintf(text, sizeof(text), "%s%s", state ? state : "?", csight_flag(s, "kept") ? " kept" : "");
	text_table_add(t, style, text);
	text_table_add(t, STYLE_PLAIN, format_count((uint64_t)csight_number(s, "threads", 0)));
	text_table_add(t, STYLE_PLAIN, format_size((uint64_t)csight_number(s, "size", 0)));
	text_table_add(t, csight_text(ended, "signal") ? STYLE_BAD : STYLE_PLAIN,
		       csight_text(ended, "text") ? csight_text(ended, "text") : "-");
	text_table_add(t, STYLE_PLAIN, reason ? reason : "");
}

static void print_reasons(const struct csight_object *list, const struct list_filter *f)
{
	for (size_t i = 0; i < csight_count(list, "snapshots"); i++) {
		const struct csight_object *s = csight_item(list, "snapshots", i);
		const char *reason = csight_text(s, "reason");

		if (reason && matches(s, f))
			printf("%s: %s\n", esc(csight_text(s, "id")), esc(reason));
	}
}

static void print_table(const struct csight_object *list, const struct list_filter *f)
{
	static const char *const own[] = { "ID",        "TIME<7", "PID>5",  "NAME~",   "STATE",
					   "THREADS>9", "SIZE>8", "ENDED~", "REASON~?" };
	static const char *const all[] = { "ID",    "OWNER",     "TIME<7", "PID>5",  "NAME~",
					   "STATE", "THREADS>9", "SIZE>8", "ENDED~", "REASON~?" };
	_cleanup_(text_table_freep) struct text_table *t = NULL;
	bool owners = getuid() == 0;

	t = owners ? text_table_new(all, ELEMENTS(all)) : text_table_new(own, ELEMENTS(own));
	for (size_t i = 0; i < csight_count(list, "snapshots"); i++)
		if (matches(csight_item(list, "snapshots", i), f))
			add_snapshot_row(t, csight_item(list, "snapshots", i), owners);
	text_table_print(t, stdout);
	print_reasons(list, f);
}

static void print_json(const struct csight_object *list, const struct list_filter *f)
{
	bool first = true;

	/* The parts are valid JSON each. */
	printf("{\"snapshots\":[");
	for (size_t i = 0; i < csight_count(list, "snapshots"); i++) {
		const struct csight_object *s = csight_item(list, "snapshots", i);

		if (!matches(s, f))
			continue;
		printf("%s%s", first ? "" : ",", csight_json(s) ? csight_json(s) : "null");
		first = false;
	}
	printf("]}\n");
}

static size_t count_matches(const struct csight_object *list, const struct list_filter *f)
{
	size_t n = 0;

	for (size_t i = 0; i < csight_count(list, "snapshots"); i++)
		n += matches(csight_item(list, "snapshots", i), f);
	return n;
}

static int list_run(struct client *c)
{
	_cleanup_object_ struct csight_object *list = NULL;
	struct list_filter filter = { 0 };
	int rc = parse_list(c, &filter);

	if (rc >= 0)
		return rc;
	rc = client_connect(c);
	if (rc != 0)
		return rc;
	rc = client_list(c, &list);
	if (rc != 0)
		return rc;
	if (c->json) {
		print_json(list, &filter);
	} else if (!csight_count(list, "snapshots")) {
		fprintf(stderr, "no snapshots; take one with 'csight snapshot --pid N'\n");
	} else if (!count_matches(list, &filter)) {
		fprintf(stderr, "none of the snapshots matches; 'csight list' shows all\n");
	} else {
		client_page(c);
		print_table(list, &filter);
	}
	return STATUS_OK;
}

const struct verb cmd_list = {
	.name = "list",
	.arguments = "",
	.summary = "list the snapshots, oldest first",
	.flags = VERB_SOCKET | VERB_JSON | VERB_PAGER,
	.options = options,
	.run = list_run,
};
