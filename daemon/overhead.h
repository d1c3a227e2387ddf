/* SPDX-License-Identifier: MIT */
/*
 * The overhead of recording: the processor time of the threads that freeze, copy and write rings, and read the kernel's
 * records, in parts per million of that of all processors, over the last seconds. If it exceeds the setting
 * overhead-max, the target that costs most is held, which pauses its recording, one a second; those that are held
 * continue one by one once there is room again. On the loop's thread.
 */
#ifndef CSIGHT_DAEMON_OVERHEAD_H
#define CSIGHT_DAEMON_OVERHEAD_H

#include <event2/event.h>

#include "daemon/pause.h"
#include "daemon/settings.h"
#include "lib/base/buf.h"

struct overhead;

struct overhead_options {
	struct event_base *base;
	const struct settings *settings;
	struct workqueue *capture_queue, *spool_queue, *record_queue;
	struct pause_options pausing;
	bool (*paused)(void *data); /* returns whether all recording is paused */
	/* Called when a target is no longer held. */
	void (*continued)(void *data, struct target *t);
	void *data;
};

int overhead_new(const struct overhead_options *options, struct overhead **ret);
struct overhead *overhead_free(struct overhead *o);

/* Begins to measure the overhead, when there are targets. o may be NULL. */
void overhead_begin(struct overhead *o);

/* Drops a target that is no longer recorded. o may be NULL. */
void overhead_forget(struct overhead *o, struct target *t);

/* Returns the overhead in parts per million; 0 while nothing is recorded. */
uint64_t overhead_share(const struct overhead *o);

/* Appends the names of the targets that are held, as text with a NUL; nothing if there are none. */
void overhead_trouble(const struct overhead *o, struct buf *ret);

#endif
