/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "daemon/capture/perf/replay-log.h"
#include "lib/base/util.h"

enum { REPLAY_MAGIC = 0x4a534331, ABOUT_MAX = 60 << 10, HEAD_SIZE = 64 << 10, ROOM = REPLAY_LOG_SIZE - HEAD_SIZE };

/* The head of the memory; the entries are a ring at HEAD_SIZE. Positions count all bytes ever written to that. */
struct replay_head {
	uint32_t magic, about_size;
	uint64_t armed_at;
	uint64_t head, tail; /* positions: the end of the newest entry, and the oldest entry */
	uint8_t about[ABOUT_MAX];
};

/* An entry does not wrap: a place of ENTRY_PAD fills the rest of the memory. */
struct replay_entry {
	uint32_t size; /* of the data */
	uint32_t place;
	uint64_t position;
};

enum { ENTRY_PAD = UINT32_MAX - 2 };
#define ENTRY_ALIGN(n) (((n) + sizeof(struct replay_entry) - 1) & ~(uint64_t)(sizeof(struct replay_entry) - 1))

struct replay_log {
	int fd;
	struct replay_head *head;
	uint8_t *room;
};

_Static_assert(sizeof(struct replay_head) <= HEAD_SIZE, "the head has space");

static int map_log(int fd, struct replay_log **ret)
{
	struct replay_log *j = calloc(1, sizeof(*j));
	void *map = mmap(NULL, REPLAY_LOG_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (!j || map == MAP_FAILED) {
		int rc = j ? -errno : -ENOMEM;

		if (map != MAP_FAILED)
			munmap(map, REPLAY_LOG_SIZE);
		free(j);
		return rc;
	}
	j->fd = -1;
	j->head = map;
	j->room = (uint8_t *)map + HEAD_SIZE;
	*ret = j;
	return 0;
}

int replay_log_new(uint64_t armed_at, const void *about, size_t about_size, struct replay_log **ret)
{
	_cleanup_close_ int fd = memfd_create("csight-replay-log", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct replay_log *j;
	int rc;

	if (about_size > ABOUT_MAX)
		return -E2BIG;
	if (fd < 0 || ftruncate(fd, REPLAY_LOG_SIZE) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	rc = map_log(fd, &j);
	if (rc < 0)
		return rc;
	j->head->armed_at = armed_at;
	j->head->about_size = (uint32_t)about_size;
	memcpy(j->head->about, about, about_size);
	j->head->magic = REPLAY_MAGIC;
	j->fd = TAKE_FD(fd);
	*ret = j;
	return 0;
}

/* Returns the entry at this position if it is valid and ends before head. */
static const struct replay_entry *entry_at(const struct replay_log *j, uint64_t at, uint64_t head)
{
	size_t offset = at % ROOM;
	const struct replay_entry *e = (const void *)(j->room + offset);

	if (at % sizeof(*e) || ROOM - offset < sizeof(*e) || head - at < sizeof(*e) ||
	    e->size > ROOM - offset - sizeof(*e) || e->size > head - at - sizeof(*e))
		return NULL;
	return e;
}

static uint64_t entry_size(const struct replay_entry *e)
{
	return ENTRY_ALIGN(sizeof(*e) + e->size);
}

static bool is_valid(const struct replay_log *j)
{
	const struct replay_head *h = j->head;
	const struct replay_entry *e;

	if (h->magic != REPLAY_MAGIC || h->about_size > ABOUT_MAX || h->head < h->tail || h->head - h->tail > ROOM)
		return false;
	for (uint64_t at = h->tail; at < h->head; at += entry_size(e)) {
		e = entry_at(j, at, h->head);
		if (!e)
			return false;
	}
	return true;
}

int replay_log_open(int *fd, const void *about, size_t about_size, struct replay_log **ret)
{
	struct replay_log *j;
	struct stat st;
	int seals = fcntl(*fd, F_GET_SEALS), rc;

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(*fd, &st) < 0 || st.st_size != REPLAY_LOG_SIZE)
		return -EBADMSG;
	rc = map_log(*fd, &j);
	if (rc < 0)
		return rc;
	if (!is_valid(j))
		rc = -EBADMSG;
	else if (j->head->about_size != about_size || memcmp(j->head->about, about, about_size) != 0)
		rc = -ESTALE;
	if (rc < 0) {
		replay_log_free(j);
		return rc;
	}
	j->fd = TAKE_FD(*fd);
	*ret = j;
	return 0;
}

struct replay_log *replay_log_free(struct replay_log *j)
{
	if (!j)
		return NULL;
	munmap(j->head, REPLAY_LOG_SIZE);
	closep(&j->fd);
	free(j);
	return NULL;
}

int replay_log_fd(const struct replay_log *j)
{
	return j->fd;
}

uint64_t replay_log_armed_at(const struct replay_log *j)
{
	return j->head->armed_at;
}

bool replay_log_wrapped(const struct replay_log *j)
{
	return j->head->tail > 0;
}

/* Drops the oldest entries until so many bytes are free. */
static void make_room(struct replay_log *j, uint64_t size)
{
	struct replay_head *h = j->head;
	uint64_t tail = h->tail;

	while (h->head + size - tail > ROOM)
		tail += entry_size(entry_at(j, tail, h->head));
	__atomic_store_n(&h->tail, tail, __ATOMIC_RELEASE);
}

static void put(struct replay_log *j, const struct replay_entry *e, const void *data)
{
	uint8_t *to = j->room + j->head->head % ROOM;

	memcpy(to, e, sizeof(*e));
	if (data)
		memcpy(to + sizeof(*e), data, e->size);
	__atomic_store_n(&j->head->head, j->head->head + entry_size(e), __ATOMIC_RELEASE);
}

void replay_log_add(struct replay_log *j, uint32_t place, uint64_t position, const void *data, size_t size)
{
	const struct replay_entry e = { (uint32_t)size, place, position };
	uint64_t all = ENTRY_ALIGN(sizeof(e) + size), left = ROOM - j->head->head % ROOM;

	if (all > ROOM / 2)
		return;
	if (left < all) {
		const struct replay_entry pad = { (uint32_t)(left - sizeof(pad)), ENTRY_PAD, 0 };

		make_room(j, left);
		put(j, &pad, NULL);
	}
	/* The memory left behind this entry always has space for a pad: all is a multiple of a pad's size. */
	make_room(j, all);
	put(j, &e, data);
}

void replay_log_each(const struct replay_log *j, replay_entry_fn fn, void *user)
{
	const struct replay_entry *e;

	for (uint64_t at = j->head->tail; at < j->head->head; at += entry_size(e)) {
		e = entry_at(j, at, j->head->head);
		if (e->place != ENTRY_PAD)
			fn(user, e->place, e->position, (const uint8_t *)(e + 1), e->size);
	}
}
