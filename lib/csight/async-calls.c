/* SPDX-License-Identifier: MIT */
/* The asynchronous calls: their messages, and the results that csight_process() passes on. */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "lib/csight/async.h"

enum {
	MESSAGE_MAX = 4096,
	RESULTS_MAX = 64, /* of one csight_process() */
};

static int read_options(const struct csight_async_options *options, struct async_request *q)
{
	int rc = csight_options_read(&q->o, sizeof(q->o), options);

	if (rc == 0 && q->o.timeout_ms)
		q->deadline_ns = now_ns(CLOCK_MONOTONIC) + (uint64_t)q->o.timeout_ms * 1000000u;
	return rc;
}

/* Formats the message without the heap, unless it has an annotation: this is the hot path. */
static int format_snapshot(struct async_request *q, pid_t pid, const char *annotation)
{
	bool no_wait = !q->o.done || (q->o.flags & CSIGHT_NO_WAIT);
	size_t room = *annotation ? MESSAGE_MAX : sizeof(q->text);
	char *text = *annotation ? (q->heap = malloc(room)) : q->text;
	int n;

	if (!text)
		return -ENOMEM;
	n = snprintf(text, room, "{\"method\":\"" INTERFACE "Snapshot\",\"parameters\":{\"pid\":%d%s%s%s}%s}", (int)pid,
		     q->o.flags & CSIGHT_NO_ARM ? ",\"noArm\":true" : "", no_wait ? ",\"noWait\":true" : "", annotation,
		     !q->o.done      ? ",\"oneway\":true"
		     : q->o.progress ? ",\"more\":true"
				     : "");
	if (n >= (int)room) {
		free(q->heap);
		return -EMSGSIZE;
	}
	q->size = (size_t)n + 1;
	return 0;
}

int async_snapshot(struct csight *c, pid_t pid, const struct csight_async_options *options, const char *annotation,
		   uint64_t *ret)
{
	struct async_request q;
	uint64_t before = 0;
	int rc;

	q.deadline_ns = 0;
	q.heap = NULL;
	q.doing = "take a snapshot of process ";
	q.field = "snapshot";
	q.wants_fd = q.stream = false;
	rc = read_options(options, &q);
	if (rc < 0)
		return rc;
	if (q.o.every_ms && !async_rate(c->async, q.o.every_ms * 1000000u, &before))
		return -EALREADY;
	rc = format_snapshot(&q, pid, annotation);
	if (rc < 0)
		return rc;
	snprintf(q.subject, sizeof(q.subject), "%d", (int)pid);
	rc = async_submit(c, &q, ret);
	if (rc < 0 && q.o.every_ms)
		async_rate_undo(c->async, before);
	return rc;
}

int csight_snapshot_async(struct csight *c, pid_t pid, const struct csight_async_options *options, uint64_t *ret)
{
	return async_snapshot(c, pid, options, "", ret);
}

/* Submits a call with a result. Consumes the parameters; NULL: there was no memory for them. */
static int submit_call(struct csight *c, struct async_request *q, const char *method, json_object *parameters,
		       uint64_t *ret)
{
	_cleanup_json_ json_object *owned = parameters;
	_cleanup_buf_ struct buf b = { .limit = MESSAGE_MAX };
	char name[80];

	if (!q->o.done)
		return -EINVAL;
	if (!parameters)
		return -ENOMEM;
	snprintf(name, sizeof(name), INTERFACE "%s", method);
	varlink_put_call(&b, name, parameters, q->stream || q->o.progress);
	if (buf_error(&b) < 0)
		return buf_error(&b) == -EFBIG ? -EMSGSIZE : buf_error(&b);
	q->size = b.size;
	if (b.size <= sizeof(q->text))
		memcpy(q->text, b.data, b.size);
	else
		q->heap = (char *)TAKE_PTR(b.data);
	return async_submit(c, q, ret);
}

static json_object *id_object(const char *id)
{
	json_object *o = json_object_new_object();

	json_add_str(o, "id", id);
	return o;
}

int csight_arm_async(struct csight *c, pid_t pid, const struct csight_arm_options *arm,
		     const struct csight_async_options *options, uint64_t *ret)
{
	struct async_request q = { .doing = "arm process ", .field = "target" };
	json_object *parameters = NULL;
	int rc = read_options(options, &q);

	if (rc == 0)
		rc = csight_arm_parameters(pid, arm, &parameters);
	if (rc < 0)
		return rc;
	snprintf(q.subject, sizeof(q.subject), "%d", (int)pid);
	return submit_call(c, &q, "Arm", parameters, ret);
}

int csight_wait_async(struct csight *c, const char *id, const struct csight_async_options *options, uint64_t *ret)
{
	struct async_request q = { .doing = "wait for snapshot ", .field = "snapshot" };
	int rc = read_options(options, &q);

	snprintf(q.subject, sizeof(q.subject), "%s", id);
	return rc < 0 ? rc : submit_call(c, &q, "Wait", id_object(id), ret);
}

