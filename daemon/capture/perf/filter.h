/*
 * Address filters of a target, as its user wrote them, made safe to hand to the kernel: the kernel would look their
 * files up by path, with this daemon's rights and in its mounts. Here a file is one that the process has mapped, and
 * the kernel is given a descriptor of it.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_FILTER_H
#define CSIGHT_DAEMON_CAPTURE_FILTER_H

#include <stddef.h>
#include <sys/types.h>

#include "lib/base/reason.h"

enum { FILTER_PARTS_MAX = 8 };

struct filter;

/*
 * text: parts with commas or blanks between them, of "filter START/SIZE[@FILE]", "start ADDRESS[@FILE]", "stop
 * ADDRESS[@FILE]"; numbers as C has them. -EINVAL: anything else; -ENOENT: the process has no such file mapped; -ESRCH,
 * -EACCES. why: in words.
 */
int filter_new(pid_t pid, const char *text, struct filter **ret, struct reason *why);
struct filter *filter_free(struct filter *f);

/* For PERF_EVENT_IOC_SET_FILTER, as long as f lives. */
const char *filter_text(const struct filter *f);

#endif
