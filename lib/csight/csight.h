/* SPDX-License-Identifier: MIT */
/* libcsight: the client library of csightd, a flight recorder for programs.
 *
 *	struct csight_object *snapshot = NULL;
 *	struct csight *c = NULL;
 *
 *	if (csight_open(NULL, &c) < 0)
 *		...
 *	if (csight_snapshot(c, pid, 0, NULL, NULL, &snapshot) < 0)
 *		fprintf(stderr, "%s\n", csight_error(c));
 *	else
 *		printf("%s\n", csight_text(snapshot, "id"));
 *	csight_object_free(snapshot);
 *	csight_close(c);
 * A handle is one connection. The first call connects, and so does the next call after the connection was lost. Only
 * one thread at a time may use a handle and the objects that its calls returned; different handles are independent.
 * Asynchronous calls may be made by any thread at any time. The library prints nothing, starts no threads, raises no
 * signals and has no global state. A handle belongs to the process that opened it: a child of fork() opens its own.
 * Functions that return int return 0 or a negative errno, and do not change their outputs on failure:
 *
 *	-ENOTCONN	no daemon listens, or it closed the connection
 *	-EACCES		no permission for the socket, or its server is not trusted
 *	-EPERM		the process or snapshot belongs to another user
 *	-ESRCH		no such process
 *	-ENOENT		no such snapshot, or it has no such file
 *	-EOPNOTSUPP	the process cannot be traced on this machine
 *	-ENODATA	the process is not armed, and CSIGHT_NO_ARM was set
 *	-EBUSY		the snapshot is not in a state that allows this
 *	-EDQUOT		a limit of this user was reached
 *	-EIO		the snapshot could not be made
 *	-ENOBUFS	events came faster than they were read
 *	-EBADMSG	the configuration has an error
 *	-ESHUTDOWN	the daemon ends
 *	-EINVAL		the daemon rejected an argument, or the size of a struct is not set
 *	-E2BIG		an option is set that this version of the library does not have
 *	-ENOSYS		the daemon does not have the method: it is older than this library
 *	-EPROTO		the reply is not csightd's protocol
 *	-ETIMEDOUT	the daemon did not reply in time
 *	-ECANCELED	the progress function cancelled the wait
 *	-ECHILD		another process opened the handle
 *	-EAGAIN		asynchronous calls: too many wait
 *	-EALREADY	asynchronous calls: the last snapshot was requested too recently
 *	-ENOMEM		out of memory
 *
 * csight_error() returns a message for the user.
 */
#ifndef CSIGHT_H
#define CSIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The version of this header. csight_version() returns that of the library with which a program runs, which may be
 * newer. Structs that a caller fills begin with their size, set to sizeof(struct ...): later versions add fields at
 * their ends. A library accepts the struct of an older program, whose missing fields are zero, and of a newer one, if
 * the fields that it does not know are zero (else -E2BIG).
 */
#define CSIGHT_VERSION_MAJOR 0
#define CSIGHT_VERSION_MINOR 1
#define CSIGHT_VERSION_PATCH 0
#define CSIGHT_VERSION_TEXT "0.1.0"
#define CSIGHT_VERSION_OF(major, minor, patch) ((major)*1000000 + (minor)*1000 + (patch))
#define CSIGHT_VERSION CSIGHT_VERSION_OF(CSIGHT_VERSION_MAJOR, CSIGHT_VERSION_MINOR, CSIGHT_VERSION_PATCH)

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct csight;

/* CSIGHT_VERSION of the library. */
unsigned csight_version(void);

/* A reply of the daemon, or a part of it: an object with the fields that org.csight.varlink defines. */
struct csight_object;

/* Creates a handle without connecting. socket NULL: $CSIGHT_SOCKET if set, else the socket of this user's daemon if it
 * exists, else that of the system's daemon. The caller closes the handle. -ENOMEM, -ENAMETOOLONG.
 */
int csight_open(const char *socket, struct csight **ret);

/* Closes the connection and frees the handle. Accepts NULL; returns NULL. */
struct csight *csight_close(struct csight *c);

/* Returns the path of the socket; valid until csight_close(). */
const char *csight_socket(const struct csight *c);

