/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/daemon.h"
#include "daemon/failure.h"
#include "daemon/interfaces.h"
#include "daemon/job.h"
#include "daemon/methods-internal.h"
#include "daemon/methods.h"
#include "daemon/overhead.h"
#include "daemon/pause.h"
#include "daemon/policy.h"
#include "daemon/registry.h"
#include "daemon/reload.h"
#include "daemon/spool.h"
#include "daemon/standing/standing-methods.h"
#include "daemon/state.h"
#include "daemon/subscriptions.h"
#include "daemon/trace-units.h"
#include "daemon/trigger/trigger-methods.h"
#include "daemon/trigger/trigger.h"
#include "daemon/wire.h"

/*
 * The object that a method names, whose owner must be the caller, unless that is root. RIGHT_ADMINISTRATOR: the caller
 * must be root or the user of the daemon.
 */
enum right { RIGHT_ANY, RIGHT_ADMINISTRATOR, RIGHT_PROCESS, RIGHT_SNAPSHOT, RIGHT_TRIGGER, RIGHT_STANDING };

enum {
	METHOD_MORE = 1,  /* reports progress to calls with more */
	METHOD_WORKS = 2, /* begins work: refused while the daemon ends */
	/* A page is smaller than VARLINK_REPLY_MAX, whatever the names in it are. */
	TARGETS_A_PAGE = 16,
	SNAPSHOTS_A_PAGE = 256,
};

struct method {
	const char *name;
	enum right right;
	unsigned flags;
	enum audit_action action;
	void (*handler)(struct daemon *d, struct call *c, struct methods_subject *s);
};

static void do_status(struct daemon *d, struct call *c, struct methods_subject *s)
{
	json_object *o = json_object_new_object(), *warnings = json_object_new_array();
	const struct snapshot *snapshot;
	const struct target *t;
	unsigned targets = 0, snapshots = 0;
	uint64_t bytes = 0;
	_cleanup_buf_ struct buf held = { .limit = CAPTURE_MISSING_MAX };

	TAILQ_FOREACH (t, target_list_all(d->targets), link)
		targets += policy_owns(c->by.uid, t->owner);
	TAILQ_FOREACH (snapshot, spool_list(d->spool), link)
		if (policy_owns(c->by.uid, snapshot->owner)) {
			snapshots++;
			bytes += snapshot->size;
		}
	if (state_paused(d->state))
		json_array_add_bytes(warnings, CAPTURE_PAUSED);
	overhead_trouble(d->overhead, &held);
	if (held.size && policy_administers(c->by.uid))
		json_array_add_bytes(warnings, (const char *)held.data);
	if (job_queue_trouble(d->jobs))
		json_array_add_bytes(warnings, job_queue_trouble(d->jobs));
	json_add_str(o, "version", PACKAGE_VERSION);
	json_add_i64(o, "pid", getpid());
	json_add_i64(o, "uid", getuid());
	json_add_u64(o, "uptime", (now_ns(CLOCK_MONOTONIC) - d->started_ns) / 1000000000u);
	json_add_str(o, "capture", trace_units_why(d->units)[0] ? "emu" : "perf");
	json_add_str(o, "emuSocket", registry_path(d->registry));
	json_add_u64(o, "targets", targets);
	json_add_u64(o, "snapshots", snapshots);
	json_add_u64(o, "jobs", job_queue_count(d->jobs, c->by.uid));
	json_add_str(o, "spool", spool_path(d->spool));
	json_add_u64(o, "spoolBytes", bytes);
	json_add_str(o, "opencsd", job_queue_opencsd(d->jobs));
	json_add_bool(o, "paused", state_paused(d->state));
	json_add_u64(o, "overhead", overhead_share(d->overhead));
	if (d->settings.overhead_max)
		json_add_u64(o, "overheadMax", d->settings.overhead_max);
	json_add(o, "warnings", warnings);
	json_add(o, "use", wire_use(d->ledger, c->by.uid));
	if (c->by.uid == 0) {
		json_add(o, "machine", wire_use_of_all(d->ledger));
		json_add(o, "users", wire_users(d->ledger));
	}
	if (policy_administers(c->by.uid))
		json_add(o, "counters", counters_json(&d->counters));
	call_reply(c, o);
}

