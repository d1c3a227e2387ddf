/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/capture/capture.h"
#include "daemon/capture/process/code-log.h"
#include "lib/base/parse.h"
#include "lib/base/reader.h"
#include "lib/base/util.h"
#include "lib/coresight/topology.h"

void capture_copy_drop_rings(struct capture_copy *c)
{
	for (size_t n = 0; n < c->n_rings; n++) {
		free(c->rings[n].data);
		free(c->rings[n].slices);
	}
	free(TAKE_PTR(c->rings));
	c->n_rings = 0;
}

static void cut_records(struct buf *b, uint64_t time)
{
	struct reader r = reader_of(b->data, b->size);
	struct capture_record head;
	size_t at = 0, kept = 0;
	const uint8_t *body;

	while (rd_copy(&r, &head, sizeof(head)) == 0 && rd_bytes(&r, ALIGN8(head.size), &body) == 0) {
		size_t size = sizeof(head) + ALIGN8(head.size);

		if (head.origin.time <= time) {
			memmove(b->data + kept, b->data + at, size);
			kept += size;
		}
		at += size;
	}
	b->size = kept;
}

void capture_copy_cut(struct capture_copy *c, uint64_t time)
{
	size_t kept = 0;

	capture_copy_drop_rings(c);
	c->log_size = code_log_cut(c->log, c->log_size, time);
	cut_records(&c->records, time);
	buf_clear(&c->samples);
	for (size_t n = 0; n < c->n_threads; n++) {
		struct capture_thread *t = &c->threads[n];

		if (t->start_ns > time)
			continue;
		/* The log has its names up to then. */
		t->name[0] = '\0';
		t->end_ns = t->end_ns > time ? 0 : t->end_ns;
		c->threads[kept++] = *t;
	}
	c->n_threads = kept;
	for (size_t n = 0; n < c->n_files; n++)
		closep(&c->files[n].fd);
	c->n_files = 0;
	closep(&c->jitdump.fd);
	buf_clear(&c->missing);
	buf_clear(&c->notes);
}

struct capture_copy *capture_copy_free(struct capture_copy *c)
{
	if (!c)
		return NULL;
	for (size_t n = 0; n < c->n_threads; n++)
		if (c->threads[n].data)
			munmap(c->threads[n].data, c->threads[n].room);
	capture_copy_drop_rings(c);
	for (size_t n = 0; n < c->n_files; n++)
		closep(&c->files[n].fd);
	closep(&c->jitdump.fd);
	if (c->kernel.size)
		closep(&c->kernel.fd);
	free(c->cpus);
	free(c->threads);
	free(c->intervals);
	free(c->files);
	free(c->log);
	for (size_t n = 0; n < c->n_counters; n++)
		free((char *)c->counters[n].name);
	free(c->counters);
	buf_done(&c->samples);
	buf_done(&c->records);
	buf_done(&c->notes);
	buf_done(&c->missing);
	free(c);
	return NULL;
}

void capture_note_missing(struct capture_copy *c, const char *fmt, ...)
{
	char text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	buf_add(&c->missing, text, strlen(text) + 1);
}

bool capture_piece(const struct capture_thread *t, unsigned n, const uint8_t **ret, size_t *ret_size)
{
	size_t at = t->room ? t->from % t->room : 0, first = MIN(t->size, t->room - at);

	*ret = n < 2 ? t->data : t->end;
	if (n == 0 && first)
		*ret += at;
	*ret_size = n == 0 ? first : n == 1 ? t->size - first : t->end_size;
	return n < 3;
}

void capture_add_record(struct buf *b, uint32_t type, uint16_t misc, const void *body, size_t size,
			const struct pd_origin *origin)
{
	struct capture_record head = { .type = type, .misc = misc, .size = (uint16_t)size, .origin = *origin };

	buf_add(b, &head, sizeof(head));
	buf_add(b, body, size);
	buf_zero(b, ALIGN8(size) - size);
}

const char *capture_mode_str(enum capture_mode mode)
{
	return mode == CAPTURE_MODE_RING ? "ring" : mode == CAPTURE_MODE_FILL ? "fill" : NULL;
}

int capture_mode_parse(const char *text, enum capture_mode *ret)
{
	for (enum capture_mode m = CAPTURE_MODE_RING; m <= CAPTURE_MODE_FILL; m++)
		if (strcmp(text, capture_mode_str(m)) == 0) {
			*ret = m;
			return 0;
		}
	return -EINVAL;
}

int capture_cpus_check(const char *text)
{
	bool cpus[TOPOLOGY_CPUS_MAX];

	return *text ? parse_ranges(text, cpus, ELEMENTS(cpus)) : -EINVAL;
}

