/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "daemon/decode/stream.h"
#include "lib/base/buf.h"
#include "lib/base/util.h"

/* Version 2 of perf's metadata marks an unused trace ID with a flag above its seven bits. */
enum { TRACE_ID_MASK = 0x7f, TRACE_ID_MAX = 0x6f, TRACE_ID_DEFAULT = 0x10 };
enum { HW_ID_SINK_SHIFT = 8, HW_ID_MINOR_SHIFT = 56 };

static int compare_tids(const void *left, const void *right)
{
	const struct pd_task *a = left, *b = right;

	return (a->tid > b->tid) - (a->tid < b->tid);
}

static int find_owners(const struct pd_contents *c, struct stream_list *s)
{
	size_t n = 0;

	s->owners = calloc(c->n_comms + c->n_tasks + c->n_pieces + 1, sizeof(*s->owners));
	if (!s->owners)
		return -ENOMEM;
	for (size_t i = 0; i < c->n_comms; i++)
		s->owners[n++] = (struct pd_task){ .pid = c->comms[i].pid, .tid = c->comms[i].tid };
	for (size_t i = 0; i < c->n_tasks; i++)
		s->owners[n++] = (struct pd_task){ .pid = c->tasks[i].pid, .tid = c->tasks[i].tid };
	for (size_t i = 0; i < c->n_pieces; i++)
		if (c->pieces[i].origin.pid != UINT32_MAX)
			s->owners[n++] =
			    (struct pd_task){ .pid = c->pieces[i].origin.pid, .tid = c->pieces[i].origin.tid };
	if (n)
		qsort(s->owners, n, sizeof(*s->owners), compare_tids);
	for (size_t i = 0; i < n; i++)
		if (!s->n_owners || s->owners[s->n_owners - 1].tid != s->owners[i].tid)
			s->owners[s->n_owners++] = s->owners[i];
		else if (s->owners[s->n_owners - 1].pid != s->owners[i].pid) /* another process took the number */
			s->owners[s->n_owners - 1].pid = UINT32_MAX;
	return 0;
}

uint32_t stream_list_pid(const struct stream_list *s, uint32_t tid)
{
	struct pd_task key = { .tid = tid }, *found = NULL;

	if (s->n_owners)
		found = bsearch(&key, s->owners, s->n_owners, sizeof(key), compare_tids);
	return found ? found->pid : UINT32_MAX;
}

bool stream_thread_id(const struct stream *s, const struct engine_context *context, uint32_t *ret)
{
	enum { TRACED = 1 << 7, FROM_CONTEXTIDR = 1 << 15 }; /* TRCCONFIGR.VMID, VMIDOPT */
	bool wide = (s->config.protocol == PROTOCOL_ETMV4 || s->config.protocol == PROTOCOL_ETE) &&
		    s->config.configr & TRACED && s->config.configr & FROM_CONTEXTIDR;

	if (!context->has_ctxid && !(wide && context->has_vmid))
		return false;
	/* A kernel at EL2 writes it to the one; the other may be left from a guest. */
	*ret = wide && context->has_vmid ? context->vmid : context->ctxid;
	return true;
}

void stream_note_context(struct engine_context *to, const struct element *e)
{
	if (e->kind == ELEM_CONTEXT) {
		to->has_ctxid = e->context.has_ctxid;
		to->ctxid = e->context.ctxid;
		to->has_vmid = e->context.has_vmid;
		to->vmid = e->context.vmid;
	} else if (e->kind == ELEM_TIMESTAMP && !e->time_unknown) {
		to->has_time = true;
		to->time = e->value;
	}
}

static uint8_t trace_id_of(const struct pd_contents *c, const struct pd_cpu *cpu)
{
	const struct pd_hw_id *hw_id = pd_find_hw_id(c, (uint32_t)cpu->cpu);
	uint64_t id = hw_id ? hw_id->value : cpu->n_params > 1 ? cpu->params[1] : 0;

	return (uint8_t)(id & TRACE_ID_MASK);
}

/*
 * True if two CPUs may write to the same sink. Records whose minor version is not 0 name the sink: the kernel then
 * allocates trace IDs per sink, and the same ID on two sinks belongs to two trace sources.
 */
static bool same_sink(const struct pd_contents *c, uint32_t left, uint32_t right)
{
	const struct pd_hw_id *a = pd_find_hw_id(c, left), *b = pd_find_hw_id(c, right);

	if (!a || !b || !(a->value >> HW_ID_MINOR_SHIFT & 15) || !(b->value >> HW_ID_MINOR_SHIFT & 15))
		return true;
	return (a->value >> HW_ID_SINK_SHIFT & UINT32_MAX) == (b->value >> HW_ID_SINK_SHIFT & UINT32_MAX);
}

