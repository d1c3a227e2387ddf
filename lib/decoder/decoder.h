/* SPDX-License-Identifier: MIT */
/*
 * The protocol between csight-decode and its owner: csightd, or csight for files. This is the owner's side;
 * daemon/decode/job.h is the child's.
 *
 * Server socket: a SOCK_SEQPACKET socketpair, descriptor 3 of csight-decode. For each job the server forks a child.
 *
 *   owner → server   {"job": N, "limit": BYTES} with a descriptor: the child's end of a second socketpair, the job's
 *                    socket. limit: of the size of each file that the child writes; absent or 0: none
 *   owner → server   {"log": N} with a descriptor, before job N is submitted: the standard error of its child, which
 *                    otherwise has none
 *   owner → server   {"extend": N, "limit": BYTES}: another limit for the child of job N
 *   owner → server   {"kill": N}: kills the child of job N
 *   server → owner   {"job": N, "status": STATUS} after the child has exited; STATUS is that of waitpid()
 *
 * Job socket: a SOCK_SEQPACKET socketpair as well. Each message is a JSON object with a member "type". The socket
 * closes after "result" or "failed"; if it closes without one of them, the child has crashed. Each side treats messages
 * from the other one as hostile.
 *
 * Neighbouring versions work together: each side ignores members that it does not know, and a child sends a new type of
 * message only to an owner whose start message has a member that announces it, such as "tables".
 *
 *   start       owner → child, the first message
 *     input       type of the input: "perf.data"; "snapshot" (Arm); "bytes" (bare trace); "store" (rename its
 *                 functions); "live" (a socket or pipe with a perf.data that is being recorded, as Tail of csightd
 *                 supplies it)
 *     outputs     array of output formats; lib/export/decode-formats.h lists them
 *     options     object, optional, see below
 *     snapshot    object, optional: snapshot.json, without members that the child does not use; true: it is too long
 *                 for a message, and there is a descriptor of its text
 *     code        true: there is a descriptor of the captured code
 *     tables      true: the owner answers "table" and accepts "keep"
 *     jitdump     true: there is a descriptor of the snapshot's code/jitdump
 *     (descriptors: the input, for "snapshot" its snapshot.ini; the captured code; the jitdump; the description of the
 *     snapshot; one per output)
 *
 *   start       with the input "build-ids": the only other member is "type"; the descriptors are at most 200 files.
 *               The child replies with a "result" whose member "build_ids" is an array with an item for each file:
 *               its build-id in hexadecimal, or null for a file that has none or is no ELF file
 *
 *   options in start
 *     thread      number: decode only this thread
 *     by_thread   true: emit elements by thread
 *     inlines     false: no frames for inlined functions
 *     engine      "auto", "native", "opencsd"
 *     verify      true: decode with both engines and compare them
 *     workers     number of decoding threads; 0 or absent: one per CPU
 *     buffer      for "snapshot": name of the buffer; absent: the first
 *     longer, depth, function, full_names: for "live", as in daemon/decode/call-lines.h
 *     regs        for "bytes": name of the file that describes the trace source; requested by "file"
 *
 *   image       child → owner: request for an image, or for its debug file
 *     index       number, repeated in the reply
 *     path        of the traced image
 *     build_id    hexadecimal; absent: unknown
 *     inode       absent: unknown
 *     debug       present: request for the debug file; the name recorded in the image, or ""
 *     attempt     N > 0: the previous N files were not the traced one; absent: 0
 *   image       owner → child: reply, with a descriptor if there is such a file
 *     index       as in the request
 *     reason      without a descriptor: why
 *
 *   file        child → owner: request for a file beneath the directory of the input, or of the file "regs"
 *     name        relative path
 *   file        owner → child: reply, with a descriptor if there is such a file
 *     reason      without a descriptor: why
 *
 *   table       child → owner: request for a table that a job of the same user sent with "keep"
 *     key         identifies the contents of the file from which the table was made
 *   table       owner → child: reply, with a descriptor if there is such a table
 *     reason      without a descriptor: why
 *
 *   keep        child → owner, with a descriptor: a table for later jobs of the same user; no reply
 *     key         as in table
 *
 *   progress    child → owner
 *     done        bytes decoded
 *     total       bytes of trace
 *
 *   result      child → owner, the last message, and the only one that may be longer than DECODER_REQUEST_MAX;
 *               csight-decode(8) describes its members
 *
 *   failed      child → owner, in place of "result"
 *     reason      text
 */
#ifndef CSIGHT_DECODER_H
#define CSIGHT_DECODER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/base/json.h"

enum {
	DECODER_MESSAGE_MAX = 256 << 10,
	DECODER_REQUEST_MAX = 64 << 10,  /* of a message of the child other than its result, bytes */
	DECODER_SNAPSHOT_MAX = 64 << 20, /* largest description of a snapshot that is sent as a file, bytes */
	DECODER_OUTPUTS_MAX = 8,
	DECODER_JOBS_MAX = 128, /* of a server at a time; it ends others at once */
	DECODER_FILES_MAX = 200
};

/* Types of input that are not decoded as a file. */
#define DECODER_BUILD_IDS "build-ids"
#define DECODER_LIVE "live"

/*
 * Returns the user and group that csight-decode runs as: for root the named user, or with name "" the first of csight,
 * nobody and uid 65534 that exists; for other users -1, which keeps the caller's. -ESRCH: there is no user of that
 * name.
 */
int decoder_user(const char *name, uid_t *ret_uid, gid_t *ret_gid);

