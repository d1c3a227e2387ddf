/* SPDX-License-Identifier: MIT */
/*
 * csightd as a whole, in a thread of this process, for harnesses, with three targets: this process and two children.
 * Nothing outside of this process is started.
 */
#ifndef CSIGHT_TESTS_FUZZ_CSIGHTD_H
#define CSIGHT_TESTS_FUZZ_CSIGHTD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	FUZZ_RINGS = 512 << 10,
	FUZZ_TARGETS = 3,
	FUZZ_ID_SIZE = 23,
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
};

extern struct fuzz_csightd fuzz_csightd;

/*
 * Starts csightd, once. begin_decoder: called before that; it may make the socket of csight-decode. NULL: there is
 * none.
 */
void fuzz_csightd_begin(void (*begin_decoder)(void));

/* Returns the connection. */
int fuzz_connect(const char *path, int type);

/* Shared memory with rings, sealed; mapped as fuzz_csightd.rings. */
int fuzz_make_rings(void);

/* Sends a struct emu_message. fd -1: without a descriptor. */
void fuzz_send_message(int socket, uint32_t type, uint32_t value, int fd);

/* True if fd becomes readable. */
bool fuzz_wait_readable(int fd, int ms);

/* csightd still replies to the other client. */
void fuzz_check_alive(void);

/*
 * Sends text to the control socket, with $1 to $3 replaced by the process IDs of the targets, and $4 by the ID of the
 * latest snapshot. Reads replies until there is none for ms.
 */
void fuzz_call(const void *text, size_t size, int ms);

#endif
