/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>
#include <time.h>

#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "lib/perfdata/format.h"
#include "lib/perfdata/sums.h"
#include "lib/perfdata/write.h"

/*
 * The file has an event for the trace, a dummy event for sideband, and those of the counters. Each has one identifier,
 * which the sample_id at the end of a record refers to.
 */
enum { EVENT_TRACE, EVENT_SIDE, EVENT_COUNTERS };

static uint64_t event_id(unsigned event)
{
	return event + 1;
}

enum { FLUSH_AT = 64 << 10, STRING_MAX = 4096, PMU_SOFTWARE = 1, SW_DUMMY = 9 };

struct pd_writer {
	int fd;
	int error;
	struct buf out; /* written to the file at .at */
	uint64_t at;
	uint64_t data_at;
	uint32_t n_events;
	uint64_t buffer_left; /* of the AUX buffer being written */
	unsigned buffer_pad;
	bool mixed, live, in_buffers;
	bool monotonic; /* the clock of the records */
	struct sums sums;
	uint64_t n_buffers;
	struct buf index; /* offset and size of each AUXTRACE record */
	struct buf notes;
	struct buf build_ids;
	size_t last_build_id; /* offset of the last entry */
	struct buf info;      /* contents of the feature sections known at the beginning */
	uint32_t n_features;
	uint8_t features[PD_FEAT_MAX / 8];
	uint64_t feature_ends[PD_FEAT_MAX]; /* end of each section in info, in their order */
};

static uint64_t position(const struct pd_writer *w)
{
	return w->at + w->out.size;
}

static void write_out(struct pd_writer *w, const void *data, size_t size)
{
	if (!w->error)
		w->error = io_pwrite(w->fd, data, size, (off_t)w->at);
	if (!w->error)
		sums_add(&w->sums, data, size);
	w->at += size;
}

static void flush_out(struct pd_writer *w)
{
	if (w->live)
		return;
	if (!w->error)
		w->error = buf_error(&w->out);
	write_out(w, w->out.data, w->out.size);
	buf_clear(&w->out);
}

static void begin_span(struct pd_writer *w, bool trace)
{
	if (w->live)
		return;
	flush_out(w);
	sums_cut(&w->sums, trace);
}

static void put_attr(struct buf *b, const struct pd_session *s, unsigned event)
{
	bool monotonic = !s->clock.known && !s->own_clock;
	const struct pd_event *counter = event >= EVENT_COUNTERS ? &s->counters[event - EVENT_COUNTERS] : NULL;
	uint64_t sample = PD_SAMPLE_TID | PD_SAMPLE_TIME | PD_SAMPLE_CPU | PD_SAMPLE_IDENTIFIER;
	uint64_t flags = PD_ATTR_DISABLED | PD_ATTR_INHERIT | PD_ATTR_EXCLUDE_KERNEL | PD_ATTR_EXCLUDE_HV |
			 PD_ATTR_SAMPLE_ID_ALL | PD_ATTR_EXCLUDE_GUEST | (monotonic ? PD_ATTR_USE_CLOCKID : 0);

	if (event == EVENT_SIDE)
		flags |= PD_ATTR_MMAP | PD_ATTR_COMM | PD_ATTR_TASK | PD_ATTR_MMAP2 | PD_ATTR_COMM_EXEC;
	if (counter && !counter->period)
		flags |= PD_ATTR_FREQUENCY;
	buf_u32(b, counter ? counter->type : event == EVENT_TRACE ? s->pmu_type : PMU_SOFTWARE);
	buf_u32(b, PD_ATTR_SIZE);
	buf_u64(b, counter ? counter->config : event == EVENT_TRACE ? s->pmu_config : SW_DUMMY);
	buf_u64(b, !counter ? 1 : counter->period ? counter->period : counter->rate);
	buf_u64(b, sample | (counter ? PD_SAMPLE_PERIOD : PD_SAMPLE_IP));
	buf_u64(b, 0); /* read_format */
	buf_u64(b, flags);
	buf_zero(b, 8 + 8 * 4 + 4); /* wakeup and breakpoint to sample_stack_user */
	buf_u32(b, monotonic ? CLOCK_MONOTONIC : 0);
	buf_zero(b, PD_ATTR_SIZE - 96); /* sample_regs_intr to the end */
}

static void feature_done(struct pd_writer *w, enum pd_feature feature)
{
	w->features[feature / 8] |= (uint8_t)(1 << feature % 8);
	w->feature_ends[w->n_features++] = w->info.size;
}

