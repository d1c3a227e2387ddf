/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <assert.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "daemon/build-ids.h"
#include "lib/base/hash.h"
#include "lib/base/hex.h"
#include "lib/base/log.h"
#include "lib/decoder/decoder.h"

/*
 * The snapshot is not on disk before its build-ids are read or this time has passed. A job takes some milliseconds; the
 * limit is for files of slow file systems, and for a server that hangs.
 */
enum {
	ANSWER_SECONDS = 3,
	CACHE_MAX = 8192,
	JOBS_MAX = 32, /* at a time, so that decodes have places in csight-decode, too; the others wait */
};

/* A file that was changed within this time may change again without a new ctime, since its clock advances in steps. */
static const uint64_t ctime_step_ns = 1000000000;

/* The contents of a file as seen by one user. */
struct cache_key {
	uint64_t uid, device, inode, size, ctime;
};

struct cached_id {
	struct cache_key key;
	bool known;
	uint8_t size, id[EMU_BUILD_ID_MAX];
};

struct build_ids {
	struct event_base *base;
	struct decode_server *server;
	TAILQ_HEAD(, query) queries;
	unsigned running; /* jobs */
	bool stopping;
	struct hash index; /* of entries in cache */
	struct cached_id *cache;
	size_t n_cached;
};

/* A query whose files are not all in the cache. Batches of the other files go to one job each, one after another. */
struct query {
	struct build_ids *owner;
	struct build_ids_query q;
	TAILQ_ENTRY(query) link;
	size_t batch[DECODER_FILES_MAX], n_batch; /* indices of the files in the running job */
	size_t next;                              /* first file after the batch */
	bool held;                                /* the batch waits for the end of another job */
	uint64_t job;
	int fd; /* to the child */
	struct event *event, *timer;
};

int build_ids_new(struct event_base *base, struct decode_server *server, struct build_ids **ret)
{
	struct build_ids *b = calloc(1, sizeof(*b));

	if (!b)
		return -ENOMEM;
	b->base = base;
	b->server = server;
	TAILQ_INIT(&b->queries);
	b->cache = calloc(CACHE_MAX, sizeof(*b->cache));
	if (!b->cache) {
		build_ids_free(b);
		return -ENOMEM;
	}
	*ret = b;
	return 0;
}

struct build_ids *build_ids_free(struct build_ids *b)
{
	if (!b)
		return NULL;
	assert(TAILQ_EMPTY(&b->queries));
	hash_done(&b->index);
	free(b->cache);
	free(b);
	return NULL;
}

/* Finds the entry of a file, or adds one without an answer. A full cache is emptied. NULL: no memory. */
static struct cached_id *cache_find(struct build_ids *b, uid_t uid, const struct file_identity *f)
{
	const struct cache_key key = { uid, (uint64_t)f->major << 32 | f->minor, f->inode, f->size, f->ctime };
	uint64_t hash = hash_bytes(&key, sizeof(key));
	uint32_t *index;

	if (b->n_cached == CACHE_MAX) {
		hash_clear(&b->index);
		b->n_cached = 0;
	}
	for (uint64_t n = 0;; n++) {
		int rc = hash_find(&b->index, hash, n, &index);

		if (rc < 0)
			return NULL;
		if (rc == 1)
			break;
		if (memcmp(&b->cache[*index].key, &key, sizeof(key)) == 0)
			return &b->cache[*index];
	}
	*index = (uint32_t)b->n_cached++;
	b->cache[*index] = (struct cached_id){ .key = key };
	return &b->cache[*index];
}

static void cache_answer(struct build_ids *b, uid_t uid, const struct build_id_file *f)
{
	struct cached_id *c;

	if (f->identity.ctime + ctime_step_ns > now_ns(CLOCK_REALTIME))
		return;
	c = cache_find(b, uid, &f->identity);
	if (!c)
		return;
	c->known = true;
	c->size = f->size;
	memcpy(c->id, f->id, sizeof(c->id));
}

/* Answers a file from the cache. */
static void look_up(struct build_ids *b, uid_t uid, struct build_id_file *f)
{
	const struct cached_id *c = cache_find(b, uid, &f->identity);

	if (!c || !c->known)
		return;
	f->known = true;
	f->size = c->size;
	memcpy(f->id, c->id, sizeof(f->id));
}

static void close_job(struct query *q)
{
	if (q->event)
		event_free(q->event);
	q->event = NULL;
	q->owner->running -= q->fd >= 0;
	closep(&q->fd);
}

static void query_end(struct query *q, const char *reason)
{
	TAILQ_REMOVE(&q->owner->queries, q, link);
	close_job(q);
	if (q->timer)
		event_free(q->timer);
	q->q.ended(q->q.data, reason);
	free(q);
}

