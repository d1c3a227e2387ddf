/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <assert.h>
#include <string.h>
#include <sys/queue.h>

#include "daemon/ledger.h"
#include "lib/base/log.h"
#include "lib/base/util.h"

/* Of one person: a user and all uids that belong to it. */
struct ledger_account {
	LIST_ENTRY(ledger_account) link;
	uid_t uid;
	unsigned users;
	struct ledger_limits limits;
	uint64_t used[LEDGER_KINDS];     /* of a rate: at the time since, in parts of a window */
	uint64_t since_ns[LEDGER_KINDS]; /* CLOCK_MONOTONIC; of rates only */
	uint64_t logs_ns;                /* CLOCK_MONOTONIC; when the minute of the log began */
	unsigned lines;                  /* of the log in this minute */
};

/* The use of one uid. It exists as long as the uid holds something, or its account has used a rate. */
struct ledger_user {
	LIST_ENTRY(ledger_user) link;
	struct ledger *ledger;
	struct ledger_account *account;
	uid_t uid;
	size_t charges;
	uint64_t held[LEDGER_KINDS];
};

struct ledger {
	struct ledger_options o;
	LIST_HEAD(, ledger_user) users;
	LIST_HEAD(, ledger_account) accounts;
	uint64_t sum[LEDGER_KINDS];
};

static const struct {
	const char *name, *of_user, *of_machine;
	uint64_t unit;      /* of texts: bytes of a KiB, milliseconds of a second */
	uint64_t window_ns; /* of a rate: the time in which its limit is returned */
} kinds[LEDGER_KINDS] = {
	[LEDGER_MEMORY] = { "memory", "memory-per-user", "memory-max", 1024 },
	[LEDGER_SPOOL] = { "spool", "spool-per-user", "spool-max", 1024 },
	[LEDGER_PENDING] = { "pending", "spool-per-user", "spool-max", 1024 },
	[LEDGER_RINGS] = { "rings", "rings-per-user", "rings-max", 1024 },
	[LEDGER_DESCRIPTORS] = { "descriptors", "files-per-user", "RLIMIT_NOFILE", 1 },
	[LEDGER_TARGETS] = { "targets", "targets-per-user", "targets-max", 1 },
	[LEDGER_CONNECTIONS] = { "connections", "connections-per-user", "connections-max", 1 },
	[LEDGER_REGISTRATIONS] = { "registrations", "registrations-per-user", "connections-max", 1 },
	[LEDGER_REQUESTS] = { "requests", "requests-per-user", "connections-max", 1 },
	[LEDGER_WAITING] = { "waiting", "snapshots-per-user", "stored-max", 1 },
	[LEDGER_STORED] = { "stored", "stored-per-user", "stored-max", 1 },
	[LEDGER_TRIGGERS] = { "triggers", "triggers-per-user", "targets-max", 1 },
	[LEDGER_STANDING] = { "standing", "standing-per-user", "targets-max", 1 },
	[LEDGER_SNAPSHOTS] = { "snapshots", "snapshots-per-minute", "snapshots-per-minute", 1, 60000000000u },
	[LEDGER_TRIGGERED] = { "triggered", "triggered-per-minute", "triggered-per-minute", 1, 60000000000u },
	[LEDGER_DECODER] = { "decoder", "decode-seconds-per-hour", "decode-seconds-per-hour", 1000, 3600000000000u },
};

enum { LINES_A_MINUTE = 30 };

static const uint64_t log_minute_ns = 60000000000u;

int ledger_new(const struct ledger_options *options, struct ledger **ret)
{
	struct ledger *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->o = *options;
	LIST_INIT(&l->users);
	LIST_INIT(&l->accounts);
	*ret = l;
	return 0;
}

static bool is_rate(enum ledger_kind kind)
{
	return kind >= LEDGER_RATES;
}

