/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <assert.h>
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
#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/notes/notes.h"

enum {
	UNREGISTERED_SECONDS = 10, /* until such a connection is closed */
	MESSAGES_A_TURN = 64,
	DRAIN_MAX = 2048,  /* messages that can wait in a socket, with the kernel's limits */
	HANDED_MAX = 1024, /* descriptors of one account that are not checked or closed yet; then none is received */
	PAUSE_MS = 100,
	PAUSED_SECONDS = 10, /* until the connection of a program whose descriptors block is closed */
};

/* The connection of a program. It exists as long as the program. */
struct registrant {
	TAILQ_ENTRY(registrant) link;
	struct registry *registry;
	int fd;
	struct ucred peer;
	struct audit_actor by; /* the peer */
	struct event *event, *timer;
	struct turn turn;            /* for its messages */
	struct charge charge;        /* until the program registers */
	struct target *target;       /* NULL until then */
	struct program_notes *notes; /* or NULL */
	uint64_t paused_ns;          /* since when no message is received, CLOCK_MONOTONIC; 0: messages are received */
};

struct registry {
	struct registry_options o;
	struct listener *listener;
	TAILQ_HEAD(, registrant) registrants;
	struct handed *handed;
};

/* The files that are being handed over. It outlives the registry, since a file system may never answer. */
struct handed {
	unsigned refs; /* of the registry, and of each file */
	struct user_queues *queues;
	struct hash counts; /* by account */
};

static void registrant_free(struct registrant *g)
{
	TAILQ_REMOVE(&g->registry->registrants, g, link);
	turns_leave(g->registry->o.turns, &g->turn);
	if (g->event)
		event_free(g->event);
	if (g->timer)
		event_free(g->timer);
	ledger_return(&g->charge);
	target_unref(g->target);
	program_notes_unref(g->notes);
	close(g->fd);
	free(g);
}

/*
 * A descriptor that a program has sent, on the way to its target. It may be of a file system that answers neither reads
 * nor closes: it is checked, and closed if it is refused, on the thread of the user.
 */
struct handed_file {
	struct user_work work;
	struct handed *all;
	struct target *target; /* NULL: the descriptor is to be closed */
	uid_t account;         /* in whose number it counts */
	struct charge charge;
	uint32_t id;
	int fd;
};

static bool may_keep(const struct handed_file *h)
{
	int flags = fcntl(h->fd, F_GETFL);
	struct file_identity is;

	return h->target && h->id && flags >= 0 && (flags & O_ACCMODE) == O_RDONLY && !(flags & O_PATH) &&
	       file_identify(h->fd, &is) == 0 && is.regular && file_kernel_served_for_sure(h->fd, &is, h->target->pid);
}

static void run_check(struct user_work *w)
{
	struct handed_file *h = container_of(w, struct handed_file, work);

	if (!may_keep(h))
		closep(&h->fd);
}

static struct handed *handed_unref(struct handed *h)
{
	if (h && --h->refs == 0) {
		hash_done(&h->counts);
		free(h);
	}
	return NULL;
}

static void check_ran(struct user_work *w)
{
	struct handed_file *h = container_of(w, struct handed_file, work);
	struct target *t = h->target;
	uint32_t *count;
	struct target_file *f = t && h->fd >= 0 ? target_file_new(h->all->queues, t->uid, h->id, TAKE_FD(h->fd)) : NULL;

	if (f)
		target_add_file(t, f);
	else if (t)
		t->lost_files++;
	target_unref(t);
	ledger_return(&h->charge);
	count = hash_get(&h->all->counts, h->account, 0);
	*count -= *count > 0;
	handed_unref(h->all);
	free(h);
}

/* Takes over a descriptor; t: NULL, or the target that it is for. */
static void hand_over(struct registrant *g, struct target *t, uint32_t id, int fd)
{
	struct ledger *l = g->registry->o.ledger;
	struct handed *all = g->registry->handed;
	struct handed_file *h = malloc(sizeof(*h));
	uid_t account = ledger_owner(l, g->peer.uid);
	uint32_t *count = NULL;

	if (!h || hash_find(&all->counts, account, 0, &count) < 0) {
		free(h);
		close(fd);
		return;
	}
	++*count;
	all->refs++;
	*h = (struct handed_file){
		.work = { .run = run_check, .done = check_ran }, .all = all, .account = account, .id = id, .fd = fd
	};
	if (ledger_charge(l, g->peer.uid, LEDGER_DESCRIPTORS, 1, &h->charge, NULL) == 0)
		h->target = t ? target_ref(t) : NULL;
	else if (t)
		t->lost_files++;
	user_queues_submit(all->queues, g->peer.uid, &h->work);
}

