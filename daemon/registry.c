/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/capture/emu/emu.h"
#include "daemon/capture/process/file-identity.h"
#include "daemon/listener.h"
#include "daemon/policy.h"
#include "daemon/registry.h"
#include "daemon/target.h"
#include "lib/base/escape.h"
#include "lib/base/io.h"
#include "lib/base/log.h"

enum {
	UNREGISTERED_SECONDS = 10, /* until such a connection is closed */
	MESSAGES_A_TURN = 64,
};

/* The connection of a program. It exists as long as the program. */
struct registrant {
	TAILQ_ENTRY(registrant) link;
	struct registry *registry;
	int fd;
	struct ucred peer;
	struct event *event, *timer;
	struct charge charge;  /* until the program registers */
	struct target *target; /* NULL until then */
};

struct registry {
	struct registry_options o;
	struct listener *listener;
	TAILQ_HEAD(, registrant) registrants;
};

static void registrant_free(struct registrant *g)
{
	TAILQ_REMOVE(&g->registry->registrants, g, link);
	if (g->event)
		event_free(g->event);
	if (g->timer)
		event_free(g->timer);
	ledger_return(&g->charge);
	target_unref(g->target);
	close(g->fd);
	free(g);
}

/* Closes received descriptors, which may block, on the workqueue. */
static void discard_fds(struct registry *r, const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		target_file_unref(target_file_new(r->o.open_queue, 0, fds[i]));
}

static void send_welcome(struct registrant *g, int rc)
{
	struct emu_message m = { .magic = EMU_MAGIC, .version = EMU_VERSION, .type = EMU_WELCOME, .value = rc };

	io_send_fds(g->fd, &m, sizeof(m), NULL, 0);
}

static int handle_messages(struct registrant *g, int limit);

static void drain_target(void *data)
{
	handle_messages(data, INT_MAX);
}

static void on_target_gone(void *data)
{
	struct registrant *g = data;

	handle_messages(g, INT_MAX);
	registrant_free(g);
}

/* Makes a target of the program. Owns memfd. */
static int register_program(struct registrant *g, int memfd)
{
	const struct registry_options *o = &g->registry->o;
	_cleanup_free_ struct emu_about *about = malloc(sizeof(*about));
	struct capture_source *source;
	struct ledger_refusal why = { 0 };
	struct reason reason = { "" };
	struct target_info info = { .pid = g->peer.pid, .uid = g->peer.uid, .gid = g->peer.gid };
	int rc;

	if (!about) {
		discard_fds(g->registry, &memfd, 1);
		return -ENOMEM;
	}
	/* Only a memfd is accepted: reading another file could block. */
	if (fcntl(memfd, F_GET_SEALS) < 0) {
		discard_fds(g->registry, &memfd, 1);
		return -EPERM;
	}
	rc = emu_source_new(memfd, g->peer.uid, about, &source);
	if (rc < 0)
		return rc;
	info.parent = (pid_t)about->parent;
	info.name = about->name;
	info.exe = about->exe;
	info.arguments = about->arguments;
	info.arguments_size = about->arguments_size;
	/* While a child holds the connection of an ended process, another process may have got the pid. */
	rc = policy_process(g->peer.uid, g->peer.pid);
	if (rc < 0) {
		source->ops->free(source);
		return rc;
	}
	rc = target_new(o->targets, &info, source, &g->target, &why);
	if (rc == -EDQUOT) {
		ledger_explain(&why, &reason);
		log_warning("cannot arm process %d of uid %u: %s", (int)info.pid, info.uid, reason.text);
		return -EUSERS;
	}
	if (rc < 0)
		return rc;
	ledger_return(&g->charge);
	ring_move(&g->target->ring, RING_ARMED);
	g->target->hang_up = on_target_gone;
	g->target->drain = drain_target;
	g->target->data = g;
	log_info("process %d (%s) of uid %u is armed", (int)info.pid, esc(info.name), info.uid);
	return 0;
}

static void add_file(struct registrant *g, int64_t id, int fd)
{
	struct file_identity is;
	struct target_file *f;
	int flags = fcntl(fd, F_GETFL);
	bool good = id > 0 && id <= UINT32_MAX && flags >= 0 && (flags & O_ACCMODE) == O_RDONLY && !(flags & O_PATH) &&
		    file_identify(fd, &is) == 0 && is.regular;

	f = target_file_new(g->registry->o.open_queue, good ? (uint32_t)id : 0, fd);
	if (!f || !good) {
		g->target->lost_files++;
		target_file_unref(f);
		return;
	}
	target_add_file(g->target, f);
}

