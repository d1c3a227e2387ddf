/* SPDX-License-Identifier: MIT */
/*
 * How long the capture thread may wait for the threads of one account's programs to obey a freeze. A program that does
 * not obey costs its account's budget, not the time of others. An account is that of the ledger: a user, with its
 * subordinate uids. On the capture thread only.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_PATIENCE_H
#define CSIGHT_DAEMON_CAPTURE_PATIENCE_H

#include <stdint.h>
#include <sys/types.h>

/* Returns the ns that a wait for a program of this account may take now: at most 1 s, at least some milliseconds. */
uint64_t patience_left(uid_t account, uint64_t now);

/* Charges a wait that ended without obedience. */
void patience_spend(uid_t account, uint64_t now, uint64_t ns);

#endif
