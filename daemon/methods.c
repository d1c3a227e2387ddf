/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/daemon.h"
#include "daemon/interfaces.h"
#include "daemon/job.h"
#include "daemon/methods.h"
#include "daemon/policy.h"
#include "daemon/registry.h"
#include "daemon/reload.h"
#include "daemon/request.h"
#include "daemon/spool.h"
#include "daemon/target-adopt.h"
#include "daemon/wire.h"

/* What a method names; the caller must be its owner or root. RIGHT_ADMINISTRATOR: it is for root, or the daemon's user.
 */
enum right { RIGHT_ANY, RIGHT_ADMINISTRATOR, RIGHT_PROCESS, RIGHT_SNAPSHOT };

enum {
	METHOD_MORE = 1,  /* reports progress to calls with more */
	METHOD_WORKS = 2, /* begins work, which a daemon that ends does not */
	/* A page is smaller than VARLINK_REPLY_MAX, whatever the names in it are. */
	TARGETS_A_PAGE = 16,
	SNAPSHOTS_A_PAGE = 256,
};

/* What a call names, after the check of the right. */
struct subject {
	enum audit_action action;
	pid_t pid;
	struct target *target; /* NULL if the process is no target */
	struct snapshot *snapshot;
};

struct method {
	const char *name;
	enum right right;
	unsigned flags;
	enum audit_action action;
	void (*handler)(struct daemon *d, struct call *c, struct subject *s);
};

/* Replies with an error about a process. reason: may be NULL. */
static void fail_process(struct call *c, enum wire_error error, pid_t pid, const char *reason)
{
	call_error(c, wire_error_str(error), wire_error_of_process(pid, reason));
}

static struct audit_object object_of_snapshot(const struct snapshot *s)
{
	return (struct audit_object){ .pid = s->pid, .owner = s->uid, .name = s->name, .snapshot = s->id };
}

static struct audit_object object_of_process(pid_t pid, const struct target *t)
{
	return (struct audit_object){ .pid = pid, .owner = t ? t->uid : (uid_t)-1, .name = t ? t->name : NULL };
}

static struct audit_object object_of(const struct subject *s)
{
	return s->snapshot ? object_of_snapshot(s->snapshot) : object_of_process(s->pid, s->target);
}

/* Refuses a call for the lack of a right. */
static void deny(struct call *c, const struct subject *s)
{
	const struct audit_object on = object_of(s);

	audit_deny(&c->by, s->action, &on);
	call_error(c, VARLINK_PERMISSION_DENIED, NULL);
}

static void fail_limit(struct call *c, const struct subject *s, const struct ledger_refusal *why)
{
	const struct audit_object on = object_of(s);

	audit_limit(&c->by, s->action, &on, why);
	call_error(c, wire_error_str(WIRE_LIMIT_REACHED), wire_error_of_limit(why));
}

static void fail_no_snapshot(struct call *c, const char *id)
{
	call_error(c, wire_error_str(WIRE_NO_SUCH_SNAPSHOT), wire_error_of_snapshot(id, NULL));
}

static void do_status(struct daemon *d, struct call *c, struct subject *s)
{
	json_object *o = json_object_new_object(), *warnings = json_object_new_array();
	const struct snapshot *snapshot;
	const struct target *t;
	unsigned targets = 0, snapshots = 0;
	uint64_t bytes = 0;

	TAILQ_FOREACH (t, target_list_all(d->targets), link)
		targets += policy_owns(c->by.uid, t->uid);
	TAILQ_FOREACH (snapshot, spool_list(d->spool), link)
		if (policy_owns(c->by.uid, snapshot->uid)) {
			snapshots++;
			bytes += snapshot->size;
		}
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
	json_object_object_add(o, "warnings", warnings);
	json_object_object_add(o, "use", wire_use(d->ledger, c->by.uid));
	if (c->by.uid == 0) {
		json_object_object_add(o, "machine", wire_use_of_all(d->ledger));
		json_object_object_add(o, "users", wire_users(d->ledger));
	}
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

/* Replies with one page of a list, of which at has been reached of all items. */
static void reply_page(struct call *c, const char *name, json_object *list, uint64_t next, uint64_t all)
{
	json_object *o = json_object_new_object();

	json_object_object_add(o, name, list);
	if (next < all)
		json_add_u64(o, "next", next);
	call_reply(c, o);
}

static void do_list_targets(struct daemon *d, struct call *c, struct subject *s)
{
	json_object *list;
	uint64_t first, n = 0;
	struct target *t;

	if (!get_first(c, &first))
		return;
	list = json_object_new_array();
	TAILQ_FOREACH (t, target_list_all(d->targets), link)
		if (policy_owns(c->by.uid, t->uid)) {
			if (n >= first && n - first < TARGETS_A_PAGE)
				json_object_array_add(list, wire_target(t));
			n++;
		}
	reply_page(c, "targets", list, first + TARGETS_A_PAGE, n);
}

/* Makes a target of a process that is none. Returns false after an error reply. */
static bool must_be_target(struct daemon *d, struct call *c, struct subject *s, const struct capture_options *options)
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
		fail_process(c, WIRE_NO_SUCH_PROCESS, s->pid, NULL);
	else if (rc < 0)
		fail_process(c, WIRE_CANNOT_TRACE, s->pid, reason.text[0] ? reason.text : strerror(-rc));
	return rc == 0;
}

