/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/decode/info.h"
#include "lib/base/buf.h"
#include "lib/base/escape.h"
#include "lib/base/hex.h"
#include "lib/base/io.h"
#include "lib/base/json.h"
#include "lib/base/util.h"

enum { FLUSH_AT = 256 << 10 };

/* Items are written one by one, so that memory does not grow with their number. */
struct info_writer {
	const struct pd_contents *contents;
	bool json;
	int fd, error;
	struct buf out;
	bool first;
};

static void flush_at_least(struct info_writer *i, size_t least)
{
	if (i->out.size < least)
		return;
	if (!i->error)
		i->error = buf_error(&i->out);
	if (!i->error)
		i->error = io_write(i->fd, i->out.data, i->out.size);
	buf_clear(&i->out);
}

static void print_json(struct info_writer *i, json_object *o)
{
	_cleanup_free_ char *text = json_text(o, JSON_PLAIN);

	if (!i->first)
		buf_add(&i->out, ",", 1);
	i->first = false;
	if (text)
		buf_add(&i->out, text, strlen(text));
	else
		i->error = -ENOMEM;
	json_object_put(o);
	flush_at_least(i, FLUSH_AT);
}

static void begin_list(struct info_writer *i, const char *name)
{
	if (i->json)
		buf_printf(&i->out, ",\"%s\":[", name);
	else
		buf_printf(&i->out, "\n%s:\n", name);
	i->first = true;
}

static void end_list(struct info_writer *i)
{
	if (i->json)
		buf_add(&i->out, "]", 1);
}

struct trace_unit {
	uint64_t magic;
	const char *name;
	const char *registers[PD_PARAMS_MAX];
};

static const struct trace_unit sources[] = {
	{ PD_MAGIC_ETMV3, "ETMv3", { "ETMCR", "ETMTRACEIDR", "ETMCCER", "ETMIDR" } },
	{ PD_MAGIC_ETMV4,
	  "ETMv4",
	  { "TRCCONFIGR", "TRCTRACEIDR", "TRCIDR0", "TRCIDR1", "TRCIDR2", "TRCIDR8", "TRCAUTHSTATUS", "TS_SOURCE" } },
	{ PD_MAGIC_ETE,
	  "ETE",
	  { "TRCCONFIGR", "TRCTRACEIDR", "TRCIDR0", "TRCIDR1", "TRCIDR2", "TRCIDR8", "TRCAUTHSTATUS", "TRCDEVARCH",
	    "TS_SOURCE" } },
};

static void print_cpu(struct info_writer *i, const struct pd_cpu *cpu)
{
	static const struct trace_unit unknown = { 0, "unknown", { NULL } };
	json_object *o = NULL, *registers = NULL;
	const struct trace_unit *s = &unknown;

	for (size_t n = 0; n < ELEMENTS(sources); n++)
		if (sources[n].magic == cpu->magic)
			s = &sources[n];
	if (i->json) {
		o = json_object_new_object();
		registers = json_object_new_object();
		json_add_u64(o, "cpu", cpu->cpu);
		json_add_str(o, "source", s->name);
		json_add_hex(o, "magic", cpu->magic);
	} else {
		buf_printf(&i->out, "  %" PRIu64 "  %s\n", cpu->cpu, s->name);
	}
	for (uint32_t n = 0; n < cpu->n_params; n++) {
		char number[16];

		snprintf(number, sizeof(number), "%u", n);
		if (i->json)
			json_add_hex(registers, s->registers[n] ? s->registers[n] : number, cpu->params[n]);
		else
			buf_printf(&i->out, "      %-14s 0x%" PRIx64 "\n", s->registers[n] ? s->registers[n] : number,
				   cpu->params[n]);
	}
	if (!i->json)
		return;
	json_add(o, "registers", registers);
	print_json(i, o);
}

static void print_hw_id(struct info_writer *i, const struct pd_hw_id *h)
{
	json_object *o;

	if (!i->json) {
		buf_printf(&i->out, "  cpu %u  trace ID 0x%" PRIx64 "  sink 0x%" PRIx64 "\n", h->origin.cpu,
			   h->value & 0xff, h->value >> 8 & UINT32_MAX);
		return;
	}
	o = json_object_new_object();
	json_add_u64(o, "cpu", h->origin.cpu);
	json_add_u64(o, "trace_id", h->value & 0xff);
	json_add_hex(o, "value", h->value);
	print_json(i, o);
}

