/* What every writer needs: which threads, from when until when, and each one's events with cut frames made whole. */
#ifndef CSIGHT_EXPORT_WALK_H
#define CSIGHT_EXPORT_WALK_H

#include "lib/export/export.h"

enum { WALK_MARK_KINDS = 2 };

struct export_walk {
	const struct store *store;
	uint64_t since, until;
	int64_t tid;
};

/* cut: the frame reaches beyond what is exported, and this is where it does. */
struct walk_sink {
	int (*event)(void *user, const struct store_event *e, bool cut);
	void *user;
};

/* Settles what the options leave open, and fills in what the result says of it. */
void walk_begin(struct export_walk *w, const struct store *s, const struct export_options *o,
		struct export_result *ret);
bool walk_wants(const struct export_walk *w, const struct store_thread *t);

/*
 * Tells of one thread, in order: first the frames that are open at since, then what happens, last the leaving of those
 * that are open at until. Each enter has its leave.
 */
int walk_thread(const struct export_walk *w, size_t thread, const struct walk_sink *sink);

#endif
