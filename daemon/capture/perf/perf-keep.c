/* SPDX-License-Identifier: MIT */
/*
 * Rings that outlive the daemon. csightd's keeper holds the events of each target on private sinks, and a log of
 * the records that the target's state was folded from. When the target is armed again, by whomever, it continues with
 * them. Until then the sideband's records about its process are collected.
 */
#include "config.h"

#include <fcntl.h>
#include <string.h>

#include "daemon/capture/perf/perf-internal.h"
#include "daemon/capture/process/proc-file.h"
#include "lib/base/log.h"
#include "lib/base/util.h"

enum {
	PID_BITS = 22, /* the kernel's largest PID_MAX_LIMIT */
	RECORDS_MAX = 1 << 20,
};
#define RETRY_NS 5000000000  /* between attempts to connect */
#define CLAIM_NS 60000000000 /* after which rings are closed that no target has taken */

/* The group of a process: its number and when it started, which no other process has in common. 0: it has ended. */
static uint64_t group_of(pid_t pid)
{
	uint64_t start;

	return proc_file_start(pid, &start) < 0 ? 0 : start << PID_BITS | (uint64_t)pid;
}

static struct perf_kept *find_kept(struct perf_machine *m, uint32_t pid)
{
	struct perf_kept *k;

	TAILQ_FOREACH (k, &m->kept, link)
		if (k->pid == pid)
			return k;
	return NULL;
}

static void forget_kept(struct perf_machine *m, struct perf_kept *k)
{
	TAILQ_REMOVE(&m->kept, k, link);
	buf_done(&k->records);
	free(k);
}

void perf_keep_forget(struct perf_machine *m)
{
	struct perf_kept *k;

	while ((k = TAILQ_FIRST(&m->kept)))
		forget_kept(m, k);
}

static int note_group(void *data, const struct keeper_message *message, int fd)
{
	struct perf_machine *m = data;
	struct perf_kept *k;

	closep(&fd);
	if (message->group == KEEPER_SIDEBAND)
		return 0;
	k = calloc(1, sizeof(*k));
	if (!k)
		return -ENOMEM;
	k->group = message->group;
	k->pid = (uint32_t)(message->group & ((1u << PID_BITS) - 1));
	k->records.limit = RECORDS_MAX;
	TAILQ_INSERT_TAIL(&m->kept, k, link);
	return 0;
}

/* What an earlier daemon has opened is known now, or nothing is. */
static int take_over(struct perf_machine *m)
{
	int rc = keeper_client_groups(m->keeper, note_group, m);

	if (rc == 0)
		rc = sideband_set_keeper(m->sideband, m->keeper);
	if (rc < 0)
		perf_keep_forget(m);
	return rc;
}

/* Events that are open already when the keeper starts, or starts again, are kept by this daemon alone. */
void perf_keep_connect(struct perf_machine *m)
{
	uint64_t now = now_ns(CLOCK_MONOTONIC);
	int rc;

	if (!m->keeper_path || keeper_client_is_connected(m->keeper) || now < m->next_keeper)
		return;
	m->next_keeper = now + RETRY_NS;
	rc = m->keeper ? keeper_client_connect(m->keeper, m->keeper_path)
		       : keeper_client_new(m->keeper_path, &m->keeper);
	if (rc == 0)
		rc = take_over(m);
	if (rc < 0 && !m->keeper_failed)
		log_notice("no keeper at %s (%s): a restart loses the history of processes on hardware", m->keeper_path,
			   strerror(-rc));
	m->keeper_failed = rc < 0;
	if (rc < 0)
		return;
	m->claim_until = now + CLAIM_NS;
	if (!TAILQ_EMPTY(&m->kept))
		perf_machine_open_sideband(m, NULL);
}

void perf_keep_maintain(struct perf_machine *m)
{
	struct perf_kept *k;

	perf_keep_connect(m);
	if (!m->claim_until || now_ns(CLOCK_MONOTONIC) < m->claim_until)
		return;
	m->claim_until = 0;
	while ((k = TAILQ_FIRST(&m->kept))) {
		keeper_client_close(m->keeper, &(struct kept_name){ .group = k->group });
		forget_kept(m, k);
	}
	sideband_drop_kept(m->sideband);
	perf_machine_open_sideband(m, NULL);
}

bool perf_keep_wants(const struct perf_machine *m, uint32_t pid)
{
	const struct perf_kept *k;

	TAILQ_FOREACH (k, &m->kept, link)
		if (k->pid == pid)
			return true;
	return false;
}

/* Parsed from a ring, so the header precedes the body. */
static const uint8_t *whole_record(const struct perf_record *r, size_t *ret_size)
{
	*ret_size = sizeof(struct perf_event_header) + r->size + PERF_RECORD_ID_SIZE;
	return r->body - sizeof(struct perf_event_header);
}

bool perf_keep_record(struct perf_machine *m, uint32_t pid, const struct perf_record *r)
{
	struct perf_kept *k = find_kept(m, pid);
	size_t size;
	const uint8_t *record = whole_record(r, &size);

	if (k)
		buf_add(&k->records, record, size);
	return k;
}