/*
 * Starts the server: the program at path, or csight-decode as found by path_helper() if path is NULL. It runs as uid
 * and gid without supplementary groups, or as the caller if uid is -1 or the caller's; always with no_new_privs and a
 * parent-death signal. *ret_fd is the server socket. The caller waits for *ret_pid.
 */
int decoder_spawn(const char *path, uid_t uid, gid_t gid, pid_t *ret_pid, int *ret_fd);

/*
 * Connects to a server that systemd starts for each connection (csight-decode.socket) at path. *ret_fd is the server
 * socket, non-blocking. -ENOENT, -ECONNREFUSED: no such unit is active; -EPERM: its socket is not root's.
 */
int decoder_connect(const char *path, int *ret_fd);

/* Submits a job to the server. *ret_fd is the caller's end of the job's socket. */
int decoder_submit(int server, uint64_t job, int *ret_fd);

/* Submits a job with a limit, in bytes, of each file that the job writes. decoder_extend() changes the limit. */
int decoder_submit_limited(int server, uint64_t job, uint64_t limit, int *ret_fd);
int decoder_extend(int server, uint64_t job, uint64_t limit);

/* Sets the standard error of a job that is submitted next. The caller keeps fd. */
int decoder_give_log(int server, uint64_t job, int fd);

/* Has the server kill the child of a job, whose end it then reports. */
int decoder_kill(int server, uint64_t job);

/*
 * Receives the end of a job from the server: its number and its child's wait status. flags are those of recv(). Returns
 * -EAGAIN if there is no message, -EPIPE if the server has exited, -EBADMSG for an invalid message.
 */
int decoder_receive_end(int server, int flags, uint64_t *ret_job, int *ret_status);

/* Describes the wait status of a child that sent no result, as in "killed by SIGSEGV"; for use after "was" or a colon.
 */
void decoder_death(int status, char *ret, size_t size);

/* The start message of a job. Descriptors, strings and JSON objects stay the caller's. */
struct decoder_start {
	const char *input;          /* type of the input */
	int input_fd, code_fd;      /* code_fd: -1 without captured code */
	int jitdump_fd;             /* -1: none */
	const char *const *outputs; /* formats */
	const int *output_fds;
	size_t n_outputs;
	json_object *options;   /* or NULL */
	json_object *snapshot;  /* contents of snapshot.json, or NULL */
	bool tables;            /* the caller caches symbol tables: DECODER_TABLE and DECODER_KEEP may follow */
	const int *description; /* of decoder_write_description(), which stands for the snapshot; or NULL */
};

/*
 * Writes the description of a snapshot to a file in memory, which the caller owns. Takes long if the snapshot has many
 * threads. -EMSGSIZE: the description is longer than DECODER_SNAPSHOT_MAX.
 */
int decoder_write_description(json_object *snapshot, int *ret_fd);

/* Sends the start message. -EMSGSIZE: the description of the snapshot is longer than DECODER_SNAPSHOT_MAX. */
int decoder_start(int job, const struct decoder_start *start);

/* Sends the start message of a job that reads the build-ids of 1 to DECODER_FILES_MAX files. */
int decoder_start_build_ids(int job, const int *fds, size_t n_fds);

enum decoder_event_type {
	DECODER_IMAGE,
	DECODER_FILE,
	DECODER_TABLE,
	DECODER_KEEP,
	DECODER_PROGRESS,
	DECODER_RESULT,
	DECODER_FAILED
};

/* A message from a child. */
struct decoder_event {
	enum decoder_event_type type;
	json_object *body; /* the whole message; owned by the event */
	uint32_t index;    /* DECODER_IMAGE */
	uint64_t inode;    /* DECODER_IMAGE; 0: absent */
	uint64_t attempt;  /* DECODER_IMAGE */
	bool has_fd;       /* DECODER_KEEP */
	int fd;            /* owned by the event */
	/* Strings in body, NULL if absent. path is the name for DECODER_FILE, the key for DECODER_TABLE and
	 * DECODER_KEEP. */
	const char *path, *build_id, *reason;
	const char *debug;    /* DECODER_IMAGE: name of the debug file, without a slash */
	uint64_t done, total; /* DECODER_PROGRESS */
};

void decoder_event_done(struct decoder_event *e);

/*
 * Receives a message; the caller releases it with decoder_event_done(). Returns -EAGAIN if there is none, -EPIPE at the
 * end of the socket, -EBADMSG for an invalid message.
 */
int decoder_receive(int job, int flags, struct decoder_event *ret);

/*
 * Finds the image in the description of a snapshot for which DECODER_IMAGE asks, and its number in the list. Its path
 * must match, and its build-id if both sides have one. An image with the same inode is preferred, but not required:
 * some file systems report another inode for a mapping than for an open file. Of several, the last one is returned;
 * NULL if there is none. The inode alone does not identify an image, since a replaced file may have had the same one;
 * an image that could not be read when it was recorded has no build-id.
 */
json_object *decoder_find_image(json_object *snapshot, const struct decoder_event *e, size_t *ret_number);

/* Replies to DECODER_IMAGE; fd is -1, with a reason, if there is no such image. The descriptor stays the caller's. */
int decoder_reply_image(int job, uint32_t index, int fd, const char *reason);

/*
 * Replies to DECODER_FILE with the file's descriptor, which stays the caller's, or with -1 and a reason. The owner must
 * open the name beneath its directory, as io_open_beneath() does.
 */
int decoder_reply_file(int job, int fd, const char *reason);

/* Replies to DECODER_TABLE; fd is -1 if there is no such table. */
int decoder_reply_table(int job, int fd);

#endif