/*
 * The message of the last call: what was tried, why it failed and what to do, without control characters; "" if it
 * succeeded, never NULL. Valid until the next call.
 */
const char *csight_error(const struct csight *c);

/* Returns the error name in the daemon's reply, such as "org.csight.NoSuchProcess"; NULL if the last call got no such
 * reply. */
const char *csight_error_name(const struct csight *c);

/* Gets the status of the daemon. Like all objects that calls return, the caller frees *ret. */
int csight_status(struct csight *c, struct csight_object **ret);

/* Gets the armed processes of the caller, or all for root, in the field "targets". */
int csight_targets(struct csight *c, struct csight_object **ret);

/*
 * Options of the trace. Zero means the default, or for an armed process what it has. A process that is recorded without
 * an option is not armed with it: -EOPNOTSUPP, and csight_error() names the option.
 */
struct csight_arm_options {
	size_t size;        /* sizeof(struct csight_arm_options) */
	bool kernel;        /* also trace execution in the kernel; root only */
	bool cycles;        /* count cycles */
	bool no_timestamps; /* no timestamps: less trace, and no times */
	bool no_contexts;   /* no context IDs */
	const char *filter; /* address filters, in the syntax of PERF_EVENT_IOC_SET_FILTER */
	const char *sink;   /* name of the trace sink */
	uint64_t ring_size; /* bytes of each ring of the process, a power of two from 64K to 1G */
	const char *mode;   /* "ring": keep the newest trace, the default; "fill": the first, until the ring is full */
	bool branch_broadcast;       /* trace the targets of all taken branches */
	bool no_return_stack;        /* trace the targets of returns, too, that a return stack predicts */
	uint64_t cycle_threshold;    /* the least number of cycles in a count, up to 4095 */
	uint64_t timestamp_interval; /* cycles between timestamps, a power of two up to 8192 */
	uint32_t thread;             /* the only thread that is traced */
	const char *counters;        /* names of events that are counted, separated by commas: csight(1) */
	const char *cpus;            /* the only CPUs that are traced: "0-3,5" */
};

/*
 * Starts and stops recording a process. Disarming drops the history. options may be NULL; ret may be NULL, otherwise it
 * receives the target.
 */
int csight_arm(struct csight *c, pid_t pid, const struct csight_arm_options *options, struct csight_object **ret);
int csight_disarm(struct csight *c, pid_t pid);

/* Which processes a standing target selects: those that fulfil all that is set. */
struct csight_rule {
	size_t size;        /* sizeof(struct csight_rule) */
	const char *name;   /* a shell pattern of the process's name */
	const char *exe;    /* the absolute path of its program */
	const char *unit;   /* the unit of systemd that it is of */
	const char *cgroup; /* the control group that it is in, as /proc/PID/cgroup has it */
	pid_t tree;         /* this process and its descendants */
	bool has_user;
	uid_t user; /* whose it is, if has_user */
};

/*
 * Sets a standing target: the caller's processes that the rule selects, or all for root, are recorded, those that run
 * and those that start later. options and ret may be NULL; *ret is the standing target, with its "id".
 */
int csight_arm_standing(struct csight *c, const struct csight_rule *rule, const struct csight_arm_options *options,
			struct csight_object **ret);

/* Removes a standing target; the processes that it armed remain armed. */
int csight_disarm_standing(struct csight *c, uint32_t id);

/* Gets the standing targets of the caller, or all for root, in the field "standing". */
int csight_standing(struct csight *c, struct csight_object **ret);

/* Called at the beginning of each phase, and while a phase makes progress. phase is "arming", "waiting" (other
 * snapshots use the memory, or the room in the spool), "freezing", "copying", "queued" or "decoding"; later versions
 * may add others. total is 0 if unknown. To cancel the wait with -ECANCELED, return non-zero; the daemon completes the
 * snapshot nevertheless.
 */
typedef int (*csight_progress_fn)(void *userdata, const char *phase, uint64_t done, uint64_t total);

enum {
	CSIGHT_NO_ARM = 1,  /* fail if the process is not armed, instead of arming it */
	CSIGHT_NO_WAIT = 2, /* return when the trace is saved, without waiting for the decode */
};

