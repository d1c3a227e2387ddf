/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>

#include "daemon/capture/process/proc-file.h"
#include "daemon/standing/standing-wire.h"
#include "daemon/state-file.h"
#include "daemon/state-shares.h"
#include "daemon/state.h"
#include "daemon/target-adopt.h"
#include "daemon/trigger/trigger-state.h"
#include "lib/base/escape.h"
#include "lib/base/io.h"
#include "lib/base/json.h"
#include "lib/base/log.h"

enum {
	/* Least time from one write to the next: in ms, and as a multiple of the time to compose the text. */
	WRITE_MS = 100,
	WRITE_SHARE = 20,
	RETRY_SECONDS = 5, /* after a failure */
	/* Bytes of all targets: more take long to compose on the loop. */
	STORED_LEAST = 8 << 20,
	STORED_OF_TARGET = 1 << 10, /* for each of targets-max */
	STORED_MOST = 32 << 20,
};

/* A target of an earlier daemon that is not one of this daemon yet. */
struct waiting_target {
	TAILQ_ENTRY(waiting_target) link;
	struct state *state;
	json_object *json; /* the object that the strings of entry are borrowed from */
	struct state_entry entry;
	uint64_t size; /* of json as text */
	int pidfd;
	struct event *ended;
};

struct state {
	struct state_options o;
	char boot[STATE_BOOT_SIZE];
	TAILQ_HEAD(, waiting_target) waiting;
	struct event *timer;
	struct work write;
	char *text; /* while it is written */
	int rc;
	bool writing, changed, stopped, failed;
	bool cut; /* some targets do not fit in the file */
	bool paused;
	uint64_t next_ns; /* CLOCK_MONOTONIC */
};

static void waiting_free(struct waiting_target *w)
{
	TAILQ_REMOVE(&w->state->waiting, w, link);
	if (w->ended)
		event_free(w->ended);
	closep(&w->pidfd);
	json_object_put(w->json);
	free(w);
}

static struct waiting_target *find_waiting(const struct state *s, pid_t pid, uint64_t start)
{
	struct waiting_target *w;

	TAILQ_FOREACH (w, &s->waiting, link)
		if (w->entry.pid == pid && w->entry.start == start)
			return w;
	return NULL;
}

/* The user whose share of the file has a target: root has what it armed, else users their processes. */
static uid_t holder(uid_t uid, uid_t requester)
{
	return requester == 0 ? 0 : uid;
}

static bool is_target(const struct state *s, const struct target *t)
{
	return t->ring.state != RING_GONE && t->start && !find_waiting(s, t->pid, t->start);
}

static void measure(const struct state *s, struct state_shares *shares)
{
	uint64_t total = STORED_OF_TARGET * s->o.settings->targets_max;
	const struct waiting_target *w;
	const struct target *t;

	standing_wire_measure(s->o.standing, shares);
	trigger_state_measure(s->o.triggers, shares);
	TAILQ_FOREACH (t, target_list_all(s->o.targets), link)
		if (is_target(s, t))
			state_shares_want(shares, holder(t->uid, t->requester), state_file_size(t));
	TAILQ_FOREACH (w, &s->waiting, link)
		state_shares_want(shares, holder(w->entry.uid, w->entry.requester), w->size);
	state_shares_divide(shares, MIN(MAX(total, (uint64_t)STORED_LEAST), (uint64_t)STORED_MOST));
}

/* Logs that something is left out, once until there is room for all again. */
static void note_left_out(struct state *s, const struct state_shares *shares)
{
	bool before = s->cut;

	s->cut = shares->left_out > 0;
	if (s->cut && !before && ledger_may_log(s->o.ledger, shares->largest))
		log_warning("%s/%s has no room for %zu targets, triggers and standing targets of the users who have "
			    "most, such as uid %u: a restart of csightd forgets them",
			    spool_path(s->o.spool), STATE_FILE, shares->left_out, shares->largest);
}

