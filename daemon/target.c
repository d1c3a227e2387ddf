/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <assert.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "daemon/capture/emu/emu.h"
#include "daemon/capture/process/credentials.h"
#include "daemon/capture/process/exit-status.h"
#include "daemon/capture/process/proc-file.h"
#include "daemon/policy.h"
#include "daemon/target.h"
#include "lib/base/array.h"
#include "lib/base/escape.h"
#include "lib/base/log.h"
#include "lib/notes/notes.h"

enum { FILES_MAX = 1024, AGE_SECONDS = 5, OOM_SECONDS = 2, VICTIMS = 16, CORE_DUMPED = 0x80 };

/* A thread whose process the out-of-memory killer has ended. */
struct victim {
	pid_t tid;
	uint64_t time; /* CLOCK_MONOTONIC */
};

struct target_list {
	struct target_list_options o;
	struct target_head list;
	uint64_t last_number;
	struct event *age;
	STAILQ_HEAD(, target) leaving;
	struct event *sweep;            /* drops those that are leaving */
	struct victim victims[VICTIMS]; /* of no target, as far as that was known; the newest */
	size_t n_victims;
};

struct target *target_ref(struct target *t)
{
	t->refs++;
	return t;
}

/*
 * The last close of the program's memory frees that, which takes long if it is large, or does not begin while a file of
 * the user is being closed: until then the user has it, and one target.
 */
static void free_source(struct target *t)
{
	struct capture_source *s = t->ring.source;
	int memory = t->closer && s->ops->take_memory ? s->ops->take_memory(s) : -1;
	struct target_file *f;

	ring_done(&t->ring);
	if (memory < 0 || !(f = target_file_new(t->closer, t->uid, 0, memory)))
		return;
	ledger_record(t->all->o.ledger, t->uid, LEDGER_TARGETS, 1, &f->charge);
	f->memory = ledger_take(&t->rings);
	target_file_unref(f);
}

struct target *target_unref(struct target *t)
{
	if (!t || --t->refs > 0)
		return NULL;
	free_source(t);
	program_notes_unref(t->notes);
	for (size_t i = 0; i < t->n_files; i++)
		target_file_unref(t->files[i]);
	free(t->files);
	if (t->ended)
		event_free(t->ended);
	closep(&t->pidfd);
	ledger_return(&t->alive);
	ledger_return(&t->rings);
	free(t->name);
	free(t->exe);
	free(t->arguments);
	free(t->killed);
	json_object_put(t->threads);
	free(t);
	return NULL;
}

static void target_list_remove(struct target_list *all, struct target *t)
{
	log_debug("dropped the history of process %d", (int)t->pid);
	/* The links stay as they are, for a walk that is at this target. */
	TAILQ_REMOVE(&all->list, t, link);
	t->listed = false;
	STAILQ_INSERT_TAIL(&all->leaving, t, leaving);
	event_active(all->sweep, EV_TIMEOUT, 0);
}

static void on_sweep(evutil_socket_t fd, short what, void *data)
{
	struct target_list *all = data;
	struct target *t;

	while ((t = STAILQ_FIRST(&all->leaving))) {
		STAILQ_REMOVE_HEAD(&all->leaving, leaving);
		target_unref(t);
	}
}

static bool is_history(const struct target *t, uid_t account)
{
	return t->ring.state == RING_GONE && ledger_owner(t->all->o.ledger, t->owner) == account;
}

/* Returns the target of a user that ended first: parents, which are listed before their children, end after them. */
static struct target *oldest_history(const struct target_list *all, uid_t account)
{
	struct target *t, *oldest = NULL;

	TAILQ_FOREACH (t, &all->list, link)
		if (is_history(t, account) && (!oldest || t->gone_ns < oldest->gone_ns))
			oldest = t;
	return oldest;
}

/* Removes the oldest ended targets of a user until the others are within the limits. */
static void limit_history(struct target_list *all, uid_t uid)
{
	uid_t account = ledger_owner(all->o.ledger, uid);
	const struct settings *s = all->o.settings;
	struct target *t;
	uint64_t bytes = 0, count = 0;

	TAILQ_FOREACH (t, &all->list, link)
		if (is_history(t, account)) {
			count++;
			bytes += t->ring.source->ops->memory(t->ring.source);
		}
	while ((count > s->history_targets || bytes > s->history_bytes) && (t = oldest_history(all, account))) {
		count--;
		bytes -= MIN(bytes, t->ring.source->ops->memory(t->ring.source));
		target_list_remove(all, t);
	}
}

