/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "daemon/capture/emu/emu-internal.h"
#include "daemon/capture/emu/emu.h"
#include "lib/base/array.h"
#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/emu/etm-encode.h"

enum {
	HEAD_MAX = 1 << 20, /* limit for header and slots, bytes: they are read whole */
	SLOT_SIZE_MAX = 128,
	UNACKNOWLEDGED_MARGIN = 4096, /* bytes that such a thread may be writing beyond its head */
	LOG_GROWTH = 1 << 20,         /* bytes that a log may grow until it is copied, at least */
	NO_PMU_TYPE = 8,              /* the kernel assigns this number to none of its dynamic PMUs */
};

static struct emu_source *emu_source_of(struct capture_source *source)
{
	return container_of(source, struct emu_source, base);
}

static struct capture_source *emu_free(struct capture_source *source);

static bool part_fits(uint64_t from, uint64_t count, uint64_t each, uint64_t limit, uint64_t *ret_end)
{
	uint64_t size;

	return !__builtin_mul_overflow(count, each, &size) && !__builtin_add_overflow(from, size, ret_end) &&
	       *ret_end <= limit;
}

/* Checks order, size and alignment of the parts, and that none overlaps another or exceeds the file. */
static int check_header(const struct emu_header *h, uint64_t total)
{
	uint64_t watching_end, slots_end, log_end, rings_end;

	if (h->magic != EMU_MAGIC)
		return -EBADMSG;
	if (h->version != EMU_VERSION)
		return -EPROTONOSUPPORT;
	if (h->header_size < sizeof(*h) || h->total_size != total || h->slots_offset < h->header_size)
		return -EBADMSG;
	if (h->n_rings == 0 || h->n_rings > EMU_RINGS_MAX || h->slot_size < sizeof(struct emu_slot) ||
	    h->slot_size > SLOT_SIZE_MAX || h->slot_size % 8 || h->slots_offset % 8)
		return -EBADMSG;
	if (h->ring_size < EMU_RING_SIZE_MIN || h->ring_size > EMU_RING_SIZE_MAX || (h->ring_size & (h->ring_size - 1)))
		return -EBADMSG;
	if (h->log_size > EMU_LOG_SIZE_MAX || h->cmdline_size > EMU_CMDLINE_SIZE)
		return -EBADMSG;
	if (h->watching_offset < h->header_size || h->watching_offset % 8 ||
	    !part_fits(h->watching_offset, 1, sizeof(struct emu_watching), h->slots_offset, &watching_end) ||
	    !part_fits(h->slots_offset, h->n_rings, h->slot_size, h->log_offset, &slots_end) || slots_end > HEAD_MAX ||
	    !part_fits(h->log_offset, 1, h->log_size, h->rings_offset, &log_end) ||
	    !part_fits(h->rings_offset, h->n_rings, h->ring_size, total, &rings_end))
		return -EBADMSG;
	return 0;
}

static void copy_about(const struct emu_header *h, struct emu_about *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->parent = h->parent;
	memcpy(ret->name, h->name, EMU_NAME_SIZE);
	memcpy(ret->exe, h->exe, EMU_PATH_SIZE);
	memcpy(ret->arguments, h->cmdline, h->cmdline_size);
	ret->arguments_size = h->cmdline_size;
}

/* What an earlier daemon dropped stays dropped. */
static void read_skips(struct emu_source *s)
{
	_cleanup_free_ uint8_t *slots = NULL;

	if (emu_copy_slots(s, &slots) < 0)
		return;
	for (uint32_t n = 0; n < s->n_rings; n++) {
		const struct emu_slot *raw = emu_raw_slot(s, slots, n);

		atomic_store(&s->skip_serial[n], raw->skip_serial);
		atomic_store(&s->skip[n], raw->skip);
	}
}