/* Appends the name of an option, and how it differs. */
static void add_difference(struct reason *r, const char *fmt, ...) _printf_(2, 3);
static void add_difference(struct reason *r, const char *fmt, ...)
{
	size_t n = strlen(r->text);
	va_list args;

	if (n)
		n += (size_t)snprintf(r->text + n, sizeof(r->text) - n, "; ");
	if (n >= sizeof(r->text))
		return;
	va_start(args, fmt);
	vsnprintf(r->text + n, sizeof(r->text) - n, fmt, args);
	va_end(args);
}

/* wanted 0: not wanted; have 0: not chosen. */
static void compare_numbers(struct reason *ret, const char *name, uint64_t have, uint64_t wanted)
{
	if (wanted && wanted != have && have)
		add_difference(ret, "%s: it has %llu", name, (unsigned long long)have);
	else if (wanted && wanted != have)
		add_difference(ret, "%s: it was not chosen", name);
}

int capture_options_copy(const struct capture_options *o, struct capture_options *ret)
{
	struct capture_options copy = *o;

	copy.filter = o->filter ? strdup(o->filter) : NULL;
	copy.sink = o->sink ? strdup(o->sink) : NULL;
	copy.counters = o->counters ? strdup(o->counters) : NULL;
	copy.cpus = o->cpus ? strdup(o->cpus) : NULL;
	*ret = copy;
	if ((!o->filter || copy.filter) && (!o->sink || copy.sink) && (!o->counters || copy.counters) &&
	    (!o->cpus || copy.cpus))
		return 0;
	capture_options_done(ret);
	return -ENOMEM;
}

void capture_options_done(struct capture_options *o)
{
	free((char *)o->filter);
	free((char *)o->sink);
	free((char *)o->counters);
	free((char *)o->cpus);
	*o = (struct capture_options){ .kernel = false };
}

int capture_options_compare(const struct capture_options *have, const struct capture_options *wanted,
			    struct reason *ret)
{
	ret->text[0] = 0;
	if (wanted->kernel && !have->kernel)
		add_difference(ret, "kernel: its execution in the kernel is not traced");
	if (wanted->cycles && !have->cycles)
		add_difference(ret, "cycles: they are not counted");
	if (wanted->no_timestamps && !have->no_timestamps)
		add_difference(ret, "no-timestamps: it has timestamps");
	if (wanted->no_contexts && !have->no_contexts)
		add_difference(ret, "no-contexts: it has context IDs");
	if (wanted->branch_broadcast && !have->branch_broadcast)
		add_difference(ret, "branch-broadcast: direct branches have no targets in its trace");
	if (wanted->no_return_stack && !have->no_return_stack)
		add_difference(ret, "retstack: it is on");
	compare_numbers(ret, "cycle-threshold", have->cycle_threshold, wanted->cycle_threshold);
	compare_numbers(ret, "timestamp-interval", have->timestamp_interval, wanted->timestamp_interval);
	if (wanted->thread && wanted->thread != have->thread)
		add_difference(ret, "thread: %s", have->thread ? "another one is traced" : "all of them are traced");
	if (wanted->mode && wanted->mode != (have->mode ? have->mode : CAPTURE_MODE_RING))
		add_difference(ret, "mode: it has %s", capture_mode_str(have->mode ? have->mode : CAPTURE_MODE_RING));
	if (wanted->filter && (!have->filter || strcmp(wanted->filter, have->filter) != 0))
		add_difference(ret, "filter: %s%s", have->filter ? "it has another one: " : "it has none",
			       have->filter ? have->filter : "");
	if (wanted->sink && (!have->sink || strcmp(wanted->sink, have->sink) != 0))
		add_difference(ret, "sink: %s%s", have->sink ? "it has another one: " : "it was not chosen by name",
			       have->sink ? have->sink : "");
	if (wanted->counters && (!have->counters || strcmp(wanted->counters, have->counters) != 0))
		add_difference(ret, "counters: %s%s", have->counters ? "it has others: " : "it has none",
			       have->counters ? have->counters : "");
	if (wanted->cpus && (!have->cpus || strcmp(wanted->cpus, have->cpus) != 0))
		add_difference(ret, "cpus: %s%s", have->cpus ? "others are traced: " : "all of them are traced",
			       have->cpus ? have->cpus : "");
	if (wanted->ring_size && wanted->ring_size != have->ring_size) {
		if (have->ring_size)
			add_difference(ret, "ring-size: it has %llu KiB", (unsigned long long)have->ring_size >> 10);
		else
			add_difference(ret, "ring-size: it has that of the configuration");
	}
	return ret->text[0] ? -EEXIST : 0;
}
