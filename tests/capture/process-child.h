/* SPDX-License-Identifier: MIT */
/*
 * A child process that executes the steps of a test and is captured as csightd captures a target. Shared by
 * tests/capture/unit-process.c and process-files.c.
 */
#ifndef CSIGHT_TESTS_PROCESS_CHILD_H
#define CSIGHT_TESTS_PROCESS_CHILD_H

#include "daemon/capture/process/code-log.h"
#include "daemon/capture/process/process.h"
#include "daemon/capture/process/proc-dir.h"
#include "lib/base/util.h"
#include "lib/code/image.h"
#include "tests/unit.h"

enum { PAGE = 4096 };

/* Directory for the files of the test. */
extern char work[];

/* The captured child. It executes one step for each byte that it reads, and replies with the time. */
struct child {
	pid_t pid;
	int pidfd, to, from, perf;
	struct perf_event_mmap_page *ring;
	struct process_code *process;
};

struct done {
	uint64_t addr, before, after;
};

typedef void step_fn(unsigned step, struct done *d);

/* Contents of a snapshot, read as the decoder reads them. */
struct captured {
	struct buf log, missing;
	struct capture_file *files;
	size_t n_files, n_named;
	struct code_log code;
	struct image_set *images;
	int blob;
	struct capture_jitdump jitdump;
	bool jitdump_broken;
};

uint64_t clock_now(void);

/* Returns false if the kernel provides no records here. data: see process_new(). */
bool child_new(struct child *c, step_fn *steps, bool data);
void child_done(struct child *c);
struct done child_act(struct child *c, unsigned step);

/* Adds the kernel's records; child_scan() then scans the process, as the capture thread does. */
void child_drain(struct child *c);
void child_scan(struct child *c);

/* before: an earlier snapshot, which has the files that were passed with it. */
struct captured *child_capture_more(struct child *c, struct captured *before);
struct captured *child_capture(struct child *c);
void captured_free(struct captured *t);

/* Returns the byte that fills the code at addr at this time; 0: unknown; -1: different bytes. */
int captured_byte(const struct captured *t, uint64_t addr, uint64_t time);
bool captured_misses(const struct captured *t, const char *word);

/* For the child, which exits if they fail. */
void *step_map(size_t size, int prot, int flags, int fd);
void step_protect(void *p, size_t size, int prot);
void make_file(const char *name, int fill);

/* Fills a page, always the same one, with the number of the step. */
void step_jit(unsigned step, struct done *d);

/* True if files can be opened after they were deleted, which needs capabilities. */
bool can_open_deleted(void);

/* process-files.c */
void test_plugins(void);
void test_another_there(void);
void test_first_ended(void);
void test_exec(void);
void test_exec_seen_early(void);
void test_brief(void);
void test_mounts(void);
void test_stalling(void);
void test_held(void);

#endif