static const struct {
	uint64_t flag;
	const char *name;
} aux_flags[] = {
	{ PD_AUX_TRUNCATED, "truncated" },
	{ PD_AUX_OVERWRITE, "overwrite" },
	{ PD_AUX_PARTIAL, "partial" },
	{ PD_AUX_COLLISION, "collision" },
};

static void print_piece(struct info_writer *i, const struct pd_piece *p)
{
	const char *format = p->flags & PD_AUX_RAW ? "raw" : "formatted";
	json_object *o, *flags;

	if (!i->json) {
		buf_printf(&i->out, p->cpu != UINT32_MAX ? "  cpu %u" : "  thread %u",
			   p->cpu != UINT32_MAX ? p->cpu : p->tid);
		buf_printf(&i->out, "  buffer %u  offset 0x%" PRIx64 "  size %" PRIu64 "  %s", p->index, p->offset,
			   p->size, format);
		for (size_t n = 0; n < ELEMENTS(aux_flags); n++)
			if (p->flags & aux_flags[n].flag)
				buf_printf(&i->out, " %s", aux_flags[n].name);
		if (p->lost)
			buf_printf(&i->out, "  %" PRIu64 " bytes missing", p->lost);
		buf_add(&i->out, "\n", 1);
		return;
	}
	o = json_object_new_object();
	flags = json_object_new_array();
	if (p->cpu != UINT32_MAX)
		json_add_u64(o, "cpu", p->cpu);
	else
		json_add_u64(o, "tid", p->tid);
	json_add_u64(o, "buffer", p->index);
	json_add_u64(o, "offset", p->offset);
	json_add_u64(o, "size", p->size);
	json_add_u64(o, "lost", p->lost);
	json_add_str(o, "format", format);
	for (size_t n = 0; n < ELEMENTS(aux_flags); n++)
		if (p->flags & aux_flags[n].flag)
			json_array_add(flags, json_object_new_string(aux_flags[n].name));
	json_add(o, "flags", flags);
	json_add_u64(o, "time", p->origin.time);
	print_json(i, o);
}

static void print_comm(struct info_writer *i, const struct pd_comm *c)
{
	json_object *o;

	if (!i->json) {
		buf_printf(&i->out, "  %u/%u  %s%s\n", c->pid, c->tid, esc(c->name), c->exec ? "  (exec)" : "");
		return;
	}
	o = json_object_new_object();
	json_add_u64(o, "pid", c->pid);
	json_add_u64(o, "tid", c->tid);
	json_add_bytes(o, "name", c->name);
	json_add_bool(o, "exec", c->exec);
	json_add_u64(o, "time", c->time);
	print_json(i, o);
}

static void print_task(struct info_writer *i, const struct pd_task *t)
{
	json_object *o;

	if (!i->json) {
		buf_printf(&i->out, "  %u/%u  %s\n", t->pid, t->tid, t->exit ? "exit" : "fork");
		return;
	}
	o = json_object_new_object();
	json_add_str(o, "event", t->exit ? "exit" : "fork");
	json_add_u64(o, "pid", t->pid);
	json_add_u64(o, "tid", t->tid);
	json_add_u64(o, "ppid", t->ppid);
	json_add_u64(o, "time", t->time);
	print_json(i, o);
}

static void print_map(struct info_writer *i, const struct pd_map *m)
{
	char id[2 * PD_BUILD_ID_MAX + 1], prot[4] = "---";
	json_object *o;

	hex_encode(m->build_id, m->build_id_size, id);
	prot[0] = m->prot & PROT_READ ? 'r' : '-';
	prot[1] = m->prot & PROT_WRITE ? 'w' : '-';
	prot[2] = m->prot & PROT_EXEC ? 'x' : '-';
	if (!i->json) {
		buf_printf(&i->out, "  %d  %" PRIx64 "-%" PRIx64 " %s %8" PRIx64 "  %s%s%s\n", (int)m->pid, m->addr,
			   m->addr + m->len, prot, m->offset, esc(m->path), *id ? "  " : "", id);
		return;
	}
	o = json_object_new_object();
	json_add_i64(o, "pid", (int32_t)m->pid);
	json_add_hex(o, "address", m->addr);
	json_add_hex(o, "length", m->len);
	json_add_hex(o, "offset", m->offset);
	json_add_str(o, "protection", prot);
	json_add_bytes(o, "path", m->path);
	if (*id)
		json_add_str(o, "build_id", id);
	json_add_u64(o, "time", m->time);
	print_json(i, o);
}

