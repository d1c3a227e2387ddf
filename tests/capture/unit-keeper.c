/* SPDX-License-Identifier: MIT */
/* csight-keeper, what csightd asks of it, and the log: records are complete and in order across a change of
 * clients. */
#include "config.h"

#include <linux/perf_event.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "daemon/capture/perf/backlog.h"
#include "daemon/capture/perf/keeper-client.h"
#include "daemon/capture/perf/replay-log.h"
#include "daemon/capture/perf/sideband.h"
#include "lib/base/util.h"
#include "tests/unit.h"

static char path[108];
static pid_t keeper;

static struct keeper_client *connected(void)
{
	struct keeper_client *k = NULL;

	for (unsigned i = 0; i < 500 && keeper_client_new(path, &k) < 0; i++)
		usleep(10000);
	return k;
}

static void start_keeper(const char *keep_for)
{
	const char *top = getenv("top_builddir");
	char program[4096];

	snprintf(program, sizeof(program), "%s/csight-keeper", top ? top : ".");
	keeper = fork();
	if (keeper == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(program, "csight-keeper", "--socket", path, "--keep-for", keep_for, NULL);
		_exit(127);
	}
}

static void stop_keeper(void)
{
	kill(keeper, SIGKILL);
	waitpid(keeper, NULL, 0);
	unlink(path);
}

static unsigned n_entries, last_entry;
static bool entries_good;

static void on_entry(void *user, uint32_t place, uint64_t position, const uint8_t *data, size_t size)
{
	unsigned number;

	memcpy(&number, data, sizeof(number));
	entries_good &= place == number % 7 && position == number * 3ull && size == sizeof(number) + number % 1000;
	entries_good &= !n_entries || number == last_entry + 1;
	for (size_t i = sizeof(number); i < size; i++)
		entries_good &= data[i] == (uint8_t)number;
	last_entry = number;
	n_entries++;
}

static void read_log(const struct replay_log *j)
{
	n_entries = 0;
	entries_good = true;
	replay_log_each(j, on_entry, NULL);
}

static void test_log(void)
{
	static uint8_t data[2000];
	struct replay_log *j, *other;
	unsigned i;
	int fd;

	CHECK_EQ(replay_log_new(1234, "about", 5, &j), 0);
	read_log(j);
	CHECK_EQ(n_entries, 0);
	for (i = 0; i < 50000; i++) {
		size_t size = sizeof(i) + i % 1000;

		memset(data, (int)(uint8_t)i, size);
		memcpy(data, &i, sizeof(i));
		replay_log_add(j, i % 7, i * 3ull, data, size);
		if (i == 1000) {
			read_log(j);
			CHECK(n_entries == 1001 && entries_good && !replay_log_wrapped(j));
		}
	}
	read_log(j);
	CHECK(entries_good && n_entries > 10000 && last_entry == i - 1 && replay_log_wrapped(j));
	/* Another process continues with it. */
	fd = dup(replay_log_fd(j));
	CHECK_EQ(replay_log_open(&fd, "other", 5, &other), -ESTALE);
	CHECK_EQ(replay_log_open(&fd, "about", 5, &other), 0);
	CHECK(fd == -1 && replay_log_armed_at(other) == 1234);
	read_log(other);
	CHECK(entries_good && last_entry == i - 1);
	replay_log_free(other);
	/* What is no log, or a broken one. */
	fd = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK_EQ(replay_log_open(&fd, "about", 5, &other), -EBADMSG);
	close(fd);
	for (off_t at = 16; at < 32; at += 8) {
		uint64_t was, wrong = UINT64_MAX / 2;

		fd = dup(replay_log_fd(j));
		CHECK_EQ(pread(fd, &was, sizeof(was), at), sizeof(was));
		CHECK_EQ(pwrite(fd, &wrong, sizeof(wrong), at), sizeof(wrong));
		CHECK_EQ(replay_log_open(&fd, "about", 5, &other), -EBADMSG);
		CHECK_EQ(pwrite(fd, &was, sizeof(was), at), sizeof(was));
		close(fd);
	}
	replay_log_free(j);
}

static unsigned n_records, n_losses;
static int next_name, set; /* set: the next one to be set */
static bool names_good = true;

static bool wants(void *data, uint32_t pid, const struct perf_record *r)
{
	return pid == (uint32_t)getpid() && r->type == PERF_RECORD_COMM;
}