static void reply_change(struct target *t, int rc, struct call *c, bool arm)
{
	const struct audit_object on = object_of_process(t->pid, t);
	json_object *o;

	if (rc == 0)
		audit_done(&c->by, arm ? AUDIT_ARM : AUDIT_DISARM, &on);
	if (rc == -ESRCH) {
		fail_process(c, WIRE_NO_SUCH_PROCESS, t->pid, NULL);
	} else if (rc < 0) {
		_cleanup_buf_ struct buf trouble = { .limit = CAPTURE_MISSING_MAX };

		target_trouble(t, &trouble);
		fail_process(c, rc == -EINVAL ? WIRE_NOT_ARMED : WIRE_CANNOT_TRACE, t->pid,
			     rc == -EBUSY   ? "too many operations wait for this process"
			     : trouble.size ? (const char *)trouble.data
					    : strerror(-rc));
	} else if (arm) {
		o = json_object_new_object();
		json_object_object_add(o, "target", wire_target(t));
		call_reply(c, o);
	} else {
		call_reply(c, NULL);
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

static bool get_text(struct call *c, json_object *from, const char *name, const char **ret)
{
	if (json_get_str(from, name, ret) != -EINVAL)
		return true;
	call_invalid(c, name);
	return false;
}

static bool get_options(struct call *c, struct capture_options *ret)
{
	json_object *o = NULL;
	int rc = json_get(c->parameters, "options", json_type_object, &o);

	if (rc == -EINVAL)
		call_invalid(c, "options");
	if (rc < 0)
		return rc != -EINVAL;
	return get_flag(c, o, "kernel", &ret->kernel) && get_flag(c, o, "cycles", &ret->cycles) &&
	       get_flag(c, o, "noTimestamps", &ret->no_timestamps) && get_flag(c, o, "noContexts", &ret->no_contexts) &&
	       get_text(c, o, "filter", &ret->filter) && get_text(c, o, "sink", &ret->sink);
}

static void do_arm(struct daemon *d, struct call *c, struct subject *s)
{
	struct capture_options options = { 0 };

	if (!get_options(c, &options))
		return;
	/* Control flow of the kernel is for root, as with any tracer. */
	if (options.kernel && c->by.uid != 0)
		deny(c, s);
	else if (must_be_target(d, c, s, &options))
		target_arm(s->target, on_armed, c);
}

static void do_disarm(struct daemon *d, struct call *c, struct subject *s)
{
	if (!s->target || s->target->ring.state == RING_DISARMED)
		fail_process(c, WIRE_NOT_ARMED, s->pid, NULL);
	else
		target_disarm(s->target, on_disarmed, c);
}

/* A call of Snapshot, while its request runs. */
struct snapshot_call {
	struct daemon *daemon;
	struct call *call;
	pid_t pid;
	bool no_wait;
	bool arms; /* the process is being armed for it */
};

/* A request that arms its process leaves it armed, whatever becomes of the snapshot. */
static void report_arming(struct snapshot_call *sc)
{
	const struct target *t = sc->arms ? target_list_find(sc->daemon->targets, sc->pid, sc->call->by.uid) : NULL;

	if (t && (t->ring.state == RING_ARMED || t->ring.state == RING_FROZEN)) {
		const struct audit_object on = object_of_process(sc->pid, t);

		audit_done(&sc->call->by, AUDIT_ARM, &on);
	}
	sc->arms = false;
}

static void on_request_phase(void *data, const char *phase)
{
	struct snapshot_call *sc = data;

	report_arming(sc);
	sc->arms = strcmp(phase, "arming") == 0;
	call_progress(sc->call, wire_phase(phase));
}

static void on_request_ended(void *data, enum request_result result, const struct snapshot *s, const char *reason,
			     const struct ledger_refusal *limit)
{
	struct snapshot_call *sc = data;
	const struct subject process = { .action = AUDIT_TAKE, .pid = sc->pid };
	struct daemon *d = sc->daemon;
	struct audit_object on;

	report_arming(sc);
	switch (result) {
	case REQUEST_DONE:
		on = object_of_snapshot(s);
		audit_done(&sc->call->by, AUDIT_TAKE, &on);
		if (sc->no_wait)
			call_reply(sc->call, wire_snapshot_reply(s, spool_path(d->spool)));
		else
			call_wait(sc->call, &d->waiting, s);
		break;
	case REQUEST_NOT_ARMED:
		fail_process(sc->call, WIRE_NOT_ARMED, sc->pid, NULL);
		break;
	case REQUEST_OVER_LIMIT:
		fail_limit(sc->call, &process, limit);
		break;
	case REQUEST_FAILED:
		fail_process(sc->call, WIRE_SNAPSHOT_FAILED, sc->pid, reason);
		break;
	}
	free(sc);
}

static void do_snapshot(struct daemon *d, struct call *c, struct subject *s)
{
	struct request_options options = { .uid = c->by.uid, .progress = on_request_phase, .ended = on_request_ended };
	struct snapshot_call *sc;
	bool no_wait = false;

	if (!get_flag(c, c->parameters, "noArm", &options.no_arm) || !get_flag(c, c->parameters, "noWait", &no_wait))
		return;
	if (!s->target && options.no_arm) {
		fail_process(c, WIRE_NOT_ARMED, s->pid, NULL);
		return;
	}
	if (!must_be_target(d, c, s, &(struct capture_options){ 0 }))
		return;
	sc = options.data = malloc(sizeof(*sc));
	if (!sc) {
		fail_process(c, WIRE_SNAPSHOT_FAILED, s->pid, strerror(ENOMEM));
		return;
	}
	*sc = (struct snapshot_call){ .daemon = d, .call = c, .pid = s->pid, .no_wait = no_wait };
	request_begin(d->requests, s->target, &options);
}

static void do_wait(struct daemon *d, struct call *c, struct subject *s)
{
	if (s->snapshot->state < SNAPSHOT_READY)
		call_wait(c, &d->waiting, s->snapshot);
	else
		call_reply(c, wire_snapshot_reply(s->snapshot, spool_path(d->spool)));
}

void methods_snapshot_changed(void *data, const struct snapshot *s, enum snapshot_change change)
{
	struct daemon *d = data;
	struct call *c, *next;

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
			fail_no_snapshot(c, s->id);
			break;
		}
	}
}

