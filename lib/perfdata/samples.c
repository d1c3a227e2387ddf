/* SPDX-License-Identifier: MIT */
/* Samples of events that count: cycles, page faults and the like, and the frequencies of CPUs. */
#include <stdlib.h>

#include "lib/perfdata/file.h"

enum { SAMPLES_MAX = 4 << 20, TRACEPOINT_HEAD = 8 /* bytes of fields that all tracepoints have */ };

/* Fields of a sample, in their order. PERF_SAMPLE_ADDR and others that are not used are skipped by their size. */
struct sample_fields {
	struct pd_origin origin;
	uint64_t id, period;
	struct reader raw;
};

static int skip_read_values(uint64_t format, struct reader *r)
{
	uint64_t n = 1;
	size_t each = 1 + !!(format & PD_FORMAT_ID) + !!(format & PD_FORMAT_LOST),
	       times = (size_t)__builtin_popcountll(format & PD_FORMAT_TIMES);

	if (format & PD_FORMAT_GROUP && (rd_u64(r, &n) < 0 || n > rd_left(r)))
		return -EBADMSG;
	return rd_skip(r, 8 * times) < 0 ? -EBADMSG : rd_skip(r, 8 * each * (size_t)n);
}

static int skip_callchain(struct reader *r)
{
	uint64_t n;

	return rd_u64(r, &n) < 0 || n > rd_left(r) ? -EBADMSG : rd_skip(r, 8 * (size_t)n);
}

static int read_raw(struct reader *r, struct reader *ret)
{
	uint32_t size;

	return rd_u32(r, &size) < 0 ? -EBADMSG : rd_sub(r, size, ret);
}

/* Parses a sample of an event of this type up to what is used of it. */
static int parse_sample(const struct event *e, struct reader *r, struct sample_fields *ret)
{
	uint64_t type = e->sample_type, skip;
	uint32_t reserved;
	int rc = 0;

	*ret = (struct sample_fields){ .origin = { UINT32_MAX, UINT32_MAX, UINT32_MAX, 0 }, .period = e->period };
	if (type & PD_SAMPLE_IDENTIFIER)
		rc = rd_u64(r, &ret->id);
	if (rc == 0 && type & PD_SAMPLE_IP)
		rc = rd_u64(r, &skip);
	if (rc == 0 && type & PD_SAMPLE_TID)
		rc = rd_u32(r, &ret->origin.pid) < 0 ? -EBADMSG : rd_u32(r, &ret->origin.tid);
	if (rc == 0 && type & PD_SAMPLE_TIME)
		rc = rd_u64(r, &ret->origin.time);
	if (rc == 0 && type & PD_SAMPLE_ADDR)
		rc = rd_u64(r, &skip);
	if (rc == 0 && type & PD_SAMPLE_ID)
		rc = rd_u64(r, &ret->id);
	if (rc == 0 && type & PD_SAMPLE_STREAM_ID)
		rc = rd_u64(r, &skip);
	if (rc == 0 && type & PD_SAMPLE_CPU)
		rc = rd_u32(r, &ret->origin.cpu) < 0 ? -EBADMSG : rd_u32(r, &reserved);
	if (rc == 0 && type & PD_SAMPLE_PERIOD)
		rc = rd_u64(r, &ret->period);
	if (rc < 0 || e->counter != FREQUENCY_RAW)
		return rc;
	if (type & PD_SAMPLE_READ)
		rc = skip_read_values(e->read_format, r);
	if (rc == 0 && type & PD_SAMPLE_CALLCHAIN)
		rc = skip_callchain(r);
	return rc == 0 && type & PD_SAMPLE_RAW ? read_raw(r, &ret->raw) : rc;
}

/* Returns the event of a sample, whose ID is at the same place in those of all events. */
static const struct event *find_event(const struct pd_file *f, const struct reader *r)
{
	struct event common = f->events[0];
	struct reader copy = *r;
	struct sample_fields fields;

	/* What is behind the ID may be different. */
	common.counter = COUNTER;
	common.sample_type &=
	    PD_SAMPLE_IDENTIFIER | PD_SAMPLE_IP | PD_SAMPLE_TID | PD_SAMPLE_TIME | PD_SAMPLE_ADDR | PD_SAMPLE_ID;
	if (f->n_events == 1 || parse_sample(&common, &copy, &fields) < 0)
		return &f->events[0];
	return pd_event_of(f, fields.id);
}

int pd_on_sample(struct pd_file *f, struct reader *r)
{
	const struct event *e = find_event(f, r);
	struct pd_sample s = { .counter = (uint32_t)(e - f->events) };
	struct sample_fields fields;
	uint32_t khz, cpu;

	if (e->counter == NO_COUNTER || e->type == f->contents.pmu_type)
		return 0;
	if (parse_sample(e, r, &fields) < 0)
		return -EBADMSG;
	s.origin = fields.origin;
	s.value = fields.period;
	if (e->counter == FREQUENCY_RAW) {
		if (rd_skip(&fields.raw, TRACEPOINT_HEAD) < 0 || rd_u32(&fields.raw, &khz) < 0 ||
		    rd_u32(&fields.raw, &cpu) < 0)
			return -EBADMSG;
		s.value = khz;
		s.origin.cpu = cpu;
	}
	/* The trace is worth more than them. */
	if (f->lists[SAMPLES].size / sizeof(s) >= SAMPLES_MAX) {
		pd_damage(f, f->size, "too many samples of counters: the later ones were left out");
		return 0;
	}
	buf_add(&f->lists[SAMPLES], &s, sizeof(s));
	return 0;
}
