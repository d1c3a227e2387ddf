/* SPDX-License-Identifier: MIT */
/* A store that a queue writes is the one that is written event by event. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/decode/store-queue.h"
#include "lib/base/util.h"
#include "tests/unit.h"

enum { FUNCTIONS = 8, THREADS = 3, EVENTS = 50000, DEPTH = 20 };

static const char *const names[FUNCTIONS] = { "main", "parse", "walk", "visit", "apply", "sum", "mix", "leaf" };
static struct region functions[FUNCTIONS];
static struct inlined instance;

static void make_functions(void)
{
	for (unsigned i = 0; i < FUNCTIONS; i++)
		functions[i] = (struct region){ .kind = REGION_FUNCTION,
						.start = 0x1000 * (i + 1),
						.end = 0x1000 * (i + 1) + 0x100,
						.name = names[i],
						.image = "program",
						.build_id = "" };
	functions[FUNCTIONS - 1].kind = REGION_INLINED;
	instance = (struct inlined){ .function = &functions[FUNCTIONS - 1], .call_line = 7, .depth = 1 };
}

/* Where the events of a test go: to a writer, or to a queue. */
struct target {
	struct store_writer *writer;
	struct store_queue *queue;
	struct store_queue_sink queued[THREADS];
	struct store_thread_sink direct[THREADS];
	struct calls_sink sinks[THREADS];
	int fd;
};

static int drain(struct target *t)
{
	return t->queue ? store_queue_drain(t->queue) : 0;
}

static void open_target(struct target *t, bool queue, bool threaded)
{
	const struct store_meta meta = { .pid = 1, .program = "test", .source = "test" };

	*t = (struct target){ .fd = memfd_create("store", MFD_CLOEXEC) };
	CHECK_EQ(store_create(t->fd, &meta, &t->writer), 0);
	if (queue)
		CHECK_EQ(store_queue_new(t->writer, threaded, &t->queue), 0);
}

static void add_thread(struct target *t, unsigned i)
{
	uint32_t number;

	CHECK_EQ(drain(t), 0);
	CHECK_EQ(store_thread_add(t->writer, 100 + i, "thread", &number), 0);
	t->queued[i] = (struct store_queue_sink){ t->queue, number };
	t->direct[i] = (struct store_thread_sink){ t->writer, number };
	t->sinks[i] = t->queue ? store_queue_sink(&t->queued[i]) : store_sink(&t->direct[i]);
}

static int put(struct target *t, unsigned thread, const struct call_event *e)
{
	return t->sinks[thread].event(t->sinks[thread].user, e);
}

static void close_target(struct target *t)
{
	store_queue_free(t->queue);
	store_writer_free(t->writer);
	close(t->fd);
}

/* An event of a thread with that many open calls. */
static struct call_event next_event(unsigned *depth, uint64_t *time)
{
	struct call_event e = { .kind = CALL_PLAIN, .time = *time += (unsigned)rand() % 5, .instructions = *time * 3 };
	bool enters = !*depth || (*depth < DEPTH && rand() & 1);

	e.bound = rand() & 1 ? UINT64_MAX : (unsigned)rand() % 100;
	e.type = enters ? CALL_EVENT_ENTER : CALL_EVENT_LEAVE;
	e.function = &functions[(unsigned)rand() % FUNCTIONS];
	if (enters && e.function->kind == REGION_INLINED) {
		e.kind = CALL_INLINED;
		e.inlined = &instance;
	}
	if (!enters)
		e.kind = rand() % 16 ? LEAVE_RETURN : LEAVE_UNWOUND;
	*depth += enters ? 1 : -1u;
	return e;
}

