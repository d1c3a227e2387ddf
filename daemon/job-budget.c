/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "daemon/job-budget.h"
#include "lib/base/util.h"

/* Bytes of one file: the limit at first, at most and besides that for its trace; and the least one. */
static const uint64_t first_most = 128 << 20, first_base = 32 << 20, least = 64 << 10;

enum { TRACE_TIMES = 16 /* bytes of one output for a byte of trace; most have fewer */ };

/* Claims room for outputs of this size. */
static int claim_limit(struct job_budget *b, uint64_t limit, struct spool_refusal *ret)
{
	int rc = spool_room_resize(&b->snapshot->claim, JOB_OUTPUTS * limit, ret);

	if (rc == 0)
		b->limit = limit;
	return rc;
}

int job_budget_begin(struct job_budget *b, struct snapshot *s, uint64_t trace, struct spool_refusal *ret_refusal)
{
	uint64_t limit = MIN(first_most, first_base + TRACE_TIMES * trace);
	int rc;

	*b = (struct job_budget){ .snapshot = s };
	/* Nothing is removed for what the decode may not need. */
	limit = MIN(limit, MAX(spool_room_free(s->claim.spool, s->owner) / JOB_OUTPUTS, least));
	for (;; limit /= 2) {
		rc = claim_limit(b, limit, ret_refusal);
		if (rc == 0 || rc == -EAGAIN || limit / 2 < least)
			return rc;
	}
}

bool job_budget_grow(struct job_budget *b, const struct job_files *files)
{
	struct spool_refusal why = { 0 };
	uint64_t largest = 0, more;
	int rc = 0;

	job_files_written(files, &largest);
	if (largest < b->limit / 2)
		return false;
	for (more = b->limit; more >= least; more /= 2) {
		rc = claim_limit(b, b->limit + more, &why);
		if (rc == 0 || rc == -EAGAIN)
			break;
	}
	b->exhausted = rc < 0 && rc != -EAGAIN;
	return rc == 0;
}