static void put_string(struct buf *b, const char *text)
{
	size_t size = strnlen(text, STRING_MAX), padded = (size + PD_STRING_ALIGN) & ~(size_t)(PD_STRING_ALIGN - 1);

	buf_u32(b, (uint32_t)padded);
	buf_add(b, text, size);
	buf_zero(b, padded - size);
}

static void string_feature(struct pd_writer *w, enum pd_feature feature, const char *text)
{
	if (!text)
		return;
	if (feature == PD_FEAT_CMDLINE)
		buf_u32(&w->info, 1);
	put_string(&w->info, text);
	feature_done(w, feature);
}

/*
 * Builds the feature sections in the order of their numbers, as readers expect; pd_write_end() adds the AUXTRACE index.
 */
static void gather_features(struct pd_writer *w, const struct pd_session *s)
{
	string_feature(w, PD_FEAT_HOSTNAME, s->hostname);
	string_feature(w, PD_FEAT_OSRELEASE, s->release);
	string_feature(w, PD_FEAT_VERSION, PACKAGE_STRING);
	string_feature(w, PD_FEAT_ARCH, s->arch);
	buf_u32(&w->info, s->n_cpus);
	buf_u32(&w->info, s->n_cpus);
	feature_done(w, PD_FEAT_NRCPUS);
	string_feature(w, PD_FEAT_CMDLINE, s->cmdline);

	buf_u32(&w->info, w->n_events);
	buf_u32(&w->info, PD_ATTR_SIZE);
	for (unsigned i = 0; i < w->n_events; i++) {
		put_attr(&w->info, s, i);
		buf_u32(&w->info, 1);
		put_string(&w->info, i == EVENT_TRACE  ? "cs_etm//u"
				     : i == EVENT_SIDE ? "dummy:u"
						       : s->counters[i - EVENT_COUNTERS].name);
		buf_u64(&w->info, event_id(i));
	}
	feature_done(w, PD_FEAT_EVENT_DESC);

	buf_u32(&w->info, 2);
	buf_u32(&w->info, PMU_SOFTWARE);
	put_string(&w->info, "software");
	buf_u32(&w->info, s->pmu_type);
	put_string(&w->info, "cs_etm");
	feature_done(w, PD_FEAT_PMU_MAPPINGS);
}

/* Ends the current buffer. All bytes that pd_write_buffer() announced must have been written. */
static void end_buffer(struct pd_writer *w)
{
	if (w->buffer_left && !w->error)
		w->error = -EINVAL;
	if (w->sums.trace)
		begin_span(w, false);
	buf_zero(&w->out, w->buffer_pad);
	w->buffer_left = w->buffer_pad = 0;
}

static size_t begin_record(struct pd_writer *w, uint32_t type, uint16_t misc)
{
	size_t start;

	end_buffer(w);
	if (w->out.size >= FLUSH_AT)
		flush_out(w);
	start = w->out.size;
	buf_u32(&w->out, type);
	buf_u16(&w->out, misc);
	buf_u16(&w->out, 0);
	return start;
}

static void end_record(struct pd_writer *w, size_t start)
{
	size_t size = w->out.size - start;

	if (w->in_buffers || size > PD_RECORD_MAX) {
		if (!w->error)
			w->error = -EINVAL;
		return;
	}
	if (!buf_error(&w->out)) {
		w->out.data[start + 6] = (uint8_t)size;
		w->out.data[start + 7] = (uint8_t)(size >> 8);
	}
}

static void end_with_id(struct pd_writer *w, size_t start, unsigned event, const struct pd_origin *o)
{
	buf_u32(&w->out, o->pid);
	buf_u32(&w->out, o->tid);
	buf_u64(&w->out, o->time);
	buf_u32(&w->out, o->cpu);
	buf_u32(&w->out, 0);
	buf_u64(&w->out, event_id(event));
	end_record(w, start);
}

static void put_name(struct buf *b, const char *name)
{
	size_t size = strnlen(name, STRING_MAX - 1);

	buf_add(b, name, size);
	buf_zero(b, ALIGN8(size + 1) - size);
}

static void put_auxtrace_info(struct pd_writer *w, const struct pd_session *s)
{
	size_t start = begin_record(w, PD_REC_AUXTRACE_INFO, 0);

	buf_u32(&w->out, PD_AUXTRACE_CS_ETM);
	buf_u32(&w->out, 0);
	buf_u64(&w->out, 1); /* version: each CPU has a number of parameters */
	buf_u64(&w->out, (uint64_t)s->pmu_type << 32 | s->n_cpus);
	buf_u64(&w->out, s->snapshot);
	for (uint32_t i = 0; i < s->n_cpus; i++) {
		const struct pd_cpu *cpu = &s->cpus[i];

		buf_u64(&w->out, cpu->magic);
		buf_u64(&w->out, cpu->cpu);
		buf_u64(&w->out, cpu->n_params);
		for (uint32_t p = 0; p < cpu->n_params && p < PD_PARAMS_MAX; p++)
			buf_u64(&w->out, cpu->params[p]);
	}
	end_record(w, start);
}

