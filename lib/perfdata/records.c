/* SPDX-License-Identifier: MIT */
/* Parsers of each type of record. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/perfdata/file.h"

enum { CPUS_MAX = 4096 };

struct event *pd_event_of(const struct pd_file *f, uint64_t id)
{
	struct event_id key = { .id = id }, *found = NULL;

	if (f->lists[IDS].size)
		found =
		    bsearch(&key, f->lists[IDS].data, f->lists[IDS].size / sizeof(key), sizeof(key), pd_compare_ids);
	return found ? &f->events[found->event] : &f->events[0];
}

/* Parses the sample_id at the end of a record of the kernel, and removes it from r. */
static struct pd_origin parse_origin(const struct pd_file *f, struct reader *r)
{
	struct pd_origin o = { UINT32_MAX, UINT32_MAX, UINT32_MAX, 0 };
	const struct event *e = &f->events[0];
	struct reader tail;
	uint64_t skip;
	size_t size;

	if (e->sample_type & PD_SAMPLE_IDENTIFIER && rd_left(r) >= 8) {
		tail = *r;
		if (rd_skip(&tail, rd_left(r) - 8) == 0 && rd_u64(&tail, &skip) == 0)
			e = pd_event_of(f, skip);
	}
	if (!e->sample_id_all)
		return o;
	size = 8 * (size_t)__builtin_popcountll(e->sample_type &
						(PD_SAMPLE_TID | PD_SAMPLE_TIME | PD_SAMPLE_ID | PD_SAMPLE_STREAM_ID |
						 PD_SAMPLE_CPU | PD_SAMPLE_IDENTIFIER));
	if (size > rd_left(r))
		return o;
	tail = *r;
	rd_sub(&tail, rd_left(r) - size, r);
	if (e->sample_type & PD_SAMPLE_TID && (rd_u32(&tail, &o.pid) < 0 || rd_u32(&tail, &o.tid) < 0))
		return o;
	if (e->sample_type & PD_SAMPLE_TIME)
		rd_u64(&tail, &o.time);
	if (e->sample_type & PD_SAMPLE_ID)
		rd_u64(&tail, &skip);
	if (e->sample_type & PD_SAMPLE_STREAM_ID)
		rd_u64(&tail, &skip);
	if (e->sample_type & PD_SAMPLE_CPU)
		rd_u32(&tail, &o.cpu);
	return o;
}

const char *pd_keep_name(struct pd_file *f, struct reader *r)
{
	size_t size = strnlen((const char *)r->at, rd_left(r)), at = f->lists[NAMES].size;

	buf_add(&f->lists[NAMES], r->at, size);
	buf_u8(&f->lists[NAMES], 0);
	return buf_error(&f->lists[NAMES]) ? NULL : (const char *)(uintptr_t)at;
}

static int on_comm(struct pd_file *f, uint16_t misc, struct reader *r, const struct pd_origin *o)
{
	struct pd_comm c = { .exec = misc & PD_MISC_COMM_EXEC, .time = o->time };

	if (rd_u32(r, &c.pid) < 0 || rd_u32(r, &c.tid) < 0)
		return -EBADMSG;
	c.name = pd_keep_name(f, r);
	buf_add(&f->lists[COMMS], &c, sizeof(c));
	return 0;
}

static int on_task(struct pd_file *f, uint32_t type, struct reader *r)
{
	struct pd_task t = { .exit = type == PD_REC_EXIT };

	if (rd_u32(r, &t.pid) < 0 || rd_u32(r, &t.ppid) < 0 || rd_u32(r, &t.tid) < 0 || rd_u32(r, &t.ptid) < 0 ||
	    rd_u64(r, &t.time) < 0)
		return -EBADMSG;
	buf_add(&f->lists[TASKS], &t, sizeof(t));
	return 0;
}

