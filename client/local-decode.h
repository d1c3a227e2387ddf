/* SPDX-License-Identifier: MIT */
/* A decode that csight itself runs with csight-decode, without the daemon: opens input and outputs, submits the job and
 * answers its requests. Functions print errors and return an exit status.
 */
#ifndef CSIGHT_CLIENT_LOCAL_DECODE_H
#define CSIGHT_CLIENT_LOCAL_DECODE_H

#include "client/bundle.h"
#include "client/output-files.h"
#include "client/finder.h"
#include "lib/base/json.h"

struct local_decode_file {
	int fd;
	bool made;
};

struct local_decode {
	struct client *client;
	struct output_files output_files; /* after output_files_finish() */
	bool describes;                   /* the input is not decoded, but described */
	const char *regs;                 /* the file that describes bare trace, or NULL */
	json_object *options;             /* of the job, or NULL; freed by local_decode_done() */
	/* NULL: the result is kept in result, and freed by local_decode_done() */
	void (*on_result)(struct client *c, json_object *result);
	json_object *result;
	struct bundle_files *bundled; /* NULL, or the caller's for bundle_keep() */
	char *unpacked;               /* the directory of a bundle; freed by local_decode_done() */
	json_object *served;          /* NULL, or the caller's array for served_files_add() */
	struct finder finder;         /* local_decode_open_input() sets its directory and snapshot */
	/* Set by local_decode_open_input(). */
	const char *name; /* of the input, for messages */
	const char *type; /* of the input, as in lib/decoder/decoder.h */
	int input;
	/* Private to local-decode.c. */
	int code, jitdump;
	struct local_decode_file files[DECODER_OUTPUTS_MAX]; /* the first n_files of output_files, opened */
	size_t n_files;
	int server, job;
	pid_t pid;
};

#define LOCAL_DECODE_NONE .finder = { .dir = -1 }, .input = -1, .code = -1, .jitdump = -1, .server = -1, .job = -1

/* Sets the options that all verbs accept; before the input is opened. */
void local_decode_set_options(struct local_decode *o, const struct trace_options *options);

/*
 * Opens the input: a perf.data file, a snapshot directory of csightd or Arm's tools, bare trace (with regs), or a store
 * if all formats are made from calls.
 */
int local_decode_open_input(struct local_decode *o, const char *name);

/* Makes a snapshot of the daemon the input. Takes ownership of the descriptors of its perf.data and snapshot.json. */
int local_decode_open_snapshot(struct local_decode *o, const char *id, int trace, int json);
int local_decode_open_outputs(struct local_decode *o);

/* Writes a copy of a store with new names of its functions; runs the job. The descriptors stay the caller's. */
int local_decode_rename(struct local_decode *o, const char *name, int store, int to);

/* Decodes the input to one format in an empty file. The descriptor stays the caller's. */
int local_decode_to(struct local_decode *o, const char *format, int to);

/* Decodes, and passes the result to on_result. Removes output files if they could not be completed. */
int local_decode_run(struct local_decode *o);
void local_decode_done(struct local_decode *o);

/* Prints the image files that a decode did not find, or its warnings, on standard error. */
void local_decode_print_missing(json_object *result);
void local_decode_print_warnings(json_object *result);

#endif
