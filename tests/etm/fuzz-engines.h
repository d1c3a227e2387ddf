/* Between the files of tests/etm/fuzz-engines. */
#ifndef CSIGHT_TESTS_FUZZ_ENGINES_H
#define CSIGHT_TESTS_FUZZ_ENGINES_H

#include <stdio.h>

#include "tests/etm/generate.h"
#include "tests/etm/trace.h"

enum { BYTES_MAX = 1 << 16 };

/* What an engine is given, in memory that all processes share. */
struct job {
	struct engine_config config;
	uint32_t input; /* whose code it is, or that of a made-up trace: */
	uint64_t seed;
	uint32_t made_size, without;
	bool against_truth;
	uint32_t chunks; /* seed of the sizes it is pushed in; 0: at once */
	size_t size;
	uint8_t bytes[BYTES_MAX];
};

/* fuzz-jobs.c */
/* What trace_load() takes; the path stays. -EINVAL. */
int job_add_input(const char *path);
void job_drop_inputs(void);

/* The same seed, with the same inputs, makes the same. */
void job_make(struct job *job, uint64_t seed);
void job_write(const struct job *job, FILE *f);
int job_read(struct job *job, const char *path);

/* Its code; of a made-up trace there is more. */
struct job_memory {
	struct engine_memory memory;
	struct generated made;
};
void job_memory(const struct job *job, struct job_memory *ret);
void job_memory_done(struct job_memory *m);

/* The first lines that differ; "" where a side has ended. */
struct difference {
	bool there;
	uint32_t from, to; /* offsets of the two */
	char theirs[256], ours[256], before[256];
	char then[256]; /* where ours stops: the next line of losing synchronisation, or of the end */
};

/* fuzz-mistakes.c */
int mistakes_read(const char *path);

/* The name of the mistake that it is, which is counted; or NULL. */
const char *mistakes_explain(const struct job *job, const struct difference *d);
void mistakes_print(void);

/*
 * The packets by name, from the last synchronisation before one offset up to the first behind another, and more behind
 * some:
 *   sync-info           the first trace info; what it says to be unseen is told again behind later synchronisations, up
 *                       to the
 *                       first behind a bad packet
 *   early-              instrumentation ahead of it
 *   cut-                the last one is cut off
 *   cancelled-source    a source address was taken back, which may come one synchronisation later
 *   passed-addresses    a branch in front of several addresses had been mispredicted; both are told again behind
 *                       synchronisations, up to a bad packet
 *   hidden-sync         behind a synchronisation that looks like part of another packet from a bad one on
 */
const char *mistakes_story(const struct job *job, uint32_t from, uint32_t to);

#endif
