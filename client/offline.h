/*
 * A job for csight-decode that csight itself hands out, without the daemon: from opening the input to the result. What
 * is said of failures is said here. Functions return an exit status.
 */
#ifndef CSIGHT_OFFLINE_H
#define CSIGHT_OFFLINE_H

#include "client/asked.h"
#include "client/finder.h"
#include "lib/base/json.h"

struct offline_file {
	int fd;
	bool made;
};

struct offline {
	struct client *client;
	struct asked asked;   /* settled */
	const char *regs;     /* the file that describes bare trace, or NULL */
	json_object *options; /* for the decoder, or NULL; freed by offline_done() */
	void (*on_result)(struct client *c, json_object *result);
	struct finder finder; /* its directory and snapshot are offline_input()'s */
	/* The rest is offline.c's own. */
	const char *name; /* of the input, as the user gave it */
	const char *type; /* of the input, in csight-decode's words */
	int input, code;
	struct offline_file files[DECODER_OUTPUTS_MAX]; /* of those that are asked for, as many as are open */
	size_t n_files;
	int server, job;
	pid_t pid;
};

#define OFFLINE_NONE .finder = { .dir = -1 }, .input = -1, .code = -1, .server = -1, .job = -1

/* A perf.data, a snapshot's directory (ours or Arm's), bare trace, or a store where what is asked for comes of one. */
int offline_input(struct offline *o, const char *name);

/* A snapshot of the daemon's, of which it gave these two files: descriptors become the job's. */
int offline_snapshot(struct offline *o, const char *id, int trace, int json);
int offline_output(struct offline *o);

/* Decodes, answering for images; output files that could not be completed are removed. */
int offline_run(struct offline *o);
void offline_done(struct offline *o);

/* On standard error: which files of a result were not there. */
void offline_tell_images(json_object *result);

#endif