static json_object *list_targets(const struct state *s, struct state_shares *shares)
{
	json_object *list = json_object_new_array();
	const struct waiting_target *w;
	const struct target *t;

	TAILQ_FOREACH (t, target_list_all(s->o.targets), link) {
		json_object *triggers = NULL, *o;
		bool watched;

		if (!is_target(s, t))
			continue;
		watched = trigger_state_write(s->o.triggers, t, shares, &triggers);
		/* A disarmed program without triggers needs no entry: it registers as it is. */
		if (!watched && t->ring.state == RING_DISARMED)
			continue;
		if (!state_shares_take(shares, holder(t->uid, t->requester), state_file_size(t))) {
			json_object_put(triggers);
			continue;
		}
		o = state_file_entry(t);
		if (watched)
			json_add(o, "triggers", triggers);
		json_array_add(list, o);
	}
	TAILQ_FOREACH (w, &s->waiting, link)
		if (state_shares_take(shares, holder(w->entry.uid, w->entry.requester), w->size))
			json_array_add(list, json_object_get(w->json));
	return list;
}

static void schedule_write(struct state *s)
{
	uint64_t now = now_ns(CLOCK_MONOTONIC), wait = s->next_ns > now ? s->next_ns - now : 0;
	const struct timeval delay = { (time_t)(wait / 1000000000), (suseconds_t)(wait % 1000000000 / 1000) };

	if (s->changed && !s->writing && !s->stopped && !event_pending(s->timer, EV_TIMEOUT, NULL))
		event_add(s->timer, &delay);
}

static void note_failure(struct state *s, int rc)
{
	if (!s->failed)
		log_warning("cannot store the targets in %s/%s: %s; a restart of csightd forgets the latest changes",
			    spool_path(s->o.spool), STATE_FILE, strerror(-rc));
	s->failed = s->changed = true;
	s->next_ns = now_ns(CLOCK_MONOTONIC) + RETRY_SECONDS * 1000000000ull;
}

static void begin_write(struct state *s)
{
	_cleanup_(state_shares_done) struct state_shares shares = { .ledger = s->o.ledger };
	uint64_t began = now_ns(CLOCK_MONOTONIC), took;
	struct state_content content = { .boot = s->boot, .paused = s->paused };
	int rc;

	s->changed = false;
	measure(s, &shares);
	/* First, since they are few, and arm what is left out of the targets. */
	content.standing = standing_wire_state(s->o.standing, &shares);
	content.targets = list_targets(s, &shares);
	rc = state_file_text(&content, &s->text);
	if (rc == 0 && shares.incomplete) {
		free(TAKE_PTR(s->text));
		rc = -ENOMEM;
	}
	if (rc == 0)
		note_left_out(s, &shares);
	took = now_ns(CLOCK_MONOTONIC) - began;
	s->next_ns = began + MAX(WRITE_MS * 1000000ull, WRITE_SHARE * took);
	if (rc < 0) {
		note_failure(s, rc);
		schedule_write(s);
		return;
	}
	s->writing = true;
	workqueue_submit_urgent(s->o.queue, &s->write);
}

static void run_write(struct work *work)
{
	struct state *s = container_of(work, struct state, write);

	s->rc = io_write_file(spool_fd(s->o.spool), STATE_FILE, s->text, strlen(s->text), 0600);
}

static void write_ran(struct work *work)
{
	struct state *s = container_of(work, struct state, write);
	bool again = s->stopped && s->changed;

	free(s->text);
	s->text = NULL;
	s->writing = false;
	if (s->rc < 0)
		note_failure(s, s->rc);
	else
		s->failed = false;
	if (again)
		begin_write(s);
	else
		schedule_write(s);
}

static void on_timer(evutil_socket_t fd, short what, void *data)
{
	begin_write(data);
}

void state_changed(struct state *s)
{
	if (!s || s->stopped)
		return;
	s->changed = true;
	schedule_write(s);
}

bool state_paused(const struct state *s)
{
	return s && s->paused;
}

void state_pause(struct state *s, bool paused)
{
	s->paused = paused;
	state_changed(s);
}

static void log_ended(const struct state_entry *e)
{
	log_notice("process %d (%s) of uid %u, a target of an earlier csightd, has ended, or is another program now: "
		   "its history is lost",
		   (int)e->pid, esc(e->name), e->uid);
}

void state_target(struct state *s, struct target *t, enum target_change change)
{
	struct waiting_target *w =
	    s && !s->stopped && change != TARGET_ENDED ? find_waiting(s, t->pid, t->start) : NULL;

	/* on_armed() drops a target that could not be armed. */
	if (w && (change == TARGET_ARMED || !w->entry.perf)) {
		_cleanup_json_ json_object *json = json_object_get(w->json);
		json_object *triggers = w->entry.triggers;
		uint32_t rule = w->entry.standing;
		bool replaced = !w->entry.perf && strcmp(w->entry.exe, t->exe) != 0;

		if (replaced)
			log_ended(&w->entry);
		waiting_free(w);
		if (!replaced)
			trigger_state_read(s->o.triggers, s->o.settings, s->o.audit, t, triggers);
		standing_restore(s->o.standing, replaced ? NULL : t, rule);
	}
	state_changed(s);
}

