/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "daemon/policy.h"
#include "daemon/trigger/trigger-private.h"
#include "daemon/trigger/trigger-state.h"
#include "lib/base/escape.h"
#include "lib/base/log.h"

/* Of a trigger without its texts, of a place or slot, and of a snapshot that it keeps. */
enum { STATE_BYTES = 2048, PLACE_BYTES = 256, KEPT_BYTES = 96 };

/* Formats a count of each condition. */
static json_object *write_conditions(const struct trigger *t, const uint64_t *counts)
{
	json_object *list = json_object_new_array();

	for (unsigned i = 0; i < trigger_spec_count(&t->spec); i++)
		json_array_add(list, json_object_new_int64((int64_t)counts[i]));
	return list;
}

/* The next daemon takes no snapshots that this one has not saved: their hits have failed then. */
static json_object *write_counts(const struct trigger *t, uint64_t unsaved)
{
	json_object *o = json_object_new_object();
	uint64_t outcomes[TRIGGER_OUTCOMES];

	memcpy(outcomes, t->outcomes, sizeof(outcomes));
	outcomes[TRIGGER_TAKEN] -= unsaved;
	outcomes[TRIGGER_FAILED] += unsaved;

	json_add_u64(o, "hits", t->hits);
	json_add(o, "conditions", write_conditions(t, t->condition_hits));
	if (t->spec.all)
		json_add(o, "completed", write_conditions(t, t->completed));
	json_add_u64(o, "measured", t->measured);
	json_add_u64(o, "unknown", t->unknown);
	json_add_u64(o, "longest", t->longest);
	for (enum trigger_outcome i = 0; i < TRIGGER_OUTCOMES; i++)
		json_add_u64(o, trigger_outcome_str(i), outcomes[i]);
	return o;
}

/* Formats the source's counts of each slot at the last trigger_count(), which t->hits contains. */
static json_object *write_slots(const struct trigger *t)
{
	json_object *list = json_object_new_array();

	for (size_t i = 0; i < t->n_slots; i++) {
		json_object *o = json_object_new_object();

		json_add_i64(o, "slot", t->slots[i]);
		json_add_u64(o, "hits", atomic_load(&t->since[i].hits));
		json_add_u64(o, "measured", atomic_load(&t->since[i].measured));
		json_add_u64(o, "unknown", atomic_load(&t->since[i].unknown));
		json_array_add(list, o);
	}
	return list;
}

static json_object *write_kept(const struct trigger *t)
{
	json_object *list = json_object_new_array();

	for (size_t i = 0; i < t->n_kept; i++) {
		json_object *o = json_object_new_object();

		json_add_str(o, "id", t->kept[i].id);
		json_add_u64(o, "value", t->kept[i].value);
		json_array_add(list, o);
	}
	return list;
}

static json_object *write_trigger(struct trigger *t)
{
	_cleanup_buf_ struct buf text = { 0 };
	json_object *o = json_object_new_object();
	uint64_t taken_ns, unsaved = trigger_unsaved(t, &taken_ns);

	trigger_count(t);
	buf_printf(&text, "%s%s%s", t->condition, *t->rules ? " " : "", t->rules);
	buf_u8(&text, 0);
	json_add_i64(o, "id", t->number);
	json_add_i64(o, "uid", t->by.uid);
	if (t->by.login_uid != (uid_t)-1)
		json_add_i64(o, "loginUid", t->by.login_uid);
	json_add(o, "trigger", buf_error(&text) < 0 ? NULL : json_object_new_string((const char *)text.data));
	json_add(o, "places", trigger_wire_places_of(t));
	json_add_bool(o, "enabled", t->enabled);
	json_add_u64(o, "lastTaken", taken_ns);
	json_add(o, "counts", write_counts(t, unsaved));
	json_add(o, "slots", write_slots(t));
	json_add(o, "kept", write_kept(t));
	return o;
}

static bool is_stored(const struct trigger *t)
{
	return !t->attached && !t->section && !t->ended && t->watched;
}

