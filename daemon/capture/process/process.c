/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <unistd.h>

#include "daemon/capture/process/address-space.h"
#include "daemon/capture/process/process-internal.h"
#include "lib/base/util.h"

enum { WATCH_SHARE = 20 /* scans take at most one part in this many of the time */ };

static uint64_t clock_ns(void)
{
	return now_ns(CLOCK_MONOTONIC);
}

static void run_scan(void *data)
{
	struct process_code *p = data;

	p->scan_rc = process_scan_now(p, p->scan_now);
}

static void drop_scan(void *data)
{
	process_free(data);
}

/* Scans, in a thread of its own if the process is to be read. *p becomes NULL if that was given up. */
static int scan_apart(struct process_code **p, uint64_t now)
{
	const struct address_space_call call = { run_scan, drop_scan, *p };
	int rc;

	if (!process_scan_needed(*p, now))
		return process_scan_now(*p, now);
	(*p)->scan_now = now;
	rc = address_space_call((struct address_space_of){ (*p)->account, (*p)->proc.pid }, &call);
	if (rc == -ETIMEDOUT)
		*p = NULL;
	else
		(*p)->skipped = rc;
	return rc < 0 ? rc : (*p)->scan_rc;
}

int process_new(const struct process_of *of, bool data, uint64_t now_ns, struct process_code **ret)
{
	struct process_code *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return -ENOMEM;
	p->proc.dir = p->proc.root = -1;
	p->jitdump.fd = -1;
	p->account = of->account;
	p->pidfd = fcntl(of->pidfd, F_DUPFD_CLOEXEC, 0);
	rc = p->pidfd < 0 ? -errno : proc_dir_open(of->pid, p->pidfd, &p->proc);
	if (rc == 0)
		rc = code_history_new(data, &p->history);
	if (rc == 0)
		rc = scan_apart(&p, now_ns);
	if (rc < 0) {
		process_free(p);
		return rc;
	}
	*ret = p;
	return 0;
}

struct process_code *process_free(struct process_code *p)
{
	if (!p)
		return NULL;
	for (size_t i = 0; i < p->n_images; i++) {
		closep(&p->images[i].fd);
		free(p->images[i].path);
	}
	for (size_t i = 0; i < p->n_paths; i++)
		free(p->paths[i]);
	free(p->images);
	free(p->paths);
	free(p->names);
	closep(&p->jitdump.fd);
	code_history_free(p->history);
	proc_dir_done(&p->proc);
	closep(&p->pidfd);
	free(p);
	return NULL;
}

uint64_t process_clock(const struct process_code *p)
{
	return clock_ns() + (uint64_t)p->shift;
}

void process_known_since(struct process_code *p, uint64_t time)
{
	p->cut = MAX(p->cut, time);
}

void process_set_shift(struct process_code *p, int64_t shift_ns)
{
	p->shift = shift_ns;
	p->shift_known = true;
}

bool process_scan(struct process_code **p, uint64_t now_ns)
{
	return scan_apart(p, now_ns) > 0;
}

void process_confirm(struct process_code *p, uint64_t now_ns)
{
	if (now_ns > p->scan_ns)
		code_history_confirm(p->history, now_ns);
}

bool process_scan_limited(struct process_code **p, uint64_t now_ns)
{
	uint64_t begun = clock_ns();
	bool read;

	if (begun < (*p)->rest_until) {
		process_confirm(*p, now_ns);
		return false;
	}
	read = process_scan(p, now_ns);
	if (*p)
		(*p)->rest_until = clock_ns() + WATCH_SHARE * (clock_ns() - begun);
	return read;
}

struct old_name {
	uint32_t tid;
	size_t index;
};

static int compare_old_names(const void *left, const void *right)
{
	const struct old_name *a = left, *b = right;

	return a->tid != b->tid ? (a->tid > b->tid) - (a->tid < b->tid) : (a->index > b->index) - (a->index < b->index);
}

/* Drops old names of threads that have ended, and all but the last old name of live threads. */
static void forget_names(struct process_code *p, uint64_t before)
{
	_cleanup_free_ struct old_name *old = calloc(p->n_names + 1, sizeof(*old));
	size_t n = 0, kept = 0;

	for (size_t i = 0; old && i < p->n_names; i++)
		if (p->names[i].time < before)
			old[n++] = (struct old_name){ p->names[i].tid, i };
	if (n)
		qsort(old, n, sizeof(*old), compare_old_names);
	for (size_t i = 0; i < n; i++) {
		char task[32];

		snprintf(task, sizeof(task), "task/%u", old[i].tid);
		/* A name of no thread is dropped below. */
		if ((i + 1 < n && old[i + 1].tid == old[i].tid) || faccessat(p->proc.dir, task, F_OK, 0) < 0)
			p->names[old[i].index].tid = 0;
	}
	for (size_t i = 0; i < p->n_names; i++)
		if (p->names[i].tid)
			p->names[kept++] = p->names[i];
	p->n_names = kept;
}

void process_forget(struct process_code *p, uint64_t before_ns)
{
	int rc = code_history_forget(p->history, before_ns);

	forget_names(p, before_ns);
	if (p->cut <= before_ns)
		p->cut = 0;
	/* The failure may have dropped later records, too. */
	if (rc < 0)
		process_start_over(p, MAX(process_clock(p), before_ns + 1));
	p->full = p->crowded = p->lost = false;
	for (size_t i = 0; i < p->n_images; i++)
		if (code_history_image_time(p->history, p->images[i].id) == UINT64_MAX) {
			/* Open the file again if it is mapped again. */
			closep(&p->images[i].fd);
			p->images[i].tried = p->images[i].handed = false;
		}
}

uint64_t process_memory(const struct process_code *p)
{
	return sizeof(*p) + code_history_memory(p->history) + p->n_images * sizeof(*p->images) +
	       p->n_names * sizeof(*p->names);
}
