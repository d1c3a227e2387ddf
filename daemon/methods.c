#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/target-adopt.h"
#include "daemon/daemon.h"
#include "daemon/idl.h"
#include "daemon/job.h"
#include "daemon/methods.h"
#include "daemon/policy.h"
#include "daemon/registry.h"
#include "daemon/request.h"
#include "daemon/spool.h"
#include "daemon/target.h"
#include "daemon/trace-units.h"

/* What a method names, and so whom it is for: the owner of that, and root. */
enum right { RIGHT_ANY, RIGHT_PROCESS, RIGHT_SNAPSHOT };

enum { METHOD_MORE = 1 /* tells progress where more is asked for */ };

/* What a call names, found and allowed. target: NULL where the process is none. */
struct subject {
	pid_t pid;
	struct target *target;
	struct snapshot *snapshot;
};

struct method {
	const char *name;
	enum right right;
	unsigned flags;
	void (*handler)(struct daemon *d, struct call *c, struct subject *s);
};

static void fail_pid(struct call *c, const char *error, pid_t pid, const char *reason)
{
	json_object *o = json_object_new_object();

	json_add_i64(o, "pid", pid);
	json_add_str(o, "reason", reason);
	call_error(c, error, o);
}

/* A named error with one text. */
static void fail_text(struct call *c, const char *error, const char *key, const char *text)
{
	json_object *o = json_object_new_object();

	json_add_str(o, key, text);
	call_error(c, error, o);
}

static void add_text(json_object *list, const char *text)
{
	_cleanup_json_ json_object *o = json_object_new_object();
	json_object *word;

	json_add_bytes(o, "text", text);
	if (json_object_object_get_ex(o, "text", &word))
		json_object_array_add(list, json_object_get(word));
}

/* Texts one after another, each ended by NUL; the last may lack it. */
static json_object *texts_json(const char *texts, size_t size)
{
	json_object *list = json_object_new_array();

	for (size_t at = 0; at < size;) {
		_cleanup_free_ char *one = strndup(texts + at, size - at);

		if (!one)
			break;
		at += strlen(one) + 1;
		add_text(list, one);
	}
	return list;
}

static json_object *threads_json(const struct target *t)
{
	json_object *list = json_object_new_array();
	_cleanup_free_ struct capture_thread *threads = NULL;
	size_t n_threads = 0;

	t->ring.ops->threads(t->ring.source, &threads, &n_threads);
	for (size_t n = 0; n < n_threads; n++) {
		json_object *o = json_object_new_object();

		json_add_u64(o, "tid", threads[n].tid);
		json_add_bytes(o, "name", threads[n].name);
		json_add_u64(o, "bytes", threads[n].size);
		json_add_bool(o, "wrapped", threads[n].wrapped);
		json_add_bool(o, "running", threads[n].running && t->ring.state != RING_GONE);
		json_object_array_add(list, o);
	}
	return list;
}

static json_object *target_json(const struct target *t)
{
	_cleanup_buf_ struct buf missing = { .limit = CAPTURE_MISSING_MAX }, trouble = { .limit = CAPTURE_MISSING_MAX };
	json_object *o = json_object_new_object();

	json_add_i64(o, "pid", t->pid);
	json_add_i64(o, "uid", t->uid);
	json_add_bytes(o, "name", t->name);
	if (t->exe[0])
		json_add_bytes(o, "exe", t->exe);
	json_object_object_add(o, "arguments", texts_json(t->arguments, t->arguments_size));
	json_add_str(o, "capture", t->ring.ops->name);
	target_trouble(t, &trouble);
	json_add_str(o, "state",
		     trouble.size && t->ring.state == RING_ARMED ? "blocked" : ring_state_str(t->ring.state));
	if (trouble.size)
		json_add_bytes(o, "trouble", (const char *)trouble.data);
	json_add_bool(o, "running", t->ring.state != RING_GONE);
	if (t->parent > 0)
		json_add_i64(o, "parent", t->parent);
	json_add_u64(o, "armedAt", t->armed_time);
	json_object_object_add(o, "threads", threads_json(t));
	t->ring.ops->missing(t->ring.source, &missing);
	json_object_object_add(o, "missing", texts_json((const char *)missing.data, missing.size));
	return o;
}

