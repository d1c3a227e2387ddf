/* SPDX-License-Identifier: MIT */
/*
 * Writes the log of mappings and code (ring.h): mappings, and code bytes that differ from the mapped files. When QEMU
 * translates a block, its bytes are compared with those that a reader of the log would find, and logged if they differ.
 * The caller's lock protects all functions except codelog_epoch().
 */
#ifndef CSIGHT_EMU_CODELOG_H
#define CSIGHT_EMU_CODELOG_H

#include <stdbool.h>

#include "lib/emu/shared.h"

struct codelog;

/*
 * time() returns the time of a new record of a mapping or code. replaces: it replaces code that may have run; otherwise
 * any time will do that is not later.
 */
struct codelog *codelog_new(struct shared *s, uint64_t (*time)(bool replaces));

/*
 * Logs code that is about to run at addr, if needed. bytes is the code that QEMU translates, all in one page; base is
 * the offset of guest addresses in QEMU's address space.
 */
void codelog_check(struct codelog *c, uint64_t addr, const uint8_t *bytes, uint32_t len, uint64_t base);

/* Logs the name that a thread has from a time on. */
void codelog_name(struct codelog *c, uint32_t tid, const char name[EMU_NAME_SIZE], uint64_t time);

/*
 * The number of records. A thread that sees it change emits a timestamp before its next block, by which a decoder
 * chooses the version of the code.
 */
extern _Atomic uint32_t codelog_records;
static inline uint32_t codelog_epoch(void)
{
	return atomic_load_explicit(&codelog_records, memory_order_acquire);
}

/* Copies the log to the child's own shared memory, in the child of a fork. */
void codelog_moved(struct codelog *c, const struct shared *from);

#endif
