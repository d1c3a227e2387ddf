/* SPDX-License-Identifier: MIT */
/* Triggers. */
#include "config.h"

#include "lib/csight/csight-internal.h"
#include "lib/csight/trigger-calls.h"

static json_object *places_of(const struct csight_watch_options *o)
{
	json_object *list = o->n_places ? json_object_new_array() : NULL;

	for (size_t i = 0; i < o->n_places; i++) {
		json_object *place = json_object_new_object();

		json_add_hex(place, "address", o->places[i]);
		if (o->conditions && o->conditions[i])
			json_add_u64(place, "condition", o->conditions[i]);
		json_array_add(list, place);
	}
	return list;
}

int csight_watch_set(struct csight *c, pid_t pid, const char *trigger, const struct csight_watch_options *options,
		     struct csight_object **ret)
{
	struct csight_object *reply = NULL;
	struct csight_watch_options known;
	int rc = csight_options_read(&known, sizeof(known), options);

	csight_begin_call(c, "watch process %d", (int)pid);
	if (rc < 0)
		return csight_set_options_error(c, rc);
	rc = trigger_call_watch(
	    c, &(struct trigger_call){ .pid = pid, .trigger = trigger, .places = places_of(&known) }, &reply);
	if (rc == 0 && ret)
		*ret = csight_object_ref((struct csight_object *)csight_field(reply, "trigger"));
	csight_object_free(reply);
	return rc;
}

int csight_watch_list(struct csight *c, struct csight_object **ret)
{
	return trigger_call_list(c, ret);
}

int csight_watch_remove(struct csight *c, uint32_t id)
{
	return trigger_call_remove(c, id);
}

/* A call that waits for the first snapshot of its trigger. */
struct watch_wait {
	const struct csight_watch_options *options;
	struct csight_object *snapshot; /* owned; NULL: there is none yet */
};

static int on_event(void *userdata, const struct csight_object *reply)
{
	const struct csight_object *trigger = csight_field(reply, "trigger"),
				   *snapshot = csight_field(reply, "snapshot");
	struct watch_wait *w = userdata;

	if (snapshot) {
		w->snapshot = csight_object_ref((struct csight_object *)snapshot);
		return 1;
	}
	return trigger && w->options->watching ? w->options->watching(w->options->userdata, trigger) : 0;
}

int csight_watch_wait(struct csight *c, pid_t pid, const char *trigger, const struct csight_watch_options *options,
		      struct csight_object **ret)
{
	struct csight_object *reply = NULL;
	struct csight_watch_options known;
	struct watch_wait w = { .options = &known };
	int rc = csight_options_read(&known, sizeof(known), options);

	csight_begin_call(c, "watch process %d", (int)pid);
	if (rc < 0)
		return csight_set_options_error(c, rc);
	rc = trigger_call_watch(
	    c,
	    &(struct trigger_call){
		.pid = pid, .trigger = trigger, .places = places_of(&known), .event = on_event, .userdata = &w },
	    &reply);
	csight_object_free(reply);
	if (w.snapshot) {
		/* on_event() has cancelled the wait, for which an error is set. */
		c->error[0] = 0;
		*ret = w.snapshot;
		return 0;
	}
	return rc < 0 ? rc : csight_set_error(c, -ESRCH, "the process ended before a hit took a snapshot");
}
