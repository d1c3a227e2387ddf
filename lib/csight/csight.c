/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "lib/base/escape.h"
#include "lib/base/path.h"
#include "lib/csight/csight-internal.h"

#define INTERFACE "org.csight."

/* The daemon's event loop never blocks: if it does not reply within this time, it is broken. */
enum { ANSWER_MS = 60000 };

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
	*ret = c;
	return 0;
}

struct csight *csight_close(struct csight *c)
{
	if (!c)
		return NULL;
	varlink_stream_free(c->stream);
	free(c->socket);
	free(c->error_name);
	free(c);
	return NULL;
}

const char *csight_socket(const struct csight *c)
{
	return c->socket;
}

const char *csight_error(const struct csight *c)
{
	return c->error;
}

const char *csight_error_name(const struct csight *c)
{
	return c->error_name;
}

static void begin_call(struct csight *c, const char *fmt, ...) _printf_(2, 3);
static void begin_call(struct csight *c, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(c->doing, sizeof(c->doing), fmt, args);
	va_end(args);
	free(c->error_name);
	c->error_name = NULL;
	c->error[0] = 0;
}

static int set_error(struct csight *c, int rc, const char *fmt, ...) _printf_(3, 4);
static int set_error(struct csight *c, int rc, const char *fmt, ...)
{
	char text[sizeof(c->error)];
	va_list args;
	int n;

	n = snprintf(text, sizeof(text), "cannot %s: ", c->doing);
	va_start(args, fmt);
	vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, args);
	va_end(args);
	escape_text(text, c->error, sizeof(c->error));
	return rc;
}

/*
 * A socket at a default path may have been created by another user as a trap. Only a daemon of this user or of root is
 * trusted there.
 */
