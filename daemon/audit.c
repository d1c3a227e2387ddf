/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

#include "daemon/audit.h"
#include "daemon/journal.h"
#include "daemon/workqueue.h"
#include "lib/base/buf.h"
#include "lib/base/escape.h"
#include "lib/base/log.h"

enum {
	FIELDS_MAX = 24,
	TEXT_SIZE = 3072,  /* of all fields of an event */
	WAITING_MAX = 256, /* events of one user that wait for the journal */
	WAITING_ALL = 2048,
	SUMS_MAX = 1024,
	INTERVAL_MS = 60000,
};

/* The catalog (systemd/csightd.catalog) explains each of these; they never change. */
#define ID_REFUSED "023126626f97476ca002dee69859d4f5"
#define ID_REFUSED_AGAIN "2207d2389ec44efe8abf5b78f3028c10"
#define ID_LOST "a3717910959048a782bcb39763d7d889"

static const struct {
	const char *name, *done;
	const char *id; /* NULL: no event, but for refusals */
	bool of_process;
} actions[AUDIT_ACTIONS] = {
	[AUDIT_LOOK] = { "look at", NULL, NULL },
	[AUDIT_CONNECT] = { "connect", NULL, NULL },
	[AUDIT_ARM] = { "arm", "armed", "0e2e790685df4731b1a145d4b760bf56", true },
	[AUDIT_DISARM] = { "disarm", "disarmed", "16ee0d011bcd4f299ea2a97b5fa87fa6", true },
	[AUDIT_TAKE] = { "take", "took", "e931b37022494cc19fc8ed992ffb3c8d" },
	[AUDIT_FOLLOW] = { "follow", "followed", "8f5d7092211a42faba70bc2488a64bfd", true },
	[AUDIT_OPEN] = { "open", "opened", "6678d672f28b4cafaa82a0de30739ef8" },
	[AUDIT_EXPORT] = { "export", "exported", "c5e260a1fa144ab69c49a4be31694bac" },
	[AUDIT_REMOVE] = { "remove", "removed", "f61f7d06bf3d450b940dbf44a0bc9569" },
	[AUDIT_KEEP] = { "keep", "kept", "5b0f7a4cd2e84e2c9d1c06f3b7a9e214" },
	[AUDIT_LET_GO] = { "keep no longer", "let go", "c3d9a1be5f7042a8b6e44d0f92c81e57" },
	[AUDIT_PAUSE] = { "pause", "paused all recording", "4d2c9d0f6a3b4f0e8f7a1c55d9be3a61" },
	[AUDIT_RESUME] = { "resume", "resumed all recording", "9b7e1f24c5d84a6fb0a3e8d16c2f7045" },
	[AUDIT_RELOAD] = { "reload", "reloaded the configuration", "a85c68160b2342469bfedbde0a024fc7" },
};

/* The kinds of sums. Those below LEDGER_KINDS are refusals by the limit of that ledger kind. */
enum sum_kind {
	SUM_RIGHT = LEDGER_KINDS, /* refusals for the lack of a right */
	SUM_LOST,                 /* events that were not recorded */
};

struct audit_sum {
	TAILQ_ENTRY(audit_sum) link;
	uid_t account;
	enum audit_action action;
	int kind;
	struct audit_actor by;     /* the last one */
	struct ledger_refusal why; /* the last one */
	unsigned count;            /* since the last event */
};

struct audit {
	struct audit_options o;
	struct workqueue *queue;
	struct event *timer;
	TAILQ_HEAD(, audit_event) waiting;
	TAILQ_HEAD(, audit_sum) sums;
	unsigned n_waiting, n_sums;
	unsigned unsummed; /* without room in sums */
};

/* An event. The fields point into text; the first one is MESSAGE. */
struct audit_event {
	struct work work;
	TAILQ_ENTRY(audit_event) link;
	struct audit *audit;
	uid_t account;
	int priority;
	struct iovec fields[FIELDS_MAX];
	size_t n_fields, used;
	char text[TEXT_SIZE];
};

