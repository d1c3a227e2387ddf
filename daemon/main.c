/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <assert.h>
#include <grp.h>
#include <libgen.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/daemon.h"
#include "daemon/job.h"
#include "daemon/limits.h"
#include "daemon/methods.h"
#include "daemon/notify.h"
#include "daemon/oom-listener.h"
#include "daemon/opener.h"
#include "daemon/overhead.h"
#include "daemon/pause.h"
#include "daemon/registry.h"
#include "daemon/reload.h"
#include "daemon/request.h"
#include "daemon/service.h"
#include "daemon/subscriptions.h"
#include "daemon/spool.h"
#include "daemon/standing/standing.h"
#include "daemon/state.h"
#include "daemon/status-line.h"
#include "daemon/tail.h"
#include "daemon/target.h"
#include "daemon/trace-units.h"
#include "daemon/trigger/trigger.h"
#include "daemon/user-queues.h"
#include "daemon/workqueue.h"
#include "lib/base/log.h"
#include "lib/base/path.h"

enum { EXIT_USAGE = 2, END_TICK_MS = 20, HOLD_SECONDS = 3 };

/* Ends the loop when no client waits for a reply, or the time for that is over. */
static void on_end_tick(evutil_socket_t fd, short what, void *data)
{
	struct daemon *d = data;

	if (service_busy(d->service) && now_ns(CLOCK_MONOTONIC) < d->ends_ns)
		return;
	event_base_loopbreak(d->base);
}

static void begin_shutdown(struct daemon *d)
{
	const struct timeval tick = { 0, END_TICK_MS * 1000 };

	if (d->ending || event_add(d->end_tick, &tick) < 0)
		event_base_loopbreak(d->base);
	d->ending = true;
	service_hold(d->service, true);
	/* The calls that wait for a hit, or for events, would keep the daemon from ending. */
	trigger_list_stop(d->triggers);
	subscriptions_end(d);
	request_list_end_recordings(d->requests);
	tail_list_stop(d->tails);
	d->ends_ns = now_ns(CLOCK_MONOTONIC) + d->settings.stop_timeout * 1000000000u;
	notify_stopping(d->settings.stop_timeout);
}

static void on_signal(evutil_socket_t number, short what, void *data)
{
	struct daemon *d = data;
	const char *name = sigabbrev_np(number);

	switch (number) {
	case SIGTERM:
	case SIGINT:
		log_info("received SIG%s: ending; traced programs continue", name);
		begin_shutdown(d);
		break;
	case SIGHUP:
		log_info("received SIGHUP: reading the configuration again");
		if (!d->ending)
			reload_begin(d, NULL);
		break;
	default:
		log_notice("ignored SIG%s; SIGTERM and SIGINT end csightd", name ? name : "RT");
	}
}

/* All signals that would end the process by default, except those of its own errors. */
static int watch_signals(struct daemon *d)
{
	static const int signals[] = { SIGTERM, SIGINT,    SIGHUP,  SIGQUIT, SIGUSR1, SIGUSR2,
				       SIGALRM, SIGVTALRM, SIGPROF, SIGPOLL, SIGPWR,  SIGSTKFLT };

	static_assert(ELEMENTS(signals) <= ELEMENTS(d->signals), "too many signals");
	d->end_tick = event_new(d->base, -1, EV_PERSIST, on_end_tick, d);
	if (!d->end_tick)
		return -ENOMEM;
	for (size_t n = 0; n < ELEMENTS(signals); n++) {
		d->signals[n] = evsignal_new(d->base, signals[n], on_signal, d);
		if (!d->signals[n] || event_add(d->signals[n], NULL) < 0)
			return -ENOMEM;
	}
	for (int n = SIGRTMIN; n <= SIGRTMAX; n++)
		signal(n, SIG_IGN);
	return 0;
}

/* Makes the directory of the sockets. An existing directory is used as it is, except the default one of a user. */
static int make_socket_dir(const struct settings *s)
{
	char path[PATH_MAX], own[PATH_MAX], *dir;
	struct stat st;

	strcpy(path, s->socket);
	dir = dirname(path);
	if (!s->system && path_user_socket(own, sizeof(own)) == 0 && strcmp(own, s->socket) == 0)
		return path_make_dir(dir, 0700, true);
	return stat(dir, &st) == 0 && S_ISDIR(st.st_mode) ? 0 : path_make_dir(dir, s->system ? 0755 : 0700, true);
}

static void on_hits(void *data, struct target *t)
{
	struct daemon *d = data;

	trigger_list_hits(d->triggers, t);
}

