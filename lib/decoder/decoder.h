/*
 * The talk with csight-decode, for whoever hands it work: csightd, and `csight decode` for files.
 *
 * csight-decode is a small server on a SOCK_SEQPACKET socketpair (its descriptor 3). A job is a JSON message on that
 * socket, {"job": N}, with one end of a second socketpair made for this job; the server forks a child for it, and the
 * child talks over its own end. When the child is gone the server says {"job": N, "status": WAITSTATUS} with what
 * waitpid gave. On the job's socket:
 *
 *   owner → child  {"type": "start", "input": TYPE, "outputs": [FORMAT…], "options": {…}, "snapshot": {…}|absent}
 *                  with descriptors: the input, then code/bytes where "code": true, then one an output. Formats:
 *                  elements, pcs, packets, autofdo, none, store, perfetto, calls; or one alone that decodes
 *                  nothing: info, info-json. Options: "thread": only this one;
 *                  "by_thread": elements too; "inlines": false, no frames for what
 *                  is inlined
 *                  Inputs: "perf.data"; "snapshot", whose descriptor is the snapshot.ini of an Arm trace snapshot
 *                  (option "buffer": which of its buffers); "bytes", bare trace, whose registers are in the file that
 *                  the option "regs" names; "store", whose functions get other names, for the formats that are made of
 *                  calls
 *   child → owner  {"type": "image", "index": I, "path": TEXT, "build_id": HEX|absent, "inode": N|absent,
 *                  "attempt": N|absent}   N from 1 on: the one before was not the traced file; is there another?
 *                  With "debug": TEXT it asks for the image's debug file, TEXT being what the image calls it, or ""
 *   owner → child  {"type": "image", "index": I, "reason": TEXT|absent}   with a descriptor where there is one
 *   child → owner  {"type": "file", "name": TEXT}          a file beneath the directory of the input, or of "regs"
 *   owner → child  {"type": "file", "reason": TEXT|absent}   with a descriptor where there is one
 *   child → owner  {"type": "table", "key": TEXT}         where the start said "tables": true: what another job of the
 *                  same user
 *                  made of a file of that content
 *   owner → child  {"type": "table", "reason": TEXT|absent}   with a descriptor where there is one
 *   child → owner  {"type": "keep", "key": TEXT}          with a descriptor of what may be handed to such jobs; no
 *                  answer
 *   child → owner  {"type": "progress", "done": BYTES, "total": BYTES}
 *   child → owner  {"type": "result", …}     the last message; its fields are in csight-decode(8)
 *   child → owner  {"type": "failed", "reason": TEXT}      instead of a result
 *
 * An end of the job's socket without a result or a failure is a crash. Both sides treat what comes as hostile.
 */
#ifndef CSIGHT_DECODER_H
#define CSIGHT_DECODER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/base/json.h"

enum { DECODER_MESSAGE_MAX = 256 << 10, DECODER_OUTPUTS_MAX = 8 };

/*
 * Returns the user and group that csight-decode runs as: for root the named user, or with name "" the first of csight,
 * nobody and uid 65534 that exists; for other users -1, which keeps the caller's. -ESRCH: there is no user of that
 * name.
 */
int decoder_user(const char *name, uid_t *ret_uid, gid_t *ret_gid);

/*
 * Starts csight-decode (found by path_helper). Where uid is not this process's own, the child becomes it, with gid and
 * no supplementary groups, before it executes anything; it always gets no_new_privs and a parent-death signal. -1 keeps
 * the caller's. The caller waits for pid.
 */
int decoder_spawn(const char *path, uid_t uid, gid_t gid, pid_t *ret_pid, int *ret_fd);

/* Hands a job to the server; *ret_fd is the caller's end of the job's socket. */
int decoder_submit(int server, uint64_t job, int *ret_fd);

/* A message of the server: which child ended, and how. -EAGAIN: none now (flags as recv's); -EPIPE: the server is gone.
 */
int decoder_ended(int server, int flags, uint64_t *ret_job, int *ret_status);

/* What that status says of a child that gave no result, as "killed by SIGSEGV"; behind "was" or a colon. */
void decoder_death(int status, char *ret, size_t size);

struct decoder_start {
	const char *input;          /* "perf.data", "snapshot", "bytes" */
	int input_fd, code_fd;      /* code_fd: -1 for none */
	const char *const *outputs; /* "store", "perfetto", "elements", "pcs", "calls", "none" */
	const int *output_fds;
	size_t n_outputs;
	json_object *options;  /* or NULL; borrowed */
	json_object *snapshot; /* snapshot.json, or NULL; borrowed */
	bool tables;           /* of other jobs are to be had */
};

int decoder_start(int job, const struct decoder_start *start);

enum decoder_event_type {
	DECODER_IMAGE,
	DECODER_FILE,
	DECODER_TABLE,
	DECODER_KEEP,
	DECODER_PROGRESS,
	DECODER_RESULT,
	DECODER_FAILED
};

struct decoder_event {
	enum decoder_event_type type;
	json_object *body; /* the whole message; owned by the event */
	uint32_t index;    /* DECODER_IMAGE */
	uint64_t inode;    /* DECODER_IMAGE; 0: absent */
	uint64_t attempt;  /* DECODER_IMAGE */
	bool has_fd;       /* DECODER_KEEP; fd is the event's */
	int fd;
	/* Within body, NULL where absent; path is also the name of DECODER_FILE, the key of DECODER_TABLE and
	 * DECODER_KEEP. */
	const char *path, *build_id, *reason;
	const char *debug;    /* DECODER_IMAGE; without a slash */
	uint64_t done, total; /* DECODER_PROGRESS */
};

void decoder_event_done(struct decoder_event *e);

/* -EAGAIN; -EPIPE: the end, without a message; -EBADMSG: not of this protocol. */
int decoder_receive(int job, int flags, struct decoder_event *ret);

/*
 * Which of a snapshot's images DECODER_IMAGE asks for: of its path, of its build-id where both sides know one, and of
 * its inode;
 * some file systems tell a mapping another inode than an open file, so that one that differs in nothing else will do,
 * the last
 * one. A file that was replaced may have had the same inode, and where nobody could read it it has no build-id. NULL:
 * none.
 */
json_object *decoder_find_image(json_object *snapshot, const struct decoder_event *e, size_t *ret_number);

/* Answers DECODER_IMAGE; fd -1 with a reason where there is none. The descriptor stays the caller's. */
int decoder_image(int job, uint32_t index, int fd, const char *reason);

/* Answers DECODER_FILE alike. An owner opens names with io_open_beneath(), or has no files to give. */
int decoder_file(int job, int fd, const char *reason);

/* Answers DECODER_TABLE. */
int decoder_table(int job, int fd);

#endif
