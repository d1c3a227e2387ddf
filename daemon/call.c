/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "daemon/call.h"

static void leave_list(struct call *c)
{
	if (c->list)
		TAILQ_REMOVE(c->list, c, link);
	c->list = NULL;
}

static void call_free(struct call *c)
{
	leave_list(c);
	json_object_put(c->root);
	free(c);
}

static void on_client_left(void *data)
{
	struct call *c = data;

	c->connection = NULL;
	if (c->list)
		call_free(c);
}

struct call *call_new(struct connection *n, const struct audit_actor *by, struct varlink_call *v)
{
	struct call *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	*c = (struct call){ .connection = n,
			    .root = TAKE_PTR(v->root),
			    .parameters = v->parameters,
			    .by = *by,
			    .more = v->more,
			    .oneway = v->oneway };
	connection_expect(n, on_client_left, c);
	return c;
}

/* Sends b as the final reply, with a descriptor or -1, and frees the call. */
static void call_finish(struct call *c, const struct buf *b, int fd)
{
	if (c->connection)
		connection_finish(c->connection, c->oneway ? NULL : b, TAKE_FD(fd));
	closep(&fd);
	call_free(c);
}

void call_reply_fd(struct call *c, json_object *parameters, int fd)
{
	_cleanup_buf_ struct buf b = { .limit = VARLINK_REPLY_MAX };
	json_object *o;

	if (parameters)
		varlink_put_reply(&b, parameters, false);
	else
		b.error = -ENOMEM;
	json_object_put(parameters);
	if (buf_error(&b) != -EFBIG) {
		call_finish(c, &b, fd);
		return;
	}
	closep(&fd);
	o = json_object_new_object();
	json_add_str(o, "limit", "the size of a reply");
	call_error(c, "org.csight.LimitReached", o);
}

void call_reply(struct call *c, json_object *parameters)
{
	call_reply_fd(c, parameters, -1);
}

void call_reply_empty(struct call *c)
{
	_cleanup_buf_ struct buf b = { .limit = VARLINK_REPLY_MAX };

	varlink_put_reply(&b, NULL, false);
	call_finish(c, &b, -1);
}

void call_error(struct call *c, const char *error, json_object *parameters)
{
	_cleanup_buf_ struct buf b = { .limit = VARLINK_REPLY_MAX };

	varlink_put_error(&b, error, parameters);
	json_object_put(parameters);
	call_finish(c, &b, -1);
}

void call_invalid(struct call *c, const char *parameter)
{
	json_object *o = json_object_new_object();

	json_add_str(o, "parameter", parameter);
	call_error(c, VARLINK_INVALID_PARAMETER, o);
}

void call_progress(struct call *c, json_object *parameters)
{
	if (c->more && c->connection) {
		_cleanup_buf_ struct buf b = { .limit = VARLINK_REPLY_MAX };

		varlink_put_reply(&b, parameters, true);
		connection_progress(c->connection, &b);
	}
	json_object_put(parameters);
}

int call_event(struct call *c, const struct buf *b)
{
	return c->connection ? connection_event(c->connection, b) : 0;
}

void call_wait(struct call *c, struct calls *list, const void *subject)
{
	if (!c->connection || !connection_wait(c->connection)) {
		call_finish(c, NULL, -1);
		return;
	}
	leave_list(c);
	c->list = list;
	c->subject = subject;
	TAILQ_INSERT_TAIL(list, c, link);
}
