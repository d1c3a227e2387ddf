/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "daemon/build-ids.h"
#include "daemon/decode-images.h"
#include "daemon/decode-server.h"
#include "daemon/fair-queue.h"
#include "daemon/job-budget.h"
#include "daemon/job-files.h"
#include "daemon/job.h"
#include "daemon/symbol-cache.h"
#include "lib/base/escape.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/decoder/decoder.h"

enum {
	KILL_SECONDS = 5,     /* until a child has obeyed a kill; then its server is killed */
	TICK_MS = 100,        /* between two looks at the outputs */
	NEAR_LIMIT = 1 << 20, /* bytes */
	LOSSES_MAX = 3        /* attempts that ended with the server, and are not counted */
};

/* One decode. It exists until its result or failure is on disk. */
struct job {
	struct job_queue *jobs;
	TAILQ_ENTRY(job) link;
	struct work prepare, finish;
	uint64_t id; /* from decode_server_submit(); 0: not submitted */
	struct snapshot *snapshot;
	struct fair_item turn; /* of the snapshot's owner */
	uint64_t began_ns;     /* CLOCK_MONOTONIC */
	struct job_files files;
	struct decode_images *images;
	int fd; /* to the child */
	struct event *event, *timer, *tick;
	struct job_budget budget;
	bool waits;       /* for room in the spool */
	bool closed;      /* the child's end of fd */
	bool child_ended; /* status is known */
	bool killed;      /* its child is to end */
	bool over;        /* job_conclude() has been called */
	int status;       /* of the child, as from waitpid() */
	json_object *result;
	char *failed;            /* why there is no result */
	bool crashed;            /* another attempt may succeed */
	enum snapshot_state end; /* the state that the snapshot gets */
	char *state_text;        /* state.json */
	uint64_t size;           /* of the snapshot's directory */
	int rc;
};

struct queued_snapshot {
	struct fair_item item;
	struct snapshot *snapshot;
};

struct job_queue {
	struct job_queue_options o;
	struct decode_server *decoder;
	struct build_ids *build_ids;
	struct symbol_cache *symbol_cache;
	struct event *child; /* SIGCHLD */
	struct fair_queue queue;
	TAILQ_HEAD(, job) running;
	unsigned n_running;
	bool stopping;
	char opencsd[32]; /* the version that the last decode used */
};

static void begin_jobs(struct job_queue *j);

static void job_free(struct job *job)
{
	job_files_done(&job->files);
	json_object_put(job->result);
	free(job->failed);
	free(job->state_text);
	snapshot_unref(job->snapshot);
	free(job);
}

static uid_t job_owner(const struct job *job)
{
	return ledger_owner(job->jobs->o.ledger, job->snapshot->uid);
}

static void job_fail(struct job *job, bool crashed, const char *fmt, ...) _printf_(3, 4);

static void job_fail(struct job *job, bool crashed, const char *fmt, ...)
{
	va_list args;

	if (job->failed)
		return;
	va_start(args, fmt);
	if (vasprintf(&job->failed, fmt, args) < 0)
		job->failed = NULL;
	va_end(args);
	job->crashed = crashed;
}

/* Drops what a decode needs of a snapshot that is ready or raw now, and reports its state. */
static void report_settled(struct job_queue *j, struct snapshot *s)
{
	snapshot_drop_files(s);
	spool_room_rest(&s->claim);
	ledger_return(&s->waiting);
	spool_report(j->o.spool, s, SNAPSHOT_SETTLED);
}

/* Spool thread: keeps or deletes the outputs of the decode, and writes the new state. */
static void run_finish(struct work *w)
{
	struct job *job = container_of(w, struct job, finish);
	int rc = 0;

	if (job->end == SNAPSHOT_READY)
		rc = job_files_keep(&job->files);
	else
		job_files_drop(&job->files);
	if (rc == 0)
		rc = snapshot_write_state(spool_fd(job->jobs->o.spool), job->snapshot->id, job->state_text);
	job->size = job_files_size(&job->files);
	job->rc = rc;
}

static void job_queue_push(struct job_queue *j, struct snapshot *s)
{
	struct queued_snapshot *w = calloc(1, sizeof(*w));

	if (!w)
		return;
	w->snapshot = snapshot_ref(s);
	fair_queue_push(&j->queue, &w->item, ledger_owner(j->o.ledger, s->uid));
}