static void settle_late(struct target *t);

static void on_age(evutil_socket_t fd, short what, void *data)
{
	struct target_list *all = data;
	uint64_t now = now_ns(CLOCK_MONOTONIC), age = all->o.settings->history_seconds * 1000000000u;
	struct target *t;

	TAILQ_FOREACH (t, &all->list, link) {
		settle_late(t);
		if (!t->listed)
			continue;
		if (t->ring.state == RING_GONE && now - t->gone_ns > age)
			target_list_remove(all, t);
		else
			ledger_settle(&t->rings, t->ring.source->ops->memory(t->ring.source));
	}
}

void target_list_update(struct target_list *all)
{
	struct target *t;

	on_age(-1, EV_TIMEOUT, all);
	TAILQ_FOREACH (t, &all->list, link)
		if (t->ring.state == RING_GONE)
			limit_history(all, t->owner);
}

int target_list_new(const struct target_list_options *options, struct target_list **ret)
{
	struct timeval period = { AGE_SECONDS, 0 };
	struct target_list *all = calloc(1, sizeof(*all));

	if (!all)
		return -ENOMEM;
	all->o = *options;
	TAILQ_INIT(&all->list);
	STAILQ_INIT(&all->leaving);
	all->age = event_new(options->base, -1, EV_PERSIST, on_age, all);
	all->sweep = event_new(options->base, -1, 0, on_sweep, all);
	if (!all->age || !all->sweep || event_add(all->age, &period) < 0) {
		target_list_free(all);
		return -ENOMEM;
	}
	*ret = all;
	return 0;
}

struct target_list *target_list_free(struct target_list *all)
{
	struct target *t;

	if (!all)
		return NULL;
	while ((t = TAILQ_FIRST(&all->list))) {
		TAILQ_REMOVE(&all->list, t, link);
		target_unref(t);
	}
	on_sweep(-1, EV_TIMEOUT, all);
	if (all->age)
		event_free(all->age);
	if (all->sweep)
		event_free(all->sweep);
	free(all);
	return NULL;
}

const struct target_head *target_list_all(const struct target_list *all)
{
	return &all->list;
}

struct target *target_list_find(const struct target_list *all, pid_t pid, uid_t uid)
{
	struct target *t, *ended = NULL;

	TAILQ_FOREACH (t, &all->list, link) {
		if (t->pid != pid)
			continue;
		if (t->ring.state != RING_GONE)
			return t;
		if (policy_owns(uid, t->owner))
			ended = t;
	}
	return ended;
}

/*
 * Finds out whether the kernel's out-of-memory killer sent the SIGKILL that ended a process. While one that it killed
 * is not named yet, how this one ended is unknown, for a limited time.
 */
static void settle_kill(struct target *t)
{
	struct oom_listener *ooms = t->all->o.ooms;
	bool complete;

	if (!ooms || !t->ending.known || t->ending.status != SIGKILL)
		return;
	t->settling = true;
	complete = oom_listener_read(ooms);
	t->settling = false;
	t->ending.oom = t->oom_killed;
	if (complete || t->oom_killed)
		return;
	if (t->gone_ns && now_ns(CLOCK_MONOTONIC) - t->gone_ns > OOM_SECONDS * 1000000000ull) {
		oom_listener_forget(ooms);
		return;
	}
	t->ending.known = false;
	/* The kernel may not keep it. */
	t->exit_reported = true;
	t->reported_code = SIGKILL;
}

/*
 * The kernel's word counts more than that of the program, which names the thread, however: that is used if both agree.
 */
static void settle_ending(struct target *t)
{
	const struct capture_ops *ops = t->ring.source->ops;
	struct ending said = { 0 };
	int status, rc;

	if (t->ending.known || t->replaced)
		return;
	rc = exit_status_read(t->pid, t->pidfd, &status);
	if (rc == -ESRCH && t->exit_reported) {
		status = t->reported_code;
		rc = 0;
	}
	if (rc == 0)
		t->ending =
		    (struct ending){ .known = true, .status = status & ~CORE_DUMPED, .tid = (uint32_t)t->dumped_tid };
	if (ops->ending)
		ops->ending(t->ring.source, &said);
	if (said.known && (!t->ending.known || t->ending.status == said.status))
		t->ending = said;
	settle_kill(t);
}

