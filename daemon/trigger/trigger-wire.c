/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "daemon/trigger/trigger-wire.h"
#include "daemon/trigger/watched-target.h"
#include "lib/base/parse.h"

static const char *state_str(const struct trigger *t)
{
	return t->ended ? "ended" : t->enabled ? "enabled" : "disabled";
}

/* Returns true if one of the first n places is watched by this mechanism. */
static bool has_mechanism(const struct trigger *t, size_t n, const char *mechanism)
{
	struct capture_watch_state is;

	for (size_t i = 0; i < n && trigger_state_of(t, i, &is); i++)
		if (strcmp(is.mechanism, mechanism) == 0)
			return true;
	return false;
}

/* Adds the mechanisms of the places, and their costs in the same order. */
static void add_mechanisms(json_object *o, const struct trigger *t)
{
	_cleanup_buf_ struct buf mechanisms = { 0 }, costs = { 0 };
	struct capture_watch_state is = { .rests = 0 };

	for (size_t i = 0; trigger_state_of(t, i, &is); i++) {
		if (has_mechanism(t, i, is.mechanism))
			continue;
		buf_printf(&mechanisms, "%s%s", i ? ", " : "", is.mechanism);
		buf_printf(&costs, "%s%s", i ? ", " : "", is.cost);
	}
	buf_u8(&mechanisms, 0);
	buf_u8(&costs, 0);
	if (buf_error(&mechanisms) < 0 || buf_error(&costs) < 0 || mechanisms.size == 1)
		return;
	json_add_str(o, "mechanism", (const char *)mechanisms.data);
	json_add_str(o, "cost", (const char *)costs.data);
	if (is.rests) {
		json_add_u64(o, "rests", is.rests);
		json_add_u64(o, "rested", is.rested_ns);
	}
}

static void add_text(json_object *o, const char *name, const struct trigger_condition *c)
{
	_cleanup_buf_ struct buf text = { 0 };

	trigger_condition_text(c, &text);
	if (buf_error(&text) == 0)
		json_add_bytes(o, name, (const char *)text.data);
}

static json_object *conditions_of(const struct trigger *t)
{
	json_object *list = json_object_new_array();

	for (unsigned i = 0; i < trigger_spec_count(&t->spec); i++) {
		json_object *o = json_object_new_object();

		add_text(o, "condition", &t->spec.conditions[i]);
		json_add_u64(o, "hits", t->condition_hits[i]);
		if (t->spec.all)
			json_add_u64(o, "completed", t->completed[i]);
		json_array_add(list, o);
	}
	return list;
}

json_object *trigger_wire(struct trigger *t)
{
	json_object *o = json_object_new_object(), *became = json_object_new_object();
	uint64_t seen = 0;

	trigger_count(t);
	json_add_i64(o, "id", t->number);
	json_add_i64(o, "pid", t->pid);
	json_add_i64(o, "uid", t->by.uid);
	json_add_bytes(o, "name", t->name);
	json_add_bytes(o, "condition", t->condition);
	if (t->spec.joins)
		json_add(o, "conditions", conditions_of(t));
	json_add_bytes(o, "rules", t->rules);
	if (t->section)
		json_add_bytes(o, "section", t->section);
	json_add_str(o, "state", state_str(t));
	json_add_u64(o, "hits", t->hits);
	if (trigger_spec_timed(&t->spec)) {
		json_add_u64(o, "measured", t->measured);
		json_add_u64(o, "unknown", t->unknown);
		json_add_u64(o, "longest", t->longest);
	}
	add_mechanisms(o, t);
	for (enum trigger_outcome i = 0; i < TRIGGER_OUTCOMES; i++)
		if (t->outcomes[i]) {
			json_add_u64(became, trigger_outcome_str(i), t->outcomes[i]);
			seen += t->outcomes[i];
		}
	if (t->hits > seen)
		json_add_u64(became, "unread", t->hits - seen);
	json_add(o, "became", became);
	return o;
}

json_object *trigger_wire_reply(struct trigger *t)
{
	json_object *o = json_object_new_object();

	json_add(o, "trigger", trigger_wire(t));
	return o;
}