static void finish_ran(struct work *w)
{
	struct job *job = container_of(w, struct job, finish);
	struct job_queue *j = job->jobs;
	struct snapshot *s = job->snapshot;
	uint64_t ns;

	if (job->rc < 0)
		log_error("cannot write the state of snapshot %s: %s", s->id, strerror(-job->rc));
	if (job->size)
		s->size = job->size;
	spool_room_settle(&s->claim, s->size);
	snapshot_move(s, job->end);
	TAILQ_REMOVE(&j->running, job, link);
	j->n_running--;
	ns = now_ns(CLOCK_MONOTONIC) - job->began_ns;
	fair_queue_charge(&j->queue, &job->turn, ns);
	ledger_spend(j->o.ledger, s->uid, LEDGER_DECODER, ns / 1000000, NULL);
	if (job->end == SNAPSHOT_QUEUED) {
		job_queue_push(j, s);
	} else {
		report_settled(j, s);
		spool_room_vacuum(j->o.spool, s);
	}
	job_free(job);
	begin_jobs(j);
}

/* Ends a job with its result or its failure; the outcome is then written to disk. */
static void job_conclude(struct job *job)
{
	struct snapshot *s = job->snapshot;
	const char *ended;

	if (job->over)
		return;
	job->over = true;
	if (job->event)
		event_free(job->event);
	if (job->timer)
		event_free(job->timer);
	if (job->tick)
		event_free(job->tick);
	job->event = job->timer = job->tick = NULL;
	decode_images_end(job->images);
	job->images = NULL;
	closep(&job->fd);
	if (job->result && !job->failed) {
		job->end = SNAPSHOT_READY;
		snapshot_set_decode(s, job->result);
		if (s->ended && json_get_str(s->ended, "text", &ended) == 0)
			log_info("snapshot %s: process %d (%s) %s", s->id, (int)s->pid, esc(s->name), esc(ended));
		free(s->reason);
		s->reason = NULL;
	} else {
		job->end = job->crashed && s->attempts < SNAPSHOT_ATTEMPTS ? SNAPSHOT_QUEUED : SNAPSHOT_RAW;
		snapshot_set_reason(s, "%s", job->failed ? job->failed : "out of memory");
		log_warning("snapshot %s: decode %u failed: %s", s->id, s->attempts, esc(s->reason ? s->reason : ""));
	}
	job->state_text = snapshot_state_text(s, job->end);
	workqueue_submit_for(job->jobs->o.spool_queue, &job->finish, job_owner(job));
}

/* Concludes the job when its child has exited and its socket is read to the end. */
static void check_end(struct job *job)
{
	if (!job->closed || !job->child_ended)
		return;
	if (!job->result) {
		char how[128];

		decoder_death(job->status, how, sizeof(how));
		job_fail(job, true, "csight-decode: %s", how);
	}
	job_conclude(job);
}

static void on_image(void *data, uint32_t index, int fd, const char *reason)
{
	struct job *job = data;
	int rc = decoder_reply_image(job->fd, index, fd, reason);

	/* A child that was killed has closed its end: check_end() then reports how it ended. */
	if (rc == 0 || rc == -EPIPE || rc == -ECONNRESET)
		return;
	job_fail(job, true, "cannot send an image to csight-decode");
	job_conclude(job);
}

/* A decode that could not write more fails with the error of the write, which does not say why. */
static void fail_decode(struct job *job, const char *reason)
{
	uint64_t largest, written = job_files_written(&job->files, &largest);

	if (largest + NEAR_LIMIT < job->budget.limit)
		job_fail(job, false, "%s", reason ? reason : "csight-decode gave no reason");
	else
		job_fail(job, !job->budget.exhausted,
			 "there is no room in the spool for the result of its decode, which has written %llu KiB so "
			 "far (%s)",
			 (unsigned long long)written >> 10, reason ? reason : "no reason given");
}

static void handle_event(struct job *job, struct decoder_event *e)
{
	struct snapshot *s = job->snapshot;
	const char *opencsd;
	int rc;

	switch (e->type) {
	case DECODER_IMAGE:
		decode_images_ask(job->images, e);
		break;
	case DECODER_FILE:
		/* A perf.data consists of one file. */
		if (decoder_reply_file(job->fd, -1, NULL) < 0)
			job_fail(job, true, "cannot send a file to csight-decode");
		break;
	case DECODER_TABLE:
		if (decoder_reply_table(job->fd, symbol_cache_find(job->jobs->symbol_cache, s->uid, e->path)) < 0)
			job_fail(job, true, "cannot send a symbol table to csight-decode");
		break;
	case DECODER_KEEP:
		/* Another decode builds a table that cannot be kept again. */
		rc = symbol_cache_keep(job->jobs->symbol_cache, s->uid, e->path, e->fd);
		if (rc < 0)
			log_debug("snapshot %s: cannot keep a symbol table: %s", s->id, strerror(-rc));
		break;
	case DECODER_PROGRESS:
		s->done = e->done;
		s->total = e->total;
		spool_report(job->jobs->o.spool, s, SNAPSHOT_PROGRESSED);
		break;
	case DECODER_RESULT:
		if (!job->result) {
			job->result = json_object_get(e->body);
			json_object_object_del(job->result, "type");
			if (json_get_str(job->result, "opencsd", &opencsd) == 0)
				snprintf(job->jobs->opencsd, sizeof(job->jobs->opencsd), "%s", opencsd);
		}
		break;
	case DECODER_FAILED:
		fail_decode(job, e->reason);
		break;
	}
}