const struct ending *target_ending(struct target *t)
{
	if (!t->ending.known && t->all->o.exits)
		exit_listener_read(t->all->o.exits);
	settle_ending(t);
	return &t->ending;
}

static void report_change(struct target *t, enum target_change change)
{
	if (t->all->o.changed)
		t->all->o.changed(t->all->o.data, t, change);
}

/* Drops the trace of a process that has become another user's, who it would show. */
static void become_foreign(struct target *t)
{
	if (t->foreign)
		return;
	t->foreign = true;
	log_warning("process %d (%s) is no longer that of uid %u: its trace is dropped", (int)t->pid, esc(t->name),
		    t->uid);
	target_gone(t);
	if (t->listed)
		target_list_remove(t->all, t);
}

int target_check_user(struct target *t)
{
	struct credentials c;
	int rc;

	if (t->all->o.exits)
		exit_listener_read(t->all->o.exits);
	if (t->foreign)
		return -EACCES;
	/* Root may see every process. One that has ended was checked then. */
	if (t->uid == 0 || t->ring.state == RING_GONE)
		return 0;
	rc = credentials_read_pidfd(t->pid, t->pidfd, &c);
	if (rc == -ESRCH)
		return 0;
	if (rc == 0 && credentials_uid(&c) != t->uid) {
		become_foreign(t);
		return -EACCES;
	}
	return rc;
}

static void log_gone(struct target *t)
{
	char how[ENDING_TEXT_SIZE] = "ended";

	if (t->ending_logged)
		return;
	t->ending_logged = t->ending.known;
	if (t->ending.known)
		ending_text(&t->ending, how);
	if (!t->foreign)
		log_info("process %d (%s) of uid %u %s", (int)t->pid, esc(t->name), t->uid, how);
	report_change(t, TARGET_ENDED);
	if (t->all->o.ended)
		t->all->o.ended(t->all->o.data, t);
}

/* Notes are recorded while the process is; the emulator's clock needs their marks in the trace. */
static void update_notes(struct target *t)
{
	bool armed = t->ring.state == RING_ARMED || t->ring.state == RING_FROZEN;

	program_notes_set(t->notes, !armed                                ? 0
				    : t->ring.source->ops == &emu_capture ? NOTES_ARMED | NOTES_MARKED
									  : NOTES_ARMED);
}

void target_add_notes(struct target *t, struct program_notes *n)
{
	if (t->notes == n || t->pid != n->pid || t->uid != n->uid || t->ring.state == RING_GONE ||
	    (t->start && n->start && t->start != n->start))
		return;
	program_notes_unref(t->notes);
	t->notes = program_notes_ref(n);
	update_notes(t);
}

void target_armed(struct target *t)
{
	ring_move(&t->ring, RING_ARMED);
	update_notes(t);
	report_change(t, TARGET_ARMED);
}

void target_disarmed(struct target *t)
{
	ring_move(&t->ring, RING_DISARMED);
	update_notes(t);
	report_change(t, TARGET_DISARMED);
}

void target_renamed(struct target *t, const char *name, const char *exe)
{
	char *new_name = strdup(name), *new_exe = strdup(exe);

	if (new_name && new_exe) {
		free(t->name);
		free(t->exe);
		t->name = new_name;
		t->exe = new_exe;
	} else {
		free(new_name);
		free(new_exe);
	}
}

void target_gone(struct target *t)
{
	if (t->ring.state == RING_GONE || (!t->foreign && target_check_user(t) == -EACCES))
		return;
	ring_move(&t->ring, RING_GONE);
	t->gone_ns = now_ns(CLOCK_MONOTONIC);
	target_ending(t);
	log_gone(t);
	/* The connection of a killed program ends before its status is known. */
	if (t->ending.known || t->replaced)
		event_del(t->ended);
	ledger_return(&t->alive);
	if (t->hang_up)
		t->hang_up(t->data);
	t->hang_up = t->drain = NULL;
	limit_history(t->all, t->owner);
}