static void print_head_json(struct info_writer *i)
{
	const struct pd_contents *c = i->contents;
	json_object *o = json_object_new_object(), *counts = json_object_new_object();
	_cleanup_free_ char *text = NULL;

	json_add_str(o, "input", "perf.data");
	json_add_bytes(o, "version", c->version ? c->version : "");
	json_add_bytes(o, "release", c->release ? c->release : "");
	json_add_bytes(o, "arch", c->arch ? c->arch : "");
	json_add_u64(o, "metadata_version", c->metadata_version);
	json_add_u64(o, "pmu_type", c->pmu_type);
	json_add_bool(o, "snapshot", c->snapshot);
	json_add_u64(o, "first_time", c->first_time);
	json_add_u64(o, "last_time", c->last_time);
	if (c->clock.known) {
		json_add_u64(o, "time_shift", c->clock.shift);
		json_add_u64(o, "time_mult", c->clock.mult);
		json_add_hex(o, "time_zero", c->clock.zero);
	}
	json_add_u64(counts, "records", c->aux_records);
	json_add_u64(counts, "repeated", c->aux_repeated);
	json_add_u64(counts, "empty", c->aux_empty);
	json_add_u64(counts, "unplaced", c->aux_unplaced);
	json_add(o, "aux_counts", counts);
	json_add_u64(o, "lost_records", c->lost_records);
	json_add_str(o, "damage", c->damage.cause);
	if (c->damage.cause)
		json_add_u64(o, "damage_offset", c->damage.offset);
	text = json_text(o, JSON_PLAIN);
	/* Omits the closing brace: the lists are members of the same object. */
	if (text)
		buf_add(&i->out, text, strlen(text) - 1);
	else
		i->error = -ENOMEM;
	json_object_put(o);
}

static void print_head_text(struct info_writer *i)
{
	const struct pd_contents *c = i->contents;
	struct buf *b = &i->out;

	buf_printf(b, "perf.data");
	if (c->version)
		buf_printf(b, ", written by version %s", esc(c->version));
	if (c->release)
		buf_printf(b, ", Linux %s", esc(c->release));
	if (c->arch)
		buf_printf(b, ", %s", esc(c->arch));
	buf_printf(b, "\nmetadata version %" PRIu64 ", PMU type %u%s\n", c->metadata_version, c->pmu_type,
		   c->snapshot ? ", snapshot mode" : "");
	if (c->last_time)
		buf_printf(b, "records from %" PRIu64 ".%09" PRIu64 " s to %" PRIu64 ".%09" PRIu64 " s\n",
			   c->first_time / 1000000000, c->first_time % 1000000000, c->last_time / 1000000000,
			   c->last_time % 1000000000);
	if (c->clock.known)
		buf_printf(b, "time = %" PRIu64 " + counter * %" PRIu64 " >> %" PRIu64 "\n", c->clock.zero,
			   c->clock.mult, c->clock.shift);
	buf_printf(
	    b, "AUX records: %" PRIu64 ", of them %" PRIu64 " repeated, %" PRIu64 " empty, %" PRIu64 " without trace\n",
	    c->aux_records, c->aux_repeated, c->aux_empty, c->aux_unplaced);
	if (c->lost_records)
		buf_printf(b, "lost records: %" PRIu64 "\n", c->lost_records);
	if (c->damage.cause)
		buf_printf(b, "damaged: %s, at byte %" PRIu64 "\n", c->damage.cause, c->damage.offset);
}

#define PRINT_LIST(i, name, items, n, print)          \
	do {                                          \
		begin_list(i, name);                  \
		for (size_t at = 0; at < (n); at++) { \
			print(i, &(items)[at]);       \
			flush_at_least(i, FLUSH_AT);  \
		}                                     \
		end_list(i);                          \
	} while (0)