static void add_field(struct audit_event *e, const char *fmt, ...) _printf_(2, 3);

/* Adds a field NAME=VALUE. A field that does not fit is cut. */
static void add_field(struct audit_event *e, const char *fmt, ...)
{
	size_t left = sizeof(e->text) - e->used;
	va_list args;
	int n;

	assert(e->n_fields < FIELDS_MAX);
	va_start(args, fmt);
	n = vsnprintf(e->text + e->used, left, fmt, args);
	va_end(args);
	if (n <= 0 || left < 2)
		return;
	e->fields[e->n_fields++] = (struct iovec){ e->text + e->used, MIN((size_t)n, left - 1) };
	e->used += MIN((size_t)n + 1, left);
}

/* Sends an event to the journal; logs it if that fails, or if the log is not in the journal. */
static void run_event(struct work *w)
{
	struct audit_event *e = container_of(w, struct audit_event, work);
	int rc = journal_send(e->fields, e->n_fields);

	if (rc < 0 || !log_in_journal())
		log_at(e->priority, "%s", e->text + strlen("MESSAGE="));
}

static void event_ran(struct work *w)
{
	struct audit_event *e = container_of(w, struct audit_event, work);

	TAILQ_REMOVE(&e->audit->waiting, e, link);
	e->audit->n_waiting--;
	free(e);
}

static bool may_wait(const struct audit *a, uid_t account)
{
	const struct audit_event *e;
	unsigned n = 0;

	TAILQ_FOREACH (e, &a->waiting, link)
		n += e->account == account;
	return n < WAITING_MAX && a->n_waiting < WAITING_ALL;
}

static struct audit_event *make_event(struct audit *a, int priority)
{
	struct audit_event *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->work = (struct work){ run_event, event_ran };
	e->audit = a;
	e->priority = priority;
	return e;
}

static void submit_event(struct audit_event *e, uid_t account)
{
	struct audit *a = e->audit;

	e->account = account;
	TAILQ_INSERT_TAIL(&a->waiting, e, link);
	a->n_waiting++;
	workqueue_submit(a->queue, &e->work);
}

static uid_t account_of(const struct audit_actor *by)
{
	return ledger_owner(by->audit->o.ledger, by->uid);
}

/* "uid 1000 (pid 77, login uid 1000)" */
static const char *actor_text(const struct audit_actor *by, char *ret, size_t size)
{
	if (by->pid == getpid())
		snprintf(ret, size, "csightd");
	else if (by->login_uid != (uid_t)-1)
		snprintf(ret, size, "uid %u (pid %d, login uid %u)", by->uid, (int)by->pid, by->login_uid);
	else
		snprintf(ret, size, "uid %u (pid %d)", by->uid, (int)by->pid);
	return ret;
}

/* " snapshot ID of process 77 (name) of uid 1000", or less of it; it begins with a space, or is empty. */
static const char *object_text(const struct audit_object *on, char *ret, size_t size)
{
	_cleanup_buf_ struct buf b = { .limit = size };

	if (on->snapshot)
		buf_printf(&b, " snapshot %s", esc(on->snapshot));
	if (on->pid)
		buf_printf(&b, "%s process %d", on->snapshot ? " of" : "", (int)on->pid);
	if (on->pid && on->name)
		buf_printf(&b, " (%s)", esc(on->name));
	if (on->pid && on->owner != (uid_t)-1)
		buf_printf(&b, " of uid %u", on->owner);
	if (on->trigger)
		buf_printf(&b, "%s by trigger \"%s\"", on->snapshot ? "," : "", esc(on->trigger));
	snprintf(ret, size, "%.*s", (int)b.size, b.size ? (const char *)b.data : "");
	return ret;
}

