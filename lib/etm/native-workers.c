/* SPDX-License-Identifier: MIT */
/*
 * Decodes a stream by several threads. The stream is cut at A-sync packets into chunks, each of which is decoded
 * speculatively (native-chunk.h) by a thread of the pool. On the pushing thread an engine stitches them, in order: it
 * decodes what no stretch of a chunk covers. A chunk that no thread has begun when its turn comes is decoded by that
 * engine at once, which costs the least.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/util.h"
#include "lib/etm/native-chunk.h"
#include "lib/etm/pool.h"

enum {
	/* Limits of the chunk size; chunks are the smaller the less was pushed so far, and end at the next A-sync
	   packet. */
	CHUNK_LEAST = 96 << 10,
	CHUNK_MOST = 256 << 10,
	CHUNK_SHARE = 8, /* chunks for each thread, if as many bytes are still to come as there were */
	CHUNK_MAX =
	    1 << 20, /* without an A-sync packet a chunk ends here, and the next one is not decoded speculatively */
	SYNC_SIZE = 12,
	STEP = 16 << 10, /* bytes that are copied at once, as those behind a chunk's end are copied again */
};

/* No chunk is begun while the batches of chunks that are not stitched yet have more bytes than this. */
#define BUFFERED_MAX ((size_t)96 << 20)

/* An engine that decodes chunks, one at a time. Their batches refer to its blocks. */
struct chunk_engine {
	struct native *native;
	struct native_chunk *chunk;
	struct native_buffer *buffers; /* unused */
	unsigned users;                /* chunks that are not stitched yet, and the list of engines */
};

struct worker_chunk {
	struct native_workers *workers;
	struct pool_job job;
	struct buf bytes;
	uint64_t begin;
	bool synced;    /* begins with an A-sync packet, so it can be decoded speculatively */
	bool submitted; /* to the pool, and not withdrawn */
	bool done;
	int error;
	struct chunk_engine *engine;
	struct native_chunk native;
};

struct native_workers {
	struct engine_config config;
	struct engine_memory memory; /* may be read by one thread at a time */
	pthread_mutex_t memory_lock;
	struct native_sink sink;
	struct native_workers_options options;
	struct native *native; /* the engine that stitches */
	pthread_mutex_t lock;  /* of what follows, and of done of chunks */
	pthread_cond_t changed;
	struct chunk_engine **idle;
	unsigned n_idle, n_engines;
	uint32_t n_numberings; /* given to engines for their blocks so far; the first one is the stitching engine's */
	size_t buffered;       /* bytes of chunks that are not stitched yet */
	/* Of the pushing thread: */
	struct worker_chunk *chunks; /* a ring, the last of which is being filled */
	unsigned first, n, capacity;
	size_t searched; /* bytes of the last chunk that were searched and hold no A-sync packet */
	uint64_t bytes;  /* of complete chunks */
};

static size_t read_code(void *user, const struct engine_context *context, uint64_t address, void *ret, size_t size)
{
	struct native_workers *w = user;
	size_t n;

	pthread_mutex_lock(&w->memory_lock);
	n = w->memory.read(w->memory.user, context, address, ret, size);
	pthread_mutex_unlock(&w->memory_lock);
	return n;
}

static uint64_t code_version(void *user, const struct engine_context *context)
{
	struct native_workers *w = user;
	uint64_t version;

	pthread_mutex_lock(&w->memory_lock);
	version = w->memory.version(w->memory.user, context);
	pthread_mutex_unlock(&w->memory_lock);
	return version;
}

static int open_native(struct native_workers *w, const struct native_sink *sink, struct native **ret)
{
	struct engine_memory memory = { read_code, w->memory.version ? code_version : NULL, w->memory.by_space, w };

	return native_open(&w->config, &memory, sink, ret);
}

/* The caller holds the lock. */
static void engine_unref(struct chunk_engine *h)
{
	if (!h || --h->users)
		return;
	native_close(h->native);
	native_batch_buffers_free(h->buffers);
	free(h);
}