/* Takes a snapshot and waits for its decode. Its "state" is then "ready", or "raw" with a "reason". */
int csight_snapshot(struct csight *c, pid_t pid, unsigned flags, csight_progress_fn progress, void *userdata,
		    struct csight_object **ret);

/* Options of a snapshot. Zeros mean none. */
struct csight_snapshot_options {
	size_t size;               /* sizeof(struct csight_snapshot_options) */
	unsigned flags;            /* CSIGHT_NO_ARM, CSIGHT_NO_WAIT */
	const char *reason;        /* why it is taken; at most 256 bytes */
	const char *const *labels; /* texts NAME=VALUE, at most 8, then NULL; or NULL */
	uint64_t last;             /* only the trace of this time before it, in ns; 0: all of the history */
	/*
	 * A recording: the snapshot goes on for max_time ns, or until it has max_bytes of trace, 0: without a limit, or
	 * until csight_end_recording() is called. Trace beyond max_rate bytes a second is lost, which leaves a gap.
	 */
	bool record;
	uint64_t max_time, max_bytes, max_rate;
	/*
	 * Called when the recording has begun, and some times a second, with the snapshot, whose object "recording" has
	 * "bytes", "lost" and "duration"; non-zero cancels the wait, not the recording. May be NULL.
	 */
	int (*recording)(void *userdata, const struct csight_object *snapshot);
};

/* Takes a snapshot as csight_snapshot() does, with options. */
int csight_snapshot_with(struct csight *c, pid_t pid, const struct csight_snapshot_options *options,
			 csight_progress_fn progress, void *userdata, struct csight_object **ret);

/* Ends a recording: its snapshot is completed and decoded. No effect if it has ended. -EBUSY: it is no recording. */
int csight_end_recording(struct csight *c, const char *id);

/* Options of a tail. Zeros mean none. */
struct csight_tail_options {
	size_t size;       /* sizeof(struct csight_tail_options) */
	uint64_t max_time; /* it ends after this time, in ns; 0: without a limit */
};

/*
 * Follows a process while it runs: its trace, beginning with the contents of its rings, as a perf.data without an end.
 * The process is armed first where that is necessary. *ret_fd is a close-on-exec descriptor of a socket, whose reads
 * block; the caller closes it, which ends the tail, or ends it by shutdown(), and reads what was sent before. End of
 * file: the process has ended, was disarmed or has changed its user, the time is over, or csightd ends. What is
 * overwritten because it is not read in time is a gap. -EOPNOTSUPP: the process cannot be followed, as its sink is
 * shared, or for another reason that csight_error() returns. options may be NULL.
 */
int csight_tail(struct csight *c, pid_t pid, const struct csight_tail_options *options, int *ret_fd);

/* Waits until the decode of a snapshot has ended: its "state" is "ready" or "raw". */
int csight_wait(struct csight *c, const char *id, csight_progress_fn progress, void *userdata,
		struct csight_object **ret);

/* Options of a trigger. Zeros are none. */
struct csight_watch_options {
	size_t size;            /* sizeof(struct csight_watch_options) */
	const uint64_t *places; /* of function and line: addresses in the process */
	size_t n_places;        /* at most 16 */
	/* For csight_watch_wait(): called once the trigger is in effect; non-zero cancels the wait. May be NULL. */
	int (*watching)(void *userdata, const struct csight_object *trigger);
	void *userdata;
	/* Of each place, the index of its event in trigger; NULL: all are of the first one. */
	const unsigned *conditions;
};

/*
 * Sets a trigger on an armed process: events and rules as of the verb watch in csight(1), such as "syscall read
 * longer-than 5ms or signal USR1 once". It remains until it is removed; ret may be NULL, otherwise it receives the
 * trigger. -EINVAL: it is not valid, or cannot be watched. options may be NULL.
 */
int csight_watch_set(struct csight *c, pid_t pid, const char *trigger, const struct csight_watch_options *options,
		     struct csight_object **ret);

/* Sets a trigger and waits for its first snapshot, decoded; then it is removed. -ESRCH: the process ended without. */
int csight_watch_wait(struct csight *c, pid_t pid, const char *trigger, const struct csight_watch_options *options,
		      struct csight_object **ret);

