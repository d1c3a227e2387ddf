/* A process that does what a test says, step by step, with csightd's eyes on it: between tests/capture/unit-process.c
 * and its files. */
#ifndef CSIGHT_TESTS_PROCESS_CHILD_H
#define CSIGHT_TESTS_PROCESS_CHILD_H

#include "daemon/capture/process/code-log.h"
#include "daemon/capture/process/process.h"
#include "daemon/capture/process/proc-dir.h"
#include "lib/base/util.h"
#include "lib/code/image.h"
#include "tests/unit.h"

enum { PAGE = 4096 };

/* Where files are made. */
extern char work[];

/* The traced child: does a step for each byte that comes, and says when it was done with it. */
struct child {
	pid_t pid;
	int pidfd, to, from, perf;
	struct perf_event_mmap_page *ring;
	struct process *process;
};

struct done {
	uint64_t addr, before, after;
};

typedef void step_fn(unsigned step, struct done *d);

/* What a snapshot would hold, read as the decoder reads it. */
struct told {
	struct buf log, missing;
	struct capture_file *files;
	size_t n_files, n_named;
	struct code_log code;
	struct image_set *images;
	int blob;
};

uint64_t clock_now(void);

/* false: the kernel gives no records here. data: as process_new() has it. */
bool child_new(struct child *c, step_fn *steps, bool data);
void child_done(struct child *c);
struct done child_act(struct child *c, unsigned step);

/* The kernel's records; and as the capture thread does after each round of them. */
void child_drain(struct child *c);
void child_look(struct child *c);

/* Files that were handed over before stay with the target. */
struct told *child_tell_more(struct child *c, struct told *before);
struct told *child_tell(struct child *c);
void told_done(struct told *t);

/* Build-ids that were read, and those that the decoder's reader has otherwise. */
extern unsigned n_ids, n_other_ids;

/* The byte of a filling that is at addr as of time; 0: nothing is known; -1: something else. */
int told_at(const struct told *t, uint64_t addr, uint64_t time);
bool told_misses(const struct told *t, const char *word);

/* In the child; where they fail it ends. */
void *step_map(size_t size, int prot, int flags, int fd);
void step_protect(void *p, size_t size, int prot);
void make_file(const char *name, int fill);

/* Fills a page, always the same one, with the step. */
void step_jit(unsigned step, struct done *d);

/* Without capabilities files are opened by their names. */
bool reaches_deleted(void);

/* process-files.c */
void test_plugins(void);
void test_another_there(void);
void test_first_ended(void);
void test_exec(void);
void test_exec_seen_early(void);
void test_brief(void);
void test_mounts(void);
void test_stalling(void);

#endif