/* The sideband itself sets the present name again. */
static void on_record(void *data, uint32_t pid, const struct perf_record *r)
{
	int number;

	if (r->size < 16 || r->body[8] != 'n')
		return;
	number = atoi((const char *)r->body + 9);
	names_good &= number == next_name || (number == next_name - 1 && n_records > 0);
	next_name = number + 1;
	n_records++;
}

static void on_lost(void *data, uint64_t since)
{
	n_losses++;
}

static int set_names(int from, int to)
{
	char name[16];

	for (; from < to; from++) {
		snprintf(name, sizeof(name), "n%d", from);
		prctl(PR_SET_NAME, name);
	}
	return to;
}

static struct sideband *open_sideband(struct keeper_client *k, int poll_fd)
{
	const struct sideband_listener user = { wants, on_record, on_lost, NULL };
	struct sideband_cpu_choice cpus[256];
	size_t n = (size_t)sysconf(_SC_NPROCESSORS_ONLN);
	struct reason why = { "" };
	struct sideband *s;

	for (uint32_t i = 0; i < n; i++)
		cpus[i] = (struct sideband_cpu_choice){ i, SIDEBAND_NO_SWITCHES };
	CHECK_EQ(sideband_new(&user, poll_fd, &s), 0);
	CHECK_EQ(sideband_set_keeper(s, k), 0);
	if (sideband_open(s, cpus, MIN(n, ELEMENTS(cpus)), &why) == 0)
		return s;
	printf("# %s\n", why.text);
	return sideband_free(s);
}

/* A client ends at any moment, also between reading a record and handling it; the next one misses none. */
static void test_sideband(void)
{
	uint64_t since;

	for (unsigned round = 0; round < 4; round++) {
		int poll_fd = epoll_create1(EPOLL_CLOEXEC);
		struct keeper_client *k = connected();
		struct sideband *s = k ? open_sideband(k, poll_fd) : NULL;

		if (!s) {
			unit_skip("records across a change of clients", "perf_event_open is not allowed here");
			keeper_client_free(k);
			close(poll_fd);
			return;
		}
		set = set_names(set, set + 100);
		sideband_drain(s);
		CHECK_EQ(next_name, set);
		CHECK(!sideband_lost(s, &since));
		set = set_names(set, set + 10);
		keeper_client_leave(k);
		sideband_free(s);
		keeper_client_free(k);
		close(poll_fd);
		/* More than the rings hold, slowly enough for the keeper to read them. */
		for (unsigned i = 0; i < 20; i++) {
			set = set_names(set, set + 500);
			usleep(20000);
		}
	}
	CHECK(names_good && n_losses == 0);
	CHECK(next_name > 3 * 10000);
}

/* A keeper ends; another gets what this client has open, and then the next client misses nothing, either. */
static void test_second_keeper(void)
{
	int poll_fd = epoll_create1(EPOLL_CLOEXEC);
	struct keeper_client *k = connected();
	struct sideband *s;
	uint64_t since;

	s = k ? open_sideband(k, poll_fd) : NULL;
	if (!s) {
		unit_skip("records across a change of keepers", "perf_event_open is not allowed here");
		keeper_client_free(k);
		close(poll_fd);
		return;
	}
	set = set_names(set, set + 100);
	sideband_drain(s);
	keeper_client_check(k);
	CHECK(keeper_client_is_connected(k));
	stop_keeper();
	keeper_client_check(k);
	CHECK(!keeper_client_is_connected(k));
	set = set_names(set, set + 100);
	sideband_drain(s);
	start_keeper("60");
	for (unsigned i = 0; i < 500 && keeper_client_connect(k, path) < 0; i++)
		usleep(10000);
	CHECK_EQ(sideband_hold(s, k), 0);
	set = set_names(set, set + 100);
	sideband_drain(s);
	CHECK_EQ(next_name, set);
	CHECK(!sideband_lost(s, &since));
	set = set_names(set, set + 100);
	keeper_client_leave(k);
	sideband_free(s);
	keeper_client_free(k);
	close(poll_fd);
	poll_fd = epoll_create1(EPOLL_CLOEXEC);
	k = connected();
	s = open_sideband(k, poll_fd);
	set = set_names(set, set + 100);
	sideband_drain(s);
	CHECK(sideband_was_kept(s));
	CHECK(!sideband_lost(s, &since));
	CHECK(names_good && next_name == set);
	sideband_close(s);
	sideband_free(s);
	keeper_client_free(k);
	close(poll_fd);
}