/* Reads the answer to a batch. -EBADMSG: it is invalid. */
static int parse_answer(struct query *q, json_object *result)
{
	json_object *list;

	if (json_get(result, "build_ids", json_type_array, &list) < 0 || json_array_size(list) != q->n_batch)
		return -EBADMSG;
	for (size_t i = 0; i < q->n_batch; i++) {
		struct build_id_file *f = &q->q.files[q->batch[i]];
		json_object *item = json_object_array_get_idx(list, i);
		size_t size = 0;

		if (item) {
			if (!json_object_is_type(item, json_type_string))
				return -EBADMSG;
			size = (size_t)json_object_get_string_len(item);
			/* Records have no space for a longer one. */
			if (size > 2 * sizeof(f->id))
				size = 0;
			else if (hex_decode(json_object_get_string(item), size, f->id, sizeof(f->id)) * 2 != size)
				return -EBADMSG;
		}
		f->size = (uint8_t)(size / 2);
		f->known = true;
	}
	for (size_t i = 0; i < q->n_batch; i++)
		cache_answer(q->owner, q->q.uid, &q->q.files[q->batch[i]]);
	return 0;
}

static void next_batch(struct query *q);
static void begin_held(struct build_ids *b);

static void on_answer(evutil_socket_t fd, short what, void *data)
{
	_cleanup_(decoder_event_done) struct decoder_event e = { 0 };
	struct query *q = data;
	struct build_ids *b = q->owner;
	int rc = decoder_receive(fd, MSG_DONTWAIT, &e);

	if (rc == -EAGAIN)
		return;
	if (rc == 0)
		rc = e.type == DECODER_RESULT ? parse_answer(q, e.body) : -EBADMSG;
	close_job(q);
	if (rc == 0) {
		next_batch(q);
	} else {
		decode_server_kill_job(b->server, q->job);
		query_end(q, rc == -EPIPE || rc == -ECONNRESET ? "csight-decode crashed"
							       : "csight-decode sent an invalid answer");
	}
	begin_held(b);
}

static void on_timeout(evutil_socket_t fd, short what, void *data)
{
	struct query *q = data;
	struct build_ids *b = q->owner;

	decode_server_kill_job(b->server, q->job);
	query_end(q, "csight-decode took too long");
	begin_held(b);
}

static int start_job(struct query *q)
{
	int fds[DECODER_FILES_MAX], rc;

	rc = decode_server_submit(q->owner->server, "build-ids", 0, &q->job);
	if (rc < 0)
		return rc;
	q->fd = rc;
	q->owner->running++;
	q->event = event_new(q->owner->base, q->fd, EV_READ | EV_PERSIST, on_answer, q);
	if (!q->event || event_add(q->event, NULL) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < q->n_batch; i++)
		fds[i] = q->q.files[q->batch[i]].fd;
	return decoder_start_build_ids(q->fd, fds, q->n_batch);
}

/* Starts the job of a batch, unless too many run. */
static void begin_batch(struct query *q)
{
	q->held = q->owner->running >= JOBS_MAX;
	if (q->held)
		return;
	if (!decode_server_ready(q->owner->server))
		query_end(q, decode_server_why(q->owner->server));
	else if (start_job(q) < 0)
		query_end(q, "cannot start a job of csight-decode");
}

/* Starts the jobs of batches that were held, in the order of their queries. */
static void begin_held(struct build_ids *b)
{
	struct query *q, *next;

	for (q = TAILQ_FIRST(&b->queries); q && b->running < JOBS_MAX; q = next) {
		next = TAILQ_NEXT(q, link);
		if (q->held)
			begin_batch(q);
	}
}

/* Starts a job for the next files without an answer, or ends the query. */
static void next_batch(struct query *q)
{
	q->n_batch = 0;
	for (; q->next < q->q.n && q->n_batch < DECODER_FILES_MAX; q->next++)
		if (!q->q.files[q->next].known)
			q->batch[q->n_batch++] = q->next;
	if (q->n_batch)
		begin_batch(q);
	else
		query_end(q, NULL);
}

void build_ids_read(struct build_ids *b, const struct build_ids_query *query)
{
	const struct timeval limit = { ANSWER_SECONDS, 0 };
	struct query *q;
	size_t unknown = 0;

	for (size_t i = 0; i < query->n; i++) {
		look_up(b, query->uid, &query->files[i]);
		unknown += !query->files[i].known;
	}
	log_debug("build-ids of %zu mapped files: %zu are in the cache", query->n, query->n - unknown);
	if (!unknown || b->stopping) {
		query->ended(query->data, unknown ? "csightd ended" : NULL);
		return;
	}
	q = calloc(1, sizeof(*q));
	if (!q) {
		query->ended(query->data, strerror(ENOMEM));
		return;
	}
	q->owner = b;
	q->q = *query;
	q->fd = -1;
	TAILQ_INSERT_TAIL(&b->queries, q, link);
	q->timer = evtimer_new(b->base, on_timeout, q);
	if (!q->timer || event_add(q->timer, &limit) < 0)
		query_end(q, strerror(ENOMEM));
	else
		next_batch(q);
}

void build_ids_stop(struct build_ids *b)
{
	struct query *q;

	if (!b)
		return;
	b->stopping = true;
	while ((q = TAILQ_FIRST(&b->queries)))
		query_end(q, "csightd ended");
}