/* Returns 0; a negative errno that ends the connection; or 1 if the registration was refused, and the reply sent. */
static int handle_message(struct registrant *g, const struct emu_message *m, const int *fds, size_t n_fds)
{
	bool valid = m->magic == EMU_MAGIC && m->version == EMU_VERSION && n_fds == 1;
	int rc;

	if (g->target && valid && m->type == EMU_FILE) {
		add_file(g, m->value, fds[0]);
		return 0;
	}
	if (!g->target && valid && m->type == EMU_HELLO) {
		event_del(g->timer);
		rc = register_program(g, fds[0]);
	} else {
		discard_fds(g->registry, fds, n_fds);
		rc = g->target                                            ? -EBADMSG
		     : m->magic == EMU_MAGIC && m->version != EMU_VERSION ? -EPROTONOSUPPORT
									  : -EBADMSG;
		if (g->target)
			return rc;
	}
	send_welcome(g, rc);
	if (rc == 0)
		return 0;
	if (m->magic == EMU_MAGIC && m->version != EMU_VERSION)
		log_warning("refused the registration of process %d of uid %u: the rings of its csight-etm.so have "
			    "version %u, and those of this csightd version %d; use both of one release",
			    (int)g->peer.pid, g->peer.uid, m->version, EMU_VERSION);
	else
		log_warning("refused the registration of process %d of uid %u: %s", (int)g->peer.pid, g->peer.uid,
			    strerror(-rc));
	return 1;
}

/* Handles up to limit messages. 0 and -EAGAIN: the connection continues; other values end it. */
static int handle_messages(struct registrant *g, int limit)
{
	while (limit-- > 0) {
		struct emu_message m;
		int fds[IO_FDS_MAX];
		size_t n_fds = IO_FDS_MAX;
		ssize_t n = io_receive_fds(g->fd, &m, sizeof(m), fds, &n_fds, MSG_DONTWAIT);
		int rc;

		if (n == -EINTR)
			continue;
		if (n == -EMSGSIZE && g->target) {
			/* csightd had no free descriptor, or the message carried too many. */
			g->target->lost_files++;
			continue;
		}
		if (n <= 0)
			return n == 0 ? -EPIPE : (int)n;
		if ((size_t)n != sizeof(m)) {
			discard_fds(g->registry, fds, n_fds);
			return -EBADMSG;
		}
		rc = handle_message(g, &m, fds, n_fds);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static void registrant_end(struct registrant *g)
{
	if (g->target) {
		/* This calls on_target_gone(), which frees g. */
		struct target *t = target_ref(g->target);

		target_gone(t);
		target_unref(t);
	} else {
		registrant_free(g);
	}
}

static void on_message(evutil_socket_t fd, short what, void *data)
{
	struct registrant *g = data;
	int rc = handle_messages(g, MESSAGES_A_TURN);

	if (rc == -EBADMSG)
		log_warning("process %d of uid %u sent an invalid message after its registration", (int)g->peer.pid,
			    g->peer.uid);
	if (rc != 0 && rc != -EAGAIN)
		registrant_end(g);
}

static void on_deadline(evutil_socket_t fd, short what, void *data)
{
	registrant_free(data);
}

static void on_accepted(void *data, int fd, const struct listener_peer *peer)
{
	struct registry *r = data;
	struct timeval limit = { UNREGISTERED_SECONDS, 0 };
	struct charge charge = { 0 };
	struct registrant *g;

	if (peer->pid <= 0 ||
	    !settings_permit(r->o.settings, ledger_owner(r->o.ledger, peer->uid), peer->groups, peer->n_groups) ||
	    ledger_charge(r->o.ledger, peer->uid, LEDGER_REGISTRATIONS, 1, &charge, NULL) < 0 ||
	    !(g = calloc(1, sizeof(*g)))) {
		ledger_return(&charge);
		close(fd);
		return;
	}
	g->charge = charge;
	g->registry = r;
	g->fd = fd;
	g->peer = (struct ucred){ peer->pid, peer->uid, peer->gid };
	TAILQ_INSERT_TAIL(&r->registrants, g, link);
	g->event = event_new(r->o.base, fd, EV_READ | EV_PERSIST, on_message, g);
	g->timer = evtimer_new(r->o.base, on_deadline, g);
	if (!g->event || !g->timer || event_add(g->event, NULL) < 0 || event_add(g->timer, &limit) < 0)
		registrant_free(g);
}

int registry_new(const struct registry_options *options, struct registry **ret)
{
	struct registry *r = calloc(1, sizeof(*r));
	struct listener_options listen = {
		.path = options->path, .type = SOCK_SEQPACKET, .mode = options->mode, .accepted = on_accepted, .data = r
	};
	int rc;

	if (!r)
		return -ENOMEM;
	r->o = *options;
	TAILQ_INIT(&r->registrants);
	rc = listener_new(options->base, &listen, NULL, &r->listener);
	if (rc < 0) {
		free(r);
		return rc;
	}
	*ret = r;
	return 0;
}

struct registry *registry_free(struct registry *r)
{
	struct registrant *g;

	if (!r)
		return NULL;
	while ((g = TAILQ_FIRST(&r->registrants))) {
		if (g->target)
			g->target->hang_up = g->target->drain = NULL;
		registrant_free(g);
	}
	listener_free(r->listener);
	free(r);
	return NULL;
}

const char *registry_path(const struct registry *r)
{
	return listener_path(r->listener);
}