static unsigned n_things;

static int count_thing(void *data, const struct keeper_message *m, int fd)
{
	closep(&fd);
	n_things++;
	return 0;
}

static unsigned things_of(struct keeper_client *k, uint64_t group)
{
	n_things = 0;
	CHECK_EQ(keeper_client_list(k, group, count_thing, NULL), 0);
	return n_things;
}

static void test_things(void)
{
	struct keeper_client *k = connected(), *other;
	const struct kept_name names[] = { { 7, KEEPER_FILE, 0 }, { 7, KEEPER_FILE, 1 }, { 8, KEEPER_FILE, 0 } };
	int fd = memfd_create("x", MFD_CLOEXEC);

	CHECK(k);
	CHECK_EQ(keeper_client_new(path, &other), -EBUSY);
	for (size_t i = 0; i < ELEMENTS(names); i++)
		CHECK_EQ(keeper_client_hold(k, &names[i], fd), 0);
	CHECK_EQ(keeper_client_hold(k, &names[0], fd), 0);
	CHECK_EQ(things_of(k, 7), 2);
	CHECK_EQ(things_of(k, 9), 0);
	keeper_client_close(k, &names[1]);
	CHECK_EQ(things_of(k, 7), 1);
	keeper_client_close(k, &(struct kept_name){ .group = 7 });
	CHECK_EQ(things_of(k, 7), 0);
	CHECK_EQ(things_of(k, 8), 1);
	/* A client that ends leaves everything, for a while. */
	keeper_client_free(k);
	k = connected();
	CHECK_EQ(things_of(k, 8), 1);
	keeper_client_free(k);
	stop_keeper();
	start_keeper("0");
	k = connected();
	CHECK_EQ(keeper_client_hold(k, &names[0], fd), 0);
	keeper_client_free(k);
	usleep(200000);
	k = connected();
	CHECK_EQ(things_of(k, 7), 0);
	keeper_client_free(k);
	close(fd);
}

static bool misses_records(void)
{
	struct keeper_client *k = connected();
	bool misses = k && keeper_client_misses_records(k);

	keeper_client_free(k);
	return misses;
}

/* Each client reads what the one before it left, and ends before it has claimed that; the last one claims it. */
static void test_claims(void)
{
	const struct kept_name name = { 7, KEEPER_FILE, 0 };
	struct keeper_client *k = connected();
	int fd = memfd_create("x", MFD_CLOEXEC);

	CHECK_EQ(keeper_client_hold(k, &name, fd), 0);
	keeper_client_free(k);
	CHECK(!misses_records());
	k = connected();
	CHECK_EQ(things_of(k, 7), 1);
	keeper_client_free(k);
	CHECK(misses_records());
	k = connected();
	CHECK(keeper_client_misses_records(k));
	CHECK_EQ(things_of(k, 7), 1);
	keeper_client_claimed(k);
	keeper_client_free(k);
	CHECK(!misses_records());
	/* Where nothing is left, nothing is missed. */
	k = connected();
	CHECK_EQ(things_of(k, 7), 1);
	keeper_client_close(k, &name);
	keeper_client_free(k);
	CHECK(!misses_records());
	close(fd);
}

/* The records that were read last end where the ring begins, unless another client had those in between. */
static void test_lost_backlog(void)
{
	struct perf_event_mmap_page page = { 0 };
	struct aux_buffer ring;
	struct backlog_list none = { 0 };
	struct buf scratch = { 0 };

	aux_init(&ring, 0, 4096, 0x10);
	ring.ring.page = &page;
	ring.replayed = ring.ring.position = 512;
	backlog_read_all(&none, &ring, 1, &scratch);
	CHECK_EQ(ring.lost, 0);
	ring.ring.position = 1024;
	backlog_read_all(&none, &ring, 1, &scratch);
	CHECK_EQ(ring.lost, 1);
	CHECK_EQ(ring.ring.position, 1024);
	backlog_done(&none);
}

int main(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(path, sizeof(path), "%s/csight-keeper-test.%d", tmp ? tmp : "/tmp", (int)getpid());
	test_log();
	test_lost_backlog();
	start_keeper("60");
	test_claims();
	test_sideband();
	test_second_keeper();
	test_things();
	stop_keeper();
	return unit_end();
}