/*
 * Gives buffers back to the engine; the caller holds the lock. Those that were used last come first, as they may still
 * be in the processor's caches.
 */
static void engine_return_buffers(struct chunk_engine *h, struct native_buffer **buffers)
{
	struct native_buffer **last = buffers;

	while (*last)
		last = &(*last)->next;
	*last = h->buffers;
	h->buffers = *buffers;
	*buffers = NULL;
}

static struct chunk_engine *engine_new(struct native_workers *w, uint32_t numbering)
{
	struct native_sink sink = w->sink;
	struct chunk_engine *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->users = 1;
	sink.batch = native_chunk_batch;
	sink.region_user = sink.region_user ? sink.region_user : sink.user;
	sink.user = &h->chunk;
	if (open_native(w, &sink, &h->native) < 0) {
		free(h);
		return NULL;
	}
	h->native->blocks.keep = true;
	h->native->blocks.numbering = (uint64_t)numbering << 32;
	return h;
}

/* Returns an idle engine, or a new one in place of one whose blocks are nearly too many. NULL: no memory. */
static struct chunk_engine *engine_acquire(struct native_workers *w, struct worker_chunk *p)
{
	struct chunk_engine *h = NULL;
	uint32_t numbering;

	pthread_mutex_lock(&w->lock);
	while (!w->n_idle && w->n_engines == w->options.threads_max)
		pthread_cond_wait(&w->changed, &w->lock);
	if (w->n_idle)
		h = w->idle[--w->n_idle];
	else
		w->n_engines++;
	if (h && blocks_nearly_full(&h->native->blocks)) {
		engine_unref(h);
		h = NULL;
	}
	if (h) {
		p->native.spare = h->buffers;
		h->buffers = NULL;
	}
	numbering = h ? 0 : ++w->n_numberings;
	pthread_mutex_unlock(&w->lock);
	return h ? h : engine_new(w, numbering);
}