static void on_job(evutil_socket_t fd, short what, void *data)
{
	struct job *job = data;
	/* Bounded, so that a child that sends without end does not block the loop. */
	for (int n = 0; n < 64; n++) {
		struct decoder_event e;
		int rc = decoder_receive(fd, MSG_DONTWAIT, &e);

		if (rc == -EAGAIN)
			return;
		if (rc < 0) {
			if (rc != -EPIPE && rc != -ECONNRESET)
				job_fail(job, true, "csight-decode sent an invalid message");
			job->closed = true;
			event_free(job->event);
			job->event = NULL;
			check_end(job);
			return;
		}
		handle_event(job, &e);
		decoder_event_done(&e);
		if (job->over)
			return;
	}
}

/* The child must end; then check_end() concludes the job, with the reason of its failure. */
static void job_kill(struct job *job)
{
	struct timeval limit = { KILL_SECONDS, 0 };

	job->killed = true;
	decode_server_kill_job(job->jobs->decoder, job->id);
	event_add(job->timer, &limit);
}

static void on_deadline(evutil_socket_t fd, short what, void *data)
{
	struct job *job = data;

	if (!job->result)
		job_fail(job, false, "the decode took longer than %llu s (job-timeout)",
			 (unsigned long long)job->jobs->o.settings->job_timeout);
	if (!job->killed) {
		job_kill(job);
		return;
	}
	/* The server does not answer. */
	decode_server_kill(job->jobs->decoder);
	job_conclude(job);
}

/* Lets the outputs grow. */
static void on_tick(evutil_socket_t fd, short what, void *data)
{
	struct job *job = data;

	if (job_budget_grow(&job->budget, &job->files))
		decode_server_extend(job->jobs->decoder, job->id, job->budget.limit);
}

static void run_prepare(struct work *w)
{
	struct job *job = container_of(w, struct job, prepare);
	int spool = spool_fd(job->jobs->o.spool);

	job->rc = snapshot_write_state(spool, job->snapshot->id, job->state_text);
	free(job->state_text);
	job->state_text = NULL;
	if (job->rc == 0)
		job->rc = job_files_open(&job->files, spool, job->snapshot->id);
}

static int start_child(struct job *job)
{
	struct job_queue *j = job->jobs;
	struct decoder_start start = { .input = "perf.data",
				       .input_fd = job->files.input,
				       .code_fd = job->files.code,
				       .jitdump_fd = job->files.jitdump,
				       .outputs = job_files_types,
				       .output_fds = job->files.outputs,
				       .n_outputs = JOB_OUTPUTS,
				       .tables = j->o.settings->symbols_max > 0,
				       .snapshot = job->files.info };
	struct timeval limit = { (time_t)j->o.settings->job_timeout, 0 }, tick = { 0, TICK_MS * 1000 };
	int rc;

	job->fd = decode_server_submit(j->decoder, job->budget.limit, &job->id);
	if (job->fd < 0)
		return job->fd;
	job->event = event_new(j->o.base, job->fd, EV_READ | EV_PERSIST, on_job, job);
	job->timer = evtimer_new(j->o.base, on_deadline, job);
	job->tick = event_new(j->o.base, -1, EV_PERSIST, on_tick, job);
	if (!job->event || !job->timer || !job->tick)
		return -ENOMEM;
	rc = decode_images_new(&(struct decode_images_options){ .queue = j->o.open_queue,
								.snapshot = job->snapshot,
								.dir = job->files.dir,
								.info = job->files.info,
								.answer = on_image,
								.data = job },
			       &job->images);
	if (rc < 0)
		return rc;
	rc = decoder_start(job->fd, &start);
	if (rc < 0)
		return rc;
	event_add(job->event, NULL);
	event_add(job->timer, &limit);
	event_add(job->tick, &tick);
	job_files_close_input(&job->files);
	return 0;
}