/* Records that SIGKILL has ended a thread: the killer names one of a process, not always the first. */
static void note_killed(struct target *t, pid_t tid)
{
	const struct target_list *all = t->all;
	uint64_t now = now_ns(CLOCK_MONOTONIC);

	for (size_t i = 0; i < VICTIMS; i++)
		t->oom_killed |= all->victims[i].tid == tid && now - all->victims[i].time < OOM_SECONDS * 1000000000ull;
	if (array_reserve(t->killed, t->n_killed, &t->killed_room) == 0)
		t->killed[t->n_killed++] = tid;
}

static void take_uid_change(struct target_list *all, const struct exit_event *e)
{
	struct target *t;

	TAILQ_FOREACH (t, &all->list, link)
		if (t->pid == e->pid && t->ring.state != RING_GONE)
			break;
	if (t && t->uid != 0 && (e->ruid != t->uid || e->euid != t->uid))
		become_foreign(t);
}

void target_list_take_event(struct target_list *all, const struct exit_event *e)
{
	struct target *t;

	if (e->changes_uid) {
		take_uid_change(all, e);
		return;
	}
	TAILQ_FOREACH (t, &all->list, link) {
		if (t->pid != e->pid || t->replaced || t->ending.known)
			continue;
		if (!e->dumps && e->code == SIGKILL)
			note_killed(t, e->tid);
		if (e->dumps) {
			t->dumped_tid = e->tid;
		} else if (!t->exit_reported || !WIFSIGNALED(t->reported_code)) {
			/* A signal ends all threads; of exit codes that of the last thread is the process's. */
			t->exit_reported = true;
			t->reported_code = e->code & ~CORE_DUMPED;
		}
		if (t->ring.state != RING_GONE)
			continue;
		settle_ending(t);
		if (t->ending.known)
			log_gone(t);
	}
}

static void settle_late(struct target *t)
{
	if (t->ring.state != RING_GONE || t->ending.known || t->replaced)
		return;
	settle_ending(t);
	if (t->ending.known)
		log_gone(t);
}

/* True if the process has this thread, or SIGKILL has ended that. */
static bool has_thread(const struct target *t, pid_t tid)
{
	char path[48];

	if (t->pid == tid)
		return true;
	for (size_t i = 0; i < t->n_killed; i++)
		if (t->killed[i] == tid)
			return true;
	snprintf(path, sizeof(path), "/proc/%d/task/%d", (int)t->pid, (int)tid);
	return t->ring.state != RING_GONE && access(path, F_OK) == 0;
}

void target_list_take_oom(struct target_list *all, pid_t tid)
{
	struct target *t;
	bool found = false;

	if (all->o.exits)
		exit_listener_read(all->o.exits);
	TAILQ_FOREACH (t, &all->list, link)
		if ((!t->ending.known || t->settling) && !t->replaced && has_thread(t, tid))
			t->oom_killed = found = true;
	if (!found)
		all->victims[all->n_victims++ % VICTIMS] = (struct victim){ tid, now_ns(CLOCK_MONOTONIC) };
}

void target_list_settle(struct target_list *all)
{
	struct target *t;

	TAILQ_FOREACH (t, &all->list, link)
		settle_late(t);
}

/* Subscribes to the exit events of the processes whose endings are not known yet. */
static void listen_to_exits(struct target_list *all)
{
	_cleanup_free_ pid_t *pids = NULL;
	size_t n = 0, room = 0;
	struct target *t;

	if (!all->o.exits)
		return;
	TAILQ_FOREACH (t, &all->list, link)
		if (!t->ending.known && !t->replaced && array_reserve(pids, n, &room) == 0)
			pids[n++] = t->pid;
	exit_listener_set(all->o.exits, pids, n);
}

static void on_ended(evutil_socket_t fd, short what, void *data)
{
	struct target *t = target_ref(data);

	if (t->ring.state != RING_GONE)
		target_gone(t);
	else if (!t->ending.known && target_ending(t)->known)
		log_gone(t);
	target_unref(t);
}

/* Root is limited by what the machine has. */
static struct capture_share share_of(const struct target *t)
{
	struct ledger *l = t->all->o.ledger;
	uid_t account = ledger_owner(l, t->owner);

