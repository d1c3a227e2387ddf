/* SPDX-License-Identifier: MIT */
/*
 * A decode that csight or a program with libcsight runs itself with csight-decode, without the daemon: opens the input,
 * submits the job and answers its requests. Functions return 0 or a negative errno, and set the text of the error,
 * which is not escaped. One thread at a time may use a decode; any thread may make
 * its descriptor cancel readable.
 */
#ifndef CSIGHT_LOCAL_FILE_DECODE_H
#define CSIGHT_LOCAL_FILE_DECODE_H

#include "lib/local/finder.h"

/* Any of them may be NULL. */
struct file_decode_hooks {
	/* Cancels the decode if it does not return 0. */
	int (*progress)(void *userdata, const char *phase, uint64_t done, uint64_t total);
	/* A file that csight-decode requested was opened; fd -1: there is none. */
	void (*served)(void *userdata, const struct decoder_event *request, int fd);
	void *userdata;
};

struct file_decode {
	/* Set by the caller. Texts stay the caller's. */
	const char *regs;     /* the file that describes bare trace, or NULL */
	const char *regs_set; /* how to set it, for a message */
	bool describes;       /* the input is not decoded, but described */
	json_object *options; /* of the job, or NULL; freed by file_decode_done() */
	uint64_t limit;       /* bytes of each output; 0: none */
	int cancel;           /* the decode ends when this is readable; -1: never */
	struct file_decode_hooks hooks;
	/* The outputs; descriptors are the caller's. */
	const char *formats[DECODER_OUTPUTS_MAX];
	int outputs[DECODER_OUTPUTS_MAX];
	size_t n_outputs;
	/* Set by file_decode_open(). */
	struct finder finder; /* its directory and snapshot */
	const char *name;     /* of the input, for messages */
	const char *type;     /* of the input, as in lib/decoder/decoder.h */
	int input, code, jitdump;
	char *kcore_dir; /* of perf record --kcore, in the finder */
	/* Set by file_decode_run(). */
	json_object *result;
	char error[1024];
	int server, job;
	pid_t pid;
};

#define FILE_DECODE_NONE                                                                                        \
	{                                                                                                       \
		.cancel = -1, .finder = { .dir = -1, .bundle_fd = -1 }, .input = -1, .code = -1, .jitdump = -1, \
		.server = -1, .job = -1                                                                         \
	}

/* Returns a static copy of the name of a format that csight decode --to accepts, or NULL. */
const char *file_decode_format(const char *name);

/*
 * Opens the input: a perf.data file, a directory of perf record --kcore, a snapshot directory of csightd or Arm's
 * tools, a bundle, bare trace (with regs), or a store. d owns fd from then on, also on failure.
 */
int file_decode_open(struct file_decode *d, int fd, const char *name);

/* Makes a snapshot of the daemon the input: its perf.data and snapshot.json, of which d owns the descriptors. */
int file_decode_open_snapshot(struct file_decode *d, const char *id, int trace, int json);

/*
 * Checks that the formats can be made of the input, of a store only those that are made from calls, together in one
 * decode, and that the options are for such an input. -EINVAL.
 */
int file_decode_check(struct file_decode *d);

/*
 * Runs the job. -EIO: csight-decode reports why it failed; -EPIPE: it crashed; -ECANCELED. The contents of the outputs
 * are incomplete then.
 */
int file_decode_run(struct file_decode *d);
void file_decode_done(struct file_decode *d);

#endif
