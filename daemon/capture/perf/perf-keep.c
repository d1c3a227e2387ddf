/* SPDX-License-Identifier: MIT */
/*
 * Rings that outlive the daemon. csightd's keeper holds the events of each target on private sinks, those of the
 * arena, and logs of the records that their state was folded from. When the target is armed again, no matter by which
 * user, it continues with them. Until then the sideband's records about its process are collected.
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

/* Returns the group of a process: its start time and process ID, together unique. 0: it has ended. */
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
	m->arena_kept = false;
}

static int note_group(void *data, const struct keeper_message *message, int fd)
{
	struct perf_machine *m = data;
	struct perf_kept *k;

	closep(&fd);
	m->arena_kept |= message->group == KEEPER_ARENA;
	if (message->group == KEEPER_SIDEBAND || message->group == KEEPER_ARENA)
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

/* Lists what an earlier daemon has opened; on failure, nothing of it is used. */
static int take_over(struct perf_machine *m)
{
	int rc = keeper_client_groups(m->keeper, note_group, m);

	if (rc == 0)
		rc = sideband_set_keeper(m->sideband, m->keeper);
	if (rc < 0)
		perf_keep_forget(m);
	return rc;
}

/* Closes what the keeper has of earlier daemons, and of this one before the connection was lost. */
static int discard(struct perf_machine *m)
{
	struct perf_kept *k;
	int rc;

	perf_keep_forget(m);
	rc = keeper_client_groups(m->keeper, note_group, m);
	while ((k = TAILQ_FIRST(&m->kept))) {
		keeper_client_close(m->keeper, &(struct kept_name){ .group = k->group });
		forget_kept(m, k);
	}
	m->arena_kept = false;
	keeper_client_close(m->keeper, &(struct kept_name){ .group = KEEPER_ARENA });
	keeper_client_close(m->keeper, &(struct kept_name){ .group = KEEPER_SIDEBAND });
	return rc;
}

static bool has_unclaimed(const struct perf_machine *m)
{
	return !TAILQ_EMPTY(&m->kept) || m->arena_kept;
}

static int hold_target(struct perf_target *s)
{
	int rc;

	if (!s->armed || s->lost || s->thread_table.ended || !s->log)
		return 0;
	perf_keep_prepare(s);
	if (!s->grid.keeper)
		return 0;
	rc = grid_hold(&s->grid, replay_log_fd(s->log));
	return rc < 0 || s->shared ? rc : grid_hold_events(&s->grid);
}

/* A keeper that starts while this daemon has events open gets them: nothing is opened again, and no record is lost. */
static int hand_over(struct perf_machine *m)
{
	struct perf_target *s;
	int rc = discard(m);

	if (rc == 0)
		rc = sideband_hold(m->sideband, m->keeper);
	if (rc == 0 && m->arena.plan)
		rc = arena_hold(&m->arena, m->keeper);
	TAILQ_FOREACH (s, &m->sources, link)
		if (rc == 0)
			rc = hold_target(s);
	return rc;
}

static void note_connection(struct perf_machine *m, int rc, bool has_events)
{
	if (rc < 0 && !m->keeper_failed)
		log_notice("no keeper at %s (%s): a restart loses the history of processes on hardware", m->keeper_path,
			   strerror(-rc));
	else if (rc == 0 && has_events)
		log_notice("csight-keeper has started: it has the rings now, and their history goes on");
	m->keeper_failed = rc < 0;
}

void perf_keep_connect(struct perf_machine *m)
{
	bool has_events = m->arena.plan || !TAILQ_EMPTY(&m->sources);
	uint64_t now = now_ns(CLOCK_MONOTONIC);
	int rc;

	keeper_client_check(m->keeper);
	if (!m->keeper_path || keeper_client_is_connected(m->keeper) || now < m->next_keeper)
		return;
	m->next_keeper = now + RETRY_NS;
	rc = m->keeper ? keeper_client_connect(m->keeper, m->keeper_path)
		       : keeper_client_new(m->keeper_path, &m->keeper);
	if (rc == 0)
		rc = has_events ? hand_over(m) : take_over(m);
	note_connection(m, rc, has_events);
	if (rc < 0) {
		keeper_client_leave(m->keeper);
		return;
	}
	m->claim_until = now + CLAIM_NS;
	m->claiming = true;
	if (has_unclaimed(m))
		perf_machine_open_sideband(m, NULL);
}

static void discard_arena(struct perf_machine *m)
{
	if (m->arena_kept)
		keeper_client_close(m->keeper, &(struct kept_name){ .group = KEEPER_ARENA });
	m->arena_kept = false;
}

/* Closes what no target has claimed. */
static void end_claims(struct perf_machine *m)
{
	struct perf_kept *k;

	m->claim_until = 0;
	while ((k = TAILQ_FIRST(&m->kept))) {
		keeper_client_close(m->keeper, &(struct kept_name){ .group = k->group });
		forget_kept(m, k);
	}
	discard_arena(m);
	sideband_drop_kept(m->sideband);
	perf_machine_open_sideband(m, NULL);
}

void perf_keep_maintain(struct perf_machine *m)
{
	perf_keep_connect(m);
	if (m->claim_until && now_ns(CLOCK_MONOTONIC) >= m->claim_until)
		end_claims(m);
	if (m->claiming && !has_unclaimed(m)) {
		m->claiming = false;
		keeper_client_claimed(m->keeper);
	}
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
	size_t size;
	const uint8_t *record = whole_record(r, &size);
	bool is_switch = r->type == PERF_RECORD_SWITCH_CPU_WIDE, shared = m->arena_kept || m->arena.plan, found = false;
	struct perf_kept *k;

	TAILQ_FOREACH (k, &m->kept, link) {
		found |= k->pid == pid;
		/* On the arena, another process may get the number of a thread that ended. */
		if (k->pid != pid && !(shared && r->type == PERF_RECORD_FORK))
			continue;
		if (is_switch && k->records.size > RECORDS_MAX / 2)
			k->switches_lost = k->switches_lost ? k->switches_lost : r->origin.time;
		else
			buf_add(&k->records, record, size);
	}
	return found;
}

static bool needs_switches(const struct perf_target *s)
{
	return s->contained || (s->m->arena.plan && s->m->arena.plan->switches);
}

void perf_keep_log(struct perf_target *s, const struct perf_record *r)
{
	size_t size;
	const uint8_t *record = whole_record(r, &size);

	bool is_switch = r->type == PERF_RECORD_SWITCH_CPU_WIDE;

	/* Switches that are needed only to show pauses would fill the log. */
	if (s->log && !(is_switch && s->shared && !needs_switches(s)))
		replay_log_add(s->log, REPLAY_RECORD, r->origin.time, record, size);
}

void perf_keep_log_owned(struct perf_target *s, uint64_t from)
{
	if (s->log)
		replay_log_add(s->log, REPLAY_OWNED, from, &from, sizeof(from));
}

void perf_keep_log_lost(struct perf_target *s, uint32_t place, uint64_t since, uint64_t until)
{
	if (s->log)
		replay_log_add(s->log, place, since, &until, sizeof(until));
}

/* Describes what the rings hold and how they were opened: a daemon takes only rings with its own description. */
static void describe_plan(const struct plan *p, struct buf *b)
{
	buf_u32(b, p->type);
	buf_add(b, p->words, sizeof(p->words));
	buf_u64(b, p->data_size);
	buf_u8(b, p->exclude_kernel);
	/* Rings of all threads have the description of earlier versions, so that an upgrade keeps them. */
	if (p->thread)
		buf_u32(b, p->thread);
	if (p->fill)
		buf_u8(b, CAPTURE_MODE_FILL);
	for (size_t n = 0; n < p->n_cpus; n++) {
		const struct plan_cpu *c = &p->cpus[n];

		buf_u32(b, c->cpu);
		buf_u32(b, c->sink_id);
		buf_u64(b, c->aux_size);
		buf_u64(b, c->configr);
	}
}

static void describe(const struct perf_target *s, const struct plan *p, struct buf *b)
{
	const char *filter = s->options.filter;

	/* As it was given: in what the kernel has of it, files are descriptors of this process. */
	describe_plan(p, b);
	buf_u32(b, s->uid);
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
	s->grid.of = (struct address_space_of){ perf_target_process(s).account, s->pid };
}

static int take_file(void *data, const struct keeper_message *m, int fd)
{
	int *ret = data;

	closep(ret);
	*ret = fd;
	return m->kind == KEEPER_FILE ? 0 : -EPROTO;
}

/* Of a target on the arena the keeper has the log alone. */
static int take_log(struct perf_target *s, const struct plan *p, int *ret)
{
	if (!s->shared)
		return grid_adopt(&s->grid, p, s->m->poll_fd, ret);
	return s->m->arena.adopted ? keeper_client_list(s->grid.keeper, s->grid.group, take_file, ret) : -ENOENT;
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
	rc = take_log(s, p, &fd);
	if (rc == 0)
		rc = fd < 0 ? -ENOENT : replay_log_open(&fd, about.data, about.size, &s->log);
	if (rc == 0) {
		s->armed_at = replay_log_armed_at(s->log);
		s->adopted = true;
		return true;
	}
	log_notice("the rings of process %d, which an earlier csightd opened, are closed: %s", (int)s->pid,
		   rc == -ESTALE ? "its options or the settings differ" : strerror(-rc));
	grid_close(&s->grid);
	perf_keep_prepare(s);
	return false;
}

static int begin_log(struct perf_target *s, const struct plan *p)
{
	_cleanup_buf_ struct buf about = { 0 };
	int rc;

	describe(s, p, &about);
	rc = buf_error(&about);
	if (rc == 0)
		rc = replay_log_new(s->armed_at, about.data, about.size, &s->log);
	for (size_t i = 0; rc == 0 && s->shared && i < s->thread_table.n; i++)
		replay_log_add(s->log, REPLAY_THREAD, s->armed_at, &s->thread_table.list[i],
			       sizeof(s->thread_table.list[i]));
	if (rc == 0 && s->grid.keeper)
		rc = grid_hold(&s->grid, replay_log_fd(s->log));
	return rc;
}

/* Begins the log without a keeper as well: one may start later. */
void perf_keep_begin(struct perf_target *s, const struct plan *p)
{
	int rc = s->m->keeper_path ? begin_log(s, p) : 0;

	if (rc < 0) {
		log_warning("the history of process %d will not outlive csightd: %s", (int)s->pid, strerror(-rc));
		s->log = replay_log_free(s->log);
	} else if (s->log && !s->shared) {
		record_in_log(s);
	}
}

static void record_arena_in_log(struct arena *a)
{
	for (size_t n = 0; n < a->plan->n_cpus; n++) {
		a->rings[n].log = a->log;
		a->rings[n].number = (uint32_t)n;
	}
}

void perf_keep_begin_arena(struct perf_machine *m)
{
	_cleanup_buf_ struct buf about = { 0 };
	struct arena *a = &m->arena;
	int rc;

	if (!m->keeper_path)
		return;
	describe_plan(a->plan, &about);
	rc = buf_error(&about);
	if (rc == 0)
		rc = replay_log_new(0, about.data, about.size, &a->log);
	if (rc < 0) {
		log_warning("the history on the shared sink will not outlive csightd: %s", strerror(-rc));
		return;
	}
	record_arena_in_log(a);
	if (keeper_client_is_connected(m->keeper))
		arena_hold(a, m->keeper);
}

static void replay_arena_entry(void *user, uint32_t place, uint64_t position, const uint8_t *data, size_t size)
{
	struct arena *a = user;
	struct trace_pause pause;

	if (place == REPLAY_PAUSE && size == sizeof(pause)) {
		memcpy(&pause, data, size);
		pause_list_replay(&a->pauses, &pause, 0);
	}
	if (place >= a->plan->n_cpus)
		return;
	aux_fold_all(&a->rings[place], data, size);
	a->rings[place].replayed = position;
}

static int adopt_arena(struct perf_machine *m, struct plan *p)
{
	_cleanup_buf_ struct buf about = { 0 };
	_cleanup_close_ int fd = -1;
	struct replay_log *log;
	int rc;

	describe_plan(p, &about);
	rc = buf_error(&about);
	if (rc == 0)
		rc = arena_adopt(&m->arena, p, m->keeper, m->poll_fd, &fd);
	if (rc < 0)
		return rc;
	rc = replay_log_open(&fd, about.data, about.size, &log);
	if (rc < 0) {
		arena_abandon(&m->arena);
		return rc;
	}
	replay_log_each(log, replay_arena_entry, &m->arena);
	m->arena.restored_partly = replay_log_wrapped(log);
	m->arena.log = log;
	record_arena_in_log(&m->arena);
	/* The earlier daemon may have stopped tracing. */
	m->arena.stopped = pause_list_is_open(&m->arena.pauses);
	if (m->arena.stopped)
		arena_start(&m->arena);
	backlog_read_all(&m->arena.backlogs, m->arena.rings, p->n_cpus, &m->scratch);
	return 0;
}

bool perf_keep_adopt_arena(struct perf_machine *m, struct plan *p)
{
	int rc;

	if (!m->arena_kept || !keeper_client_is_connected(m->keeper))
		return false;
	rc = adopt_arena(m, p);
	if (rc == 0) {
		m->arena_kept = false;
		return true;
	}
	log_notice("the ring of the shared sink, which an earlier csightd opened, is closed: %s",
		   rc == -ESTALE ? "the settings differ" : strerror(-rc));
	discard_arena(m);
	return false;
}

static bool is_of_another(const struct perf_target *s, const struct perf_record *r)
{
	return r->type == PERF_RECORD_FORK && perf_record_pid(r) != (uint32_t)s->pid;
}

static void fold_record(struct perf_target *s, const struct perf_record *r)
{
	if (is_of_another(s, r))
		thread_table_note_fork(&s->thread_table, r);
	else
		perf_target_fold(s, r);
}

/* Mappings of that time are unknown: the records that follow in the log do not say what was replaced. */
static void replay_loss(struct perf_target *s, uint64_t since, const uint8_t *data, size_t size)
{
	uint64_t until = since;

	if (size == sizeof(until))
		memcpy(&until, data, size);
	if (s->process)
		process_note_lost_records(s->process, since, MAX(until, s->replayed));
}

static void replay_entry(void *user, uint32_t place, uint64_t position, const uint8_t *data, size_t size)
{
	struct perf_target *s = user;
	struct thread_entry thread;
	struct trace_pause pause = { 0 };
	struct perf_record r;

	if (place == REPLAY_RECORD) {
		if (perf_record_parse(data, size, &r) < 0)
			return;
		s->replayed = MAX(s->replayed, r.origin.time);
		fold_record(s, &r);
	} else if (place == REPLAY_THREAD && size == sizeof(thread)) {
		memcpy(&thread, data, sizeof(thread));
		thread_table_add(&s->thread_table, &thread);
	} else if (place == REPLAY_OWNED) {
		thread_table_own(&s->thread_table, position);
		thread_table_exec_checked(&s->thread_table);
	} else if (place == REPLAY_LOST) {
		thread_table_lost_records(&s->thread_table, position);
		replay_loss(s, position, data, size);
	} else if (place == REPLAY_LEFT_OUT) {
		replay_loss(s, position, data, size);
	} else if (place == REPLAY_PAUSE && size <= sizeof(pause)) {
		memcpy(&pause, data, size);
		grid_replay_pause(&s->grid, &pause);
	} else if (!s->shared && place < s->plan->n_cpus) {
		aux_fold_all(&s->grid.rings[place], data, size);
		s->grid.rings[place].replayed = position;
	}
}

static void find_first(void *user, uint32_t place, uint64_t position, const uint8_t *data, size_t size)
{
	uint64_t *first = user;

	if (place == REPLAY_RECORD)
		*first = MIN(*first, position);
}

uint64_t perf_keep_recorded_since(const struct perf_target *s)
{
	uint64_t first = sideband_now(s->m->sideband);

	if (!s->log || s->shared || !replay_log_wrapped(s->log))
		return s->armed_at;
	replay_log_each(s->log, find_first, &first);
	return first;
}

/*
 * The sideband passes on a record again if the earlier daemon has folded, but not released it. A daemon in between may
 * have read records, and ended before this target was armed again.
 */
static void fold_collected(struct perf_target *s, struct perf_kept *k)
{
	bool incomplete =
	    buf_error(&k->records) || !sideband_was_kept(s->m->sideband) || keeper_client_misses_records(s->m->keeper);
	const uint8_t *at = k->records.data;

	if (incomplete)
		thread_table_lost_switches(&s->thread_table, s->replayed, UINT32_MAX);
	for (size_t left = k->records.size; left;) {
		struct perf_record r;
		int size = perf_record_parse(at, left, &r);

		if (size < 0)
			break;
		if (is_of_another(s, &r)) {
			if (thread_table_note_fork(&s->thread_table, &r))
				perf_keep_log(s, &r);
		} else if (r.origin.time > s->replayed) {
			perf_target_record(s, &r);
		}
		at += size;
		left -= (size_t)size;
	}
	if (k->switches_lost)
		thread_table_lost_switches(&s->thread_table, k->switches_lost, UINT32_MAX);
	if (incomplete)
		perf_target_rescan(s, s->replayed);
}

/* Whose the process was is unknown where the log lacks something. */
static void settle_shared(struct perf_target *s)
{
	uint64_t now = sideband_now(s->m->sideband);

	if (!needs_switches(s))
		thread_table_lost_switches(&s->thread_table, now, UINT32_MAX);
	if (!s->restored_partly)
		return;
	thread_table_disown(&s->thread_table, 0);
	s->armed_at = now;
}

void perf_keep_replay(struct perf_target *s)
{
	struct perf_kept *k = find_kept(s->m, (uint32_t)s->pid);
	struct replay_log *log = s->log;

	if (!k)
		return;
	if (log) {
		s->log = NULL;
		replay_log_each(log, replay_entry, s);
		s->restored_partly = replay_log_wrapped(log);
		s->log = log;
	}
	if (log && s->shared)
		settle_shared(s);
	else if (log) {
		record_in_log(s);
		backlog_read_all(&s->grid.backlogs, s->grid.rings, s->plan->n_cpus, &s->m->scratch);
	}
	fold_collected(s, k);
	forget_kept(s->m, k);
}
