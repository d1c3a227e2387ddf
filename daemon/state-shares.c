/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/ledger.h"
#include "daemon/state-shares.h"
#include "lib/base/array.h"
#include "lib/base/util.h"

enum { ESCAPED = 6 }; /* bytes of \u0001 */

struct state_share {
	uid_t account;
	uint64_t wanted, taken;
};

uint64_t state_shares_text(const char *text)
{
	return text ? ESCAPED * strlen(text) : 0;
}

/* Returns the share of the account; NULL: there is no memory. */
static struct state_share *find_share(struct state_shares *s, uid_t user)
{
	uid_t account = ledger_owner(s->ledger, user);

	for (size_t n = 0; n < s->n; n++)
		if (s->list[n].account == account)
			return &s->list[n];
	if (array_reserve(s->list, s->n, &s->room) < 0) {
		s->incomplete = true;
		return NULL;
	}
	s->list[s->n] = (struct state_share){ .account = account };
	return &s->list[s->n++];
}

void state_shares_want(struct state_shares *s, uid_t user, uint64_t bytes)
{
	struct state_share *share = find_share(s, user);

	if (share)
		share->wanted += bytes;
}

static int compare(const void *a, const void *b)
{
	const struct state_share *x = a, *y = b;

	return x->wanted < y->wanted ? -1 : x->wanted > y->wanted;
}

void state_shares_divide(struct state_shares *s, uint64_t total)
{
	s->limit = UINT64_MAX;
	if (!s->n)
		return;
	qsort(s->list, s->n, sizeof(*s->list), compare);
	s->largest = s->list[s->n - 1].account;
	for (size_t n = 0; n < s->n; n++) {
		uint64_t equal = total / (s->n - n);

		if (s->list[n].wanted > equal) {
			s->limit = equal;
			break;
		}
		total -= s->list[n].wanted;
	}
}

bool state_shares_take(struct state_shares *s, uid_t user, uint64_t bytes)
{
	struct state_share *share = find_share(s, user);

	if (!share || bytes > s->limit - MIN(s->limit, share->taken)) {
		s->left_out++;
		return false;
	}
	share->taken += bytes;
	return true;
}

void state_shares_done(struct state_shares *s)
{
	free(s->list);
	*s = (struct state_shares){ 0 };
}