static void add_actor(struct audit_event *e, const struct audit_actor *by)
{
	add_field(e, "CSIGHT_UID=%u", by->uid);
	add_field(e, "CSIGHT_PID=%d", (int)by->pid);
	if (by->login_uid != (uid_t)-1)
		add_field(e, "CSIGHT_LOGINUID=%u", by->login_uid);
}

static void add_hit(struct audit_event *e, const struct audit_hit *hit)
{
	add_field(e, "CSIGHT_TRIGGER_ID=%lld", (long long)hit->id);
	if (hit->name)
		add_field(e, "CSIGHT_TRIGGER_NAME=%s", esc(hit->name));
	if (hit->timed)
		add_field(e, "CSIGHT_TRIGGER_VALUE=%llu", (unsigned long long)hit->value);
	if (hit->tid)
		add_field(e, "CSIGHT_TRIGGER_TID=%lld", (long long)hit->tid);
}

static void add_object(struct audit_event *e, enum audit_action action, const struct audit_object *on)
{
	/*
	 * With OBJECT_PID the journal adds fields about the process, which must run: that of a snapshot may have ended.
	 */
	if (actions[action].of_process && on->pid)
		add_field(e, "OBJECT_PID=%d", (int)on->pid);
	if (on->pid)
		add_field(e, "CSIGHT_TARGET_PID=%d", (int)on->pid);
	if (on->pid && on->owner != (uid_t)-1)
		add_field(e, "CSIGHT_TARGET_UID=%u", on->owner);
	if (on->pid && on->name)
		add_field(e, "CSIGHT_TARGET_NAME=%s", esc(on->name));
	if (on->snapshot)
		add_field(e, "CSIGHT_SNAPSHOT=%s", esc(on->snapshot));
	if (on->trigger)
		add_field(e, "CSIGHT_TRIGGER=%s", esc(on->trigger));
	if (on->hit)
		add_hit(e, on->hit);
	if (on->rule)
		add_field(e, "CSIGHT_RULE=%s", esc(on->rule));
	if (on->detail)
		add_field(e, "%s=%s", action == AUDIT_REMOVE ? "CSIGHT_LIMIT" : "CSIGHT_FILE", esc(on->detail));
}

/* Adds the fields of a refusal. kind: a ledger kind or one of enum sum_kind; why: of a refusal by a limit. */
static void add_refusal(struct audit_event *e, enum audit_action action, int kind, const struct ledger_refusal *why)
{
	add_field(e, "CSIGHT_ACTION=%s", actions[action].name);
	add_field(e, "CSIGHT_REFUSED=%s", kind == SUM_RIGHT ? "permission" : "limit");
	if (kind == SUM_RIGHT)
		return;
	add_field(e, "CSIGHT_LIMIT=%s", ledger_setting(why->kind, why->machine));
	add_field(e, "CSIGHT_LIMIT_VALUE=%llu", (unsigned long long)why->limit);
	add_field(e, "CSIGHT_LIMIT_USED=%llu", (unsigned long long)why->used);
	add_field(e, "CSIGHT_LIMIT_WANTED=%llu", (unsigned long long)why->wanted);
}

static void add_kind(struct audit_event *e, const char *id)
{
	add_field(e, "MESSAGE_ID=%s", id);
	add_field(e, "PRIORITY=%d", e->priority);
}

static const char *refusal_text(int kind, const struct ledger_refusal *why, struct reason *ret)
{
	if (kind == SUM_RIGHT)
		return "permission denied";
	ledger_explain(why, ret);
	return ret->text;
}

