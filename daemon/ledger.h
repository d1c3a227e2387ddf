/* SPDX-License-Identifier: MIT */
/*
 * The ledger: what each user holds of the daemon's resources, and the one place that refuses more. Everything is
 * charged to a uid before it is spent, and returned when it is free again; a struct charge is what is to be returned.
 * Subordinate uids count as the user whom they belong to (daemon/subuids.h), so that a user has one account.
 *
 * A charge is refused where it exceeds the account's own limit, or the total of the machine, of which a reserve is for
 * root. Of kinds that are divided (struct ledger_total), an account besides gets at most half of what the others leave:
 * so there is always some left for a user who comes later.
 *
 * On the loop's thread.
 */
#ifndef CSIGHT_DAEMON_LEDGER_H
#define CSIGHT_DAEMON_LEDGER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/base/reason.h"

struct ledger;
struct ledger_user;

enum ledger_kind {
	LEDGER_MEMORY,        /* bytes in memory: copies of rings, unread output */
	LEDGER_SPOOL,         /* bytes in the spool: at rest, and reserved for what is being written */
	LEDGER_PENDING,       /* bytes in the spool of snapshots that cannot be removed: not ready or raw yet */
	LEDGER_RINGS,         /* bytes of the rings of targets */
	LEDGER_DESCRIPTORS,   /* of files of targets */
	LEDGER_TARGETS,       /* that have not ended */
	LEDGER_CONNECTIONS,   /* of clients */
	LEDGER_REGISTRATIONS, /* connections of programs that have not registered */
	LEDGER_REQUESTS,      /* snapshots that are being made */
	LEDGER_WAITING,       /* snapshots that wait for their decode */
	LEDGER_STORED,        /* snapshots in the spool */
	LEDGER_TRIGGERS,      /* that are not at their end */
	LEDGER_STANDING,      /* rules of standing targets */
	/* Rates, which ledger_spend() charges and time returns: */
	LEDGER_RATES,
	LEDGER_SNAPSHOTS = LEDGER_RATES, /* snapshots per minute */
	LEDGER_TRIGGERED,                /* snapshots per minute that triggers take */
	LEDGER_DECODER,                  /* milliseconds of decodes per hour */
	LEDGER_KINDS,
};

#define LEDGER_UNLIMITED UINT64_MAX

/* The limits of one user. */
struct ledger_limits {
	uint64_t most[LEDGER_KINDS];
};

/* The limits of the machine. */
struct ledger_total {
	uint64_t most, reserve; /* reserve: the part of most that is for root */
	bool divided;           /* an account gets at most half of what the others leave */
};

struct ledger_options {
	struct ledger_total totals[LEDGER_KINDS];
	/* Returns the user whom a uid belongs to. */
	uid_t (*owner)(void *data, uid_t uid);
	/* Fills the limits of a user. */
	void (*limits)(void *data, uid_t user, struct ledger_limits *ret);
	void *data;
};

/* Why a charge was refused. */
struct ledger_refusal {
	enum ledger_kind kind;
	bool machine; /* the limit is that of the machine, not the user's */
	bool part;    /* it is the user's part of that limit at present, and used is the user's use */
	uint64_t limit, used, wanted;
};

/* An amount that is charged; zeros are none. It must not be copied: see ledger_take(). */
struct charge {
	struct ledger_user *user;
	enum ledger_kind kind;
	uint64_t amount;
};

int ledger_new(const struct ledger_options *options, struct ledger **ret);
/* Charges that are not returned by then must not be used any more. */
struct ledger *ledger_free(struct ledger *l);

/*
 * Charges an amount to a user. -EDQUOT: refused, and the reason is in ret_refusal, which may be NULL. -ENOMEM: memory
 * is short; then the refusal is one of memory.
 */
int ledger_charge(struct ledger *l, uid_t uid, enum ledger_kind kind, uint64_t amount, struct charge *ret,
		  struct ledger_refusal *ret_refusal);

