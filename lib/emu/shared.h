/*
 * The plugin's end of what ring.h lays out: making the shared memory, registering it, handing out slots. After a fork
 * the child makes its own. Slots are handed out under the caller's lock.
 */
#ifndef CSIGHT_EMU_SHARED_H
#define CSIGHT_EMU_SHARED_H

#include "lib/emu/ring.h"

struct shared_options {
	const char *socket; /* NULL: nobody is told */
	uint32_t rings;
	uint64_t ring_size, log_size;
	uint32_t configr; /* TRCCONFIGR */
};

struct shared {
	struct emu_header *header;
	struct emu_slot *slots;
	uint8_t *log, *rings;
	int socket; /* -1: not registered */
};

/* exe: the program's file; its arguments are found after it. On failure says on standard error what was tried and why.
 */
int shared_open(const struct shared_options *o, const char *exe, uint32_t parent, struct shared *ret);

/*
 * A slot for the calling thread, in state EMU_RUNNING as of the (even) control word. -EBUSY: the rings are frozen, try
 * again after the thaw; -EAGAIN: every slot is in use by a living thread.
 */
int shared_take(struct shared *s, uint32_t tid, const char name[EMU_NAME_SIZE], struct emu_slot **ret,
		uint32_t *ret_control);

static inline uint8_t *shared_ring(const struct shared *s, const struct emu_slot *slot)
{
	return s->rings + (uint64_t)(slot - s->slots) * s->header->ring_size;
}

/* Hands a file's descriptor to the daemon. */
void shared_send_file(struct shared *s, uint32_t id, int fd);

#endif
