/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "daemon/daemon.h"
#include "daemon/failure.h"
#include "daemon/group.h"
#include "daemon/methods-internal.h"
#include "daemon/request.h"
#include "daemon/service.h"
#include "daemon/spool.h"
#include "daemon/state.h"
#include "daemon/subscriptions.h"
#include "daemon/tail.h"
#include "daemon/target-adopt.h"
#include "daemon/wire.h"

struct audit_object methods_object_of_snapshot(const struct snapshot *s)
{
	return (struct audit_object){ .pid = s->pid, .owner = s->owner, .name = s->name, .snapshot = s->id };
}

static struct audit_object object_of_process(pid_t pid, const struct target *t)
{
	return (struct audit_object){ .pid = pid, .owner = t ? t->owner : (uid_t)-1, .name = t ? t->name : NULL };
}

static struct audit_object object_of(const struct methods_subject *s)
{
	return s->snapshot ? methods_object_of_snapshot(s->snapshot) : object_of_process(s->pid, s->target);
}

void methods_deny(struct call *c, const struct methods_subject *s)
{
	const struct audit_object on = object_of(s);

	audit_deny(&c->by, s->action, &on);
	call_error(c, VARLINK_PERMISSION_DENIED, NULL);
}

static void fail_limit(struct call *c, const struct methods_subject *s, const struct ledger_refusal *why)
{
	const struct audit_object on = object_of(s);

	audit_limit(&c->by, s->action, &on, why);
	call_error(c, wire_error_str(WIRE_LIMIT_REACHED), wire_error_of_limit(why));
}

/*
 * Makes a target of a process, unless it is one: then its options must agree with those of the call. Returns false
 * after an error reply.
 */
static bool must_be_target(struct daemon *d, struct call *c, struct methods_subject *s,
			   const struct capture_options *options)
{
	struct target_adoption adoption = { .units = d->units,
					    .targets = d->targets,
					    .settings = &d->settings,
					    .pid = s->pid,
					    .caller = c->by.uid,
					    .options = options };
	struct ledger_refusal why = { 0 };
	struct reason reason = { "" };
	int rc;

	if (s->target && s->target->ring.state != RING_GONE &&
	    s->target->ring.source->ops->check(s->target->ring.source, options, &reason) < 0) {
		failure_process(c, WIRE_OPTION_REFUSED, s->pid, reason.text);
		return false;
	}
	if (state_paused(d->state) && (!s->target || s->target->ring.state == RING_DISARMED)) {
		failure_process(c, WIRE_CANNOT_TRACE, s->pid, CAPTURE_PAUSED);
		return false;
	}
	if (s->target)
		return true;
	rc = target_adopt(&adoption, &s->target, &reason, &why);
	if (rc == -EACCES || rc == -EPERM) {
		const struct audit_object on = object_of(s);

		audit_deny(&c->by, s->action, &on);
	}
	if (rc == -EDQUOT)
		fail_limit(c, s, &why);
	else if (rc == -ESRCH)
		failure_process(c, WIRE_NO_SUCH_PROCESS, s->pid, NULL);
	else if (rc < 0)
		failure_process(c, WIRE_CANNOT_TRACE, s->pid, reason.text[0] ? reason.text : strerror(-rc));
	return rc == 0;
}

static void reply_change(struct target *t, int rc, struct call *c, bool arm)
{
	const struct audit_object on = object_of_process(t->pid, t);
	json_object *o;

	if (rc == 0)
		audit_done(&c->by, arm ? AUDIT_ARM : AUDIT_DISARM, &on);
	if (rc == -ESRCH) {
		failure_process(c, WIRE_NO_SUCH_PROCESS, t->pid, NULL);
	} else if (rc < 0) {
		_cleanup_buf_ struct buf trouble = { .limit = CAPTURE_MISSING_MAX };

		target_trouble(t, &trouble);
		failure_process(c, rc == -EINVAL ? WIRE_NOT_ARMED : WIRE_CANNOT_TRACE, t->pid,
				rc == -EBUSY   ? "too many operations wait for this process"
				: trouble.size ? (const char *)trouble.data
					       : strerror(-rc));
	} else if (arm) {
		o = json_object_new_object();
		json_add(o, "target", wire_target(t));
		call_reply(c, o);
	} else {
		call_reply_empty(c);
	}
}

static void on_armed(struct target *t, int rc, void *data)
{
	reply_change(t, rc, data, true);
}

