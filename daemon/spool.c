/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "daemon/capture/process/proc-file.h"
#include "daemon/directory-tree.h"
#include "daemon/job-files.h"
#include "daemon/spool-room.h"
#include "daemon/spool.h"
#include "lib/base/escape.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/path.h"

#define SPOOL_LOCK_FILE ".lock"

enum {
	JSON_MAX = 64 << 20,
	AGE_SECONDS = 60,
	EXPIRED_MAX = 256,   /* snapshots that are removed for their age in one turn of the loop */
	REMOVE_ATTEMPTS = 3, /* if descriptors or memory are short */
	REMOVE_PAUSE_US = 50000,
};

/* Bytes of one account that are being removed. It exists as long as there are removals. */
struct leaving {
	LIST_ENTRY(leaving) link;
	uid_t owner;
	uint64_t bytes;
	size_t removals;
};

struct spool {
	struct spool_options o;
	int fd, lock;
	char *path;
	struct snapshot_list list;
	uint64_t last_number; /* of a snapshot */
	LIST_HEAD(, leaving) leaving;
	uint64_t all_leaving; /* bytes */
	uint64_t unwritten;
	void (*freed)(void *data);
	void *freed_data;
	struct event *age;
};

static int load_json(int dir, const char *name, json_object **ret)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	int rc = io_read_file(dir, name, JSON_MAX, &text, &size);

	return rc < 0 ? rc : json_parse(text, size, ret);
}

static int load_snapshot(int dir, const char *id, struct snapshot *s)
{
	_cleanup_json_ json_object *o = NULL;
	const char *name, *bad, *condition;
	json_object *list;
	int64_t pid, uid, gid, owner = -1;
	int rc = load_json(dir, "snapshot.json", &o);

	if (rc < 0)
		return rc;
	/* UINT32_MAX is no user and no group: it stands for all users, or for none. */
	if (json_get_within(o, "pid", 1, INT32_MAX, &pid) < 0 ||
	    json_get_within(o, "uid", 0, UINT32_MAX - 1, &uid) < 0 ||
	    json_get_within(o, "gid", 0, UINT32_MAX - 1, &gid) < 0 ||
	    json_get_within(o, "owner", 0, UINT32_MAX - 1, &owner) == -EINVAL || json_get_str(o, "name", &name) < 0 ||
	    json_get_u64(o, "time", &s->time) < 0 || json_get_u64(o, "blind", &s->blind) < 0)
		return -EBADMSG;
	json_get_u64(o, "unrecorded", &s->unrecorded);
	annotation_read(o, &s->annotation, &bad);
	s->pid = (pid_t)pid;
	s->uid = s->owner = (uid_t)uid;
	if (owner >= 0)
		s->owner = (uid_t)owner;
	s->gid = (gid_t)gid;
	s->name = strdup(name);
	json_get_bool(o, "shared", &s->shared);
	if (json_get(o, "threads", json_type_array, &list) == 0)
		s->threads = json_array_size(list);
	if (json_get(o, "missing", json_type_array, &list) == 0)
		snapshot_set_missing(s, list);
	if (json_get(o, "trigger", json_type_object, &list) == 0 && json_get_str(list, "condition", &condition) == 0)
		s->mark = json_object_get(list);
	if (json_get(o, "ended", json_type_object, &list) == 0)
		s->ended = json_object_get(list);
	if (json_get(o, "recording", json_type_object, &list) == 0)
		s->recording = json_object_get(list);
	memcpy(s->id, id, strnlen(id, sizeof(s->id) - 1));
	return s->name ? 0 : -ENOMEM;
}

/* A snapshot without a readable state is queued for a decode. */
static void load_state(int dir, struct snapshot *s)
{
	_cleanup_json_ json_object *o = NULL;
	const char *state = "queued", *reason;
	json_object *decode;
	uint64_t attempts;

	s->state = SNAPSHOT_QUEUED;
	if (load_json(dir, "state.json", &o) < 0)
		return;
	json_get_str(o, "state", &state);
	if (json_get_u64(o, "attempts", &attempts) == 0)
		s->attempts = (unsigned)MIN(attempts, 1000u);
	if (json_get_str(o, "reason", &reason) == 0)
		snapshot_set_reason(s, "%s", reason);
	if (json_get(o, "decode", json_type_object, &decode) == 0)
		snapshot_set_decode(s, decode);
	if (strcmp(state, "ready") == 0)
		s->state = SNAPSHOT_READY;
	else if (strcmp(state, "raw") == 0)
		s->state = SNAPSHOT_RAW;
}