/* Reads from which item on the caller wants a list. Returns false after an error reply. */
static bool get_first(struct call *c, uint64_t *ret)
{
	*ret = 0;
	if (json_get_u64(c->parameters, "first", ret) != -EINVAL)
		return true;
	call_invalid(c, "first");
	return false;
}

/*
 * Replies with one page of a list. next: the number of the item that the next page begins with; 0: there is none. Items
 * keep their numbers when others are removed.
 */
static void reply_page(struct call *c, const char *name, json_object *list, uint64_t next)
{
	json_object *o = json_object_new_object();

	json_add(o, name, list);
	if (next)
		json_add_u64(o, "next", next);
	call_reply(c, o);
}

static void do_list_targets(struct daemon *d, struct call *c, struct methods_subject *s)
{
	uint64_t first, next = 0;
	json_object *list;
	struct target *t;
	unsigned n = 0;

	if (!get_first(c, &first))
		return;
	list = json_object_new_array();
	TAILQ_FOREACH (t, target_list_all(d->targets), link) {
		if (t->number < first || !policy_owns(c->by.uid, t->owner))
			continue;
		if (n++ == TARGETS_A_PAGE) {
			next = t->number;
			break;
		}
		json_array_add(list, wire_target(t));
	}
	reply_page(c, "targets", list, next);
}

static void do_wait(struct daemon *d, struct call *c, struct methods_subject *s)
{
	if (s->snapshot->state < SNAPSHOT_READY)
		call_wait(c, &d->waiting, s->snapshot);
	else
		call_reply(c, wire_snapshot_reply(s->snapshot, spool_path(d->spool)));
}

static void do_subscribe(struct daemon *d, struct call *c, struct methods_subject *s)
{
	subscriptions_add(d, c);
}

void methods_snapshot_changed(void *data, const struct snapshot *s, enum snapshot_change change)
{
	struct daemon *d = data;
	struct call *c, *next;

	trigger_list_snapshot_changed(d->triggers, s, change);
	if (change == SNAPSHOT_SETTLED) {
		++*(s->state == SNAPSHOT_READY ? &d->counters.ready : &d->counters.raw);
		subscriptions_snapshot(d, s);
	}
	for (c = TAILQ_FIRST(&d->waiting); c; c = next) {
		next = TAILQ_NEXT(c, link);
		if (c->subject != s)
			continue;
		switch (change) {
		case SNAPSHOT_PROGRESSED:
			call_progress(c, wire_decode_progress(s));
			break;
		case SNAPSHOT_SETTLED:
			call_reply(c, wire_snapshot_reply(s, spool_path(d->spool)));
			break;
		case SNAPSHOT_REMOVED:
			failure_no_snapshot(c, s->id);
			break;
		}
	}
}

void methods_end(struct daemon *d)
{
	struct call *c;

	subscriptions_end(d);
	while ((c = TAILQ_FIRST(&d->waiting))) {
		const struct snapshot *s = c->subject;

		call_error(c, wire_error_str(WIRE_ENDING), wire_error_of_ending(s->id));
	}
}

static void do_list_snapshots(struct daemon *d, struct call *c, struct methods_subject *s)
{
	const struct snapshot *snapshot;
	uint64_t first, next = 0;
	json_object *list;
	unsigned n = 0;

	if (!get_first(c, &first))
		return;
	list = json_object_new_array();
	TAILQ_FOREACH (snapshot, spool_list(d->spool), link) {
		if (snapshot->number < first || !policy_owns(c->by.uid, snapshot->owner))
			continue;
		if (n++ == SNAPSHOTS_A_PAGE) {
			next = snapshot->number;
			break;
		}
		json_array_add(list, wire_snapshot_in_list(snapshot, spool_path(d->spool)));
	}
	reply_page(c, "snapshots", list, next);
}