static int open_sockets(struct daemon *d)
{
	const struct settings *s = &d->settings;
	unsigned mode = s->system ? 0666 : 0600;
	char emu[PATH_MAX];
	pid_t other = 0;
	int rc = make_socket_dir(s);

	if (rc < 0) {
		log_error("cannot use the directory of %s: %s", s->socket, strerror(-rc));
		return rc;
	}
	rc = service_new(d->base,
			 &(struct service_options){ .path = s->socket,
						    .mode = mode,
						    .dispatch = methods_dispatch,
						    .data = d,
						    .turns = d->turns,
						    .ledger = d->ledger,
						    .audit = d->audit,
						    .settings = s },
			 &other, &d->service);
	if (rc == -EADDRINUSE) {
		log_error("already running, pid %d (%s)", (int)other, s->socket);
		return rc;
	}
	if (rc == 0)
		rc = path_emu_socket(s->socket, emu, sizeof(emu));
	if (rc == 0)
		rc = registry_new(&(struct registry_options){ .base = d->base,
							      .path = emu,
							      .mode = mode,
							      .settings = s,
							      .queues = d->user_queues,
							      .targets = d->targets,
							      .turns = d->turns,
							      .ledger = d->ledger,
							      .hits = on_hits,
							      .data = d,
							      .audit = d->audit },
				  &d->registry);
	if (rc < 0)
		log_error("cannot listen at %s: %s", s->socket, strerror(-rc));
	return rc;
}

static void on_snapshot_changed(void *data, const struct snapshot *s, enum snapshot_change change)
{
	struct daemon *d = data;

	methods_snapshot_changed(d, s, change);
	status_line_changed(d->status_line);
}

static int open_spool(struct daemon *d)
{
	struct spool_options options = { .path = d->settings.spool,
					 .keep_free = limits_keep_free(d->limits),
					 .max_age = d->settings.spool_max_age,
					 .queue = d->spool_queue,
					 .ledger = d->ledger,
					 .audit = d->audit,
					 .base = d->base,
					 .changed = on_snapshot_changed,
					 .data = d };
	int rc = spool_new(&options, &d->spool);

	if (rc == -EBUSY)
		log_error("another csightd has the spool %s open", d->settings.spool);
	else if (rc == -EPERM)
		log_error("cannot use the spool %s: it belongs to another user, or other users can write to it",
			  d->settings.spool);
	else if (rc < 0)
		log_error("cannot open the spool %s: %s", d->settings.spool, strerror(-rc));
	return rc;
}

static void on_exit_of_thread(void *data, const struct exit_event *e)
{
	struct daemon *d = data;

	target_list_take_event(d->targets, e);
}

static void on_oom_kill(void *data, pid_t tid)
{
	struct daemon *d = data;

	target_list_take_oom(d->targets, tid);
}

static void on_ooms_passed(void *data)
{
	struct daemon *d = data;

	target_list_settle(d->targets);
}

static int start_ooms(struct daemon *d)
{
	static const struct oom_listener_calls calls = { .killed = on_oom_kill, .passed = on_ooms_passed };
	int fd = oom_listener_open(d->settings.kernel), rc = fd;

	if (fd >= 0)
		rc = oom_listener_new(d->base, fd, &calls, d, &d->ooms);
	if (rc < 0)
		log_debug("processes that end for lack of memory are unknown: the kernel's log cannot be read: %s",
			  strerror(-rc));
	return rc == -ENOMEM ? rc : 0;
}

static int listen_to_exits(struct daemon *d, int fd)
{
	int rc = fd < 0 ? fd : exit_listener_new(d->base, fd, on_exit_of_thread, d, &d->exits);

	if (rc < 0)
		log_debug("no exit statuses from the kernel's process connector: %s", strerror(-rc));
	return rc == -ENOMEM ? rc : 0;
}

static void end_late_exits(struct daemon *d)
{
	int fd = d->late_exits ? event_get_fd(d->late_exits) : -1;

	if (d->late_exits)
		event_free(d->late_exits);
	d->late_exits = NULL;
	closep(&fd);
}

static void on_late_exits(evutil_socket_t fd, short what, void *data)
{
	struct daemon *d = data;

	listen_to_exits(d, opener_receive_exits(fd));
	end_late_exits(d);
	target_list_hear_exits(d->targets, d->exits);
}