static void configure_etmv3(struct engine_config *to, const struct pd_cpu *cpu)
{
	/* ETMIDR's major architecture version: 3 is the Program Flow Trace architecture. */
	to->protocol = (cpu->params[3] & 0xf00) == 0x300 ? PROTOCOL_PTM : PROTOCOL_ETMV3;
	to->control = (uint32_t)cpu->params[0];
	to->ccer = (uint32_t)cpu->params[2];
	to->idr0 = (uint32_t)cpu->params[3];
}

static void configure_etmv4(struct engine_config *to, const struct pd_cpu *cpu)
{
	to->protocol = cpu->magic == PD_MAGIC_ETE ? PROTOCOL_ETE : PROTOCOL_ETMV4;
	to->configr = (uint32_t)cpu->params[0];
	to->idr0 = (uint32_t)cpu->params[2];
	to->idr1 = (uint32_t)cpu->params[3];
	to->idr2 = (uint32_t)cpu->params[4];
	to->idr8 = (uint32_t)cpu->params[5];
	if (to->protocol == PROTOCOL_ETE)
		to->devarch = (uint32_t)cpu->params[7];
}

static void configure(struct stream *s, const struct pd_contents *c, const struct pd_cpu *cpu)
{
	uint8_t id = trace_id_of(c, cpu);

	s->magic = cpu->magic;
	s->source_cpu = (uint32_t)cpu->cpu;
	s->config = (struct engine_config){ 0 };
	s->supported = true;
	if (cpu->magic == PD_MAGIC_ETMV3 && cpu->n_params >= 4)
		configure_etmv3(&s->config, cpu);
	else if (cpu->magic == PD_MAGIC_ETMV4 && cpu->n_params >= 6)
		configure_etmv4(&s->config, cpu);
	else if (cpu->magic == PD_MAGIC_ETE && cpu->n_params >= 8)
		configure_etmv4(&s->config, cpu);
	else
		s->supported = false;
	if (id == 0 || id > TRACE_ID_MAX)
		id = TRACE_ID_DEFAULT;
	s->config.trace_id = id;
	s->config.traceidr = id;
}

static const struct pd_cpu *cpu_of(const struct pd_contents *c, const struct pd_piece *p)
{
	uint32_t cpu = p->cpu != UINT32_MAX ? p->cpu : p->origin.cpu;

	for (size_t i = 0; i < c->n_cpus; i++)
		if (c->cpus[i].cpu == cpu)
			return &c->cpus[i];
	return c->n_cpus ? &c->cpus[0] : NULL;
}

const char *stream_thread_name(const struct pd_contents *c, uint32_t tid)
{
	const char *name = "";

	for (size_t i = 0; i < c->n_comms; i++)
		if (c->comms[i].tid == tid)
			name = c->comms[i].name;
	return name;
}

static bool same_buffer(const struct pd_piece *a, const struct pd_piece *b)
{
	return a->cpu == b->cpu && (a->cpu != UINT32_MAX || a->tid == b->tid) && a->index == b->index &&
	       !(a->flags & PD_AUX_RAW) == !(b->flags & PD_AUX_RAW);
}

/*
 * Adds the streams of one buffer. Raw trace has one trace source; frames may hold those of all CPUs, which get a stream
 * each.
 */
static void add_streams(struct buf *list, const struct pd_contents *c, const struct stream *common)
{
	const struct pd_piece *piece = &common->pieces[0];
	bool seen[TRACE_ID_MASK + 1] = { false };
	struct stream s = *common;

	if (piece->flags & PD_AUX_RAW) {
		const struct pd_cpu *cpu = cpu_of(c, piece);

		if (cpu)
			configure(&s, c, cpu);
		buf_add(list, &s, sizeof(s));
		return;
	}
	s.formatted = true;
	for (size_t i = 0; i < c->n_cpus; i++) {
		configure(&s, c, &c->cpus[i]);
		if (seen[s.config.trace_id] ||
		    (piece->cpu != UINT32_MAX && !same_sink(c, piece->cpu, (uint32_t)c->cpus[i].cpu)))
			continue;
		seen[s.config.trace_id] = true;
		buf_add(list, &s, sizeof(s));
		s.shares = true;
	}
}