/* Gets the triggers of the caller, or all for root, in the field "triggers". */
int csight_watch_list(struct csight *c, struct csight_object **ret);

/* Removes the trigger of this id; its snapshots are completed. */
int csight_watch_remove(struct csight *c, uint32_t id);

/* Gets the snapshots of the caller, or all for root, oldest first, in the field "snapshots". */
int csight_list(struct csight *c, struct csight_object **ret);
int csight_get(struct csight *c, const char *id, struct csight_object **ret);

/* file: "store", "perfetto", "perfdata" or "json". *ret is a readable close-on-exec descriptor; the caller closes it.
 */
int csight_open_file(struct csight *c, const char *id, const char *file, int *ret);

/* Deletes a snapshot. */
int csight_remove(struct csight *c, const char *id);

/* keep: the daemon does not remove the snapshot to make room, or for its age; false: it may again. */
int csight_keep(struct csight *c, const char *id, bool keep);

/*
 * Stops the recording of all processes, which keep their history, until it is called with false; for root, and the user
 * as whom the daemon runs.
 */
int csight_pause(struct csight *c, bool pause);

/*
 * Makes the daemon read its configuration again; for root, and the user as whom it runs. The lists "changed" and
 * "afterRestart" of *ret have the names of settings. ret may be NULL.
 */
int csight_reload(struct csight *c, struct csight_object **ret);

/*
 * Limits the time of each call that waits for the daemon, from now on; it ends with -ETIMEDOUT then. 0: 60 s for a
 * reply, and no limit for snapshots and waits.
 */
void csight_set_timeout(struct csight *c, int ms);

/*
 * Asynchronous calls never wait for the daemon. They return 0 if the call was sent or queued, else a negative errno and
 * have no effect. Their results arrive through csight_process(), which the program calls when csight_fd() is readable
 * or csight_timeout() has passed. At most 64 calls with a result can wait; 4 are under way at a time.
 */
struct csight_result {
	size_t size; /* of this struct in the library */
	int error;   /* 0, or a negative errno */
	/* As csight_error() and csight_error_name() return them; valid until the next call with the handle. */
	const char *message, *error_name;
	/* The result, or NULL. Valid during the function; csight_object_ref() keeps it. */
	struct csight_object *object;
	int fd;    /* of csight_open_file_async(), which the function closes; else -1 */
	bool more; /* further results of this call follow */
};

/* Called exactly once for each call with a result, or until more is false, by csight_process(). */
typedef void (*csight_done_fn)(void *userdata, const struct csight_result *result);

struct csight_async_options {
	size_t size;                 /* sizeof(struct csight_async_options) */
	csight_done_fn done;         /* NULL: no result, for csight_snapshot_async() alone */
	csight_progress_fn progress; /* or NULL; non-zero cancels the call */
	void *userdata;              /* for both */
	unsigned flags;              /* of csight_snapshot_async(): CSIGHT_NO_ARM, CSIGHT_NO_WAIT */
	unsigned timeout_ms;         /* the result is -ETIMEDOUT after this time; 0: no limit */
	/* Of csight_snapshot_async(): refuse the call with -EALREADY in this time after another one; 0: do not. */
	uint64_t every_ms;
};

/*
 * Requests a snapshot from a hot path. Without done (options NULL, too) it is sent and forgotten: no other call is
 * needed, and it does not wait for the decode. -ENOTCONN: no daemon; the next attempt to connect is made a second later
 * at the earliest. -EAGAIN: the daemon is behind. *ret, which may be NULL, is for csight_cancel().
 */
int csight_snapshot_async(struct csight *c, pid_t pid, const struct csight_async_options *options, uint64_t *ret);

/* As csight_arm(), csight_wait() and csight_open_file(), but asynchronous. options must have done. */
int csight_arm_async(struct csight *c, pid_t pid, const struct csight_arm_options *arm,
		     const struct csight_async_options *options, uint64_t *ret);
int csight_wait_async(struct csight *c, const char *id, const struct csight_async_options *options, uint64_t *ret);
int csight_open_file_async(struct csight *c, const char *id, const char *file,
			   const struct csight_async_options *options, uint64_t *ret);