static void print_device(struct info_writer *i, const struct armsnap_device *d)
{
	json_object *o = json_object_new_object(), *registers = json_object_new_object();

	if (!i->json)
		buf_printf(&i->out, "  %s  %s  %s\n", esc(d->name), esc(d->class), esc(d->type));
	json_add_bytes(o, "name", d->name);
	json_add_bytes(o, "class", d->class);
	json_add_bytes(o, "type", d->type);
	for (unsigned r = 0; r < ARMSNAP_REGS; r++) {
		if (!(d->has & 1u << r))
			continue;
		if (!i->json)
			buf_printf(&i->out, "      %-14s 0x%x\n", armsnap_reg_str(r), d->regs[r]);
		json_add_hex(registers, armsnap_reg_str(r), d->regs[r]);
	}
	json_add(o, "registers", registers);
	if (i->json)
		print_json(i, o);
	else
		json_object_put(o);
}

static void print_buffer(struct info_writer *i, const struct armsnap_buffer *b)
{
	const char *format = b->formatted ? "formatted" : "raw";
	json_object *o;

	if (!i->json) {
		buf_printf(&i->out, "  %s  %s  %s\n", esc(b->name), esc(b->file), format);
		return;
	}
	o = json_object_new_object();
	json_add_bytes(o, "name", b->name);
	json_add_bytes(o, "file", b->file);
	json_add_str(o, "format", format);
	print_json(i, o);
}

static void print_link(struct info_writer *i, const struct armsnap_link *l)
{
	json_object *o;

	if (!i->json) {
		buf_printf(&i->out, "  %s -> %s\n", esc(l->from), esc(l->to));
		return;
	}
	o = json_object_new_object();
	json_add_bytes(o, "from", l->from);
	json_add_bytes(o, "to", l->to);
	print_json(i, o);
}

static void print_dump(struct info_writer *i, const struct armsnap_dump *d)
{
	json_object *o;

	if (!i->json) {
		buf_printf(&i->out, "  %" PRIx64 "  device %u  %s at 0x%" PRIx64, d->address, d->device, esc(d->file),
			   d->offset);
		buf_printf(&i->out, d->length == UINT64_MAX ? "\n" : ", %" PRIu64 " bytes\n", d->length);
		return;
	}
	o = json_object_new_object();
	json_add_hex(o, "address", d->address);
	json_add_u64(o, "device", d->device);
	json_add_bytes(o, "file", d->file);
	json_add_hex(o, "offset", d->offset);
	if (d->length != UINT64_MAX)
		json_add_hex(o, "length", d->length);
	print_json(i, o);
}

int info_write_snapshot(const struct armsnap *s, bool json, int fd)
{
	struct info_writer i = { .json = json, .fd = fd };

	buf_printf(&i.out, json ? "{\"input\":\"snapshot\"" : "Arm trace snapshot\n");
	PRINT_LIST(&i, "buffers", s->buffers, s->n_buffers, print_buffer);
	PRINT_LIST(&i, "devices", s->devices, s->n_devices, print_device);
	PRINT_LIST(&i, "sources", s->sources, s->n_sources, print_link);
	PRINT_LIST(&i, "cores", s->cores, s->n_cores, print_link);
	PRINT_LIST(&i, "dumps", s->dumps, s->n_dumps, print_dump);
	if (json)
		buf_add(&i.out, "}\n", 2);
	flush_at_least(&i, 0);
	buf_done(&i.out);
	return i.error;
}

int info_write(const struct pd_contents *c, bool json, int fd)
{
	struct info_writer i = { .contents = c, .json = json, .fd = fd };

	if (json)
		print_head_json(&i);
	else
		print_head_text(&i);
	PRINT_LIST(&i, "cpus", c->cpus, c->n_cpus, print_cpu);
	if (json || c->n_hw_ids)
		PRINT_LIST(&i, "hw_ids", c->hw_ids, c->n_hw_ids, print_hw_id);
	PRINT_LIST(&i, "aux", c->pieces, c->n_pieces, print_piece);
	PRINT_LIST(&i, "threads", c->comms, c->n_comms, print_comm);
	if (json || c->n_tasks)
		PRINT_LIST(&i, "tasks", c->tasks, c->n_tasks, print_task);
	PRINT_LIST(&i, "maps", c->maps, c->n_maps, print_map);
	if (json)
		buf_add(&i.out, "}\n", 2);
	flush_at_least(&i, 0);
	buf_done(&i.out);
	return i.error;
}