/* Notes where a slot's history begins, for the next daemon. Without that it would show what this one has dropped. */
static void write_skip(const struct emu_source *s, uint32_t n, uint64_t skip, uint32_t serial)
{
	uint64_t at = s->slots_offset + (uint64_t)n * s->slot_size;

	(void)!pwrite(s->memfd, &skip, sizeof(skip), (off_t)(at + offsetof(struct emu_slot, skip)));
	(void)!pwrite(s->memfd, &serial, sizeof(serial), (off_t)(at + offsetof(struct emu_slot, skip_serial)));
}

int emu_source_new(int memfd, uid_t uid, struct emu_about *ret_about, struct capture_source **ret)
{
	_cleanup_close_ int fd = memfd;
	_cleanup_free_ struct emu_header *h = malloc(sizeof(*h));
	struct emu_source *s;
	struct statfs fs;
	struct stat st;
	int seals, rc;

	if (!h)
		return -ENOMEM;
	/* Without these seals the file could shrink under the mapping, and an access would raise SIGBUS. */
	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW))
		return -EPERM;
	/* Huge pages may be exhausted at the first access, which also raises SIGBUS. */
	if (fstatfs(fd, &fs) < 0 || fs.f_type != TMPFS_MAGIC)
		return -EMEDIUMTYPE;
	if (fstat(fd, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size < sizeof(*h))
		return -EBADMSG;
	rc = emu_pread(fd, h, sizeof(*h), 0);
	if (rc == 0)
		rc = check_header(h, (uint64_t)st.st_size);
	if (rc < 0)
		return rc;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->base.ops = &emu_capture;
	s->memfd = TAKE_FD(fd);
	s->uid = uid;
	s->n_rings = h->n_rings;
	s->slot_size = h->slot_size;
	s->watching_offset = h->watching_offset;
	s->slots_offset = h->slots_offset;
	s->log_offset = h->log_offset;
	s->log_size = h->log_size;
	s->rings_offset = h->rings_offset;
	s->ring_size = h->ring_size;
	s->regs = h->regs;
	s->virtual_clock = h->clock == EMU_CLOCK_VIRTUAL;
	s->control = atomic_load(&h->control);
	s->skip_serial = calloc(h->n_rings, sizeof(*s->skip_serial));
	s->skip = calloc(h->n_rings, sizeof(*s->skip));
	s->map = mmap(NULL, sizeof(*s->map), PROT_READ | PROT_WRITE, MAP_SHARED, s->memfd, 0);
	if (s->map == MAP_FAILED) {
		s->map = NULL;
		rc = -errno;
	} else if (!s->skip_serial || !s->skip) {
		rc = -ENOMEM;
	}
	if (rc < 0) {
		emu_free(&s->base);
		return rc;
	}
	copy_about(h, ret_about);
	ret_about->disarmed = atomic_load(&h->disarmed) == 1;
	/* An earlier daemon may have ended during a copy, with the rings frozen. */
	if ((s->control & 1) != ret_about->disarmed)
		emu_set_control(s);
	emu_watching_reset(s);
	read_skips(s);
	*ret = &s->base;
	return 0;
}

static struct capture_source *emu_free(struct capture_source *source)
{
	struct emu_source *s = emu_source_of(source);
	if (!source)
		return NULL;
	if (s->map)
		munmap(s->map, sizeof(*s->map));
	closep(&s->memfd);
	free((void *)s->skip);
	free((void *)s->skip_serial);
	free(s);
	return NULL;
}

static int emu_disarm(struct capture_source *source)
{
	struct emu_source *s = emu_source_of(source);
	emu_freeze(s);
	for (uint32_t n = 0; n < s->n_rings; n++) {
		struct slot_state o;

		if (emu_read_slot(s, n, &o) < 0)
			continue;
		atomic_store(&s->skip_serial[n], o.serial);
		atomic_store(&s->skip[n], o.head);
		write_skip(s, n, o.head, o.serial);
	}
	atomic_store(&s->map->disarmed, 1);
	return 0;
}

static int emu_arm(struct capture_source *source)
{
	struct emu_source *s = emu_source_of(source);
	atomic_store(&s->map->disarmed, 0);
	emu_thaw(s);
	return 0;
}