/*
 * Calls any method of org.csight, such as "GetSnapshot", with its parameters as JSON or NULL. The result is the object
 * with the parameters of the reply.
 */
int csight_call_async(struct csight *c, const char *method, const char *parameters,
		      const struct csight_async_options *options, uint64_t *ret);

/*
 * Subscribes to events, each of which is a result with more: an object with the text "event" (subscribed, armed, ended,
 * snapshot, refused) and the fields of Subscribe in org.csight.varlink. It ends with csight_cancel(), or with -ENOBUFS
 * after events came faster than they were read.
 */
int csight_subscribe_async(struct csight *c, const struct csight_async_options *options, uint64_t *ret);

/*
 * A part of a program that has a budget of time. csight_region_end() measures it, and requests a snapshot as
 * csight_snapshot_async() does if it took longer: 1, or a negative errno if that failed; 0 within the budget. The
 * snapshot has the label, at most 64 bytes, and the duration, also in its timeline. The struct is the caller's; the
 * label must live until the end.
 */
struct csight_region {
	const char *label;
	uint64_t budget, begin; /* ns; begin: CLOCK_MONOTONIC */
	uint64_t every_ms;      /* set between begin and end: as of struct csight_async_options */
	pid_t pid;              /* set as every_ms: the process of which a snapshot is taken; 0: the caller */
	int unused;
};

void csight_region_begin(struct csight_region *region, const char *label, uint64_t budget);
int csight_region_end(struct csight_region *region, struct csight *c);

/* Does nothing; a trigger on this function (csight watch --function csight_stop_indicator) takes a snapshot where it is
 * called.
 */
void csight_stop_indicator(void);

/*
 * Notes: a label and a number at a place of the timelines, on the track of the thread that makes them; spans are notes
 * with a duration. csightd has the last 4096 of a process, in memory that both share, also after it has died. They are
 * recorded while the process is, and cost a few ns otherwise. Any thread may make them at any time, also in a handler
 * of a signal; none waits.
 *
 * csight_notes_enable() makes the memory and gives it to csightd, for one handle of a process. After an error such as
 * -ENOTCONN, and if csightd is restarted, csight_process(), another csight_notes_enable(), or a note that is recorded
 * does that later.
 *
 * csight_note() and csight_span_end() return 1 if the note was recorded, 0 if none are recorded at present, -ECHILD in
 * a child of fork(), or -EAGAIN if another thread has not written an old note yet. Of a label, 64 bytes are kept; that
 * of a span must live until its end. A struct csight_span is the caller's.
 */
int csight_notes_enable(struct csight *c);
int csight_note(struct csight *c, const char *label, int64_t value);

struct csight_span {
	const char *label;
	uint64_t begin, index; /* begin: CLOCK_MONOTONIC ns */
	uint32_t recorded, unused;
};

void csight_span_begin(struct csight *c, struct csight_span *span, const char *label);
int csight_span_end(struct csight *c, struct csight_span *span, int64_t value);

/* For the library itself: calls of it show where in a trace of the emulator a note was made. */
void csight_note_mark(unsigned steps);

/* Connects for csight_snapshot_async(), so that its first call does not. */
int csight_connect(struct csight *c);

/* Ends a call: its result is -ECANCELED. The daemon completes what it has begun. -ENOENT: it has ended. */
int csight_cancel(struct csight *c, uint64_t call);

/* Returns a descriptor for poll() with csight_events(): it becomes ready when csight_process() has something to do. */
int csight_fd(struct csight *c);
int csight_events(struct csight *c);

/* Returns the time in ms after which csight_process() has something to do; -1: no limit. */
int csight_timeout(struct csight *c);

/* Sends and receives without waiting, and calls done and progress. Returns how many results arrived. */
int csight_process(struct csight *c);

/* What became of asynchronous calls since the handle was opened. */
struct csight_counts {
	size_t size;      /* set by the caller: sizeof(struct csight_counts) */
	uint64_t sent;    /* to the daemon */
	uint64_t full;    /* refused or dropped, as too many waited */
	uint64_t limited; /* refused by every_ms */
	uint64_t failed;  /* refused or dropped, as there was no connection */
};

