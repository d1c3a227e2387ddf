/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>
#include <time.h>

#include "daemon/capture/emu/emu-internal.h"
#include "daemon/capture/emu/patience.h"
#include "lib/base/io.h"
#include "lib/base/util.h"

static _Atomic uint32_t *control_word(const struct emu_source *s)
{
	return &s->map->control;
}

void emu_set_control(struct emu_source *s)
{
	atomic_store(control_word(s), ++s->control);
	/* The slots are read next by pread(): the kernel's loads are not atomic operations of this program. */
	atomic_thread_fence(memory_order_seq_cst);
}

int emu_pread(int fd, void *ret, size_t size, uint64_t at)
{
	ssize_t n = io_pread(fd, ret, size, at);

	return n < 0 ? (int)n : (size_t)n < size ? -EIO : 0;
}

int emu_store(const struct emu_source *s, uint64_t at, const void *data, size_t size)
{
	return io_store((uint8_t *)s->map + at, data, size);
}

void emu_read_changing(const struct emu_source *s, struct emu_header *ret)
{
	size_t from = offsetof(struct emu_header, control);

	memset(ret, 0, sizeof(*ret));
	emu_pread(s->memfd, (uint8_t *)ret + from, sizeof(*ret) - from, from);
}

int emu_copy_slots(const struct emu_source *s, uint8_t **ret)
{
	size_t size = (size_t)s->n_rings * s->slot_size;
	uint8_t *slots = malloc(size);
	int rc = slots ? emu_pread(s->memfd, slots, size, s->slots_offset) : -ENOMEM;

	if (rc < 0)
		free(slots);
	else
		*ret = slots;
	return rc;
}

const struct emu_slot *emu_raw_slot(const struct emu_source *s, const uint8_t *slots, uint32_t n)
{
	return (const struct emu_slot *)(slots + (size_t)n * s->slot_size);
}

void emu_parse_slot(const struct emu_source *s, const struct emu_slot *raw, uint32_t n, struct slot_state *ret)
{
	struct slot_state o = { 0 };
	uint64_t skip;

	o.n = n;
	o.state = atomic_load(&raw->state);
	o.seen = atomic_load(&raw->seen);
	o.tid = raw->tid;
	o.serial = raw->serial;
	memcpy(o.name, raw->name, EMU_NAME_SIZE);
	o.start_ns = raw->start_ns;
	o.end_ns = raw->end_ns;
	o.base_ns = atomic_load(&raw->base_ns);
	o.lag_ns = atomic_load(&raw->lag_ns);
	o.stopped_ns = atomic_load(&raw->stopped_ns);
	o.head = atomic_load(&raw->head);
	o.instructions = atomic_load(&raw->instructions);
	o.truth = atomic_load(&raw->truth);
	o.pending = atomic_load(&raw->pending);
	o.earlier = atomic_load(&raw->earlier);
	o.from = o.head - MIN(o.head, s->ring_size);
	skip = atomic_load(&s->skip[n]);
	if (atomic_load(&s->skip_serial[n]) == o.serial && skip > o.from)
		o.from = MIN(skip, o.head);
	/* The writer stops at this position (lib/emu/tracing.c). */
	o.full = s->fills && o.head - o.from >= s->ring_size - EMU_FILL_MARGIN;
	*ret = o;
}

int emu_read_slot(const struct emu_source *s, uint32_t n, struct slot_state *ret)
{
	struct emu_slot raw;
	int rc = emu_pread(s->memfd, &raw, sizeof(raw), s->slots_offset + (uint64_t)n * s->slot_size);

	if (rc == 0)
		emu_parse_slot(s, &raw, n, ret);
	return rc;
}

static bool obeyed(const struct emu_source *s, const struct emu_slot *slot)
{
	return atomic_load(&slot->state) != EMU_RUNNING || atomic_load(&slot->seen) == s->control;
}

static bool thread_obeyed(const struct emu_source *s, uint32_t n)
{
	struct emu_slot raw;

	return emu_pread(s->memfd, &raw, sizeof(raw), s->slots_offset + (uint64_t)n * s->slot_size) < 0 ||
	       obeyed(s, &raw);
}

/* Waits until all threads have obeyed, or the patience for the account is spent: callers check each slot. */
static void wait_obeyed(const struct emu_source *s)
{
	_cleanup_free_ uint8_t *slots = NULL;
	uid_t account = s->base.share.account;
	uint64_t begin = now_ns(CLOCK_MONOTONIC), now = begin, end = begin + patience_left(account, begin);
	unsigned tries = 0;

	if (emu_copy_slots(s, &slots) < 0)
		return;
	for (uint32_t n = 0; n < s->n_rings; n++)
		while (!obeyed(s, emu_raw_slot(s, slots, n)) && !thread_obeyed(s, n)) {
			struct timespec pause = { 0, 20000 };

			now = now_ns(CLOCK_MONOTONIC);
			if (now > end) {
				patience_spend(account, now, now - begin);
				return;
			}
			/* Most threads obey within a basic block or two; sleeping pays off only after that. */
			if (++tries > 1000)
				clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
		}
}

void emu_freeze(struct emu_source *s)
{
	emu_set_control(s);
	wait_obeyed(s);
}

void emu_thaw(struct emu_source *s)
{
	emu_set_control(s);
}
