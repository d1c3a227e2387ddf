#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "daemon/capture/emu/emu.h"
#include "daemon/daemon.h"
#include "daemon/policy.h"
#include "daemon/snapshot-writer.h"
#include "daemon/registry.h"
#include "daemon/service.h"
#include "daemon/target.h"
#include "lib/base/escape.h"
#include "lib/base/io.h"
#include "lib/base/log.h"

enum {
	NEWCOMERS_MAX = 64,    /* of one user, that said nothing yet */
	NEWCOMER_SECONDS = 10, /* until they must have */
	MESSAGES_A_TURN = 64,
};

/* A program's connection; it lasts as long as the program. */
struct registrant {
	TAILQ_ENTRY(registrant) link;
	struct registry *registry;
	int fd;
	struct ucred peer;
	struct event *event, *timer;
	struct target *target; /* NULL until it said hello */
};

struct registry {
	struct daemon *daemon;
	int fd;
	struct event *accept, *retry;
	TAILQ_HEAD(, registrant) registrants;
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

static void registrant_free(struct registrant *g)
{
	TAILQ_REMOVE(&g->registry->registrants, g, link);
	if (g->event)
		event_free(g->event);
	if (g->timer)
		event_free(g->timer);
	target_unref(g->target);
	close(g->fd);
	free(g);
}

/* What was handed over and is not wanted; closing it may take long. */
static void discard(struct registry *r, const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		target_file_unref(target_file_new(r->daemon->opener, 0, fds[i]));
}

static void welcome(struct registrant *g, int rc)
{
	struct emu_message m = { .magic = EMU_MAGIC, .version = EMU_VERSION, .type = EMU_WELCOME, .value = rc };

	io_send_fds(g->fd, &m, sizeof(m), NULL, 0);
}

static int drain(struct registrant *g, int limit);

static void drain_target(void *data)
{
	drain(data, INT_MAX);
}

static void hang_up(void *data)
{
	struct registrant *g = data;

	drain(g, INT_MAX);
	registrant_free(g);
}

/* memfd is taken. */
static int hello(struct registrant *g, int memfd)
{
	struct daemon *d = g->registry->daemon;
	_cleanup_free_ struct emu_about *about = malloc(sizeof(*about));
	struct capture_source *source;
	struct target_info info = { .pid = g->peer.pid, .uid = g->peer.uid, .gid = g->peer.gid };
	int rc;

	if (!about) {
		discard(g->registry, &memfd, 1);
		return -ENOMEM;
	}
	/* Anything else than shared memory is not even looked at, and closed where it cannot hurt. */
	if (fcntl(memfd, F_GET_SEALS) < 0) {
		discard(g->registry, &memfd, 1);
		return -EPERM;
	}
	rc = emu_source_new(memfd, about, &source);
	if (rc < 0)
		return rc;
	info.parent = (pid_t)about->parent;
	info.name = about->name;
	info.exe = about->exe;
	info.arguments = about->arguments;
	info.arguments_size = about->arguments_size;
	/* The number may have gone to another process while a child of the first one holds the connection. */
	if (target_list_alive(d->targets, g->peer.uid) >= d->settings.targets_per_user)
		rc = -EUSERS;
	else
		rc = policy_process(g->peer.uid, g->peer.pid);
	if (rc < 0) {
		emu_capture.free(source);
		return rc;
	}
	rc = target_new(d->targets, &info, &emu_capture, source, &g->target);
	if (rc < 0)
		return rc;
	ring_move(&g->target->ring, RING_ARMED);
	g->target->hang_up = hang_up;
	g->target->drain = drain_target;
	g->target->data = g;
	log_info("process %d (%s) of uid %u is armed", (int)info.pid, esc(info.name), info.uid);
	return 0;
}

static void keep_file(struct registrant *g, int64_t id, int fd)
{
	struct file_identity is;
	struct target_file *f;
	int flags = fcntl(fd, F_GETFL);
	bool good = id > 0 && id <= UINT32_MAX && flags >= 0 && (flags & O_ACCMODE) == O_RDONLY && !(flags & O_PATH) &&
		    file_identify(fd, &is) == 0 && is.regular;

	f = target_file_new(g->registry->daemon->opener, good ? (uint32_t)id : 0, fd);
	if (!f || !good) {
		g->target->lost_files++;
		target_file_unref(f);
		return;
	}
	target_add_file(g->target, f);
}

/* 0, or why the connection is to end; 1: it was refused in words already. */
static int take_message(struct registrant *g, const struct emu_message *m, const int *fds, size_t n_fds)
{
	bool right = m->magic == EMU_MAGIC && m->version == EMU_VERSION && n_fds == 1;
	int rc;

	if (g->target && right && m->type == EMU_FILE) {
		keep_file(g, m->value, fds[0]);
		return 0;
	}
	if (!g->target && right && m->type == EMU_HELLO) {
		event_del(g->timer);
		rc = hello(g, fds[0]);
	} else {
		discard(g->registry, fds, n_fds);
		rc = g->target                                            ? -EBADMSG
		     : m->magic == EMU_MAGIC && m->version != EMU_VERSION ? -EPROTONOSUPPORT
									  : -EBADMSG;
		if (g->target)
			return rc;
	}
	welcome(g, rc);
	if (rc == 0)
		return 0;
	log_warning("process %d of uid %u is refused: %s", (int)g->peer.pid, g->peer.uid, strerror(-rc));
	return 1;
}

/* Takes in up to limit messages. 0, -EAGAIN: nothing more now; anything else: the end. */
static int drain(struct registrant *g, int limit)
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
			/* This process had no descriptor left for it, or there were too many. */
			g->target->lost_files++;
			continue;
		}
		if (n <= 0)
			return n == 0 ? -EPIPE : (int)n;
		if ((size_t)n != sizeof(m)) {
			discard(g->registry, fds, n_fds);
			return -EBADMSG;
		}
		rc = take_message(g, &m, fds, n_fds);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static void end(struct registrant *g)
{
	if (g->target) {
		/* That comes back as hang_up(). */
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
	int rc = drain(g, MESSAGES_A_TURN);

	if (rc == -EBADMSG)
		log_warning("process %d of uid %u registered and now talks nonsense", (int)g->peer.pid, g->peer.uid);
	if (rc != 0 && rc != -EAGAIN)
		end(g);
}

static void on_silence(evutil_socket_t fd, short what, void *data)
{
	registrant_free(data);
}

static bool over_limit(const struct registry *r, uid_t uid)
{
	const struct registrant *g;
	unsigned n = 0;

	TAILQ_FOREACH (g, &r->registrants, link)
		n += g->peer.uid == uid && !g->target;
	return n >= NEWCOMERS_MAX;
}

static void accepted(struct registry *r, int fd)
{
	struct timeval limit = { NEWCOMER_SECONDS, 0 };
	socklen_t size = sizeof(struct ucred);
	struct registrant *g;
	struct ucred peer;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.pid <= 0 || over_limit(r, peer.uid) ||
	    !(g = calloc(1, sizeof(*g)))) {
		close(fd);
		return;
	}
	g->registry = r;
	g->fd = fd;
	g->peer = peer;
	TAILQ_INSERT_TAIL(&r->registrants, g, link);
	g->event = event_new(r->daemon->base, fd, EV_READ | EV_PERSIST, on_message, g);
	g->timer = evtimer_new(r->daemon->base, on_silence, g);
	if (!g->event || !g->timer || event_add(g->event, NULL) < 0 || event_add(g->timer, &limit) < 0)
		registrant_free(g);
}