/* Returns what of a rate is not returned by time yet. */
static uint64_t rate_used(const struct ledger_account *a, enum ledger_kind kind)
{
	uint64_t passed = now_ns(CLOCK_MONOTONIC) - a->since_ns[kind], limit = a->limits.most[kind];
	double back = (double)passed * (double)MIN(limit, MAX(a->used[kind], 1u)) / (double)kinds[kind].window_ns;

	return back >= (double)a->used[kind] ? 0 : a->used[kind] - (uint64_t)back;
}

static uint64_t account_used(const struct ledger_account *a, enum ledger_kind kind)
{
	return is_rate(kind) ? rate_used(a, kind) : a->used[kind];
}

static bool has_used_rates(const struct ledger_account *a)
{
	if (a->lines && now_ns(CLOCK_MONOTONIC) - a->logs_ns < log_minute_ns)
		return true;
	for (enum ledger_kind k = LEDGER_RATES; k < LEDGER_KINDS; k++)
		if (a->used[k] && rate_used(a, k))
			return true;
	return false;
}

static struct ledger_account *find_account(const struct ledger *l, uid_t uid)
{
	struct ledger_account *a;

	LIST_FOREACH(a, &l->accounts, link)
	if (a->uid == uid)
		break;
	return a;
}

/* Frees the accounts that neither hold nor have spent anything. */
static void sweep_accounts(struct ledger *l)
{
	struct ledger_account *a, *next;

	for (a = LIST_FIRST(&l->accounts); a; a = next) {
		next = LIST_NEXT(a, link);
		if (a->users || has_used_rates(a))
			continue;
		LIST_REMOVE(a, link);
		free(a);
	}
}

static struct ledger_account *account_get(struct ledger *l, uid_t uid)
{
	struct ledger_account *a = find_account(l, uid);

	if (a)
		return a;
	sweep_accounts(l);
	a = calloc(1, sizeof(*a));
	if (!a)
		return NULL;
	a->uid = uid;
	l->o.limits(l->o.data, uid, &a->limits);
	LIST_INSERT_HEAD(&l->accounts, a, link);
	return a;
}

static struct ledger_user *user_get(struct ledger *l, uid_t uid)
{
	struct ledger_user *u;

	LIST_FOREACH(u, &l->users, link)
	if (u->uid == uid)
		return u;
	u = calloc(1, sizeof(*u));
	if (!u)
		return NULL;
	u->ledger = l;
	u->uid = uid;
	u->account = account_get(l, ledger_owner(l, uid));
	if (!u->account) {
		free(u);
		return NULL;
	}
	u->account->users++;
	LIST_INSERT_HEAD(&l->users, u, link);
	return u;
}

static void user_release(struct ledger_user *u)
{
	struct ledger_account *a = u->account;

	if (u->charges)
		return;
	LIST_REMOVE(u, link);
	free(u);
	if (--a->users || has_used_rates(a))
		return;
	LIST_REMOVE(a, link);
	free(a);
}

struct ledger *ledger_free(struct ledger *l)
{
	struct ledger_account *a;
	struct ledger_user *u;

	if (!l)
		return NULL;
	while ((u = LIST_FIRST(&l->users))) {
		LIST_REMOVE(u, link);
		free(u);
	}
	while ((a = LIST_FIRST(&l->accounts))) {
		LIST_REMOVE(a, link);
		free(a);
	}
	free(l);
	return NULL;
}

uid_t ledger_owner(const struct ledger *l, uid_t uid)
{
	return l->o.owner ? l->o.owner(l->o.data, uid) : uid;
}

/* Returns the part of the machine's total that an account may use. */
static uint64_t part_of_machine(const struct ledger *l, uid_t owner, enum ledger_kind kind)
{
	const struct ledger_total *t = &l->o.totals[kind];

	return t->most == LEDGER_UNLIMITED || owner == 0 ? t->most : t->most - MIN(t->most, t->reserve);
}

/*
 * Returns the amount that an account may hold at most now, and whether that is the machine's limit. used: what it
 * holds.
 */
