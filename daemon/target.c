/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>
#include <sys/syscall.h>

#include "daemon/capture/emu/emu.h"
#include "daemon/capture/process/credentials.h"
#include "daemon/capture/process/proc-file.h"
#include "daemon/target-internal.h"
#include "lib/base/array.h"
#include "lib/base/escape.h"
#include "lib/base/log.h"
#include "lib/notes/notes.h"

enum { FILES_MAX = 1024 };

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

void target_report_change(struct target *t, enum target_change change)
{
	if (t->all->o.changed)
		t->all->o.changed(t->all->o.data, t, change);
}

void target_become_foreign(struct target *t)
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
		target_become_foreign(t);
		return -EACCES;
	}
	return rc;
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
	target_report_change(t, TARGET_ARMED);
}

void target_disarmed(struct target *t)
{
	ring_move(&t->ring, RING_DISARMED);
	update_notes(t);
	target_report_change(t, TARGET_DISARMED);
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
	target_log_gone(t);
	/* The connection of a killed program ends before its status is known. */
	if (t->ending.known || t->replaced)
		event_del(t->ended);
	ledger_return(&t->alive);
	if (t->hang_up)
		t->hang_up(t->data);
	t->hang_up = t->drain = NULL;
	target_list_limit_history(t->all, t->owner);
}

/* Root is limited by what the machine has. */
struct capture_share target_share(const struct target *t)
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
	source->share = target_share(t);
	ring_init(&t->ring, info->pid, source);
	STAILQ_INIT(&t->changes);
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
	t->ended = event_new(all->o.base, t->pidfd, EV_READ, target_on_ended, t);
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
	target_list_listen(all);
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
