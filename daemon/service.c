/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "daemon/connection.h"
#include "daemon/listener.h"
#include "daemon/service.h"
#include "lib/base/log.h"

enum {
	CONNECTIONS_MAX = 512,
	CONNECTIONS_PER_USER = 16,
	CONNECTIONS_OF_ROOT = 128,
};

struct service_client {
	TAILQ_ENTRY(service_client) link;
	struct service *service;
	struct connection *connection;
	uid_t uid;
};

struct service {
	struct event_base *base;
	void (*dispatch)(void *data, struct call *c, const char *method);
	void *data;
	struct listener *listener;
	TAILQ_HEAD(, service_client) clients;
	unsigned n_clients;
};

static int on_message(void *data, const char *text, size_t size)
{
	struct service_client *client = data;
	struct varlink_call v = { 0 };
	struct call *c = NULL;

	if (varlink_call_parse(text, size, &v) < 0 || !(c = call_new(client->connection, client->uid, &v))) {
		varlink_call_done(&v);
		return -EBADMSG;
	}
	if (v.upgrade) {
		json_object *o = json_object_new_object();

		json_add_str(o, "method", v.method);
		call_error(c, VARLINK_METHOD_NOT_IMPLEMENTED, o);
	} else {
		client->service->dispatch(client->service->data, c, v.method);
	}
	return 0;
}

static void on_closed(void *data)
{
	struct service_client *client = data;

	TAILQ_REMOVE(&client->service->clients, client, link);
	client->service->n_clients--;
	free(client);
}

static bool over_limit(const struct service *s, uid_t uid)
{
	unsigned limit = uid == 0 ? CONNECTIONS_OF_ROOT : CONNECTIONS_PER_USER, count = 0;
	const struct service_client *client;

	TAILQ_FOREACH (client, &s->clients, link)
		count += client->uid == uid;
	return count >= limit || s->n_clients >= CONNECTIONS_MAX;
}

static void on_accepted(void *data, int fd, const struct ucred *peer)
{
	struct service *s = data;
	struct service_client *client = NULL;
	struct connection_owner owner = { on_message, on_closed, NULL };

	if (over_limit(s, peer->uid)) {
		log_debug("refused a connection of uid %u: too many connections", peer->uid);
		close(fd);
		return;
	}
	client = owner.data = calloc(1, sizeof(*client));
	if (!client) {
		close(fd);
		return;
	}
	client->service = s;
	client->uid = peer->uid;
	if (connection_new(s->base, fd, peer->uid, &owner, &client->connection) < 0) {
		free(client);
		return;
	}
	TAILQ_INSERT_TAIL(&s->clients, client, link);
	s->n_clients++;
}

int service_new(struct event_base *base, const struct service_options *options, pid_t *ret_pid, struct service **ret)
{
	struct service *s = calloc(1, sizeof(*s));
	struct listener_options listen = {
		.path = options->path, .type = SOCK_STREAM, .mode = options->mode, .accepted = on_accepted, .data = s
	};
	int rc;

	if (!s)
		return -ENOMEM;
	s->base = base;
	s->dispatch = options->dispatch;
	s->data = options->data;
	TAILQ_INIT(&s->clients);
	rc = listener_new(base, &listen, ret_pid, &s->listener);
	if (rc < 0) {
		free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

struct service *service_free(struct service *s)
{
	struct service_client *client;

	if (!s)
		return NULL;
	while ((client = TAILQ_FIRST(&s->clients)))
		connection_free(client->connection);
	listener_free(s->listener);
	free(s);
	return NULL;
}
