/*
 * A source's bytes, decoded by several threads: cut at synchronisation packets into parts, each of which is decoded on
 * its own (native-chunk.h), and stitched in order by an engine that goes over all that the parts do not tell: on the
 * thread that pushes. A part that nobody has begun when it comes to it that engine decodes at once, which costs the
 * least.
 *
 * Counts of all parts that an engine decoded are one in it. What turns out not to fit is counted once more, by an
 * engine for just that, and taken off.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/util.h"
#include "lib/etm/native-chunk.h"
#include "lib/etm/pool.h"

enum {
	/* Of most, the smaller the less there was so far; they end at the first synchronisation behind it. */
	PART_LEAST = 96 << 10,
	PART_MOST = 256 << 10,
	PART_SHARE = 8,     /* each has so many, if as much is still to come as there was */
	PART_MAX = 1 << 20, /* or there, and what follows is not decoded on its own */
	SYNC_SIZE = 12,
	STEP = 16 << 10,
};

/* So much may wait to be stitched before no more is begun. */
#define KEPT_MAX ((size_t)96 << 20)

/* An engine that decodes parts, one at a time; what they gave names its blocks. */
struct chunk_engine {
	struct native *native;
	struct native_chunk *part;
	struct native_buffer *buffers; /* that nothing is in */
	unsigned users;                /* parts that are not stitched yet, and the list of helpers */
	struct chunk_engine *next;
};

struct worker_chunk {
	struct native_workers *of;
	struct pool_job job;
	struct buf bytes;
	uint64_t begin;
	bool alone; /* it is decoded on its own; else by whoever stitches */
	bool given; /* and not taken back */
	bool done;
	int error;
	struct chunk_engine *helper;
	struct native_chunk native;
};

struct native_workers {
	struct engine_config config;
	struct engine_memory memory; /* may be asked by one thread at a time */
	pthread_mutex_t asking;
	struct native_sink sink;
	struct native *native; /* what stitches */
	struct native *off;    /* what counts to take off; NULL: nothing yet */
	struct pool *pool;
	pthread_mutex_t lock; /* of what follows, and of parts' done */
	pthread_cond_t changed;
	struct chunk_engine **idle;
	unsigned n_idle, n_helpers, most;
	struct chunk_engine *worn; /* whose counts are to be told */
	size_t kept;               /* bytes that wait */
	size_t part;               /* bytes of one, at least, and each is decoded on its own; 0: as is good */
	/* The pushing thread's: */
	struct worker_chunk *parts; /* a ring, the last of which is being filled */
	unsigned first, n, capacity;
	size_t searched; /* of the last one */
	uint64_t bytes;
};

static size_t read_code(void *user, const struct engine_context *context, uint64_t address, void *ret, size_t size)
{
	struct native_workers *w = user;
	size_t n;

	pthread_mutex_lock(&w->asking);
	n = w->memory.read(w->memory.user, context, address, ret, size);
	pthread_mutex_unlock(&w->asking);
	return n;
}

static uint64_t code_version(void *user, const struct engine_context *context)
{
	struct native_workers *w = user;
	uint64_t version;

	pthread_mutex_lock(&w->asking);
	version = w->memory.version(w->memory.user, context);
	pthread_mutex_unlock(&w->asking);
	return version;
}

static int open_native(struct native_workers *w, const struct native_sink *sink, struct native **ret)
{
	struct engine_memory memory = { read_code, w->memory.version ? code_version : NULL, w->memory.by_space, w };

	return native_open(&w->config, &memory, sink, ret);
}

/* With the lock held. */
static void drop_helper(struct chunk_engine *h)
{
	if (!h || --h->users)
		return;
	native_close(h->native);
	native_batch_buffers_free(h->buffers);
	free(h);
}

/* With the lock held; those that were used last are in the processor's caches still. */
static void give_back(struct chunk_engine *h, struct native_buffer **buffers)
{
	struct native_buffer **last = buffers;

	while (*last)
		last = &(*last)->next;
	*last = h->buffers;
	h->buffers = *buffers;
	*buffers = NULL;
}

static struct chunk_engine *new_helper(struct native_workers *w)
{
	struct native_sink sink = w->sink;
	struct chunk_engine *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->users = 1;
	sink.batch = native_chunk_batch;
	sink.region_user = sink.region_user ? sink.region_user : sink.user;
	sink.user = &h->part;
	if (open_native(w, &sink, &h->native) < 0) {
		free(h);
		return NULL;
	}
	h->native->blocks.keep = true;
	return h;
}