static int on_map(struct pd_file *f, uint32_t type, uint16_t misc, struct reader *r, const struct pd_origin *o)
{
	struct pd_map m = { .time = o->time };
	uint64_t generation;

	if (rd_u32(r, &m.pid) < 0 || rd_u32(r, &m.tid) < 0 || rd_u64(r, &m.addr) < 0 || rd_u64(r, &m.len) < 0 ||
	    rd_u64(r, &m.offset) < 0)
		return -EBADMSG;
	if (type == PD_REC_MMAP2) {
		if (misc & PD_MISC_BUILD_ID) {
			if (rd_u8(r, &m.build_id_size) < 0 || rd_skip(r, 3) < 0 ||
			    rd_copy(r, m.build_id, PD_BUILD_ID_MAX) < 0 || m.build_id_size > PD_BUILD_ID_MAX)
				return -EBADMSG;
		} else if (rd_u32(r, &m.major) < 0 || rd_u32(r, &m.minor) < 0 || rd_u64(r, &m.inode) < 0 ||
			   rd_u64(r, &generation) < 0)
			return -EBADMSG;
		if (rd_u32(r, &m.prot) < 0 || rd_u32(r, &m.flags) < 0)
			return -EBADMSG;
	}
	/* MMAP records have no protection; those without the data flag are of code. */
	if (type == PD_REC_MMAP && !(misc & PD_MISC_MMAP_DATA))
		m.prot = PROT_READ | PROT_EXEC;
	m.path = pd_keep_name(f, r);
	buf_add(&f->lists[MAPS], &m, sizeof(m));
	buf_u32(&f->lists[TASKS_BEFORE], (uint32_t)(f->lists[TASKS].size / sizeof(struct pd_task)));
	return 0;
}

static int on_aux(struct pd_file *f, struct reader *r, const struct pd_origin *o)
{
	struct pd_aux_record a = { .origin = *o, .order = f->lists[RECORDS].size / sizeof(a) };

	if (rd_u64(r, &a.offset) < 0 || rd_u64(r, &a.size) < 0 || rd_u64(r, &a.flags) < 0)
		return -EBADMSG;
	buf_add(&f->lists[RECORDS], &a, sizeof(a));
	return 0;
}

static int on_hw_id(struct pd_file *f, struct reader *r, const struct pd_origin *o)
{
	struct pd_hw_id h = { .origin = *o };

	if (rd_u64(r, &h.value) < 0)
		return -EBADMSG;
	buf_add(&f->lists[HW_IDS], &h, sizeof(h));
	return 0;
}

static uint32_t default_params(uint64_t magic)
{
	return magic == PD_MAGIC_ETMV3 ? 4 : magic == PD_MAGIC_ETMV4 ? 7 : magic == PD_MAGIC_ETE ? 8 : 0;
}

static int on_auxtrace_info(struct pd_file *f, struct reader *r)
{
	uint64_t version, pmu, snapshot;
	uint32_t type, reserved;

	if (rd_u32(r, &type) < 0 || rd_u32(r, &reserved) < 0)
		return -EBADMSG;
	if (type != PD_AUXTRACE_CS_ETM)
		return -EOPNOTSUPP;
	if (rd_u64(r, &version) < 0 || rd_u64(r, &pmu) < 0 || rd_u64(r, &snapshot) < 0)
		return -EBADMSG;
	f->contents.metadata_version = version;
	f->contents.pmu_type = (uint32_t)(pmu >> 32);
	f->contents.snapshot = snapshot;
	f->has_metadata = true;
	for (uint64_t i = 0, n = MIN(pmu & UINT32_MAX, (uint64_t)CPUS_MAX); i < n; i++) {
		struct pd_cpu cpu = { 0 };
		uint64_t params;

		if (rd_u64(r, &cpu.magic) < 0 || rd_u64(r, &cpu.cpu) < 0)
			return -EBADMSG;
		params = default_params(cpu.magic);
		if (version > 0 ? rd_u64(r, &params) < 0 : !params)
			return -EBADMSG;
		for (uint64_t p = 0; p < params; p++) {
			uint64_t value;

			if (rd_u64(r, &value) < 0)
				return -EBADMSG;
			if (p < PD_PARAMS_MAX)
				cpu.params[cpu.n_params++] = value;
		}
		buf_add(&f->lists[CPUS], &cpu, sizeof(cpu));
	}
	return 0;
}

int pd_on_auxtrace(struct pd_file *f, struct reader *r, uint64_t file_offset, uint64_t *ret_size)
{
	struct pd_aux_buffer b = { .file_offset = file_offset,
				   .order = f->lists[BUFFERS].size / sizeof(b),
				   .record = f->last_record };
	const struct pd_aux_record *a;
	uint64_t reference;

	if (rd_u64(r, &b.size) < 0 || rd_u64(r, &b.offset) < 0 || rd_u64(r, &reference) < 0 ||
	    rd_u32(r, &b.index) < 0 || rd_u32(r, &b.tid) < 0 || rd_u32(r, &b.cpu) < 0)
		return -EBADMSG;
	a = b.record ? (const struct pd_aux_record *)f->lists[RECORDS].data + b.record - 1 : NULL;
	if (a && (a->origin.cpu != b.cpu || a->origin.tid != b.tid || a->offset != b.offset))
		b.record = 0;
	buf_add(&f->lists[BUFFERS], &b, sizeof(b));
	*ret_size = b.size;
	return 0;
}