/* Drops a target that will not be one again. */
static void drop(struct waiting_target *w)
{
	struct state *s = w->state;
	uint32_t rule = w->entry.standing;

	waiting_free(w);
	standing_restore(s->o.standing, NULL, rule);
	state_changed(s);
}

static void on_ended(evutil_socket_t fd, short what, void *data)
{
	struct waiting_target *w = data;

	log_ended(&w->entry);
	drop(w);
}

static void drop_failed(struct waiting_target *w, const char *why)
{
	log_warning("cannot arm process %d (%s) of uid %u again: %s", (int)w->entry.pid, esc(w->entry.name),
		    w->entry.uid, why);
	drop(w);
}

static void on_armed(struct target *t, int rc, void *data)
{
	struct state *s = data;
	const struct audit_actor self = audit_self(s->o.audit);
	const struct audit_object on = { .pid = t->pid, .owner = t->owner, .name = t->name };
	struct waiting_target *w = find_waiting(s, t->pid, t->start);
	_cleanup_buf_ struct buf trouble = { .limit = CAPTURE_MISSING_MAX };

	if (rc == 0)
		audit_done(&self, AUDIT_ARM, &on);
	if (rc == 0 || !w)
		return;
	target_trouble(t, &trouble);
	drop_failed(w, rc != -ESRCH && trouble.size ? (const char *)trouble.data : strerror(-rc));
}

/* Checks what a caller of Arm would be checked for, as far as it is known without a connection. */
static int adopt(const struct state *s, const struct state_entry *e, struct target **ret, struct reason *why)
{
	const struct target_adoption adoption = { .units = s->o.units,
						  .targets = s->o.targets,
						  .settings = s->o.settings,
						  .pid = e->pid,
						  .start = e->start,
						  .caller = e->requester,
						  .of_caller = e->standing != 0,
						  .options = &e->options };
	struct ledger_refusal limit = { 0 };
	int rc;

	if ((e->options.kernel && !settings_permit_kernel(s->o.settings, e->requester)) ||
	    !settings_permit_account(s->o.settings, ledger_owner(s->o.ledger, e->requester)))
		return reason_set(why, -EACCES, "user %u may not", e->requester);
	rc = target_adopt(&adoption, ret, why, &limit);
	if (rc == -EDQUOT)
		ledger_explain(&limit, why);
	if (rc < 0 && !*why->text)
		reason_set(why, rc, "%s", strerror(-rc));
	return rc;
}

static void arm_again(struct waiting_target *w)
{
	struct reason why = { "" };
	struct target *t;

	if (adopt(w->state, &w->entry, &t, &why) < 0)
		drop_failed(w, why.text);
	else
		target_arm(t, on_armed, w->state);
}

/* Returns -ESRCH if the process has ended; another may have its number. */
static int open_process(const struct state_entry *e, int *ret_pidfd)
{
	_cleanup_close_ int pidfd = (int)syscall(SYS_pidfd_open, e->pid, 0);
	uint64_t start;

	if (pidfd < 0)
		return errno == EINVAL ? -ESRCH : -errno;
	/* csightd may have no right to send signals to it (EPERM). */
	if (proc_file_start(e->pid, &start) < 0 || start != e->start ||
	    (syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) < 0 && errno == ESRCH))
		return -ESRCH;
	*ret_pidfd = TAKE_FD(pidfd);
	return 0;
}

/*
 * Adds a target of an earlier daemon to s->waiting until its process is a target again, or ends. Returns 0, -ESRCH if
 * the process has ended, or another negative errno.
 */