/* Records what was counted since the last event. */
static void submit_sum(struct audit *a, struct audit_sum *s)
{
	struct audit_event *e = make_event(a, s->kind == SUM_LOST ? LOG_WARNING : LOG_NOTICE);
	struct reason reason = { "" };
	char actor[128];

	if (!e)
		return;
	actor_text(&s->by, actor, sizeof(actor));
	if (s->kind == SUM_LOST)
		add_field(e, "MESSAGE=%u events \"%s\" of %s are not recorded: too many wait for the journal", s->count,
			  actions[s->action].name, actor);
	else
		add_field(e, "MESSAGE=refused %s %u more times within %u s to %s: %s", actor, s->count,
			  (a->o.interval_ms + 999) / 1000, actions[s->action].name,
			  refusal_text(s->kind, &s->why, &reason));
	add_kind(e, s->kind == SUM_LOST ? ID_LOST : ID_REFUSED_AGAIN);
	add_actor(e, &s->by);
	if (s->kind == SUM_LOST)
		add_field(e, "CSIGHT_ACTION=%s", actions[s->action].name);
	else
		add_refusal(e, s->action, s->kind, &s->why);
	add_field(e, "CSIGHT_COUNT=%u", s->count);
	s->count = 0;
	submit_event(e, 0);
}

static void submit_unsummed(struct audit *a)
{
	struct audit_event *e = make_event(a, LOG_WARNING);

	if (!e)
		return;
	add_field(e, "MESSAGE=%u refusals are not recorded: csightd keeps %d sums", a->unsummed, SUMS_MAX);
	add_kind(e, ID_LOST);
	add_field(e, "CSIGHT_COUNT=%u", a->unsummed);
	a->unsummed = 0;
	submit_event(e, 0);
}

/* Records all sums, and drops those that have counted nothing since the last call. */
static void flush_sums(struct audit *a)
{
	struct audit_sum *s, *next;

	for (s = TAILQ_FIRST(&a->sums); s; s = next) {
		next = TAILQ_NEXT(s, link);
		if (s->count) {
			submit_sum(a, s);
			continue;
		}
		TAILQ_REMOVE(&a->sums, s, link);
		a->n_sums--;
		free(s);
	}
	if (a->unsummed)
		submit_unsummed(a);
}

static void schedule_flush(struct audit *a)
{
	const struct timeval interval = { a->o.interval_ms / 1000, a->o.interval_ms % 1000 * 1000 };

	if (!event_pending(a->timer, EV_TIMEOUT, NULL))
		event_add(a->timer, &interval);
}

static void on_timer(evutil_socket_t fd, short what, void *data)
{
	struct audit *a = data;

	flush_sums(a);
	if (a->n_sums || a->unsummed)
		schedule_flush(a);
}

/* Returns the sum of a kind, which *ret_new says is new; NULL: there is no room for one. */
static struct audit_sum *sum_get(const struct audit_actor *by, enum audit_action action, int kind, bool *ret_new)
{
	struct audit *a = by->audit;
	uid_t account = account_of(by);
	struct audit_sum *s;

	*ret_new = false;
	TAILQ_FOREACH (s, &a->sums, link)
		if (s->account == account && s->action == action && s->kind == kind)
			return s;
	s = a->n_sums < SUMS_MAX ? calloc(1, sizeof(*s)) : NULL;
	if (!s)
		return NULL;
	*ret_new = true;
	s->account = account;
	s->action = action;
	s->kind = kind;
	TAILQ_INSERT_TAIL(&a->sums, s, link);
	a->n_sums++;
	return s;
}

/* Counts an occurrence. Returns true if it is the first one of an interval. */
static bool count_up(const struct audit_actor *by, enum audit_action action, int kind, const struct ledger_refusal *why)
{
	bool is_new;
	struct audit_sum *s = sum_get(by, action, kind, &is_new);

	schedule_flush(by->audit);
	if (!s) {
		by->audit->unsummed++;
		return false;
	}
	s->by = *by;
	if (why)
		s->why = *why;
	s->count += !is_new || kind == SUM_LOST;
	return is_new;
}

/* Returns NULL if the event is only counted. */
static struct audit_event *begin_event(const struct audit_actor *by, enum audit_action action, int priority)
{
	struct audit_event *e = may_wait(by->audit, account_of(by)) ? make_event(by->audit, priority) : NULL;

	if (!e)
		count_up(by, action, SUM_LOST, NULL);
	return e;
}

