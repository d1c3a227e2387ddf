/* SPDX-License-Identifier: MIT */
/*
 * The recordings of csight selftest, in a directory of files for each of them, all below one root, which can be copied:
 * ROOT/NAME/truth, out (what the program and csight run printed), bundle, error, elements and recording.json. This
 * csight makes them, as a child process. Functions return negative errno with a reason.
 */
#ifndef CSIGHT_CLIENT_SELFTEST_RECORDING_H
#define CSIGHT_CLIENT_SELFTEST_RECORDING_H

#include <limits.h>

#include "client/selftest-log.h"
#include "lib/base/reason.h"

struct selftest_recording {
	const char *root, *name;
	const char *socket; /* of csightd; NULL: the default, or under the emulator none: it is compared again */
	const char *option; /* of csight run, or NULL */
	bool emulated;
	/* Set by selftest_recording_compare(). */
	uint64_t bytes, blind, elapsed; /* of trace; ns without tracing; ns of the whole run */
	struct selftest_result found;
};

/* Finds csight-known. */
int selftest_recording_program(char *ret, size_t size, struct reason *r);

int selftest_recording_make(const struct selftest_recording *rec, const char *program, struct reason *r);

/*
 * Decodes the recording and compares it with its truth: steps, or the emulator's log. The texts of an error are not
 * escaped. -EPERM: the user may not decode it.
 */
int selftest_recording_compare(struct selftest_recording *rec, const struct selftest_log *steps, struct reason *r);

/* Removes a directory, the argument, with all that is in it. Async-signal-safe, without other threads. */
void selftest_recording_remove(void *root);

#endif