json_object *methods_snapshot_json(struct daemon *d, const struct snapshot *s)
{
	json_object *o = json_object_new_object();
	_cleanup_free_ char *path = NULL;

	json_add_str(o, "id", s->id);
	json_add_str(o, "state", snapshot_state_str(s->state));
	json_add_i64(o, "pid", s->pid);
	json_add_i64(o, "uid", s->uid);
	json_add_bytes(o, "name", s->name);
	json_add_u64(o, "time", s->time);
	json_add_u64(o, "blind", s->blind);
	json_add_u64(o, "threads", s->threads);
	json_add_u64(o, "size", s->size);
	json_add_i64(o, "attempts", s->attempts);
	if (s->reason)
		json_add_bytes(o, "reason", s->reason);
	if (s->decode)
		json_object_object_add(o, "decode", snapshot_decode(s));
	json_object_object_add(o, "missing", s->missing ? json_object_get(s->missing) : json_object_new_array());
	if (asprintf(&path, "%s/%s", spool_path(d->spool), s->id) < 0)
		path = NULL;
	json_add_str(o, "path", path ? path : "");
	return o;
}

static void do_status(struct daemon *d, struct call *c, struct subject *s)
{
	json_object *o = json_object_new_object(), *warnings = json_object_new_array();
	const struct snapshot *snapshot;
	const struct target *t;
	unsigned targets = 0, snapshots = 0;
	uint64_t bytes = 0;

	TAILQ_FOREACH (t, target_list_all(d->targets), link)
		targets += policy_owns(c->uid, t->uid) && t->ring.state != RING_GONE;
	TAILQ_FOREACH (snapshot, spool_list(d->spool), link)
		if (policy_owns(c->uid, snapshot->uid)) {
			snapshots++;
			bytes += snapshot->size;
		}
	if (job_queue_trouble(d->jobs))
		add_text(warnings, job_queue_trouble(d->jobs));
	json_add_str(o, "version", PACKAGE_VERSION);
	json_add_i64(o, "pid", getpid());
	json_add_i64(o, "uid", getuid());
	json_add_u64(o, "uptime", (now_ns(CLOCK_MONOTONIC) - d->started_ns) / 1000000000u);
	json_add_str(o, "capture", trace_units_why(d->units)[0] ? "emu" : "perf");
	json_add_str(o, "emuSocket", registry_path(d->registry));
	json_add_u64(o, "targets", targets);
	json_add_u64(o, "snapshots", snapshots);
	json_add_u64(o, "jobs", job_queue_count(d->jobs, c->uid));
	json_add_str(o, "spool", spool_path(d->spool));
	json_add_u64(o, "spoolBytes", bytes);
	json_add_str(o, "opencsd", job_queue_opencsd(d->jobs));
	json_object_object_add(o, "warnings", warnings);
	call_reply(c, o);
}

static void do_list_targets(struct daemon *d, struct call *c, struct subject *s)
{
	json_object *o = json_object_new_object(), *list = json_object_new_array();
	const struct target *t;

	TAILQ_FOREACH (t, target_list_all(d->targets), link)
		if (policy_owns(c->uid, t->uid))
			json_object_array_add(list, target_json(t));
	json_object_object_add(o, "targets", list);
	call_reply(c, o);
}

/* Makes a target of a process that is none. */
static bool must_be_target(struct daemon *d, struct call *c, struct subject *s, const struct capture_options *options)
{
	char reason[512];
	int rc;

	if (s->target)
		return true;
	rc = target_adopt(d, s->pid, c->uid, options, &s->target, reason, sizeof(reason));
	if (rc == -EUSERS)
		fail_text(c, "org.csight.LimitReached", "limit", "targets-per-user");
	else if (rc == -ESRCH)
		fail_pid(c, "org.csight.NoSuchProcess", s->pid, NULL);
	else if (rc < 0)
		fail_pid(c, "org.csight.CannotTrace", s->pid, reason[0] ? reason : strerror(-rc));
	return rc == 0;
}

static void changed(struct target *t, int rc, struct call *c, bool arm)
{
	json_object *o;

	if (rc == -ESRCH) {
		fail_pid(c, "org.csight.NoSuchProcess", t->pid, NULL);
	} else if (rc < 0) {
		_cleanup_buf_ struct buf trouble = { .limit = CAPTURE_MISSING_MAX };

		target_trouble(t, &trouble);
		fail_pid(c, rc == -EINVAL ? "org.csight.NotArmed" : "org.csight.CannotTrace", t->pid,
			 rc == -EBUSY   ? "too many ask for the same process"
			 : trouble.size ? (const char *)trouble.data
					: strerror(-rc));
	} else if (arm) {
		o = json_object_new_object();
		json_object_object_add(o, "target", target_json(t));
		call_reply(c, o);
	} else {
		call_reply(c, NULL);
	}
}

static void armed(struct target *t, int rc, void *data)
{
	changed(t, rc, data, true);
}

static void disarmed(struct target *t, int rc, void *data)
{
	changed(t, rc, data, false);
}

/* Absent and null leave *ret as it is. */
static bool get_flag(struct call *c, json_object *from, const char *name, bool *ret)
{
	if (json_get_bool(from, name, ret) != -EINVAL)
		return true;
	call_invalid(c, name);
	return false;
}