/* Writes an event of a thread; adds the threads up to that one first. */
static int put_next(struct target *t, unsigned thread, unsigned *n, unsigned *depth, uint64_t *time)
{
	struct call_event e;
	int rc = 0;

	while (rc == 0 && *n <= thread) {
		e = (struct call_event){ .type = CALL_EVENT_SEGMENT, .time = time[*n], .bound = UINT64_MAX };
		add_thread(t, *n);
		rc = put(t, (*n)++, &e);
	}
	e = next_event(&depth[thread], &time[thread]);
	return rc == 0 ? put(t, thread, &e) : rc;
}

static int end_thread(struct target *t, unsigned thread, unsigned depth, uint64_t time)
{
	const struct call_event leave = {
		.type = CALL_EVENT_LEAVE, .kind = LEAVE_END, .time = time, .instructions = time * 3, .bound = UINT64_MAX
	};
	int rc = 0;

	for (; rc == 0 && depth; depth--)
		rc = put(t, thread, &leave);
	if (rc == 0)
		rc = drain(t);
	return rc == 0 ? store_thread_end(t->writer, t->direct[thread].thread, NULL) : rc;
}

/* The threads take turns. */
static void write_store(struct target *t)
{
	unsigned depth[THREADS] = { 0 }, n = 0;
	uint64_t time[THREADS] = { 10, 20, 30 };
	int rc = 0;

	srand(1);
	for (unsigned i = 0; i < EVENTS && rc == 0; i++)
		rc = put_next(t, (unsigned)rand() % THREADS, &n, depth, time);
	for (unsigned i = 0; i < n && rc == 0; i++)
		rc = end_thread(t, i, depth[i], time[i]);
	CHECK_EQ(rc, 0);
	CHECK_EQ(store_finish(t->writer), 0);
}

static bool same_files(int a, int b)
{
	off_t size = lseek(a, 0, SEEK_END);
	const void *x = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, a, 0);
	const void *y = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, b, 0);

	return size > EVENTS && lseek(b, 0, SEEK_END) == size && memcmp(x, y, (size_t)size) == 0;
}

static void check_same(bool threaded)
{
	struct target direct, queue;

	open_target(&direct, false, false);
	open_target(&queue, true, threaded);
	write_store(&direct);
	write_store(&queue);
	CHECK(same_files(direct.fd, queue.fd));
	close_target(&queue);
	close_target(&direct);
}

/* Without address space for the stack of a thread, none can be created. */
static void test_no_thread(void)
{
	pthread_attr_t before, huge;

	CHECK_EQ(pthread_getattr_default_np(&before), 0);
	CHECK_EQ(pthread_attr_init(&huge), 0);
	CHECK_EQ(pthread_attr_setstacksize(&huge, (size_t)1 << 50), 0);
	CHECK_EQ(pthread_setattr_default_np(&huge), 0);
	check_same(true);
	CHECK_EQ(pthread_setattr_default_np(&before), 0);
	pthread_attr_destroy(&huge);
	pthread_attr_destroy(&before);
}

/* A leave without an enter is refused: at the latest when the queue is drained, and events behind it are dropped. */
static void test_error(void)
{
	const struct call_event segment = { .type = CALL_EVENT_SEGMENT, .bound = UINT64_MAX },
				leave = { .type = CALL_EVENT_LEAVE, .kind = LEAVE_RETURN, .bound = UINT64_MAX };
	struct target t;
	int rc = 0;

	open_target(&t, true, true);
	add_thread(&t, 0);
	CHECK_EQ(put(&t, 0, &segment), 0);
	CHECK_EQ(put(&t, 0, &leave), 0);
	CHECK_EQ(drain(&t), -EINVAL);
	close_target(&t);

	open_target(&t, true, true);
	add_thread(&t, 0);
	CHECK_EQ(put(&t, 0, &segment), 0);
	for (unsigned i = 0; i < EVENTS && rc == 0; i++)
		rc = put(&t, 0, &leave);
	CHECK_EQ(rc, -EINVAL);
	/* Freed with events in it. */
	close_target(&t);
}

int main(void)
{
	make_functions();
	check_same(true);
	check_same(false);
	test_no_thread();
	test_error();
	return unit_end();
}
