/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/job-internal.h"
#include "lib/base/log.h"

enum {
	SLOW_PART = 30, /* of job-timeout, after which a decode is slow */
	SLOW_MAX = 4,   /* slow decodes that others do not wait for */
};

enum { RETRY_SECONDS = 1 /* after which users who wait for room in the spool have another turn, at the latest */ };

void job_queue_settle(struct job_queue *j, struct snapshot *s)
{
	snapshot_drop_files(s);
	spool_room_rest(&s->claim);
	ledger_return(&s->waiting);
	spool_report(j->o.spool, s, SNAPSHOT_SETTLED);
}

void job_queue_push(struct job_queue *j, struct snapshot *s)
{
	snapshot_ref(s);
	s->queued_ns = now_ns(CLOCK_MONOTONIC);
	s->waits_ns = 0;
	fair_queue_push(&j->queue, &s->turn, ledger_owner(j->o.ledger, s->owner));
}

/*
 * Takes the next snapshot; fair_queue_charge() of *ret_turn follows. The reference is the caller's. NULL: there is
 * none, or all users wait for room in the spool.
 */
static struct snapshot *job_queue_pop(struct job_queue *j, struct fair_item *ret_turn)
{
	struct fair_item *item = fair_queue_pop(&j->queue);

	if (!item)
		return NULL;
	*ret_turn = *item;
	return container_of(item, struct snapshot, turn);
}

void job_queue_give_up(struct job_queue *j, struct snapshot *s, const char *why)
{
	snapshot_set_reason(s, "%s", why);
	snapshot_move(s, SNAPSHOT_RAW);
	job_queue_settle(j, s);
}

/* Puts a snapshot back: there is no room for its decode. Its user takes no place of others' decodes meanwhile. */
static void put_back(struct job_queue *j, struct snapshot *s)
{
	const struct timeval pause = { RETRY_SECONDS, 0 };

	if (!s->waits_ns)
		s->waits_ns = now_ns(CLOCK_MONOTONIC);
	fair_queue_put_back(&j->queue, &s->turn);
	snapshot_ref(s);
	if (!event_pending(j->retry, EV_TIMEOUT, NULL))
		event_add(j->retry, &pause);
}

void job_queue_begin(struct job_queue *j)
{
	/* decode_server_new() calls on_server_ready() before it has returned j->decoder. */
	bool hopeless = j->decoder && decode_server_hopeless(j->decoder);
	struct fair_item turn;
	struct snapshot *s;

	while (j->decoder && !j->stopping &&
	       (hopeless || (decode_server_ready(j->decoder) && j->n_running < j->o.settings->jobs)) &&
	       (s = job_queue_pop(j, &turn))) {
		if (!s->removed && !hopeless) {
			if (!job_begin(j, s, &turn))
				put_back(j, s);
		} else {
			fair_queue_charge(&j->queue, &turn, 0);
			if (!s->removed) {
				s->given_up = true;
				job_queue_give_up(j, s, decode_server_why(j->decoder));
			}
		}
		snapshot_unref(s);
	}
}

void job_queue_yield(struct job_queue *j, struct job *job)
{
	uint64_t limit = j->o.settings->job_timeout * 1000000000u / SLOW_PART;

	if (job->slow || j->n_slow >= SLOW_MAX || now_ns(CLOCK_MONOTONIC) - job->began_ns < limit)
		return;
	if (!fair_queue_suspend(&j->queue, &job->turn))
		return;
	job->slow = true;
	j->n_slow++;
	j->n_running--;
	job_queue_begin(j);
}

static void on_child_ended(void *data, uint64_t id, int status)
{
	struct job_queue *j = data;
	struct job *job;

	TAILQ_FOREACH (job, &j->running, link)
		if (job->id == id && !job->over) {
			job_child_ended(job, status);
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
		if (!job->result && !job->unsuccessful)
			job_lose(job);
		job_conclude(job);
	}
	job_queue_begin(j);
}

static void on_retry(evutil_socket_t fd, short what, void *data)
{
	job_queue_retry(data);
}