static void discard_fds(struct registrant *g, const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		hand_over(g, NULL, 0, fds[i]);
}

static void send_welcome(struct registrant *g, int rc)
{
	struct emu_message m = { .magic = EMU_MAGIC, .version = EMU_VERSION, .type = EMU_WELCOME, .value = rc };

	io_send_fds(g->fd, &m, sizeof(m), NULL, 0);
}

static int handle_messages(struct registrant *g, int limit);

static void drain_target(void *data)
{
	handle_messages(data, DRAIN_MAX);
}

static void on_target_gone(void *data)
{
	struct registrant *g = data;

	handle_messages(g, DRAIN_MAX);
	registrant_free(g);
}

/* Makes a target of the program. Owns memfd. */
static int register_source(struct registrant *g, int memfd)
{
	const struct registry_options *o = &g->registry->o;
	_cleanup_free_ struct emu_about *about = malloc(sizeof(*about));
	struct capture_source *source;
	struct ledger_refusal why = { 0 };
	struct target_info info = {
		.pid = g->peer.pid, .uid = g->peer.uid, .owner = g->peer.uid, .gid = g->peer.gid, .payer = g->peer.uid
	};
	struct audit_object on = { .pid = info.pid, .owner = info.uid };
	int rc;

	if (!about) {
		close(memfd);
		return -ENOMEM;
	}
	rc = emu_source_new(memfd, about, &source);
	if (rc < 0)
		return rc;
	info.parent = (pid_t)about->parent;
	info.name = about->name;
	info.exe = about->exe;
	info.arguments = about->arguments;
	info.arguments_size = about->arguments_size;
	on.name = info.name;
	/* While a child holds the connection of an ended process, another process may have got the pid. */
	rc = policy_process(g->peer.uid, g->peer.pid);
	if (rc < 0) {
		audit_deny(&g->by, AUDIT_ARM, &on);
		source->ops->free(source);
		return rc;
	}
	rc = target_new(o->targets, &info, source, &g->target, &why);
	if (rc == -EDQUOT) {
		audit_limit(&g->by, AUDIT_ARM, &on, &why);
		return -EUSERS;
	}
	if (rc == -EBUSY)
		audit_deny(&g->by, AUDIT_ARM, &on);
	if (rc < 0)
		return rc;
	ledger_return(&g->charge);
	if (about->disarmed)
		target_disarmed(g->target);
	else
		target_armed(g->target);
	g->target->closer = o->queues;
	g->target->hang_up = on_target_gone;
	g->target->drain = drain_target;
	g->target->data = g;
	if (!about->disarmed)
		audit_done(&g->by, AUDIT_ARM, &on);
	return 0;
}

/*
 * Takes memory: a memfd alone, since reading another file could block, or closing it. The last close of a memfd frees
 * it, which takes long if it is large: what is refused is closed on the thread of the user.
 */
static int take_memory(struct registrant *g, int memfd, int (*take)(struct registrant *g, int memfd))
{
	int kept, rc = fcntl(memfd, F_GET_SEALS) < 0 ? -EPERM : 0;

	kept = rc < 0 ? -1 : fcntl(memfd, F_DUPFD_CLOEXEC, 0);
	if (kept < 0) {
		rc = rc < 0 ? rc : -errno;
		discard_fds(g, &memfd, 1);
		return rc;
	}
	rc = take(g, memfd);
	if (rc < 0)
		discard_fds(g, &kept, 1);
	else
		close(kept);
	return rc;
}

static struct registrant *find_notes(const struct registry *r, pid_t pid, uid_t uid)
{
	struct registrant *g;

	TAILQ_FOREACH (g, &r->registrants, link)
		if (g->notes && g->notes->pid == pid && g->notes->uid == uid)
			return g;
	return NULL;
}

void registry_add_notes(const struct registry *r, struct target *t)
{
	const struct registrant *g = r ? find_notes(r, t->pid, t->uid) : NULL;

	if (g)
		target_add_notes(t, g->notes);
}

/* Takes the memory of a program's notes; owns the descriptor. */
static int register_notes(struct registrant *g, int memfd)
{
	const struct registry_options *o = &g->registry->o;
	struct audit_object on = { .pid = g->peer.pid, .owner = g->peer.uid };
	struct ledger_refusal why = { 0 };
	struct target *t;
	int rc = find_notes(g->registry, g->peer.pid, g->peer.uid) ? -EEXIST : policy_process(g->peer.uid, g->peer.pid);

	if (rc < 0) {
		close(memfd);
		return rc;
	}
	rc = program_notes_new(o->ledger, g->peer.pid, g->peer.uid, memfd, &g->notes, &why);
	if (rc == -EDQUOT)
		audit_limit(&g->by, AUDIT_ARM, &on, &why);
	if (rc < 0)
		return rc;
	event_del(g->timer);
	ledger_return(&g->charge);
	t = target_list_find(o->targets, g->peer.pid, g->peer.uid);
	if (t)
		target_add_notes(t, g->notes);
	return 0;
}

