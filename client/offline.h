/*
 * A job for csight-decode that csight itself hands out, without the daemon: from opening the input to the result. What
 * is said of failures is said here. Functions return an exit status.
 */
#ifndef CSIGHT_OFFLINE_H
#define CSIGHT_OFFLINE_H

#include "client/client.h"
#include "client/finder.h"
#include "lib/base/json.h"

struct offline {
	struct client *client;
	const char *format, *path; /* path NULL: standard output */
	const char *regs;	   /* the file that describes bare trace, or NULL */
	json_object *options;	   /* for the decoder, or NULL; freed by offline_done() */
	void (*on_result)(struct client *c, json_object *result);
	struct finder finder; /* its directory and snapshot are offline_input()'s */
	/* The rest is offline.c's own. */
	const char *type; /* of the input, in csight-decode's words */
	int input, code, output;
	bool made; /* the output file */
	int server, job;
	pid_t pid;
};

#define OFFLINE_NONE \
	.finder = { .dir = -1 }, .input = -1, .code = -1, .output = -1, .server = -1, .job = -1

/* A perf.data, a snapshot's directory (ours or Arm's), or bare trace. */
int offline_input(struct offline *o, const char *name);
int offline_output(struct offline *o);

/* Decodes, answering for images; an output file that could not be completed is removed. */
int offline_run(struct offline *o);
void offline_done(struct offline *o);

#endif
