/* SPDX-License-Identifier: MIT */
/*
 * The child's side of a job: lib/decoder/decoder.h describes the messages. The child treats messages from the owner as
 * hostile.
 */
#ifndef CSIGHT_DECODE_JOB_H
#define CSIGHT_DECODE_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/json.h"
#include "lib/base/reason.h"
#include "lib/decoder/decoder.h"
#include "lib/export/decode-formats.h"

/* One requested output. */
struct job_output {
	const struct decode_format *format;
	int fd;
};

/* Strings and JSON objects are borrowed from the start message. */
struct decode_job {
	int socket;
	json_object *start;              /* the start message; owned */
	json_object *options, *snapshot; /* NULL if absent */
	unsigned cage;                   /* active parts of the sandbox: a bit per enum cage_part */
	const char *type;                /* of the input */
	int jitdump;                     /* descriptor; -1: absent */
	int input, code;                 /* descriptors; code -1: absent */
	int files[DECODER_FILES_MAX];    /* descriptors, for the type DECODER_BUILD_IDS: then these are all */
	size_t n_files;
	const char *buffer, *regs; /* options of the same names; NULL if absent */
	const char *engine;        /* option "engine": "opencsd", "native", "auto"; NULL if absent */
	bool verify;               /* decode with both engines and compare them */
	bool inlines;              /* emit frames of inlined functions */
	bool tables;               /* the owner keeps symbol tables of other jobs */
	uint32_t workers;          /* decoding threads; 0: one per CPU */
	struct job_output outputs[DECODER_OUTPUTS_MAX];
	size_t n_outputs;
	bool info;            /* the only output describes the input: nothing is decoded */
	int64_t only_thread;  /* -1: all threads */
	uint64_t progress_at; /* time of the last progress message, CLOCK_MONOTONIC ns */
	struct reason reason; /* of a failure, for job_failed() */
};

/*
 * Waits for the start message. Returns -EBADMSG for an invalid one, with a text in ret->reason or an empty one, and
 * -EPIPE if the owner has gone; no descriptor is left open then. Otherwise they are the caller's.
 */
int job_receive(int socket, struct decode_job *ret);

/* A request for an image, or for its debug file. */
struct job_image_request {
	uint32_t index;       /* chosen by the caller; the reply repeats it */
	const char *path;     /* of the traced image */
	const char *build_id; /* hexadecimal; NULL: unknown */
	uint64_t inode;       /* 0: unknown */
	const char *debug;    /* NULL: the image; else its debug file: the name recorded in the image, or "" */
	uint64_t attempt;     /* counts from 0; above 0, the previous file was not the traced one */
};

/*
 * Requests an image from the owner and waits for the reply. *ret_fd is -1 if there is none, with the owner's reason in
 * ret_reason, which may be NULL.
 */
int job_image(struct decode_job *j, const struct job_image_request *image, int *ret_fd, struct reason *ret_reason);

/* Requests a file beneath the directory of the input; results as job_image(). */
int job_file(struct decode_job *j, const char *name, int *ret_fd, struct reason *ret_reason);

/*
 * Requests the table that job_keep() sent under the same key, in this or another job of the same user. *ret_fd is -1 if
 * there is none. Requires job->tables.
 */
int job_table(struct decode_job *j, const char *key, int *ret_fd);

/* Sends a table to the owner, who may pass it to other jobs of the same user. fd stays the caller's. */
int job_keep(struct decode_job *j, const char *key, int fd);

/* Reports progress in bytes, at most ten times a second, and always when done equals total. */
void job_progress(struct decode_job *j, uint64_t done, uint64_t total);

/*
 * Sends the result, which is borrowed. If it does not fit a message, truncates its lists "threads" and "images" and
 * records the number of omitted entries.
 */
int job_result(struct decode_job *j, json_object *result);

/* Sends the reason of a failure in place of a result. */
int job_failed(struct decode_job *j, const char *reason);

#endif
