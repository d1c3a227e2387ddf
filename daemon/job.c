/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/job-internal.h"
#include "lib/base/escape.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/decoder/decoder.h"

enum {
	CLOSED_SECONDS = 2,   /* until a child that has closed its socket ends; then it is killed */
	KILL_SECONDS = 5,     /* until a child has obeyed a kill; then its server is killed */
	TICK_MS = 100,        /* between two looks at the outputs */
	NEAR_LIMIT = 1 << 20, /* bytes */
};

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
	return ledger_owner(job->jobs->o.ledger, job->snapshot->owner);
}

void job_fail(struct job *job, bool crashed, const char *fmt, ...)
{
	va_list args;

	if (job->unsuccessful)
		return;
	job->unsuccessful = true;
	va_start(args, fmt);
	if (vasprintf(&job->failed, fmt, args) < 0)
		job->failed = NULL;
	va_end(args);
	job->crashed = crashed;
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
	if (job->slow)
		j->n_slow--;
	else
		j->n_running--;
	ns = now_ns(CLOCK_MONOTONIC) - job->began_ns;
	fair_queue_charge(&j->queue, &job->turn, ns);
	ledger_spend(j->o.ledger, s->owner, LEDGER_DECODER, ns / 1000000, NULL);
	if (job->end == SNAPSHOT_QUEUED) {
		job_queue_push(j, s);
	} else {
		job_queue_settle(j, s);
		spool_room_vacuum(j->o.spool, s);
	}
	job_free(job);
	job_queue_begin(j);
}

