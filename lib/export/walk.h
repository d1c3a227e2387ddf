/* SPDX-License-Identifier: MIT */
/*
 * What all writers share: selection of threads and time, and events in which frames that cross the limits are complete.
 */
#ifndef CSIGHT_EXPORT_WALK_H
#define CSIGHT_EXPORT_WALK_H

#include "lib/export/export.h"
#include "lib/store/trigger-call.h"

struct export_walk {
	const struct store *store;
	uint64_t since, until;
	uint64_t first, last; /* of what is exported: its trace may begin and end within these limits */
	int64_t tid;
	struct store_trigger trigger;
	bool has_call; /* the call that triggered the snapshot is known */
	struct store_found_call call;
};

/* cut: the frame continues beyond the exported interval, and the event is at its limit. */
struct walk_sink {
	int (*event)(void *user, const struct store_event *e, bool cut);
	void *user;
};

/* Resolves the options to threads and times, and sets the result's coverage. */
void walk_begin(struct export_walk *w, const struct store *s, const struct export_options *o,
		struct export_result *ret);
bool walk_wants(const struct export_walk *w, const struct store_thread *t);

/* Returns how the process ended if it did so in this thread and within the exported time; else NULL. */
const char *walk_ending(const struct export_walk *w, const struct store_thread *t);

enum { WALK_TRIGGER_SIZE = 1200 };

/* Returns true if the snapshot was triggered in this thread and within the exported time. Sets the time of the trigger,
 * ns, and a text with its condition and duration. */
bool walk_trigger(const struct export_walk *w, const struct store_thread *t, uint64_t *ret_time,
		  char ret_text[WALK_TRIGGER_SIZE]);

/*
 * Returns the notes of a thread in the exported part of its trace, one after another, with the position of the search
 * in *at, which begins as 0; NULL after the last.
 */
const struct store_note *walk_note(const struct export_walk *w, const struct store_thread *t, size_t *at);

/* Returns the first note of a thread, or of a later one. */
size_t walk_first_note(const struct store *s, uint32_t tid);

/*
 * Returns the samples of the counters of a thread, one after another as walk_note() does, up to the end of the exported
 * part of its trace; t NULL: those of no thread. *ret_inside: the sample is not from before that part.
 */
const struct store_note *walk_sample(const struct export_walk *w, const struct store_thread *t, size_t *at,
				     bool *ret_inside);

/* Names of counters, in the order in which they occurred. */
enum { WALK_COUNTERS_MAX = 256 };

struct walk_counters {
	const char *labels[WALK_COUNTERS_MAX];
	size_t n;
};

/* Returns the index of a counter's name, which is added; *ret_new: it was not there. WALK_COUNTERS_MAX: there are more.
 */
size_t walk_counter(struct walk_counters *c, const char *label, bool *ret_new);

/*
 * Perfetto keeps so many levels of calls, and ends a caller for each call that is deeper and ends. Writers leave these
 * out: walk_is_too_deep() is true for their events, and counts their begins in *hidden, which begins as 0 in each
 * thread. walk_left_out() returns, at the end of a call, how many within it were left out.
 */
enum { WALK_LEVELS_MAX = 512 };
#define WALK_LEFT_OUT "deeper calls left out"

static inline bool walk_is_too_deep(const struct store_event *e, uint64_t *hidden)
{
	bool deep = (e->type == STORE_ENTER || e->type == STORE_LEAVE) && e->depth >= WALK_LEVELS_MAX;

	*hidden += deep && e->type == STORE_ENTER;
	return deep;
}

static inline uint64_t walk_left_out(const struct store_event *e, uint64_t *hidden)
{
	uint64_t n = e->type == STORE_LEAVE && e->depth == WALK_LEVELS_MAX - 1 ? *hidden : 0;

	*hidden -= n;
	return n;
}

/*
 * Returns the number of a thread for viewers, in which 0 is not a thread of the process. Traces of CPUs, "cpu N", have
 * numbers that no thread has.
 */
uint32_t walk_track(const struct store_thread *t);

/* Returns the text of a note: its label, or that of a span without a known beginning, into ret. */
enum { WALK_NOTE_SIZE = 1200 };
const char *walk_note_text(const struct store_note *n, char ret[WALK_NOTE_SIZE]);

/* True if a frame of a thread is the call that triggered the snapshot. */
static inline bool walk_is_trigger(const struct export_walk *w, const struct store_thread *t,
				   const struct store_frame *f, uint32_t depth)
{
	return w->has_call && f->enter == w->call.frame.enter && f->function == w->call.frame.function &&
	       depth == w->call.depth && t->tid == w->trigger.tid;
}

/*
 * Passes the events of one thread in order: enters of frames open at `since`, the events of the interval, and leaves of
 * frames open at `until`. Each enter has its leave.
 */
int walk_thread(const struct export_walk *w, size_t thread, const struct walk_sink *sink);

#endif