/* Handles the registration of notes. A program that is refused sees the end of the connection. */
static int handle_notes(struct registrant *g, const struct emu_message *m, const int *fds, size_t n_fds)
{
	const struct notes_message welcome = { .magic = NOTES_MAGIC, .version = NOTES_VERSION };
	bool valid = !g->target && !g->notes && m->version == NOTES_VERSION && n_fds == 1;
	int rc;

	if (!valid)
		discard_fds(g, fds, n_fds);
	rc = valid ? take_memory(g, fds[0], register_notes) : -EBADMSG;
	if (rc == 0)
		io_send_fds(g->fd, &welcome, sizeof(welcome), NULL, 0);
	else
		log_debug("refused the notes of process %d of uid %u: %s", (int)g->peer.pid, g->peer.uid,
			  strerror(-rc));
	return rc == 0 ? 0 : 1;
}

/* Returns 0; a negative errno that ends the connection; or 1 if the registration was refused, and the reply sent. */
static int handle_message(struct registrant *g, const struct emu_message *m, const int *fds, size_t n_fds)
{
	bool ours = m->magic == EMU_MAGIC && m->version == EMU_VERSION, valid = ours && n_fds == 1;
	int rc;

	static_assert(sizeof(struct notes_message) == sizeof(*m), "both are received by one call");
	if (m->magic == NOTES_MAGIC)
		return handle_notes(g, m, fds, n_fds);
	if (g->target && ours && m->type == EMU_HITS && n_fds == 0) {
		g->registry->o.hits(g->registry->o.data, g->target);
		return 0;
	}
	if (g->target && valid && m->type == EMU_FILE) {
		hand_over(g, g->target, m->value > 0 && m->value <= UINT32_MAX ? (uint32_t)m->value : 0, fds[0]);
		return 0;
	}
	if (!g->target && !g->notes && valid && m->type == EMU_HELLO) {
		event_del(g->timer);
		rc = take_memory(g, fds[0], register_source);
	} else {
		discard_fds(g, fds, n_fds);
		rc = g->target                                            ? -EBADMSG
		     : m->magic == EMU_MAGIC && m->version != EMU_VERSION ? -EPROTONOSUPPORT
									  : -EBADMSG;
		if (g->target)
			return rc;
	}
	send_welcome(g, rc);
	if (rc == 0)
		return 0;
	if (!ledger_may_log(g->registry->o.ledger, g->peer.uid))
		return 1;
	if (m->magic == EMU_MAGIC && m->version != EMU_VERSION)
		log_warning("refused the registration of process %d of uid %u: the rings of its csight-etm.so have "
			    "version %u, and those of this csightd version %d; use both of one release",
			    (int)g->peer.pid, g->peer.uid, m->version, EMU_VERSION);
	else
		log_warning("refused the registration of process %d of uid %u: %s", (int)g->peer.pid, g->peer.uid,
			    rc == -EBUSY ? "trace units record it for another user" : strerror(-rc));
	return 1;
}

static bool has_too_many_files(const struct registrant *g)
{
	const struct registry *r = g->registry;
	const uint32_t *count = hash_get(&r->handed->counts, ledger_owner(r->o.ledger, g->peer.uid), 0);

	return count && *count >= HANDED_MAX;
}

