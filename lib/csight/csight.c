/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "lib/base/path.h"
#include "lib/csight/csight-internal.h"

/* True if the directory of a path belongs to this user or to root, and no other user can write to it. */
static bool owned(const char *path)
{
	char dir[4096];
	struct stat st;

	snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(path, '/') - path), path);
	return lstat(dir, &st) == 0 && S_ISDIR(st.st_mode) && (st.st_uid == geteuid() || st.st_uid == 0) &&
	       (st.st_mode & 022) == 0;
}

static int find_socket(char *ret, size_t size)
{
	int rc = path_user_socket(ret, size);

	if (rc < 0)
		return rc;
	/* Another user may have made a directory of that name in /tmp. */
	if (access(ret, F_OK) < 0 || !owned(ret))
		snprintf(ret, size, "%s", SYSTEM_SOCKET);
	return 0;
}

int csight_open(const char *socket, struct csight **ret)
{
	struct csight *c;
	char path[4096];
	int rc;

	if (!socket || !*socket)
		socket = secure_getenv("CSIGHT_SOCKET");
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->chosen = socket && *socket;
	if (!c->chosen) {
		rc = find_socket(path, sizeof(path));
		if (rc < 0) {
			free(c);
			return rc;
		}
		socket = path;
	}
	c->socket = strdup(socket);
	if (!c->socket) {
		free(c);
		return -ENOMEM;
	}
	c->owner = getpid();
	c->async = csight_async_new(c);
	if (!c->async) {
		csight_close(c);
		return -ENOMEM;
	}
	*ret = c;
	return 0;
}

struct csight *csight_close(struct csight *c)
{
	if (!c)
		return NULL;
	csight_async_free(c->async);
	csight_notes_close(c);
	varlink_stream_free(c->stream);
	free(c->socket);
	free(c->error_name);
	free(c);
	return NULL;
}

void csight_set_timeout(struct csight *c, int ms)
{
	c->timeout_ms = ms;
}

const char *csight_socket(const struct csight *c)
{
	return c->socket;
}

int csight_check_peer(struct csight *c, int fd, uid_t *ret_uid)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	*ret_uid = (uid_t)-1;
	if (c->chosen)
		return 0;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return -errno;
	*ret_uid = peer.uid;
	return peer.uid != 0 && peer.uid != geteuid() ? -EACCES : 0;
}

/* Returns the time in ms until end, CLOCK_MONOTONIC ns; -1 for end 0: no limit. */
static int remaining_ms(uint64_t end)
{
	uint64_t now = now_ns(CLOCK_MONOTONIC);

	return !end ? -1 : now >= end ? 0 : (int)((end - now + 999999) / 1000000);
}

static int connect_daemon(struct csight *c, uint64_t end)
{
	struct pollfd p = { .events = POLLIN };
	uid_t uid = (uid_t)-1;
	int rc;

	if (c->owner != getpid())
		return csight_set_connect_error(c, -ECHILD, uid);
	if (c->stream) {
		p.fd = varlink_stream_fd(c->stream);
		/* Between calls the daemon sends nothing, so that input means the end of the connection. */
		if (poll(&p, 1, 0) == 0)
			return 0;
		c->stream = varlink_stream_free(c->stream);
	}
	rc = varlink_connect(c->socket, remaining_ms(end), &c->stream);
	if (rc == 0)
		rc = csight_check_peer(c, varlink_stream_fd(c->stream), &uid);
	if (rc == 0)
		return 0;
	c->stream = varlink_stream_free(c->stream);
	return csight_set_connect_error(c, rc, uid);
}

/* Asks the daemon for its version, since it lacks a method. */
static int set_missing_method_error(struct csight *c)
{
	_cleanup_(varlink_reply_done) struct varlink_reply reply = { 0 };
	const char *version = NULL;

	if (varlink_send_call(c->stream, "org.varlink.service.GetInfo", NULL, false) == 0 &&
	    varlink_receive(c->stream, ANSWER_MS, &reply, NULL) == 0 && !reply.error && !reply.continues)
		version = csight_text_or(reply.parameters, "version", NULL);
	else
		c->stream = varlink_stream_free(c->stream);
	return csight_set_version_error(c, version);
}