static int compare_streams(const void *left, const void *right)
{
	const struct stream *a = left, *b = right;
	uint64_t x = a->cpu == UINT32_MAX ? a->tid : a->cpu, y = b->cpu == UINT32_MAX ? b->tid : b->cpu;

	if (x != y)
		return x < y ? -1 : 1;
	if (a->pieces != b->pieces)
		return a->pieces < b->pieces ? -1 : 1;
	return (int)a->config.trace_id - (int)b->config.trace_id;
}

void stream_configure(const struct pd_contents *c, const struct stream *s, const struct pd_piece *piece,
		      struct engine_config *ret)
{
	const struct pd_cpu *cpu = s->formatted || s->cpu != UINT32_MAX ? NULL : cpu_of(c, piece);
	struct stream of_piece = *s;

	if (cpu)
		configure(&of_piece, c, cpu);
	*ret = cpu && of_piece.supported ? of_piece.config : s->config;
}

int stream_list_find(const struct pd_contents *c, int64_t only_thread, enum pd_slices slices, struct stream_list *ret)
{
	struct stream_list s = { 0 };
	struct buf list = { 0 };
	int rc = find_owners(c, &s);

	for (size_t i = 0; rc == 0 && i < c->n_pieces; i += 1) {
		const struct pd_piece *p = &c->pieces[i];
		struct stream stream = { .tid = p->tid,
					 .cpu = p->cpu,
					 .pieces = p,
					 .n_pieces = 1,
					 .bytes = p->size,
					 .source_cpu = UINT32_MAX };

		while (i + 1 < c->n_pieces && same_buffer(p, &c->pieces[i + 1])) {
			stream.bytes += c->pieces[++i].size;
			stream.n_pieces++;
		}
		stream.pid = p->origin.pid;
		if (stream.pid == UINT32_MAX && p->cpu == UINT32_MAX)
			stream.pid = stream_list_pid(&s, p->tid);
		stream.name = stream_thread_name(c, p->tid);
		/* Frames may hold trace of other CPUs. */
		stream.of_threads = p->cpu == UINT32_MAX || (slices == PD_SLICES_OF_THREADS && p->flags & PD_AUX_RAW);
		if (only_thread < 0 || p->cpu != UINT32_MAX || p->tid == only_thread)
			add_streams(&list, c, &stream);
	}
	if (rc == 0)
		rc = buf_error(&list);
	if (rc < 0) {
		buf_done(&list);
		stream_list_done(&s);
		return rc;
	}
	s.list = (struct stream *)list.data;
	s.n = list.size / sizeof(*s.list);
	if (s.n)
		qsort(s.list, s.n, sizeof(*s.list), compare_streams);
	*ret = s;
	return 0;
}

/* Adds a stream for a trace ID without metadata, so that its trace is reported as unsupported. */
static void add_unsupported(struct buf *list, const struct stream *like, uint8_t id)
{
	struct stream s = *like;

	s.supported = false;
	s.magic = 0;
	s.config = (struct engine_config){ .trace_id = id, .traceidr = id };
	buf_add(list, &s, sizeof(s));
}

int stream_list_filter(struct stream_list *s, int (*ids)(void *user, const struct stream *stream, bool ret[TRACE_IDS]),
		       void *user)
{
	struct buf list = { 0 };
	size_t next;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < s->n; i = next) {
		bool present[TRACE_IDS] = { false };
		size_t first = list.size / sizeof(*s->list);

		if (s->list[i].formatted)
			rc = ids(user, &s->list[i], present);
		for (next = i; next < s->n && s->list[next].pieces == s->list[i].pieces; next++) {
			if (s->list[next].formatted && !present[s->list[next].config.trace_id])
				continue;
			present[s->list[next].config.trace_id] = false;
			buf_add(&list, &s->list[next], sizeof(*s->list));
		}
		for (uint8_t id = 1; id <= TRACE_ID_MAX && s->list[i].formatted; id++)
			if (present[id])
				add_unsupported(&list, &s->list[i], id);
		/* The first of the streams that share bytes counts them. */
		for (size_t k = first; !buf_error(&list) && k < list.size / sizeof(*s->list); k++)
			((struct stream *)list.data)[k].shares = k > first;
	}
	if (rc == 0)
		rc = buf_error(&list);
	if (rc < 0) {
		buf_done(&list);
		return rc;
	}
	free(s->list);
	s->list = (struct stream *)list.data;
	s->n = list.size / sizeof(*s->list);
	if (s->n)
		qsort(s->list, s->n, sizeof(*s->list), compare_streams);
	return 0;
}

void stream_list_done(struct stream_list *s)
{
	free(s->list);
	free(s->owners);
	*s = (struct stream_list){ 0 };
}