static void start_when_room(struct job *job);

static void prepare_ran(struct work *w)
{
	struct job *job = container_of(w, struct job, prepare);

	if (job->rc < 0) {
		job_fail(job, false, "cannot open the snapshot: %s", strerror(-job->rc));
		job_conclude(job);
		return;
	}
	if (job->jobs->stopping) {
		job->snapshot->attempts--;
		job_fail(job, true, "csightd ended");
		job_conclude(job);
		return;
	}
	start_when_room(job);
}

static void start_when_room(struct job *job)
{
	struct spool_refusal why = { 0 };
	int rc = job_budget_begin(&job->budget, job->snapshot, job->snapshot->size, &why);

	/* What others write was claimed at its most. */
	job->waits = rc == -EAGAIN || (rc < 0 && spool_unwritten(job->jobs->o.spool) > 0);
	if (job->waits)
		return;
	if (rc < 0) {
		job_fail(job, false, "there is no room in the spool for the result of its decode: %s", why.reason.text);
		job_conclude(job);
		return;
	}
	job->began_ns = now_ns(CLOCK_MONOTONIC);
	job->rc = start_child(job);
	if (job->rc < 0) {
		job_fail(job, true, "cannot start the decode in csight-decode: %s", strerror(-job->rc));
		job_conclude(job);
		return;
	}
	spool_report(job->jobs->o.spool, job->snapshot, SNAPSHOT_PROGRESSED);
}

/* turn: of its owner, which ends with the job. */
static void job_begin(struct job_queue *j, struct snapshot *s, struct fair_item *turn)
{
	struct job *job = calloc(1, sizeof(*job));

	if (!job) {
		fair_queue_charge(&j->queue, turn, 0);
		job_queue_push(j, s);
		return;
	}
	job->jobs = j;
	job->snapshot = snapshot_ref(s);
	job->turn = *turn;
	job->began_ns = now_ns(CLOCK_MONOTONIC);
	job->fd = -1;
	job_files_init(&job->files);
	job->prepare = (struct work){ run_prepare, prepare_ran };
	job->finish = (struct work){ run_finish, finish_ran };
	TAILQ_INSERT_TAIL(&j->running, job, link);
	j->n_running++;
	snapshot_move(s, SNAPSHOT_DECODING);
	s->attempts++;
	s->done = s->total = 0;
	job->state_text = snapshot_state_text(s, SNAPSHOT_DECODING);
	workqueue_submit_for(j->o.spool_queue, &job->prepare, job_owner(job));
}

/* Takes the next snapshot; fair_queue_charge() of *ret_turn follows. The reference is the caller's. */
static struct snapshot *job_queue_pop(struct job_queue *j, struct fair_item *ret_turn)
{
	struct fair_item *item = fair_queue_pop(&j->queue);
	struct queued_snapshot *w = container_of(item, struct queued_snapshot, item);
	struct snapshot *s = w->snapshot;

	*ret_turn = w->item;
	free(w);
	return s;
}

/* Its state on disk stays queued, so that the next start of the daemon tries again. */
static void give_up(struct job_queue *j, struct snapshot *s)
{
	snapshot_set_reason(s, "%s", decode_server_why(j->decoder));
	snapshot_move(s, SNAPSHOT_RAW);
	report_settled(j, s);
}

/* Begins as many decodes as may run. */
static void begin_jobs(struct job_queue *j)
{
	/* decode_server_new() calls on_server_ready() before it has returned j->decoder. */
	bool hopeless = j->decoder && decode_server_hopeless(j->decoder);

	while (j->decoder && !j->stopping && !fair_queue_empty(&j->queue) &&
	       (hopeless || (decode_server_ready(j->decoder) && j->n_running < j->o.settings->jobs))) {
		struct fair_item turn;
		struct snapshot *s = job_queue_pop(j, &turn);

		if (!s->removed && !hopeless) {
			job_begin(j, s, &turn);
		} else {
			fair_queue_charge(&j->queue, &turn, 0);
			if (!s->removed)
				give_up(j, s);
		}
		snapshot_unref(s);
	}
}

static void on_child_ended(void *data, uint64_t id, int status)
{
	struct job_queue *j = data;
	struct job *job;

	TAILQ_FOREACH (job, &j->running, link)
		if (job->id == id && !job->over) {
			job->child_ended = true;
			job->status = status;
			/* Its last messages may still be in the socket. */
			if (job->event)
				on_job(job->fd, EV_READ, job);
			else
				check_end(job);
			return;
		}
}