/* Returns the most bytes of it in the state. */
static uint64_t state_size(const struct trigger *t)
{
	return STATE_BYTES + PLACE_BYTES * (t->n_places + t->n_slots) + KEPT_BYTES * t->n_kept +
	       state_shares_text(t->condition) + state_shares_text(t->rules);
}

void trigger_state_measure(const struct trigger_list *all, struct state_shares *shares)
{
	const struct trigger *t;

	TAILQ_FOREACH (t, &all->triggers, link)
		if (is_stored(t))
			state_shares_want(shares, t->by.uid, state_size(t));
}

bool trigger_state_write(struct trigger_list *all, const struct target *target, struct state_shares *shares,
			 json_object **ret)
{
	bool any = false;
	struct trigger *t;

	TAILQ_FOREACH (t, &all->triggers, link) {
		if (!is_stored(t) || t->watched->target != target ||
		    !state_shares_take(shares, t->by.uid, state_size(t)))
			continue;
		if (!any)
			*ret = json_object_new_array();
		any = true;
		json_array_add(*ret, write_trigger(t));
	}
	return any;
}

/* Returns 0 for a number that is not valid. Half of all numbers remain for new triggers. */
static uint32_t number_of(json_object *o)
{
	int64_t number = 0;

	json_get_within(o, "id", 1, INT32_MAX, &number);
	return (uint32_t)number;
}

void trigger_state_reserve(struct trigger_list *all, json_object *list)
{
	for (size_t i = 0; i < json_array_size(list); i++)
		all->last_number = MAX(all->last_number, number_of(json_object_array_get_idx(list, i)));
}

/* Parses a count of each condition, as far as the list has them. */
static void read_conditions(const struct trigger *t, json_object *o, const char *name, uint64_t *ret)
{
	json_object *list = NULL;

	json_get(o, name, json_type_array, &list);
	for (unsigned i = 0; i < trigger_spec_count(&t->spec) && i < json_array_size(list); i++)
		ret[i] = (uint64_t)MAX(json_object_get_int64(json_object_array_get_idx(list, i)), 0);
}

static void read_counts(struct trigger *t, json_object *o)
{
	json_get_u64(o, "hits", &t->hits);
	read_conditions(t, o, "conditions", t->condition_hits);
	read_conditions(t, o, "completed", t->completed);
	json_get_u64(o, "measured", &t->measured);
	json_get_u64(o, "unknown", &t->unknown);
	json_get_u64(o, "longest", &t->longest);
	for (enum trigger_outcome i = 0; i < TRIGGER_OUTCOMES; i++)
		json_get_u64(o, trigger_outcome_str(i), &t->outcomes[i]);
}

/* Adds what the source has counted while no daemon ran: its counts outlast its list. Entry i is of t->slots[i]. */
static void read_slots(struct trigger *t, json_object *list)
{
	struct capture_source *source = t->watched->target->ring.source;
	struct emu_watch_count counts[EMU_WATCHES_MAX];

	if (!source->ops->watching || source->ops->watching->counts(source, counts) < 0)
		return;
	for (size_t i = 0; i < json_array_size(list); i++) {
		json_object *o = json_object_array_get_idx(list, i);
		uint64_t slot, hits, measured, unknown;

		if (json_get_u64(o, "slot", &slot) < 0 || slot >= EMU_WATCHES_MAX ||
		    json_get_u64(o, "hits", &hits) < 0 || json_get_u64(o, "measured", &measured) < 0 ||
		    json_get_u64(o, "unknown", &unknown) < 0 || hits > atomic_load(&counts[slot].hits) ||
		    measured > atomic_load(&counts[slot].measured) || unknown > atomic_load(&counts[slot].unknown))
			continue;
		trigger_places_add_hits(t, i, atomic_load(&counts[slot].hits) - hits);
		t->measured += atomic_load(&counts[slot].measured) - measured;
		t->unknown += atomic_load(&counts[slot].unknown) - unknown;
	}
}