static void fill_thread(const struct emu_source *s, const struct slot_state *o, struct capture_thread *ret)
{
	*ret = (struct capture_thread){
		.tid = o->tid,
		.start_ns = o->start_ns,
		.end_ns = o->end_ns,
		.size = o->head - o->from,
		.written = o->head,
		.instructions = o->instructions,
		.truth = o->truth,
		.wrapped = o->from > 0,
		.running = o->state == EMU_RUNNING || o->state == EMU_IDLE,
	};
	memcpy(ret->name, o->name, sizeof(ret->name));
}

static int emu_threads(struct capture_source *source, struct capture_thread **ret, size_t *ret_n)
{
	struct emu_source *s = emu_source_of(source);
	_cleanup_free_ struct capture_thread *list = NULL;
	_cleanup_free_ uint8_t *slots = NULL;
	size_t n_list = 0, room = 0;
	int rc = emu_copy_slots(s, &slots);

	if (rc < 0)
		return rc;
	for (uint32_t n = 0; n < s->n_rings; n++) {
		struct slot_state o;

		emu_parse_slot(s, emu_raw_slot(s, slots, n), n, &o);
		if (o.state == EMU_FREE)
			continue;
		if (array_reserve(list, n_list, &room) < 0)
			return -ENOMEM;
		fill_thread(s, &o, &list[n_list++]);
	}
	*ret = TAKE_PTR(list);
	*ret_n = n_list;
	return 0;
}

static bool emu_holds(struct capture_source *source)
{
	struct emu_source *s = emu_source_of(source);
	_cleanup_free_ uint8_t *slots = NULL;

	if (emu_copy_slots(s, &slots) < 0)
		return false;
	for (uint32_t n = 0; n < s->n_rings; n++) {
		struct slot_state o;

		emu_parse_slot(s, emu_raw_slot(s, slots, n), n, &o);
		if (o.state != EMU_FREE && o.head > o.from)
			return true;
	}
	return false;
}

static void emu_missing(struct capture_source *source, struct buf *b)
{
	struct emu_header h;
	uint64_t lost, threads;

	emu_read_changing(emu_source_of(source), &h);
	lost = atomic_load(&h.log_lost);
	threads = atomic_load(&h.lost_threads);
	if (lost) {
		buf_printf(b, "%llu records of mappings and code were lost: the log was full",
			   (unsigned long long)lost);
		buf_u8(b, 0);
	}
	if (threads) {
		buf_printf(b, "%llu threads were not traced: all rings were in use", (unsigned long long)threads);
		buf_u8(b, 0);
	}
}

static void emu_ending(struct capture_source *source, struct ending *ret)
{
	struct emu_header h;
	uint32_t ended;

	emu_read_changing(emu_source_of(source), &h);
	ended = atomic_load(&h.ended);
	if (ended & EMU_ENDED)
		*ret = (struct ending){ .known = true, .status = (int)(ended & 0xff7f), .tid = h.ended_tid };
}

/* The options of a program are those with which it was started. */
static int emu_check(struct capture_source *source, const struct capture_options *wanted, struct reason *ret)
{
	const struct emu_source *s = emu_source_of(source);
	const struct capture_options have = { .cycles = s->regs.configr & ETM_CONFIGR_CCI,
					      .no_timestamps = !(s->regs.configr & ETM_CONFIGR_TS),
					      .no_contexts = !(s->regs.configr & ETM_CONFIGR_CID),
					      .ring_size = s->ring_size };

	if (wanted->kernel || wanted->filter || wanted->sink)
		return reason_set(ret, -EEXIST, "%s: a program under the emulated trace unit has no %s",
				  wanted->kernel   ? "kernel"
				  : wanted->filter ? "filter"
						   : "sink",
				  wanted->kernel   ? "trace of the kernel"
				  : wanted->filter ? "address filters"
						   : "sink");
	if (capture_options_compare(&have, wanted, ret) == 0)
		return 0;
	strncat(ret->text, "; such options are set when the program is started: csight run --emu",
		sizeof(ret->text) - strlen(ret->text) - 1);
	return -EEXIST;
}