static uint64_t account_most(const struct ledger *l, const struct ledger_account *a, enum ledger_kind kind,
			     bool *ret_machine)
{
	uint64_t most = a->limits.most[kind], machine, others;
	const struct ledger_account *root;

	*ret_machine = false;
	if (is_rate(kind))
		return most;
	machine = part_of_machine(l, a->uid, kind);
	if (machine == LEDGER_UNLIMITED)
		return most;
	others = l->sum[kind] - a->used[kind];
	/* The use of root counts against its reserve first. */
	if (a->uid != 0 && (root = find_account(l, 0)))
		others -= MIN(root->used[kind], l->o.totals[kind].reserve);
	machine -= MIN(machine, others);
	if (l->o.totals[kind].divided && a->uid != 0)
		machine /= 2;
	if (machine >= most)
		return most;
	*ret_machine = true;
	return machine;
}

/* Refuses an amount beyond a limit. No other function refuses. */
static int check_account(const struct ledger *l, const struct ledger_account *a, enum ledger_kind kind, uint64_t amount,
			 struct ledger_refusal *ret)
{
	uint64_t used = account_used(a, kind), most, left;
	bool machine, part;

	most = account_most(l, a, kind, &machine);
	left = most - MIN(most, used);
	part = machine && l->o.totals[kind].divided && a->uid != 0;
	if (amount <= left || (kind == LEDGER_DECODER && left))
		return 0;
	if (ret)
		*ret = (struct ledger_refusal){ .kind = kind,
						.machine = machine,
						.part = part,
						.limit = part      ? most
							 : machine ? l->o.totals[kind].most
								   : a->limits.most[kind],
						.used = machine && !part ? l->sum[kind] : used,
						.wanted = amount };
	return -EDQUOT;
}

static int refuse_memory(struct ledger_refusal *ret)
{
	if (ret)
		*ret = (struct ledger_refusal){ .kind = LEDGER_MEMORY, .machine = true };
	return -ENOMEM;
}

static void user_add(struct ledger_user *u, enum ledger_kind kind, uint64_t amount)
{
	u->held[kind] += amount;
	u->account->used[kind] += amount;
	u->ledger->sum[kind] += amount;
}

static void user_subtract(struct ledger_user *u, enum ledger_kind kind, uint64_t amount)
{
	assert(u->held[kind] >= amount && u->account->used[kind] >= amount && u->ledger->sum[kind] >= amount);
	u->held[kind] -= amount;
	u->account->used[kind] -= amount;
	u->ledger->sum[kind] -= amount;
}

static void begin_charge(struct ledger_user *u, enum ledger_kind kind, uint64_t amount, struct charge *ret)
{
	u->charges++;
	user_add(u, kind, amount);
	*ret = (struct charge){ u, kind, amount };
}

int ledger_charge(struct ledger *l, uid_t uid, enum ledger_kind kind, uint64_t amount, struct charge *ret,
		  struct ledger_refusal *ret_refusal)
{
	struct ledger_user *u = user_get(l, uid);
	int rc;

	assert(!is_rate(kind));
	if (!u)
		return refuse_memory(ret_refusal);
	rc = check_account(l, u->account, kind, amount, ret_refusal);
	if (rc < 0)
		user_release(u);
	else
		begin_charge(u, kind, amount, ret);
	return rc;
}

void ledger_record(struct ledger *l, uid_t uid, enum ledger_kind kind, uint64_t amount, struct charge *ret)
{
	struct ledger_user *u = user_get(l, uid);

	*ret = (struct charge){ 0 };
	if (u)
		begin_charge(u, kind, amount, ret);
}

int ledger_resize(struct charge *c, uint64_t amount, struct ledger_refusal *ret_refusal)
{
	int rc = 0;

	if (!c->user)
		return 0;
	if (amount > c->amount)
		rc = check_account(c->user->ledger, c->user->account, c->kind, amount - c->amount, ret_refusal);
	if (rc == 0)
		ledger_settle(c, amount);
	return rc;
}

