/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "daemon/capture/perf/run-watch.h"

void run_watch_start(struct run_watch *w)
{
	w->on = w->starts_anew = true;
	w->traced = true;
}

/*
 * The kernel writes the AUX record of a thread after its switch out. Where a thread is running, the sink began its
 * buffer again, unless the caller knows better. Between threads of a process tracing may go on: the kernel then passes
 * the events of one to the other, and neither stops nor starts them.
 */
void run_watch_slice(struct run_watch *w, bool ends)
{
	w->on = w->on && w->running && !ends;
	w->starts_anew = false;
}

void run_watch_forget(struct run_watch *w)
{
	*w = (struct run_watch){ .on = true };
}

enum run_watch_switch run_watch_switch(struct run_watch *w, uint32_t tid, bool out, uint64_t time)
{
	bool untraced;

	if (out ? w->left == tid : w->running == tid)
		return RUN_REPEATED;
	if (!out) {
		/* A previous thread that had no switch out has ended, and its AUX record has ended tracing. */
		w->on = w->on && (!w->running || w->starts_anew);
		w->traced = w->on;
		w->running = tid;
		w->since = time;
		w->left = 0;
		return RUN_KNOWN;
	}
	untraced = w->running == tid && !w->traced;
	w->running = 0;
	w->left = tid;
	return untraced ? RUN_UNTRACED : RUN_KNOWN;
}