static void on_disarmed(struct target *t, int rc, void *data)
{
	reply_change(t, rc, data, false);
}

/* Reads an optional parameter; an absent or null one leaves *ret unchanged. Returns false after an error reply. */
static bool get_flag(struct call *c, json_object *from, const char *name, bool *ret)
{
	if (json_get_bool(from, name, ret) != -EINVAL)
		return true;
	call_invalid(c, name);
	return false;
}

static bool get_options(struct call *c, struct capture_options *ret)
{
	json_object *o = NULL;
	const char *bad = "options";
	int rc = json_get(c->parameters, bad, json_type_object, &o);

	if (rc == 0)
		rc = wire_read_options(o, ret, &bad);
	if (rc == -EINVAL)
		call_invalid(c, bad);
	return rc != -EINVAL;
}

void methods_arm(struct daemon *d, struct call *c, struct methods_subject *s)
{
	const struct audit_object on = object_of(s);
	struct capture_options options = { 0 };

	if (!get_options(c, &options))
		return;
	if (options.kernel && !settings_permit_kernel(&d->settings, c->by.uid)) {
		audit_deny(&c->by, s->action, &on);
		failure_process(c, WIRE_OPTION_REFUSED, s->pid,
				"kernel: only root and kernel-users may trace execution in the kernel");
	} else if (must_be_target(d, c, s, &options)) {
		target_requested(s->target, c->by.uid);
		state_changed(d->state);
		target_arm(s->target, on_armed, c);
	}
}

void methods_disarm(struct daemon *d, struct call *c, struct methods_subject *s)
{
	if (!s->target || s->target->ring.state == RING_DISARMED)
		failure_process(c, WIRE_NOT_ARMED, s->pid, NULL);
	else
		target_disarm(s->target, on_disarmed, c);
}

/* A call of the method Snapshot, while its request runs. */
struct snapshot_call {
	struct daemon *daemon;
	struct call *call; /* NULL: a recording has begun, and the call has its reply */
	struct audit_actor by;
	pid_t pid;
	bool no_wait;
	bool arms; /* the process is being armed for it */
	bool group;
};

/* A request that arms its process leaves it armed, whatever becomes of the snapshot. */
static void report_arming(struct snapshot_call *sc)
{
	const struct target *t = sc->arms ? target_list_find(sc->daemon->targets, sc->pid, sc->by.uid) : NULL;

	if (t && (t->ring.state == RING_ARMED || t->ring.state == RING_FROZEN)) {
		const struct audit_object on = object_of_process(sc->pid, t);

		audit_done(&sc->by, AUDIT_ARM, &on);
	}
	sc->arms = false;
}

static void on_request_phase(void *data, const char *phase)
{
	struct snapshot_call *sc = data;

	report_arming(sc);
	sc->arms = strcmp(phase, "arming") == 0;
	if (sc->call)
		call_progress(sc->call, wire_phase(phase));
}

static void on_recording(void *data, const struct snapshot *s)
{
	struct snapshot_call *sc = data;

	report_arming(sc);
	if (sc->call && sc->no_wait)
		call_reply(TAKE_PTR(sc->call), wire_snapshot_reply(s, spool_path(sc->daemon->spool)));
	else if (sc->call)
		call_progress(sc->call, wire_recording(s, spool_path(sc->daemon->spool)));
}

static void report_refusal(const struct snapshot_call *sc, enum request_result result, const char *why,
			   const struct ledger_refusal *limit)
{
	struct reason reason = { "" };

	if (result == REQUEST_DONE)
		return;
	if (result == REQUEST_OVER_LIMIT)
		ledger_explain(limit, &reason);
	subscriptions_refused(sc->daemon, sc->by.uid, sc->pid,
			      result == REQUEST_OVER_LIMIT  ? reason.text
			      : result == REQUEST_NOT_ARMED ? "it is not armed"
							    : why);
}

