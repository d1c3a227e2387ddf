/* SPDX-License-Identifier: MIT */
/*
 * daemon/capture/emu: the memory of a program. The input is its header, as far as it is not the paths, and its slots; a
 * second half of the input is written over the first while csightd reads, by a thread, as a hostile program would, and
 * by two threads, as csightd does. What is read stays within the rings.
 */
#include "config.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/capture/emu/emu.h"
#include "lib/base/util.h"
#include "tests/fuzz/fuzz.h"

enum {
	SIZE = 512 << 10,
	UID = 1000,
	PATHS = offsetof(struct emu_header, exe),
	AFTER = offsetof(struct emu_header, cmdline_size)
};

static struct {
	uint8_t *map;
	const uint8_t *data;
	size_t size;
	_Atomic bool stop;
} rewriter;

/* The input in the memory, without the paths of the header. */
static void lay_out(uint8_t *map, const uint8_t *data, size_t size)
{
	size_t head = MIN(size, (size_t)PATHS);

	memcpy(map, data, head);
	memcpy(map + AFTER, data + head, MIN(size - head, (size_t)SIZE - AFTER));
}

static void *rewrite(void *unused)
{
	while (!atomic_load(&rewriter.stop))
		lay_out(rewriter.map, rewriter.data, rewriter.size);
	return NULL;
}

static void check_copy(struct capture_copy *c, size_t limit, size_t log_limit)
{
	uint64_t sum = 0;

	for (size_t n = 0; n < c->n_threads; n++) {
		const struct capture_thread *t = &c->threads[n];
		const uint8_t *piece;
		size_t size, all = 0;
		unsigned bytes = 0;

		for (unsigned i = 0; capture_piece(t, i, &piece, &size); i++) {
			for (size_t k = 0; k < size; k += 512)
				bytes += piece[k];
			all += size;
		}
		fuzz_require(all == t->size + t->end_size && t->size <= t->room && t->end_size <= EMU_PENDING_MAX);
		fuzz_require(strlen(t->name) < CAPTURE_NAME_SIZE && bytes != UINT32_MAX);
		sum += t->size;
	}
	/* Each thread of the first look, and one more, has a page at least. */
	fuzz_require(sum <= MAX(limit, 5u * 4096));
	fuzz_require(c->log_size <= log_limit && c->missing.size <= CAPTURE_MISSING_MAX);
	capture_copy_free(c);
}

/* What the event loop may call at any time. */
static void look(struct capture_source *s)
{
	_cleanup_buf_ struct buf text = { .limit = CAPTURE_MISSING_MAX };
	const struct capture_watching *w = s->ops->watching;
	struct emu_watch_count counts[EMU_WATCHES_MAX];
	struct capture_thread *threads = NULL;
	struct ending ending = { 0 };
	struct emu_hit hits[8];
	uint64_t trace, log, cursor = 0;
	uint32_t cannot;
	size_t n;

	if (s->ops->threads(s, &threads, &n) == 0)
		for (size_t i = 0; i < n; i++)
			fuzz_require(threads[i].size <= SIZE);
	free(threads);
	s->ops->holds(s);
	s->ops->missing(s, &text);
	s->ops->ending(s, &ending);
	if (s->ops->trouble)
		s->ops->trouble(s, &text);
	s->ops->copy_max(s, &trace, &log);
	fuzz_require(log <= SIZE && s->ops->memory(s) <= SIZE);
	w->want(s);
	w->hold(s, 1, 5);
	fuzz_require(w->hits(s, &cursor, hits, ELEMENTS(hits)) <= ELEMENTS(hits));
	w->counts(s, counts);
	w->applied(s, &cannot);
}

static void *look_on(void *source)
{
	while (!atomic_load(&rewriter.stop))
		look(source);
	return NULL;
}

static void use(struct capture_source *s, bool alive, size_t limit)
{
	struct capture_copy *copy;
	uint64_t trace, log;

	s->ops->copy_max(s, &trace, &log);
	if (s->ops->copy(s, alive, &(struct capture_limits){ limit, log }, &copy) == 0)
		check_copy(copy, limit, log);
	s->ops->watching->release(s);
}