static void on_lost(void *data)
{
	struct job_queue *j = data;
	struct job *job, *next;

	for (job = TAILQ_FIRST(&j->running); job; job = next) {
		next = TAILQ_NEXT(job, link);
		if (job->fd < 0 || job->over)
			continue;
		if (!job->result && !job->failed) {
			/* It lost its child with others, which may have been the cause: this is no attempt. */
			if (job->snapshot->losses++ < LOSSES_MAX)
				job->snapshot->attempts--;
			job_fail(job, true, "the server of csight-decode ended");
		}
		job_conclude(job);
	}
	begin_jobs(j);
}

static void on_server_ready(void *data)
{
	begin_jobs(data);
}

static void on_sigchld(evutil_socket_t fd, short what, void *data)
{
	struct job_queue *j = data;

	decode_server_reap(j->decoder);
	begin_jobs(j);
}

int job_queue_new(const struct job_queue_options *options, struct job_queue **ret)
{
	static const struct decode_server_events events = { on_child_ended, on_lost, on_server_ready };
	struct job_queue *j = calloc(1, sizeof(*j));
	int rc;

	if (!j)
		return -ENOMEM;
	j->o = *options;
	fair_queue_init(&j->queue);
	TAILQ_INIT(&j->running);
	j->child = evsignal_new(options->base, SIGCHLD, on_sigchld, j);
	if (!j->child || event_add(j->child, NULL) < 0) {
		job_queue_free(j);
		return -ENOMEM;
	}
	rc = symbol_cache_new(options->settings->symbols_max, &j->symbol_cache);
	if (rc == 0)
		rc = decode_server_new(options->base, options->settings->decode_user, &events, j, &j->decoder);
	if (rc == 0)
		rc = build_ids_new(options->base, j->decoder, &j->build_ids);
	if (rc < 0) {
		job_queue_free(j);
		return rc;
	}
	*ret = j;
	return 0;
}

void job_queue_retry(struct job_queue *j)
{
	struct job *job, *next;

	for (job = TAILQ_FIRST(&j->running); job; job = next) {
		next = TAILQ_NEXT(job, link);
		if (job->waits && !job->over)
			start_when_room(job);
	}
}

void job_queue_add(struct job_queue *j, struct snapshot *s)
{
	if (s->attempts >= SNAPSHOT_ATTEMPTS) {
		/* The daemon ended during each attempt. */
		snapshot_set_reason(s, "its decode was begun %u times and did not end", s->attempts);
		snapshot_move(s, SNAPSHOT_RAW);
		report_settled(j, s);
		return;
	}
	job_queue_push(j, s);
	begin_jobs(j);
}

struct build_ids *job_queue_build_ids(struct job_queue *j)
{
	return j->build_ids;
}

unsigned job_queue_count(const struct job_queue *j, uid_t uid)
{
	const struct job *job;
	unsigned n = (unsigned)(uid ? fair_queue_count(&j->queue, ledger_owner(j->o.ledger, uid)) : j->queue.waiting);

	TAILQ_FOREACH (job, &j->running, link)
		n += uid == 0 || uid == job->snapshot->uid;
	return n;
}

const char *job_queue_trouble(const struct job_queue *j)
{
	return decode_server_ready(j->decoder) ? NULL : decode_server_why(j->decoder);
}

const char *job_queue_opencsd(const struct job_queue *j)
{
	return j->opencsd[0] ? j->opencsd : NULL;
}

void job_queue_stop(struct job_queue *j)
{
	struct job *job, *next;

	j->stopping = true;
	build_ids_stop(j->build_ids);
	for (job = TAILQ_FIRST(&j->running); job; job = next) {
		next = TAILQ_NEXT(job, link);
		if ((job->fd < 0 && !job->waits) || job->over)
			continue;
		job->snapshot->attempts--;
		job_fail(job, true, "csightd ended");
		job_conclude(job);
	}
}

struct job_queue *job_queue_free(struct job_queue *j)
{
	if (!j)
		return NULL;
	assert(TAILQ_EMPTY(&j->running));
	while (!fair_queue_empty(&j->queue)) {
		struct fair_item turn;

		snapshot_unref(job_queue_pop(j, &turn));
		fair_queue_charge(&j->queue, &turn, 0);
	}
	fair_queue_done(&j->queue);
	build_ids_free(j->build_ids);
	decode_server_free(j->decoder);
	symbol_cache_free(j->symbol_cache);
	if (j->child)
		event_free(j->child);
	free(j);
	return NULL;
}
