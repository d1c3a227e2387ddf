/* SPDX-License-Identifier: MIT */
/*
 * How the file of the state (state.h) is divided among accounts, if what they have does not fit: each gets what it
 * needs, up to the same limit, so that those lose something that have most. Sizes are those that texts may have when
 * they are escaped; nothing is formatted to find them.
 */
#ifndef CSIGHT_DAEMON_STATE_SHARES_H
#define CSIGHT_DAEMON_STATE_SHARES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ledger;
struct state_share;

struct state_shares {
	const struct ledger *ledger;
	struct state_share *list;
	size_t n, room;
	bool incomplete; /* memory ran out */
	uint64_t limit;  /* of one account */
	size_t left_out;
	uid_t largest; /* the account that needs most */
};

/* Returns an upper bound of the bytes that a text takes in JSON; NULL: 0. */
uint64_t state_shares_text(const char *text);

/* First, everything is announced, with the user that it is charged to; then the bytes are divided. */
void state_shares_want(struct state_shares *s, uid_t user, uint64_t bytes);
void state_shares_divide(struct state_shares *s, uint64_t total);

/* Returns whether this is in the user's share; if not it is counted in left_out. */
bool state_shares_take(struct state_shares *s, uid_t user, uint64_t bytes);
void state_shares_done(struct state_shares *s);

#endif