/* Must run before any thread is started: it drops a capability, and each thread has capabilities of its own. */
static int start_exits(struct daemon *d)
{
	int late = -1, fd = exit_listener_socket();

	if (fd < 0 && d->settings.opener[0])
		fd = opener_open_exits(d->settings.opener, &late);
	if (late < 0)
		return listen_to_exits(d, fd);
	/* The machine is busy: it is starting, say. */
	d->late_exits = event_new(d->base, late, EV_READ, on_late_exits, d);
	if (d->late_exits && event_add(d->late_exits, NULL) == 0)
		return 0;
	if (!d->late_exits)
		closep(&late);
	return -ENOMEM;
}

static int start_workqueues(struct daemon *d)
{
	/* The capture thread goes first: while it copies a ring, the program is not traced. */
	int rc = workqueue_new(d->base, "capture", -10, &d->capture_queue);

	if (rc == 0)
		rc = workqueue_new(d->base, "spool", 0, &d->spool_queue);
	if (rc == 0)
		rc = workqueue_new(d->base, "recorder", -5, &d->record_queue);
	if (rc == 0)
		rc = workqueue_new(d->base, "names", 0, &d->names_queue);
	return rc;
}

static int start_ledger(struct daemon *d)
{
	int rc = subuids_new(&(struct subuids_options){ .path = "/etc/subuid", .queue = d->names_queue }, &d->subuids);

	if (rc == 0)
		rc = limits_new(&d->settings, d->subuids, &d->limits);
	if (rc == 0)
		d->ledger = limits_ledger(d->limits);
	if (rc == 0)
		rc = user_queues_new(d->base, d->ledger, &d->user_queues);
	if (rc == 0)
		rc = turns_new(d->base, d->ledger, &d->turns);
	return rc;
}

static int start_audit(struct daemon *d)
{
	return audit_new(&(struct audit_options){ .base = d->base, .ledger = d->ledger, .counters = &d->counters },
			 &d->audit);
}

static void on_target_ended(void *data, struct target *t)
{
	struct daemon *d = data;

	trigger_list_ended(d->triggers, t);
}

static void on_target_changed(void *data, struct target *t, enum target_change change)
{
	struct daemon *d = data;

	const struct pause_options pausing = methods_pausing(d);

	if (change == TARGET_ARMED && state_paused(d->state) && pause_one(&pausing, t, true) < 0)
		log_warning("cannot pause process %d: out of memory", (int)t->pid);
	if (change == TARGET_ARMED) {
		registry_add_notes(d->registry, t);
		overhead_begin(d->overhead);
	} else {
		overhead_forget(d->overhead, t);
	}
	state_target(d->state, t, change);
	standing_target(d->standing, t, change);
	subscriptions_target(d, t, change);
	if (change == TARGET_ARMED)
		trigger_sections_apply(&d->settings.triggers, d->triggers, d->audit, t);
	status_line_changed(d->status_line);
}

static int start_targets(struct daemon *d)
{
	struct target_list_options options = { .base = d->base,
					       .settings = &d->settings,
					       .capture_queue = d->capture_queue,
					       .exits = d->exits,
					       .ooms = d->ooms,
					       .ledger = d->ledger,
					       .ended = on_target_ended,
					       .changed = on_target_changed,
					       .data = d };

	return target_list_new(&options, &d->targets);
}

static int start_units(struct daemon *d)
{
	struct trace_units_options options = {
		.base = d->base,
		.settings = &d->settings,
		.capture_queue = d->capture_queue,
		.targets = d->targets,
		.hits = on_hits,
		.data = d,
	};

	return trace_units_new(&options, &d->units);
}

static int start_jobs(struct daemon *d)
{
	struct job_queue_options jobs = { .base = d->base,
					  .settings = &d->settings,
					  .spool_queue = d->spool_queue,
					  .user_queues = d->user_queues,
					  .ledger = d->ledger,
					  .spool = d->spool,
					  .counters = &d->counters };
	int rc = job_queue_new(&jobs, &d->jobs);
	struct request_list_options requests = { .base = d->base,
						 .settings = &d->settings,
						 .capture_queue = d->capture_queue,
						 .spool_queue = d->spool_queue,
						 .record_queue = d->record_queue,
						 .user_queues = d->user_queues,
						 .ledger = d->ledger,
						 .spool = d->spool,
						 .jobs = d->jobs,
						 .counters = &d->counters };

	return rc < 0 ? rc : request_list_new(&requests, &d->requests);
}

static int start_tails(struct daemon *d)
{
	struct tail_list_options options = {
		.base = d->base, .queue = d->record_queue, .capture_queue = d->capture_queue, .ledger = d->ledger
	};

	return tail_list_new(&options, &d->tails);
}

static void on_triggers_changed(void *data)
{
	struct daemon *d = data;

	state_changed(d->state);
}