	return (struct capture_share){ .account = account,
				       .rings = account ? ledger_limit(l, account, LEDGER_RINGS) : LEDGER_UNLIMITED,
				       .divided = account && t->all->o.settings->system };
}

/*
 * A process registers again after execve(). Another kind of source does not end what others have armed: a program would
 * choose what root gets of it.
 */
static bool may_replace(const struct target *old, const struct target_info *info, const struct capture_source *source)
{
	return old->ring.source->ops == source->ops || (old->owner == info->owner && old->requester == info->uid);
}

static int charge_target(struct target *t, const struct target_info *info, struct capture_source *source,
			 struct ledger_refusal *ret_refusal)
{
	struct ledger *l = t->all->o.ledger;
	const struct target *old = target_list_find(t->all, info->pid, info->uid);
	bool runs = old && old->ring.state != RING_GONE;
	int rc;

	if (runs && !may_replace(old, info, source))
		return -EBUSY;
	if (runs && old->uid == info->uid)
		ledger_record(l, info->payer, LEDGER_TARGETS, 1, &t->alive);
	else if ((rc = ledger_charge(l, info->payer, LEDGER_TARGETS, 1, &t->alive, ret_refusal)) < 0)
		return rc;
	return ledger_charge(l, info->payer, LEDGER_RINGS, source->ops->memory(source), &t->rings, ret_refusal);
}

int target_new(struct target_list *all, const struct target_info *info, struct capture_source *source,
	       struct target **ret, struct ledger_refusal *ret_refusal)
{
	struct target *t = calloc(1, sizeof(*t)), *old;
	int rc;

	if (!t) {
		source->ops->free(source);
		return -ENOMEM;
	}
	t->all = all;
	rc = charge_target(t, info, source, ret_refusal);
	if (rc < 0) {
		source->ops->free(source);
		ledger_return(&t->alive);
		free(t);
		return rc;
	}
	t->refs = 1;
	t->pid = info->pid;
	t->parent = info->parent;
	t->uid = info->uid;
	t->owner = info->owner;
	t->gid = info->gid;
	t->armed_time = now_ns(CLOCK_REALTIME);
	source->share = share_of(t);
	ring_init(&t->ring, info->pid, source);
	t->pidfd = (int)syscall(SYS_pidfd_open, info->pid, 0);
	if (t->pidfd < 0) {
		rc = -errno;
		target_unref(t);
		return rc;
	}
	proc_file_start(info->pid, &t->start);
	t->requester = info->uid;
	t->name = strdup(info->name);
	t->exe = strdup(info->exe);
	t->arguments = malloc(info->arguments_size + 1);
	t->ended = event_new(all->o.base, t->pidfd, EV_READ, on_ended, t);
	if (!t->name || !t->exe || !t->arguments || !t->ended || event_add(t->ended, NULL) < 0) {
		target_unref(t);
		return -ENOMEM;
	}
	memcpy(t->arguments, info->arguments, info->arguments_size);
	t->arguments_size = info->arguments_size;
	/* Kills before this are not of it, but of a process that had its number. */
	if (all->o.ooms)
		oom_listener_read(all->o.ooms);
	/* The target of the earlier program becomes history. */
	TAILQ_FOREACH (old, &all->list, link)
		if (old->pid == t->pid && old->ring.state != RING_GONE) {
			old->replaced = true;
			target_gone(old);
			break;
		}
	TAILQ_INSERT_TAIL(&all->list, t, link);
	t->number = ++all->last_number;
	t->listed = true;
	listen_to_exits(all);
	*ret = target_ref(t);
	return 0;
}

void target_requested(struct target *t, uid_t uid)
{
	if (uid == 0)
		t->requester = uid;
}

void target_trouble(const struct target *t, struct buf *ret)
{
	static const char held[] = "paused, since recording took more than overhead-max; it continues by itself";

	if (t->held)
		buf_add(ret, held, sizeof(held));
	else if (t->ring.source->ops->trouble)
		t->ring.source->ops->trouble(t->ring.source, ret);
}

