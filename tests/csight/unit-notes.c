/* SPDX-License-Identifier: MIT */
/* lib/csight/note.c and lib/notes: notes of several threads and signals, forks, a csightd that leaves, hostile copies.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/csight/csight.h"
#include "lib/notes/notes.h"
#include "tests/unit.h"

enum { THREADS = 6, NOTES_OF_A_THREAD = 20000, COPIES = 60 };

static char directory[] = "/tmp/csight-unit-XXXXXX", path[64];
static struct csight *handle;
static int memory = -1, connection = -1;
static atomic_uint_least64_t recorded;

static int listen_at(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s.emu", path);
	unlink(addr.sun_path);
	if (s < 0 || bind(s, (struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(s, 4) < 0)
		exit(99);
	return s;
}

/* What csightd does with a new connection. */
static void take(int server)
{
	struct notes_message m = { 0 };
	size_t n = 1;

	closep(&memory);
	closep(&connection);
	connection = accept4(server, NULL, NULL, SOCK_CLOEXEC);
	CHECK_EQ(io_take_fds(connection, &m, sizeof(m), &memory, &n, 0), sizeof(m));
	CHECK(m.magic == NOTES_MAGIC && m.version == NOTES_VERSION && n == 1);
}

static bool connection_ends(int within_ms)
{
	struct pollfd p = { connection, POLLIN, 0 };
	char byte;

	return poll(&p, 1, within_ms) == 1 && recv(connection, &byte, 1, 0) == 0;
}

static void set_state(uint32_t state)
{
	io_pwrite(memory, &state, sizeof(state), offsetof(struct notes_memory, state));
}

/* The label of a note says its value. */
static void make_label(uint64_t value, char ret[24])
{
	snprintf(ret, 24, "v%07ju", (uintmax_t)(value * 7 % 9999991));
}

static size_t count_wrong(const struct note *notes, size_t n)
{
	size_t wrong = 0;
	char label[24];

	for (size_t i = 0; i < n; i++) {
		make_label((uint64_t)notes[i].value, label);
		if (notes[i].kind == NOTES_BEGIN)
			snprintf(label, sizeof(label), "span");
		else if (notes[i].kind == NOTES_END)
			snprintf(label, sizeof(label), "span");
		wrong +=
		    strlen(label) != notes[i].label_size || memcmp(label, notes[i].label, notes[i].label_size) != 0;
		wrong += i && notes[i].index <= notes[i - 1].index;
		wrong += notes[i].kind == NOTES_END && (uint64_t)notes[i].value != notes[i].begin % 1000;
	}
	return wrong;
}

static void *make_notes(void *data)
{
	uint64_t first = (uint64_t)(uintptr_t)data * NOTES_OF_A_THREAD;
	struct csight_span span;
	char label[24];

	for (uint64_t i = first; i < first + NOTES_OF_A_THREAD; i += 3) {
		make_label(i, label);
		recorded += csight_note(handle, label, (int64_t)i) == 1;
		csight_span_begin(handle, &span, "span");
		recorded += span.recorded;
		recorded += csight_span_end(handle, &span, (int64_t)(span.index % 1000)) == 1;
	}
	return NULL;
}

static void on_signal(int number)
{
	static const char *const labels[] = { "v0000000", "v0000007" };
	static atomic_uint turn;
	unsigned now = atomic_fetch_add(&turn, 1) % 2;
	int before = errno;

	recorded += csight_note(handle, labels[now], now) == 1;
	errno = before;
}

static struct note *parse(const struct buf *copy, size_t *ret_n)
{
	struct note *notes = NULL;

	if (notes_parse(copy->data, copy->size, &notes, ret_n) < 0)
		exit(98);
	return notes;
}

static void test_unavailable(void)
{
	struct csight_span span;

	CHECK_EQ(csight_note(handle, "x", 1), 0);
	CHECK_EQ(csight_notes_enable(handle), -ENOTCONN);
	CHECK(strlen(csight_error(handle)) > 10);
	CHECK_EQ(csight_note(handle, "x", 1), 0);
	csight_span_begin(handle, &span, "x");
	CHECK_EQ(csight_span_end(handle, &span, 1), 0);
}