/* Handles up to limit messages. 0, -EAGAIN and -EBUSY: the connection continues; other values end it. */
static int handle_messages(struct registrant *g, int limit)
{
	while (limit-- > 0) {
		struct emu_message m;
		int fds[1];
		size_t n_fds = 1;
		ssize_t n;
		int rc;

		if (has_too_many_files(g))
			return -EBUSY;
		n = io_take_fds(g->fd, &m, sizeof(m), fds, &n_fds, MSG_DONTWAIT);
		if (n == -EMSGSIZE && g->target) {
			/* csightd had no free descriptor, or the message carried too many. */
			discard_fds(g, fds, n_fds);
			g->target->lost_files++;
			continue;
		}
		if (n > 0 && (size_t)n == sizeof(m)) {
			rc = handle_message(g, &m, fds, n_fds);
			if (rc != 0)
				return rc;
			continue;
		}
		discard_fds(g, fds, n_fds);
		return n == 0 ? -EPIPE : n < 0 ? (int)n : -EBADMSG;
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

/* Receives nothing until the descriptors of the user are checked or closed. */
static void registrant_pause(struct registrant *g)
{
	const struct timeval pause = { 0, PAUSE_MS * 1000 };

	g->paused_ns = now_ns(CLOCK_MONOTONIC);
	event_add(g->timer, &pause);
}

static void registrant_resume(struct registrant *g)
{
	const struct timeval limit = { UNREGISTERED_SECONDS, 0 };

	g->paused_ns = 0;
	event_add(g->event, NULL);
	if (!g->target && !g->notes)
		event_add(g->timer, &limit);
}

static void run_turn(struct turn *t)
{
	struct registrant *g = container_of(t, struct registrant, turn);
	int rc = handle_messages(g, MESSAGES_A_TURN);

	if (rc == -EBADMSG && ledger_may_log(g->registry->o.ledger, g->peer.uid))
		log_warning("process %d of uid %u sent an invalid message after its registration", (int)g->peer.pid,
			    g->peer.uid);
	if (rc == -EBUSY)
		registrant_pause(g);
	else if (rc != 0 && rc != -EAGAIN)
		registrant_end(g);
	else
		event_add(g->event, NULL);
}

static void on_message(evutil_socket_t fd, short what, void *data)
{
	struct registrant *g = data;

	turns_wait(g->registry->o.turns, &g->turn, g->peer.uid);
}

static void on_timer(evutil_socket_t fd, short what, void *data)
{
	const struct timeval pause = { 0, PAUSE_MS * 1000 };
	struct registrant *g = data;

	if (!g->paused_ns) {
		registrant_free(g); /* it has not registered in time */
	} else if (!has_too_many_files(g)) {
		registrant_resume(g);
	} else if (now_ns(CLOCK_MONOTONIC) - g->paused_ns < PAUSED_SECONDS * 1000000000ull) {
		event_add(g->timer, &pause);
	} else {
		log_warning("closed the connection of process %d of uid %u: the file systems of %d files that programs "
			    "of this user passed have not answered for %d s",
			    (int)g->peer.pid, g->peer.uid, HANDED_MAX, PAUSED_SECONDS);
		registrant_end(g);
	}
}

/* Charges a connection if its peer may have one. */
static bool admit(struct registry *r, const struct audit_actor *by, const struct listener_peer *peer,
		  struct charge *ret)
{
	const struct audit_object program = { .pid = peer->pid, .owner = peer->uid };
	struct ledger_refusal why = { 0 };

	if (peer->pid <= 0)
		return false;
	if (!settings_permit(r->o.settings, ledger_owner(r->o.ledger, peer->uid), peer->groups, peer->n_groups)) {
		audit_deny(by, AUDIT_ARM, &program);
		return false;
	}
	if (ledger_charge(r->o.ledger, peer->uid, LEDGER_REGISTRATIONS, 1, ret, &why) == 0)
		return true;
	audit_limit(by, AUDIT_ARM, &program, &why);
	return false;
}

static void on_accepted(void *data, int fd, const struct listener_peer *peer)
{
	struct registry *r = data;
	struct timeval limit = { UNREGISTERED_SECONDS, 0 };
	struct audit_actor by = { r->o.audit, peer->uid, peer->pid, peer->login_uid };
	struct charge charge = { 0 };
	struct registrant *g;

	if (!admit(r, &by, peer, &charge) || !(g = calloc(1, sizeof(*g)))) {
		ledger_return(&charge);
		close(fd);
		return;
	}
	g->charge = charge;
	g->registry = r;
	g->by = by;
	g->fd = fd;
	g->peer = (struct ucred){ peer->pid, peer->uid, peer->gid };
	TAILQ_INSERT_TAIL(&r->registrants, g, link);
	g->turn.run = run_turn;
	g->event = event_new(r->o.base, fd, EV_READ, on_message, g);
	g->timer = evtimer_new(r->o.base, on_timer, g);
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
	r->handed = calloc(1, sizeof(*r->handed));
	if (!r->handed) {
		free(r);
		return -ENOMEM;
	}
	*r->handed = (struct handed){ .refs = 1, .queues = options->queues };
	rc = listener_new(options->base, &listen, NULL, &r->listener);
	if (rc < 0) {
		handed_unref(r->handed);
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
	handed_unref(r->handed);
	free(r);
	return NULL;
}

const char *registry_path(const struct registry *r)
{
	return listener_path(r->listener);
}
