/* SPDX-License-Identifier: MIT */
/*
 * The plugin's side of ring.h: creates the shared memory, registers it with the daemon, and assigns slots to threads.
 * The child of a fork creates its own. The caller's lock protects the assignment of slots.
 */
#ifndef CSIGHT_EMU_SHARED_H
#define CSIGHT_EMU_SHARED_H

#include "lib/emu/descriptor.h"
#include "lib/emu/ring.h"

struct shared_options {
	const char *socket; /* NULL: do not register */
	uint32_t rings;
	uint64_t ring_size, log_size;
	uint32_t configr; /* TRCCONFIGR */
	enum emu_clock clock;
	enum emu_mode mode;
};

struct shared {
	struct emu_header *header;
	struct emu_watching *watching;
	struct emu_slot *slots;
	uint8_t *log, *rings;
	struct descriptor socket; /* none: not registered */
	struct descriptor memory; /* the memfd, to register it again; none: not registered */
};

/* exe is the path of the traced program. On failure prints a message to standard error and returns a negative errno. */
int shared_open(const struct shared_options *o, const char *exe, uint32_t parent, struct shared *ret);

/* Closes descriptors that the child of a fork has inherited. */
void shared_close(struct shared *s);

/* Closes the connection to the daemon. */
void shared_disconnect(struct shared *s);

/*
 * Registers the same memory again. Returns the new connection, for shared_connected(), or a negative errno.
 * -EPROTONOSUPPORT: the daemon has another version of the rings; -EBADF: the program has closed the memfd.
 */
int shared_announce(const struct shared *s, const char *socket);
void shared_connected(struct shared *s, int socket);

/* Returns a time that no thread's clock has passed. */
uint64_t shared_latest_time(const struct shared *s);

/*
 * Assigns a slot to the calling thread, whose clock reads time, and sets its state to EMU_RUNNING; *ret_control is the
 * (even) control word. -EBUSY: the rings are frozen, retry after the thaw; -EAGAIN: all slots are in use by living
 * threads, or hold what the mode fill keeps.
 */
int shared_take(struct shared *s, uint32_t tid, const char name[EMU_NAME_SIZE], uint64_t time, struct emu_slot **ret,
		uint32_t *ret_control);

/* Where in its stream the history of the thread of a slot begins: the daemon has dropped what precedes it. */
uint64_t shared_begin(const struct emu_slot *slot);

static inline uint8_t *shared_ring(const struct shared *s, const struct emu_slot *slot)
{
	return s->rings + (uint64_t)(slot - s->slots) * s->header->ring_size;
}

/* Sends the descriptor of a file to the daemon. */
void shared_send_file(struct shared *s, uint32_t id, int fd);

/* Wakes the daemon, without waiting for it. */
void shared_send_hits(struct shared *s);

#endif
