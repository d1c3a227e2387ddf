/* SPDX-License-Identifier: MIT */
/*
 * Targets: the processes that have a ring, and for some time processes that had one and ended (history). Counted
 * references; the list drops its own when the history of an ended process exceeds the limits, or the process has become
 * another user's. Almost any call here may find that, so a target that leaves the list exists until the loop's next
 * turn, and a walk over the list continues from it. On the loop's thread.
 */
#ifndef CSIGHT_DAEMON_TARGET_H
#define CSIGHT_DAEMON_TARGET_H

#include <event2/event.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "daemon/exit-listener.h"
#include "daemon/ledger.h"
#include "daemon/oom-listener.h"
#include "daemon/program-notes.h"
#include "daemon/ring.h"
#include "daemon/settings.h"
#include "daemon/target-file.h"
#include "lib/base/json.h"

struct target_list;

struct target {
	unsigned refs;
	unsigned recordings;                 /* that are not saved yet */
	unsigned arms;                       /* requests to arm it since it was last disarmed */
	STAILQ_HEAD(, state_change) changes; /* a disarm that waits for these, and what follows it */
	struct target_list *all;
	TAILQ_ENTRY(target) link;     /* oldest first */
	STAILQ_ENTRY(target) leaving; /* of those that have left the list */
	uint64_t number;              /* in the list; ascending */
	pid_t pid, parent;
	uid_t uid;   /* of the process */
	uid_t owner; /* of its trace, by policy_owner(): uid, or root */
	gid_t gid;
	char *name, *exe;
	char *arguments; /* each ends in NUL */
	size_t arguments_size;
	uint64_t armed_time;        /* CLOCK_REALTIME ns */
	uint64_t gone_ns;           /* CLOCK_MONOTONIC */
	uint64_t start;             /* of the process, as proc_file_start(); 0: unknown */
	struct user_queues *closer; /* of the program's memory; NULL: the source closes it */
	uid_t requester;            /* the user who made it a target, or root, who has armed it as well */
	struct ending ending;
	bool ending_logged;
	bool replaced; /* by the target of another program, after execve() */
	bool foreign;  /* the process has changed its uids: no user gets its trace */
	/*
	 * What the process connector has reported about threads of the process, some of which may have ended before it.
	 */
	bool exit_reported;
	int reported_code;
	pid_t dumped_tid; /* the thread that dumped core; 0: none */
	bool oom_killed;  /* the kernel's out-of-memory killer has ended it */
	bool settling;    /* its ending is known but for that */
	pid_t *killed;    /* threads that SIGKILL has ended */
	size_t n_killed, killed_room;
	bool listed;               /* in the list */
	uint64_t cost_ns, held_ns; /* of overhead.h: processor time, which decays; since when the target is paused */
	bool held;                 /* paused by overhead.h, since recording it cost too much */
	uint32_t standing;         /* the id of the standing target that it is of; 0: none */
	uint64_t gate_ns; /* CLOCK_MONOTONIC when its arming at the gate before a program began; 0: it is past it */
	bool adopted;     /* by target_adopt(): it leaves the list when it is disarmed */
	int pidfd;
	struct event *ended;        /* on pidfd: the process has ended */
	struct charge alive, rings; /* alive: until it ends */
	struct ring ring;
	/*
	 * A cached description of the threads (wire.c), with the state and the time at which it was made; thread_bytes
	 * and n_threads are those of all threads.
	 */
	json_object *threads;
	enum ring_state threads_state;
	uint64_t threads_ns, thread_bytes;
	uint64_t span_ns; /* time that the rings reach back; UINT64_MAX: unknown */
	bool span_estimated;
	size_t n_threads;
	struct program_notes *notes; /* or NULL */
	struct target_file **files;
	size_t n_files, files_capacity;
	unsigned lost_files;         /* mapped files that are not available */
	void (*hang_up)(void *data); /* called when the process has ended; or NULL */
	void (*drain)(void *data);   /* reads the messages of the process that wait in its socket; or NULL */
	void *data;
};

TAILQ_HEAD(target_head, target);

enum target_change { TARGET_ARMED, TARGET_DISARMED, TARGET_ENDED };