/* The thread of a SWITCH record is that of its sample_id; the other thread in SWITCH_CPU_WIDE is not used. */
static int on_run(struct pd_file *f, enum pd_run_kind kind, const struct pd_origin *o)
{
	struct pd_run run = { kind, o->pid, o->tid, o->cpu, o->time };

	if (o->cpu != UINT32_MAX)
		buf_add(&f->lists[RUNS], &run, sizeof(run));
	return 0;
}

static int on_start(struct pd_file *f, struct reader *r, const struct pd_origin *o)
{
	struct pd_origin who = *o;

	if (rd_u32(r, &who.pid) < 0 || rd_u32(r, &who.tid) < 0)
		return -EBADMSG;
	return on_run(f, PD_RUN_START, &who);
}

/* Records whether the identifiers of each event are of CPUs, where the thread is -1, or of threads. */
static int on_id_index(struct pd_file *f, struct reader *r)
{
	uint64_t n, id, index, cpu, tid;

	if (rd_u64(r, &n) < 0)
		return -EBADMSG;
	for (; n > 0; n--) {
		struct event *e;

		if (rd_u64(r, &id) < 0 || rd_u64(r, &index) < 0 || rd_u64(r, &cpu) < 0 || rd_u64(r, &tid) < 0)
			return -EBADMSG;
		e = pd_event_of(f, id);
		e->of_cpus = e->of_cpus || tid == UINT64_MAX;
		e->of_threads = e->of_threads || tid != UINT64_MAX;
	}
	return 0;
}

static int on_lost(struct pd_file *f, struct reader *r, const struct pd_origin *o)
{
	uint64_t id, lost;

	if (rd_u64(r, &id) < 0 || rd_u64(r, &lost) < 0)
		return -EBADMSG;
	f->contents.lost_records += lost;
	return on_run(f, PD_RUN_LOST, o);
}

static int on_time_conv(struct pd_file *f, struct reader *r)
{
	struct pd_clock c = { .known = true };

	if (rd_u64(r, &c.shift) < 0 || rd_u64(r, &c.mult) < 0 || rd_u64(r, &c.zero) < 0)
		return -EBADMSG;
	f->contents.clock = c;
	return 0;
}

static void note_time(struct pd_file *f, uint64_t time)
{
	struct pd_contents *c = &f->contents;

	if (!time)
		return;
	c->first_time = c->first_time ? MIN(c->first_time, time) : time;
	c->last_time = MAX(c->last_time, time);
}

int pd_on_record(struct pd_file *f, uint32_t type, uint16_t misc, struct reader *r)
{
	struct pd_origin o = { UINT32_MAX, UINT32_MAX, UINT32_MAX, 0 };

	if (type < PD_REC_USER && type != PD_REC_SAMPLE)
		o = parse_origin(f, r);
	note_time(f, o.time);
	switch (type) {
	case PD_REC_COMM:
		return on_comm(f, misc, r, &o);
	case PD_REC_FORK:
	case PD_REC_EXIT:
		return on_task(f, type, r);
	case PD_REC_MMAP:
	case PD_REC_MMAP2:
		return on_map(f, type, misc, r, &o);
	case PD_REC_SAMPLE:
		return pd_on_sample(f, r);
	case PD_REC_AUX:
		return on_aux(f, r, &o);
	case PD_REC_AUX_OUTPUT_HW_ID:
		return on_hw_id(f, r, &o);
	case PD_REC_AUXTRACE_INFO:
		return on_auxtrace_info(f, r);
	case PD_REC_LOST:
		return on_lost(f, r, &o);
	case PD_REC_SWITCH:
	case PD_REC_SWITCH_CPU_WIDE:
		return on_run(f,
			      !(misc & PD_MISC_SWITCH_OUT)        ? PD_RUN_IN
			      : misc & PD_MISC_SWITCH_OUT_PREEMPT ? PD_RUN_PREEMPTED
								  : PD_RUN_OUT,
			      &o);
	case PD_REC_ITRACE_START:
		return on_start(f, r, &o);
	case PD_REC_ID_INDEX:
		return on_id_index(f, r);
	case PD_REC_TIME_CONV:
		return on_time_conv(f, r);
	default:
		return 0;
	}
}