static void reply_ended(struct snapshot_call *sc, enum request_result result, const struct snapshot *s,
			const char *reason, const struct ledger_refusal *limit)
{
	const struct methods_subject process = { .action = AUDIT_TAKE, .pid = sc->pid };
	struct daemon *d = sc->daemon;

	switch (result) {
	case REQUEST_DONE:
		if (sc->no_wait)
			call_reply(sc->call, wire_snapshot_reply(s, spool_path(d->spool)));
		else
			call_wait(sc->call, &d->waiting, s);
		break;
	case REQUEST_NOT_ARMED:
		failure_process(sc->call, WIRE_NOT_ARMED, sc->pid, NULL);
		break;
	case REQUEST_OVER_LIMIT:
		fail_limit(sc->call, &process, limit);
		break;
	case REQUEST_CUT_SHORT:
		call_error(sc->call, wire_error_str(WIRE_ENDING), wire_error_of_ending(NULL));
		break;
	case REQUEST_FAILED:
		failure_process(sc->call, WIRE_SNAPSHOT_FAILED, sc->pid, reason);
		break;
	}
}

static void on_request_ended(void *data, enum request_result result, const struct snapshot *s, const char *reason,
			     const struct ledger_refusal *limit)
{
	struct snapshot_call *sc = data;
	struct audit_object on;

	report_arming(sc);
	report_refusal(sc, result, reason, limit);
	if (sc->group && result != REQUEST_DONE)
		group_release(sc->daemon, sc->pid, sc->by.uid);
	if (result == REQUEST_DONE) {
		on = methods_object_of_snapshot(s);
		audit_done(&sc->by, AUDIT_TAKE, &on);
	}
	if (sc->call)
		reply_ended(sc, result, s, reason, limit);
	free(sc);
}

/* Reads what a recording is limited to. Returns false after an error reply. */
static bool get_record(struct call *c, struct request_options *ret)
{
	const struct {
		const char *name;
		uint64_t *to;
	} members[] = { { "maxTime", &ret->record.time },
			{ "maxBytes", &ret->record.bytes },
			{ "maxRate", &ret->record.rate } };
	const char *bad = "record";
	json_object *o = NULL;
	int rc = json_get(c->parameters, bad, json_type_object, &o);

	ret->records = rc == 0;
	for (size_t i = 0; rc == 0 && i < ELEMENTS(members); i++) {
		bad = members[i].name;
		rc = json_get_u64(o, bad, members[i].to);
		if (rc == 0 && !*members[i].to)
			rc = -EINVAL;
		if (rc != -EINVAL)
			rc = 0;
	}
	if (rc == -EINVAL)
		call_invalid(c, bad);
	return rc != -EINVAL;
}

/* True if a recording may have these parameters, and the target can be recorded so. False after an error reply. */
static bool may_record(struct call *c, const struct request_options *o, const struct snapshot_group *g)
{
	if (!o->records || (!o->annotation.last && !g->n))
		return true;
	call_invalid(c, o->annotation.last ? "last" : "with");
	return false;
}

void methods_snapshot(struct daemon *d, struct call *c, struct methods_subject *s)
{
	struct request_options options = {
		.uid = c->by.uid, .progress = on_request_phase, .recording = on_recording, .ended = on_request_ended
	};
	struct snapshot_call *sc;
	struct snapshot_group group = { .n = 0 };
	const char *bad;
	uid_t by = c->by.uid; /* an error reply frees the call */
	bool no_wait = false;

	if (!group_read(d, c, &group) || !get_flag(c, c->parameters, "noArm", &options.no_arm) ||
	    !get_flag(c, c->parameters, "noWait", &no_wait) || !get_record(c, &options))
		return;
	if (annotation_read(c->parameters, &options.annotation, &bad) < 0) {
		call_invalid(c, bad);
		return;
	}
	if (!may_record(c, &options, &group)) {
		annotation_done(&options.annotation);
		return;
	}
	if (!s->target && options.no_arm) {
		annotation_done(&options.annotation);
		subscriptions_refused(d, by, s->pid, "it is not armed");
		failure_process(c, WIRE_NOT_ARMED, s->pid, NULL);
		return;
	}
	if (!must_be_target(d, c, s, &(struct capture_options){ 0 })) {
		annotation_done(&options.annotation);
		subscriptions_refused(d, by, s->pid, "it cannot be traced, or a limit is reached");
		return;
	}
	sc = options.data = malloc(sizeof(*sc));
	if (!sc) {
		target_remove_unarmed(s->target);
		annotation_done(&options.annotation);
		failure_process(c, WIRE_SNAPSHOT_FAILED, s->pid, strerror(ENOMEM));
		return;
	}
	*sc = (struct snapshot_call){
		.daemon = d, .call = c, .by = c->by, .pid = s->pid, .no_wait = no_wait, .group = group.n > 0
	};
	group_begin(d, &c->by, s->target, &group, &options.annotation);
	request_begin(d->requests, s->target, &options);
}

