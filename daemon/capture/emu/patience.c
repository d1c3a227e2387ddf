/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "daemon/capture/emu/patience.h"
#include "lib/base/util.h"

enum { OWNERS = 64, SUBORDINATE_BITS = 16 };

static const uint64_t budget_ns = 1000000000, period_ns = 10000000000, least_ns = 10000000;

/* What an owner has spent in the current period. */
struct account {
	uint32_t owner;
	uint64_t since, spent;
};

/* A small cache: an owner whose account is replaced has the whole budget again. */
static struct account accounts[OWNERS];

/* A user has up to 65536 subordinate uids (subuid(5)), which share one budget. */
static uint32_t owner_of(uid_t uid)
{
	return uid >> SUBORDINATE_BITS ? uid >> SUBORDINATE_BITS | 1u << 31 : uid;
}

/* Returns the account of a user in its current period; that of the owner who spent least recently, if it has none. */
static struct account *find_account(uid_t uid, uint64_t now)
{
	uint32_t owner = owner_of(uid);
	struct account *a = &accounts[0];

	for (unsigned i = 0; i < OWNERS; i++) {
		if (accounts[i].since && accounts[i].owner == owner) {
			a = &accounts[i];
			break;
		}
		if (accounts[i].since < a->since)
			a = &accounts[i];
	}
	if (a->owner != owner || !a->since || now - a->since > period_ns)
		*a = (struct account){ owner, now, 0 };
	return a;
}

uint64_t patience_left(uid_t uid, uint64_t now)
{
	const struct account *a = find_account(uid, now);

	return MAX(budget_ns - MIN(budget_ns, a->spent), least_ns);
}

void patience_spend(uid_t uid, uint64_t now, uint64_t ns)
{
	find_account(uid, now)->spent += ns;
}