static int check_peer(struct csight *c)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (c->chosen)
		return 0;
	if (getsockopt(varlink_stream_fd(c->stream), SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return set_error(c, -EACCES, "the user that serves %s is unknown: %s", c->socket, strerror(errno));
	if (peer.uid != 0 && peer.uid != geteuid())
		return set_error(
		    c, -EACCES,
		    "%s is served by user %u, neither you nor root; to trust it, name the socket explicitly", c->socket,
		    (unsigned)peer.uid);
	return 0;
}

static int connect_daemon(struct csight *c)
{
	struct pollfd p = { .events = POLLIN };
	int rc;

	if (c->stream) {
		p.fd = varlink_stream_fd(c->stream);
		/* Between calls the daemon sends nothing, so that input means the end of the connection. */
		if (poll(&p, 1, 0) == 0)
			return 0;
		c->stream = varlink_stream_free(c->stream);
	}
	rc = varlink_connect(c->socket, &c->stream);
	if (rc == 0) {
		rc = check_peer(c);
		if (rc < 0)
			c->stream = varlink_stream_free(c->stream);
		return rc;
	}
	if (rc == -ENOMEM)
		return set_error(c, rc, "out of memory");
	if (rc == -EACCES || rc == -EPERM)
		return set_error(c, -EACCES, "no permission to connect to %s", c->socket);
	return set_error(c, -ENOTCONN, "no csightd answers at %s (%s); start csightd, or name another socket",
			 c->socket, strerror(-rc));
}

static const char *get_text_or(json_object *o, const char *key, const char *otherwise)
{
	json_get_str(o, key, &otherwise);
	return otherwise;
}

/* The daemon lacks a method: reports its version, which it has been asked for, and this one. */
static int set_version_error(struct csight *c)
{
	_cleanup_(varlink_reply_done) struct varlink_reply reply = { 0 };
	const char *version = NULL;

	if (varlink_send_call(c->stream, "org.varlink.service.GetInfo", NULL, false) == 0 &&
	    varlink_receive(c->stream, ANSWER_MS, &reply, NULL) == 0 && !reply.error && !reply.continues)
		version = get_text_or(reply.parameters, "version", NULL);
	else
		c->stream = varlink_stream_free(c->stream);
	return set_error(c, -ENOSYS,
			 "the csightd at %s does not support this: it is version %s, and this is version %s; use both "
			 "of one version, and restart csightd after an upgrade",
			 c->socket, version ? version : "unknown", PACKAGE_VERSION);
}

static int set_reply_error(struct csight *c, const struct varlink_reply *reply)
{
	const char *name = reply->error, *reason = get_text_or(reply->parameters, "reason", "no reason given");

	c->error_name = strdup(name);
	if (strncmp(name, INTERFACE, strlen(INTERFACE)) == 0)
		name += strlen(INTERFACE);
	if (strcmp(name, VARLINK_PERMISSION_DENIED) == 0)
		return set_error(c, -EPERM,
				 "it does not exist, or belongs to another user; only its owner and root have access");
	if (strcmp(name, VARLINK_INVALID_PARAMETER) == 0)
		return set_error(c, -EINVAL, "csightd rejects the value of '%s'",
				 get_text_or(reply->parameters, "parameter", "?"));
	if (strcmp(name, VARLINK_METHOD_NOT_FOUND) == 0 || strcmp(name, VARLINK_METHOD_NOT_IMPLEMENTED) == 0 ||
	    strcmp(name, VARLINK_INTERFACE_NOT_FOUND) == 0)
		return set_version_error(c);
	if (strcmp(name, "NoSuchProcess") == 0)
		return set_error(c, -ESRCH, "there is no such process");
	if (strcmp(name, "NoSuchSnapshot") == 0)
		return set_error(c, -ENOENT, "there is no such snapshot");
	if (strcmp(name, "CannotTrace") == 0)
		return set_error(c, -EOPNOTSUPP, "it cannot be traced: %s", reason);
	if (strcmp(name, "NotArmed") == 0)
		return set_error(c, -ENODATA, "it is not armed, so it has no history");
	if (strcmp(name, "NotReady") == 0)
		return set_error(c, -EBUSY, "the snapshot is %s",
				 get_text_or(reply->parameters, "state", "in another state"));
	if (strcmp(name, "SnapshotFailed") == 0)
		return set_error(c, -EIO, "%s", reason);
	if (strcmp(name, "LimitReached") == 0)
		return set_error(c, -EDQUOT, "the limit of %s is reached: %s",
				 get_text_or(reply->parameters, "limit", "something"), reason);
	if (strcmp(name, "InvalidConfiguration") == 0)
		return set_error(c, -EBADMSG, "%s; the old configuration stays in effect", reason);
	if (strcmp(name, "Ending") == 0)
		return set_error(c, -ESHUTDOWN, "csightd is ending: %s", reason);
	return set_error(c, -EPROTO, "csightd reports %s", name);
}

static int set_receive_error(struct csight *c, int rc)
{
	c->stream = varlink_stream_free(c->stream);
	switch (rc) {
	case -ENOMEM:
		return set_error(c, rc, "out of memory");
	case -ETIMEDOUT:
		return set_error(c, rc, "the csightd at %s has not replied for 60 s", c->socket);
	case -EBADMSG:
	case -EMSGSIZE:
		return set_error(c, -EPROTO, "the reply from %s is not csightd's protocol", c->socket);
	default:
		return set_error(c, -ENOTCONN, "the csightd at %s closed the connection; its log may have the reason",
				 c->socket);
	}
}

static int report_progress(struct csight *c, json_object *parameters, csight_progress_fn progress, void *userdata)
{
	uint64_t done = 0, total = 0;

	json_get_u64(parameters, "done", &done);
	json_get_u64(parameters, "total", &total);
	if (!progress || progress(userdata, get_text_or(parameters, "phase", ""), done, total) == 0)
		return 0;
	/* Closing the connection abandons the call. */
	c->stream = varlink_stream_free(c->stream);
	return set_error(c, -ECANCELED, "the wait was cancelled; csightd continues");
}

struct csight_request {
	const char *method;
	json_object *parameters; /* owned; NULL for none */
	bool more;
	csight_progress_fn progress;
	void *userdata;
	int *ret_fd; /* set if the reply carries a descriptor; else NULL */
};

/* Makes a call, passes progress on until the last reply, and stores its parameters in *ret unless NULL. */
static int call_method(struct csight *c, struct csight_request q, json_object **ret)
{
	_cleanup_json_ json_object *parameters = q.parameters;
	_cleanup_(varlink_reply_done) struct varlink_reply reply = { 0 };
	_cleanup_close_ int fd = -1;
	int rc;

	rc = connect_daemon(c);
	if (rc < 0)
		return rc;
	rc = varlink_send_call(c->stream, q.method, parameters, q.more);
	for (;;) {
		if (rc == 0)
			rc = varlink_receive(c->stream, q.more ? -1 : ANSWER_MS, &reply, q.ret_fd ? &fd : NULL);
		if (rc < 0)
			return set_receive_error(c, rc);
		if (!reply.continues)
			break;
		if (!q.more)
			return set_receive_error(c, -EBADMSG);
		rc = report_progress(c, reply.parameters, q.progress, q.userdata);
		if (rc < 0)
			return rc;
		varlink_reply_done(&reply);
	}
	if (reply.error)
		return set_reply_error(c, &reply);
	if (q.ret_fd && fd < 0)
		return set_receive_error(c, -EBADMSG);
	if (q.ret_fd)
		*q.ret_fd = TAKE_FD(fd);
	if (ret)
		*ret = json_object_get(reply.parameters);
	return 0;
}

/* Calls a method whose reply holds its result as an object in one field; *ret is that object. */
static int call_for_field(struct csight *c, struct csight_request q, const char *field, struct csight_object **ret)
{
	_cleanup_json_ json_object *o = NULL;
	json_object *inner = NULL;
	int rc = call_method(c, q, &o);

	if (rc < 0)
		return rc;
	if (json_get(o, field, json_type_object, &inner) < 0)
		return set_receive_error(c, -EBADMSG);
	if (ret)
		*ret = csight_object_of(json_object_get(inner));
	return 0;
}

/* Calls a method that replies a list in pages; *ret is an object with the whole list in the field. */
static int call_for_list(struct csight *c, const char *method, const char *field, struct csight_object **ret)
{
	_cleanup_json_ json_object *o = json_object_new_object();
	json_object *all = json_object_new_array();
	uint64_t next = 0, first;

	json_object_object_add(o, field, all);
	do {
		struct csight_request q = { .method = method };
		_cleanup_json_ json_object *page = NULL;
		json_object *list;
		int rc;

		first = next;
		if (first) {
			q.parameters = json_object_new_object();
			json_add_u64(q.parameters, "first", first);
		}
		rc = call_method(c, q, &page);
		if (rc < 0)
			return rc;
		if (json_get(page, field, json_type_array, &list) < 0)
			return set_receive_error(c, -EBADMSG);
		for (size_t i = 0; i < json_object_array_length(list); i++)
			json_object_array_add(all, json_object_get(json_object_array_get_idx(list, i)));
		/* A list that does not advance would not end. */
		next = 0;
		json_get_u64(page, "next", &next);
	} while (next > first);
	*ret = csight_object_of(TAKE_PTR(o));
	return 0;
}

static int call_for_object(struct csight *c, const char *method, struct csight_object **ret)
{
	json_object *o = NULL;
	int rc = call_method(c, (struct csight_request){ .method = method }, &o);

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

static int set_options_error(struct csight *c, int rc)
{
	return set_error(c, rc,
			 rc == -E2BIG ? "an option is set that this version of libcsight (%s) does not have"
				      : "the size of the options is not set (libcsight %s)",
			 CSIGHT_VERSION_TEXT);
}

int csight_status(struct csight *c, struct csight_object **ret)
{
	begin_call(c, "get the status of csightd");
	return call_for_object(c, INTERFACE "Status", ret);
}

int csight_targets(struct csight *c, struct csight_object **ret)
{
	begin_call(c, "list targets");
	return call_for_list(c, INTERFACE "ListTargets", "targets", ret);
}

int csight_list(struct csight *c, struct csight_object **ret)
{
	begin_call(c, "list snapshots");
	return call_for_list(c, INTERFACE "ListSnapshots", "snapshots", ret);
}

int csight_arm(struct csight *c, pid_t pid, const struct csight_arm_options *options, struct csight_object **ret)
{
	struct csight_arm_options known;
	json_object *parameters, *o;
	int rc = csight_options_read(&known, sizeof(known), options);

	begin_call(c, "arm process %d", (int)pid);
	if (rc < 0)
		return set_options_error(c, rc);
	parameters = pid_parameters(pid);
	if (options) {
		o = json_object_new_object();
		json_add_bool(o, "kernel", known.kernel);
		json_add_bool(o, "cycles", known.cycles);
		json_add_bool(o, "noTimestamps", known.no_timestamps);
		json_add_bool(o, "noContexts", known.no_contexts);
		json_add_str(o, "filter", known.filter);
		json_add_str(o, "sink", known.sink);
		json_object_object_add(parameters, "options", o);
	}
	return call_for_field(c, (struct csight_request){ .method = INTERFACE "Arm", .parameters = parameters },
			      "target", ret);
}

int csight_disarm(struct csight *c, pid_t pid)
{
	begin_call(c, "disarm process %d", (int)pid);
	return call_method(
	    c, (struct csight_request){ .method = INTERFACE "Disarm", .parameters = pid_parameters(pid) }, NULL);
}

int csight_snapshot(struct csight *c, pid_t pid, unsigned flags, csight_progress_fn progress, void *userdata,
		    struct csight_object **ret)
{
	json_object *o = pid_parameters(pid);

	begin_call(c, "take a snapshot of process %d", (int)pid);
	if (flags & CSIGHT_NO_ARM)
		json_add_bool(o, "noArm", true);
	if (flags & CSIGHT_NO_WAIT)
		json_add_bool(o, "noWait", true);
	return call_for_field(c, (struct csight_request){ INTERFACE "Snapshot", o, true, progress, userdata },
			      "snapshot", ret);
}

int csight_wait(struct csight *c, const char *id, csight_progress_fn progress, void *userdata,
		struct csight_object **ret)
{
	begin_call(c, "wait for snapshot %s", id);
	return call_for_field(c,
			      (struct csight_request){ INTERFACE "Wait", id_parameters(id), true, progress, userdata },
			      "snapshot", ret);
}

int csight_get(struct csight *c, const char *id, struct csight_object **ret)
{
	begin_call(c, "get snapshot %s", id);
	return call_for_field(
	    c, (struct csight_request){ .method = INTERFACE "GetSnapshot", .parameters = id_parameters(id) },
	    "snapshot", ret);
}

int csight_open_file(struct csight *c, const char *id, const char *file, int *ret)
{
	json_object *o = id_parameters(id);

	begin_call(c, "open '%s' of snapshot %s", file, id);
	json_add_str(o, "file", file);
	return call_method(c, (struct csight_request){ .method = INTERFACE "Open", .parameters = o, .ret_fd = ret },
			   NULL);
}

int csight_remove(struct csight *c, const char *id)
{
	begin_call(c, "remove snapshot %s", id);
	return call_method(c, (struct csight_request){ .method = INTERFACE "Remove", .parameters = id_parameters(id) },
			   NULL);
}

int csight_reload(struct csight *c, struct csight_object **ret)
{
	json_object *o = NULL;
	int rc;

	begin_call(c, "reload the configuration");
	rc = call_method(c, (struct csight_request){ .method = INTERFACE "Reload" }, ret ? &o : NULL);
	if (rc == -EPERM)
		return set_error(c, rc, "only root, and the user as whom csightd runs, may");
	if (rc == 0 && ret)
		*ret = csight_object_of(o);
	return rc;
}
