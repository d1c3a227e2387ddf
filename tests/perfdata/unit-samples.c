/* SPDX-License-Identifier: MIT */
/* lib/perfdata: samples of counters, in the forms in which perf records them, and in csightd's. */
#include "config.h"

#include <sys/mman.h>

#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/perfdata/format.h"
#include "lib/perfdata/read.h"
#include "tests/unit.h"

enum { PMU = 8, TRACEPOINT = 2, ATTR = PD_ATTR_SIZE, EVENTS_MAX = 4 };

/* An event of a file, as perf's attributes have it. */
struct attr {
	const char *name;
	uint32_t type;
	uint64_t config, period, sample, read, flags, id;
};

static const uint64_t common = PD_SAMPLE_IDENTIFIER | PD_SAMPLE_IP | PD_SAMPLE_TID | PD_SAMPLE_TIME | PD_SAMPLE_CPU;

static void put_attr(struct buf *b, const struct attr *a)
{
	buf_u32(b, a->type);
	buf_u32(b, ATTR);
	buf_u64(b, a->config);
	buf_u64(b, a->period);
	buf_u64(b, a->sample);
	buf_u64(b, a->read);
	buf_u64(b, a->flags | PD_ATTR_SAMPLE_ID_ALL);
	buf_zero(b, ATTR - 48);
}

static void put_text(struct buf *b, const char *text)
{
	size_t size = (strlen(text) + 64) & ~(size_t)63;

	buf_u32(b, (uint32_t)size);
	buf_add(b, text, strlen(text));
	buf_zero(b, size - strlen(text));
}

/* Writes a file with these events, and records; named: with their names. */
static int file_of(const struct attr *list, uint32_t n, const struct buf *records, bool named)
{
	_cleanup_buf_ struct buf b = { 0 }, desc = { 0 };
	uint64_t attrs = PD_HEADER_SIZE + 8 * n, data = attrs + (uint64_t)n * (ATTR + 16);
	uint8_t features[PD_FEAT_MAX / 8] = { 0 };
	int fd = memfd_create("perf.data", MFD_CLOEXEC);

	if (named)
		features[PD_FEAT_EVENT_DESC / 8] |= 1 << PD_FEAT_EVENT_DESC % 8;
	buf_u64(&b, PD_MAGIC);
	buf_u64(&b, PD_HEADER_SIZE);
	buf_u64(&b, ATTR + 16);
	buf_u64(&b, attrs);
	buf_u64(&b, (uint64_t)n * (ATTR + 16));
	buf_u64(&b, data);
	buf_u64(&b, records->size);
	buf_zero(&b, 16);
	buf_add(&b, features, sizeof(features));
	for (uint32_t i = 0; i < n; i++)
		buf_u64(&b, list[i].id);
	for (uint32_t i = 0; i < n; i++) {
		put_attr(&b, &list[i]);
		buf_u64(&b, PD_HEADER_SIZE + 8 * i);
		buf_u64(&b, 8);
	}
	buf_add(&b, records->data, records->size);
	buf_u32(&desc, n);
	buf_u32(&desc, ATTR);
	for (uint32_t i = 0; i < n; i++) {
		put_attr(&desc, &list[i]);
		buf_u32(&desc, 1);
		put_text(&desc, list[i].name);
		buf_u64(&desc, list[i].id);
	}
	if (named) {
		buf_u64(&b, b.size + 16);
		buf_u64(&b, desc.size);
		buf_add(&b, desc.data, desc.size);
	}
	CHECK_EQ(io_pwrite(fd, b.data, b.size, 0), 0);
	return fd;
}

static size_t begin(struct buf *b, uint32_t type)
{
	size_t at = b->size;

	buf_u32(b, type);
	buf_u32(b, 0);
	return at;
}

static void end(struct buf *b, size_t at)
{
	uint16_t size = (uint16_t)(b->size - at);

	memcpy(b->data + at + 6, &size, 2);
}

static void info(struct buf *b)
{
	size_t at = begin(b, PD_REC_AUXTRACE_INFO);

	buf_u32(b, PD_AUXTRACE_CS_ETM);
	buf_u32(b, 0);
	buf_u64(b, 1);
	buf_u64(b, (uint64_t)PMU << 32);
	buf_u64(b, 0);
	end(b, at);
}

/* Begins a sample with the fields that all have. */
static size_t sample(struct buf *b, uint64_t id, uint32_t tid, uint64_t time, uint32_t cpu)
{
	size_t at = begin(b, PD_REC_SAMPLE);

	buf_u64(b, id);
	buf_u64(b, 0x400000);
	buf_u32(b, 100);
	buf_u32(b, tid);
	buf_u64(b, time);
	buf_u32(b, cpu);
	buf_u32(b, 0);
	return at;
}

static bool is(const struct pd_sample *s, uint32_t counter, uint32_t tid, uint64_t time, uint64_t value)
{
	return s->counter == counter && s->origin.tid == tid && s->origin.time == time && s->value == value;
}