/* Decodes a chunk, on a thread of the pool. */
static void run_chunk(void *user)
{
	struct worker_chunk *p = user;
	struct native_workers *w = p->workers;
	struct chunk_engine *h = engine_acquire(w, p);

	if (h) {
		h->chunk = &p->native;
		p->error = native_chunk_decode(h->native, &p->native, p->bytes.data, p->bytes.size, p->begin);
	}
	pthread_mutex_lock(&w->lock);
	if (h) {
		p->engine = h;
		h->users++;
		w->idle[w->n_idle++] = h;
		engine_return_buffers(h, &p->native.spare);
	} else {
		w->n_engines--;
	}
	w->buffered += p->native.buffered;
	p->done = true;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

static struct worker_chunk *chunk_at(struct native_workers *w, unsigned i)
{
	return &w->chunks[(w->first + i) % w->capacity];
}

/* The output of a chunk from a checkpoint on. */
struct chunk_stretch {
	const struct worker_chunk *chunk;
	const struct chunk_checkpoint *from, *to;
};

/* Emits a stretch, with the counters of what precedes it. */
static int stretch_emit(struct native_workers *w, const struct chunk_stretch *s, const struct native_checkpoint *here)
{
	const struct native_batch *batches = (const struct native_batch *)s->chunk->native.batches.data;
	uint64_t instructions = here->fold.instructions - s->from->state.fold.instructions,
		 ranges = here->fold.ranges - s->from->state.fold.ranges;
	int rc = 0;

	for (size_t i = s->from->batch; i < s->to->batch && rc >= 0; i++) {
		struct native_batch b = batches[i];

		b.instructions = instructions;
		b.ranges_before = ranges;
		rc = w->sink.batch(w->sink.user, &b);
	}
	return MIN(rc, 0);
}

/*
 * Fills in what the checkpoint `end` of a speculative run left open, from `here`: the engine's actual state at `begin`,
 * the checkpoint where that run starts.
 */
static void checkpoint_close(struct native_checkpoint *end, const struct native_checkpoint *begin,
			     const struct native_checkpoint *here)
{
	unsigned own = 0, n = 0;

	while (own < begin->stack.n && !begin->stack.entries[own].open)
		own++;
	while (n < end->stack.n && !end->stack.entries[n].open)
		n++;
	for (unsigned i = n; i < end->stack.n; i++, n++) {
		unsigned known = own + end->stack.entries[i].open - 1;

		if (known >= here->stack.n)
			break;
		end->stack.entries[i].address = here->stack.entries[known].address;
		end->stack.entries[i].open = 0;
	}
	end->stack.n = (uint8_t)n;
	end->position.decoded += here->position.decoded - begin->position.decoded;
	end->fold.instructions += here->fold.instructions - begin->fold.instructions;
	end->fold.ranges += here->fold.ranges - begin->fold.ranges;
}

/* Decodes the chunk's bytes from *at up to to. */
static int stitch_bytes(struct native_workers *w, const struct worker_chunk *p, size_t *at, size_t to)
{
	int rc = to > *at ? native_push(w->native, p->bytes.data + *at, to - *at) : 0;

	*at = MAX(*at, to);
	return rc;
}

/*
 * Decodes up to a checkpoint, and emits the stretch that begins there if the state is the same. Returns 1 then, with
 * *at where the stretch ended; else 0.
 */
static int stitch_stretch(struct native_workers *w, const struct worker_chunk *p, const struct chunk_checkpoint *from,
			  const struct chunk_checkpoint *checkpoints_end, size_t *at)
{
	struct chunk_stretch s = { p, from, from };
	struct native_checkpoint here, there;
	int rc;

	while (s.to < checkpoints_end && !s.to->ends)
		s.to++;
	if (from->at < *at || s.to == checkpoints_end || s.to->at <= from->at)
		return 0;
	rc = stitch_bytes(w, p, at, from->at);
	if (rc < 0 || !native_checkpoint_take(w->native, &here) || !native_checkpoint_same(&here, &from->state))
		return rc;
	rc = stretch_emit(w, &s, &here);
	if (rc < 0)
		return rc;
	there = s.to->state;
	checkpoint_close(&there, &from->state, &here);
	*at = s.to->at;
	rc = native_checkpoint_restore(w->native, &there);
	return rc < 0 ? rc : 1;
}

/* Emits a chunk: its stretches where they can be used, and the rest by decoding it. */
static int stitch_chunk(struct native_workers *w, struct worker_chunk *p)
{
	const struct chunk_checkpoint *all = (const struct chunk_checkpoint *)p->native.checkpoints.data;
	const struct chunk_checkpoint *end = all + p->native.checkpoints.size / sizeof(*all), *m, *next;
	size_t at = 0;
	int rc = p->error;

	for (m = all; m < end && rc >= 0; m = next) {
		bool used = false;

		for (next = m; next < end && (next == m || !next[-1].ends) && rc >= 0; next++)
			if (!next->ends && !used) {
				rc = stitch_stretch(w, p, next, end, &at);
				used = rc > 0;
			}
	}
	return rc < 0 ? rc : stitch_bytes(w, p, &at, p->bytes.size);
}

static void chunk_clear(struct native_workers *w, struct worker_chunk *p)
{
	pthread_mutex_lock(&w->lock);
	w->buffered -= p->native.buffered;
	if (p->engine)
		engine_return_buffers(p->engine, &p->native.buffers);
	engine_unref(p->engine);
	pthread_mutex_unlock(&w->lock);
	native_chunk_done(&p->native);
	p->native = (struct native_chunk){ 0 };
	p->engine = NULL;
	p->synced = p->submitted = p->done = false;
	p->error = 0;
	buf_clear(&p->bytes);
}

/* Withdraws a chunk from the pool; a thread that has begun it finishes it. */
static void chunk_withdraw(struct native_workers *w, struct worker_chunk *p)
{
	p->submitted = p->submitted && !pool_withdraw(w->options.pool, &p->job);
}

static void chunk_wait(struct native_workers *w, const struct worker_chunk *p)
{
	pthread_mutex_lock(&w->lock);
	while (p->submitted && !p->done)
		pthread_cond_wait(&w->changed, &w->lock);
	pthread_mutex_unlock(&w->lock);
}

/* Stitches the oldest chunk, which is complete. */
static int stitch_first(struct native_workers *w)
{
	struct worker_chunk *p = chunk_at(w, 0);
	int rc;

	if (!w->options.chunk_size)
		chunk_withdraw(w, p);
	chunk_wait(w, p);
	rc = stitch_chunk(w, p);
	if (rc < 0)
		w->native->error = rc;
	chunk_clear(w, p);
	w->first = (w->first + 1) % w->capacity;
	w->n--;
	return rc;
}

/* True if the oldest chunk can, or has to, be stitched now. */
static bool first_is_due(struct native_workers *w)
{
	const struct worker_chunk *p = chunk_at(w, 0);
	bool due;

	pthread_mutex_lock(&w->lock);
	due = !p->submitted || p->done || w->n == w->capacity || w->buffered > BUFFERED_MAX;
	pthread_mutex_unlock(&w->lock);
	return due;
}

/* synced: the chunk begins with an A-sync packet; else its packet boundaries are unknown. */
static void chunk_begin(struct native_workers *w, bool synced)
{
	struct worker_chunk *p = chunk_at(w, w->n++);

	p->begin = w->bytes;
	p->synced = synced;
	w->searched = 0;
}

static void chunk_submit(struct native_workers *w, struct worker_chunk *p)
{
	p->submitted = p->synced;
	if (p->synced)
		pool_submit(w->options.pool, &p->job);
}

/* Completes the last chunk; synced: the next one begins with an A-sync packet. */
static int chunk_end(struct native_workers *w, bool synced)
{
	int rc = 0;

	chunk_submit(w, chunk_at(w, w->n - 1));
	while (rc == 0 && w->n && first_is_due(w))
		rc = stitch_first(w);
	if (rc == 0)
		chunk_begin(w, synced);
	return rc;
}

/* Returns the least size of a chunk. */
static size_t chunk_size(const struct native_workers *w, const struct worker_chunk *p)
{
	/* What cannot be decoded speculatively ends at the next A-sync packet. */
	if (!p->synced)
		return 0;
	if (w->options.chunk_size)
		return MIN(w->options.chunk_size, (size_t)CHUNK_MAX / 2);
	return MIN(
	    MAX((size_t)MIN(w->bytes, (uint64_t)SIZE_MAX) / CHUNK_SHARE / w->options.threads_max, (size_t)CHUNK_LEAST),
	    (size_t)CHUNK_MOST);
}

/* Where the last chunk ends; SIZE_MAX: not within its bytes. */
static size_t chunk_find_end(struct native_workers *w, const struct worker_chunk *p)
{
	static const uint8_t sync[SYNC_SIZE] = { [SYNC_SIZE - 1] = 0x80 };
	size_t from = MAX(w->searched, chunk_size(w, p));
	const uint8_t *found =
	    p->bytes.size > from ? memmem(p->bytes.data + from, p->bytes.size - from, sync, sizeof(sync)) : NULL;

	if (found)
		return (size_t)(found - p->bytes.data);
	if (p->bytes.size > from + SYNC_SIZE)
		w->searched = p->bytes.size - SYNC_SIZE;
	return p->bytes.size >= CHUNK_MAX ? CHUNK_MAX : SIZE_MAX;
}

/* Completes the last chunk, if its end is there, and moves the bytes behind it to the next one. Returns 1 then. */
static int chunk_cut(struct native_workers *w)
{
	struct worker_chunk *p = chunk_at(w, w->n - 1);
	size_t end = chunk_find_end(w, p), rest;
	const uint8_t *from;
	int rc;

	if (end == SIZE_MAX)
		return 0;
	/* The bytes stay valid, as this chunk's memory is not the next one that is filled. */
	rest = p->bytes.size - end;
	from = p->bytes.data + end;
	p->bytes.size = end;
	w->bytes = p->begin + end;
	rc = chunk_end(w, end < CHUNK_MAX);
	if (rc < 0)
		return rc;
	p = chunk_at(w, w->n - 1);
	buf_add(&p->bytes, from, rest);
	rc = buf_error(&p->bytes);
	return rc < 0 ? rc : 1;
}

uint8_t *native_workers_reserve(struct native_workers *w, size_t size)
{
	return w->native->error < 0 || !w->n || size > ENGINE_RESERVE_MAX
		   ? NULL
		   : buf_reserve(&chunk_at(w, w->n - 1)->bytes, size);
}

int native_workers_push(struct native_workers *w, const void *data, size_t size)
{
	const uint8_t *bytes = data;
	int rc = w->native->error;

	for (size_t n; rc == 0 && size; bytes += n, size -= n) {
		struct worker_chunk *p = chunk_at(w, w->n - 1);

		n = size;
		if (bytes == p->bytes.data + p->bytes.size) {
			buf_grew(&p->bytes, n);
		} else {
			n = MIN(size, (size_t)STEP);
			buf_add(&p->bytes, bytes, n);
		}
		rc = buf_error(&p->bytes);
		while (rc == 0 && (rc = chunk_cut(w)) > 0)
			rc = 0;
	}
	return rc;
}

/* Stitches all that was pushed. */
static int stitch_all(struct native_workers *w)
{
	struct worker_chunk *p = chunk_at(w, w->n - 1);
	int rc = 0;

	w->bytes = p->begin + p->bytes.size;
	chunk_submit(w, p);
	while (w->n && rc == 0)
		rc = stitch_first(w);
	return rc;
}

int native_workers_reset(struct native_workers *w)
{
	int rc = w->native->error;

	if (rc == 0)
		rc = stitch_all(w);
	if (rc < 0)
		return rc;
	chunk_begin(w, false);
	return native_reset(w->native);
}

int native_workers_finish(struct native_workers *w)
{
	int rc = w->native->error;

	if (rc == 0)
		rc = stitch_all(w);
	if (rc == 0)
		rc = native_finish(w->native);
	return rc;
}

void native_workers_stats(const struct native_workers *w, struct engine_stats *ret)
{
	native_stats(w->native, ret);
	if (w->n) {
		const struct worker_chunk *last = &w->chunks[(w->first + w->n - 1) % w->capacity];

		ret->bytes = last->begin + last->bytes.size;
	}
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
		chunk_withdraw(w, chunk_at(w, i));
		chunk_wait(w, chunk_at(w, i));
		chunk_clear(w, chunk_at(w, i));
	}
	for (unsigned i = 0; w->chunks && i < w->capacity; i++)
		buf_done(&w->chunks[i].bytes);
	for (unsigned i = 0; i < w->n_idle; i++)
		engine_unref(w->idle[i]);
	native_close(w->native);
	free(w->idle);
	free(w->chunks);
	pthread_cond_destroy(&w->changed);
	pthread_mutex_destroy(&w->lock);
	pthread_mutex_destroy(&w->memory_lock);
	free(w);
	return NULL;
}

int native_workers_open(const struct engine_config *config, const struct engine_memory *memory,
			const struct native_sink *sink, const struct native_workers_options *options,
			struct native_workers **ret)
{
	struct native_workers *w = calloc(1, sizeof(*w));
	int rc;

	if (!w)
		return -ENOMEM;
	pthread_mutex_init(&w->memory_lock, NULL);
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->changed, NULL);
	w->config = *config;
	w->memory = *memory;
	w->sink = *sink;
	w->options = *options;
	/* Three chunks for each thread, and the chunk that is being filled. */
	w->capacity = 3 * (options->threads_max + 1) + 1;
	w->chunks = calloc(w->capacity, sizeof(*w->chunks));
	w->idle = calloc(options->threads_max, sizeof(struct chunk_engine *));
	rc = w->chunks && w->idle ? open_native(w, sink, &w->native) : -ENOMEM;
	if (rc < 0) {
		native_workers_close(w);
		return rc;
	}
	for (unsigned i = 0; i < w->capacity; i++) {
		w->chunks[i].workers = w;
		w->chunks[i].job = (struct pool_job){ .run = run_chunk, .user = &w->chunks[i] };
	}
	chunk_begin(w, false);
	*ret = w;
	return 0;
}