static void put_clock(struct pd_writer *w, const struct pd_clock *clock)
{
	size_t start = begin_record(w, PD_REC_TIME_CONV, 0);

	buf_u64(&w->out, clock->shift);
	buf_u64(&w->out, clock->mult);
	buf_u64(&w->out, clock->zero);
	end_record(w, start);
}

static void put_header(struct pd_writer *w, uint64_t data_size)
{
	buf_u64(&w->out, PD_MAGIC);
	buf_u64(&w->out, PD_HEADER_SIZE);
	buf_u64(&w->out, PD_ATTR_SIZE + 16);
	buf_u64(&w->out, PD_HEADER_SIZE + w->n_events * sizeof(uint64_t));
	buf_u64(&w->out, w->n_events * (PD_ATTR_SIZE + 16));
	buf_u64(&w->out, w->data_at);
	buf_u64(&w->out, data_size);
	buf_zero(&w->out, 16); /* event_types, no longer used */
	buf_add(&w->out, w->features, sizeof(w->features));
}

int pd_write_begin(int fd, const struct pd_session *session, struct pd_writer **ret)
{
	struct pd_writer *w;

	for (uint32_t i = 0; i < session->n_cpus; i++)
		if (session->cpus[i].n_params > PD_PARAMS_MAX)
			return -EINVAL;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->fd = fd;
	w->monotonic = !session->clock.known && !session->own_clock;
	w->live = session->live;
	w->mixed = session->mixed || session->live;
	w->n_events = EVENT_COUNTERS + session->n_counters;
	w->data_at = PD_HEADER_SIZE + w->n_events * (sizeof(uint64_t) + PD_ATTR_SIZE + 16);
	/* Else pd_write_end() writes the header. */
	if (w->live) {
		put_header(w, 0);
	} else {
		gather_features(w, session);
		buf_zero(&w->out, PD_HEADER_SIZE);
	}
	begin_span(w, false);
	for (unsigned i = 0; i < w->n_events; i++)
		buf_u64(&w->out, event_id(i));
	for (unsigned i = 0; i < w->n_events; i++) {
		put_attr(&w->out, session, i);
		buf_u64(&w->out, PD_HEADER_SIZE + i * sizeof(uint64_t));
		buf_u64(&w->out, sizeof(uint64_t));
	}
	put_auxtrace_info(w, session);
	if (session->clock.known)
		put_clock(w, &session->clock);
	*ret = w;
	return 0;
}

void pd_write_comm(struct pd_writer *w, uint32_t pid, uint32_t tid, const char *comm, bool exec, uint64_t time)
{
	size_t start = begin_record(w, PD_REC_COMM, exec ? PD_MISC_COMM_EXEC : 0);

	buf_u32(&w->out, pid);
	buf_u32(&w->out, tid);
	put_name(&w->out, comm);
	end_with_id(w, start, EVENT_SIDE, &(struct pd_origin){ pid, tid, UINT32_MAX, time });
}

void pd_write_task(struct pd_writer *w, const struct pd_task *t)
{
	size_t start = begin_record(w, t->exit ? PD_REC_EXIT : PD_REC_FORK, 0);

	buf_u32(&w->out, t->pid);
	buf_u32(&w->out, t->ppid);
	buf_u32(&w->out, t->tid);
	buf_u32(&w->out, t->ptid);
	buf_u64(&w->out, t->time);
	end_with_id(w, start, EVENT_SIDE, &(struct pd_origin){ t->pid, t->tid, UINT32_MAX, t->time });
}

/*
 * Adds an entry to the build-id section unless it equals the previous one, as it mostly does for a file mapped again.
 */
static void note_build_id(struct pd_writer *w, const struct pd_map *map)
{
	size_t path = strnlen(map->path, STRING_MAX - 1), size = 8 + 4 + PD_BUILD_ID_FIELD + ALIGN8(path + 1);
	size_t last = w->last_build_id, here = w->build_ids.size;

	buf_u32(&w->build_ids, 0);
	buf_u16(&w->build_ids, PD_MISC_USER | PD_MISC_BUILD_ID_SIZE);
	buf_u16(&w->build_ids, (uint16_t)size);
	buf_u32(&w->build_ids, UINT32_MAX); /* of the machine, not of a guest */
	buf_add(&w->build_ids, map->build_id, map->build_id_size);
	buf_zero(&w->build_ids, PD_BUILD_ID_MAX - map->build_id_size);
	buf_u8(&w->build_ids, map->build_id_size);
	buf_zero(&w->build_ids, PD_BUILD_ID_FIELD - PD_BUILD_ID_MAX - 1);
	put_name(&w->build_ids, map->path);
	if (buf_error(&w->build_ids))
		return;
	if (here - last == size && memcmp(w->build_ids.data + last, w->build_ids.data + here, size) == 0)
		w->build_ids.size = here;
	else
		w->last_build_id = here;
}