/* What was given up for the lack of a server is queued again. */
static void on_server_ready(void *data)
{
	struct job_queue *j = data;
	struct snapshot *s;

	TAILQ_FOREACH (s, spool_list(j->o.spool), link) {
		if (!s->given_up || s->removed)
			continue;
		s->given_up = false;
		free(s->reason);
		s->reason = NULL;
		snapshot_move(s, SNAPSHOT_QUEUED);
		job_queue_push(j, s);
	}
	job_queue_begin(j);
}

static void on_sigchld(evutil_socket_t fd, short what, void *data)
{
	struct job_queue *j = data;

	decode_server_reap(j->decoder);
	job_queue_begin(j);
}

/*
 * Returns the user of csight-decode. In a system daemon that is never a user which other services have, too: those
 * could disturb the decodes of all users.
 */
static const char *decode_user(const struct settings *s)
{
	return s->decode_user[0] || !s->system ? s->decode_user : "csight";
}

int job_queue_new(const struct job_queue_options *options, struct job_queue **ret)
{
	struct decode_server_options server = { .base = options->base,
						.user = decode_user(options->settings),
						.socket = options->settings->decoder,
						.events = { on_child_ended, on_lost, on_server_ready } };
	struct job_queue *j = calloc(1, sizeof(*j));
	int rc;

	if (!j)
		return -ENOMEM;
	j->o = *options;
	fair_queue_init(&j->queue);
	TAILQ_INIT(&j->running);
	j->retry = evtimer_new(options->base, on_retry, j);
	j->child = evsignal_new(options->base, SIGCHLD, on_sigchld, j);
	if (!j->retry || !j->child || event_add(j->child, NULL) < 0) {
		job_queue_free(j);
		return -ENOMEM;
	}
	rc = symbol_cache_new(options->settings->symbols_max, &j->symbol_cache);
	server.data = j;
	if (rc == 0)
		rc = decode_server_new(&server, &j->decoder);
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
	event_del(j->retry);
	fair_queue_resume(&j->queue);
	job_queue_begin(j);
}

void job_queue_update(struct job_queue *j)
{
	symbol_cache_limit(j->symbol_cache, j->o.settings->symbols_max);
	job_queue_begin(j);
}

static void add(struct job_queue *j, struct snapshot *s)
{
	if (s->attempts >= SNAPSHOT_ATTEMPTS) {
		/* The daemon ended during each attempt. */
		snapshot_set_reason(s, "its decode was begun %u times and did not end", s->attempts);
		snapshot_move(s, SNAPSHOT_RAW);
		job_queue_settle(j, s);
		return;
	}
	job_queue_push(j, s);
}

void job_queue_add(struct job_queue *j, struct snapshot *s)
{
	add(j, s);
	job_queue_begin(j);
}

void job_queue_add_old(struct job_queue *j)
{
	struct snapshot *s;

	/* None begins meanwhile, since others may be removed for its room. */
	TAILQ_FOREACH (s, spool_list(j->o.spool), link)
		if (s->state == SNAPSHOT_QUEUED)
			add(j, s);
	job_queue_begin(j);
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
		n += uid == 0 || uid == job->snapshot->owner;
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
		if (job->fd < 0 || job->over)
			continue;
		job->snapshot->attempts--;
		job_fail(job, true, "csightd ended");
		job_conclude(job);
	}
}

struct job_queue *job_queue_free(struct job_queue *j)
{
	struct fair_item turn;
	struct snapshot *s;

	if (!j)
		return NULL;
	assert(TAILQ_EMPTY(&j->running));
	fair_queue_resume(&j->queue);
	while ((s = job_queue_pop(j, &turn))) {
		snapshot_unref(s);
		fair_queue_charge(&j->queue, &turn, 0);
	}
	fair_queue_done(&j->queue);
	build_ids_free(j->build_ids);
	decode_server_free(j->decoder);
	symbol_cache_free(j->symbol_cache);
	if (j->retry)
		event_free(j->retry);
	if (j->child)
		event_free(j->child);
	free(j);
	return NULL;
}