static void do_get_snapshot(struct daemon *d, struct call *c, struct methods_subject *s)
{
	call_reply(c, wire_snapshot_reply(s->snapshot, spool_path(d->spool)));
}

static void do_open(struct daemon *d, struct call *c, struct methods_subject *s)
{
	static const struct {
		const char *name, *file;
		bool decoded; /* an output of the decode */
		enum audit_action action;
	} files[] = {
		{ "store", "store", true, AUDIT_OPEN },
		{ "perfetto", "trace.pftrace", true, AUDIT_EXPORT },
		{ "perfdata", SNAPSHOT_TRACE_FILE, false, AUDIT_EXPORT },
		{ "json", "snapshot.json", false, AUDIT_OPEN },
	};
	struct audit_object on = methods_object_of_snapshot(s->snapshot);
	const struct snapshot *snapshot = s->snapshot;
	char path[SNAPSHOT_ID_SIZE + 32];
	const char *wanted = "";
	struct stat st;
	json_object *o;
	size_t n = 0;
	int fd;

	json_get_str(c->parameters, "file", &wanted);
	while (n < ELEMENTS(files) && strcmp(files[n].name, wanted) != 0)
		n++;
	if (n == ELEMENTS(files)) {
		call_invalid(c, "file");
		return;
	}
	if (snapshot->state <= SNAPSHOT_COPYING || (files[n].decoded && snapshot->state != SNAPSHOT_READY)) {
		failure_not_ready(c, snapshot);
		return;
	}
	/* The trace holds other processes' control flow. */
	if (snapshot->shared && strcmp(wanted, "perfdata") == 0 && c->by.uid != 0) {
		audit_deny(&c->by, s->action, &on);
		call_error(c, wire_error_str(WIRE_SHARED_TRACE), wire_error_of_snapshot(snapshot->id, NULL));
		return;
	}
	snprintf(path, sizeof(path), "%s/%s", snapshot->id, files[n].file);
	fd = openat(spool_fd(d->spool), path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0) {
		closep(&fd);
		failure_no_snapshot(c, snapshot->id);
		return;
	}
	on.detail = wanted;
	audit_done(&c->by, files[n].action, &on);
	o = json_object_new_object();
	json_add_u64(o, "size", (uint64_t)st.st_size);
	call_reply_fd(c, o, fd);
}

static void on_removed(int rc, pid_t pid, void *data)
{
	if (rc < 0)
		failure_process(data, WIRE_SNAPSHOT_FAILED, pid, strerror(-rc));
	else
		call_reply_empty(data);
}

static void do_remove(struct daemon *d, struct call *c, struct methods_subject *s)
{
	if (s->snapshot->state <= SNAPSHOT_COPYING || s->snapshot->state == SNAPSHOT_DECODING)
		failure_not_ready(c, s->snapshot);
	else
		spool_remove(d->spool, s->snapshot, &(struct spool_removal){ c->by, on_removed, c });
}

static void on_kept(int rc, const struct snapshot *s, void *data)
{
	const struct audit_object on = methods_object_of_snapshot(s);
	struct call *c = data;
	const char *id = "";
	bool keep = true;

	json_get_str(c->parameters, "id", &id);
	json_get_bool(c->parameters, "keep", &keep);
	if (rc == 0)
		audit_done(&c->by, keep ? AUDIT_KEEP : AUDIT_LET_GO, &on);
	if (rc == -ENOENT)
		failure_no_snapshot(c, id);
	else if (rc < 0)
		failure_text(c, wire_error_str(WIRE_NOT_KEPT), "reason", strerror(-rc));
	else
		call_reply_empty(c);
}

static void do_keep(struct daemon *d, struct call *c, struct methods_subject *s)
{
	bool keep = true;

	if (json_get_bool(c->parameters, "keep", &keep) == -EINVAL) {
		call_invalid(c, "keep");
	} else if (s->snapshot->state <= SNAPSHOT_COPYING) {
		failure_not_ready(c, s->snapshot);
	} else {
		spool_keep(d->spool, s->snapshot, keep, on_kept, c);
	}
}

