/* SPDX-License-Identifier: MIT */
/* Requests that record: the snapshot exists from the beginning, and its last copy is made when the recording ends. */
#include "config.h"

#include <string.h>

#include "daemon/request-internal.h"
#include "lib/base/util.h"

static void on_progress(void *data)
{
	struct snapshot_request *r = data;

	ledger_settle(&r->memory, recording_memory(r->recording) + REQUEST_COPY_EXTRA);
	r->options.recording(r->options.data, r->snapshot);
}

static void on_recording_ended(void *data)
{
	struct snapshot_request *r = data;
	const char *failure = recording_failure(r->recording);

	if (failure) {
		request_fail(r, REQUEST_FAILED, failure);
		return;
	}
	ledger_return(&r->memory);
	r->recorded = true;
	r->reported = false;
	snapshot_move(r->snapshot, SNAPSHOT_COPYING);
	if (r->list->stopping) {
		request_copy_at_end(r);
		return;
	}
	r->waits = true;
	request_admit_all(r->list);
}

void request_record(struct snapshot_request *r)
{
	struct request_list *list = r->list;
	struct recording_options options = { .base = list->o.base,
					     .queue = list->o.record_queue,
					     .capture_queue = list->o.capture_queue,
					     .spool = list->o.spool,
					     .ledger = list->o.ledger,
					     .target = r->target,
					     .limits = r->options.record,
					     .progress = on_progress,
					     .ended = on_recording_ended,
					     .data = r };
	int rc;

	if (target_leaves(r->target)) {
		request_fail(r, REQUEST_NOT_ARMED, NULL);
		return;
	}
	rc = request_make_snapshot(r, now_ns(CLOCK_REALTIME), SNAPSHOT_RECORDING);

	options.snapshot = r->snapshot;
	if (rc == 0)
		rc = recording_begin(&options, &r->recording);
	if (rc < 0) {
		request_fail(r, REQUEST_FAILED, strerror(-rc));
		return;
	}
	on_progress(r);
}

int request_claim_last(struct snapshot_request *r)
{
	struct spool_claim *c = &r->snapshot->claim;
	uint64_t beside = r->limits.trace + REQUEST_SPOOL_EXTRA, need = beside + 2 * r->limits.log;
	uint64_t memory = ledger_largest(r->list->o.ledger, r->target->owner, LEDGER_MEMORY);
	struct spool_refusal why = { 0 };
	int rc = c->unwritten < need ? spool_room_resize(c, need, &why) : 0;

	if (rc == -EAGAIN && !r->list->stopping)
		return rc;
	r->limits.log = MIN(r->limits.log, (c->unwritten - MIN(c->unwritten, beside)) / 2);
	beside = r->limits.trace + REQUEST_COPY_EXTRA;
	r->limits.log = MIN(r->limits.log, memory - MIN(memory, beside));
	return 0;
}
