/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>
#include <time.h>

#include "daemon/connection.h"
#include "daemon/listener.h"
#include "daemon/service.h"
#include "lib/base/log.h"

static const uint64_t flush_ns = 1000000000; /* for clients to read their last reply */

struct service_client {
	TAILQ_ENTRY(service_client) link;
	struct service *service;
	struct connection *connection;
	struct audit_actor by;
	gid_t *groups;
	size_t n_groups;
	bool denied; /* by the configuration */
	struct charge charge;
	struct turn turn;
};

struct service {
	struct service_options o;
	struct event_base *base;
	struct listener *listener;
	TAILQ_HEAD(, service_client) clients;
};

static void service_client_free(struct service_client *client)
{
	if (!client)
		return;
	ledger_return(&client->charge);
	free(client->groups);
	free(client);
}

static bool is_denied(const struct service *s, const struct service_client *client)
{
	return !settings_permit(s->o.settings, ledger_owner(s->o.ledger, client->by.uid), client->groups,
				client->n_groups);
}

static int on_message(void *data, const char *text, size_t size)
{
	struct service_client *client = data;
	struct varlink_call v = { 0 };
	struct call *c;
	int rc = varlink_call_parse(text, size, &v);

	if (rc < 0)
		return rc;
	c = call_new(client->connection, &client->by, &v);
	if (!c) {
		varlink_call_done(&v);
		return -ENOMEM;
	}
	if (v.upgrade) {
		json_object *o = json_object_new_object();

		json_add_str(o, "method", v.method);
		call_error(c, VARLINK_METHOD_NOT_IMPLEMENTED, o);
	} else if (client->denied) {
		audit_deny(&client->by, AUDIT_CONNECT, &(struct audit_object){ 0 });
		call_error(c, VARLINK_PERMISSION_DENIED, NULL);
	} else {
		client->service->o.dispatch(client->service->o.data, c, v.method);
	}
	return 0;
}

static void run_turn(struct turn *t)
{
	connection_turn(container_of(t, struct service_client, turn)->connection);
}

static void on_ready(void *data)
{
	struct service_client *client = data;

	turns_wait(client->service->o.turns, &client->turn, client->by.uid);
}

static void on_closed(void *data)
{
	struct service_client *client = data;
	struct service *s = client->service;

	turns_leave(s->o.turns, &client->turn);
	TAILQ_REMOVE(&s->clients, client, link);
	service_client_free(client);
}

/* Frees the connection that has been idle for longest, of the user who has most. Returns false if there is none. */
static bool drop_idle(struct service *s)
{
	struct service_client *client, *found = NULL;
	uint64_t most = 0, since = 0;

	TAILQ_FOREACH (client, &s->clients, link) {
		uint64_t idle = connection_idle_since(client->connection), n;

		if (!idle || client->by.uid == 0)
			continue;
		n = ledger_used(s->o.ledger, client->by.uid, LEDGER_CONNECTIONS);
		if (found && (n < most || (n == most && idle >= since)))
			continue;
		found = client;
		most = n;
		since = idle;
	}
	if (!found)
		return false;
	log_debug("closed an idle connection of uid %u: connections-max is reached", found->by.uid);
	connection_free(found->connection);
	return true;
}

static int charge_client(struct service *s, const struct audit_actor *by, struct charge *ret)
{
	struct ledger_refusal why = { 0 };
	uid_t uid = by->uid;
	int rc = ledger_charge(s->o.ledger, uid, LEDGER_CONNECTIONS, 1, ret, &why);

	while (rc == -EDQUOT && why.machine && drop_idle(s))
		rc = ledger_charge(s->o.ledger, uid, LEDGER_CONNECTIONS, 1, ret, &why);
	if (rc < 0)
		audit_limit(by, AUDIT_CONNECT, &(struct audit_object){ 0 }, &why);
	return rc;
}

static struct service_client *service_client_new(struct service *s, const struct listener_peer *peer)
{
	struct service_client *client = calloc(1, sizeof(*client));

	if (!client)
		return NULL;
	client->service = s;
	client->turn.run = run_turn;
	client->by = (struct audit_actor){ s->o.audit, peer->uid, peer->pid, peer->login_uid };
	client->n_groups = peer->n_groups;
	client->groups = malloc(peer->n_groups * sizeof(*client->groups));
	if (!client->groups || charge_client(s, &client->by, &client->charge) < 0) {
		service_client_free(client);
		return NULL;
	}
	memcpy(client->groups, peer->groups, peer->n_groups * sizeof(*client->groups));
	client->denied = is_denied(s, client);
	return client;
}

static void on_accepted(void *data, int fd, const struct listener_peer *peer)
{
	struct service *s = data;
	struct service_client *client = service_client_new(s, peer);
	struct connection_owner owner = { on_message, on_ready, on_closed, client, s->o.ledger };

	if (!client) {
		close(fd);
		return;
	}
	if (connection_new(s->base, fd, peer->uid, &owner, &client->connection) < 0) {
		service_client_free(client);
		return;
	}
	TAILQ_INSERT_TAIL(&s->clients, client, link);
}

void service_update(struct service *s)
{
	struct service_client *client;

	TAILQ_FOREACH (client, &s->clients, link)
		client->denied = is_denied(s, client);
}

static const struct service_client *find_client(const struct service *s, const struct connection *n)
{
	const struct service_client *client;

	TAILQ_FOREACH (client, &s->clients, link)
		if (client->connection == n)
			return client;
	return NULL;
}

bool service_denies(const struct service *s, const struct connection *n)
{
	const struct service_client *client = find_client(s, n);

	return client && client->denied;
}

const gid_t *service_groups(const struct service *s, const struct connection *n, size_t *ret_n)
{
	const struct service_client *client = find_client(s, n);

	*ret_n = client ? client->n_groups : 0;
	return client ? client->groups : NULL;
}

bool service_busy(const struct service *s)
{
	const struct service_client *client;

	TAILQ_FOREACH (client, &s->clients, link)
		if (connection_busy(client->connection))
			return true;
	return false;
}

void service_flush(struct service *s)
{
	const struct timespec pause = { 0, 10000000 };
	uint64_t until = now_ns(CLOCK_MONOTONIC) + flush_ns;
	struct service_client *client;
	bool left;

	do {
		left = false;
		TAILQ_FOREACH (client, &s->clients, link)
			left |= connection_flush(client->connection);
	} while (left && now_ns(CLOCK_MONOTONIC) < until && nanosleep(&pause, NULL) == 0);
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
	s->o = *options;
	s->base = base;
	TAILQ_INIT(&s->clients);
	rc = listener_new(base, &listen, ret_pid, &s->listener);
	if (rc < 0) {
		service_free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

void service_hold(struct service *s, bool hold)
{
	listener_hold(s->listener, hold);
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
