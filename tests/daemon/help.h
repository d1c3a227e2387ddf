/* SPDX-License-Identifier: MIT */
/* For tests of csightd: a daemon for the test, calls to it, and a program that registers as csight-etm.so does. */
#ifndef CSIGHT_TESTS_DAEMON_HELP_H
#define CSIGHT_TESTS_DAEMON_HELP_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "lib/base/json.h"
#include "lib/emu/ring.h"
#include "lib/varlink/varlink.h"

/* Sanitizers keep freed memory, so that a check of resident memory is meaningless. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TESTED_SANITIZED 1
#elif defined(__has_feature)
#define TESTED_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define TESTED_SANITIZED 0
#endif

struct tested {
	pid_t pid;
	char dir[64], socket[96], spool[96], log[96];
};

/* Starts $top_builddir/csightd in a new directory; options end in NULL. A failure ends the test. */
void tested_start(struct tested *t, const char *const *options);
void tested_start_again(struct tested *t, const char *const *options);

/* Ends the daemon with SIGTERM. Returns its exit status, or 128 + the signal that ended it. */
int tested_end(struct tested *t);
void tested_clean(struct tested *t);

/* Resources of the daemon, which an attack must not increase: open descriptors, and resident memory in KiB. */
int tested_descriptors(const struct tested *t);
long tested_memory(const struct tested *t);

/*
 * Calls org.csight.NAME with parameters as JSON text, or NULL. Returns the error of the last reply, which is *ret, or
 * "" if it is none.
 */
const char *tested_call(const struct tested *t, const char *name, const char *parameters, struct varlink_reply *ret);

/* The same without the reply. */
const char *tested_error(const struct tested *t, const char *name, const char *parameters);

int tested_connect(const char *path, int type);

enum { FAKE_RINGS = 4, FAKE_RING_SIZE = EMU_RING_SIZE_MIN, FAKE_LOG_SIZE = 64 << 10 };

/*
 * A program with rings. Its threads write the numbers 0, 1, 2… as 64-bit words, so that a copy shows whether bytes are
 * missing, duplicated or out of order.
 */
struct fake {
	int memfd, socket;
	uint8_t *map;
	size_t size;
	struct emu_header *header;
	pthread_t threads[FAKE_RINGS];
	unsigned n_threads;
	_Atomic bool stop;
};

void fake_make(struct fake *f);
struct emu_slot *fake_slot(const struct fake *f, unsigned n);

/* Seals the memory, connects and registers. Returns the value of the daemon's answer. */
int fake_hello(struct fake *f, const struct tested *t);
int fake_hello_sealed(struct fake *f, const struct tested *t, int seals);

/* Starts threads that write. obey: they stop while the daemon freezes the rings. */
void fake_run(struct fake *f, unsigned n_threads, bool obey);
void fake_done(struct fake *f);

#endif
