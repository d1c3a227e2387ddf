#include "config.h"

#include <libgen.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#ifdef HAVE_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

#include "daemon/daemon.h"
#include "daemon/job.h"
#include "daemon/workqueue.h"
#include "daemon/registry.h"
#include "daemon/service.h"
#include "daemon/request.h"
#include "daemon/spool.h"
#include "daemon/target.h"
#include "daemon/trace-units.h"
#include "lib/base/log.h"
#include "lib/base/path.h"

enum { DESCRIPTORS_MAX = 256 << 10, EXIT_USAGE = 2 };

static void notify(const char *state)
{
#ifdef HAVE_SYSTEMD
	sd_notify(0, state);
#else
	(void)state;
#endif
}

static void on_signal(evutil_socket_t number, short what, void *data)
{
	struct daemon *d = data;

	log_info("SIG%s: the daemon ends; programs run on", sigabbrev_np(number));
	event_base_loopbreak(d->base);
}

/* Targets cost descriptors; one user's may not take them all. */
static void raise_limits(struct daemon *d)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = MAX(limit.rlim_cur, MIN(limit.rlim_max, (rlim_t)DESCRIPTORS_MAX));
	setrlimit(RLIMIT_NOFILE, &limit);
	getrlimit(RLIMIT_NOFILE, &limit);
	d->files_per_user = limit.rlim_cur / 4;
}

/* The directory of the sockets. One that is there already was chosen by whoever named it. */
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

static int open_sockets(struct daemon *d)
{
	const struct settings *s = &d->settings;
	unsigned mode = s->system ? 0666 : 0600;
	char emu[PATH_MAX];
	pid_t other = 0;
	int rc = make_socket_dir(s);

	if (rc < 0) {
		log_error("the directory of %s cannot be used: %s", s->socket, strerror(-rc));
		return rc;
	}
	/* Others look into the directory, not the files that are made in it. */
	rc = service_new(d, s->socket, mode, &other, &d->service);
	if (rc == -EADDRINUSE) {
		log_error("already running, pid %d (%s)", (int)other, s->socket);
		return rc;
	}
	if (rc == 0)
		rc = path_emu_socket(s->socket, emu, sizeof(emu));
	if (rc == 0)
		rc = registry_new(d, emu, mode, &d->registry);
	if (rc < 0)
		log_error("cannot listen at %s: %s", s->socket, strerror(-rc));
	return rc;
}

static int open_spool(struct daemon *d)
{
	int rc = spool_new(d, d->settings.spool, &d->spool);

	if (rc == -EBUSY)
		log_error("another csightd has the spool %s", d->settings.spool);
	else if (rc == -EPERM)
		log_error("the spool %s belongs to someone else, or others may write to it", d->settings.spool);
	else if (rc < 0)
		log_error("cannot open the spool %s: %s", d->settings.spool, strerror(-rc));
	return rc;
}

static int start(struct daemon *d)
{
	static const struct {
		const char *name;
		int nice;
		size_t at;
	} workqueues[] = {
		/* While it works, a program is not traced. */
		{ "capture", -10, offsetof(struct daemon, capture) },
		{ "disk", 0, offsetof(struct daemon, disk) },
		{ "opener", 0, offsetof(struct daemon, opener) },
	};
	int rc = 0;

	TAILQ_INIT(&d->requests);
	d->base = event_base_new();
	if (!d->base)
		return -ENOMEM;
	rc = open_sockets(d);
	if (rc == 0)
		rc = open_spool(d);
	for (size_t n = 0; n < ELEMENTS(workqueues) && rc == 0; n++)
		rc = workqueue_new(d->base, workqueues[n].name, workqueues[n].nice,
				   (struct workqueue **)((char *)d + workqueues[n].at));
	if (rc == 0)
		rc = target_list_new(d, &d->targets);
	if (rc == 0)
		rc = trace_units_new(d, &d->units);
	if (rc == 0)
		rc = job_queue_new(d, &d->jobs);
	return rc;
}

/* What an earlier daemon left undone. */
static void requeue(struct daemon *d)
{
	struct snapshot *s, *next;

	for (s = TAILQ_FIRST(spool_list(d->spool)); s; s = next) {
		next = TAILQ_NEXT(s, link);
		if (s->state == SNAPSHOT_QUEUED)
			job_queue_add(d->jobs, s);
	}
	spool_vacuum(d->spool, 0, NULL);
}

static int run(struct daemon *d)
{
	static const int signals[] = { SIGTERM, SIGINT, SIGHUP };
	struct event *events[ELEMENTS(signals)] = { 0 };
	int rc;

	for (size_t n = 0; n < ELEMENTS(signals); n++) {
		events[n] = evsignal_new(d->base, signals[n], on_signal, d);
		if (events[n])
			event_add(events[n], NULL);
	}
	requeue(d);
	log_notice("ready at %s, spool %s, capture %s", d->settings.socket, d->settings.spool,
		   trace_units_why(d->units)[0] ? "emu" : "perf");
	notify("READY=1");
	rc = event_base_dispatch(d->base);
	notify("STOPPING=1");
	for (size_t n = 0; n < ELEMENTS(signals); n++)
		if (events[n])
			event_free(events[n]);
	return rc < 0 ? -EIO : 0;
}

/* Nobody is answered any more; what is half done is brought to an end that a next start can go on from. */
static void stop(struct daemon *d)
{
	d->stopping = true;
	d->service = service_free(d->service);
	d->registry = registry_free(d->registry);
	if (d->jobs)
		job_queue_stop(d->jobs);
	request_stop(d);
	if (d->units)
		trace_units_stop(d->units);
	if (d->capture)
		workqueue_stop(d->capture);
	if (d->disk)
		workqueue_stop(d->disk);
	d->jobs = job_queue_free(d->jobs);
	d->targets = target_list_free(d->targets);
	d->units = trace_units_free(d->units);
	d->spool = spool_free(d->spool);
	d->capture = workqueue_free(d->capture);
	d->disk = workqueue_free(d->disk);
	/* The opener is left to itself: it may be waiting for someone's file system. */
}

int main(int argc, char **argv)
{
	static struct daemon d;
	int rc = settings_load(argc, argv, &d.settings);

	if (rc > 0)
		return EXIT_SUCCESS;
	if (rc < 0)
		return EXIT_USAGE;
	if (d.settings.check_only) {
		printf("csightd: the configuration is right\n");
		return EXIT_SUCCESS;
	}
	log_setup("csightd", d.settings.verbose ? LOG_DEBUG : LOG_INFO);
	umask(077);
	signal(SIGPIPE, SIG_IGN);
	d.started_ns = now_ns(CLOCK_MONOTONIC);
	raise_limits(&d);
	rc = start(&d);
	if (rc == 0)
		rc = run(&d);
	stop(&d);
	return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
