/* SPDX-License-Identifier: MIT */
/* The source of a program under the emulated ETM, for the files of emu/. */
#ifndef CSIGHT_DAEMON_CAPTURE_EMU_INTERNAL_H
#define CSIGHT_DAEMON_CAPTURE_EMU_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/capture/capture.h"
#include "lib/base/util.h"

/*
 * The part before the log is mapped. csightd accesses only the words control and disarmed in it directly; it writes all
 * else with emu_store(), and reads all else with pread(), which copies, cannot fault, and allocates no pages that the
 * writer has not allocated. The geometry comes from one validated copy of the header.
 */
struct emu_source {
	struct capture_source base;
	int memfd;
	struct emu_header *map;
	size_t map_size;
	uint32_t n_rings, slot_size;
	uint64_t watching_offset, slots_offset, log_offset, log_size, rings_offset, ring_size;
	struct emu_regs regs;
	bool virtual_clock;
	bool fills;       /* EMU_MODE_FILL */
	uint32_t control; /* value stored last; even: armed */
	_Atomic bool paused;
	/*
	 * After a disarm, the position at which the history of each slot begins; valid for the thread with this serial.
	 */
	_Atomic uint32_t *skip_serial;
	_Atomic uint64_t *skip;
};

static inline struct emu_source *emu_source_of(struct capture_source *source)
{
	return container_of(source, struct emu_source, base);
}

/* The contents of a slot at one moment. */
struct slot_state {
	uint32_t n, state, seen, tid, serial;
	char name[EMU_NAME_SIZE + 1];
	uint64_t start_ns, end_ns, base_ns, lag_ns, stopped_ns, head, instructions, truth, pending, earlier;
	bool full;     /* in the mode fill: the thread has stopped, or stops at its next block */
	uint64_t from; /* position of the first valid byte; the last is before head */
};

/* Reads size bytes. -EIO: there are fewer. */
int emu_pread(int fd, void *ret, size_t size, uint64_t at);

/* Writes size bytes at offset `at` of the memfd, which is before the log. Errors of io_store(). */
int emu_store(const struct emu_source *s, uint64_t at, const void *data, size_t size);

/* Reads the fields of the header that the program changes; the others become 0, and all do if reading fails. */
void emu_read_changing(const struct emu_source *s, struct emu_header *ret);

/* Copies all slots at once, as they are in the memfd. The caller frees *ret. */
int emu_copy_slots(const struct emu_source *s, uint8_t **ret);
const struct emu_slot *emu_raw_slot(const struct emu_source *s, const uint8_t *slots, uint32_t n);
void emu_parse_slot(const struct emu_source *s, const struct emu_slot *raw, uint32_t n, struct slot_state *ret);
int emu_read_slot(const struct emu_source *s, uint32_t n, struct slot_state *ret);

/* Stores the next control word: an odd one stops the threads, an even one lets them continue. */
void emu_set_control(struct emu_source *s);

/* Freezes the threads, and waits until all have obeyed or the owner's patience is spent. Callers check each slot. */
void emu_freeze(struct emu_source *s);
void emu_thaw(struct emu_source *s);

/* Returns since when a hit has kept the rings frozen, CLOCK_MONOTONIC; now, if none does. */
uint64_t emu_held_since(const struct emu_source *s, uint64_t now);

/* Describes the thread of a slot, without data. */
void emu_fill_thread(const struct emu_source *s, const struct slot_state *o, struct capture_thread *ret);

enum { EMU_UNPUBLISHED = 4096 }; /* bytes beyond its head that a running thread may be writing */

/* Copies the bytes [from, to) of ring n: byte p to data[p % room]. They must fit in room. Errors of emu_pread(). */
int emu_copy_range(const struct emu_source *s, uint32_t n, uint64_t from, uint64_t to, uint8_t *data, size_t room);

/* Returns memory that munmap() frees, which costs nothing before it is used; NULL without memory. */
uint8_t *emu_map_memory(size_t size);

/*
 * Sets cpus and pmu_type of a copy: one trace unit stands for all threads, which never share a stream, and the type is
 * a placeholder, since there is no PMU. -ENOMEM.
 */
int emu_describe_unit(const struct emu_source *s, struct capture_copy *c);

/* Returns the time on the virtual clock that is ahead of all others: the one with the least lag. */
uint64_t emu_virtual_time(const struct emu_source *s, const struct slot_state *slots, uint64_t monotonic);

/* Returns from where a recording goes on with a thread, and what is lost before. oldest: the first intact byte. */
uint64_t emu_continue(const struct capture_position *p, const struct slot_state *o, uint64_t oldest,
		      struct capture_lost *ret);

/* Of struct capture_ops: */
int emu_drain(struct capture_source *source, struct capture_positions *positions, struct capture_drain *drain,
	      struct capture_copy **ret);
void emu_missing(struct capture_source *source, struct buf *b);
int emu_copy(struct capture_source *source, bool alive, const struct capture_limits *limits, struct capture_copy **ret);

/* Removes the watch points that an earlier daemon has set. */
int emu_watching_reset(struct emu_source *s);

extern const struct capture_watching emu_watching;

#endif