static int drop_stream(struct csight *c, int rc)
{
	c->stream = varlink_stream_free(c->stream);
	return csight_set_receive_error(c, rc);
}

static int report_progress(struct csight *c, const struct csight_request *q, json_object *parameters)
{
	uint64_t done = 0, total = 0;
	int stop = 0;

	json_get_u64(parameters, "done", &done);
	json_get_u64(parameters, "total", &total);
	if (q->event)
		stop = q->event(q->userdata, csight_object_of(parameters));
	else if (q->progress)
		stop = q->progress(q->userdata, csight_text_or(parameters, "phase", ""), done, total);
	if (!stop)
		return 0;
	/* Closing the connection abandons the call. */
	c->stream = varlink_stream_free(c->stream);
	return csight_set_error(c, -ECANCELED, "the wait was cancelled; csightd continues");
}

/* Connects again and repeats a call whose connection was closed without a reply, as when the daemon is restarted. */
static int repeat_call(struct csight *c, const struct csight_request *q, json_object *parameters, uint64_t end,
		       int failure)
{
	static const char *const methods[] = { INTERFACE "Status",        INTERFACE "ListTargets",
					       INTERFACE "ListSnapshots", INTERFACE "GetSnapshot",
					       INTERFACE "ListTriggers",  INTERFACE "ListStanding",
					       INTERFACE "Wait" };
	bool harmless = false;

	for (size_t i = 0; i < ELEMENTS(methods); i++)
		harmless |= strcmp(q->method, methods[i]) == 0;
	if (!harmless || (failure != -EPIPE && failure != -ECONNRESET))
		return failure;
	c->stream = varlink_stream_free(c->stream);
	if (connect_daemon(c, end) < 0)
		return failure;
	return varlink_send_call(c->stream, q->method, parameters, q->more);
}

int csight_call_method(struct csight *c, struct csight_request q, json_object **ret)
{
	_cleanup_json_ json_object *parameters = q.parameters;
	_cleanup_(varlink_reply_done) struct varlink_reply reply = { 0 };
	_cleanup_close_ int fd = -1;
	bool repeated = false;
	uint64_t end = 0;
	int rc;

	if (c->timeout_ms > 0 || !q.more)
		end = now_ns(CLOCK_MONOTONIC) + (uint64_t)(c->timeout_ms > 0 ? c->timeout_ms : ANSWER_MS) * 1000000u;
	if (!parameters && !q.bare)
		return csight_set_error(c, -ENOMEM, "out of memory");
	rc = connect_daemon(c, end);
	if (rc < 0)
		return rc;
	rc = varlink_send_call(c->stream, q.method, parameters, q.more);
	if (rc == -EMSGSIZE)
		return csight_set_error(c, -EINVAL, "the arguments are too long");
	for (;;) {
		if (rc == 0)
			rc = varlink_receive(c->stream, remaining_ms(end), &reply, q.ret_fd ? &fd : NULL);
		if (rc < 0 && !repeated) {
			repeated = true;
			rc = repeat_call(c, &q, parameters, end, rc);
			if (rc == 0)
				continue;
		}
		if (rc < 0)
			return drop_stream(c, rc);
		if (!reply.continues)
			break;
		if (!q.more)
			return drop_stream(c, -EBADMSG);
		rc = report_progress(c, &q, reply.parameters);
		if (rc < 0)
			return rc;
		varlink_reply_done(&reply);
	}
	if (reply.error) {
		rc = csight_set_reply_error(c, &reply);
		return rc == -ENOSYS ? set_missing_method_error(c) : rc;
	}
	if (q.ret_fd && fd < 0)
		return drop_stream(c, -EBADMSG);
	if (q.ret_fd)
		*q.ret_fd = TAKE_FD(fd);
	if (ret)
		*ret = json_object_get(reply.parameters);
	return 0;
}

/* Calls a method whose reply holds its result as an object in one field; *ret is that object. */
int csight_call_for_field(struct csight *c, struct csight_request q, const char *field, struct csight_object **ret)
{
	_cleanup_json_ json_object *o = NULL;
	json_object *inner = NULL;
	int rc = csight_call_method(c, q, &o);

	if (rc < 0)
		return rc;
	if (json_get(o, field, json_type_object, &inner) < 0)
		return drop_stream(c, -EBADMSG);
	if (ret)
		*ret = csight_object_of(json_object_get(inner));
	return 0;
}

