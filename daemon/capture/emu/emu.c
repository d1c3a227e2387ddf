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
	LOG_GROWTH = 1 << 20, /* bytes, at least, that a copy has room for beyond the log's present size */
};

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

/* Reads where the history of each slot begins: the part that an earlier daemon dropped stays dropped. */
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

/* Records where a slot's history begins: else the next daemon would show what this daemon has dropped. */
static void write_skip(const struct emu_source *s, uint32_t n, uint64_t skip, uint32_t serial)
{
	uint64_t at = s->slots_offset + (uint64_t)n * s->slot_size;

	emu_store(s, at + offsetof(struct emu_slot, skip), &skip, sizeof(skip));
	emu_store(s, at + offsetof(struct emu_slot, skip_serial), &serial, sizeof(serial));
}

int emu_source_new(int memfd, struct emu_about *ret_about, struct capture_source **ret)
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
	s->n_rings = h->n_rings;
	s->slot_size = h->slot_size;
	s->watching_offset = h->watching_offset;
	s->slots_offset = h->slots_offset;
	s->log_offset = h->log_offset;
	s->log_size = h->log_size;
	s->rings_offset = h->rings_offset;
	s->ring_size = h->ring_size;
	s->regs = h->regs;
	s->fills = h->regs.mode == EMU_MODE_FILL;
	s->virtual_clock = h->clock == EMU_CLOCK_VIRTUAL;
	s->control = atomic_load(&h->control);
	s->skip_serial = calloc(h->n_rings, sizeof(*s->skip_serial));
	s->skip = calloc(h->n_rings, sizeof(*s->skip));
	s->map_size = s->slots_offset + (size_t)s->n_rings * s->slot_size;
	s->map = mmap(NULL, s->map_size, PROT_READ | PROT_WRITE, MAP_SHARED, s->memfd, 0);
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
		munmap(s->map, s->map_size);
	closep(&s->memfd);
	free((void *)s->skip);
	free((void *)s->skip_serial);
	free(s);
	return NULL;
}

static int emu_take_memory(struct capture_source *source)
{
	struct emu_source *s = emu_source_of(source);

	return TAKE_FD(s->memfd);
}

static int emu_disarm(struct capture_source *source)
{
	struct emu_source *s = emu_source_of(source);

	if (!(s->control & 1))
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
	if (!s->paused)
		emu_thaw(s);
	return 0;
}

static void emu_pause(struct capture_source *source, bool paused)
{
	struct emu_source *s = emu_source_of(source);

	s->paused = paused;
	if (atomic_load(&s->map->disarmed) == 1)
		return;
	if (paused && !(s->control & 1))
		emu_freeze(s);
	else if (!paused && s->control & 1)
		emu_thaw(s);
}

static void emu_trouble(struct capture_source *source, struct buf *b)
{
	if (emu_source_of(source)->paused)
		buf_add(b, CAPTURE_PAUSED, sizeof(CAPTURE_PAUSED));
}

void emu_fill_thread(const struct emu_source *s, const struct slot_state *o, struct capture_thread *ret)
{
	*ret = (struct capture_thread){
		.tid = o->tid,
		.slot = o->n,
		.serial = o->serial,
		.start_ns = o->start_ns,
		.end_ns = o->end_ns,
		.size = o->head - o->from,
		.written = o->head,
		.instructions = o->instructions,
		.truth = o->truth,
		.wrapped = o->from > 0,
		.running = o->state == EMU_RUNNING || o->state == EMU_IDLE,
		.full = o->full,
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
		emu_fill_thread(s, &o, &list[n_list++]);
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

/* Returns the number of threads whose rings are full in the mode fill. */
static uint64_t count_full(const struct emu_source *s)
{
	_cleanup_free_ uint8_t *slots = NULL;
	uint64_t full = 0;

	if (!s->fills || emu_copy_slots(s, &slots) < 0)
		return 0;
	for (uint32_t n = 0; n < s->n_rings; n++) {
		struct slot_state o;

		emu_parse_slot(s, emu_raw_slot(s, slots, n), n, &o);
		full += o.state != EMU_FREE && o.full;
	}
	return full;
}

void emu_missing(struct capture_source *source, struct buf *b)
{
	uint64_t full = count_full(emu_source_of(source));
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
	if (full) {
		buf_printf(b, "%llu threads have filled their rings, and are recorded no longer (mode fill)",
			   (unsigned long long)full);
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
					      .branch_broadcast = s->regs.configr & ETM_CONFIGR_BB,
					      .no_return_stack = !(s->regs.configr & ETM_CONFIGR_RS),
					      .mode = s->fills ? CAPTURE_MODE_FILL : CAPTURE_MODE_RING,
					      .ring_size = s->ring_size };

	if (wanted->counters)
		return reason_set(ret, -EEXIST,
				  "counters: a program under the emulated trace unit has none; csight report counts "
				  "its instructions");
	if (wanted->kernel || wanted->filter || wanted->sink)
		return reason_set(ret, -EEXIST, "%s: a program under the emulated trace unit has no %s",
				  wanted->kernel   ? "kernel"
				  : wanted->filter ? "filter"
						   : "sink",
				  wanted->kernel   ? "trace of the kernel"
				  : wanted->filter ? "address filters"
						   : "sink");
	if (wanted->thread || wanted->cpus)
		return reason_set(ret, -EEXIST, "%s: a program under the emulated trace unit is traced as a whole",
				  wanted->thread ? "thread" : "cpus");
	if (wanted->cycle_threshold)
		return reason_set(ret, -EEXIST,
				  "cycle-threshold: csightd does not know that of a program under the emulated trace "
				  "unit, which is set when the program is started: csight run --emu");
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

/* A thread may start before the freeze, and the log may grow. */
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

const struct capture_ops emu_capture = {
	.name = "emu",
	.arm = emu_arm,
	.disarm = emu_disarm,
	.copy = emu_copy,
	.drain = emu_drain,
	.threads = emu_threads,
	.holds = emu_holds,
	.missing = emu_missing,
	.check = emu_check,
	.ending = emu_ending,
	.trouble = emu_trouble,
	.pause = emu_pause,
	.memory = emu_memory,
	.take_memory = emu_take_memory,
	.copy_max = emu_copy_max,
	.watching = &emu_watching,
	.free = emu_free,
};