void ledger_settle(struct charge *c, uint64_t amount)
{
	if (!c->user)
		return;
	if (amount > c->amount)
		user_add(c->user, c->kind, amount - c->amount);
	else
		user_subtract(c->user, c->kind, c->amount - amount);
	c->amount = amount;
}

void ledger_return(struct charge *c)
{
	struct ledger_user *u = c->user;

	if (!u)
		return;
	user_subtract(u, c->kind, c->amount);
	*c = (struct charge){ 0 };
	u->charges--;
	user_release(u);
}

uid_t ledger_uid(const struct charge *c)
{
	return c->user ? c->user->uid : (uid_t)-1;
}

struct charge ledger_take(struct charge *c)
{
	struct charge taken = *c;

	*c = (struct charge){ 0 };
	return taken;
}

int ledger_spend(struct ledger *l, uid_t uid, enum ledger_kind kind, uint64_t amount,
		 struct ledger_refusal *ret_refusal)
{
	struct ledger_account *a = account_get(l, ledger_owner(l, uid));
	int rc;

	assert(is_rate(kind));
	if (!a)
		return refuse_memory(ret_refusal);
	rc = check_account(l, a, kind, amount, ret_refusal);
	if (rc < 0)
		return rc;
	a->used[kind] = rate_used(a, kind) + amount;
	a->since_ns[kind] = now_ns(CLOCK_MONOTONIC);
	return 0;
}

bool ledger_may_log(struct ledger *l, uid_t uid)
{
	struct ledger_account *a = account_get(l, ledger_owner(l, uid));
	uint64_t now = now_ns(CLOCK_MONOTONIC);

	if (!a)
		return false;
	if (!a->lines || now - a->logs_ns >= log_minute_ns) {
		a->logs_ns = now;
		a->lines = 0;
	}
	if (a->lines > LINES_A_MINUTE)
		return false;
	if (a->lines++ < LINES_A_MINUTE)
		return true;
	log_notice("more about what uid %u is refused, or what fails, is not logged in this minute", a->uid);
	return false;
}

int ledger_check(struct ledger *l, uid_t uid, enum ledger_kind kind, uint64_t amount,
		 struct ledger_refusal *ret_refusal)
{
	const struct ledger_account *a = account_get(l, ledger_owner(l, uid));

	return a ? check_account(l, a, kind, amount, ret_refusal) : refuse_memory(ret_refusal);
}

uint64_t ledger_left(struct ledger *l, uid_t uid, enum ledger_kind kind)
{
	const struct ledger_account *a = account_get(l, ledger_owner(l, uid));
	uint64_t most;
	bool machine;

	if (!a)
		return 0;
	most = account_most(l, a, kind, &machine);
	return most - MIN(most, account_used(a, kind));
}

uint64_t ledger_limit(struct ledger *l, uid_t uid, enum ledger_kind kind)
{
	const struct ledger_account *a = account_get(l, ledger_owner(l, uid));

	return !a              ? 0
	       : is_rate(kind) ? a->limits.most[kind]
			       : MIN(a->limits.most[kind], part_of_machine(l, a->uid, kind));
}

uint64_t ledger_largest(struct ledger *l, uid_t uid, enum ledger_kind kind)
{
	uint64_t limit = ledger_limit(l, uid, kind), machine = ledger_most(l, uid, kind);
	bool divided = l->o.totals[kind].divided && machine != LEDGER_UNLIMITED && ledger_owner(l, uid) != 0;

	return divided ? MIN(limit, machine / 2) : limit;
}

uint64_t ledger_used(const struct ledger *l, uid_t uid, enum ledger_kind kind)
{
	const struct ledger_account *a = find_account(l, ledger_owner(l, uid));

	return a ? account_used(a, kind) : 0;
}