void audit_done(const struct audit_actor *by, enum audit_action action, const struct audit_object *on)
{
	char actor[128], object[512];
	struct audit_event *e;

	if (!by->audit || !(e = begin_event(by, action, LOG_INFO)))
		return;
	actor_text(by, actor, sizeof(actor));
	object_text(on, object, sizeof(object));
	if (on->detail && action == AUDIT_REMOVE)
		add_field(e, "MESSAGE=%s removed%s, to keep within %s", actor, object, esc(on->detail));
	else if (on->detail)
		add_field(e, "MESSAGE=%s %s %s of%s", actor, actions[action].done, esc(on->detail), object);
	else if (on->rule)
		add_field(e, "MESSAGE=%s %s the standing target %s", actor, actions[action].done, esc(on->rule));
	else
		add_field(e, "MESSAGE=%s %s%s", actor, actions[action].done, object);
	add_kind(e, actions[action].id);
	add_field(e, "CSIGHT_ACTION=%s", actions[action].name);
	add_actor(e, by);
	add_object(e, action, on);
	submit_event(e, account_of(by));
}

static void refuse(const struct audit_actor *by, enum audit_action action, const struct audit_object *on, int kind,
		   const struct ledger_refusal *why)
{
	struct reason reason = { "" };
	char actor[128], object[512];
	struct audit_event *e;

	if (by->audit && by->audit->o.counters)
		++*(kind == SUM_RIGHT ? &by->audit->o.counters->denied : &by->audit->o.counters->limits[kind]);
	if (!by->audit || !count_up(by, action, kind, why) || !(e = begin_event(by, action, LOG_NOTICE)))
		return;
	add_field(e, "MESSAGE=refused %s to %s%s: %s", actor_text(by, actor, sizeof(actor)), actions[action].name,
		  object_text(on, object, sizeof(object)), refusal_text(kind, why, &reason));
	add_kind(e, ID_REFUSED);
	add_actor(e, by);
	add_refusal(e, action, kind, why);
	add_object(e, action, on);
	submit_event(e, account_of(by));
}

void audit_deny(const struct audit_actor *by, enum audit_action action, const struct audit_object *on)
{
	refuse(by, action, on, SUM_RIGHT, NULL);
}

void audit_limit(const struct audit_actor *by, enum audit_action action, const struct audit_object *on,
		 const struct ledger_refusal *why)
{
	refuse(by, action, on, (int)why->kind, why);
}

struct audit_actor audit_self(struct audit *a)
{
	return (struct audit_actor){ .audit = a, .uid = getuid(), .pid = getpid(), .login_uid = (uid_t)-1 };
}

int audit_new(const struct audit_options *options, struct audit **ret)
{
	struct audit *a = calloc(1, sizeof(*a));
	int rc;

	if (!a)
		return -ENOMEM;
	a->o = *options;
	if (!a->o.interval_ms)
		a->o.interval_ms = INTERVAL_MS;
	TAILQ_INIT(&a->waiting);
	TAILQ_INIT(&a->sums);
	a->timer = evtimer_new(options->base, on_timer, a);
	rc = a->timer ? workqueue_new(options->base, "audit", 0, &a->queue) : -ENOMEM;
	if (rc < 0) {
		audit_free(a);
		return rc;
	}
	*ret = a;
	return 0;
}

struct audit *audit_free(struct audit *a)
{
	struct audit_sum *s;

	if (!a)
		return NULL;
	if (a->queue) {
		flush_sums(a);
		workqueue_stop(a->queue);
		workqueue_free(a->queue);
	}
	while ((s = TAILQ_FIRST(&a->sums))) {
		if (s->count)
			log_warning("%u events of uid %u are not recorded: out of memory", s->count, s->by.uid);
		TAILQ_REMOVE(&a->sums, s, link);
		free(s);
	}
	if (a->timer)
		event_free(a->timer);
	free(a);
	return NULL;
}