json_object *trigger_wire_hit(const struct trigger *t, const struct trigger_hit *hit)
{
	static const char *const how[] = {
		[EMU_HIT_REACHED] = "reached",
		[EMU_HIT_RETURNED] = "returned",
		[EMU_HIT_LEFT] = "left",
		[EMU_HIT_ENDED] = "ended",
	};
	const struct trigger_condition *c = &t->spec.conditions[hit->condition];
	json_object *o = json_object_new_object();

	json_add_i64(o, "id", t->number);
	add_text(o, "condition", c);
	if (t->spec.joins)
		json_add_bytes(o, "conditions", t->condition);
	if (c->event == TRIGGER_FUNCTION)
		json_add_bytes(o, "function", c->value);
	if (hit->how < ELEMENTS(how))
		json_add_str(o, "how", how[hit->how]);
	if (c->timed)
		json_add_u64(o, "value", hit->value);
	if (hit->tid)
		json_add_i64(o, "tid", hit->tid);
	if (hit->time_ns)
		json_add_u64(o, "time", hit->time_ns);
	return o;
}

static int parse_ends(json_object *o, struct capture_watch_ends *ret)
{
	json_object *list;
	const char *text;

	if (json_get(o, "ends", json_type_array, &list) < 0)
		return json_object_object_get_ex(o, "ends", &list) ? -EINVAL : 0;
	if (json_object_array_length(list) > ELEMENTS(ret->places))
		return -EINVAL;
	for (ret->n = 0; ret->n < json_object_array_length(list); ret->n++) {
		text = json_object_get_string(json_object_array_get_idx(list, ret->n));
		if (!text || parse_u64(text, UINT64_MAX, &ret->places[ret->n]) < 0)
			return -EINVAL;
	}
	return 0;
}

static int parse_place(json_object *o, struct trigger_place *ret)
{
	const char *address = NULL, *device = NULL, *go = NULL;
	struct trigger_place p = { 0 };
	uint64_t condition = 0;
	char *end;

	if (!json_object_is_type(o, json_type_object) || json_get_str(o, "address", &address) < 0 ||
	    parse_u64(address, UINT64_MAX, &p.place) < 0 || json_get_u64(o, "size", &p.size) == -EINVAL ||
	    json_get_u64(o, "condition", &condition) == -EINVAL || condition >= TRIGGER_CONDITIONS_MAX ||
	    json_get_u64(o, "inode", &p.inode) == -EINVAL || json_get_str(o, "device", &device) == -EINVAL ||
	    json_get_bool(o, "loops", &p.ends.loops) == -EINVAL || parse_ends(o, &p.ends) < 0 ||
	    json_get_str(o, "go", &go) == -EINVAL || (go && parse_u64(go, UINT64_MAX, &p.ends.go) < 0) ||
	    (p.inode != 0) != (device != NULL))
		return -EINVAL;
	if (device) {
		p.major = (uint32_t)strtoul(device, &end, 16);
		if (*end != ':')
			return -EINVAL;
		p.minor = (uint32_t)strtoul(end + 1, &end, 16);
		if (*end)
			return -EINVAL;
	}
	p.condition = (unsigned)condition;
	*ret = p;
	return 0;
}

int trigger_wire_places(json_object *list, struct trigger_place ret[TRIGGER_PLACES_MAX])
{
	size_t n = json_array_size(list);

	if (n > TRIGGER_PLACES_MAX)
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		if (parse_place(json_object_array_get_idx(list, i), &ret[i]) < 0)
			return -EINVAL;
	return (int)n;
}

static json_object *ends_of(const struct capture_watch_ends *ends)
{
	json_object *list = json_object_new_array();
	char text[24];

	for (unsigned i = 0; i < ends->n; i++) {
		snprintf(text, sizeof(text), "0x%" PRIx64, ends->places[i]);
		json_array_add(list, json_object_new_string(text));
	}
	return list;
}

json_object *trigger_wire_places_of(const struct trigger *t)
{
	json_object *list = json_object_new_array();

	for (size_t i = 0; i < t->n_places; i++) {
		const struct trigger_place *p = &t->places[i];
		json_object *o = json_object_new_object();
		char device[24];

		json_add_hex(o, "address", p->place);
		if (p->condition)
			json_add_u64(o, "condition", p->condition);
		json_add_u64(o, "size", p->size);
		snprintf(device, sizeof(device), "%x:%x", p->major, p->minor);
		if (p->inode) {
			json_add_u64(o, "inode", p->inode);
			json_add_str(o, "device", device);
		}
		if (p->ends.n)
			json_add(o, "ends", ends_of(&p->ends));
		if (p->ends.loops)
			json_add_bool(o, "loops", true);
		if (p->ends.go)
			json_add_hex(o, "go", p->ends.go);
		json_array_add(list, o);
	}
	return list;
}
