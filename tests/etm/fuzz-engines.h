/* SPDX-License-Identifier: MIT */
/* Internal to tests/etm/fuzz-engines. */
#ifndef CSIGHT_TESTS_FUZZ_ENGINES_H
#define CSIGHT_TESTS_FUZZ_ENGINES_H

#include <stdio.h>

#include "tests/etm/generate.h"
#include "tests/etm/trace.h"

enum { BYTES_MAX = 1 << 16 };

/* The input of both engines, in memory that all processes share. */
struct job {
	struct engine_config config;
	uint32_t input; /* index of the input that the code is from, or NO_INPUT for a synthetic trace */
	uint64_t seed;
	uint32_t made_size, without;
	bool against_truth;
	uint32_t chunks; /* seed of the sizes of the pushes; 0: one push */
	size_t size;
	uint8_t bytes[BYTES_MAX];
};

/* fuzz-jobs.c */
/* Adds an input that trace_load() accepts; path must stay valid. -EINVAL: it cannot be loaded. */
int job_add_input(const char *path);
void job_drop_inputs(void);

/* Makes a job; the same seed and inputs give the same job. */
void job_make(struct job *job, uint64_t seed);
void job_write(const struct job *job, FILE *f);
int job_read(struct job *job, const char *path);

/* The code of a job. */
struct job_memory {
	struct engine_memory memory;
	struct generated made;
};
void job_memory(const struct job *job, struct job_memory *ret);
void job_memory_done(struct job_memory *m);

/* The first lines that differ; "" where one side ended. */
struct difference {
	bool there;
	uint32_t from, to; /* the offsets of both lines, in ascending order */
	char theirs[256], ours[256], before[256];
	char then[256]; /* our next line about lost synchronisation, or about the end */
};

/* fuzz-mistakes.c */
int mistakes_read(const char *path);

/* Returns the name of the known mistake that explains a difference, and counts it; or NULL. */
const char *mistakes_explain(const struct job *job, const struct difference *d);
void mistakes_print(void);

/*
 * Describes the packets by name, from the last sync point before the offset from up to the first packet behind to, with
 * additions to some names:
 *   sync-info           the first trace info; IDs that it marks as unseen are repeated behind later sync points, up to
 *                       the first bad packet
 *   early-              instrumentation ahead of the trace info
 *   cut-                the last packet is truncated
 *   cancelled-source    a source address was cancelled; it may appear one sync point later
 *   passed-addresses    a mispredicted branch in front of several addresses; both are repeated behind sync points, up
 * to a bad packet hidden-sync         a sync point that reads as part of another packet, for a decoder that continues
 * behind a bad one
 */
const char *mistakes_story(const struct job *job, uint32_t from, uint32_t to);

#endif
