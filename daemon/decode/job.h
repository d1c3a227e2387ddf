/* The child's end of a job: lib/decoder/decoder.h has the messages. What comes from the owner is hostile too. */
#ifndef CSIGHT_DECODE_JOB_H
#define CSIGHT_DECODE_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/json.h"
#include "lib/decoder/decoder.h"

enum { JOB_REASON_MAX = 512 };

struct decode_output_fd {
	const char *format; /* within the start message */
	int fd;
};

struct decode_job {
	int socket;
	json_object *start;              /* the message */
	json_object *options, *snapshot; /* within it, or NULL */
	unsigned cage;                   /* what holds this process: see cage.h */
	const char *type;                /* of the input, within the start message */
	int input, code;                 /* descriptors; code -1: none */
	const char *buffer, *regs;       /* of the options: NULL where absent */
	const char *engine;              /* likewise: "opencsd", "native", "auto" */
	bool verify;                     /* by both, which are compared */
	bool inlines;                    /* are frames */
	bool tables;                     /* of other jobs are to be had */
	uint32_t workers;                /* threads that decode; 0: as many as there are CPUs */
	struct decode_output_fd outputs[DECODER_OUTPUTS_MAX];
	size_t n_outputs;
	bool info;                   /* the one output is of what the input is */
	int64_t only_thread;         /* -1: all */
	uint64_t told_at;            /* when progress was last told */
	char reason[JOB_REASON_MAX]; /* why it failed */
};

/* Waits for the start message. -EBADMSG, -EPIPE. Descriptors last as long as the process. */
int job_receive(int socket, struct decode_job *ret);

/*
 * Asks the owner for an image, or its debug file: the name that it has by the image, or ""; NULL for the image itself.
 * *ret_fd is -1 where there is none, with a reason in ret_reason.
 */
int job_image(struct decode_job *j, uint32_t index, const char *path, const char *build_id, uint64_t inode,
	      const char *debug, uint64_t attempt, int *ret_fd, char *ret_reason, size_t reason_size);

/* Asks the owner for a file beneath the input's directory; as job_image(). */
int job_file(struct decode_job *j, const char *name, int *ret_fd, char *ret_reason, size_t reason_size);

/*
 * Asks the owner for what job_keep() gave it under the same key, in this job or another of the same user. *ret_fd is -1
 * where there is none. Only where there are tables.
 */
int job_table(struct decode_job *j, const char *key, int *ret_fd);
int job_keep(struct decode_job *j, const char *key, int fd);

/* Tells how far it is, at most some times a second. */
void job_progress(struct decode_job *j, uint64_t done, uint64_t total);

/* result is borrowed. Where it is too long for a message, the lists that it names in "threads" and "images" are cut. */
int job_result(struct decode_job *j, json_object *result);
int job_failed(struct decode_job *j, const char *reason);

/* Keeps a reason for job_failed(), and returns error. */
int job_why(struct decode_job *j, int error, const char *fmt, ...) _printf_(3, 4);

#endif
