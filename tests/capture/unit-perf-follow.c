/* SPDX-License-Identifier: MIT */
/*
 * daemon/capture/perf/perf-follow.c and perf-keep.c: what was mapped while records were left out, or lost, is unknown,
 * also for the csightd that takes over the target.
 */
#include "config.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/capture/perf/perf-internal.h"
#include "daemon/capture/process/code-log.h"
#include "lib/base/util.h"
#include "tests/unit.h"

enum { MOST = 32768 };

static const uint64_t second = 1000000000;

/* True if some code is unknown from this time on. */
static bool is_unknown(struct perf_target *s, uint64_t at)
{
	struct buf log = { 0 }, missing = { 0 };
	struct capture_file *files;
	struct code_log code;
	bool unknown = false;
	size_t n;

	if (process_write_log(s->process, &log, &missing, &files, &n) < 0 ||
	    code_log_read(log.data, log.size, &code) < 0)
		abort();
	for (size_t i = 0; i < code.n_maps; i++)
		unknown |= strcmp(code.maps[i].path, "//unknown") == 0 && code.maps[i].record.head.time_ns == at;
	code_log_done(&code);
	for (size_t i = 0; i < n; i++)
		closep(&files[i].fd);
	free(files);
	buf_done(&log);
	buf_done(&missing);
	return unknown;
}

static void new_process(struct perf_target *s, uint64_t now)
{
	process_free(s->process);
	CHECK_EQ(process_new(&(struct process_of){ s->pid, s->pidfd, 0 }, true, now, &s->process), 0);
}

/* Drops the process's history, and folds the log of the target as another csightd does. */
static void take_over(struct perf_target *s, uint64_t now)
{
	struct perf_kept *k = calloc(1, sizeof(*k));

	k->pid = (uint32_t)s->pid;
	TAILQ_INSERT_TAIL(&s->m->kept, k, link);
	new_process(s, now);
	perf_keep_replay(s);
}

int main(void)
{
	uint64_t armed = now_ns(CLOCK_MONOTONIC), late = armed + second;
	struct perf_machine m = { .reading = 100 * second };
	struct perf_target s = { .base.share = { .account = 1000, .divided = true },
				 .m = &m,
				 .pid = getpid(),
				 .pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0),
				 .shared = true };
	const struct perf_record map = { .type = PERF_RECORD_MMAP2, .origin.time = late };

	TAILQ_INIT(&m.kept);
	TAILQ_INIT(&m.sources);
	CHECK_EQ(sideband_new(&(struct sideband_listener){ 0 }, -1, &m.sideband), 0);
	CHECK_EQ(replay_log_new(armed, "", 1, &s.log), 0);
	thread_table_init(&s.thread_table, (uint32_t)s.pid);
	thread_table_own(&s.thread_table, armed);
	perf_keep_log_owned(&s, armed);
	new_process(&s, armed);
	for (unsigned i = 0; i < MOST; i++)
		if (!perf_target_follows(&s, &map))
			abort();
	CHECK(!perf_target_follows(&s, &map));
	perf_target_end_flood(&s);
	/* The record is later than the time up to which all have been read. */
	CHECK(is_unknown(&s, late));
	CHECK(thread_table_owned(&s.thread_table, late));
	take_over(&s, armed);
	CHECK(is_unknown(&s, late));
	/* Alone. */
	replay_log_free(s.log);
	CHECK_EQ(replay_log_new(armed, "", 1, &s.log), 0);
	perf_target_lost_records(&s, late + second);
	take_over(&s, armed);
	CHECK(is_unknown(&s, late + second + 1));
	process_free(s.process);
	thread_table_done(&s.thread_table);
	replay_log_free(s.log);
	sideband_free(m.sideband);
	closep(&s.pidfd);
	free(m.accounts);
	return unit_end();
}
