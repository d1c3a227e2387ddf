/* SPDX-License-Identifier: MIT */
/*
 * Makes the address filters of a user safe for the kernel. The kernel would open the files of a filter by path, with
 * the rights and mounts of this daemon. Here a file must be mapped by the process, and the kernel receives a descriptor
 * of it.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_FILTER_H
#define CSIGHT_DAEMON_CAPTURE_FILTER_H

#include <stddef.h>
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

/* The text for PERF_EVENT_IOC_SET_FILTER; valid while f exists. */
const char *filter_text(const struct filter *f);

/* Sets the filter of an event, for which the kernel waits for the address space of the process. */
int filter_apply(const struct filter *f, int event);

#endif
