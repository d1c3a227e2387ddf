/* SPDX-License-Identifier: MIT */
/*
 * daemon/capture/perf/perf-follow.c and perf-keep.c: what was mapped while records were left out, or lost, is unknown,
 * also for the csightd that takes over the target.
 */
#include "config.h"

#include <string.h>
#include <sys/epoll.h>
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

/* What a program causes by executing others is of its account's share, too, however many of its processes do so. */
static void test_watched_again(void)
{
	const struct capture_watch_list list = { .watches[0] = { .kind = EMU_WATCH_OFF_CPU } };
	const struct sideband_listener none = { 0 };
	const struct perf_record exec = { .type = PERF_RECORD_COMM, .misc = PERF_RECORD_MISC_COMM_EXEC };
	const struct capture_options options = { 0 };
	struct perf_machine m = { .lock = PTHREAD_MUTEX_INITIALIZER };
	int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	struct capture_source *source;
	struct perf_target *s;
	struct reason why;

	m.poll_fd = epoll_create1(EPOLL_CLOEXEC);
	TAILQ_INIT(&m.sources);
	CHECK(topology_read("/", &m.topology) == 0 && sideband_new(&none, m.poll_fd, &m.sideband) == 0);
	CHECK_EQ(perf_target_new(&m, getpid(), pidfd, getuid(), &options, &source), 0);
	source->share = (struct capture_share){ .account = 1000, .divided = true };
	s = perf_target_of(source);
	CHECK_EQ(perf_watching.set(source, &list, &why), 0);
	s->armed = true;
	perf_watch_record(s, &exec);
	perf_share_worked(s, now_ns(CLOCK_MONOTONIC) - second);
	perf_watch_drain(s);
	CHECK_EQ(perf_watch_events(s), 0);
	m.accounts[0].rest_until = 0;
	perf_watch_drain(s);
	if (!perf_watch_events(s))
		unit_skip("watch points of a program that was executed", "the kernel provides no events here");
	else
		CHECK(m.accounts[0].rest_until > 0);
	perf_watch_free(s);
	closep(&s->pidfd);
	free(s);
	sideband_free(m.sideband);
	topology_free(m.topology);
	closep(&m.poll_fd);
	closep(&pidfd);
	free(m.accounts);
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
	test_watched_again();
	return unit_end();
}
