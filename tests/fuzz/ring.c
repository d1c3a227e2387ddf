/* SPDX-License-Identifier: MIT */
/*
 * daemon/capture/emu: the memory of a program. The input is parts of it (the table below); a second half of the input
 * is written over the first while csightd reads, by a thread, as a hostile program would, and by two threads, as
 * csightd does. What is read stays within the rings.
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
	RING_SIZE = 64 << 10,
	RINGS = 192 << 10,
	WATCHING = ALIGN8(sizeof(struct emu_header)),
	SLOTS = WATCHING + sizeof(struct emu_watching),
	LOG = SLOTS + 4 * sizeof(struct emu_slot)
};

/*
 * Where the input is in the memory, one part after the other, as fuzz_rings() places them. A half of an input has less
 * than 32 KiB: the paths of the program, and most of the hits, are left out.
 */
static const struct {
	size_t at, size;
} parts[] = {
	{ 0, offsetof(struct emu_header, exe) },
	{ offsetof(struct emu_header, cmdline_size),
	  sizeof(struct emu_header) - offsetof(struct emu_header, cmdline_size) },
	{ SLOTS, 4 * sizeof(struct emu_slot) },
	{ LOG, 64 },
	{ WATCHING, offsetof(struct emu_watching, hold) },
	{ WATCHING + offsetof(struct emu_watching, held_ns), sizeof(uint64_t) },
	{ WATCHING + offsetof(struct emu_watching, n_hits), sizeof(uint64_t) + 16 * sizeof(struct emu_hit) },
	{ RINGS, 640 },
	{ RINGS + RING_SIZE, 64 },
	{ RINGS + 2 * RING_SIZE - 64, 64 },
};

static struct {
	uint8_t *map;
	const uint8_t *data;
	size_t size;
	_Atomic bool stop;
} rewriter;

static void lay_out(uint8_t *map, const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < ELEMENTS(parts) && size; i++) {
		size_t n = MIN(size, parts[i].size);

		memcpy(map + parts[i].at, data, n);
		data += n;
		size -= n;
	}
}

static void *rewrite(void *unused)
{
	while (!atomic_load(&rewriter.stop))
		lay_out(rewriter.map, rewriter.data, rewriter.size);
	return NULL;
}

/* Returns the bytes of the threads. */
static uint64_t check_threads(const struct capture_copy *c)
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
	return sum;
}

static void check_copy(struct capture_copy *c, const struct capture_limits *limits)
{
	uint64_t sum = check_threads(c);

	/* Each thread of the first look, and one more, has a page at least. */
	fuzz_require(sum <= (limits->closed ? 0 : MAX(limits->trace, 5u * 4096)));
	fuzz_require(c->log_size <= limits->log && c->missing.size <= CAPTURE_MISSING_MAX);
	capture_copy_free(c);
}

/* The next piece of a recording, or of a tail. */
static void drain(struct capture_source *s, struct capture_positions *positions, size_t most, bool live, bool ended)
{
	struct capture_drain d = {
		.most = most, .least = positions->n && !live ? 0.25 : 0, .live = live, .ended = ended
	};
	struct capture_copy *c;

	if (s->ops->drain(s, positions, &d, &c) < 0)
		return;
	fuzz_require(!live || c->log_size <= 64 << 10);
	fuzz_require(check_threads(c) <= most && d.fullest >= 0 && d.fullest <= 1);
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
	struct capture_positions positions = { 0 };

	while (!atomic_load(&rewriter.stop)) {
		look(source);
		drain(source, &positions, RING_SIZE / 2, positions.n, false);
	}
	free(positions.list);
	return NULL;
}

static void use(struct capture_source *s, bool alive, struct capture_limits limits)
{
	struct capture_copy *copy;
	uint64_t trace, log;

	s->ops->copy_max(s, &trace, &log);
	limits.log = log;
	if (s->ops->copy(s, alive, &limits, &copy) == 0)
		check_copy(copy, &limits);
	s->ops->watching->release(s);
}

/* As the capture thread does, beside the event loop. */
static void use_beside(struct capture_source *s, bool alive, struct capture_limits limits)
{
	static const struct capture_watch_list list;
	struct reason why;
	void *(*const runs[])(void *) = { rewrite, look_on };
	pthread_t threads[ELEMENTS(runs)];

	atomic_store(&rewriter.stop, false);
	for (size_t i = 0; i < ELEMENTS(runs); i++)
		fuzz_require(pthread_create(&threads[i], NULL, runs[i], s) == 0);
	use(s, alive, limits);
	s->ops->watching->set(s, &list, &why);
	s->ops->watching->freeze(s);
	use(s, true, limits);
	s->ops->disarm(s);
	use(s, true, limits);
	s->ops->arm(s);
	s->ops->pause(s, true);
	s->ops->pause(s, false);
	use(s, false, limits);
	atomic_store(&rewriter.stop, true);
	for (size_t i = 0; i < ELEMENTS(runs); i++)
		pthread_join(threads[i], NULL);
}