static bool is_snapshot_id(const char *name)
{
	return strlen(name) < SNAPSHOT_ID_SIZE && strspn(name, "0123456789abcdef-T") == strlen(name) && name[0] != '-';
}

/* Removes snapshots that are older than the configuration allows. */
static void on_age(evutil_socket_t fd, short what, void *data)
{
	struct spool *s = data;
	uint64_t now = now_ns(CLOCK_REALTIME), age = s->o.max_age * 1000000000u;
	struct timeval pause = { 0, 0 };
	struct snapshot *snapshot, *next;
	unsigned n = 0;

	for (snapshot = s->o.max_age ? TAILQ_FIRST(&s->list) : NULL; snapshot && n < EXPIRED_MAX; snapshot = next) {
		next = TAILQ_NEXT(snapshot, link);
		if (snapshot->state < SNAPSHOT_READY || snapshot->kept || snapshot->time + age > now)
			continue;
		n += spool_expire(s, snapshot, "spool-max-age");
	}
	/* By event_active(), the next turn would come before the loop looks at anything else. */
	if (n < EXPIRED_MAX)
		pause.tv_sec = AGE_SECONDS;
	event_add(s->age, &pause);
}

static void list_snapshot(struct spool *s, const char *id)
{
	_cleanup_close_ int dir = openat(s->fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct snapshot *snapshot = dir < 0 ? NULL : snapshot_new(), *at;
	int rc = dir < 0 ? -errno : snapshot ? load_snapshot(dir, id, snapshot) : -ENOMEM;

	if (dir >= 0 && rc == -ENOENT) {
		log_warning("removing %s from the spool: it is an incomplete snapshot", id);
		directory_tree_remove(s->fd, id);
	} else if (rc < 0) {
		log_warning("ignoring %s in the spool: cannot read it: %s", id, strerror(-rc));
	}
	if (rc < 0) {
		snapshot_unref(snapshot);
		return;
	}
	load_state(dir, snapshot);
	if (snapshot->state != SNAPSHOT_READY)
		job_files_remove(dir);
	directory_tree_size(dir, &snapshot->size);
	snapshot->kept = faccessat(dir, SNAPSHOT_KEPT_FILE, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	spool_room_record(s, snapshot->owner, snapshot->size, snapshot->state < SNAPSHOT_READY, &snapshot->claim);
	ledger_record(s->o.ledger, snapshot->owner, LEDGER_STORED, 1, &snapshot->stored);
	if (snapshot->state < SNAPSHOT_READY)
		ledger_record(s->o.ledger, snapshot->owner, LEDGER_WAITING, 1, &snapshot->waiting);
	TAILQ_FOREACH_REVERSE (at, &s->list, snapshot_list, link)
		if (at->time <= snapshot->time)
			break;
	if (at)
		TAILQ_INSERT_AFTER(&s->list, at, snapshot, link);
	else
		TAILQ_INSERT_HEAD(&s->list, snapshot, link);
}

static int list_directory(struct spool *s)
{
	int fd = openat(s->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_closedir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct snapshot *snapshot;
	struct dirent *e;

	if (!dir)
		return -errno;
	while ((e = readdir(dir))) {
		if (strncmp(e->d_name, "tmp-", 4) == 0 && is_snapshot_id(e->d_name + 4)) {
			log_info("removing %s from the spool: it is incomplete", e->d_name);
			directory_tree_remove(s->fd, e->d_name);
		} else if (is_snapshot_id(e->d_name)) {
			list_snapshot(s, e->d_name);
		}
	}
	TAILQ_FOREACH (snapshot, &s->list, link)
		snapshot->number = ++s->last_number;
	return 0;
}

/* Returns the process whose number a lock file has, or 0. */
static pid_t holder_of(int fd)
{
	char text[16] = "";

	return pread(fd, text, sizeof(text) - 1, 0) > 0 ? (pid_t)atoi(text) : 0;
}

/* No descriptor that can write stays open: the file system can still be remounted to be read only. */
static void write_holder(const struct spool *s)
{
	_cleanup_close_ int fd = openat(s->fd, SPOOL_LOCK_FILE, O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);
	char text[16];

	snprintf(text, sizeof(text), "%d\n", (int)getpid());
	if (fd >= 0)
		io_write(fd, text, strlen(text));
}

/*
 * Locks the spool. The lock of a csightd that has ended may stay, with a thread that waits in the kernel: then the file
 * is replaced. -EBUSY: another csightd uses the spool. Without room for the file, the sockets alone say that.
 */
static int lock_spool(struct spool *s)
{
	enum { TRIES = 10 };

	for (int i = 0; i < TRIES; i++) {
		_cleanup_close_ int fd =
		    openat(s->fd, SPOOL_LOCK_FILE, O_RDONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
		struct stat mine, now;
		bool locked;
		pid_t pid;

		if (fd < 0)
			return errno == ENOSPC || errno == EDQUOT || errno == EROFS ? 0 : -errno;
		locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
		if (!locked && errno != EWOULDBLOCK)
			return -errno;
		if (fstat(fd, &mine) < 0 || fstatat(s->fd, SPOOL_LOCK_FILE, &now, AT_SYMLINK_NOFOLLOW) < 0 ||
		    mine.st_ino != now.st_ino)
			continue;
		if (locked) {
			write_holder(s);
			s->lock = TAKE_FD(fd);
			return 0;
		}
		pid = holder_of(fd);
		if (pid <= 0 || !proc_file_is_zombie(pid))
			break;
		log_warning("the csightd that used the spool before, process %d, cannot be reaped; it is ignored",
			    (int)pid);
		unlinkat(s->fd, SPOOL_LOCK_FILE, 0);
	}
	return -EBUSY;
}

int spool_new(const struct spool_options *options, struct spool **ret)
{
	struct timeval period = { AGE_SECONDS, 0 };
	struct spool *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return -ENOMEM;
	s->o = *options;
	s->fd = s->lock = -1;
	TAILQ_INIT(&s->list);
	LIST_INIT(&s->leaving);
	s->path = strdup(options->path);
	s->age = evtimer_new(options->base, on_age, s);
	if (s->age)
		event_add(s->age, &period);
	rc = s->path && s->age ? path_make_dir(options->path, 0700, true) : -ENOMEM;
	if (rc == 0) {
		s->fd = open(options->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		rc = s->fd < 0 ? -errno : lock_spool(s);
		if (rc == 0)
			rc = list_directory(s);
	}
	if (rc < 0) {
		spool_free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

struct spool *spool_free(struct spool *s)
{
	struct snapshot *snapshot;

	if (!s)
		return NULL;
	while ((snapshot = TAILQ_FIRST(&s->list))) {
		TAILQ_REMOVE(&s->list, snapshot, link);
		snapshot_unref(snapshot);
	}
	if (s->age)
		event_free(s->age);
	if (s->lock >= 0)
		unlinkat(s->fd, SPOOL_LOCK_FILE, 0);
	closep(&s->lock);
	closep(&s->fd);
	free(s->path);
	free(s);
	return NULL;
}

int spool_fd(const struct spool *s)
{
	return s->fd;
}

const char *spool_path(const struct spool *s)
{
	return s->path;
}

const struct snapshot_list *spool_list(const struct spool *s)
{
	return &s->list;
}

struct snapshot *spool_find(const struct spool *s, const char *id)
{
	struct snapshot *snapshot;

	TAILQ_FOREACH (snapshot, &s->list, link)
		if (strcmp(snapshot->id, id) == 0)
			return snapshot;
	return NULL;
}

const struct spool_options *spool_options(const struct spool *s)
{
	return &s->o;
}

void spool_limit(struct spool *s, uint64_t keep_free, uint64_t max_age)
{
	s->o.keep_free = keep_free;
	s->o.max_age = max_age;
	on_age(-1, EV_TIMEOUT, s);
}

void spool_watch(struct spool *s, void (*freed)(void *data), void *data)
{
	s->freed = freed;
	s->freed_data = data;
}

void spool_report_room(struct spool *s)
{
	if (s->freed)
		s->freed(s->freed_data);
}

uint64_t spool_unwritten(const struct spool *s)
{
	return s->unwritten;
}

void spool_wrote(struct spool *s, int64_t change)
{
	s->unwritten += (uint64_t)change;
}

void spool_insert(struct spool *s, struct snapshot *snapshot)
{
	snapshot_ref(snapshot);
	TAILQ_INSERT_TAIL(&s->list, snapshot, link);
	snapshot->number = ++s->last_number;
}

void spool_report(struct spool *s, const struct snapshot *snapshot, enum snapshot_change change)
{
	s->o.changed(s->o.data, snapshot, change);
}

void spool_drop(struct spool *s, struct snapshot *snapshot)
{
	TAILQ_REMOVE(&s->list, snapshot, link);
	snapshot->removed = true;
	ledger_return(&snapshot->waiting);
	spool_report(s, snapshot, SNAPSHOT_REMOVED);
	snapshot_unref(snapshot);
}

/* The removal of a snapshot, or of its trace alone. The bytes stay charged until the removal is done. */
struct removal {
	struct work work;
	struct spool *spool;
	bool of_trace;
	struct snapshot *snapshot; /* for a trace */
	struct spool_claim claim;  /* of a snapshot */
	struct charge stored;
	struct leaving *leaving;
	uint64_t bytes;
	int fd, rc;
	char id[SNAPSHOT_ID_SIZE];
	struct spool_removal o;
	const char *limit; /* setting for which csightd removes the snapshot, or NULL */
	char *name;        /* name of the process that the snapshot is of */
	pid_t pid;         /* process ID of that process */
	uid_t uid;         /* who owned it */
};

static void run_removal(struct work *w)
{
	struct removal *r = container_of(w, struct removal, work);
	char tmp[SNAPSHOT_ID_SIZE + 32];

	if (r->of_trace) {
		snprintf(tmp, sizeof(tmp), "%s/%s", r->id, SNAPSHOT_TRACE_FILE);
		r->rc = directory_tree_unlink(r->fd, tmp);
		if (r->rc == -ENOENT)
			r->rc = 0;
		return;
	}
	/*
	 * The rename comes first, so that a later start does not list the rest of a snapshot whose removal was
	 * interrupted.
	 */
	snprintf(tmp, sizeof(tmp), "tmp-%s", r->id);
	for (int i = 0; i < REMOVE_ATTEMPTS; i++) {
		if (i)
			usleep(REMOVE_PAUSE_US);
		r->rc = renameat(r->fd, r->id, r->fd, tmp) < 0 && errno != ENOENT ? -errno
										  : directory_tree_remove(r->fd, tmp);
		if (r->rc == 0)
			return;
	}
}

static struct leaving *find_leaving(const struct spool *s, uid_t owner)
{
	struct leaving *l;

	LIST_FOREACH(l, &s->leaving, link)
	if (l->owner == owner)
		break;
	return l;
}

/* Counts a removal of these bytes. Returns NULL if memory is short. */
static struct leaving *leaving_begin(struct spool *s, uid_t owner, uint64_t bytes)
{
	struct leaving *l = find_leaving(s, owner);

	if (!l) {
		l = calloc(1, sizeof(*l));
		if (!l)
			return NULL;
		l->owner = owner;
		LIST_INSERT_HEAD(&s->leaving, l, link);
	}
	l->removals++;
	l->bytes += bytes;
	s->all_leaving += bytes;
	return l;
}

static void leaving_end(struct spool *s, struct leaving *l, uint64_t bytes)
{
	s->all_leaving -= bytes;
	l->bytes -= bytes;
	if (--l->removals > 0)
		return;
	LIST_REMOVE(l, link);
	free(l);
}

static void removal_ran(struct work *w)
{
	struct removal *r = container_of(w, struct removal, work);
	struct spool *s = r->spool;

	if (r->rc < 0)
		log_error("cannot remove snapshot %s: %s", r->id, strerror(-r->rc));
	else if (!r->of_trace)
		audit_done(
		    &r->o.by, AUDIT_REMOVE,
		    &(struct audit_object){
			.pid = r->pid, .owner = r->uid, .name = r->name, .snapshot = r->id, .detail = r->limit });
	if (r->of_trace) {
		r->snapshot->size -= MIN(r->snapshot->size, r->bytes);
		if (r->snapshot->claim.spool)
			spool_room_settle(&r->snapshot->claim, r->snapshot->size);
		snapshot_unref(r->snapshot);
	}
	leaving_end(s, r->leaving, r->bytes);
	spool_room_return(&r->claim);
	ledger_return(&r->stored);
	if (r->o.done)
		r->o.done(r->rc, r->pid, r->o.data);
	free(r->name);
	free(r);
	spool_report_room(s);
}

static struct removal *removal_new(struct spool *s, const struct snapshot *snapshot, uint64_t bytes)
{
	struct removal *r = calloc(1, sizeof(*r));

	if (r)
		r->leaving = leaving_begin(s, ledger_owner(s->o.ledger, snapshot->owner), bytes);
	if (!r || !r->leaving) {
		free(r);
		return NULL;
	}
	r->work = (struct work){ .run = run_removal, .done = removal_ran };
	r->spool = s;
	r->fd = s->fd;
	r->bytes = bytes;
	r->uid = snapshot->owner;
	r->pid = snapshot->pid;
	r->name = snapshot->name ? strdup(snapshot->name) : NULL;
	strcpy(r->id, snapshot->id);
	return r;
}

/* Removes a snapshot. The removal runs before all other works of the queue, which may need its room. */
static bool remove_snapshot(struct spool *s, struct snapshot *snapshot, const struct spool_removal *removal,
			    const char *limit)
{
	struct removal *r = removal_new(s, snapshot, snapshot->claim.bytes.amount);

	if (!r) {
		if (removal->done)
			removal->done(-ENOMEM, snapshot->pid, removal->data);
		return false;
	}
	r->o = *removal;
	r->limit = limit;
	r->claim = snapshot->claim;
	snapshot->claim = (struct spool_claim){ 0 };
	r->stored = ledger_take(&snapshot->stored);
	spool_drop(s, snapshot);
	workqueue_submit_urgent(s->o.queue, &r->work);
	return true;
}

void spool_remove(struct spool *s, struct snapshot *snapshot, const struct spool_removal *removal)
{
	remove_snapshot(s, snapshot, removal, NULL);
}

bool spool_expire(struct spool *s, struct snapshot *snapshot, const char *limit)
{
	return remove_snapshot(s, snapshot, &(struct spool_removal){ .by = audit_self(s->o.audit) }, limit);
}

struct keeping {
	struct work work;
	struct spool *spool;
	struct snapshot *snapshot;
	bool keep;
	int rc;
	bool kept; /* before */
	spool_kept_fn *done;
	void *data;
};

static void run_keeping(struct work *w)
{
	struct keeping *k = container_of(w, struct keeping, work);
	_cleanup_close_ int dir =
	    openat(k->spool->fd, k->snapshot->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_close_ int fd = -1;

	if (dir < 0) {
		k->rc = -errno;
	} else if (k->keep) {
		fd = openat(dir, SNAPSHOT_KEPT_FILE, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
		k->rc = fd < 0 || fsync(dir) < 0 ? -errno : 0;
	} else {
		k->rc = (unlinkat(dir, SNAPSHOT_KEPT_FILE, 0) < 0 && errno != ENOENT) || fsync(dir) < 0 ? -errno : 0;
	}
}

static void keeping_ran(struct work *w)
{
	struct keeping *k = container_of(w, struct keeping, work);

	if (k->rc == 0 && k->snapshot->removed)
		k->rc = -ENOENT;
	if (k->rc < 0)
		k->snapshot->kept = k->kept;
	k->done(k->rc, k->snapshot, k->data);
	snapshot_unref(k->snapshot);
	free(k);
}

void spool_keep(struct spool *s, struct snapshot *snapshot, bool keep, spool_kept_fn *done, void *data)
{
	struct keeping *k = malloc(sizeof(*k));

	if (!k) {
		done(-ENOMEM, snapshot, data);
		return;
	}
	*k = (struct keeping){ .work = { run_keeping, keeping_ran },
			       .spool = s,
			       .snapshot = snapshot_ref(snapshot),
			       .keep = keep,
			       .kept = snapshot->kept,
			       .done = done,
			       .data = data };
	/* Set before the work runs, so that the snapshot is not removed meanwhile. */
	snapshot->kept = keep;
	workqueue_submit_for(s->o.queue, &k->work, ledger_owner(s->o.ledger, snapshot->owner));
	spool_report_room(s);
}

uint64_t spool_leaving(const struct spool *s, uid_t uid)
{
	const struct leaving *l = uid == (uid_t)-1 ? NULL : find_leaving(s, uid);

	return uid == (uid_t)-1 ? s->all_leaving : l ? l->bytes : 0;
}

/* Deletes the trace of a decoded snapshot. */
static void delete_trace(struct spool *s, struct snapshot *snapshot)
{
	char path[SNAPSHOT_ID_SIZE + 32];
	struct removal *r;
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", snapshot->id, SNAPSHOT_TRACE_FILE);
	snapshot->trace_dropped = true;
	if (fstatat(s->fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	r = removal_new(s, snapshot, MIN(snapshot->size, (uint64_t)st.st_size));
	if (!r)
		return;
	r->of_trace = true;
	r->snapshot = snapshot_ref(snapshot);
	log_notice("deleting the trace of snapshot %s: the spool is at its limit (spool-max)", snapshot->id);
	workqueue_submit_urgent(s->o.queue, &r->work);
}

void spool_drop_shared_traces(struct spool *s, uint64_t bytes)
{
	const uint64_t enough = s->all_leaving + bytes;
	struct snapshot *snapshot;

	TAILQ_FOREACH (snapshot, &s->list, link) {
		if (s->all_leaving >= enough)
			return;
		if (snapshot->shared && !snapshot->kept && !snapshot->trace_dropped &&
		    snapshot->state == SNAPSHOT_READY)
			delete_trace(s, snapshot);
	}
}