void methods_end(struct daemon *d)
{
	struct call *c;

	while ((c = TAILQ_FIRST(&d->waiting))) {
		const struct snapshot *s = c->subject;

		call_error(c, wire_error_str(WIRE_ENDING), wire_error_of_ending(s->id));
	}
}

static void do_list_snapshots(struct daemon *d, struct call *c, struct subject *s)
{
	const struct snapshot *snapshot;
	uint64_t first, n = 0;
	json_object *list;

	if (!get_first(c, &first))
		return;
	list = json_object_new_array();
	TAILQ_FOREACH (snapshot, spool_list(d->spool), link)
		if (policy_owns(c->by.uid, snapshot->uid)) {
			if (n >= first && n - first < SNAPSHOTS_A_PAGE)
				json_object_array_add(list, wire_snapshot_in_list(snapshot, spool_path(d->spool)));
			n++;
		}
	reply_page(c, "snapshots", list, first + SNAPSHOTS_A_PAGE, n);
}

static void do_get_snapshot(struct daemon *d, struct call *c, struct subject *s)
{
	call_reply(c, wire_snapshot_reply(s->snapshot, spool_path(d->spool)));
}

static void fail_not_ready(struct call *c, const struct snapshot *s)
{
	call_error(c, wire_error_str(WIRE_NOT_READY), wire_error_of_snapshot(s->id, snapshot_state_str(s->state)));
}

static void do_open(struct daemon *d, struct call *c, struct subject *s)
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
	struct audit_object on = object_of(s);
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
	if (snapshot->state == SNAPSHOT_COPYING || (files[n].decoded && snapshot->state != SNAPSHOT_READY)) {
		fail_not_ready(c, snapshot);
		return;
	}
	/* The trace holds other processes' control flow. */
	if (snapshot->shared && strcmp(wanted, "perfdata") == 0 && c->by.uid != 0) {
		deny(c, s);
		return;
	}
	snprintf(path, sizeof(path), "%s/%s", snapshot->id, files[n].file);
	fd = openat(spool_fd(d->spool), path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0) {
		closep(&fd);
		fail_no_snapshot(c, snapshot->id);
		return;
	}
	on.detail = wanted;
	audit_done(&c->by, files[n].action, &on);
	o = json_object_new_object();
	json_add_u64(o, "size", (uint64_t)st.st_size);
	call_reply_fd(c, o, fd);
}

static void on_removed(int rc, void *data)
{
	call_reply(data, NULL);
}