void perf_keep_log(struct perf_target *s, const struct perf_record *r)
{
	size_t size;
	const uint8_t *record = whole_record(r, &size);

	if (s->log)
		replay_log_add(s->log, REPLAY_RECORD, r->origin.time, record, size);
}

/* What must be the same for rings to be of use: what they hold, and how it was opened. */
static void describe(const struct perf_target *s, const struct plan *p, struct buf *b)
{
	const char *filter = perf_target_filter(s);

	buf_u32(b, p->type);
	buf_add(b, p->words, sizeof(p->words));
	buf_u64(b, p->data_size);
	buf_u8(b, p->exclude_kernel);
	buf_u32(b, s->uid);
	for (size_t n = 0; n < p->n_cpus; n++) {
		const struct plan_cpu *c = &p->cpus[n];

		buf_u32(b, c->cpu);
		buf_u32(b, c->sink_id);
		buf_u64(b, c->aux_size);
		buf_u64(b, c->configr);
	}
	if (filter)
		buf_add(b, filter, strlen(filter));
}

static void record_in_log(struct perf_target *s)
{
	for (size_t n = 0; n < s->grid.plan->n_cpus; n++) {
		s->grid.rings[n].log = s->log;
		s->grid.rings[n].number = (uint32_t)n;
	}
}

void perf_keep_prepare(struct perf_target *s)
{
	s->grid.keeper = keeper_client_is_connected(s->m->keeper) ? s->m->keeper : NULL;
	s->grid.group = s->grid.keeper ? group_of(s->pid) : 0;
	if (!s->grid.group)
		s->grid.keeper = NULL;
}

bool perf_keep_adopt(struct perf_target *s, const struct plan *p)
{
	_cleanup_buf_ struct buf about = { 0 };
	struct perf_kept *k = find_kept(s->m, (uint32_t)s->pid);
	_cleanup_close_ int fd = -1;
	int rc;

	if (!k || !s->grid.keeper || k->group != s->grid.group)
		return false;
	describe(s, p, &about);
	rc = grid_adopt(&s->grid, p, s->m->poll_fd, &fd);
	if (rc == 0)
		rc = fd < 0 ? -ENOENT : replay_log_open(&fd, about.data, about.size, &s->log);
	if (rc == 0) {
		s->armed_at = replay_log_armed_at(s->log);
		return true;
	}
	log_notice("the rings of process %d, which an earlier csightd opened, are closed: %s", (int)s->pid,
		   rc == -ESTALE ? "its options or the settings differ" : strerror(-rc));
	grid_close(&s->grid);
	perf_keep_prepare(s);
	return false;
}

void perf_keep_begin(struct perf_target *s, const struct plan *p)
{
	_cleanup_buf_ struct buf about = { 0 };
	int rc;

	if (!s->grid.keeper)
		return;
	describe(s, p, &about);
	rc = buf_error(&about);
	if (rc == 0)
		rc = replay_log_new(s->armed_at, about.data, about.size, &s->log);
	if (rc == 0)
		rc = grid_hold(&s->grid, replay_log_fd(s->log));
	if (rc < 0) {
		log_warning("the history of process %d will not outlive csightd: %s", (int)s->pid, strerror(-rc));
		s->log = replay_log_free(s->log);
		return;
	}
	record_in_log(s);
}

static void replay_entry(void *user, uint32_t place, uint64_t position, const uint8_t *data, size_t size)
{
	struct perf_target *s = user;
	struct grid_pause pause;
	struct perf_record r;

	if (place == REPLAY_RECORD) {
		if (perf_record_parse(data, size, &r) < 0)
			return;
		s->replayed = MAX(s->replayed, r.origin.time);
		perf_target_fold(s, &r);
	} else if (place == REPLAY_PAUSE && size == sizeof(pause)) {
		memcpy(&pause, data, sizeof(pause));
		grid_add_pause(&s->grid, pause.from, pause.to);
	} else if (place < s->plan->n_cpus) {
		aux_fold_all(&s->grid.rings[place], data, size);
		s->grid.rings[place].replayed = position;
	}
}

/* The sideband passes on a record again if the earlier daemon had not released it. */
static void fold_collected(struct perf_target *s, struct perf_kept *k)
{
	const uint8_t *at = k->records.data;

	for (size_t left = k->records.size; left;) {
		struct perf_record r;
		int size = perf_record_parse(at, left, &r);

		if (size < 0)
			break;
		if (r.origin.time > s->replayed)
			perf_target_record(s, &r);
		at += size;
		left -= (size_t)size;
	}
	if (buf_error(&k->records) || !sideband_was_kept(s->m->sideband))
		perf_target_rescan(s, s->replayed);
}

void perf_keep_replay(struct perf_target *s)
{
	struct perf_kept *k = find_kept(s->m, (uint32_t)s->pid);
	struct replay_log *log = s->log;

	if (!k)
		return;
	if (log && !s->shared) {
		s->log = NULL;
		replay_log_each(log, replay_entry, s);
		s->restored_partly = replay_log_wrapped(log);
		s->log = log;
		record_in_log(s);
		grid_read_backlogs(&s->grid, &s->m->scratch);
	}
	fold_collected(s, k);
	forget_kept(s->m, k);
}