int csight_async_counts(struct csight *c, struct csight_counts *counts);

/* Access to fields. Returned strings and objects belong to the object and are valid until it is freed. If a field is
 * absent or of another type, the functions return NULL, otherwise, false or 0. field NULL means the object itself, for
 * the items of a list of strings.
 */
const char *csight_text(const struct csight_object *o, const char *field);
int64_t csight_number(const struct csight_object *o, const char *field, int64_t otherwise);
bool csight_flag(const struct csight_object *o, const char *field);
const struct csight_object *csight_field(const struct csight_object *o, const char *field);

/* Returns the length of a list, and an item of it; NULL past the end. */
size_t csight_count(const struct csight_object *o, const char *field);
const struct csight_object *csight_item(const struct csight_object *o, const char *field, size_t index);

/* Returns the object as JSON on one line, which the object keeps; NULL: out of memory. */
const char *csight_json(const struct csight_object *o);

/* Keeps an object beyond the function that it was passed to; the caller frees it. */
struct csight_object *csight_object_ref(struct csight_object *o);

/* Frees an object that a call returned, not a field or item. Accepts NULL; returns NULL. */
struct csight_object *csight_object_free(struct csight_object *o);

/*
 * Results: the store of a snapshot, as csight report and csight grep read it. Memory does not grow with the number of
 * calls. One thread at a time may use a store and its iterators; texts are valid until it is closed. Structs that
 * functions fill begin with their size, which the caller sets.
 */
struct csight_store;

enum {
	CSIGHT_SUFFIXES = 1, /* keep the clones that compilers make of functions (NAME.isra.0) apart */
};

/*
 * Opens the store in a file, which csight_open_file() or the caller has opened, or the file or snapshot directory at a
 * path. The store owns the descriptor from then on, also on failure. -EBADMSG: it is no store; -EPROTONOSUPPORT: it has
 * another version; -ENODATA: it is truncated or damaged; -ENOMEM.
 */
int csight_store_open(int fd, unsigned flags, struct csight_store **ret);
int csight_store_open_path(const char *path, unsigned flags, struct csight_store **ret);
struct csight_store *csight_store_close(struct csight_store *s);

/* Returns a value of the trace: pid, program, source, id, clock, ended; NULL: unknown. The text is the store's. */
const char *csight_store_text(const struct csight_store *s, const char *key);

struct csight_thread {
	size_t size;
	const char *name;
	uint64_t first, last;     /* ns */
	uint64_t calls;           /* pieces of an inlined function count */
	uint64_t gaps;            /* intervals in which nothing is known */
	uint64_t instructions;    /* executed */
	uint64_t unexplained;     /* returns and jumps that fit no call */
	uint64_t bound;           /* largest error of the times, ns; 0: they are exact, or it is unknown */
	uint32_t tid, deepest;    /* deepest: of its stacks */
	uint32_t quality, unused; /* how much is known, in units of 0.01 % */
};

size_t csight_store_threads(const struct csight_store *s);
int csight_store_thread(const struct csight_store *s, size_t index, struct csight_thread *ret);

/* Sums over all threads, in ns. A call that is open at a gap or at the end counts with the part that was traced. */
struct csight_function {
	size_t size;
	const char *name, *image; /* image: the file that has it */
	const char *file;         /* of its source; "": unknown */
	uint64_t address;
	uint64_t calls, whole; /* whole: traced from beginning to end */
	uint64_t total, self;  /* total: recursive calls count once */
	uint64_t wait;         /* part of total in which the thread did not run */
	uint64_t total_instructions, self_instructions;
	uint64_t shortest, median, p99; /* of whole calls; accurate to 4 % */
	uint64_t longest, longest_enter;
	uint32_t longest_thread; /* index */
	uint32_t line;           /* of its declaration */
	uint32_t inlined;        /* 1: calls of it that were inlined */
	uint32_t uncertain;      /* 1: the number of calls is a guess */
};

/* Functions that did not run, and merged clones, have no calls. */
size_t csight_store_functions(const struct csight_store *s);
int csight_store_function(const struct csight_store *s, size_t index, struct csight_function *ret);

