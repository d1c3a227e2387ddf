#include <stdlib.h>
#include <string.h>

#include "client/decode/stream.h"
#include "lib/base/buf.h"
#include "lib/base/util.h"

/* Metadata of perf's version 2 mark an ID that no source uses with a flag above its seven bits. */
enum { TRACE_ID_MASK = 0x7f, TRACE_ID_MAX = 0x6f, TRACE_ID_DEFAULT = 0x10, HW_ID_FLAG = 0x80 };

static int compare_tids(const void *left, const void *right)
{
	const struct pd_task *a = left, *b = right;

	return (a->tid > b->tid) - (a->tid < b->tid);
}

static int find_owners(const struct pd_contents *c, struct streams *s)
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
	return 0;
}

uint32_t streams_pid(const struct streams *s, uint32_t tid)
{
	struct pd_task key = { .tid = tid }, *found = NULL;

	if (s->n_owners)
		found = bsearch(&key, s->owners, s->n_owners, sizeof(key), compare_tids);
	return found ? found->pid : UINT32_MAX;
}

static uint8_t trace_id_of(const struct pd_contents *c, const struct pd_cpu *cpu)
{
	uint64_t id = cpu->n_params > 1 ? cpu->params[1] : 0;

	for (size_t i = 0; i < c->n_hw_ids; i++)
		if (c->hw_ids[i].origin.cpu == cpu->cpu)
			id = c->hw_ids[i].value;
	id &= TRACE_ID_MASK;
	return (uint8_t)id;
}

static void configure(struct stream *s, const struct pd_contents *c, const struct pd_cpu *cpu)
{
	uint8_t id = trace_id_of(c, cpu);

	s->magic = cpu->magic;
	s->supported = cpu->magic == PD_MAGIC_ETMV4 && cpu->n_params >= 6;
	if (id == 0 || id > TRACE_ID_MAX)
		id = TRACE_ID_DEFAULT;
	s->config.protocol = PROTOCOL_ETMV4;
	s->config.trace_id = id;
	s->config.configr = (uint32_t)cpu->params[0];
	s->config.traceidr = id;
	s->config.idr0 = (uint32_t)cpu->params[2];
	s->config.idr1 = (uint32_t)cpu->params[3];
	s->config.idr2 = (uint32_t)cpu->params[4];
	s->config.idr8 = (uint32_t)cpu->params[5];
}

static const struct pd_cpu *cpu_of(const struct pd_contents *c, const struct pd_piece *p)
{
	uint32_t cpu = p->cpu != UINT32_MAX ? p->cpu : p->origin.cpu;

	for (size_t i = 0; i < c->n_cpus; i++)
		if (c->cpus[i].cpu == cpu)
			return &c->cpus[i];
	return c->n_cpus ? &c->cpus[0] : NULL;
}

static const char *name_of(const struct pd_contents *c, uint32_t tid)
{
	const char *name = "";

	for (size_t i = 0; i < c->n_comms; i++)
		if (c->comms[i].tid == tid)
			name = c->comms[i].name;
	return name;
}

static bool same_source(const struct pd_piece *a, const struct pd_piece *b)
{
	return a->cpu == b->cpu && (a->cpu != UINT32_MAX || a->tid == b->tid) && a->index == b->index &&
	       !(a->flags & PD_AUX_RAW) == !(b->flags & PD_AUX_RAW);
}

/* Raw bytes are of one source; frames may hold those of every CPU, and each is decoded for itself. */
static void add_sources(struct buf *list, const struct pd_contents *c, const struct stream *common)
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
		if (seen[s.config.trace_id])
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

int streams_find(const struct pd_contents *c, int64_t only_thread, struct streams *ret)
{
	struct streams s = { 0 };
	struct buf list = { 0 };
	int rc = find_owners(c, &s);

	for (size_t i = 0; rc == 0 && i < c->n_pieces; i += 1) {
		const struct pd_piece *p = &c->pieces[i];
		struct stream stream = { .tid = p->tid, .cpu = p->cpu, .pieces = p, .n_pieces = 1, .bytes = p->size };

		while (i + 1 < c->n_pieces && same_source(p, &c->pieces[i + 1])) {
			stream.bytes += c->pieces[++i].size;
			stream.n_pieces++;
		}
		stream.pid = p->origin.pid;
		if (stream.pid == UINT32_MAX && p->cpu == UINT32_MAX)
			stream.pid = streams_pid(&s, p->tid);
		stream.name = name_of(c, p->tid);
		if (only_thread < 0 || (p->cpu == UINT32_MAX && p->tid == only_thread))
			add_sources(&list, c, &stream);
	}
	if (rc == 0)
		rc = buf_error(&list);
	if (rc < 0) {
		buf_done(&list);
		streams_done(&s);
		return rc;
	}
	s.list = (struct stream *)list.data;
	s.n = list.size / sizeof(*s.list);
	if (s.n)
		qsort(s.list, s.n, sizeof(*s.list), compare_streams);
	*ret = s;
	return 0;
}

void streams_done(struct streams *s)
{
	free(s->list);
	free(s->owners);
	*s = (struct streams){ 0 };
}