struct target_list_options {
	struct event_base *base;
	const struct settings *settings;
	struct workqueue *capture_queue;
	struct ledger *ledger;
	struct exit_listener *exits; /* or NULL */
	struct oom_listener *ooms;   /* or NULL */
	/*
	 * Called when a process has ended, and a second time if its exit status becomes known later, or when its
	 * history is dropped before that. Called as well when a target has left the list since it was disarmed.
	 */
	void (*ended)(void *data, struct target *t);
	/* Called when a target was armed or disarmed, or has ended, and a second time as ended(). May be NULL. */
	void (*changed)(void *data, struct target *t, enum target_change change);
	void *data;
};

int target_list_new(const struct target_list_options *options, struct target_list **ret);
struct target_list *target_list_free(struct target_list *all);
const struct target_head *target_list_all(const struct target_list *all);

/* Drops the history that is beyond the limits, after the settings have changed. */
void target_list_update(struct target_list *all);

/* Learns how processes end from there on. exits: NULL, or as in the options of the list. */
void target_list_hear_exits(struct target_list *all, struct exit_listener *exits);

/* Records an event of the process connector: the end of a thread, or its change to other uids. */
void target_list_take_event(struct target_list *all, const struct exit_event *e);

/* Records that the kernel's out-of-memory killer has ended the process of this thread. */
void target_list_take_oom(struct target_list *all, pid_t tid);

/* Finds out how processes ended that waited for that, or to learn that it did not happen. */
void target_list_settle(struct target_list *all);

struct target_info {
	pid_t pid, parent;
	uid_t uid, owner;
	gid_t gid;
	const char *name, *exe, *arguments;
	size_t arguments_size;
	uid_t payer; /* who is charged for it */
};

/*
 * Adds a target in state arming; *ret is a reference of the caller's. source is owned, also on failure. -EDQUOT: the
 * ledger refused it, for the reason in ret_refusal. -EBUSY: a source of another kind records the process for another
 * user.
 */
int target_new(struct target_list *all, const struct target_info *info, struct capture_source *source,
	       struct target **ret, struct ledger_refusal *ret_refusal);
struct target *target_ref(struct target *t);
struct target *target_unref(struct target *t);

/* Moves the ring of a target that is being armed to armed, or to disarmed. */
void target_armed(struct target *t);
void target_disarmed(struct target *t);

/* Records that the process has executed another program. */
void target_renamed(struct target *t, const char *name, const char *exe);

/* Records that the process has ended; its ring stays as history. */
void target_gone(struct target *t);

/*
 * Checks that the process still belongs to the user of the target. To be called after its ring was copied, and before a
 * user gets anything of the copy. Returns 0; -EACCES: the process is another user's, or has privileges that its user
 * lacks, and the target has left the list; or another negative errno if the check failed.
 */
int target_check_user(struct target *t);

/* Returns how the process ended; unknown while it runs. */
const struct ending *target_ending(struct target *t);

/* Consumes the reference f. -EMFILE: the target has too many files; -EDQUOT: the ledger refused it. */
int target_add_file(struct target *t, struct target_file *f);

/* Returns the target of this pid that runs, else the one that ended last and whose trace uid owns, else NULL. */
struct target *target_list_find(const struct target_list *all, pid_t pid, uid_t uid);

/* Keeps those of its files that are listed without a descriptor, and drops the others. */
void target_keep_files(struct target *t, const struct capture_file *files, size_t n);

/* Gives a target the notes of its program, in place of earlier ones; they are not consumed. */
void target_add_notes(struct target *t, struct program_notes *n);

/* Records that this user wants a target that exists. */
void target_requested(struct target *t, uid_t uid);

/* Appends why an armed target yields no trace, as text with a NUL; appends nothing if it does. */
void target_trouble(const struct target *t, struct buf *ret);

/*
 * Arms or disarms; done(rc, data) follows, perhaps at once. -EINVAL: the target's state does not allow it. -EBUSY: too
 * many operations wait. -ESRCH: the process has ended.
 */
void target_arm(struct target *t, void (*done)(struct target *t, int rc, void *data), void *data);
void target_disarm(struct target *t, void (*done)(struct target *t, int rc, void *data), void *data);

/*
 * A recording begins, or has been saved. Disarming waits for recordings, whose end is in the rings; target_leaves():
 * it does, so that they are to end, and no other may begin.
 */
void target_recorded(struct target *t, bool begins);
bool target_leaves(const struct target *t);

/* Drops a target that was made to be armed, if it is not. */
void target_remove_unarmed(struct target *t);

#endif
