/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/duration.h"
#include "lib/csight/async.h"

enum { LABEL_MAX = 64 };

void csight_region_begin(struct csight_region *region, const char *label, uint64_t budget)
{
	*region = (struct csight_region){ .label = label, .budget = budget, .begin = now_ns(CLOCK_MONOTONIC) };
}

/* Copies a label to a JSON string: of characters that one cannot hold, '_' remains. */
static void copy_label(const char *label, char ret[LABEL_MAX + 1])
{
	size_t n = 0;

	for (; label && *label && n < LABEL_MAX; label++) {
		bool plain = *label >= ' ' && *label < 0x7f && *label != '"' && *label != '\\';

		ret[n++] = plain ? *label : '_';
	}
	ret[n] = 0;
}

/* Requests the snapshot of a region. csight-decode reads its labels, and marks the region in the timeline. */
static int request(const struct csight_region *region, struct csight *c, uint64_t end)
{
	const struct csight_async_options o = { .size = sizeof(o), .every_ms = region->every_ms };
	pid_t pid = region->pid ? region->pid : getpid();
	char label[LABEL_MAX + 1], took[DURATION_SIZE], budget[DURATION_SIZE], text[1024];
	uint64_t ns = end - region->begin;

	copy_label(region->label, label);
	snprintf(text, sizeof(text),
		 ",\"why\":\"region %s took %s, its budget is %s\",\"labels\":["
		 "{\"name\":\"region\",\"value\":\"%s\"},{\"name\":\"region-budget\",\"value\":\"%ju\"},"
		 "{\"name\":\"region-ns\",\"value\":\"%ju\"},{\"name\":\"region-end\",\"value\":\"%ju\"},"
		 "{\"name\":\"region-tid\",\"value\":\"%d\"}]",
		 label, duration_text(ns, 0, took), duration_text(region->budget, 0, budget), label,
		 (uintmax_t)region->budget, (uintmax_t)ns, (uintmax_t)end, region->pid ? 0 : (int)gettid());
	return async_snapshot(c, pid, &o, text, NULL);
}

int csight_region_end(struct csight_region *region, struct csight *c)
{
	uint64_t end = now_ns(CLOCK_MONOTONIC);
	int rc, error = errno;

	if (end - region->begin <= region->budget)
		return 0;
	/* A scope may end after a call whose errno the caller wants. */
	rc = c ? request(region, c, end) : -ENOTCONN;
	errno = error;
	return rc < 0 ? rc : 1;
}

__attribute__((noinline)) void csight_stop_indicator(void)
{
	__asm__ volatile("");
}