static int start_triggers(struct daemon *d)
{
	struct trigger_list_options options = { .base = d->base,
						.ledger = d->ledger,
						.turns = d->turns,
						.capture_queue = d->capture_queue,
						.requests = d->requests,
						.spool = d->spool,
						.daemon = d,
						.changed = on_triggers_changed,
						.data = d };

	return trigger_list_new(&options, &d->triggers);
}

static void on_standing_changed(void *data)
{
	struct daemon *d = data;

	state_changed(d->state);
}

static int start_standing(struct daemon *d)
{
	struct standing_list_options options = { .base = d->base,
						 .settings = &d->settings,
						 .ledger = d->ledger,
						 .audit = d->audit,
						 .units = d->units,
						 .targets = d->targets,
						 .changed = on_standing_changed,
						 .data = d };

	return standing_list_new(&options, &d->standing);
}

static int start_state(struct daemon *d)
{
	struct state_options options = { .base = d->base,
					 .settings = &d->settings,
					 .queue = d->spool_queue,
					 .ledger = d->ledger,
					 .spool = d->spool,
					 .units = d->units,
					 .targets = d->targets,
					 .triggers = d->triggers,
					 .standing = d->standing,
					 .audit = d->audit };

	const struct pause_options pausing = methods_pausing(d);
	int rc = state_new(&options, &d->state);

	if (rc == 0 && state_paused(d->state)) {
		log_notice(CAPTURE_PAUSED);
		rc = pause_all(&pausing, true, NULL, NULL);
	}
	if (rc < 0)
		return rc;
	standing_sections_apply(&d->settings.standing, d->standing, d->audit);
	standing_list_begin(d->standing);
	return 0;
}

static bool is_recording_paused(void *data)
{
	const struct daemon *d = data;

	return state_paused(d->state);
}

static void on_target_continued(void *data, struct target *t)
{
	struct daemon *d = data;

	trigger_list_continued(d->triggers, t);
}

/* Must precede start_state(), which restores targets. */
static int start_overhead(struct daemon *d)
{
	struct overhead_options options = { .base = d->base,
					    .settings = &d->settings,
					    .capture_queue = d->capture_queue,
					    .spool_queue = d->spool_queue,
					    .record_queue = d->record_queue,
					    .pausing = methods_pausing(d),
					    .paused = is_recording_paused,
					    .continued = on_target_continued,
					    .data = d };

	return overhead_new(&options, &d->overhead);
}

static int start_status_line(struct daemon *d)
{
	return status_line_new(d->base, d->targets, d->spool, &d->status_line);
}

static int start_loop(struct daemon *d)
{
	TAILQ_INIT(&d->waiting);
	TAILQ_INIT(&d->subscribers);
	d->base = event_base_new();
	return d->base ? 0 : -ENOMEM;
}

static int start(struct daemon *d)
{
	static const struct {
		int (*run)(struct daemon *d);
		const char *what; /* NULL: it reports its failure itself */
	} steps[] = {
		{ start_loop, "the event loop" },
		{ watch_signals, "the handlers of signals" },
		{ start_exits, "listening for ends of processes" },
		{ start_ooms, "listening for ends for lack of memory" },
		{ start_workqueues, "its threads" },
		{ start_ledger, "the ledger" },
		{ start_audit, "the audit" },
		{ start_targets, "the targets" },
		{ open_sockets, NULL },
		{ open_spool, NULL },
		{ start_units, "the trace units" },
		{ start_jobs, "the queue of decodes" },
		{ start_tails, "the tails" },
		{ start_triggers, "the triggers" },
		{ start_standing, "the standing targets" },
		{ start_overhead, "measuring the overhead" },
		{ start_state, "what was stored" },
		{ start_status_line, "its status" },
	};
	int rc = 0;

	for (size_t n = 0; n < ELEMENTS(steps) && rc == 0; n++) {
		rc = steps[n].run(d);
		if (rc < 0 && steps[n].what)
			log_error("cannot start %s: %s", steps[n].what, strerror(-rc));
	}
	return rc;
}

/* Queues the decodes that an earlier daemon did not finish. */
static void queue_old_decodes(struct daemon *d)
{
	job_queue_add_old(d->jobs);
	spool_room_vacuum(d->spool, NULL);
}

static void on_hold_tick(evutil_socket_t fd, short what, void *data)
{
	struct daemon *d = data;

	if (d->ending || (state_waits(d->state) && now_ns(CLOCK_MONOTONIC) < d->hold_ns))
		return;
	event_del(d->hold_tick);
	service_hold(d->service, false);
}

