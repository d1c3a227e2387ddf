/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "daemon/capture/emu/patience.h"
#include "lib/base/util.h"

enum { ACCOUNTS = 64 };

static const uint64_t budget_ns = 1000000000, period_ns = 10000000000, least_ns = 10000000;

/* What an account has spent in the current period. */
struct spending {
	uid_t account;
	uint64_t since, spent;
};

/* A small cache: an account whose entry is replaced has the whole budget again. */
static struct spending entries[ACCOUNTS];

/* Returns the entry of an account in its current period; that which was used least recently, if it has none. */
static struct spending *find_entry(uid_t account, uint64_t now)
{
	struct spending *e = &entries[0];

	for (unsigned i = 0; i < ACCOUNTS; i++) {
		if (entries[i].since && entries[i].account == account) {
			e = &entries[i];
			break;
		}
		if (entries[i].since < e->since)
			e = &entries[i];
	}
	if (e->account != account || !e->since || now - e->since > period_ns)
		*e = (struct spending){ account, now, 0 };
	return e;
}

uint64_t patience_left(uid_t account, uint64_t now)
{
	return budget_ns - MIN(budget_ns - least_ns, find_entry(account, now)->spent);
}

void patience_spend(uid_t account, uint64_t now, uint64_t ns)
{
	find_entry(account, now)->spent += ns;
}