int csight_open_file_async(struct csight *c, const char *id, const char *file,
			   const struct csight_async_options *options, uint64_t *ret)
{
	struct async_request q = { .doing = "open a file of snapshot ", .wants_fd = true };
	json_object *parameters;
	int rc = read_options(options, &q);

	if (rc < 0)
		return rc;
	snprintf(q.subject, sizeof(q.subject), "%s", id);
	parameters = id_object(id);
	json_add_str(parameters, "file", file);
	return submit_call(c, &q, "Open", parameters, ret);
}

int csight_call_async(struct csight *c, const char *method, const char *parameters,
		      const struct csight_async_options *options, uint64_t *ret)
{
	struct async_request q = { .doing = "call " };
	json_object *o = NULL;
	int rc = read_options(options, &q);

	if (rc == 0 && parameters)
		rc = json_parse(parameters, strlen(parameters), &o);
	if (rc < 0)
		return rc == -EBADMSG ? -EINVAL : rc;
	snprintf(q.subject, sizeof(q.subject), "%s", method);
	return submit_call(c, &q, method, parameters ? o : json_object_new_object(), ret);
}

int csight_subscribe_async(struct csight *c, const struct csight_async_options *options, uint64_t *ret)
{
	struct async_request q = { .doing = "subscribe to events", .stream = true };
	int rc = read_options(options, &q);

	return rc < 0 ? rc : submit_call(c, &q, "Subscribe", json_object_new_object(), ret);
}

/* Sets the message of a call that got no reply, and returns its error. */
static int set_end(struct csight *c, const struct async_event *e)
{
	switch (e->end) {
	case ASYNC_NO_CONNECTION:
		return csight_set_connect_error(c, e->error, e->uid);
	case ASYNC_CANCELLED:
		return csight_set_error(c, -ECANCELED, "it was cancelled; csightd completes what it has begun");
	default:
		return csight_set_receive_error(c, e->error);
	}
}

/* Returns the error of a reply, or 0 with the result, which belongs to the reply. */
static int read_reply(struct csight *c, struct async_event *e, json_object **ret)
{
	if (e->reply.error)
		return csight_set_reply_error(c, &e->reply);
	if (e->request.wants_fd && e->fd < 0)
		return csight_set_receive_error(c, -EBADMSG);
	*ret = e->reply.parameters;
	if (e->request.field && json_get(e->reply.parameters, e->request.field, json_type_object, ret) < 0)
		return csight_set_receive_error(c, -EBADMSG);
	return 0;
}

static void pass_progress(struct csight *c, const struct async_event *e)
{
	uint64_t done = 0, total = 0;
	json_object *o = e->reply.parameters;

	json_get_u64(o, "done", &done);
	json_get_u64(o, "total", &total);
	if (e->request.o.progress &&
	    e->request.o.progress(e->request.o.userdata, csight_text_or(o, "phase", ""), done, total) != 0)
		async_cancel(c->async, e->request.ticket);
}

/* Returns whether a result was passed on. */
static bool pass_event(struct csight *c, struct async_event *e)
{
	struct csight_result result = { .size = sizeof(result), .fd = -1, .more = !e->last };
	json_object *o = NULL;

	csight_begin_call(c, "%s%s", e->request.doing, e->request.subject);
	if (!e->last && !e->request.stream) {
		pass_progress(c, e);
		return false;
	}
	result.error = e->end == ASYNC_REPLY ? read_reply(c, e, &o) : set_end(c, e);
	if (result.error == 0 && e->request.wants_fd)
		result.fd = TAKE_FD(e->fd);
	result.object = csight_object_of(o);
	result.message = c->error;
	result.error_name = c->error_name;
	e->request.o.done(e->request.o.userdata, &result);
	return true;
}

static int check_owner(struct csight *c, const char *doing)
{
	csight_begin_call(c, "%s", doing);
	return c->owner == getpid() ? 0 : csight_set_connect_error(c, -ECHILD, (uid_t)-1);
}

int csight_process(struct csight *c)
{
	struct async_event e;
	int rc = check_owner(c, "process asynchronous calls"), n = 0;

	if (rc < 0)
		return rc;
	csight_notes_check(c);
	while (n < RESULTS_MAX && async_next(c->async, &e)) {
		n += pass_event(c, &e);
		varlink_reply_done(&e.reply);
		closep(&e.fd);
	}
	return n;
}

int csight_connect(struct csight *c)
{
	uid_t uid = (uid_t)-1;
	int rc = check_owner(c, "connect to csightd");

	if (rc == 0) {
		rc = async_connect(c->async, &uid);
		if (rc < 0)
			rc = csight_set_connect_error(c, rc, uid);
	}
	return rc;
}

int csight_cancel(struct csight *c, uint64_t call)
{
	return c->owner == getpid() ? async_cancel(c->async, call) : -ECHILD;
}

int csight_fd(struct csight *c)
{
	return c->owner == getpid() ? async_fd(c->async) : -ECHILD;
}

int csight_events(struct csight *c)
{
	return POLLIN;
}

int csight_timeout(struct csight *c)
{
	return c->owner == getpid() ? async_timeout(c->async) : -1;
}

int csight_async_counts(struct csight *c, struct csight_counts *counts)
{
	struct csight_counts now = async_counts(c->async);

	return csight_options_write(counts, sizeof(now), &now);
}