void methods_end_recording(struct daemon *d, struct call *c, struct methods_subject *s)
{
	/* One that has just reached a limit has ended, too. */
	if (request_list_end_recording(d->requests, s->snapshot) || s->snapshot->recording)
		call_reply_empty(c);
	else
		call_error(c, wire_error_str(WIRE_NOT_RECORDING), wire_error_of_snapshot(s->snapshot->id, NULL));
}

/* A call of the method Tail, while its process is being armed. */
struct tail_call {
	struct daemon *daemon;
	struct call *call;
	struct tail *tail;
	int fd;          /* the reader's end of its socket */
	const char *why; /* it is refused, or NULL */
};

static void refuse_tail(struct target *t, struct tail_call *tc, enum wire_error error, const char *why)
{
	failure_process(tc->call, error, t->pid, why);
	tail_free(tc->tail);
	close(tc->fd);
	free(tc);
}

/* Returns why an armed target cannot be followed, or NULL. */
static const char *not_live(const struct target *t)
{
	const struct capture_source *source = t->ring.source;

	return source->ops->not_live ? source->ops->not_live(source) : NULL;
}

static void refuse_live(struct target *t, struct tail_call *tc)
{
	struct reason why;

	reason_set(&why, 0, "tail: %s", tc->why);
	refuse_tail(t, tc, WIRE_OPTION_REFUSED, why.text);
}

static void on_not_live_disarmed(struct target *t, int rc, void *data)
{
	refuse_live(t, data);
}

static void follow(struct target *t, struct tail_call *tc)
{
	const struct audit_object on = object_of_process(t->pid, t);
	const gid_t *groups;
	size_t n;

	audit_done(&tc->call->by, AUDIT_FOLLOW, &on);
	groups = service_groups(tc->daemon->service, tc->call->connection, &n);
	tail_begin(tc->tail, tc->call->by.uid, groups, n);
	call_reply_fd(tc->call, json_object_new_object(), tc->fd);
	free(tc);
}

static void on_tail_armed(struct target *t, int rc, void *data)
{
	const struct audit_object on = object_of_process(t->pid, t);
	_cleanup_buf_ struct buf trouble = { .limit = CAPTURE_MISSING_MAX };
	struct tail_call *tc = data;

	if (rc == 0)
		audit_done(&tc->call->by, AUDIT_ARM, &on);
	tc->why = rc == 0 ? not_live(t) : NULL;
	if (tc->why && t->arms > 1) {
		/* Others have requested it, too. */
		t->arms--;
		refuse_live(t, tc);
	} else if (tc->why) {
		target_disarm(t, on_not_live_disarmed, tc);
	} else if (rc == 0 || rc == -ESRCH) {
		/* A process that has ended has left its history. */
		follow(t, tc);
	} else {
		target_trouble(t, &trouble);
		refuse_tail(t, tc, WIRE_CANNOT_TRACE, trouble.size ? (const char *)trouble.data : strerror(-rc));
	}
}

static void begin_tail(struct daemon *d, struct call *c, struct methods_subject *s, uint64_t max_time)
{
	struct ledger_refusal why = { 0 };
	struct tail_call *tc = calloc(1, sizeof(*tc));
	int rc = tc ? tail_new(d->tails, s->target, max_time, &tc->tail, &tc->fd, &why) : -ENOMEM;

	if (rc < 0) {
		free(tc);
		target_remove_unarmed(s->target);
		if (rc == -EDQUOT)
			fail_limit(c, s, &why);
		else
			failure_process(c, WIRE_CANNOT_TRACE, s->pid, strerror(-rc));
		return;
	}
	tc->daemon = d;
	tc->call = c;
	if (s->target->ring.state == RING_DISARMED) {
		target_arm(s->target, on_tail_armed, tc);
		return;
	}
	tc->why = not_live(s->target);
	if (tc->why)
		refuse_live(s->target, tc);
	else
		follow(s->target, tc);
}

void methods_tail(struct daemon *d, struct call *c, struct methods_subject *s)
{
	uint64_t max_time = 0;
	int rc = json_get_u64(c->parameters, "maxTime", &max_time);

	if (rc == -EINVAL || (rc == 0 && !max_time)) {
		call_invalid(c, "maxTime");
		return;
	}
	if (!must_be_target(d, c, s, &(struct capture_options){ 0 }))
		return;
	begin_tail(d, c, s, max_time);
}