uint64_t ledger_sum(const struct ledger *l, enum ledger_kind kind)
{
	return l->sum[kind];
}

uint64_t ledger_most(const struct ledger *l, uid_t uid, enum ledger_kind kind)
{
	return part_of_machine(l, ledger_owner(l, uid), kind);
}

uint64_t ledger_excess(const struct ledger *l, uid_t uid, uid_t other, enum ledger_kind kind, uint64_t total,
		       uint64_t more)
{
	const struct ledger_account *a, *own = find_account(l, ledger_owner(l, uid));
	const struct ledger_account *wants = find_account(l, ledger_owner(l, other));
	uint64_t share, used = own ? own->used[kind] : 0, n = 1;

	/* The other may have nothing yet. */
	n += ledger_owner(l, uid) != ledger_owner(l, other);
	LIST_FOREACH(a, &l->accounts, link)
	n += a->used[kind] > 0 && a != own && a != wants;
	share = total / n;
	if (own)
		share = MIN(share, own->limits.most[kind]);
	return used + more > share ? used + more - share : 0;
}

static int compare_uids(const void *a, const void *b)
{
	uid_t x = *(const uid_t *)a, y = *(const uid_t *)b;

	return x < y ? -1 : x > y;
}

int ledger_users(const struct ledger *l, uid_t **ret, size_t *ret_n)
{
	const struct ledger_account *a;
	uid_t *list;
	size_t n = 0;

	LIST_FOREACH(a, &l->accounts, link)
	n++;
	list = calloc(n + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	n = 0;
	LIST_FOREACH(a, &l->accounts, link)
	list[n++] = a->uid;
	qsort(list, n, sizeof(*list), compare_uids);
	*ret = list;
	*ret_n = n;
	return 0;
}

/* Moves what a uid holds to another account. */
static void user_move(struct ledger_user *u, struct ledger_account *to)
{
	for (enum ledger_kind k = 0; k < LEDGER_RATES; k++) {
		u->account->used[k] -= u->held[k];
		to->used[k] += u->held[k];
	}
	u->account->users--;
	to->users++;
	u->account = to;
}

void ledger_reassign(struct ledger *l)
{
	struct ledger_account *a;
	struct ledger_user *u;

	LIST_FOREACH(u, &l->users, link)
	{
		uid_t owner = ledger_owner(l, u->uid);
		struct ledger_account *to = owner == u->account->uid ? NULL : account_get(l, owner);

		if (to)
			user_move(u, to);
	}
	sweep_accounts(l);
	LIST_FOREACH(a, &l->accounts, link)
	l->o.limits(l->o.data, a->uid, &a->limits);
}

void ledger_set_totals(struct ledger *l, const struct ledger_total *totals)
{
	memcpy(l->o.totals, totals, sizeof(l->o.totals));
	ledger_reassign(l);
}

const char *ledger_setting(enum ledger_kind kind, bool machine)
{
	return machine ? kinds[kind].of_machine : kinds[kind].of_user;
}

const char *ledger_kind_str(enum ledger_kind kind)
{
	return kinds[kind].name;
}

const char *ledger_unit(enum ledger_kind kind)
{
	return kinds[kind].unit == 1024 ? "bytes" : kinds[kind].unit == 1000 ? "ms" : NULL;
}

void ledger_explain(const struct ledger_refusal *r, struct reason *ret)
{
	uint64_t unit = kinds[r->kind].unit;
	const char *name = unit == 1024 ? " KiB" : unit == 1000 ? " s" : "";

	reason_set(ret, -EDQUOT, "%s %s is %llu%s, of which %llu%s are in use%s; %llu%s more were wanted",
		   r->part ? "one user's part of" : "the limit", ledger_setting(r->kind, r->machine),
		   (unsigned long long)(r->limit / unit), name, (unsigned long long)(r->used / unit), name,
		   r->machine && !r->part ? " by all users" : "", (unsigned long long)((r->wanted + unit - 1) / unit),
		   name);
}
