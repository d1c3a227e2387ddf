/* SPDX-License-Identifier: MIT */
/* The files of one decode in the directory of its snapshot: its input, and its outputs. On the spool thread. */
#ifndef CSIGHT_DAEMON_JOB_FILES_H
#define CSIGHT_DAEMON_JOB_FILES_H

#include <stdint.h>

#include "lib/base/json.h"

enum { JOB_OUTPUTS = 2 };

/* The formats of the outputs. */
extern const char *const job_files_types[JOB_OUTPUTS];

/* Descriptors are -1 where there is none. */
struct job_files {
	int dir, input, code, jitdump, outputs[JOB_OUTPUTS];
	int description;   /* of a snapshot with many threads: as decoder_write_description() writes it */
	json_object *info; /* snapshot.json; its threads are only in the description, if there is one */
};

void job_files_init(struct job_files *f);
void job_files_done(struct job_files *f);

/* Opens the files of a snapshot; its outputs are made anew. */
int job_files_open(struct job_files *f, int spool_fd, const char *id);

/* Closes what only the start of the child needs. */
void job_files_close_input(struct job_files *f);

/* Makes the outputs durable, or deletes them. */
int job_files_keep(struct job_files *f);
void job_files_drop(struct job_files *f);

/* Deletes the outputs in the directory of a snapshot, as parts of them are left if csightd was killed. */
void job_files_remove(int dir);

/* Returns the bytes of all files of the directory, or 0 if it is not open. */
uint64_t job_files_size(const struct job_files *f);

/* Returns the bytes that the outputs occupy now. On any thread. */
uint64_t job_files_written(const struct job_files *f, uint64_t *ret_largest);

#endif