/* As the capture thread does, beside the event loop. */
static void use_beside(struct capture_source *s, bool alive, size_t limit)
{
	static const struct capture_watch_list list;
	struct reason why;
	void *(*const runs[])(void *) = { rewrite, look_on };
	pthread_t threads[ELEMENTS(runs)];

	atomic_store(&rewriter.stop, false);
	for (size_t i = 0; i < ELEMENTS(runs); i++)
		fuzz_require(pthread_create(&threads[i], NULL, runs[i], s) == 0);
	use(s, alive, limit);
	s->ops->watching->set(s, &list, &why);
	s->ops->disarm(s);
	use(s, true, limit);
	s->ops->arm(s);
	use(s, false, limit);
	atomic_store(&rewriter.stop, true);
	for (size_t i = 0; i < ELEMENTS(runs); i++)
		pthread_join(threads[i], NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	size_t first = size > 4 ? (size - 4) / 2 : 0, limit;
	struct capture_source *s;
	struct emu_about *about = malloc(sizeof(*about));
	int rc;

	fuzz_require(fd >= 0 && about && ftruncate(fd, SIZE) == 0);
	rewriter.map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	fuzz_require(rewriter.map != MAP_FAILED && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
	if (first) {
		limit = (size_t)(data[0] + 1) << 10;
		lay_out(rewriter.map, data + 4, first);
		rc = emu_source_new(fd, about, &s);
		if (rc == 0) {
			fuzz_require(strlen(about->name) <= EMU_NAME_SIZE && about->arguments_size <= EMU_CMDLINE_SIZE);
			look(s);
			use(s, false, limit);
			rewriter.data = data + 4 + first;
			rewriter.size = size - 4 - first;
			use_beside(s, data[1] & 1, limit);
			s->ops->free(s);
		}
	} else {
		close(fd);
	}
	munmap(rewriter.map, SIZE);
	free(about);
	return 0;
}

/* The two halves of an input. */
static void end_seed(const uint8_t *before, const uint8_t *after)
{
	size_t size = PATHS + ALIGN8(sizeof(struct emu_header)) + sizeof(struct emu_watching) +
		      4 * sizeof(struct emu_slot) - AFTER;
	_cleanup_free_ uint8_t *seed = calloc(1, 4 + 2 * size);
	const uint8_t *halves[] = { before, after };

	fuzz_require(seed);
	seed[0] = 255;
	seed[1] = 1;
	for (size_t i = 0; i < ELEMENTS(halves); i++) {
		memcpy(seed + 4 + i * size, halves[i], PATHS);
		memcpy(seed + 4 + i * size + PATHS, halves[i] + AFTER, size - PATHS);
	}
	fuzz_seed(seed, 4 + 2 * size);
}

void fuzz_seeds(void)
{
	_cleanup_free_ uint8_t *a = calloc(1, SIZE), *b = calloc(1, SIZE);
	struct emu_slot *slots;

	fuzz_require(a && b);
	slots = fuzz_rings(a, SIZE);
	slots[0] = (struct emu_slot){ .state = EMU_IDLE, .tid = 1, .serial = 1, .name = "main", .head = 1000 };
	slots[1] = (struct emu_slot){ .state = EMU_EXITED, .tid = 2, .serial = 1, .head = 70000, .pending = 5 };
	slots = fuzz_rings(b, SIZE);
	slots[0] = (struct emu_slot){ .state = EMU_RUNNING, .tid = 1, .serial = 1, .seen = 1, .head = 200000 };
	slots[1] = (struct emu_slot){ .state = EMU_IDLE, .tid = 3, .serial = 2, .head = 10, .lag_ns = 7 };
	end_seed(a, b);
	end_seed(b, a);
	((struct emu_header *)b)->clock = EMU_CLOCK_VIRTUAL;
	((struct emu_header *)b)->log_head = 2000;
	((struct emu_header *)b)->log_lost = 3;
	((struct emu_header *)b)->lost_threads = 3;
	((struct emu_header *)b)->ended = EMU_ENDED | 9;
	end_seed(b, b);
	((struct emu_header *)a)->log_head = 512;
	end_seed(a, b);
}