static void test_perf(void)
{
	const struct attr list[EVENTS_MAX] = {
		{ "cs_etm//u", PMU, 0, 1, common, 0, 0, 11 },
		{ "cycles:u", 0, 0, 4000, common | PD_SAMPLE_PERIOD, 0, PD_ATTR_FREQUENCY, 12 },
		{ "faults", 1, 2, 7, common, 0, 0, 13 },
		{ "power:cpu_frequency", TRACEPOINT, 300, 1,
		  common | PD_SAMPLE_PERIOD | PD_SAMPLE_READ | PD_SAMPLE_CALLCHAIN | PD_SAMPLE_RAW,
		  PD_FORMAT_TIMES | PD_FORMAT_ID | PD_FORMAT_GROUP, 0, 14 },
	};
	_cleanup_buf_ struct buf b = { 0 };
	const struct pd_contents *c = NULL;
	struct pd_problem problem;
	struct pd_file *f = NULL;
	size_t at;
	int fd;

	info(&b);
	at = sample(&b, 12, 101, 1000, 0);
	buf_u64(&b, 55555);
	end(&b, at);
	/* One of the trace is none of a counter. */
	end(&b, sample(&b, 11, 101, 1001, 0));
	end(&b, sample(&b, 13, 102, 1002, 1));
	at = sample(&b, 14, 103, 1003, 1);
	buf_u64(&b, 1);                  /* period */
	for (uint64_t i = 0; i < 7; i++) /* two values, two times, and the IDs of the values */
		buf_u64(&b, i == 0 ? 2 : i);
	buf_u64(&b, 3); /* addresses */
	buf_zero(&b, 24);
	buf_u32(&b, 20);
	buf_zero(&b, 8);
	buf_u32(&b, 1800000);
	buf_u32(&b, 5);
	buf_zero(&b, 4);
	end(&b, at);
	fd = file_of(list, EVENTS_MAX, &b, true);
	CHECK_EQ(pd_open(fd, &f, &c, &problem), 0);
	CHECK(f && !c->damage.cause);
	CHECK_EQ(c->n_samples, 3);
	CHECK_EQ(c->n_counters, 4);
	CHECK_STR(c->counters[1].name, "cycles:u");
	CHECK(is(&c->samples[0], 1, 101, 1000, 55555));
	CHECK(is(&c->samples[1], 2, 102, 1002, 7));
	CHECK(c->samples[2].counter == 3 && c->samples[2].value == 1800000 && c->samples[2].origin.cpu == 5);
	CHECK(c->counters[3].frequency && !c->counters[2].frequency);
	pd_close(f);
	close(fd);

	/* The first event may be that of the frequency, whose samples are longer. */
	fd = file_of((const struct attr[]){ list[3], list[0], list[1], list[2] }, EVENTS_MAX, &b, true);
	CHECK_EQ(pd_open(fd, &f, &c, &problem), 0);
	CHECK(f && !c->damage.cause);
	CHECK_EQ(c->n_samples, 3);
	CHECK(is(&c->samples[0], 2, 101, 1000, 55555));
	CHECK(c->samples[2].counter == 0 && c->samples[2].value == 1800000);
	pd_close(f);
	close(fd);

	/* Without names, it is not known what they are. */
	fd = file_of(list, EVENTS_MAX, &b, false);
	CHECK_EQ(pd_open(fd, &f, &c, &problem), 0);
	CHECK_EQ(c->n_samples, 0);
	pd_close(f);
	close(fd);

	/* The raw data of a frequency is cut. */
	at = sample(&b, 14, 103, 1004, 1);
	buf_u64(&b, 1);
	buf_zero(&b, 24);
	buf_u64(&b, 0);
	buf_u32(&b, 12);
	buf_zero(&b, 12);
	end(&b, at);
	fd = file_of(list, EVENTS_MAX, &b, true);
	CHECK_EQ(pd_open(fd, &f, &c, &problem), 0);
	CHECK_EQ(c->n_samples, 3);
	CHECK(c->damage.cause);
	pd_close(f);
	close(fd);
}

static void test_own(void)
{
	const struct pd_event counters[] = { { .name = "page-faults", .type = 1, .config = 2, .period = 16 },
					     { .name = PD_FREQUENCY_NAME, .type = 1, .config = 9 },
					     { .name = "cycles", .rate = 1000 } };
	const struct pd_session session = { .pmu_type = PMU, .counters = counters, .n_counters = 3 };
	const struct pd_sample samples[] = { { 2, { 7, 8, 1, 500 }, 123456789012 },
					     { 0, { 7, 9, 0, 400 }, 16 },
					     { 1, { UINT32_MAX, UINT32_MAX, 3, 450 }, 2400000 } };
	int fd = memfd_create("perf.data", MFD_CLOEXEC);
	const struct pd_contents *c = NULL;
	struct pd_problem problem;
	struct pd_writer *w = NULL;
	struct pd_file *f = NULL;

	CHECK_EQ(pd_write_begin(fd, &session, &w), 0);
	pd_write_comm(w, 7, 8, "named", false, 300);
	for (size_t i = 0; i < ELEMENTS(samples); i++)
		pd_write_sample(w, &samples[i]);
	CHECK_EQ(pd_write_end(w), 0);
	pd_writer_free(w);
	CHECK_EQ(pd_open(fd, &f, &c, &problem), 0);
	CHECK(f && !c->damage.cause);
	CHECK_EQ(c->n_comms, 1);
	CHECK_EQ(c->comms[0].time, 300);
	CHECK_EQ(c->n_counters, 5);
	CHECK_EQ(c->n_samples, 3);
	for (size_t i = 0; i < 3; i++) {
		const struct pd_sample *s = &c->samples[i];

		CHECK(is(s, samples[i].counter + 2, samples[i].origin.tid, samples[i].origin.time, samples[i].value) &&
		      s->origin.cpu == samples[i].origin.cpu && s->origin.pid == samples[i].origin.pid);
		CHECK_STR(c->counters[s->counter].name, counters[samples[i].counter].name);
		CHECK_EQ(c->counters[s->counter].frequency, i == 2);
	}
	pd_close(f);
	close(fd);
}

int main(void)
{
	test_perf();
	test_own();
	return unit_end();
}
