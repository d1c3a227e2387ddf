/* SPDX-License-Identifier: MIT */
/*
 * bench-store FILE CALLS: writes a store with that many calls of several threads in turn, and drops the file's pages
 * from the page cache. Prints the calls, bytes per call, nanoseconds of processor time per call, and peak memory in
 * MiB.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/util.h"
#include "lib/store/store.h"

/* A call at the depth REQUEST is of the last function. */
enum { FUNCTIONS = 3000, THREADS = 4, TURN = 1 << 14, DEEPEST = 45, REQUEST = 5, LONGEST = 200 };

struct emitter {
	struct store_writer *writer;
	uint32_t thread;
	uint64_t time, instructions;
	unsigned depth;
	int rc;
};

static struct region functions[FUNCTIONS];
static uint64_t drawn = 1;

static unsigned draw(unsigned n)
{
	drawn = drawn * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)((drawn >> 33) % n);
}

static void emit_event(struct emitter *t, enum call_event_type type, unsigned kind, const struct region *function)
{
	const struct call_event e = { .type = type,
				      .kind = (uint8_t)kind,
				      .time = t->time,
				      .instructions = t->instructions,
				      .bound = 10,
				      .function = function };

	if (t->rc == 0)
		t->rc = store_event(t->writer, t->thread, &e);
	t->instructions += draw(LONGEST);
	t->time = t->instructions / 3;
}

/* Functions with small numbers are called often, others rarely; the last one as often as the depth occurs. */
static const struct region *any_function(unsigned depth)
{
	return &functions[depth == REQUEST ? FUNCTIONS - 1 : draw(draw(FUNCTIONS - 1) + 1)];
}

static uint64_t turn(struct emitter *t)
{
	uint64_t calls = 0;

	for (unsigned i = 0; i < TURN; i++) {
		if (!t->depth || (t->depth < DEEPEST && draw(2))) {
			emit_event(t, CALL_EVENT_ENTER, CALL_PLAIN, any_function(t->depth));
			t->depth++;
			calls++;
		} else {
			emit_event(t, CALL_EVENT_LEAVE, LEAVE_RETURN, NULL);
			t->depth--;
		}
	}
	return calls;
}

static int write_store(int fd, uint64_t wanted, uint64_t *ret_calls)
{
	const struct store_meta meta = { .pid = 1, .program = "drawn", .source = "bench", .clock = "monotonic" };
	_cleanup_(store_writer_freep) struct store_writer *w = NULL;
	struct emitter threads[THREADS] = { 0 };
	int rc = store_create(fd, &meta, &w);

	*ret_calls = 0;
	for (unsigned i = 0; i < THREADS && rc == 0; i++) {
		threads[i].writer = w;
		rc = store_thread_add(w, i + 1, "drawn", &threads[i].thread);
		if (rc == 0)
			emit_event(&threads[i], CALL_EVENT_SEGMENT, 0, NULL);
	}
	for (unsigned i = 0; *ret_calls < wanted && rc == 0; i = (i + 1) % THREADS) {
		*ret_calls += turn(&threads[i]);
		rc = threads[i].rc;
	}
	for (unsigned i = 0; i < THREADS && rc == 0; i++) {
		for (; threads[i].depth; threads[i].depth--)
			emit_event(&threads[i], CALL_EVENT_LEAVE, LEAVE_END, NULL);
		rc = threads[i].rc;
	}
	return rc < 0 ? rc : store_finish(w);
}

int main(int argc, char **argv)
{
	_cleanup_close_ int fd = argc == 3 ? open(argv[1], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;
	static char names[FUNCTIONS][24];
	struct rusage used;
	struct stat st;
	uint64_t calls, begun = now_ns(CLOCK_PROCESS_CPUTIME_ID), took;
	int rc;

	if (fd < 0) {
		fprintf(stderr, "usage: bench-store FILE CALLS\n");
		return 2;
	}
	for (unsigned i = 0; i < FUNCTIONS; i++) {
		snprintf(names[i], sizeof(names[i]), "function_%u", i);
		functions[i] = (struct region){ .id = i,
						.start = 0x400000 + 64 * i,
						.end = 0x400040 + 64 * i,
						.name = names[i],
						.image = "/usr/bin/drawn" };
	}
	rc = write_store(fd, strtoull(argv[2], NULL, 10), &calls);
	took = now_ns(CLOCK_PROCESS_CPUTIME_ID) - begun;
	if (rc < 0 || fstat(fd, &st) < 0 || fsync(fd) < 0 || getrusage(RUSAGE_SELF, &used) < 0) {
		fprintf(stderr, "%s: %s\n", argv[1], strerror(rc < 0 ? -rc : errno));
		return 1;
	}
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	printf("%" PRIu64 " %.1f %.0f %ld\n", calls, (double)st.st_size / (double)calls, (double)took / (double)calls,
	       used.ru_maxrss >> 10);
	return 0;
}
