/*
 * Targets: the processes that have a ring, and for a while those that had one. Counted references; the list's own ends
 * when the process is gone and its history is aged out. On the loop's thread.
 */
#ifndef CSIGHT_DAEMON_TARGET_H
#define CSIGHT_DAEMON_TARGET_H

#include <event2/event.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "daemon/ring.h"
#include "daemon/target-file.h"

struct daemon;
struct target_list;

struct target {
	unsigned refs;
	struct daemon *daemon;
	TAILQ_ENTRY(target) link; /* oldest first */
	pid_t pid, parent;
	uid_t uid;
	gid_t gid;
	char *name, *exe;
	char *arguments; /* each ended by NUL */
	size_t arguments_size;
	uint64_t armed_time; /* CLOCK_REALTIME ns */
	uint64_t gone_ns;    /* CLOCK_MONOTONIC */
	bool listed;
	bool adopted; /* it is a target only while it is armed: it did not come by itself */
	int pidfd;
	struct event *ended;
	struct ring ring;
	struct target_file **files;
	size_t n_files, room_files;
	unsigned lost_files;
	void (*hang_up)(void *data); /* tells whoever brought it that it is gone */
	void (*drain)(void *data);   /* takes in what was sent but not read yet */
	void *data;
};

TAILQ_HEAD(target_head, target);

int target_list_new(struct daemon *d, struct target_list **ret);
struct target_list *target_list_free(struct target_list *all);
const struct target_head *target_list_all(const struct target_list *all);

/* How many a user has, ended ones not counted. */
unsigned target_list_alive(const struct target_list *all, uid_t uid);

struct target_info {
	pid_t pid, parent;
	uid_t uid;
	gid_t gid;
	const char *name, *exe, *arguments;
	size_t arguments_size;
};

/* A new target in state arming, with a reference for the caller; source is taken, also on failure. */
int target_new(struct target_list *all, const struct target_info *info, const struct capture_ops *ops,
	       struct capture_source *source, struct target **ret);
struct target *target_ref(struct target *t);
struct target *target_unref(struct target *t);

/* The process is gone: its ring stays as history. */
void target_gone(struct target *t);

/* f is taken. -EMFILE: the target has too many, or its user. */
int target_add_file(struct target *t, struct target_file *f);

/* The one that runs, else the one of this number that ended last and that uid owns; NULL. */
struct target *target_list_find(const struct target_list *all, pid_t pid, uid_t uid);

/* Of its files, those stay that this list has without a descriptor; others are no longer named, or come anew. */
void target_keep_files(struct target *t, const struct capture_file *files, size_t n);

/* Why no trace comes of it although it should, as text ended by NUL; nothing while all is well. */
void target_trouble(const struct target *t, struct buf *ret);

/*
 * Arms or disarms; done(rc, data) follows, perhaps at once. -EINVAL: its state does not allow it. -EBUSY: too much
 * waits.
 */
void target_arm(struct target *t, void (*done)(struct target *t, int rc, void *data), void *data);
void target_disarm(struct target *t, void (*done)(struct target *t, int rc, void *data), void *data);

#endif
