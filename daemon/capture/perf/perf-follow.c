/* SPDX-License-Identifier: MIT */
/* What the kernel's records say of a target: its threads, names and mappings, and whether it is its owner's. */
#include "config.h"

#include "daemon/capture/perf/perf-internal.h"
#include "daemon/capture/process/credentials.h"
#include "lib/base/reader.h"
#include "lib/base/util.h"

enum { SETTLE_TRIES = 16 };

static void add_map(struct perf_target *s, const struct perf_record *r)
{
	struct reader body = reader_of(r->body, r->size), id;
	struct process_map m = { .time = r->origin.time };
	uint32_t pid, tid;
	const uint8_t *file;

	if (rd_u32(&body, &pid) < 0 || rd_u32(&body, &tid) < 0 || rd_u64(&body, &m.addr) < 0 ||
	    rd_u64(&body, &m.len) < 0 || rd_u64(&body, &m.offset) < 0 || rd_bytes(&body, 24, &file) < 0 ||
	    rd_u32(&body, &m.prot) < 0 || rd_u32(&body, &m.flags) < 0 || rd_str(&body, &m.path) < 0)
		return;
	id = reader_of(file, 24);
	rd_u32(&id, &m.major);
	rd_u32(&id, &m.minor);
	rd_u64(&id, &m.inode);
	rd_u64(&id, &m.generation);
	process_map(s->process, &m);
}

static void add_name(struct perf_target *s, const struct perf_record *r)
{
	struct reader body = reader_of(r->body, r->size);
	uint32_t pid, tid;
	const char *name;

	if (rd_u32(&body, &pid) == 0 && rd_u32(&body, &tid) == 0 && rd_str(&body, &name) == 0)
		process_name(s->process, r->origin.time, tid, name, r->misc & PERF_RECORD_MISC_COMM_EXEC);
}

bool perf_target_follows(struct perf_target *s, const struct perf_record *r)
{
	bool name = r->type == PERF_RECORD_COMM && !(r->misc & PERF_RECORD_MISC_COMM_EXEC);

	if ((r->type != PERF_RECORD_MMAP2 && !name) || perf_share_count_record(s))
		return true;
	if (!name && !s->flooded_since)
		s->flooded_since = MAX(sideband_now(s->m->sideband), 1);
	if (!name)
		s->flooded_until = MAX(s->flooded_until, r->origin.time);
	return false;
}

void perf_target_end_flood(struct perf_target *s)
{
	/* Records that are later than now may have been left out, too. */
	uint64_t until = MAX(sideband_now(s->m->sideband), s->flooded_until + 1);

	if (!s->flooded_since)
		return;
	perf_keep_log_lost(s, REPLAY_LEFT_OUT, s->flooded_since - 1, until);
	if (s->process)
		process_note_lost_records(s->process, s->flooded_since - 1, until);
	s->flooded_since = s->flooded_until = 0;
}

/* After the process has ended, its process ID may be that of another one. */
bool perf_target_record(struct perf_target *s, const struct perf_record *r)
{
	if (s->lost || s->thread_table.ended)
		return false;
	/* Nothing is traced any more. */
	if (r->type == PERF_RECORD_SWITCH_CPU_WIDE && s->grid.ended)
		return true;
	perf_keep_log(s, r);
	perf_target_fold(s, r);
	return true;
}

void perf_target_fold(struct perf_target *s, const struct perf_record *r)
{
	thread_table_fold(&s->thread_table, r);
	perf_watch_record(s, r);
	if (s->process && r->type == PERF_RECORD_MMAP2)
		add_map(s, r);
	else if (s->process && r->type == PERF_RECORD_COMM)
		add_name(s, r);
}

/* The program that is running now may not be the target's owner's: nothing more is recorded. */
static void mark_lost(struct perf_target *s)
{
	s->lost = true;
	perf_watch_close(s);
	perf_counters_close(s);
	if (s->armed && !s->shared)
		grid_end(&s->grid);
}

/*
 * /proc shows the credentials of the program executed last. They count only if no exec record follows them, since the
 * process may have executed another program meanwhile. thread-table.c derives the owner of programs in between from the
 * records.
 */
void perf_target_check_owner(struct perf_target *s)
{
	for (unsigned i = 0; i < SETTLE_TRIES && s->thread_table.execs && !s->lost && !s->rescans; i++) {
		uint64_t from = s->thread_table.last_exec;
		unsigned execs = s->thread_table.execs;
		struct credentials c;

		/* The process lives after the reading, so the number was its own during it. */
		if (credentials_read(s->pid, &c) < 0 || !perf_target_exists(s))
			return;
		if (!credentials_owned(&c, s->uid)) {
			mark_lost(s);
			return;
		}
		sideband_drain(s->m->sideband);
		if (s->thread_table.execs != execs)
			continue;
		thread_table_own(&s->thread_table, from);
		thread_table_exec_checked(&s->thread_table);
		perf_keep_log_owned(s, from);
	}
}

/* Assume an exec at the moment of the loss: the latest time at which the owner may have changed. */
static void note_lost_records(struct perf_target *s, uint64_t since)
{
	uint64_t now = sideband_now(s->m->sideband);

	s->lost_records++;
	if (s->lost || s->thread_table.ended)
		return;
	thread_table_lost_records(&s->thread_table, since);
	perf_keep_log_lost(s, REPLAY_LOST, since, now);
	if (s->process)
		process_note_lost_records(s->process, since, now);
	s->rescans = true;
}

void perf_target_rescan(struct perf_target *s, uint64_t since)
{
	note_lost_records(s, since);
	perf_target_catch_up(s);
}

void perf_target_lost_records(struct perf_target *s, uint64_t since)
{
	note_lost_records(s, since);
	if (!perf_share_rests(s))
		perf_target_catch_up(s);
}

void perf_target_catch_up(struct perf_target *s)
{
	uint64_t begun = now_ns(CLOCK_MONOTONIC), now = sideband_now(s->m->sideband);

	if (!s->rescans)
		return;
	s->rescans = false;
	thread_table_scan(&s->thread_table, now);
	s->thread_table.execs++;
	s->thread_table.last_exec = now;
	perf_share_worked(s, begun);
}