int csight_call_for_list(struct csight *c, const char *method, const char *field, struct csight_object **ret)
{
	_cleanup_json_ json_object *o = json_object_new_object(), *all = json_object_new_array();
	uint64_t next = 0, first;

	do {
		struct csight_request q = { .method = method, .bare = next == 0 };
		_cleanup_json_ json_object *page = NULL;
		json_object *list;
		int rc;

		first = next;
		if (first) {
			q.parameters = json_object_new_object();
			json_add_u64(q.parameters, "first", first);
		}
		rc = csight_call_method(c, q, &page);
		if (rc < 0)
			return rc;
		if (json_get(page, field, json_type_array, &list) < 0)
			return drop_stream(c, -EBADMSG);
		for (size_t i = 0; i < json_array_size(list); i++)
			json_array_add(all, json_object_get(json_object_array_get_idx(list, i)));
		/* A list that does not advance would not end. */
		next = 0;
		json_get_u64(page, "next", &next);
	} while (next > first);
	json_add(o, field, TAKE_PTR(all));
	if (!o || json_is_incomplete(o))
		return csight_set_receive_error(c, -ENOMEM);
	*ret = csight_object_of(TAKE_PTR(o));
	return 0;
}

static int call_for_object(struct csight *c, const char *method, struct csight_object **ret)
{
	json_object *o = NULL;
	int rc = csight_call_method(c, (struct csight_request){ .method = method, .bare = true }, &o);

	if (rc == 0)
		*ret = csight_object_of(o);
	return rc;
}

static json_object *pid_parameters(pid_t pid)
{
	json_object *o = json_object_new_object();

	json_add_i64(o, "pid", pid);
	return o;
}

static json_object *id_parameters(const char *id)
{
	json_object *o = json_object_new_object();

	json_add_str(o, "id", id);
	return o;
}

int csight_status(struct csight *c, struct csight_object **ret)
{
	csight_begin_call(c, "get the status of csightd");
	return call_for_object(c, INTERFACE "Status", ret);
}

int csight_targets(struct csight *c, struct csight_object **ret)
{
	csight_begin_call(c, "list targets");
	return csight_call_for_list(c, INTERFACE "ListTargets", "targets", ret);
}

int csight_list(struct csight *c, struct csight_object **ret)
{
	csight_begin_call(c, "list snapshots");
	return csight_call_for_list(c, INTERFACE "ListSnapshots", "snapshots", ret);
}

int csight_add_arm_options(json_object *parameters, const struct csight_arm_options *options)
{
	struct csight_arm_options known;
	json_object *o;
	int rc = csight_options_read(&known, sizeof(known), options);

	if (rc < 0 || !options)
		return rc;
	o = json_object_new_object();
	json_add_bool(o, "kernel", known.kernel);
	json_add_bool(o, "cycles", known.cycles);
	json_add_bool(o, "noTimestamps", known.no_timestamps);
	json_add_bool(o, "noContexts", known.no_contexts);
	json_add_str(o, "filter", known.filter);
	json_add_str(o, "sink", known.sink);
	json_add_str(o, "counters", known.counters);
	json_add_str(o, "cpus", known.cpus);
	json_add_bool(o, "branchBroadcast", known.branch_broadcast);
	json_add_bool(o, "noReturnStack", known.no_return_stack);
	json_add_str(o, "mode", known.mode);
	if (known.cycle_threshold)
		json_add_u64(o, "cycleThreshold", known.cycle_threshold);
	if (known.timestamp_interval)
		json_add_u64(o, "timestampInterval", known.timestamp_interval);
	if (known.thread)
		json_add_u64(o, "thread", known.thread);
	if (known.ring_size)
		json_add_u64(o, "ringSize", known.ring_size);
	json_add(parameters, "options", o);
	return 0;
}

int csight_arm_parameters(pid_t pid, const struct csight_arm_options *options, json_object **ret)
{
	json_object *parameters = pid_parameters(pid);
	int rc = csight_add_arm_options(parameters, options);

	if (rc < 0)
		json_object_put(parameters);
	else
		*ret = parameters;
	return rc;
}