int target_add_file(struct target *t, struct target_file *f)
{
	int rc = t->n_files >= FILES_MAX ? -EMFILE : 0;

	if (rc == 0 && !f->charge.user)
		rc = ledger_charge(t->all->o.ledger, t->uid, LEDGER_DESCRIPTORS, 1, &f->charge, NULL);
	if (rc < 0) {
		t->lost_files++;
		target_file_unref(f);
		return rc;
	}
	if (array_reserve(t->files, t->n_files, &t->files_capacity) < 0) {
		target_file_unref(f);
		return -ENOMEM;
	}
	t->files[t->n_files++] = f;
	return 0;
}

void target_keep_files(struct target *t, const struct capture_file *files, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < t->n_files; i++) {
		size_t k = 0;

		while (k < n && (files[k].fd >= 0 || files[k].id != t->files[i]->id))
			k++;
		if (k < n)
			t->files[kept++] = t->files[i];
		else
			target_file_unref(t->files[i]);
	}
	t->n_files = kept;
}

/* An operation that arms or disarms: on the ring, apply() moves it through a state to another. */
struct state_change {
	struct ring_op op;
	struct work work;
	struct target *target;
	enum ring_state from, through, to;
	int (*apply)(struct capture_source *s);
	void (*done)(struct target *t, int rc, void *data);
	void *data;
	int rc;
};

static void state_change_end(struct state_change *c, int rc)
{
	c->done(c->target, rc, c->data);
	target_unref(c->target);
	free(c);
}

static void run_state_change(struct work *w)
{
	struct state_change *c = container_of(w, struct state_change, work);

	c->rc = c->apply(c->target->ring.source);
}

static void state_change_ran(struct work *w)
{
	struct state_change *c = container_of(w, struct state_change, work);
	struct target *t = c->target;
	struct ring *r = &t->ring;

	if (r->state == RING_GONE)
		c->rc = -ESRCH;
	else if (c->rc == 0 && c->to == RING_ARMED)
		target_armed(t);
	else if ((c->rc < 0 ? c->from : c->to) == RING_DISARMED)
		target_disarmed(t);
	else
		ring_move(r, RING_ARMED);
	ring_next(r);
	target_ref(t);
	state_change_end(c, c->rc);
	if (t->adopted && r->state == RING_DISARMED && !r->busy && t->listed)
		target_list_remove(t->all, t);
	target_unref(t);
}

static void state_change_begin(struct ring_op *op)
{
	struct state_change *c = container_of(op, struct state_change, op);
	struct ring *r = &c->target->ring;

	if (r->state != c->from) {
		int rc = r->state == c->to ? 0 : r->state == RING_GONE ? -ESRCH : -EINVAL;

		ring_next(r);
		state_change_end(c, rc);
		return;
	}
	ring_move(r, c->through);
	/* The capture thread reads it of the sources that are armed. */
	if (c->to == RING_ARMED)
		r->source->share = share_of(c->target);
	workqueue_submit_for(c->target->all->o.capture_queue, &c->work,
			     ledger_owner(c->target->all->o.ledger, c->target->owner));
}

static void state_change_queue(struct target *t, const struct state_change *wanted)
{
	struct state_change *c = malloc(sizeof(*c));

	if (!c) {
		wanted->done(t, -ENOMEM, wanted->data);
		return;
	}
	*c = *wanted;
	c->target = target_ref(t);
	if (ring_queue(&t->ring, &c->op) < 0)
		state_change_end(c, -EBUSY);
}

void target_arm(struct target *t, void (*done)(struct target *t, int rc, void *data), void *data)
{
	state_change_queue(t, &(struct state_change){ .op.begin = state_change_begin,
						      .work = { run_state_change, state_change_ran },
						      .from = RING_DISARMED,
						      .through = RING_ARMING,
						      .to = RING_ARMED,
						      .apply = t->ring.source->ops->arm,
						      .done = done,
						      .data = data });
}

void target_disarm(struct target *t, void (*done)(struct target *t, int rc, void *data), void *data)
{
	state_change_queue(t, &(struct state_change){ .op.begin = state_change_begin,
						      .work = { run_state_change, state_change_ran },
						      .from = RING_ARMED,
						      .through = RING_DRAINING,
						      .to = RING_DISARMED,
						      .apply = t->ring.source->ops->disarm,
						      .done = done,
						      .data = data });
}