static int await_target(struct state *s, json_object *o, const struct state_entry *e)
{
	_cleanup_free_ char *text = json_text(o, JSON_PLAIN);
	struct waiting_target *w = text ? calloc(1, sizeof(*w)) : NULL;
	int rc;

	if (!w)
		return -ENOMEM;
	w->size = strlen(text);
	TAILQ_INSERT_TAIL(&s->waiting, w, link);
	w->state = s;
	w->json = json_object_get(o);
	w->entry = *e;
	w->pidfd = -1;
	rc = open_process(e, &w->pidfd);
	w->ended = rc < 0 ? NULL : event_new(s->o.base, w->pidfd, EV_READ, on_ended, w);
	if (rc == 0 && (!w->ended || event_add(w->ended, NULL) < 0))
		rc = -ENOMEM;
	if (rc < 0) {
		waiting_free(w);
		return rc;
	}
	trigger_state_reserve(s->o.triggers, e->triggers);
	standing_await(s->o.standing, e->standing);
	if (e->perf)
		arm_again(w);
	return 0;
}

static void restore(struct state *s, json_object *list)
{
	size_t n = json_array_size(list), most = s->o.settings->targets_max, n_bad = 0;

	for (size_t i = 0; i < MIN(n, most); i++) {
		json_object *o = json_object_array_get_idx(list, i);
		struct state_entry e;
		int rc = state_file_parse(o, &e);

		/* A process is one target. */
		if (rc == 0 && find_waiting(s, e.pid, e.start))
			rc = -EBADMSG;
		n_bad += rc == -EBADMSG;
		if (rc == 0)
			rc = await_target(s, o, &e);
		if (rc == -ESRCH)
			log_ended(&e);
		else if (rc < 0 && rc != -EBADMSG)
			log_warning("process %d (%s) of uid %u is no target any more: %s", (int)e.pid, esc(e.name),
				    e.uid, strerror(-rc));
	}
	if (n > most)
		log_warning("%zu targets in %s/%s are forgotten: targets-max is %zu", n - most, spool_path(s->o.spool),
			    STATE_FILE, most);
	if (n_bad)
		log_warning("%zu targets in %s/%s were ignored: they are not valid", n_bad, spool_path(s->o.spool),
			    STATE_FILE);
}

/*
 * Reads the file and restores what it has, its targets if the settings allow it. If memory or descriptors are short,
 * the file stays as it is, and csightd does not start.
 */
static int load(struct state *s)
{
	_cleanup_json_ json_object *list = NULL, *standing = NULL;
	struct state_content found = { .boot = s->boot };
	int dir = spool_fd(s->o.spool), rc;
	struct reason why = { "" };
	size_t n_past = 0;

	rc = state_file_read(dir, &found, &n_past, &why);
	list = found.targets;
	standing = found.standing;
	s->paused = found.paused;
	if (rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE) {
		log_error("cannot read the targets of an earlier csightd in %s/%s: %s", spool_path(s->o.spool),
			  STATE_FILE, why.text);
		return rc;
	}
	if (rc < 0 && rc != -ENOENT) {
		log_warning(
		    "no target of an earlier csightd is restored: cannot use %s/%s: %s; it is renamed to %s.bad",
		    spool_path(s->o.spool), STATE_FILE, why.text, STATE_FILE);
		renameat(dir, STATE_FILE, dir, STATE_FILE ".bad");
	}
	if (n_past)
		log_info("%zu targets of an earlier boot are forgotten", n_past);
	standing_wire_restore(s->o.standing, s->o.audit, standing, list != NULL);
	if (strcmp(s->o.settings->restore, "yes") == 0)
		restore(s, list);
	else if (json_array_size(list))
		log_notice("%zu targets of an earlier csightd are forgotten, with their triggers (restore = no)",
			   json_array_size(list));
	return 0;
}

int state_new(const struct state_options *options, struct state **ret)
{
	struct state *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return -ENOMEM;
	s->o = *options;
	s->write = (struct work){ run_write, write_ran };
	TAILQ_INIT(&s->waiting);
	state_file_boot(s->boot);
	s->timer = evtimer_new(options->base, on_timer, s);
	if (!s->timer) {
		free(s);
		return -ENOMEM;
	}
	rc = load(s);
	if (rc < 0) {
		state_free(s);
		return rc;
	}
	*ret = s;
	state_changed(s);
	return 0;
}

bool state_waits(const struct state *s)
{
	return !TAILQ_EMPTY(&s->waiting);
}

void state_stop(struct state *s)
{
	event_del(s->timer);
	s->changed = s->stopped = true;
	if (!s->writing)
		begin_write(s);
}

struct state *state_free(struct state *s)
{
	struct waiting_target *w;

	if (!s)
		return NULL;
	while ((w = TAILQ_FIRST(&s->waiting)))
		waiting_free(w);
	event_free(s->timer);
	free(s->text);
	free(s);
	return NULL;
}