int csight_arm(struct csight *c, pid_t pid, const struct csight_arm_options *options, struct csight_object **ret)
{
	json_object *parameters = NULL;
	int rc = csight_arm_parameters(pid, options, &parameters);

	csight_begin_call(c, "arm process %d", (int)pid);
	if (rc < 0)
		return csight_set_options_error(c, rc);
	return csight_call_for_field(c, (struct csight_request){ .method = INTERFACE "Arm", .parameters = parameters },
				     "target", ret);
}

int csight_disarm(struct csight *c, pid_t pid)
{
	csight_begin_call(c, "disarm process %d", (int)pid);
	return csight_call_method(
	    c, (struct csight_request){ .method = INTERFACE "Disarm", .parameters = pid_parameters(pid) }, NULL);
}

/* Adds texts NAME=VALUE as a list of labels. Returns the text that has no '=', or NULL. */
static const char *add_labels(json_object *o, const char *const *labels)
{
	json_object *list = json_object_new_array();

	for (; *labels; labels++) {
		const char *value = strchr(*labels, '=');
		json_object *label;

		if (!value) {
			json_object_put(list);
			return *labels;
		}
		label = json_object_new_object();
		json_add(label, "name", json_object_new_string_len(*labels, (int)(value - *labels)));
		json_add_str(label, "value", value + 1);
		json_array_add(list, label);
	}
	json_add(o, "labels", list);
	return NULL;
}

static void add_record(json_object *o, const struct csight_snapshot_options *options)
{
	json_object *record = json_object_new_object();

	if (options->max_time)
		json_add_u64(record, "maxTime", options->max_time);
	if (options->max_bytes)
		json_add_u64(record, "maxBytes", options->max_bytes);
	if (options->max_rate)
		json_add_u64(record, "maxRate", options->max_rate);
	json_add(o, "record", record);
}

int csight_snapshot_parameters(struct csight *c, pid_t pid, const struct csight_snapshot_options *options,
			       json_object **ret)
{
	struct csight_snapshot_options known;
	int rc = csight_options_read(&known, sizeof(known), options);
	const char *bad;
	json_object *o;

	csight_begin_call(c, "take a snapshot of process %d", (int)pid);
	if (rc < 0)
		return csight_set_options_error(c, rc);
	o = pid_parameters(pid);
	if (known.flags & CSIGHT_NO_ARM)
		json_add_bool(o, "noArm", true);
	if (known.flags & CSIGHT_NO_WAIT)
		json_add_bool(o, "noWait", true);
	json_add_str(o, "why", known.reason);
	if (known.last)
		json_add_u64(o, "last", known.last);
	if (known.record)
		add_record(o, &known);
	bad = known.labels ? add_labels(o, known.labels) : NULL;
	if (bad) {
		json_object_put(o);
		return csight_set_error(c, -EINVAL, "the label '%s' is not NAME=VALUE", bad);
	}
	*ret = o;
	return 0;
}

/* The functions that a recording reports to. */
struct record_call {
	struct csight_snapshot_options options;
	csight_progress_fn progress;
	void *userdata;
};

static int on_record_event(void *userdata, const struct csight_object *reply)
{
	const struct csight_object *snapshot = csight_field(reply, "snapshot");
	const struct record_call *r = userdata;
	const char *phase = csight_text(reply, "phase");

	if (snapshot)
		return r->options.recording ? r->options.recording(r->userdata, snapshot) : 0;
	return r->progress ? r->progress(r->userdata, phase ? phase : "", (uint64_t)csight_number(reply, "done", 0),
					 (uint64_t)csight_number(reply, "total", 0))
			   : 0;
}

int csight_snapshot_with(struct csight *c, pid_t pid, const struct csight_snapshot_options *options,
			 csight_progress_fn progress, void *userdata, struct csight_object **ret)
{
	struct record_call r = { .progress = progress, .userdata = userdata };
	json_object *o;
	int rc = csight_snapshot_parameters(c, pid, options, &o);

	if (rc < 0)
		return rc;
	csight_options_read(&r.options, sizeof(r.options), options);
	if (r.options.record)
		return csight_call_for_field(c,
					     (struct csight_request){ .method = INTERFACE "Snapshot",
								      .parameters = o,
								      .more = true,
								      .userdata = &r,
								      .event = on_record_event },
					     "snapshot", ret);
	return csight_call_for_field(c, (struct csight_request){ INTERFACE "Snapshot", o, true, progress, userdata },
				     "snapshot", ret);
}

