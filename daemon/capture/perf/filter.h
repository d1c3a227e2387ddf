/* SPDX-License-Identifier: MIT */
/*
 * Makes the address filters of a user safe for the kernel. The kernel would open the files of a filter by path, with
 * the rights and mounts of this daemon. Here a file must be mapped by the process, and the kernel receives a descriptor
 * of it.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_FILTER_H
#define CSIGHT_DAEMON_CAPTURE_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/capture/process/process.h"
#include "lib/base/reason.h"

enum { FILTER_PARTS_MAX = 8 };

struct filter;

/*
 * text: parts separated by commas or newlines, each of the form "filter START/SIZE[@FILE]", "start ADDRESS[@FILE]" or
 * "stop ADDRESS[@FILE]", with numbers in C notation. -EINVAL: another form; -ENOENT: the process has no such file
 * mapped; -EAGAIN: its mappings cannot be read now; -ESRCH, -EACCES. Sets why on failure.
 */
int filter_new(const struct process_of *of, const char *text, struct filter **ret, struct reason *why);
struct filter *filter_free(struct filter *f);

/* Returns the number of parts if all begin with start or stop, so that filter_points() has them; else 0. */
size_t filter_count_points(const char *text);

/* An address in the process at which tracing starts or stops. */
struct filter_point {
	bool starts;
	uint64_t address;
};

/* Points ret to the parts, as addresses, and returns their number; 0: some are ranges. */
size_t filter_points(const struct filter *f, const struct filter_point **ret);

/* The text for PERF_EVENT_IOC_SET_FILTER; valid while f exists. */
const char *filter_text(const struct filter *f);

/* Sets the filter of an event, for which the kernel waits for the address space of the process. */
int filter_apply(const struct filter *f, int event);

#endif
