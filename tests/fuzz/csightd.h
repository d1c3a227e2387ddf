/* SPDX-License-Identifier: MIT */
/*
 * csightd as a whole, in a thread of this process, for harnesses, with three targets: this process and two children, of
 * which the second is of another user.
 * Nothing outside of this process is started.
 */
#ifndef CSIGHT_TESTS_FUZZ_CSIGHTD_H
#define CSIGHT_TESTS_FUZZ_CSIGHTD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/emu/ring.h"

enum {
	FUZZ_RINGS = 512 << 10,
	FUZZ_TARGETS = 3,
	FUZZ_ID_SIZE = 23,
	FUZZ_USER = 65534,
	FUZZ_DENIED = 65533, /* by the setting deny */
	FUZZ_KNOWS_ALL = EMU_KNOWS_P99 | EMU_KNOWS_JOINS | EMU_KNOWS_GO_CALLS | EMU_KNOWS_OFF_CPU,
	FUZZ_QUIET_MS = 10,    /* csightd has nothing more to say */
	FUZZ_HANG_MS = 120000, /* it hangs */
};

struct fuzz_csightd {
	char dir[40], control[64], emu[72], decoder[64]; /* its files; decoder: where it connects to csight-decode */
	pid_t pids[FUZZ_TARGETS];
	uint8_t *rings;        /* of this process */
	int target;            /* the connection of this process as a target */
	int other;             /* the connection of another client */
	char id[FUZZ_ID_SIZE]; /* of the latest snapshot */
	int number;            /* of the latest trigger or standing target */
};

extern struct fuzz_csightd fuzz_csightd;

/*
 * Starts csightd, once; later calls undo what the last input has done that would affect this one. begin_decoder: called
 * before that; it may make the socket of csight-decode. NULL: there is none.
 */
void fuzz_csightd_begin(void (*begin_decoder)(void));

/* Returns the connection. */
int fuzz_connect(const char *path, int type);
int fuzz_connect_as(const char *path, int type, uid_t uid);

/* What the daemon watches in fuzz_csightd.rings. */
struct emu_watching *fuzz_watching(void);

/* Shared memory with rings, sealed; mapped as fuzz_csightd.rings. */
int fuzz_make_rings(void);

/* Sends a struct emu_message. fd -1: without a descriptor. */
void fuzz_send_message(int socket, uint32_t type, uint32_t value, int fd);

/* True if fd becomes readable. */
bool fuzz_wait_readable(int fd, int ms);

/* csightd still replies to the other client. */
void fuzz_check_alive(void);

/*
 * Sends text to the control socket, with $1 to $3 replaced by the process IDs of the targets, $4 by the ID of the
 * latest snapshot, and $5 by the number of the latest trigger or standing target. A newline after a NUL waits for the
 * reply; a '~' after that sends what follows as FUZZ_USER. Reads replies until there is none for ms.
 */
void fuzz_call(const void *text, size_t size, int ms);

#endif