/* The first bytes of the input: bytes of a copy in KiB, flags, milliseconds of history, KiB that are drained. */
static void use_all(struct capture_source *s, const uint8_t first[4])
{
	struct capture_positions positions = { 0 };
	struct capture_limits limits = { .trace = (size_t)(first[0] + 1) << 10,
					 .last = first[2] * 1000000ull,
					 .closed = first[1] & 2 };
	bool alive = first[1] & 1;

	look(s);
	use(s, false, limits);
	drain(s, &positions, (size_t)first[3] << 10, first[1] & 8, !alive);
	if (first[1] & 4)
		limits.since = &positions;
	use_beside(s, alive, limits);
	drain(s, &positions, (size_t)first[3] << 10, first[1] & 8, !alive);
	use(s, alive, limits);
	free(positions.list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	size_t first = size > 4 ? (size - 4) / 2 : 0;
	struct capture_source *s;
	struct emu_about *about = malloc(sizeof(*about));

	fuzz_require(fd >= 0 && about && ftruncate(fd, SIZE) == 0);
	rewriter.map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	fuzz_require(rewriter.map != MAP_FAILED && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
	if (first) {
		lay_out(rewriter.map, data + 4, first);
		rewriter.data = data + 4 + first;
		rewriter.size = size - 4 - first;
		if (emu_source_new(fd, about, &s) == 0) {
			fuzz_require(strlen(about->name) <= EMU_NAME_SIZE && about->arguments_size <= EMU_CMDLINE_SIZE);
			use_all(s, data);
			close(s->ops->take_memory(s));
			s->ops->free(s);
		}
	} else {
		close(fd);
	}
	munmap(rewriter.map, SIZE);
	free(about);
	return 0;
}

/* The memory before, and what is written over it. */
static void add_seed(const uint8_t first[4], const uint8_t *before, const uint8_t *after)
{
	const uint8_t *halves[] = { before, after };
	_cleanup_free_ uint8_t *seed = NULL;
	size_t size = 0, at = 4;

	for (size_t i = 0; i < ELEMENTS(parts); i++)
		size += parts[i].size;
	seed = malloc(4 + 2 * size);
	fuzz_require(seed && 4 + 2 * size < 64 << 10);
	memcpy(seed, first, 4);
	for (size_t half = 0; half < ELEMENTS(halves); half++)
		for (size_t i = 0; i < ELEMENTS(parts); i++) {
			memcpy(seed + at, halves[half] + parts[i].at, parts[i].size);
			at += parts[i].size;
		}
	fuzz_seed(seed, at);
}

void fuzz_seeds(void)
{
	static const uint8_t firsts[][4] = {
		{ 255, 1, 0, 255 }, { 100, 5, 0, 64 }, { 255, 1, 200, 8 }, { 3, 4, 0, 1 }, { 255, 7, 0, 16 }
	};
	_cleanup_free_ uint8_t *a = calloc(1, SIZE), *b = calloc(1, SIZE);
	struct emu_header *h = (struct emu_header *)b;
	struct emu_watching *w = (struct emu_watching *)(b + WATCHING);
	uint8_t trace[FUZZ_TRACE_MAX];
	struct emu_slot *slots;
	size_t size = fuzz_trace(trace);

	fuzz_require(a && b && size <= 640);
	slots = fuzz_rings(a, SIZE);
	fuzz_require((uint8_t *)slots == a + SLOTS);
	slots[0] = (struct emu_slot){ .state = EMU_IDLE, .tid = 1, .serial = 1, .name = "main", .head = size };
	slots[1] = (struct emu_slot){ .state = EMU_EXITED, .tid = 2, .serial = 1, .head = 70000, .pending = 5 };
	memcpy(a + RINGS, trace, size);
	memcpy(a + RINGS + RING_SIZE, trace, 64);
	slots = fuzz_rings(b, SIZE);
	slots[0] = (struct emu_slot){ .state = EMU_RUNNING, .tid = 1, .serial = 1, .seen = 1, .head = 200000 };
	slots[1] = (struct emu_slot){ .state = EMU_IDLE, .tid = 3, .serial = 2, .head = 10, .lag_ns = 7 };
	slots[2] = (struct emu_slot){ .state = EMU_EXITED, .tid = 4, .serial = 1, .head = 65535, .end_ns = 9 };
	memcpy(b + RINGS, trace, size);
	for (size_t i = 0; i < ELEMENTS(firsts); i++) {
		add_seed(firsts[i], a, a);
		add_seed(firsts[i], a, b);
		add_seed(firsts[i], b, a);
	}
	h->clock = EMU_CLOCK_VIRTUAL;
	h->log_head = 1000;
	h->log_lost = 3;
	h->lost_threads = 3;
	h->ended = EMU_ENDED | 9;
	h->regs.mode = EMU_MODE_FILL;
	memcpy(b + LOG, &(struct emu_record){ .size = 64 }, sizeof(struct emu_record));
	w->epoch = 1;
	w->n_hits = 3;
	for (unsigned i = 0; i < 3; i++)
		w->hits[i] = (struct emu_hit){ .number = i + 1, .tid = 1 };
	for (size_t i = 0; i < ELEMENTS(firsts); i++) {
		add_seed(firsts[i], b, b);
		add_seed(firsts[i], b, a);
	}
	((struct emu_header *)a)->log_head = 512;
	add_seed(firsts[0], a, b);
}