/*
 * Finds the first function from *index on that ran and whose name matches a shell pattern, also without its parameters.
 * -ENOENT.
 */
int csight_store_find(const struct csight_store *s, const char *pattern, size_t *index);

struct csight_calls_options {
	size_t size;
	const char *function;  /* only functions whose names match; NULL: all */
	uint64_t since, until; /* only calls that are open between these times; 0: from the beginning, to the end */
	uint64_t longer;       /* only calls that took at least this long, ns */
	uint32_t tid, unused;  /* only this thread; 0: all */
};

struct csight_call {
	size_t size;
	uint64_t enter, duration;   /* ns */
	uint64_t wait;              /* part of the duration in which the thread did not run */
	uint64_t bound;             /* largest error of the duration; 0: it is exact, or it is unknown */
	uint64_t instructions;      /* executed in it */
	const char *entered, *left; /* how: "call", "tail", "signal" ...; "return", "unwound", "gap" ... */
	uint32_t function, caller;  /* indexes; caller: CSIGHT_NO_CALLER if it has none or an unknown one */
	uint32_t thread, depth;     /* index; 0: outermost */
	uint32_t whole, unused;     /* 1: traced from beginning to end */
};

#define CSIGHT_NO_CALLER UINT32_MAX

/* Iterates over calls, thread by thread, in the order in which they end. */
struct csight_calls;

int csight_calls_open(const struct csight_store *s, const struct csight_calls_options *options,
		      struct csight_calls **ret);
struct csight_calls *csight_calls_close(struct csight_calls *calls);

/* Returns 1 with a call, 0 at the end, or a negative errno. */
int csight_calls_next(struct csight_calls *calls, struct csight_call *ret);

struct csight_gap {
	size_t size;
	uint64_t from, until; /* ns; equal if tracing did not resume */
	const char *cause;
};

/* Iterates over the gaps of a thread, by its index. */
struct csight_gaps;

int csight_gaps_open(const struct csight_store *s, size_t thread, struct csight_gaps **ret);
struct csight_gaps *csight_gaps_close(struct csight_gaps *gaps);
int csight_gaps_next(struct csight_gaps *gaps, struct csight_gap *ret);

/*
 * What a program wrote about itself by csight_note() and spans, and samples of counters ("counter"), sorted by thread
 * and time. The value of a counter is the number of events in the thread since its first sample; thread 0 has those
 * that belong to no thread, such as the frequencies of CPUs.
 */
struct csight_stored_note {
	size_t size;
	const char *label; /* any bytes, which may come from a hostile program */
	const char
	    *kind; /* "note", "span", "open": a span without a known end, "ended": one without a beginning, "counter" */
	uint64_t time, until; /* ns; until: of a span, else equal to time; 0: its place in the trace is unknown */
	int64_t value;        /* "open" has none */
	uint32_t tid, unused;
};

size_t csight_store_notes(const struct csight_store *s);
int csight_store_note(const struct csight_store *s, size_t index, struct csight_stored_note *ret);

/*
 * Decodes a file, as csight decode does: without the daemon, in a process of csight-decode, which is sandboxed and ends
 * with the decode. The handle need not have a connection; csight_error() of it has the messages. The decode is used as
 * the handle is, by one thread at a time, except that any may cancel it. Close it before the handle.
 */
struct csight_decode;

struct csight_decode_options {
	size_t size;
	const char *const *images; /* directories that are searched for programs and libraries, at most 32 */
	size_t n_images;
	const char *buffer;      /* of an Arm snapshot; NULL: the first */
	const char *regs;        /* the input is bare trace, and this file describes its trace source */
	const char *engine;      /* "auto", "native", "opencsd"; NULL: auto */
	uint64_t limit;          /* bytes of each output; 0: no limit */
	uint32_t tid;            /* only this thread; 0: all */
	uint32_t workers;        /* decoding threads, at most 64; 0: one for each CPU */
	uint32_t by_thread;      /* 1: elements by thread, not by trace source */
	uint32_t no_inlines;     /* 1: no frames for inlined functions */
	uint32_t verify, unused; /* verify: 1: with both engines, which are compared */
};