/* One that is idle, or a new one in place of what should hold no more. NULL: none can be had. */
static struct chunk_engine *take_helper(struct native_workers *w, struct worker_chunk *p)
{
	struct chunk_engine *h = NULL;

	pthread_mutex_lock(&w->lock);
	while (!w->n_idle && w->n_helpers == w->most)
		pthread_cond_wait(&w->changed, &w->lock);
	if (w->n_idle)
		h = w->idle[--w->n_idle];
	else
		w->n_helpers++;
	if (h && blocks_nearly_full(&h->native->blocks)) {
		if (w->sink.outlet == NATIVE_COUNTS) {
			h->next = w->worn;
			w->worn = h;
		} else {
			drop_helper(h);
		}
		h = NULL;
	}
	if (h) {
		p->native.spare = h->buffers;
		h->buffers = NULL;
	}
	pthread_mutex_unlock(&w->lock);
	return h ? h : new_helper(w);
}

static void run_part(void *user)
{
	struct worker_chunk *p = user;
	struct native_workers *w = p->of;
	struct chunk_engine *h = take_helper(w, p);

	if (h) {
		h->part = &p->native;
		p->error = native_chunk_decode(h->native, &p->native, p->bytes.data, p->bytes.size, p->begin);
	}
	pthread_mutex_lock(&w->lock);
	if (h) {
		p->helper = h;
		h->users++;
		w->idle[w->n_idle++] = h;
		give_back(h, &p->native.spare);
	} else {
		w->n_helpers--;
	}
	w->kept += p->native.kept;
	p->done = true;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

static struct worker_chunk *part_at(struct native_workers *w, unsigned i)
{
	return &w->parts[(w->first + i) % w->capacity];
}

/* What the stretch between two marks gave, with the counters of what came before it. */
static int tell_stretch(struct native_workers *w, const struct native_chunk *p, const struct chunk_checkpoint *from,
			const struct chunk_checkpoint *to, const struct native_checkpoint *here)
{
	const struct native_batch *batches = (const struct native_batch *)p->batches.data;
	uint64_t instructions = here->instructions - from->place.instructions,
		 ranges = here->ranges - from->place.ranges;
	int rc = 0;

	for (size_t i = from->batch; i < to->batch && rc >= 0; i++) {
		struct native_batch b = batches[i];

		b.instructions = instructions;
		b.ranges_before = ranges;
		rc = w->sink.batch(w->sink.user, &b);
	}
	return MIN(rc, 0);
}

/* The place at the end of a stretch for who was here at its beginning. */
static void close_place(struct native_checkpoint *end, const struct native_checkpoint *begin,
			const struct native_checkpoint *here)
{
	unsigned own = 0, n = 0;

	while (own < begin->n_stack && !begin->stack[own].open)
		own++;
	while (n < end->n_stack && !end->stack[n].open)
		n++;
	for (unsigned i = n; i < end->n_stack && own + end->stack[i].open - 1 < here->n_stack; i++, n++) {
		end->stack[i].address = here->stack[own + end->stack[i].open - 1].address;
		end->stack[i].open = 0;
	}
	end->n_stack = (uint8_t)n;
	end->decoded += here->decoded - begin->decoded;
	end->instructions += here->instructions - begin->instructions;
	end->ranges += here->ranges - begin->ranges;
}

static int push_to(struct native_workers *w, const struct worker_chunk *p, size_t *at, size_t to)
{
	int rc = to > *at ? native_push(w->native, p->bytes.data + *at, to - *at) : 0;

	*at = MAX(*at, to);
	return rc;
}

/* 1: the stretch that begins at this mark is told; *at is where it ended. */
static int take_stretch(struct native_workers *w, const struct worker_chunk *p, const struct chunk_checkpoint *mark,
			const struct chunk_checkpoint *marks_end, size_t *at)
{
	const struct chunk_checkpoint *end = mark;
	struct native_checkpoint here, there;
	int rc;

	while (end < marks_end && !end->ends)
		end++;
	if (mark->at < *at || end == marks_end || end->at <= mark->at ||
	    (w->sink.outlet == NATIVE_COUNTS && !mark->counted))
		return 0;
	rc = push_to(w, p, at, mark->at);
	if (rc < 0 || !native_checkpoint_take(w->native, &here) || !native_checkpoint_same(&here, &mark->place))
		return rc;
	rc = tell_stretch(w, &p->native, mark, end, &here);
	if (rc < 0)
		return rc;
	there = end->place;
	close_place(&there, &mark->place, &here);
	*at = end->at;
	rc = native_checkpoint_restore(w->native, &there);
	return rc < 0 ? rc : 1;
}

static int take_off(void *user, const struct native_batch *b)
{
	const struct native_workers *w = user;
	struct native_batch less = { .blocks = b->blocks, .counts = b->counts, .n_counts = b->n_counts };

	/* They are that engine's own list, which it drops then. */
	for (size_t i = 0; i < b->n_counts; i++)
		((struct native_count *)b->counts)[i].n = -b->counts[i].n;
	return b->n_counts ? w->sink.batch(w->sink.user, &less) : 0;
}

/* What a part counted from one place of it to another is of no use. */
static int uncount(struct native_workers *w, const struct worker_chunk *p, const struct chunk_checkpoint *from,
		   size_t to)
{
	struct native_sink sink = w->sink;
	int rc = 0;

	if (to <= from->at)
		return 0;
	sink.batch = take_off;
	sink.user = w;
	if (!w->off)
		rc = open_native(w, &sink, &w->off);
	return rc < 0 ? rc : native_chunk_recount(w->off, &from->place, p->bytes.data + from->at, to - from->at);
}

/* Of a stretch, what came before the mark that was taken, and behind its end; taken NULL: all of it. */
static int uncount_stretch(struct native_workers *w, const struct worker_chunk *p, const struct chunk_checkpoint *first,
			   const struct chunk_checkpoint *end, const struct chunk_checkpoint *taken)
{
	int rc;

	while (first < end && !first->counted)
		first++;
	if (!first->counted)
		return 0;
	rc = uncount(w, p, first, taken ? taken->at : end->stop);
	return rc == 0 && taken ? uncount(w, p, end, end->stop) : rc;
}

static int stitch(struct native_workers *w, struct worker_chunk *p)
{
	const struct chunk_checkpoint *marks = (const struct chunk_checkpoint *)p->native.marks.data;
	const struct chunk_checkpoint *end = marks + p->native.marks.size / sizeof(*marks), *taken, *m, *next;
	size_t at = 0;
	int rc = p->error;

	for (m = marks; m < end && rc >= 0; m = next) {
		taken = NULL;
		for (next = m; next < end && (next == m || !next[-1].ends) && rc >= 0; next++)
			if (!next->ends && !taken) {
				rc = take_stretch(w, p, next, end, &at);
				taken = rc > 0 ? next : NULL;
			}
		if (rc >= 0 && w->sink.outlet == NATIVE_COUNTS)
			rc = uncount_stretch(w, p, m, next - 1, taken);
	}
	return rc < 0 ? rc : push_to(w, p, &at, p->bytes.size);
}

/* Nobody else has it: what it counted is told. */
static int tell_counts(struct native_workers *w, struct native *e)
{
	e->sink.batch = w->sink.batch;
	e->sink.user = w->sink.user;
	return native_fold_finish(e);
}

static int tell_worn(struct native_workers *w)
{
	int rc = 0;

	for (struct chunk_engine *h; rc == 0;) {
		pthread_mutex_lock(&w->lock);
		h = w->worn;
		if (h)
			w->worn = h->next;
		pthread_mutex_unlock(&w->lock);
		if (!h)
			break;
		rc = tell_counts(w, h->native);
		pthread_mutex_lock(&w->lock);
		drop_helper(h);
		pthread_mutex_unlock(&w->lock);
	}
	return rc;
}

/* Of all; no part is left. */
static int tell_all_counts(struct native_workers *w)
{
	int rc = tell_worn(w);

	for (unsigned i = 0; i < w->n_idle && rc == 0; i++) {
		struct chunk_engine *h = w->idle[i];

		rc = tell_counts(w, h->native);
		h->native->sink.batch = native_chunk_batch;
		h->native->sink.user = &h->part;
	}
	return rc == 0 && w->off ? native_fold_finish(w->off) : rc;
}

static void clear_part(struct native_workers *w, struct worker_chunk *p)
{
	pthread_mutex_lock(&w->lock);
	w->kept -= p->native.kept;
	if (p->helper)
		give_back(p->helper, &p->native.buffers);
	drop_helper(p->helper);
	pthread_mutex_unlock(&w->lock);
	native_chunk_done(&p->native);
	p->native = (struct native_chunk){ 0 };
	p->helper = NULL;
	p->alone = p->given = p->done = false;
	p->error = 0;
	buf_clear(&p->bytes);
}

/* Nobody will begin it any more; who has begun it ends it. */
static void take_back(struct native_workers *w, struct worker_chunk *p)
{
	p->given = p->given && !pool_withdraw(w->pool, &p->job);
}

static void wait_for(struct native_workers *w, const struct worker_chunk *p)
{
	pthread_mutex_lock(&w->lock);
	while (p->given && !p->done)
		pthread_cond_wait(&w->changed, &w->lock);
	pthread_mutex_unlock(&w->lock);
}

/* The oldest part, which is whole. */
static int take_first(struct native_workers *w)
{
	struct worker_chunk *p = part_at(w, 0);
	int rc;

	if (!w->part)
		take_back(w, p);
	wait_for(w, p);
	rc = stitch(w, p);
	if (rc == 0)
		rc = tell_worn(w);
	if (rc < 0)
		w->native->error = rc;
	clear_part(w, p);
	w->first = (w->first + 1) % w->capacity;
	w->n--;
	return rc;
}

static bool is_ready(struct native_workers *w)
{
	const struct worker_chunk *p = part_at(w, 0);
	bool ready;

	pthread_mutex_lock(&w->lock);
	ready = !p->given || p->done || w->n == w->capacity || w->kept > KEPT_MAX;
	pthread_mutex_unlock(&w->lock);
	return ready;
}

/* synced: it begins with a synchronisation packet; else nobody knows where packets begin. */
static void begin_part(struct native_workers *w, bool synced)
{
	struct worker_chunk *p = part_at(w, w->n++);

	p->begin = w->bytes;
	p->alone = synced;
	w->searched = 0;
}

static void give(struct native_workers *w, struct worker_chunk *p)
{
	p->given = p->alone;
	if (p->alone)
		pool_submit(w->pool, &p->job);
}

/* The last part is whole; synced: the next one begins with a synchronisation packet. */
static int end_part(struct native_workers *w, bool synced)
{
	int rc = 0;

	give(w, part_at(w, w->n - 1));
	while (rc == 0 && w->n && is_ready(w))
		rc = take_first(w);
	if (rc == 0)
		begin_part(w, synced);
	return rc;
}

static size_t part_size(const struct native_workers *w, const struct worker_chunk *p)
{
	/* What nobody can decode on its own is short. */
	if (!p->alone)
		return 0;
	if (w->part)
		return MIN(w->part, (size_t)PART_MAX / 2);
	return MIN(MAX((size_t)MIN(w->bytes, (uint64_t)SIZE_MAX) / PART_SHARE / w->most, (size_t)PART_LEAST),
		   (size_t)PART_MOST);
}

/* Where the last part ends; SIZE_MAX: not yet. */
static size_t find_end(struct native_workers *w, const struct worker_chunk *p)
{
	static const uint8_t sync[SYNC_SIZE] = { [SYNC_SIZE - 1] = 0x80 };
	size_t from = MAX(w->searched, part_size(w, p));
	const uint8_t *found =
	    p->bytes.size > from ? memmem(p->bytes.data + from, p->bytes.size - from, sync, sizeof(sync)) : NULL;

	if (found)
		return (size_t)(found - p->bytes.data);
	if (p->bytes.size > from + SYNC_SIZE)
		w->searched = p->bytes.size - SYNC_SIZE;
	return p->bytes.size >= PART_MAX ? PART_MAX : SIZE_MAX;
}

static int cut(struct native_workers *w)
{
	struct worker_chunk *p = part_at(w, w->n - 1);
	size_t end = find_end(w, p), rest;
	const uint8_t *from;
	int rc;

	if (end == SIZE_MAX)
		return 0;
	/* They stay there, as that part is not the next one to be filled. */
	rest = p->bytes.size - end;
	from = p->bytes.data + end;
	p->bytes.size = end;
	w->bytes = p->begin + end;
	rc = end_part(w, end < PART_MAX);
	if (rc < 0)
		return rc;
	p = part_at(w, w->n - 1);
	buf_add(&p->bytes, from, rest);
	rc = buf_error(&p->bytes);
	return rc < 0 ? rc : 1;
}

uint8_t *native_workers_reserve(struct native_workers *w, size_t size)
{
	return w->native->error < 0 || !w->n || size > ENGINE_RESERVE_MAX
		   ? NULL
		   : buf_reserve(&part_at(w, w->n - 1)->bytes, size);
}

int native_workers_push(struct native_workers *w, const void *data, size_t size)
{
	const uint8_t *bytes = data;
	int rc = w->native->error;

	for (size_t n; rc == 0 && size; bytes += n, size -= n) {
		struct worker_chunk *p = part_at(w, w->n - 1);

		n = size;
		if (bytes == p->bytes.data + p->bytes.size) {
			buf_grew(&p->bytes, n);
		} else {
			/* Little at a time, as what is behind a part's end is copied once more. */
			n = MIN(size, (size_t)STEP);
			buf_add(&p->bytes, bytes, n);
		}
		rc = buf_error(&p->bytes);
		while (rc == 0 && (rc = cut(w)) > 0)
			rc = 0;
	}
	return rc;
}

/* All that was pushed. */
static int drain(struct native_workers *w)
{
	struct worker_chunk *p = part_at(w, w->n - 1);
	int rc = 0;

	w->bytes = p->begin + p->bytes.size;
	give(w, p);
	while (w->n && rc == 0)
		rc = take_first(w);
	return rc;
}

int native_workers_reset(struct native_workers *w)
{
	int rc = w->native->error;

	if (rc == 0)
		rc = drain(w);
	if (rc < 0)
		return rc;
	begin_part(w, false);
	return native_reset(w->native);
}

int native_workers_finish(struct native_workers *w)
{
	int rc = w->native->error;

	if (rc == 0)
		rc = drain(w);
	if (rc == 0)
		rc = native_finish(w->native);
	return rc == 0 && w->sink.outlet == NATIVE_COUNTS ? tell_all_counts(w) : rc;
}

void native_workers_stats(const struct native_workers *w, struct engine_stats *ret)
{
	native_stats(w->native, ret);
	if (w->n)
		ret->bytes = w->parts[(w->first + w->n - 1) % w->capacity].begin +
			     w->parts[(w->first + w->n - 1) % w->capacity].bytes.size;
}

const struct native *native_workers_native(const struct native_workers *w)
{
	return w->native;
}

struct native_workers *native_workers_close(struct native_workers *w)
{
	if (!w)
		return NULL;
	for (unsigned i = 0; i < w->n; i++) {
		take_back(w, part_at(w, i));
		wait_for(w, part_at(w, i));
		clear_part(w, part_at(w, i));
	}
	for (unsigned i = 0; w->parts && i < w->capacity; i++)
		buf_done(&w->parts[i].bytes);
	for (unsigned i = 0; i < w->n_idle; i++)
		drop_helper(w->idle[i]);
	for (struct chunk_engine *h = w->worn, *next; h; h = next) {
		next = h->next;
		drop_helper(h);
	}
	native_close(w->native);
	native_close(w->off);
	free(w->idle);
	free(w->parts);
	pthread_cond_destroy(&w->changed);
	pthread_mutex_destroy(&w->lock);
	pthread_mutex_destroy(&w->asking);
	free(w);
	return NULL;
}

int native_workers_open(const struct engine_config *config, const struct engine_memory *memory,
			const struct native_sink *sink, struct pool *pool, unsigned most, size_t part,
			struct native_workers **ret)
{
	struct native_workers *w = calloc(1, sizeof(*w));
	int rc;

	if (!w)
		return -ENOMEM;
	pthread_mutex_init(&w->asking, NULL);
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->changed, NULL);
	w->config = *config;
	w->memory = *memory;
	w->sink = *sink;
	w->pool = pool;
	w->most = most;
	w->part = part;
	/* Three for each, and the one that is being filled. */
	w->capacity = 3 * (most + 1) + 1;
	w->parts = calloc(w->capacity, sizeof(*w->parts));
	w->idle = calloc(most, sizeof(struct chunk_engine *));
	rc = w->parts && w->idle ? open_native(w, sink, &w->native) : -ENOMEM;
	if (rc < 0) {
		native_workers_close(w);
		return rc;
	}
	for (unsigned i = 0; i < w->capacity; i++) {
		w->parts[i].of = w;
		w->parts[i].job = (struct pool_job){ .run = run_part, .user = &w->parts[i] };
	}
	begin_part(w, false);
	*ret = w;
	return 0;
}
