/* SPDX-License-Identifier: MIT */
#include <sys/wait.h>

#include "daemon/decode/output-ending.h"

void output_ending_begin(struct output_ending *e, const struct decode_job *job)
{
	json_object *about;
	uint64_t pid;

	if (!job->snapshot || json_get(job->snapshot, "ended", json_type_object, &about) < 0 ||
	    json_get_u64(job->snapshot, "pid", &pid) < 0)
		return;
	e->pid = (uint32_t)pid;
	/* snapshot.json is not trusted: only what is valid of it is used. */
	if (ending_parse(about, &e->how) == 0) {
		e->about = ending_json(&e->how);
	} else {
		e->about = json_object_new_object();
		json_add_str(e->about, "text", "ended");
	}
}

void output_ending_done(struct output_ending *e)
{
	json_object_put(e->about);
}

/* IHI0064, "Exception packet": trap, debug, alignment, instruction and data faults. */
bool output_ending_is_fault(const struct element *e)
{
	return e->kind == ELEM_EXCEPTION &&
	       (e->exception.number == 3 || e->exception.number == 6 || e->exception.number == 7 ||
		(e->exception.number >= 10 && e->exception.number <= 12));
}

void output_ending_thread(struct output_ending *e, const struct stream *s, struct region_map *regions,
			  const struct calls *calls, bool faulted)
{
	enum place_certainty certainty = faulted ? PLACE_FAULT : PLACE_ONLY_THREAD;
	struct place place;

	e->n_streams++;
	if (!e->about || s->cpu != UINT32_MAX || s->pid != e->pid)
		return;
	if (e->how.tid)
		certainty = e->how.tid == s->tid ? PLACE_THREAD : PLACE_NONE;
	if (certainty <= e->certainty || !place_find(regions, calls, UINT64_MAX, &place))
		return;
	e->certainty = certainty;
	e->place = place;
	e->tid = s->tid;
}

/* Returns true if the place is to be reported. That of an exit with status 0 is not. */
static bool reports_place(const struct output_ending *e)
{
	bool died = e->how.known && !WIFEXITED(e->how.status);

	if (e->how.known && e->how.status == 0)
		return false;
	return e->certainty == PLACE_THREAD || (e->certainty == PLACE_FAULT && (died || !e->how.known)) ||
	       (e->certainty != PLACE_NONE && e->how.known && e->n_streams == 1);
}

void output_ending_finish(struct output_ending *e, struct store_writer *w)
{
	const char *text;
	uint32_t tid = e->how.tid;

	if (!e->about)
		return;
	if (reports_place(e)) {
		/* Without the status, a fault at the end still shows that the process did not exit. */
		if (!e->how.known)
			json_add_str(e->about, "text", "ended at a fault");
		place_add(&e->place, e->about);
		tid = e->tid;
		json_add_u64(e->about, "tid", tid);
	}
	if (json_get_str(e->about, "text", &text) == 0)
		store_set_ending(w, text, tid);
}