static bool get_word(struct call *c, json_object *from, const char *name, const char **ret)
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
	       get_word(c, o, "filter", &ret->filter) && get_word(c, o, "sink", &ret->sink);
}

static void do_arm(struct daemon *d, struct call *c, struct subject *s)
{
	struct capture_options options = { 0 };

	if (!get_options(c, &options))
		return;
	/* What the kernel does is not for everybody, as with any tracer. */
	if (options.kernel && c->uid != 0)
		call_error(c, VARLINK_PERMISSION_DENIED, NULL);
	else if (must_be_target(d, c, s, &options))
		target_arm(s->target, armed, c);
}

static void do_disarm(struct daemon *d, struct call *c, struct subject *s)
{
	if (!s->target || s->target->ring.state == RING_DISARMED)
		fail_pid(c, "org.csight.NotArmed", s->pid, NULL);
	else
		target_disarm(s->target, disarmed, c);
}

static void do_snapshot(struct daemon *d, struct call *c, struct subject *s)
{
	struct request_options options = { 0 };

	if (!get_flag(c, c->parameters, "noArm", &options.no_arm) ||
	    !get_flag(c, c->parameters, "noWait", &options.no_wait))
		return;
	if (!s->target && options.no_arm)
		fail_pid(c, "org.csight.NotArmed", s->pid, NULL);
	else if (must_be_target(d, c, s, &(struct capture_options){ 0 }))
		request_begin(s->target, &options, c);
}

static void do_wait(struct daemon *d, struct call *c, struct subject *s)
{
	json_object *o;

	if (s->snapshot->state < SNAPSHOT_READY) {
		call_wait(c, &s->snapshot->waiting);
		return;
	}
	o = json_object_new_object();
	json_object_object_add(o, "snapshot", methods_snapshot_json(d, s->snapshot));
	call_reply(c, o);
}

static void do_list_snapshots(struct daemon *d, struct call *c, struct subject *s)
{
	json_object *o = json_object_new_object(), *list = json_object_new_array();
	const struct snapshot *snapshot;

	TAILQ_FOREACH (snapshot, spool_list(d->spool), link)
		if (policy_owns(c->uid, snapshot->uid))
			json_object_array_add(list, methods_snapshot_json(d, snapshot));
	json_object_object_add(o, "snapshots", list);
	call_reply(c, o);
}

static void do_get_snapshot(struct daemon *d, struct call *c, struct subject *s)
{
	json_object *o = json_object_new_object();

	json_object_object_add(o, "snapshot", methods_snapshot_json(d, s->snapshot));
	call_reply(c, o);
}

static void not_ready(struct call *c, const struct snapshot *s)
{
	json_object *o = json_object_new_object();

	json_add_str(o, "id", s->id);
	json_add_str(o, "state", snapshot_state_str(s->state));
	call_error(c, "org.csight.NotReady", o);
}

static void do_open(struct daemon *d, struct call *c, struct subject *s)
{
	static const struct {
		const char *name, *file;
		bool decoded; /* made by the decode */
	} files[] = {
		{ "store", "store", true },
		{ "perfetto", "trace.pftrace", true },
		{ "perfdata", TRACE_NAME, false },
		{ "json", "snapshot.json", false },
	};
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
		not_ready(c, snapshot);
		return;
	}
	/* It holds what others did. */
	if (snapshot->shared && strcmp(wanted, "perfdata") == 0 && c->uid != 0) {
		call_error(c, VARLINK_PERMISSION_DENIED, NULL);
		return;
	}
	snprintf(path, sizeof(path), "%s/%s", snapshot->id, files[n].file);
	fd = openat(spool_fd(d->spool), path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0) {
		closep(&fd);
		fail_text(c, "org.csight.NoSuchSnapshot", "id", snapshot->id);
		return;
	}
	o = json_object_new_object();
	json_add_u64(o, "size", (uint64_t)st.st_size);
	call_reply_fd(c, o, fd);
}

static void removed(int rc, void *data)
{
	call_reply(data, NULL);
}

static void do_remove(struct daemon *d, struct call *c, struct subject *s)
{
	if (s->snapshot->state == SNAPSHOT_COPYING || s->snapshot->state == SNAPSHOT_DECODING)
		not_ready(c, s->snapshot);
	else
		spool_remove(d->spool, s->snapshot, removed, c);
}

static void do_get_info(struct daemon *d, struct call *c, struct subject *s)
{
	json_object *o = json_object_new_object(), *list = json_object_new_array();

	json_add_str(o, "vendor", "csight");
	json_add_str(o, "product", "csightd");
	json_add_str(o, "version", PACKAGE_VERSION);
	json_add_str(o, "url", "");
	add_text(list, "org.varlink.service");
	add_text(list, "org.csight");
	json_object_object_add(o, "interfaces", list);
	call_reply(c, o);
}

