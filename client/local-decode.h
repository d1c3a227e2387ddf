/*
 * A job for csight-decode that csight itself hands out, without the daemon: from opening the input to the result. What
 * is said of failures is said here. Functions return an exit status.
 */
#ifndef CSIGHT_CLIENT_LOCAL_DECODE_H
#define CSIGHT_CLIENT_LOCAL_DECODE_H

#include "client/output-files.h"
#include "client/finder.h"
#include "lib/base/json.h"

struct local_decode_file {
	int fd;
	bool made;
};

struct local_decode {
	struct client *client;
	struct output_files output_files; /* settled */
	const char *regs;                 /* the file that describes bare trace, or NULL */
	json_object *options;             /* for the decoder, or NULL; freed by local_decode_done() */
	void (*on_result)(struct client *c, json_object *result);
	struct finder finder; /* its directory and snapshot are local_decode_open_input()'s */
	/* The rest is local-decode.c's own. */
	const char *name; /* of the input, as the user gave it */
	const char *type; /* of the input, in csight-decode's words */
	int input, code;
	struct local_decode_file files[DECODER_OUTPUTS_MAX]; /* of those that are asked for, as many as are open */
	size_t n_files;
	int server, job;
	pid_t pid;
};

#define LOCAL_DECODE_NONE .finder = { .dir = -1 }, .input = -1, .code = -1, .server = -1, .job = -1

/* A perf.data, a snapshot's directory (ours or Arm's), bare trace, or a store where what is asked for comes of
 * one. */
int local_decode_open_input(struct local_decode *o, const char *name);

/* A snapshot of the daemon's, of which it gave these two files: descriptors become the job's. */
int local_decode_open_snapshot(struct local_decode *o, const char *id, int trace, int json);
int local_decode_open_outputs(struct local_decode *o);

/* Decodes, answering for images; output files that could not be completed are removed. */
int local_decode_run(struct local_decode *o);
void local_decode_done(struct local_decode *o);

/* On standard error: which files of a result were not there. */
void local_decode_print_missing(json_object *result);

#endif
