/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "daemon/subscriptions.h"

#include "daemon/policy.h"
#include "daemon/service.h"
#include "daemon/spool.h"
#include "daemon/wire.h"

static json_object *new_event(const char *kind)
{
	json_object *o = json_object_new_object();

	json_add_str(o, "event", kind);
	return o;
}

/* Sends an event to the subscribers that may see it. Consumes it. others: also to those who may see other users'. */
static void publish(struct daemon *d, uid_t uid, bool others, json_object *event)
{
	_cleanup_buf_ struct buf b = { .limit = VARLINK_REPLY_MAX };
	struct call *c, *next;

	/* If memory is short, no subscriber gets the event. */
	if (event && !json_is_incomplete(event))
		varlink_put_reply(&b, event, true);
	json_object_put(event);
	if (buf_error(&b) < 0 || !b.size)
		return;
	for (c = TAILQ_FIRST(&d->subscribers); c; c = next) {
		next = TAILQ_NEXT(c, link);
		if (c->by.uid != uid && !(others && policy_owns(c->by.uid, uid)))
			continue;
		if (call_event(c, &b) < 0)
			call_error(c, wire_error_str(WIRE_TOO_SLOW), NULL);
	}
}

void subscriptions_add(struct daemon *d, struct call *c)
{
	_cleanup_buf_ struct buf b = { .limit = VARLINK_REPLY_MAX };
	_cleanup_json_ json_object *first = NULL;

	if (!c->more) {
		call_error(c, VARLINK_EXPECTED_MORE, NULL);
		return;
	}
	if (d->ending) {
		call_error(c, wire_error_str(WIRE_ENDING), wire_error_of_ending(NULL));
		return;
	}
	first = new_event("subscribed");
	varlink_put_reply(&b, first, true);
	if (buf_error(&b) < 0 || call_event(c, &b) < 0)
		call_error(c, wire_error_str(WIRE_TOO_SLOW), NULL);
	else
		call_wait(c, &d->subscribers, NULL);
}

void subscriptions_update(struct daemon *d)
{
	struct call *c, *next;

	for (c = TAILQ_FIRST(&d->subscribers); c; c = next) {
		next = TAILQ_NEXT(c, link);
		if (service_denies(d->service, c->connection))
			call_error(c, VARLINK_PERMISSION_DENIED, NULL);
	}
}

void subscriptions_end(struct daemon *d)
{
	struct call *c;

	while ((c = TAILQ_FIRST(&d->subscribers)))
		call_error(c, wire_error_str(WIRE_ENDING), wire_error_of_ending(NULL));
}

void subscriptions_target(void *data, struct target *t, enum target_change change)
{
	struct daemon *d = data;
	json_object *o;

	if (TAILQ_EMPTY(&d->subscribers) || change == TARGET_DISARMED)
		return;
	o = new_event(change == TARGET_ARMED ? "armed" : "ended");
	json_add(o, "target", wire_target(t));
	publish(d, t->owner, true, o);
}

void subscriptions_snapshot(struct daemon *d, const struct snapshot *s)
{
	json_object *o;

	if (TAILQ_EMPTY(&d->subscribers))
		return;
	o = new_event("snapshot");
	json_add(o, "snapshot", wire_snapshot_in_list(s, spool_path(d->spool)));
	publish(d, s->owner, true, o);
}

void subscriptions_refused(struct daemon *d, uid_t caller, pid_t pid, const char *reason)
{
	json_object *o;

	if (TAILQ_EMPTY(&d->subscribers))
		return;
	o = new_event("refused");
	json_add_i64(o, "pid", pid);
	json_add_bytes(o, "reason", reason ? reason : "");
	publish(d, caller, false, o);
}
