/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "daemon/daemon.h"
#include "daemon/failure.h"
#include "daemon/group.h"
#include "daemon/methods-internal.h"
#include "daemon/request.h"
#include "lib/base/escape.h"
#include "lib/base/log.h"

/* The request for a snapshot of a member; no call waits for its reply. */
struct group_request {
	struct daemon *daemon;
	struct audit_actor by;
	pid_t pid;
};

struct group_thaw {
	struct ring_op op;
	struct work work;
	struct workqueue *queue;
	struct target *target;
	uid_t account; /* whose turn it is */
};

static bool add_member(struct daemon *d, struct call *c, int64_t pid, struct snapshot_group *ret)
{
	struct methods_subject s = { .action = AUDIT_TAKE };
	struct target *t;

	if (pid <= 0 || pid > INT_MAX) {
		call_invalid(c, "with");
		return false;
	}
	if (!methods_find_process(d, c, (pid_t)pid, &s))
		return false;
	t = s.target;
	if (!t || t->ring.state == RING_DISARMED) {
		failure_process(c, WIRE_NOT_ARMED, (pid_t)pid, NULL);
		return false;
	}
	for (size_t i = 0; i < ret->n; i++)
		if (ret->members[i] == t)
			return true;
	ret->members[ret->n++] = t;
	return true;
}

bool group_read(struct daemon *d, struct call *c, struct snapshot_group *ret)
{
	json_object *list = NULL;
	size_t n;

	if (json_get(c->parameters, "with", json_type_array, &list) == -EINVAL ||
	    (n = json_array_size(list)) > GROUP_MAX) {
		call_invalid(c, "with");
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		json_object *o = json_object_array_get_idx(list, i);

		if (!json_object_is_type(o, json_type_int)) {
			call_invalid(c, "with");
			return false;
		}
		if (!add_member(d, c, json_object_get_int64(o), ret))
			return false;
	}
	return true;
}

static void run_thaw(struct work *w)
{
	struct capture_source *s = container_of(w, struct group_thaw, work)->target->ring.source;

	s->ops->watching->release(s);
}

static void thaw_ran(struct work *w)
{
	struct group_thaw *t = container_of(w, struct group_thaw, work);

	ring_next(&t->target->ring);
	target_unref(t->target);
	free(t);
}

static void begin_thaw(struct ring_op *op)
{
	struct group_thaw *t = container_of(op, struct group_thaw, op);

	workqueue_submit_for(t->queue, &t->work, t->account);
}

void group_release(struct daemon *d, pid_t pid, uid_t uid)
{
	struct target *target = target_list_find(d->targets, pid, uid);
	struct group_thaw *t;

	if (!target || target->ring.state == RING_GONE || !target->ring.source->ops->watching)
		return;
	t = calloc(1, sizeof(*t));
	if (!t)
		return;
	*t = (struct group_thaw){ .op = { .begin = begin_thaw },
				  .work = { run_thaw, thaw_ran },
				  .queue = d->capture_queue,
				  .target = target_ref(target),
				  .account = ledger_owner(d->ledger, target->owner) };
	if (ring_queue(&target->ring, &t->op) == 0)
		return;
	/* Copies wait for the ring, which continues after each. */
	target_unref(t->target);
	free(t);
}

static void on_phase(void *data, const char *phase)
{
}

static void on_ended(void *data, enum request_result result, const struct snapshot *s, const char *reason,
		     const struct ledger_refusal *limit)
{
	struct group_request *r = data;

	if (result == REQUEST_DONE) {
		const struct audit_object on = methods_object_of_snapshot(s);

		audit_done(&r->by, AUDIT_TAKE, &on);
	} else {
		const struct audit_object on = { .pid = r->pid, .owner = (uid_t)-1 };

		if (result == REQUEST_OVER_LIMIT)
			audit_limit(&r->by, AUDIT_TAKE, &on, limit);
		else if (ledger_may_log(r->daemon->ledger, r->by.uid))
			log_info("process %d of a group has no snapshot: %s", (int)r->pid,
				 reason ? esc(reason) : "it is not armed");
		group_release(r->daemon, r->pid, r->by.uid);
	}
	free(r);
}

static void freeze(struct target *t)
{
	const struct capture_watching *w = t->ring.source->ops->watching;

	if (w && w->freeze && t->ring.state == RING_ARMED && !t->ring.busy)
		w->freeze(t->ring.source);
}

static void begin_member(struct daemon *d, const struct audit_actor *by, struct target *t, const struct annotation *a)
{
	struct request_options options = { .uid = by->uid, .no_arm = true, .progress = on_phase, .ended = on_ended };
	struct group_request *r = malloc(sizeof(*r));

	if (!r) {
		group_release(d, t->pid, by->uid);
		return;
	}
	*r = (struct group_request){ .daemon = d, .by = *by, .pid = t->pid };
	options.data = r;
	options.annotation = annotation_copy(a);
	request_begin(d->requests, t, &options);
}

void group_begin(struct daemon *d, const struct audit_actor *by, struct target *first, const struct snapshot_group *g,
		 const struct annotation *annotation)
{
	if (!g->n)
		return;
	freeze(first);
	for (size_t i = 0; i < g->n; i++)
		freeze(g->members[i]);
	for (size_t i = 0; i < g->n; i++)
		if (g->members[i] != first)
			begin_member(d, by, g->members[i], annotation);
}