static void do_reload(struct daemon *d, struct call *c, struct methods_subject *s)
{
	reload_begin(d, c);
}

struct pause_options methods_pausing(const struct daemon *d)
{
	return (struct pause_options){ .capture_queue = d->capture_queue, .targets = d->targets, .units = d->units };
}

static void on_paused(void *data)
{
	call_reply_empty(data);
}

static void do_pause(struct daemon *d, struct call *c, struct methods_subject *s)
{
	const struct pause_options o = methods_pausing(d);
	bool paused = true;

	if (json_get_bool(c->parameters, "pause", &paused) == -EINVAL) {
		call_invalid(c, "pause");
		return;
	}
	if (paused != state_paused(d->state))
		audit_done(&c->by, paused ? AUDIT_PAUSE : AUDIT_RESUME, &(struct audit_object){ .owner = (uid_t)-1 });
	state_pause(d->state, paused);
	if (pause_all(&o, paused, on_paused, c) < 0)
		failure_process(c, WIRE_CANNOT_TRACE, 0, strerror(ENOMEM));
}

static void do_get_info(struct daemon *d, struct call *c, struct methods_subject *s)
{
	interfaces_list(c);
}

static void do_get_description(struct daemon *d, struct call *c, struct methods_subject *s)
{
	interfaces_describe(c);
}

static const struct method methods[] = {
	{ "org.csight.Status", RIGHT_ANY, 0, AUDIT_LOOK, do_status },
	{ "org.csight.ListTargets", RIGHT_ANY, 0, AUDIT_LOOK, do_list_targets },
	{ "org.csight.Arm", RIGHT_PROCESS, METHOD_WORKS, AUDIT_ARM, methods_arm },
	{ "org.csight.Disarm", RIGHT_PROCESS, METHOD_WORKS, AUDIT_DISARM, methods_disarm },
	{ "org.csight.ArmStanding", RIGHT_ANY, METHOD_WORKS, AUDIT_ARM, standing_methods_arm },
	{ "org.csight.DisarmStanding", RIGHT_STANDING, METHOD_WORKS, AUDIT_DISARM, standing_methods_disarm },
	{ "org.csight.ListStanding", RIGHT_ANY, 0, AUDIT_LOOK, standing_methods_list },
	{ "org.csight.Snapshot", RIGHT_PROCESS, METHOD_MORE | METHOD_WORKS, AUDIT_TAKE, methods_snapshot },
	{ "org.csight.Tail", RIGHT_PROCESS, METHOD_WORKS, AUDIT_FOLLOW, methods_tail },
	{ "org.csight.EndRecording", RIGHT_SNAPSHOT, 0, AUDIT_TAKE, methods_end_recording },
	{ "org.csight.Wait", RIGHT_SNAPSHOT, METHOD_MORE, AUDIT_LOOK, do_wait },
	{ "org.csight.ListSnapshots", RIGHT_ANY, 0, AUDIT_LOOK, do_list_snapshots },
	{ "org.csight.GetSnapshot", RIGHT_SNAPSHOT, 0, AUDIT_LOOK, do_get_snapshot },
	{ "org.csight.Open", RIGHT_SNAPSHOT, 0, AUDIT_OPEN, do_open },
	{ "org.csight.Remove", RIGHT_SNAPSHOT, METHOD_WORKS, AUDIT_REMOVE, do_remove },
	{ "org.csight.Keep", RIGHT_SNAPSHOT, METHOD_WORKS, AUDIT_KEEP, do_keep },
	{ "org.csight.Watch", RIGHT_PROCESS, METHOD_MORE | METHOD_WORKS, AUDIT_ARM, trigger_methods_watch },
	{ "org.csight.ListTriggers", RIGHT_ANY, 0, AUDIT_LOOK, trigger_methods_list },
	{ "org.csight.SetTrigger", RIGHT_TRIGGER, METHOD_WORKS, AUDIT_ARM, trigger_methods_set },
	{ "org.csight.RemoveTrigger", RIGHT_TRIGGER, METHOD_WORKS, AUDIT_DISARM, trigger_methods_remove },
	{ "org.csight.Subscribe", RIGHT_ANY, METHOD_MORE, AUDIT_LOOK, do_subscribe },
	{ "org.csight.Pause", RIGHT_ADMINISTRATOR, METHOD_WORKS, AUDIT_PAUSE, do_pause },
	{ "org.csight.Reload", RIGHT_ADMINISTRATOR, METHOD_WORKS, AUDIT_RELOAD, do_reload },
	{ "org.varlink.service.GetInfo", RIGHT_ANY, 0, AUDIT_LOOK, do_get_info },
	{ "org.varlink.service.GetInterfaceDescription", RIGHT_ANY, 0, AUDIT_LOOK, do_get_description },
};