/* Programs register again within a second: a client that waited for the restart finds its targets. */
static void hold_clients(struct daemon *d)
{
	const struct timeval tick = { 0, END_TICK_MS * 1000 };

	if (!state_waits(d->state))
		return;
	d->hold_ns = now_ns(CLOCK_MONOTONIC) + HOLD_SECONDS * 1000000000ull;
	d->hold_tick = event_new(d->base, -1, EV_PERSIST, on_hold_tick, d);
	if (d->hold_tick && event_add(d->hold_tick, &tick) == 0)
		service_hold(d->service, true);
}

static int run(struct daemon *d)
{
	struct event *watchdog;
	int rc;

	queue_old_decodes(d);
	log_notice("ready at %s, spool %s, capture %s", d->settings.socket, d->settings.spool,
		   trace_units_why(d->units)[0] ? "emu" : "perf");
	hold_clients(d);
	notify_ready();
	status_line_changed(d->status_line);
	watchdog = notify_watchdog(d->base);
	rc = event_base_dispatch(d->base);
	d->ending = true;
	if (watchdog)
		event_free(watchdog);
	return rc < 0 ? -EIO : 0;
}

/*
 * Ends what is in progress in a state from which the next start can continue, replies to the clients that wait, and
 * closes all connections.
 */
static void stop(struct daemon *d)
{
	d->registry = registry_free(d->registry);
	if (d->jobs)
		job_queue_stop(d->jobs);
	if (d->requests)
		request_list_stop(d->requests);
	if (d->tails)
		tail_list_stop(d->tails);
	if (d->record_queue)
		workqueue_stop(d->record_queue);
	if (d->units)
		trace_units_stop(d->units);
	if (d->capture_queue)
		workqueue_stop(d->capture_queue);
	if (d->state)
		state_stop(d->state);
	if (d->spool_queue)
		workqueue_stop(d->spool_queue);
	methods_end(d);
	if (d->triggers)
		trigger_list_stop(d->triggers);
	if (d->service)
		service_flush(d->service);
	d->service = service_free(d->service);
	d->state = state_free(d->state);
	d->status_line = status_line_free(d->status_line);
	d->standing = standing_list_free(d->standing);
	d->overhead = overhead_free(d->overhead);
	d->requests = request_list_free(d->requests);
	d->tails = tail_list_free(d->tails);
	d->triggers = trigger_list_free(d->triggers);
	d->jobs = job_queue_free(d->jobs);
	d->targets = target_list_free(d->targets);
	end_late_exits(d);
	d->exits = exit_listener_free(d->exits);
	d->ooms = oom_listener_free(d->ooms);
	d->units = trace_units_free(d->units);
	d->spool = spool_free(d->spool);
	d->capture_queue = workqueue_free(d->capture_queue);
	d->spool_queue = workqueue_free(d->spool_queue);
	d->record_queue = workqueue_free(d->record_queue);
	d->audit = audit_free(d->audit);
	d->turns = turns_free(d->turns);
	d->limits = limits_free(d->limits);
	d->subuids = subuids_free(d->subuids);
	/* user_queues and names_queue are not stopped: their threads may be blocked in a file system, or by a server of
	 * names. */
}

int main(int argc, char **argv)
{
	static struct daemon d;
	struct reason why = { "" };
	int rc = settings_load(argc, argv, true, &d.settings, &why);

	if (rc > 0)
		return EXIT_SUCCESS;
	if (rc < 0) {
		fprintf(stderr, "csightd: %s\n", why.text);
		return EXIT_USAGE;
	}
	d.argc = argc;
	d.argv = argv;
	if (d.settings.check_only) {
		printf("csightd: the configuration is valid\n");
		return EXIT_SUCCESS;
	}
	log_setup("csightd", d.settings.verbose ? LOG_DEBUG : LOG_INFO);
	log_never_wait();
	umask(077);
	/* Files of users are opened with their uid and gid, and without any other group. */
	if (geteuid() == 0 && setgroups(0, NULL) < 0)
		log_debug("cannot leave the supplementary groups: %s", strerror(errno));
	signal(SIGPIPE, SIG_IGN);
	d.started_ns = now_ns(CLOCK_MONOTONIC);
	rc = start(&d);
	if (rc == 0)
		rc = run(&d);
	stop(&d);
	for (size_t n = 0; n < ELEMENTS(d.signals); n++)
		if (d.signals[n])
			event_free(d.signals[n]);
	if (d.end_tick)
		event_free(d.end_tick);
	if (d.hold_tick)
		event_free(d.hold_tick);
	settings_done(&d.settings);
	return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
