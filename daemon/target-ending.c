/* SPDX-License-Identifier: MIT */
/* How processes of targets end, and that they do. */
#include "config.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "daemon/capture/process/exit-status.h"
#include "daemon/target-internal.h"
#include "lib/base/array.h"
#include "lib/base/escape.h"
#include "lib/base/log.h"

enum { OOM_SECONDS = 2, CORE_DUMPED = 0x80 };

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
	/* A process ends after its threads; before its status was known, the ends of some may not have been there. */
	if (t->all->o.exits)
		exit_listener_read(t->all->o.exits);
	t->settling = false;
	t->ending.oom = t->oom_killed;
	if (complete || t->oom_killed)
		return;
	if (t->gone_ns && now_ns(CLOCK_MONOTONIC) - t->gone_ns > OOM_SECONDS * 1000000000ull) {
		oom_listener_forget(ooms);
		return;
	}
	t->ending.known = false;
	/* The kernel may drop the status before settle_ending() is called again. */
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

void target_log_gone(struct target *t)
{
	char how[ENDING_TEXT_SIZE] = "ended";

	if (t->ending_logged)
		return;
	t->ending_logged = t->ending.known;
	if (t->ending.known)
		ending_text(&t->ending, how);
	if (!t->foreign)
		log_info("process %d (%s) of uid %u %s", (int)t->pid, esc(t->name), t->uid, how);
	target_report_change(t, TARGET_ENDED);
	if (t->all->o.ended)
		t->all->o.ended(t->all->o.data, t);
}

/* Records that SIGKILL has ended a thread: the killer names one of a process, not always the first. */
static void note_killed(struct target *t, pid_t tid)
{
	const struct target_list *all = t->all;
	uint64_t now = now_ns(CLOCK_MONOTONIC);

	for (size_t i = 0; i < TARGET_VICTIMS; i++)
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
		target_become_foreign(t);
}

void target_list_take_event(struct target_list *all, const struct exit_event *e)
{
	struct target *t;

	if (e->changes_uid) {
		take_uid_change(all, e);
		return;
	}
	TAILQ_FOREACH (t, &all->list, link) {
		if (t->pid != e->pid || t->replaced || (t->ending.known && !t->settling))
			continue;
		if (!e->dumps && e->code == SIGKILL)
			note_killed(t, e->tid);
		/* Its status is known; which of its threads the killer chose may not be. */
		if (t->settling)
			continue;
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
			target_log_gone(t);
	}
}

void target_settle_late(struct target *t)
{
	if (t->ring.state != RING_GONE || t->ending.known || t->replaced)
		return;
	settle_ending(t);
	if (t->ending.known)
		target_log_gone(t);
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
		all->victims[all->n_victims++ % TARGET_VICTIMS] =
		    (struct target_victim){ tid, now_ns(CLOCK_MONOTONIC) };
}

void target_list_settle(struct target_list *all)
{
	struct target *t;

	TAILQ_FOREACH (t, &all->list, link)
		target_settle_late(t);
}

void target_list_hear_exits(struct target_list *all, struct exit_listener *exits)
{
	all->o.exits = exits;
	target_list_listen(all);
}

void target_list_listen(struct target_list *all)
{
	_cleanup_free_ pid_t *pids = NULL;
	size_t n = 0, room = 0;
	struct target *t;
	int rc;

	if (!all->o.exits)
		return;
	TAILQ_FOREACH (t, &all->list, link)
		if (!t->ending.known && !t->replaced && array_reserve(pids, n, &room) == 0)
			pids[n++] = t->pid;
	rc = exit_listener_set(all->o.exits, pids, n);
	if (rc < 0 && !all->deaf)
		log_warning(
		    "cannot listen for the ends of all processes that are recorded: %s; of some the exit status "
		    "will not be known",
		    strerror(-rc));
	all->deaf = rc < 0;
}

void target_on_ended(evutil_socket_t fd, short what, void *data)
{
	struct target *t = target_ref(data);

	if (t->ring.state != RING_GONE)
		target_gone(t);
	else if (!t->ending.known && target_ending(t)->known)
		target_log_gone(t);
	target_unref(t);
}