static void do_remove(struct daemon *d, struct call *c, struct subject *s)
{
	if (s->snapshot->state == SNAPSHOT_COPYING || s->snapshot->state == SNAPSHOT_DECODING)
		fail_not_ready(c, s->snapshot);
	else
		spool_remove(d->spool, s->snapshot, &(struct spool_removal){ c->by, on_removed, c });
}

static void do_reload(struct daemon *d, struct call *c, struct subject *s)
{
	reload_begin(d, c);
}

static void do_get_info(struct daemon *d, struct call *c, struct subject *s)
{
	interfaces_list(c);
}

static void do_get_description(struct daemon *d, struct call *c, struct subject *s)
{
	interfaces_describe(c);
}

static const struct method methods[] = {
	{ "org.csight.Status", RIGHT_ANY, 0, AUDIT_LOOK, do_status },
	{ "org.csight.ListTargets", RIGHT_ANY, 0, AUDIT_LOOK, do_list_targets },
	{ "org.csight.Arm", RIGHT_PROCESS, METHOD_WORKS, AUDIT_ARM, do_arm },
	{ "org.csight.Disarm", RIGHT_PROCESS, METHOD_WORKS, AUDIT_DISARM, do_disarm },
	{ "org.csight.Snapshot", RIGHT_PROCESS, METHOD_MORE | METHOD_WORKS, AUDIT_TAKE, do_snapshot },
	{ "org.csight.Wait", RIGHT_SNAPSHOT, METHOD_MORE, AUDIT_LOOK, do_wait },
	{ "org.csight.ListSnapshots", RIGHT_ANY, 0, AUDIT_LOOK, do_list_snapshots },
	{ "org.csight.GetSnapshot", RIGHT_SNAPSHOT, 0, AUDIT_LOOK, do_get_snapshot },
	{ "org.csight.Open", RIGHT_SNAPSHOT, 0, AUDIT_OPEN, do_open },
	{ "org.csight.Remove", RIGHT_SNAPSHOT, METHOD_WORKS, AUDIT_REMOVE, do_remove },
	{ "org.csight.Reload", RIGHT_ADMINISTRATOR, METHOD_WORKS, AUDIT_RELOAD, do_reload },
	{ "org.varlink.service.GetInfo", RIGHT_ANY, 0, AUDIT_LOOK, do_get_info },
	{ "org.varlink.service.GetInterfaceDescription", RIGHT_ANY, 0, AUDIT_LOOK, do_get_description },
};

/* Finds the process that a call names, and checks the right to it: to its target, or else as /proc has it. */
static bool find_process(struct daemon *d, struct call *c, struct subject *ret)
{
	int64_t pid;
	int rc;

	if (json_get_i64(c->parameters, "pid", &pid) < 0 || pid <= 0 || pid > INT_MAX) {
		call_invalid(c, "pid");
		return false;
	}
	ret->pid = (pid_t)pid;
	ret->target = target_list_find(d->targets, ret->pid, c->by.uid);
	rc = !ret->target                               ? policy_process(c->by.uid, ret->pid)
	     : policy_owns(c->by.uid, ret->target->uid) ? 0
							: -EACCES;
	if (rc == 0)
		return true;
	/* One answer to users: processes of others may be hidden from them (hidepid of /proc). */
	if (rc == -ESRCH && (c->by.uid == 0 || c->by.uid == getuid()))
		fail_process(c, WIRE_NO_SUCH_PROCESS, ret->pid, NULL);
	else
		deny(c, ret);
	return false;
}

static bool find_snapshot(struct daemon *d, struct call *c, struct subject *ret)
{
	const char *id;

	if (json_get_str(c->parameters, "id", &id) < 0) {
		call_invalid(c, "id");
		return false;
	}
	ret->snapshot = spool_find(d->spool, id);
	if (!ret->snapshot)
		fail_no_snapshot(c, id);
	else if (!policy_owns(c->by.uid, ret->snapshot->uid))
		deny(c, ret);
	else
		return true;
	return false;
}

/* Checks the right to a method, and finds what it is about. Returns false after an error reply. */
static bool find_subject(struct daemon *d, struct call *c, enum right right, struct subject *ret)
{
	switch (right) {
	case RIGHT_ADMINISTRATOR:
		if (policy_administers(c->by.uid))
			return true;
		deny(c, ret);
		return false;
	case RIGHT_PROCESS:
		return find_process(d, c, ret);
	case RIGHT_SNAPSHOT:
		return find_snapshot(d, c, ret);
	default:
		return true;
	}
}

void methods_dispatch(void *data, struct call *c, const char *name)
{
	struct daemon *d = data;
	const struct method *m = NULL;
	struct subject subject = { 0 };

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