/*
 * Opens a perf.data file, a directory of a snapshot, a bundle, bare trace or a store. options may be NULL. -EINVAL: it
 * is none of these, or an option is invalid; errors of open().
 */
int csight_decode_open(struct csight *c, const char *path, const struct csight_decode_options *options,
		       struct csight_decode **ret);

/* Adds an output, at most 8: one of the formats of csight decode, written to a descriptor, which stays the caller's. */
int csight_decode_output(struct csight_decode *d, const char *format, int fd);

/*
 * Decodes, once. ret, which may be NULL, gets what csight decode --json prints. After a failure outputs are incomplete.
 * -EIO: csight-decode reports why it failed; -EPIPE: it crashed; -ECANCELED: progress, which may be NULL, did not
 * return 0, or csight_decode_cancel() was called; -EBUSY: it has run.
 */
int csight_decode_run(struct csight_decode *d, csight_progress_fn progress, void *userdata, struct csight_object **ret);

/* Ends csight_decode_run(), or keeps it from beginning. Any thread may call this, also in a handler of a signal. */
int csight_decode_cancel(struct csight_decode *d);

/* Accepts NULL; returns NULL. */
struct csight_decode *csight_decode_close(struct csight_decode *d);

/*
 * The check of the environment, as csight doctor prints it. It needs no daemon; it runs qemu-aarch64 and csight-decode
 * for a moment, to see what they can do.
 */
struct csight_doctor;

struct csight_doctor_options {
	size_t size;
	const char *root; /* examine the files beneath this directory; NULL: this machine */
};

/* One result. Texts are valid until csight_doctor_free(), and may have any characters. */
struct csight_finding {
	size_t size;
	const char *level; /* "ok", "note", "warning": tracing has restrictions, "error": there is none by hardware */
	const char *topic, *text;
	const char *remedy; /* what to do; "": nothing */
};

/* How programs can be traced on the machine. */
enum { CSIGHT_BY_HARDWARE = 1, CSIGHT_BY_EMULATOR = 2 };

/* options may be NULL. -ENOENT and others of open(): the root; -ENOMEM. */
int csight_doctor_run(const struct csight_doctor_options *options, struct csight_doctor **ret);
struct csight_doctor *csight_doctor_free(struct csight_doctor *d);
unsigned csight_doctor_ways(const struct csight_doctor *d);
size_t csight_doctor_findings(const struct csight_doctor *d);
int csight_doctor_finding(const struct csight_doctor *d, size_t index, struct csight_finding *ret);

#pragma GCC visibility pop
#ifdef __cplusplus
}

/* A region that ends with its scope. */
class csight_region_scope
{
      public:
	csight_region_scope(struct csight *c, const char *label, uint64_t budget, uint64_t every_ms = 0) : c(c)
	{
		csight_region_begin(&region, label, budget);
		region.every_ms = every_ms;
	}
	csight_region_scope(const csight_region_scope &) = delete;
	csight_region_scope &operator=(const csight_region_scope &) = delete;
	~csight_region_scope()
	{
		csight_region_end(&region, c);
	}

      private:
	struct csight *c;
	struct csight_region region;
};
#elif defined(__GNUC__)
/* The same in C: CSIGHT_REGION_SCOPE(c, "checkout", 5000000); ends with the block that it is in. */
struct csight_region_scope {
	struct csight_region region;
	struct csight *c;
};

static inline struct csight_region_scope csight_region_scope_begin(struct csight *c, const char *label, uint64_t budget)
{
	struct csight_region_scope s = { .c = c };

	csight_region_begin(&s.region, label, budget);
	return s;
}

static inline void csight_region_scope_end(struct csight_region_scope *s)
{
	csight_region_end(&s->region, s->c);
}

#define CSIGHT_REGION_PASTE(a, b) a##b
#define CSIGHT_REGION_NAME(line) CSIGHT_REGION_PASTE(csight_region_of_line_, line)
#define CSIGHT_REGION_SCOPE(c, label, budget)                                                                       \
	struct csight_region_scope CSIGHT_REGION_NAME(__LINE__) __attribute__((cleanup(csight_region_scope_end))) = \
	    csight_region_scope_begin(c, label, budget)
#endif

#endif
