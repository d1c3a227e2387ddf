/*
 * What code there is, as the log of ring.h tells it: mappings, and bytes that the mapped files do not give back. The
 * bytes of each block are checked when QEMU translates it; what the log so far would not give back is added. All calls
 * but codelog_epoch are made under the caller's lock.
 */
#ifndef CSIGHT_EMU_CODELOG_H
#define CSIGHT_EMU_CODELOG_H

#include "lib/emu/shared.h"

struct codelog;

struct codelog *codelog_new(struct shared *s);

/* Code is about to run at addr; bytes, all of one page, are what QEMU translates, base what to add to a guest address.
 */
void codelog_check(struct codelog *c, uint64_t addr, const uint8_t *bytes, uint32_t len, uint64_t base);

/* A thread's name from now on. */
void codelog_name(struct codelog *c, uint32_t tid, const char name[EMU_NAME_SIZE]);

/*
 * Grows with each record. A thread that sees it grow tells the time before its next block, so that a decoder knows
 * which code that block was.
 */
extern _Atomic uint32_t codelog_records;
static inline uint32_t codelog_epoch(void)
{
	return atomic_load_explicit(&codelog_records, memory_order_acquire);
}

/* After a fork, in the child: everything so far goes to a new shared memory. */
void codelog_moved(struct codelog *c, const struct shared *from);

#endif