static void do_get_description(struct daemon *d, struct call *c, struct subject *s)
{
	const char *name, *text = NULL;
	json_object *o;

	if (json_get_str(c->parameters, "interface", &name) < 0) {
		call_invalid(c, "interface");
		return;
	}
	if (strcmp(name, "org.csight") == 0)
		text = idl_org_csight;
	else if (strcmp(name, "org.varlink.service") == 0)
		text = idl_org_varlink_service;
	if (!text) {
		fail_text(c, VARLINK_INTERFACE_NOT_FOUND, "interface", name);
		return;
	}
	o = json_object_new_object();
	json_add_str(o, "description", text);
	call_reply(c, o);
}

static const struct method methods[] = {
	{ "org.csight.Status", RIGHT_ANY, 0, do_status },
	{ "org.csight.ListTargets", RIGHT_ANY, 0, do_list_targets },
	{ "org.csight.Arm", RIGHT_PROCESS, 0, do_arm },
	{ "org.csight.Disarm", RIGHT_PROCESS, 0, do_disarm },
	{ "org.csight.Snapshot", RIGHT_PROCESS, METHOD_MORE, do_snapshot },
	{ "org.csight.Wait", RIGHT_SNAPSHOT, METHOD_MORE, do_wait },
	{ "org.csight.ListSnapshots", RIGHT_ANY, 0, do_list_snapshots },
	{ "org.csight.GetSnapshot", RIGHT_SNAPSHOT, 0, do_get_snapshot },
	{ "org.csight.Open", RIGHT_SNAPSHOT, 0, do_open },
	{ "org.csight.Remove", RIGHT_SNAPSHOT, 0, do_remove },
	{ "org.varlink.service.GetInfo", RIGHT_ANY, 0, do_get_info },
	{ "org.varlink.service.GetInterfaceDescription", RIGHT_ANY, 0, do_get_description },
};

/* The process that a call names: its target, or the right to it by what /proc says. */
static bool find_process(struct daemon *d, struct call *c, struct subject *ret)
{
	int64_t pid;
	int rc;

	if (json_get_i64(c->parameters, "pid", &pid) < 0 || pid <= 0 || pid > INT_MAX) {
		call_invalid(c, "pid");
		return false;
	}
	ret->pid = (pid_t)pid;
	ret->target = target_list_find(d->targets, ret->pid, c->uid);
	rc = !ret->target ? policy_process(c->uid, ret->pid) : policy_owns(c->uid, ret->target->uid) ? 0 : -EACCES;
	if (rc == 0)
		return true;
	if (rc == -ESRCH)
		fail_pid(c, "org.csight.NoSuchProcess", ret->pid, NULL);
	else
		call_error(c, VARLINK_PERMISSION_DENIED, NULL);
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
		fail_text(c, "org.csight.NoSuchSnapshot", "id", id);
	else if (!policy_owns(c->uid, ret->snapshot->uid))
		call_error(c, VARLINK_PERMISSION_DENIED, NULL);
	else
		return true;
	return false;
}

/* A name that is no method's is of an interface that is not served, or of one that lacks it. */
static void no_method(struct call *c, const char *name)
{
	static const char *const interfaces[] = { "org.csight.", "org.varlink.service." };
	_cleanup_free_ char *interface = NULL;

	for (size_t n = 0; n < ELEMENTS(interfaces); n++)
		if (strncmp(name, interfaces[n], strlen(interfaces[n])) == 0 &&
		    !strchr(name + strlen(interfaces[n]), '.')) {
			fail_text(c, VARLINK_METHOD_NOT_FOUND, "method", name);
			return;
		}
	interface = strndup(name, (size_t)(strrchr(name, '.') - name));
	fail_text(c, VARLINK_INTERFACE_NOT_FOUND, "interface", interface);
}

void methods_dispatch(struct daemon *d, struct call *c, const char *name)
{
	const struct method *m = NULL;
	struct subject subject = { 0 };

	for (size_t n = 0; n < ELEMENTS(methods); n++)
		if (strcmp(methods[n].name, name) == 0)
			m = &methods[n];
	if (!m) {
		no_method(c, name);
		return;
	}
	c->method = m;
	c->more = c->more && (m->flags & METHOD_MORE);
	if ((m->right == RIGHT_PROCESS && !find_process(d, c, &subject)) ||
	    (m->right == RIGHT_SNAPSHOT && !find_snapshot(d, c, &subject)))
		return;
	m->handler(d, c, &subject);
}