static void read_kept(struct trigger *t, json_object *list)
{
	for (size_t i = 0; i < json_array_size(list) && t->n_kept < t->spec.keep; i++) {
		json_object *o = json_object_array_get_idx(list, i);
		struct kept_snapshot *k = &t->kept[t->n_kept];
		const char *id;

		if (json_get_str(o, "id", &id) < 0 || !spool_find(t->all->o.spool, id) ||
		    json_get_u64(o, "value", &k->value) < 0)
			continue;
		snprintf(k->id, sizeof(k->id), "%s", id);
		t->n_kept++;
	}
}

/* Parses a trigger of trigger_state_write(). Returns false if it is invalid. */
static bool read_request(json_object *o, struct trigger_request *ret, struct audit_actor *ret_by)
{
	struct reason why = { "" };
	int64_t uid, login = -1;
	json_object *places;
	const char *text;
	int n;

	if (!json_object_is_type(o, json_type_object) || !number_of(o) ||
	    json_get_within(o, "uid", 0, UINT32_MAX - 1, &uid) < 0 ||
	    json_get_within(o, "loginUid", 0, UINT32_MAX - 1, &login) == -EINVAL ||
	    json_get_str(o, "trigger", &text) < 0 || json_get(o, "places", json_type_array, &places) < 0)
		return false;
	n = trigger_wire_places(places, ret->places);
	if (n < 0 || trigger_spec_parse(text, &ret->spec, &why) < 0)
		return false;
	ret->n_places = (size_t)n;
	ret_by->uid = (uid_t)uid;
	ret_by->login_uid = (uid_t)login;
	return true;
}

struct trigger_reading {
	struct trigger_list *all;
	const struct settings *settings;
	struct audit *audit;
	struct target *target;
};

static int read_trigger(const struct trigger_reading *r, json_object *o, struct reason *why)
{
	struct trigger_list *all = r->all;
	struct audit_actor by = { .audit = r->audit };
	struct trigger_request request = { .target = r->target, .by = &by, .restored = true };
	struct ledger_refusal limit = { 0 };
	uint32_t number = all->last_number;
	json_object *part;
	bool enabled = true;
	struct trigger *t;
	int rc;

	if (!read_request(o, &request, &by))
		return reason_set(why, -EBADMSG, "it is not valid");
	if (!policy_owns(by.uid, r->target->owner) ||
	    !settings_permit_account(r->settings, ledger_owner(all->o.ledger, by.uid)))
		return reason_set(why, -EACCES, "user %u may not act on this process", by.uid);
	all->last_number = number_of(o) - 1;
	rc = trigger_find(all, number_of(o)) ? reason_set(why, -EEXIST, "its number is in use")
					     : trigger_add(all, &request, &t, why, &limit);
	all->last_number = number;
	if (rc == -EDQUOT)
		ledger_explain(&limit, why);
	if (rc < 0)
		return rc;
	json_get_u64(o, "lastTaken", &t->taken_ns);
	if (json_get(o, "counts", json_type_object, &part) == 0)
		read_counts(t, part);
	if (json_get(o, "slots", json_type_array, &part) == 0)
		read_slots(t, part);
	if (json_get(o, "kept", json_type_array, &part) == 0)
		read_kept(t, part);
	if (json_get_bool(o, "enabled", &enabled) == 0 && !enabled)
		trigger_enable(t, false, why);
	/* An earlier daemon may have taken the last snapshot, and ended before the trigger did. */
	trigger_settle_end(t);
	return 0;
}

void trigger_state_read(struct trigger_list *all, const struct settings *settings, struct audit *audit,
			struct target *t, json_object *list)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		json_object *o = json_object_array_get_idx(list, i);
		struct reason why = { "" };
		int rc = read_trigger(&(struct trigger_reading){ all, settings, audit, t }, o, &why);

		if (rc < 0)
			log_warning("cannot set trigger %u of process %d (%s) again: %s", number_of(o), (int)t->pid,
				    esc(t->name), *why.text ? why.text : strerror(-rc));
	}
}
