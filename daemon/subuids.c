/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/accounts.h"
#include "daemon/subuids.h"
#include "lib/base/array.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/parse.h"
#include "lib/base/util.h"

enum { SUBUID_FILE_MAX = 16 << 20 };

static const uint64_t refresh_ns = 1000000000;

struct uid_range {
	uid_t first, owner;
	uint32_t n;
};

struct uid_ranges {
	struct uid_range *list; /* in the order of the file, whose first match counts */
	size_t n;
	struct timespec changed; /* of the file */
	ino_t inode;
	int unknown; /* why the owner of a range could not be looked up; 0: all are known */
};

struct subuids {
	struct subuids_options o;
	void (*changed)(void *data);
	void *data;
	struct uid_ranges ranges, next;
	struct work read;
	bool reading, freed;
	int rc;
	uint64_t looked_ns; /* CLOCK_MONOTONIC */
};

/* Adds the range of a line NAME:FIRST:COUNT. Other lines are ignored. */
static int add_line(struct uid_ranges *r, char *line, size_t *capacity)
{
	char *name = strsep(&line, ":"), *first = strsep(&line, ":"), *count = line;
	uint64_t from, n;
	uid_t owner;
	int rc;

	if (!count || parse_u64(first, UINT32_MAX - 1, &from) < 0 || parse_u64(count, UINT32_MAX - from, &n) < 0 ||
	    n == 0)
		return 0;
	rc = accounts_find_user(name, &owner);
	if (rc == -ESRCH)
		return 0;
	/* The range is an account of its own for now. */
	if (rc < 0) {
		r->unknown = rc;
		owner = (uid_t)from;
	}
	if (array_reserve(r->list, r->n, capacity) < 0)
		return -ENOMEM;
	r->list[r->n++] = (struct uid_range){ (uid_t)from, owner ? owner : (uid_t)from, (uint32_t)n };
	return 0;
}

/* On any thread. */
static int ranges_read(const char *path, struct uid_ranges *ret)
{
	_cleanup_free_ char *text = NULL;
	struct uid_ranges r = { 0 };
	size_t size, capacity = 0;
	char *at, *line;
	struct stat st;
	int rc;

	if (stat(path, &st) == 0) {
		r.changed = st.st_mtim;
		r.inode = st.st_ino;
	}
	rc = io_read_file(AT_FDCWD, path, SUBUID_FILE_MAX, &text, &size);
	at = rc < 0 ? NULL : text;
	if (rc == -ENOENT)
		rc = 0;
	while (rc == 0 && (line = strsep(&at, "\n")))
		rc = add_line(&r, line, &capacity);
	if (rc < 0) {
		free(r.list);
		return rc;
	}
	*ret = r;
	return 0;
}

static void run_read(struct work *w)
{
	struct subuids *s = container_of(w, struct subuids, read);

	int before = s->rc;

	s->rc = ranges_read(s->o.path, &s->next);
	/* It is read again until all owners are known; those that were known before stay so. */
	if (s->rc == 0 && s->next.unknown) {
		s->next.inode = 0;
		s->next.changed = (struct timespec){ 0 };
		if (s->ranges.n) {
			s->rc = s->next.unknown;
			free(s->next.list);
			s->next = (struct uid_ranges){ 0 };
		}
	}
	if (s->rc < 0 && s->rc != before)
		log_warning("cannot read %s, or look up its users: %s; the ranges that were read before stay in use",
			    s->o.path, strerror(-s->rc));
	else if (s->next.unknown && !s->ranges.n)
		log_warning("cannot look up users of %s: %s; their ranges do not belong to them until that is possible",
			    s->o.path, strerror(-s->next.unknown));
}

static void read_ran(struct work *w)
{
	struct subuids *s = container_of(w, struct subuids, read);

	s->reading = false;
	if (s->rc == 0) {
		free(s->ranges.list);
		s->ranges = s->next;
		s->next = (struct uid_ranges){ 0 };
	}
	if (s->freed)
		subuids_free(s);
	else if (s->changed)
		s->changed(s->data);
}

int subuids_new(const struct subuids_options *options, struct subuids **ret)
{
	struct subuids *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->o = *options;
	s->read = (struct work){ run_read, read_ran };
	run_read(&s->read);
	if (s->rc < 0) {
		int rc = s->rc;

		free(s);
		return rc;
	}
	s->ranges = s->next;
	s->next = (struct uid_ranges){ 0 };
	*ret = s;
	return 0;
}

struct subuids *subuids_free(struct subuids *s)
{
	if (!s)
		return NULL;
	s->freed = true;
	if (s->reading)
		return NULL;
	free(s->ranges.list);
	free(s);
	return NULL;
}

uid_t subuids_owner(const struct subuids *s, uid_t uid)
{
	for (size_t n = 0; n < s->ranges.n; n++)
		if (uid >= s->ranges.list[n].first && uid - s->ranges.list[n].first < s->ranges.list[n].n)
			return s->ranges.list[n].owner;
	return uid;
}

void subuids_watch(struct subuids *s, void (*changed)(void *data), void *data)
{
	s->changed = changed;
	s->data = data;
}

void subuids_refresh(struct subuids *s)
{
	uint64_t now = now_ns(CLOCK_MONOTONIC);
	struct stat st = { 0 };

	if (s->reading || now - s->looked_ns < refresh_ns)
		return;
	s->looked_ns = now;
	if (stat(s->o.path, &st) < 0)
		st = (struct stat){ 0 };
	if (st.st_ino == s->ranges.inode && st.st_mtim.tv_sec == s->ranges.changed.tv_sec &&
	    st.st_mtim.tv_nsec == s->ranges.changed.tv_nsec)
		return;
	s->reading = true;
	workqueue_submit(s->o.queue, &s->read);
}
