/* For tests of csightd: a daemon of the test's own, calls to it, and a program that registers as csight-etm.so would.
 */
#ifndef CSIGHT_TESTS_DAEMON_HELP_H
#define CSIGHT_TESTS_DAEMON_HELP_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "lib/base/json.h"
#include "lib/emu/ring.h"
#include "lib/varlink/varlink.h"

/* Sanitizers keep freed memory, so that what is resident says nothing. */
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

/* Starts $top_builddir/csightd in a directory of its own, with more options up to a NULL; ends the test if it cannot.
 */
void tested_start(struct tested *t, const char *const *options);
void tested_start_again(struct tested *t, const char *const *options);

/* Ends it by SIGTERM, as it should be; its exit status, or 128 + signal. */
int tested_end(struct tested *t);
void tested_clean(struct tested *t);

/* What it holds: numbers that must be as before after an attack. */
int tested_descriptors(const struct tested *t);
long tested_memory(const struct tested *t); /* resident KiB */

/* A call of org.csight.NAME with parameters as JSON text, or NULL; the last reply. Its error, or "" for none. */
const char *tested_call(const struct tested *t, const char *name, const char *parameters, struct varlink_reply *ret);

/* The same where only the error matters. */
const char *tested_error(const struct tested *t, const char *name, const char *parameters);

int tested_connect(const char *path, int type);

enum { FAKE_RINGS = 4, FAKE_RING_SIZE = EMU_RING_SIZE_MIN, FAKE_LOG_SIZE = 64 << 10 };

/*
 * A program with rings. Its threads write the numbers 0, 1, 2… as 64-bit words, so that whoever reads a copy sees
 * whether bytes are missing, twice there, or out of order.
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

/* Seals, connects and says hello; the daemon's answer. */
int fake_hello(struct fake *f, const struct tested *t);
int fake_hello_sealed(struct fake *f, const struct tested *t, int seals);

/* Threads that write and obey, or do not obey. */
void fake_run(struct fake *f, unsigned n_threads, bool obey);
void fake_done(struct fake *f);

#endif