static void on_accept(evutil_socket_t fd, short what, void *data)
{
	struct registry *r = data;
	struct timeval pause = { 0, 200000 };
	int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (client >= 0) {
		accepted(r, client);
	} else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
		log_warning("no program can register for a while: %s", strerror(errno));
		event_del(r->accept);
		event_add(r->retry, &pause);
	}
}

static void on_retry(evutil_socket_t fd, short what, void *data)
{
	struct registry *r = data;

	event_add(r->accept, NULL);
}

int registry_new(struct daemon *d, const char *path, unsigned mode, struct registry **ret)
{
	struct registry *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->daemon = d;
	TAILQ_INIT(&r->registrants);
	snprintf(r->path, sizeof(r->path), "%s", path);
	r->fd = service_listen(path, SOCK_SEQPACKET, mode, NULL);
	if (r->fd < 0) {
		int rc = r->fd;

		free(r);
		return rc;
	}
	r->accept = event_new(d->base, r->fd, EV_READ | EV_PERSIST, on_accept, r);
	r->retry = evtimer_new(d->base, on_retry, r);
	if (!r->accept || !r->retry || event_add(r->accept, NULL) < 0) {
		registry_free(r);
		return -ENOMEM;
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
	if (r->accept)
		event_free(r->accept);
	if (r->retry)
		event_free(r->retry);
	unlink(r->path);
	close(r->fd);
	free(r);
	return NULL;
}

const char *registry_path(const struct registry *r)
{
	return r->path;
}