bool methods_find_process(struct daemon *d, struct call *c, pid_t pid, struct methods_subject *ret)
{
	int rc;

	ret->pid = pid;
	ret->target = target_list_find(d->targets, ret->pid, c->by.uid);
	if (ret->target && target_check_user(ret->target) == -EACCES)
		ret->target = target_list_find(d->targets, ret->pid, c->by.uid);
	rc = !ret->target                                 ? policy_process(c->by.uid, ret->pid)
	     : policy_owns(c->by.uid, ret->target->owner) ? 0
							  : -EACCES;
	if (rc == 0)
		return true;
	/*
	 * A user gets the same error for a missing process and one of another user, which may be hidden (hidepid of
	 * /proc).
	 */
	if (rc == -ESRCH && (c->by.uid == 0 || c->by.uid == getuid()))
		failure_process(c, WIRE_NO_SUCH_PROCESS, ret->pid, NULL);
	else
		methods_deny(c, ret);
	return false;
}

static bool find_named_process(struct daemon *d, struct call *c, struct methods_subject *ret)
{
	int64_t pid;

	if (json_get_i64(c->parameters, "pid", &pid) == 0 && pid > 0 && pid <= INT_MAX)
		return methods_find_process(d, c, (pid_t)pid, ret);
	call_invalid(c, "pid");
	return false;
}

static bool find_snapshot(struct daemon *d, struct call *c, struct methods_subject *ret)
{
	const char *id;

	if (json_get_str(c->parameters, "id", &id) < 0) {
		call_invalid(c, "id");
		return false;
	}
	ret->snapshot = spool_find(d->spool, id);
	if (!ret->snapshot)
		failure_no_snapshot(c, id);
	else if (!policy_owns(c->by.uid, ret->snapshot->owner))
		methods_deny(c, ret);
	else
		return true;
	return false;
}

/* Checks the right to a method, and finds what it is about. Returns false after an error reply. */
static bool find_subject(struct daemon *d, struct call *c, enum right right, struct methods_subject *ret)
{
	switch (right) {
	case RIGHT_ADMINISTRATOR:
		if (policy_administers(c->by.uid))
			return true;
		methods_deny(c, ret);
		return false;
	case RIGHT_PROCESS:
		return find_named_process(d, c, ret);
	case RIGHT_SNAPSHOT:
		return find_snapshot(d, c, ret);
	case RIGHT_TRIGGER:
		return trigger_methods_find(d, c, ret);
	case RIGHT_STANDING:
		return standing_methods_find(d, c, ret);
	default:
		return true;
	}
}

void methods_dispatch(void *data, struct call *c, const char *name)
{
	struct daemon *d = data;
	const struct method *m = NULL;
	struct methods_subject subject = { 0 };

	for (size_t n = 0; n < ELEMENTS(methods); n++)
		if (strcmp(methods[n].name, name) == 0)
			m = &methods[n];
	if (!m) {
		interfaces_lack(c, name);
		return;
	}
	c->more = c->more && (m->flags & METHOD_MORE);
	subject.action = m->action;
	if (!find_subject(d, c, m->right, &subject))
		return;
	if (d->ending && (m->flags & METHOD_WORKS)) {
		call_error(c, wire_error_str(WIRE_ENDING), wire_error_of_ending(NULL));
		return;
	}
	m->handler(d, c, &subject);
}