int csight_snapshot(struct csight *c, pid_t pid, unsigned flags, csight_progress_fn progress, void *userdata,
		    struct csight_object **ret)
{
	struct csight_snapshot_options options = { .size = sizeof(options), .flags = flags };

	return csight_snapshot_with(c, pid, &options, progress, userdata, ret);
}

int csight_end_recording(struct csight *c, const char *id)
{
	csight_begin_call(c, "end the recording of snapshot %s", id);
	return csight_call_method(
	    c, (struct csight_request){ .method = INTERFACE "EndRecording", .parameters = id_parameters(id) }, NULL);
}

int csight_tail(struct csight *c, pid_t pid, const struct csight_tail_options *options, int *ret_fd)
{
	struct csight_tail_options known;
	int rc = csight_options_read(&known, sizeof(known), options);
	json_object *o;

	csight_begin_call(c, "follow process %d", (int)pid);
	if (rc < 0)
		return csight_set_options_error(c, rc);
	o = pid_parameters(pid);
	if (known.max_time)
		json_add_u64(o, "maxTime", known.max_time);
	return csight_call_method(
	    c, (struct csight_request){ .method = INTERFACE "Tail", .parameters = o, .ret_fd = ret_fd }, NULL);
}

int csight_wait(struct csight *c, const char *id, csight_progress_fn progress, void *userdata,
		struct csight_object **ret)
{
	csight_begin_call(c, "wait for snapshot %s", id);
	return csight_call_for_field(
	    c, (struct csight_request){ INTERFACE "Wait", id_parameters(id), true, progress, userdata }, "snapshot",
	    ret);
}

int csight_get(struct csight *c, const char *id, struct csight_object **ret)
{
	csight_begin_call(c, "get snapshot %s", id);
	return csight_call_for_field(
	    c, (struct csight_request){ .method = INTERFACE "GetSnapshot", .parameters = id_parameters(id) },
	    "snapshot", ret);
}

int csight_open_file(struct csight *c, const char *id, const char *file, int *ret)
{
	json_object *o = id_parameters(id);

	csight_begin_call(c, "open '%s' of snapshot %s", file, id);
	json_add_str(o, "file", file);
	return csight_call_method(
	    c, (struct csight_request){ .method = INTERFACE "Open", .parameters = o, .ret_fd = ret }, NULL);
}

int csight_remove(struct csight *c, const char *id)
{
	csight_begin_call(c, "remove snapshot %s", id);
	return csight_call_method(
	    c, (struct csight_request){ .method = INTERFACE "Remove", .parameters = id_parameters(id) }, NULL);
}

int csight_keep(struct csight *c, const char *id, bool keep)
{
	json_object *o = id_parameters(id);

	csight_begin_call(c, keep ? "keep snapshot %s" : "keep snapshot %s no longer", id);
	json_add_bool(o, "keep", keep);
	return csight_call_method(c, (struct csight_request){ .method = INTERFACE "Keep", .parameters = o }, NULL);
}

int csight_pause(struct csight *c, bool pause)
{
	json_object *o = json_object_new_object();
	int rc;

	csight_begin_call(c, pause ? "pause all recording" : "resume all recording");
	json_add_bool(o, "pause", pause);
	rc = csight_call_method(c, (struct csight_request){ .method = INTERFACE "Pause", .parameters = o }, NULL);
	return rc == -EPERM ? csight_set_error(c, rc, "only root, and the user as whom csightd runs, may") : rc;
}

int csight_reload(struct csight *c, struct csight_object **ret)
{
	json_object *o = NULL;
	int rc;

	csight_begin_call(c, "reload the configuration");
	rc = csight_call_method(c, (struct csight_request){ .method = INTERFACE "Reload", .bare = true },
				ret ? &o : NULL);
	if (rc == -EPERM)
		return csight_set_error(c, rc, "only root, and the user as whom csightd runs, may");
	if (rc == 0 && ret)
		*ret = csight_object_of(o);
	return rc;
}