void pd_write_map(struct pd_writer *w, const struct pd_map *map)
{
	bool by_id = map->build_id_size > 0 && map->build_id_size <= PD_BUILD_ID_MAX;
	uint16_t mode = map->pid == UINT32_MAX ? PD_MISC_KERNEL : PD_MISC_USER;
	size_t start = begin_record(w, PD_REC_MMAP2, mode | (by_id ? PD_MISC_BUILD_ID : 0));

	buf_u32(&w->out, map->pid);
	buf_u32(&w->out, map->tid);
	buf_u64(&w->out, map->addr);
	buf_u64(&w->out, map->len);
	buf_u64(&w->out, map->offset);
	if (by_id) {
		if (!w->live)
			note_build_id(w, map);
		buf_u8(&w->out, map->build_id_size);
		buf_zero(&w->out, 3);
		buf_add(&w->out, map->build_id, map->build_id_size);
		buf_zero(&w->out, PD_BUILD_ID_MAX - map->build_id_size);
	} else {
		buf_u32(&w->out, map->major);
		buf_u32(&w->out, map->minor);
		buf_u64(&w->out, map->inode);
		buf_u64(&w->out, 0); /* inode generation */
	}
	buf_u32(&w->out, map->prot);
	buf_u32(&w->out, map->flags);
	put_name(&w->out, map->path);
	end_with_id(w, start, EVENT_SIDE, &(struct pd_origin){ map->pid, map->tid, UINT32_MAX, map->time });
}

void pd_write_itrace_start(struct pd_writer *w, uint32_t pid, uint32_t tid, uint32_t cpu, uint64_t time)
{
	size_t start = begin_record(w, PD_REC_ITRACE_START, 0);

	buf_u32(&w->out, pid);
	buf_u32(&w->out, tid);
	end_with_id(w, start, EVENT_TRACE, &(struct pd_origin){ pid, tid, cpu, time });
}

void pd_write_sample(struct pd_writer *w, const struct pd_sample *sample)
{
	const struct pd_origin *origin = &sample->origin;
	size_t start = begin_record(w, PD_REC_SAMPLE, PD_MISC_USER);

	buf_u64(&w->out, event_id(EVENT_COUNTERS + sample->counter));
	buf_u32(&w->out, origin->pid);
	buf_u32(&w->out, origin->tid);
	buf_u64(&w->out, origin->time);
	buf_u32(&w->out, origin->cpu);
	buf_u32(&w->out, 0);
	buf_u64(&w->out, sample->value);
	end_record(w, start);
}

void pd_write_record(struct pd_writer *w, uint32_t type, uint16_t misc, const void *body, size_t size,
		     const struct pd_origin *origin)
{
	size_t start = begin_record(w, type, misc);

	buf_add(&w->out, body, size);
	end_with_id(w, start, EVENT_SIDE, origin);
}

void pd_write_aux(struct pd_writer *w, const struct pd_aux *aux)
{
	size_t start = begin_record(w, PD_REC_AUX, 0);

	/* In overwrite mode the kernel records the end of the slice instead of its beginning. */
	buf_u64(&w->out, aux->flags & PD_AUX_OVERWRITE ? aux->offset + aux->size : aux->offset);
	buf_u64(&w->out, aux->size);
	buf_u64(&w->out, aux->flags);
	end_with_id(w, start, EVENT_TRACE, &(struct pd_origin){ aux->pid, aux->tid, aux->cpu, aux->time });
}

void pd_write_round(struct pd_writer *w, uint64_t time)
{
	size_t start = begin_record(w, PD_REC_FINISHED_ROUND, 0);

	/* perf writes none. */
	if (time)
		buf_u64(&w->out, time);
	end_record(w, start);
}