/* Charges without a check: what exists already. An amount without memory for its account is not charged. */
void ledger_record(struct ledger *l, uid_t uid, enum ledger_kind kind, uint64_t amount, struct charge *ret);

/* Changes the amount of a charge. Less is never refused. */
int ledger_resize(struct charge *c, uint64_t amount, struct ledger_refusal *ret_refusal);

/* Changes the amount of a charge without a check: its real size is known. */
void ledger_settle(struct charge *c, uint64_t amount);

/* Returns a charge, and makes it none. */
void ledger_return(struct charge *c);

/* Returns the uid that is charged. */
uid_t ledger_uid(const struct charge *c);

/* Moves a charge: *c is none afterwards. */
struct charge ledger_take(struct charge *c);

/* Charges a rate. -EDQUOT: refused. LEDGER_DECODER is refused only if nothing is left, and its amount may exceed that.
 */
int ledger_spend(struct ledger *l, uid_t uid, enum ledger_kind kind, uint64_t amount,
		 struct ledger_refusal *ret_refusal);

/*
 * Counts a line of the log about what a user does. False: the user has had enough of them in this minute, which is the
 * last line.
 */
bool ledger_may_log(struct ledger *l, uid_t uid);

/* Checks whether an amount would be refused, without charging it. */
int ledger_check(struct ledger *l, uid_t uid, enum ledger_kind kind, uint64_t amount,
		 struct ledger_refusal *ret_refusal);

/* Returns how much a user may still charge at once. */
uint64_t ledger_left(struct ledger *l, uid_t uid, enum ledger_kind kind);

/* Returns the most that a user could ever charge at once, if no user held anything. */
uint64_t ledger_largest(struct ledger *l, uid_t uid, enum ledger_kind kind);

/* Returns the limit of a user, including that of the machine. */
uint64_t ledger_limit(struct ledger *l, uid_t uid, enum ledger_kind kind);
uint64_t ledger_used(const struct ledger *l, uid_t uid, enum ledger_kind kind);

/* Returns the use of all users. */
uint64_t ledger_sum(const struct ledger *l, enum ledger_kind kind);

/* Returns the total of the machine, without the reserve of root for other users. */
uint64_t ledger_most(const struct ledger *l, uid_t uid, enum ledger_kind kind);

/*
 * Returns by how much a user exceeds its share of a total if it charges more; 0: it does not. The share is an equal
 * part for each user who has a charge of this kind, for this one, and for the other, who may be the same; it is at most
 * its own limit.
 */
uint64_t ledger_excess(const struct ledger *l, uid_t uid, uid_t other, enum ledger_kind kind, uint64_t total,
		       uint64_t more);

/* Returns the user whom a uid belongs to. */
uid_t ledger_owner(const struct ledger *l, uid_t uid);

/* Lists the users who have an account, in the order of their uids; the caller frees the list. Returns 0 or -ENOMEM. */
int ledger_users(const struct ledger *l, uid_t **ret, size_t *ret_n);

/* Assigns all charges again, after owners or limits have changed. */
void ledger_reassign(struct ledger *l);

/* Replaces the totals of the machine, of every kind, and asks for the limits of users again. What is held stays
 * charged. */
void ledger_set_totals(struct ledger *l, const struct ledger_total *totals);

/* Returns the name of the setting that limits a kind, for each user or for the machine. */
const char *ledger_setting(enum ledger_kind kind, bool machine);
/* The name of a kind, as in org.csight.varlink, and the unit of its amounts: bytes, ms, or NULL for a number. */
const char *ledger_kind_str(enum ledger_kind kind);
const char *ledger_unit(enum ledger_kind kind);

/* Writes the text of a refusal: which limit, its value, the use, and the amount that was wanted. */
void ledger_explain(const struct ledger_refusal *refusal, struct reason *ret);

#endif