void job_conclude(struct job *job)
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
	if (job->result && !job->unsuccessful) {
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

/*
 * Fails the job if a reply for which the child waits could not be sent. rc: the result of sending it; what: its name.
 */
static void check_sent(struct job *job, int rc, const char *what)
{
	/* A child that was killed has closed its end: check_end() then reports how it ended. */
	if (rc == 0 || rc == -EPIPE || rc == -ECONNRESET)
		return;
	job_fail(job, true, "cannot send %s to csight-decode: %s", what, strerror(-rc));
	job_conclude(job);
}

static void on_image(void *data, uint32_t index, int fd, const char *reason)
{
	struct job *job = data;

	check_sent(job, decoder_reply_image(job->fd, index, fd, reason), "an image");
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

/* The child must end; then check_end() concludes the job, with the reason of its failure. */
static void job_kill(struct job *job)
{
	struct timeval limit = { KILL_SECONDS, 0 };

	job->killed = true;
	decode_server_kill_job(job->jobs->decoder, job->id);
	event_add(job->timer, &limit);
}

void job_lose(struct job *job)
{
	/* Attempts that are not counted. */
	enum { LOSSES_MAX = 3 };

	if (job->snapshot->losses++ < LOSSES_MAX)
		job->snapshot->attempts--;
	job_fail(job, true, "the server of csight-decode ended");
}

/* The child sends no more, or something invalid: rc. */
static void close_job(struct job *job, int rc)
{
	const struct timeval limit = { CLOSED_SECONDS, 0 };

	job->closed = true;
	event_free(job->event);
	job->event = NULL;
	if (rc != -EPIPE && rc != -ECONNRESET)
		job_fail(job, true, "cannot read a message of csight-decode: %s",
			 rc == -EBADMSG ? "it is invalid" : strerror(-rc));
	/* The child may wait for a reply, or be about to end. */
	if (!job->child_ended)
		event_add(job->timer, &limit);
	check_end(job);
}

static void handle_event(struct job *job, struct decoder_event *e)
{
	struct snapshot *s = job->snapshot;
	const char *opencsd;
	int rc;

	if ((e->type == DECODER_TABLE || e->type == DECODER_KEEP) && !job->tables) {
		close_job(job, -EBADMSG);
		return;
	}
	switch (e->type) {
	case DECODER_IMAGE:
		if (decode_images_ask(job->images, e) < 0)
			close_job(job, -EBADMSG);
		break;
	case DECODER_FILE:
		/* A perf.data consists of one file. */
		check_sent(job, decoder_reply_file(job->fd, -1, NULL), "a file");
		break;
	case DECODER_TABLE:
		rc = decoder_reply_table(job->fd, symbol_cache_find(job->jobs->symbol_cache, s->uid, e->path));
		check_sent(job, rc, "a symbol table");
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
		job->result = json_object_get(e->body);
		json_object_object_del(job->result, "type");
		if (json_get_str(job->result, "opencsd", &opencsd) == 0)
			snprintf(job->jobs->opencsd, sizeof(job->jobs->opencsd), "%s", opencsd);
		break;
	case DECODER_FAILED:
		fail_decode(job, e->reason);
		break;
	}
}

/* Handles one message, so that a child that sends without end does not block the loop: the event comes again. */
static void on_job(evutil_socket_t fd, short what, void *data)
{
	_cleanup_(decoder_event_done) struct decoder_event e = { 0 };
	struct job *job = data;
	int rc = decoder_receive(fd, MSG_DONTWAIT, &e);

	if (rc == -EAGAIN)
		return;
	/* The result is the last message. */
	if (rc == 0 && job->result)
		rc = -EBADMSG;
	if (rc < 0)
		close_job(job, rc);
	else
		handle_event(job, &e);
}

void job_child_ended(struct job *job, int status)
{
	job->child_ended = true;
	job->status = status;
	/* Its last messages may still be in the socket. */
	if (job->event)
		on_job(job->fd, EV_READ, job);
	else
		check_end(job);
}

static void on_deadline(evutil_socket_t fd, short what, void *data)
{
	struct job *job = data;

	if (!job->result && job->closed)
		job_fail(job, true, "csight-decode closed its socket and did not end");
	else if (!job->result)
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

/* Lets the outputs grow, and others have the place of a slow decode. */
static void on_tick(evutil_socket_t fd, short what, void *data)
{
	struct job *job = data;

	job_queue_yield(job->jobs, job);
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

/* Tables are kept for the user of the process, who may not have those of the kernel. */
static bool is_of_kernel(const struct snapshot *s)
{
	return s->owner != s->uid;
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
				       .tables = job->tables,
				       .snapshot = job->files.info,
				       .description = job->files.description >= 0 ? &job->files.description : NULL };
	struct timeval limit = { (time_t)j->o.settings->job_timeout, 0 }, tick = { 0, TICK_MS * 1000 };
	char about[SNAPSHOT_ID_SIZE + 16];
	int rc;

	snprintf(about, sizeof(about), "snapshot %s", job->snapshot->id);
	job->fd = decode_server_submit(j->decoder, about, job->budget.limit, &job->id);
	if (job->fd < 0)
		return job->fd;
	job->event = event_new(j->o.base, job->fd, EV_READ | EV_PERSIST, on_job, job);
	job->timer = evtimer_new(j->o.base, on_deadline, job);
	job->tick = event_new(j->o.base, -1, EV_PERSIST, on_tick, job);
	if (!job->event || !job->timer || !job->tick)
		return -ENOMEM;
	rc = decode_images_new(&(struct decode_images_options){ .base = j->o.base,
								.opener = j->o.settings->opener,
								.queues = j->o.user_queues,
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
	job->began_ns = now_ns(CLOCK_MONOTONIC);
	job->rc = start_child(job);
	if (job->rc < 0) {
		if (job->rc == -EPIPE || job->rc == -ECONNRESET)
			job_lose(job);
		else
			job_fail(job, true, "cannot start the decode in csight-decode: %s", strerror(-job->rc));
		job_conclude(job);
		return;
	}
	spool_report(job->jobs->o.spool, job->snapshot, SNAPSHOT_PROGRESSED);
}

/* Returns whether a decode that got no room may get it later. Claims of what is being written are upper bounds. */
static bool may_wait(const struct job_queue *j, const struct snapshot *s, int rc, const struct spool_refusal *why)
{
	if (rc == 0 ||
	    (s->waits_ns && now_ns(CLOCK_MONOTONIC) - s->waits_ns > j->o.settings->job_timeout * 1000000000u))
		return false;
	if (rc == -EDQUOT && !why->limit.machine)
		return spool_room_writing(j->o.spool, s->owner);
	return rc == -EAGAIN || spool_unwritten(j->o.spool) > 0;
}

bool job_begin(struct job_queue *j, struct snapshot *s, struct fair_item *turn)
{
	struct job *job = calloc(1, sizeof(*job));
	struct spool_refusal why = { 0 };
	int rc;

	if (!job) {
		fair_queue_charge(&j->queue, turn, 0);
		job_queue_give_up(j, s, "out of memory");
		return true;
	}
	rc = job_budget_begin(&job->budget, s, s->size, &why);
	if (turn->flow && may_wait(j, s, rc, &why)) {
		free(job);
		return false;
	}
	counters_add_wait(&j->o.counters->decode, s->queued_ns);
	job->jobs = j;
	job->snapshot = snapshot_ref(s);
	job->turn = *turn;
	job->began_ns = now_ns(CLOCK_MONOTONIC);
	job->fd = -1;
	job_files_init(&job->files);
	job->tables = j->o.settings->symbols_max > 0 && !is_of_kernel(s);
	job->prepare = (struct work){ run_prepare, prepare_ran };
	job->finish = (struct work){ run_finish, finish_ran };
	TAILQ_INSERT_TAIL(&j->running, job, link);
	j->n_running++;
	snapshot_move(s, SNAPSHOT_DECODING);
	s->attempts++;
	s->done = s->total = 0;
	if (rc < 0) {
		job_fail(job, false, "there is no room in the spool for the result of its decode: %s",
			 rc == -EAGAIN ? "what is being removed takes too long" : why.reason.text);
		job_conclude(job);
		return true;
	}
	job->state_text = snapshot_state_text(s, SNAPSHOT_DECODING);
	workqueue_submit_for(j->o.spool_queue, &job->prepare, job_owner(job));
	return true;
}