void pd_write_buffer(struct pd_writer *w, const struct pd_buffer *buffer)
{
	if (!w->in_buffers && !w->mixed) {
		pd_write_round(w, 0);
		w->in_buffers = true;
	}
	end_buffer(w);
	w->n_buffers++;
	if (!w->live) {
		buf_u64(&w->index, position(w));
		buf_u64(&w->index, PD_AUXTRACE_SIZE);
	}
	buf_u32(&w->out, PD_REC_AUXTRACE);
	buf_u32(&w->out, (uint32_t)PD_AUXTRACE_SIZE << 16);
	buf_u64(&w->out, ALIGN8(buffer->size));
	buf_u64(&w->out, buffer->offset);
	/* perf requires a different reference for each buffer. */
	buf_u64(&w->out, buffer->reference ? buffer->reference : w->n_buffers * 16);
	buf_u32(&w->out, buffer->index);
	buf_u32(&w->out, buffer->tid);
	buf_u32(&w->out, buffer->cpu);
	buf_u32(&w->out, 0);
	begin_span(w, true);
	w->buffer_left = buffer->size;
	w->buffer_pad = (unsigned)(ALIGN8(buffer->size) - buffer->size);
}

void pd_write_bytes(struct pd_writer *w, const void *data, size_t size)
{
	if (size > w->buffer_left) {
		if (!w->error)
			w->error = -EINVAL;
		return;
	}
	w->buffer_left -= size;
	if (size < FLUSH_AT || w->live) {
		buf_add(&w->out, data, size);
		if (w->out.size >= FLUSH_AT)
			flush_out(w);
		return;
	}
	flush_out(w);
	write_out(w, data, size);
}

/* The table of sections follows the data section directly; the contents of each section follow the table. */
static void put_features(struct pd_writer *w)
{
	uint64_t at = position(w) + (w->n_features + (w->build_ids.size > 0)) * 16, start = 0;

	if (w->build_ids.size) {
		w->features[PD_FEAT_BUILD_ID / 8] |= 1 << PD_FEAT_BUILD_ID % 8;
		buf_u64(&w->out, at);
		buf_u64(&w->out, w->build_ids.size);
		at += w->build_ids.size;
	}
	for (uint32_t i = 0; i < w->n_features; i++) {
		buf_u64(&w->out, at + start);
		buf_u64(&w->out, w->feature_ends[i] - start);
		start = w->feature_ends[i];
	}
	buf_add(&w->out, w->build_ids.data, w->build_ids.size);
	buf_add(&w->out, w->info.data, w->info.size);
}

void pd_write_notes(struct pd_writer *w, const void *notes, size_t size)
{
	buf_add(&w->notes, notes, size);
}

int pd_write_take(struct pd_writer *w, struct buf *ret)
{
	end_buffer(w);
	if (!w->error)
		w->error = buf_error(&w->out);
	if (w->error)
		return w->error;
	buf_add(ret, w->out.data, w->out.size);
	w->error = buf_error(ret);
	w->at += w->out.size;
	buf_clear(&w->out);
	return w->error;
}

uint64_t pd_write_size(const struct pd_writer *w)
{
	return position(w);
}

int pd_write_error(const struct pd_writer *w)
{
	return w->error ? w->error : buf_error(&w->index);
}

int pd_write_end(struct pd_writer *w)
{
	uint64_t data_size;

	end_buffer(w);
	data_size = position(w) - w->data_at;
	buf_u64(&w->info, w->index.size / 16);
	buf_add(&w->info, w->index.data, w->index.size);
	feature_done(w, PD_FEAT_AUXTRACE);
	if (w->monotonic) {
		buf_u64(&w->info, 1); /* the clock's resolution in ns */
		feature_done(w, PD_FEAT_CLOCKID);
	}
	if (w->notes.size) {
		buf_add(&w->info, w->notes.data, w->notes.size);
		feature_done(w, PD_FEAT_NOTES);
	}
	put_features(w);
	if (!w->error)
		w->error = buf_error(&w->info);
	if (!w->error)
		w->error = buf_error(&w->index);
	if (!w->error)
		w->error = buf_error(&w->notes);
	if (!w->error)
		w->error = buf_error(&w->build_ids);
	flush_out(w);
	put_header(w, data_size);
	if (!w->error)
		w->error = io_pwrite(w->fd, w->out.data, w->out.size, 0);
	/* Bytes that could not be written have no checksum either. */
	if (w->error)
		return w->error;
	sums_first(&w->sums, w->out.data, w->out.size);
	buf_clear(&w->out);
	sums_end(&w->sums, w->at, &w->out);
	flush_out(w);
	return w->error;
}

struct pd_writer *pd_writer_free(struct pd_writer *w)
{
	if (!w)
		return NULL;
	buf_done(&w->out);
	buf_done(&w->sums.spans);
	buf_done(&w->index);
	buf_done(&w->info);
	buf_done(&w->notes);
	buf_done(&w->build_ids);
	free(w);
	return NULL;
}
