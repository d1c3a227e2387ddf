/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "daemon/daemon.h"
#include "daemon/job.h"
#include "daemon/limits.h"
#include "daemon/notify.h"
#include "daemon/reload.h"
#include "daemon/status-line.h"
#include "daemon/service.h"
#include "daemon/spool.h"
#include "daemon/subscriptions.h"
#include "daemon/tail.h"
#include "daemon/trigger/trigger.h"
#include "daemon/target.h"
#include "daemon/trace-units.h"
#include "daemon/wire.h"
#include "daemon/workqueue.h"
#include "lib/base/buf.h"
#include "lib/base/escape.h"
#include "lib/base/log.h"

enum { LIST_MAX = 4096 };

struct reload {
	struct work work;
	struct daemon *daemon;
	struct call *call; /* or NULL */
	struct settings fresh;
	struct reason why;
	int rc;
};

static void run_reload(struct work *w)
{
	struct reload *r = container_of(w, struct reload, work);

	r->rc = settings_load(r->daemon->argc, r->daemon->argv, false, &r->fresh, &r->why);
}

/* Passes the settings on to what keeps a copy of them; all others read them each time. */
static void apply_settings(struct daemon *d)
{
	limits_update(d->limits);
	spool_limit(d->spool, limits_keep_free(d->limits), d->settings.spool_max_age);
	spool_room_vacuum(d->spool, NULL);
	trace_units_update(d->units);
	target_list_update(d->targets);
	job_queue_update(d->jobs);
	service_update(d->service);
	subscriptions_update(d);
	tail_list_update(d->tails, &d->settings);
	trigger_list_update(d->triggers, d->service);
}

static void join_names(const char *const *names, size_t n, struct buf *ret)
{
	for (size_t i = 0; i < n; i++)
		buf_printf(ret, "%s%s", i ? ", " : "", names[i]);
	buf_u8(ret, 0);
}

static void log_changes(const struct settings_changes *changes)
{
	_cleanup_buf_ struct buf names = { .limit = LIST_MAX }, fixed = { .limit = LIST_MAX };

	join_names(changes->names, changes->n, &names);
	join_names(changes->fixed, changes->n_fixed, &fixed);
	if (buf_error(&names) < 0 || buf_error(&fixed) < 0)
		return;
	log_notice("read the configuration again; changed: %s", changes->n ? (const char *)names.data : "nothing");
	if (changes->n_fixed)
		log_warning("these settings take effect after a restart: %s", (const char *)fixed.data);
}

static void reload_ran(struct work *w)
{
	struct reload *r = container_of(w, struct reload, work);
	struct daemon *d = r->daemon;
	const struct audit_actor self = audit_self(d->audit);
	struct settings_changes changes = { 0 };
	bool triggers = r->rc == 0 && !trigger_sections_equal(&d->settings.triggers, &r->fresh.triggers);

	/* While the daemon ends, the settings do not change. */
	if (r->rc == 0 && !d->ending) {
		settings_replace(&d->settings, &r->fresh, &changes);
		apply_settings(d);
		if (triggers)
			trigger_sections_update(&d->settings.triggers, d->triggers, d->audit, d->targets);
		standing_sections_apply(&d->settings.standing, d->standing, d->audit);
		log_changes(&changes);
		audit_done(r->call ? &r->call->by : &self, AUDIT_RELOAD, &(struct audit_object){ 0 });
	} else if (r->rc != 0) {
		log_error("cannot read the configuration again: %s; the old one stays in effect", r->why.text);
	}
	status_line_changed(d->status_line);
	if (!r->call)
		notify_reloaded(r->rc == 0 ? NULL : r->why.text);
	else if (d->ending)
		call_error(r->call, wire_error_str(WIRE_ENDING), wire_error_of_ending(NULL));
	else if (r->rc == 0)
		call_reply(r->call, wire_changes(&changes));
	else
		call_error(r->call, wire_error_str(WIRE_INVALID_CONFIGURATION), wire_error_of_configuration(&r->why));
	settings_done(&r->fresh);
	free(r);
}

void reload_begin(struct daemon *d, struct call *c)
{
	struct reload *r = calloc(1, sizeof(*r));

	if (!r && c)
		call_error(c, wire_error_str(WIRE_INVALID_CONFIGURATION),
			   wire_error_of_configuration(&(struct reason){ "out of memory" }));
	if (!r)
		return;
	r->work = (struct work){ run_reload, reload_ran };
	r->daemon = d;
	r->call = c;
	if (!c)
		notify_reloading();
	workqueue_submit(d->names_queue, &r->work);
}