static void test_states(int server)
{
	_cleanup_buf_ struct buf copy = { 0 };
	char huge[200];
	struct note *notes;
	size_t n;

	CHECK_EQ(csight_notes_enable(handle), 0);
	take(server);
	CHECK_EQ(fcntl(memory, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	CHECK_EQ(csight_note(handle, "not armed", 1), 0);
	set_state(NOTES_ARMED | NOTES_FROZEN);
	CHECK_EQ(csight_note(handle, "frozen", 1), 0);
	set_state(NOTES_ARMED);
	memset(huge, 'h', sizeof(huge));
	huge[sizeof(huge) - 1] = 0;
	CHECK_EQ(csight_note(handle, huge, -5), 1);
	CHECK_EQ(csight_note(handle, NULL, 6), 1);
	CHECK_EQ(notes_copy(memory, &copy), 0);
	notes = parse(&copy, &n);
	CHECK_EQ(n, 2);
	if (n == 2) {
		CHECK_EQ(notes[0].label_size, NOTES_LABEL_MAX);
		CHECK_EQ(notes[0].value, -5);
		CHECK(notes[0].tid == (uint32_t)gettid() && notes[0].time && notes[0].time <= notes[1].time);
		CHECK_EQ(notes[1].label_size, 0);
	}
	free(notes);
}

static void test_threads(void)
{
	const struct itimerval often = { { 0, 200 }, { 0, 200 } }, never = { { 0, 0 }, { 0, 0 } };
	const struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	const struct notes_memory *m;
	pthread_t threads[THREADS];
	size_t wrong = 0, n = 0, seen = 0, first;
	uint64_t before;

	m = mmap(NULL, sizeof(*m), PROT_READ, MAP_SHARED, memory, 0);
	before = atomic_load(&m->head);
	recorded = 0;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (size_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, make_notes, (void *)(uintptr_t)(i + 1));
	for (int i = 0; i < COPIES; i++) {
		_cleanup_buf_ struct buf copy = { 0 };
		struct note *notes;

		if (notes_copy(memory, &copy) < 0)
			wrong++;
		notes = parse(&copy, &n);
		for (first = 0; first < n && notes[first].index < before;)
			first++;
		wrong += count_wrong(notes + first, n - first);
		seen += n;
		free(notes);
	}
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	setitimer(ITIMER_REAL, &never, NULL);
	CHECK_EQ(wrong, 0);
	CHECK(seen > 0);
	CHECK_EQ(recorded + atomic_load(&m->dropped), atomic_load(&m->head) - before);
	munmap((void *)m, sizeof(*m));
}

static void test_fork(void)
{
	_cleanup_buf_ struct buf before = { 0 }, after = { 0 };
	int status;

	CHECK_EQ(notes_copy(memory, &before), 0);
	if (fork() == 0) {
		bool refused = csight_note(handle, "child", 1) == -ECHILD && csight_notes_enable(handle) == -ECHILD;

		handle = csight_close(handle);
		_exit(refused ? 0 : 1);
	}
	CHECK(wait(&status) > 0 && status == 0);
	CHECK_EQ(notes_copy(memory, &after), 0);
	CHECK(before.size == after.size && memcmp(before.data, after.data, after.size) == 0);
	CHECK_EQ(csight_note(handle, "parent", 1), 1);
	CHECK(!connection_ends(0));
}

/* csightd sees the end of notes whose socket a child has, too. */
static void test_close(void)
{
	pid_t child = fork();

	if (child == 0) {
		pause();
		_exit(0);
	}
	handle = csight_close(handle);
	CHECK(connection_ends(10000));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* csightd ends; the next one gets the same memory, with the notes. */
static void test_restart(int server)
{
	_cleanup_buf_ struct buf copy = { 0 };
	struct note *notes;
	size_t n;

	closep(&connection);
	CHECK_EQ(csight_note(handle, "between", 1), 1);
	CHECK_EQ(csight_notes_enable(handle), 0);
	take(server);
	CHECK_EQ(notes_copy(memory, &copy), 0);
	notes = parse(&copy, &n);
	CHECK(n && notes[n - 1].label_size == 7 && memcmp(notes[n - 1].label, "between", 7) == 0);
	free(notes);
	/* With a connection, nothing is sent again. */
	CHECK_EQ(csight_notes_enable(handle), 0);
	CHECK_EQ(fcntl(server, F_SETFL, O_NONBLOCK), 0);
	CHECK(accept4(server, NULL, NULL, SOCK_CLOEXEC) < 0 && errno == EAGAIN);
}

static void test_marks(void)
{
	bool good = true;

	for (uint64_t index = 0; index < 100000; index += 37) {
		uint64_t back = 0;

		good = good && notes_steps(index, 0) == 0;
		for (unsigned n = 1; n <= NOTES_DIGITS; n++)
			back |= (uint64_t)(notes_steps(index, n) - 1) << (n - 1) * NOTES_BITS;
		good = good && back == index % (1 << NOTES_DIGITS * NOTES_BITS);
		good = good && notes_steps(index, NOTES_MARKS - 1) >= 1 &&
		       notes_steps(index, NOTES_MARKS - 1) <= 1 << NOTES_BITS;
	}
	CHECK(good);
}

static void test_hostile(void)
{
	_cleanup_free_ struct notes_entry *all = calloc(NOTES_ENTRIES + 5, sizeof(*all));
	_cleanup_close_ int fd = memfd_create("x", MFD_CLOEXEC);
	_cleanup_buf_ struct buf copy = { 0 };
	struct note *notes;
	size_t n;

	CHECK_EQ(notes_copy(fd, &copy), -EBADMSG);
	/* Twice the same index, kinds and sizes that do not exist, an end before its beginning. */
	for (size_t i = 0; i < NOTES_ENTRIES + 5; i++) {
		atomic_store(&all[i].sequence, 2 * (i / 2) + 2);
		all[i].kind = (uint16_t)(i % 5);
		all[i].label_size = (uint16_t)(i % 70);
		all[i].begin = i;
		memset(all[i].label, 0xff, sizeof(all[i].label));
	}
	notes = NULL;
	CHECK_EQ(notes_parse(all, (NOTES_ENTRIES + 5) * sizeof(*all) - 1, &notes, &n), 0);
	CHECK(n > 0 && n <= NOTES_ENTRIES / 2);
	for (size_t i = 0; i < n; i++)
		if (notes[i].kind > NOTES_END || notes[i].label_size > NOTES_LABEL_MAX || notes[i].kind == NOTES_END)
			CHECK(!"valid");
	free(notes);
}

int main(void)
{
	int server;

	signal(SIGPIPE, SIG_IGN);
	if (!mkdtemp(directory))
		return 99;
	snprintf(path, sizeof(path), "%s/sock", directory);
	if (csight_open(path, &handle) < 0)
		return 99;
	test_unavailable();
	server = listen_at();
	test_states(server);
	test_threads();
	test_fork();
	test_restart(server);
	test_close();
	test_marks();
	test_hostile();
	strcat(path, ".emu");
	unlink(path);
	rmdir(directory);
	return unit_end();
}
