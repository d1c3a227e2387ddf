/* SPDX-License-Identifier: MIT */
/*
 * Notes: what a program writes about itself (csight_note(), csight_span_begin()), for the timelines of its snapshots.
 *
 * libcsight, the writer, keeps a sealed memfd for each process, and sends it to csightd over the socket at which
 * emulated programs register (lib/emu/ring.h): one struct notes_message with the descriptor. csightd answers with a
 * message whose value is 0, or closes the connection, which lasts as long as the program. csightd writes `state` alone,
 * and trusts none of the rest: it copies entries as they are, and csight-decode parses the copy.
 *
 * An entry is claimed by its sequence number: 2 * index + 1 while it is written, 2 * index + 2 once it is complete. A
 * writer that finds its place taken by another one drops its note, so that none waits. A copy is two readings of the
 * memory; an entry that is the same in both is whole.
 *
 * Where the trace has a clock of its own, the writer shows where in the trace a note was made: it calls
 * csight_note_mark() NOTES_MARKS times. The instructions that a call executes, as many as notes_steps() determines,
 * stand for the start, a digit of the note's index, or the check.
 */
#ifndef CSIGHT_NOTES_H
#define CSIGHT_NOTES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buf.h"

#define NOTES_MAGIC 0x3145544f4e534300ull /* "\0CSNOTE1" */

enum {
	NOTES_VERSION = 1,
	NOTES_ENTRIES = 4096, /* a power of two */
	NOTES_LABEL_MAX = 64,
	NOTES_MARKS = 7, /* the first one, one for each digit of the index, and a check */
	NOTES_DIGITS = NOTES_MARKS - 2,
	NOTES_BITS = 3, /* of a digit */
};

/* Bits of notes_memory.state. FROZEN: nothing is recorded, as the rings of the process are being copied. */
enum { NOTES_ARMED = 1, NOTES_MARKED = 2, NOTES_FROZEN = 4 };

enum notes_kind { NOTES_NOTE, NOTES_BEGIN, NOTES_END };

struct notes_entry {
	_Atomic uint64_t sequence;
	uint64_t time; /* CLOCK_MONOTONIC ns */
	int64_t value;
	uint64_t begin, begin_time; /* NOTES_END: index and time of the beginning */
	uint32_t tid;
	uint16_t kind, label_size;
	char label[NOTES_LABEL_MAX];
	uint8_t reserved[16];
};

struct notes_memory {
	uint64_t magic;
	uint32_t version, entry_size;
	_Atomic uint32_t state; /* written by csightd */
	uint32_t reserved;
	_Atomic uint64_t head; /* notes ever begun */
	_Atomic uint64_t dropped;
	uint8_t unused[88];
	struct notes_entry entries[NOTES_ENTRIES];
};

/* As large as struct emu_message. */
struct notes_message {
	uint64_t magic;
	uint32_t version, reserved;
	int64_t value;
};

/* Returns the steps of csight_note_mark() for mark n of the note with this index: 0 only for the first mark, n = 0. */
static inline unsigned notes_steps(uint64_t index, unsigned n)
{
	unsigned sum = 0;

	if (n == 0)
		return 0;
	if (n <= NOTES_DIGITS)
		return 1 + (index >> (n - 1) * NOTES_BITS & ((1 << NOTES_BITS) - 1));
	for (unsigned i = 1; i <= NOTES_DIGITS; i++)
		sum += i * notes_steps(index, i);
	return 1 + sum % (1 << NOTES_BITS);
}

/*
 * Appends the whole entries of a memfd of notes to *ret, as they are. -EBADMSG: it is none; other errors of pread().
 */
int notes_copy(int memfd, struct buf *ret);

/* One note of a copy. label: not terminated, any bytes. */
struct note {
	uint64_t index, time, begin, begin_time;
	int64_t value;
	uint32_t tid;
	enum notes_kind kind;
	const char *label;
	size_t label_size;
};

/*
 * Reads a copy, which is hostile input; entries that are not valid are left out. *ret is sorted by index and the
 * caller's; labels point into the copy. -ENOMEM.
 */
int notes_parse(const void *copy, size_t size, struct note **ret, size_t *ret_n);

#endif