static uint64_t emu_memory(struct capture_source *source)
{
	struct emu_source *s = emu_source_of(source);
	struct stat st;

	return fstat(s->memfd, &st) < 0 ? 0 : (uint64_t)st.st_blocks * 512;
}

/* A thread may begin before the freeze, and the log grow. */
static void emu_copy_max(struct capture_source *source, uint64_t *ret_trace, uint64_t *ret_log)
{
	struct emu_source *s = emu_source_of(source);
	_cleanup_free_ struct capture_thread *threads = NULL;
	uint64_t log = 0;
	size_t n = 0;

	if (emu_threads(source, &threads, &n) < 0)
		n = s->n_rings;
	if (emu_pread(s->memfd, &log, sizeof(log), offsetof(struct emu_header, log_head)) < 0)
		log = s->log_size;
	*ret_trace = (n + 1) * s->ring_size;
	log = MIN(log, s->log_size);
	*ret_log = MIN(log + MAX(log / 4, (uint64_t)LOG_GROWTH), s->log_size);
}

static uint8_t *map_memory(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Copies the bytes [from, to) of a ring, at most room of them, to their positions in the copy. */
static int copy_range(const struct emu_source *s, uint32_t n, uint64_t from, uint64_t to, uint8_t *data, size_t room)
{
	uint64_t base = s->rings_offset + (uint64_t)n * s->ring_size;

	while (from < to) {
		uint64_t at = from & (s->ring_size - 1), there = from % room;
		uint64_t size = MIN(MIN(to - from, s->ring_size - at), room - there);
		int rc = emu_pread(s->memfd, data + there, size, base + at);

		if (rc < 0)
			return rc;
		from += size;
	}
	return 0;
}

/*
 * A ring is copied in two passes, so that tracing stops only during the second: the first pass copies the contents
 * while they are being written, the second, after the freeze, copies the bytes added since. This is correct because
 * byte p of a stream is final once the head has passed it, and intact until the head is one ring size further: bytes of
 * the first pass that are still valid at the freeze were final when they were copied.
 */
struct ring_copy {
	uint8_t *data; /* NULL: nothing copied yet */
	size_t room;
	uint32_t serial;
	uint64_t from, to;
};

static int copy_ring(const struct emu_source *s, uint32_t n, const struct slot_state *o, size_t room,
		     struct ring_copy *c)
{
	uint64_t from = MAX(o->from, o->head - MIN(o->head, room));
	int rc;

	if (c->data && c->serial == o->serial && c->to <= o->head && c->to >= from && c->from <= from) {
		rc = copy_range(s, n, c->to, o->head, c->data, c->room);
	} else {
		if (!c->data)
			c->data = map_memory(room);
		c->room = room;
		c->serial = o->serial;
		rc = c->data ? copy_range(s, n, from, o->head, c->data, room) : -ENOMEM;
	}
	c->from = from;
	c->to = o->head;
	return rc;
}

/*
 * A thread that did not obey may have continued to write while its ring was copied, and overwritten the beginning. Cuts
 * off the part that may be overwritten; returns false if nothing is left.
 */
static bool cut_overwritten(const struct emu_source *s, uint32_t n, struct ring_copy *c)
{
	struct slot_state now;
	uint64_t oldest;

	if (emu_read_slot(s, n, &now) < 0 || now.serial != c->serial || now.head < c->to ||
	    __builtin_add_overflow(now.head, UNACKNOWLEDGED_MARGIN, &oldest))
		return false;
	oldest -= MIN(oldest, s->ring_size);
	c->from = MAX(c->from, oldest);
	return c->from < c->to;
}

/* Moves the copied ring of a thread into the copy; the copy owns the memory from then on. */
static void keep_thread(const struct emu_source *s, uint32_t n, const struct slot_state *o, bool alive,
			struct ring_copy *r, struct capture_copy *c)
{
	struct capture_thread *t = &c->threads[c->n_threads];

	fill_thread(s, o, t);
	t->acknowledged = !alive || o->state != EMU_RUNNING || o->seen == s->control;
	if (s->virtual_clock && o->state == EMU_IDLE)
		t->until_ns = c->monotonic - o->lag_ns;
	if (!t->acknowledged) {
		bool left = cut_overwritten(s, n, r);

		capture_note_missing(c, "thread %u did not stop tracing in time: %s", o->tid,
				     left ? "its last bytes are uncertain" : "it was left out");
		if (!left)
			return;
	}
	if (r->from > o->from && t->acknowledged)
		capture_note_missing(c, "only the newest %llu bytes of thread %u were kept (snapshot-max)",
				     (unsigned long long)(r->to - r->from), o->tid);
	t->from = r->from;
	t->size = r->to - r->from;
	t->wrapped = r->from > 0;
	t->data = TAKE_PTR(r->data);
	t->room = r->room;
	if (!alive && t->size)
		t->end_size = etm_finish_stream(o->head, o->pending, t->end);
	c->n_threads++;
}

/* Returns the freeze's time on the fastest virtual clock. */
static uint64_t virtual_time(const struct emu_source *s, const struct slot_state *slots, uint64_t monotonic)
{
	uint64_t least = monotonic;

	for (uint32_t n = 0; n < s->n_rings; n++)
		if (slots[n].state != EMU_FREE)
			least = MIN(least, slots[n].lag_ns);
	return monotonic - (least < monotonic ? least : 0);
}

/*
 * Copies a ring if there is memory for it: a program may begin any number of threads once it sees the freeze. shares:
 * the number of rings that may be copied besides those that are copied already.
 */
static int share_ring(const struct emu_source *s, uint32_t n, const struct slot_state *o, size_t room,
		      struct ring_copy *c, size_t *shares)
{
	if (!c->data && *shares == 0)
		return -ENOSPC;
	*shares -= !c->data;
	return copy_ring(s, n, o, room, c);
}

static int copy_threads(struct emu_source *s, bool alive, size_t limit, struct capture_copy *c)
{
	_cleanup_free_ struct slot_state *slots = calloc(s->n_rings, sizeof(*slots));
	struct ring_copy *rings = calloc(s->n_rings, sizeof(*rings));
	bool armed = !(s->control & 1);
	uint32_t n_used = 0;
	size_t room, shares;
	uint64_t stopped;
	int rc = 0;

	c->threads = calloc(s->n_rings, sizeof(*c->threads));
	if (!slots || !rings || !c->threads)
		rc = -ENOMEM;
	for (uint32_t n = 0; n < s->n_rings && rc == 0; n++) {
		rc = emu_read_slot(s, n, &slots[n]);
		n_used += slots[n].state != EMU_FREE;
	}
	/* Reserve a share for a thread that may start before the freeze. */
	room = MIN(limit / (n_used + 1), s->ring_size) & ~(size_t)4095;
	if (room == 0)
		room = 4096;
	shares = MAX(limit / room, (size_t)n_used + 1);
	for (uint32_t n = 0; n < s->n_rings && rc == 0 && alive && armed; n++)
		if (slots[n].state != EMU_FREE)
			rc = share_ring(s, n, &slots[n], room, &rings[n], &shares);
	now_both(&c->time, &c->monotonic);
	stopped = c->monotonic;
	if (alive && armed) {
		stopped = emu_held_since(s, c->monotonic);
		emu_freeze(s);
	}
	for (uint32_t n = 0; n < s->n_rings && rc == 0; n++) {
		rc = emu_read_slot(s, n, &slots[n]);
		if (rc < 0 || slots[n].state == EMU_FREE)
			continue;
		rc = share_ring(s, n, &slots[n], room, &rings[n], &shares);
		if (rc == 0)
			keep_thread(s, n, &slots[n], alive, &rings[n], c);
		if (rc == -ENOSPC) {
			capture_note_missing(c, "thread %u was left out: it began during the copy", slots[n].tid);
			rc = 0;
		}
	}
	if (alive && armed) {
		emu_thaw(s);
		c->blind = now_ns(CLOCK_MONOTONIC) - stopped;
	}
	c->virtual_clock = s->virtual_clock;
	if (s->virtual_clock && slots)
		c->monotonic = virtual_time(s, slots, c->monotonic);
	for (uint32_t n = 0; rings && n < s->n_rings; n++)
		if (rings[n].data)
			munmap(rings[n].data, rings[n].room);
	free(rings);
	return rc;
}

/* Returns the bytes of the whole records among the first ones of a log. */
static size_t whole_records(const uint8_t *log, size_t size)
{
	struct emu_record head;
	size_t at = 0;

	while (size - at >= sizeof(head)) {
		memcpy(&head, log + at, sizeof(head));
		if (head.size < sizeof(head) || head.size > size - at)
			break;
		at += head.size;
	}
	return at;
}

/* Records are only appended, so complete ones can be copied while the program runs. */
static int copy_log(const struct emu_source *s, size_t limit, struct capture_copy *c)
{
	struct emu_header h;
	uint64_t size;
	int rc;

	emu_read_changing(s, &h);
	size = atomic_load(&h.log_head);

	if (size > s->log_size) {
		capture_note_missing(c, "the log of mappings and code is damaged");
		return 0;
	}
	c->log_size = MIN(size, limit);
	c->log = malloc(c->log_size + 1);
	if (!c->log)
		return -ENOMEM;
	rc = emu_pread(s->memfd, c->log, c->log_size, s->log_offset);
	if (rc == 0 && c->log_size < size) {
		c->log_size = whole_records(c->log, c->log_size);
		capture_note_missing(c,
				     "the newest %llu bytes of the log of mappings and code were left out: it grew "
				     "before it was copied",
				     (unsigned long long)(size - c->log_size));
	}
	return rc;
}

/* One trace unit stands for all threads, which never share a stream. There is no PMU, so its type is a placeholder. */
static int copy_unit(const struct emu_source *s, struct capture_copy *c)
{
	const struct emu_regs *r = &s->regs;

	c->cpus = malloc(sizeof(*c->cpus));
	if (!c->cpus)
		return -ENOMEM;
	*c->cpus = (struct pd_cpu){
		.magic = PD_MAGIC_ETMV4,
		.n_params = 7,
		.params = { r->configr, r->traceidr, r->idr0, r->idr1, r->idr2, r->idr8, r->authstatus },
	};
	c->n_cpus = 1;
	return 0;
}

static int emu_copy(struct capture_source *source, bool alive, const struct capture_limits *limits,
		    struct capture_copy **ret)
{
	struct emu_source *s = emu_source_of(source);
	struct capture_copy *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return -ENOMEM;
	c->jitdump.fd = -1;
	c->missing.limit = CAPTURE_MISSING_MAX;
	c->pmu_type = NO_PMU_TYPE;
	rc = copy_unit(s, c);
	if (rc == 0)
		rc = copy_threads(s, alive, limits->trace, c);
	if (rc == 0)
		rc = copy_log(s, limits->log, c);
	emu_missing(source, &c->missing);
	if (rc < 0) {
		capture_copy_free(c);
		return rc;
	}
	*ret = c;
	return 0;
}

const struct capture_ops emu_capture = {
	.name = "emu",
	.arm = emu_arm,
	.disarm = emu_disarm,
	.copy = emu_copy,
	.threads = emu_threads,
	.holds = emu_holds,
	.missing = emu_missing,
	.check = emu_check,
	.ending = emu_ending,
	.memory = emu_memory,
	.copy_max = emu_copy_max,
	.watching = &emu_watching,
	.free = emu_free,
};
