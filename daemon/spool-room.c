/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdlib.h>
#include <sys/statvfs.h>

#include "daemon/spool-room.h"
#include "daemon/spool.h"
#include "lib/base/log.h"
#include "lib/base/util.h"

enum { VICTIMS_MAX = 256 /* snapshots that are removed for a claim in one turn of the loop, which takes some ms */ };

static bool is_settled(const struct snapshot *s)
{
	return s->state == SNAPSHOT_READY || s->state == SNAPSHOT_RAW;
}

/* Returns the bytes that are free on the file system beyond spool-keep-free. */
static uint64_t disk_left(const struct spool *s)
{
	uint64_t keep = spool_options(s)->keep_free, bytes;
	struct statvfs fs;

	if (fstatvfs(spool_fd(s), &fs) < 0)
		return 0;
	bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	return bytes - MIN(bytes, keep);
}

static uint64_t bytes_at_rest(const struct spool *s)
{
	uint64_t sum = ledger_sum(spool_options(s)->ledger, LEDGER_SPOOL);

	return sum - MIN(sum, spool_unwritten(s));
}

/* Returns the bytes that all snapshots may have together, for what this user adds. */
static uint64_t capacity(const struct spool *s, uid_t uid)
{
	return MIN(ledger_most(spool_options(s)->ledger, uid, LEDGER_SPOOL), bytes_at_rest(s) + disk_left(s));
}

/* Returns by how much a user would exceed its share beside another one, without what is being removed. */
static uint64_t excess(const struct spool *s, uid_t uid, uid_t other, uint64_t total, uint64_t more)
{
	struct ledger *l = spool_options(s)->ledger;
	uint64_t over = ledger_excess(l, uid, other, LEDGER_SPOOL, total, more);

	return over - MIN(over, spool_leaving(s, ledger_owner(l, uid)));
}

/* What one account has in the spool, while room is made. */
struct holding {
	uid_t owner;
	uint64_t over;                        /* bytes beyond its share, without what is being removed */
	STAILQ_HEAD(, snapshot) removable[2]; /* oldest first; those that are kept are in the second list */
};

struct holdings {
	struct holding *list; /* in the order of owners */
	size_t n;
};

static int compare_owner(const void *key, const void *item)
{
	uid_t owner = *(const uid_t *)key, other = ((const struct holding *)item)->owner;

	return owner < other ? -1 : owner > other;
}

static struct holding *find_holding(const struct holdings *all, uid_t owner)
{
	return bsearch(&owner, all->list, all->n, sizeof(*all->list), compare_owner);
}

/* Lists the snapshots that can be removed, by account, in one walk. */
static void list_removable(const struct spool *s, const struct snapshot *keep, const struct holdings *all)
{
	struct holding *of = NULL;
	uid_t last = (uid_t)-1;
	struct snapshot *snapshot;

	TAILQ_FOREACH (snapshot, spool_list(s), link) {
		if (!is_settled(snapshot) || snapshot == keep)
			continue;
		if (snapshot->owner != last)
			of = find_holding(all, ledger_owner(spool_options(s)->ledger, snapshot->owner));
		last = snapshot->owner;
		if (of)
			STAILQ_INSERT_TAIL(&of->removable[snapshot->kept], snapshot, room);
	}
}

/*
 * Lists what all accounts have. other: the user who needs room, or -1; keep: a snapshot to leave out, or NULL. The
 * caller frees the list, which is valid as long as other functions remove no snapshot.
 */
static int holdings_list(const struct spool *s, uint64_t total, uid_t other, const struct snapshot *keep,
			 struct holdings *ret)
{
	_cleanup_free_ uid_t *owners = NULL;
	size_t n;
	int rc = ledger_users(spool_options(s)->ledger, &owners, &n);

	if (rc < 0)
		return rc;
	*ret = (struct holdings){ .list = calloc(n + 1, sizeof(*ret->list)), .n = n };
	if (!ret->list)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		struct holding *h = &ret->list[i];

		h->owner = owners[i];
		h->over = excess(s, owners[i], other == (uid_t)-1 ? owners[i] : other, total, 0);
		STAILQ_INIT(&h->removable[false]);
		STAILQ_INIT(&h->removable[true]);
	}
	list_removable(s, keep, ret);
	return 0;
}

/* Removes and returns an account's oldest removable snapshot, of those that are kept or of the others; or NULL. */
static struct snapshot *take_oldest(struct holding *h, bool kept)
{
	struct snapshot *oldest = h ? STAILQ_FIRST(&h->removable[kept]) : NULL;

	if (!oldest)
		return NULL;
	STAILQ_REMOVE_HEAD(&h->removable[kept], room);
	h->over -= MIN(h->over, oldest->claim.bytes.amount);
	return oldest;
}

/* True if a, which has such a snapshot, exceeds its share by more than b, which may be NULL; of equals, the oldest. */
static bool exceeds(const struct holding *a, const struct holding *b, bool kept)
{
	if (!b || a->over != b->over)
		return !b || a->over > b->over;
	return STAILQ_FIRST(&a->removable[kept])->number < STAILQ_FIRST(&b->removable[kept])->number;
}

/*
 * Takes the oldest snapshot of the account that exceeds its share by most, among the snapshots that are kept, or,
 * without kept, among the others.
 */
static struct snapshot *take_oldest_of_largest(const struct holdings *all, bool kept)
{
	struct holding *found = NULL;

	for (struct holding *h = all->list; h < all->list + all->n; h++)
		if (h->over > 0 && !STAILQ_EMPTY(&h->removable[kept]) && exceeds(h, found, kept))
			found = h;
	return take_oldest(found, kept);
}

/* Returns the next snapshot of an account, from *at on, that can be removed, and moves *at behind it. */
static struct snapshot *next_of(const struct spool *s, uid_t owner, struct snapshot **at)
{
	struct ledger *l = spool_options(s)->ledger;
	struct snapshot *snapshot;

	while ((snapshot = *at)) {
		*at = TAILQ_NEXT(snapshot, link);
		if (is_settled(snapshot) && !snapshot->kept && ledger_owner(l, snapshot->owner) == owner)
			break;
	}
	return snapshot;
}

/* Returns by how much a user would exceed its own limit, once what is being removed is gone. */
static uint64_t own_excess(const struct spool *s, uid_t uid, uint64_t bytes)
{
	struct ledger *l = spool_options(s)->ledger;
	uint64_t limit = ledger_limit(l, uid, LEDGER_SPOOL), used = ledger_used(l, uid, LEDGER_SPOOL);

	used -= MIN(used, spool_leaving(s, ledger_owner(l, uid)));
	return used + bytes - MIN(used + bytes, limit);
}

/* Returns whether a user is within its own limit, or has enough that can be removed for that. */
static bool has_own_room(const struct spool *s, uid_t uid, uint64_t bytes)
{
	uint64_t over = own_excess(s, uid, bytes);
	struct snapshot *at = TAILQ_FIRST(spool_list(s)), *victim;

	while (over && (victim = next_of(s, ledger_owner(spool_options(s)->ledger, uid), &at)))
		over -= MIN(over, victim->claim.bytes.amount);
	return over == 0;
}

/* Removes what is over the user's own limit, or as many snapshots as may be removed at once. */
static void make_own_room(struct spool *s, uid_t uid, uint64_t bytes)
{
	struct snapshot *at = TAILQ_FIRST(spool_list(s)), *victim;

	for (unsigned n = 0; n < VICTIMS_MAX && own_excess(s, uid, bytes); n++) {
		victim = next_of(s, ledger_owner(spool_options(s)->ledger, uid), &at);
		if (!victim || !spool_expire(s, victim, ledger_setting(LEDGER_SPOOL, false)))
			return;
	}
}

/* Returns the bytes that are missing in the whole spool for bytes more, once what is being removed is gone. */
static uint64_t missing(const struct spool *s, uint64_t total, uint64_t bytes)
{
	uint64_t sum = ledger_sum(spool_options(s)->ledger, LEDGER_SPOOL);

	sum -= MIN(sum, spool_leaving(s, -1u));
	return sum + bytes - MIN(sum + bytes, total);
}

/* Returns the setting for which a snapshot is removed, since total is what all may have. */
static const char *limit_of(const struct spool *s, uid_t uid, uint64_t total)
{
	return total < ledger_most(spool_options(s)->ledger, uid, LEDGER_SPOOL) ? "spool-keep-free" : "spool-max";
}

/* Takes the next victim for an account that would exceed its share, own, or that of another one. */
static struct snapshot *take_victim(const struct holdings *all, bool own, uid_t owner)
{
	struct snapshot *victim;

	if (own)
		return take_oldest(find_holding(all, owner), false);
	victim = take_oldest_of_largest(all, false);
	/* Kept snapshots of a user beyond its share are removed for others. */
	return victim ? victim : take_oldest_of_largest(all, true);
}

/* Returns the bytes of the oldest snapshots of an account that make up for so much, or of all. */
static uint64_t removable(const struct holding *h, uint64_t over, bool also_kept)
{
	const struct snapshot *snapshot;
	uint64_t bytes = 0;

	for (int kept = 0; kept <= also_kept; kept++)
		STAILQ_FOREACH (snapshot, &h->removable[kept], room)
			bytes += bytes < over ? snapshot->claim.bytes.amount : 0;
	return bytes;
}

/* Returns the bytes of all that take_victim() gives for an account that would exceed its share by so much. */
static uint64_t removable_for(const struct holdings *all, uid_t owner, uint64_t over)
{
	const struct holding *own = find_holding(all, owner);
	uint64_t bytes = own ? removable(own, over, false) : 0;

	if (bytes < over)
		return bytes;
	for (const struct holding *h = all->list; h < all->list + all->n; h++)
		bytes += h == own ? 0 : removable(h, h->over, true);
	return bytes;
}

/*
 * Removes snapshots until there is room in the whole spool, or as many as may be removed at once; none, if those that
 * may be removed for this user do not suffice.
 */
static bool make_room(struct spool *s, uid_t uid, uint64_t bytes)
{
	uid_t owner = ledger_owner(spool_options(s)->ledger, uid);
	uint64_t total = capacity(s, uid), over;
	struct holdings all = { 0 };
	struct snapshot *victim;
	bool suffices;

	if (missing(s, total, bytes))
		spool_drop_shared_traces(s, missing(s, total, bytes));
	if (!missing(s, total, bytes))
		return true;
	over = excess(s, uid, uid, total, bytes);
	if (holdings_list(s, total, uid, NULL, &all) < 0)
		return false;
	suffices = removable_for(&all, owner, over) >= missing(s, total, bytes);
	for (unsigned n = 0; suffices && n < VICTIMS_MAX && missing(s, total, bytes); n++) {
		victim = take_victim(&all, over > 0, owner);
		if (!victim)
			break;
		if (ledger_owner(spool_options(s)->ledger, victim->owner) == owner)
			over -= MIN(over, victim->claim.bytes.amount);
		if (!spool_expire(s, victim, limit_of(s, uid, total)))
			break;
	}
	free(all.list);
	return !missing(s, total, bytes);
}

static int refuse_disk(const struct spool *s, uint64_t bytes, struct spool_refusal *ret)
{
	return reason_set(&ret->reason, -ENOSPC,
			  "not enough space for the spool: the snapshot needs up to %llu KiB, %llu KiB must stay free "
			  "(spool-keep-free), and %llu KiB are available besides, for all that is being written",
			  (unsigned long long)bytes >> 10, (unsigned long long)spool_options(s)->keep_free >> 10,
			  (unsigned long long)disk_left(s) >> 10);
}

/* Makes room for bytes more. 0: they can be charged now. */
static int prepare_room(struct spool *s, uid_t uid, uint64_t bytes, struct spool_refusal *ret)
{
	struct ledger *l = spool_options(s)->ledger;
	bool leaving, room;
	uint64_t total;

	if (!has_own_room(s, uid, bytes)) {
		ret->limit = (struct ledger_refusal){ .kind = LEDGER_SPOOL,
						      .limit = ledger_limit(l, uid, LEDGER_SPOOL),
						      .used = ledger_used(l, uid, LEDGER_SPOOL),
						      .wanted = bytes };
		ledger_explain(&ret->limit, &ret->reason);
		return -EDQUOT;
	}
	/* Of one who exceeds its own limit, and so its share, it removes the same ones first. */
	room = make_room(s, uid, bytes);
	if (room)
		make_own_room(s, uid, bytes);
	leaving = spool_leaving(s, -1u) > 0;
	total = capacity(s, uid);
	if (room && ledger_sum(l, LEDGER_SPOOL) + bytes <= total &&
	    ledger_check(l, uid, LEDGER_SPOOL, bytes, &ret->limit) == 0)
		return 0;
	if (leaving)
		return -EAGAIN;
	if (total < ledger_most(l, uid, LEDGER_SPOOL))
		return refuse_disk(s, bytes, ret);
	ret->limit = (struct ledger_refusal){ .kind = LEDGER_SPOOL,
					      .machine = true,
					      .limit = total,
					      .used = ledger_sum(l, LEDGER_SPOOL),
					      .wanted = bytes };
	ledger_explain(&ret->limit, &ret->reason);
	return -EDQUOT;
}

uint64_t spool_room_free(struct spool *s, uid_t uid)
{
	struct ledger *l = spool_options(s)->ledger;
	uint64_t total = capacity(s, uid), left;

	left = MIN(ledger_left(l, uid, LEDGER_SPOOL), ledger_left(l, uid, LEDGER_PENDING));
	return MIN(left, total - MIN(total, ledger_sum(l, LEDGER_SPOOL)));
}

bool spool_room_writing(struct spool *s, uid_t uid)
{
	struct ledger *l = spool_options(s)->ledger;
	const struct snapshot *snapshot;

	TAILQ_FOREACH (snapshot, spool_list(s), link)
		if (snapshot->claim.unwritten && ledger_owner(l, snapshot->owner) == ledger_owner(l, uid))
			return true;
	return false;
}

int spool_room_claim(struct spool *s, uid_t uid, uint64_t bytes, struct spool_claim *ret,
		     struct spool_refusal *ret_refusal)
{
	int rc = ledger_check(spool_options(s)->ledger, uid, LEDGER_PENDING, bytes, &ret_refusal->limit);

	if (rc < 0)
		ledger_explain(&ret_refusal->limit, &ret_refusal->reason);
	else
		rc = prepare_room(s, uid, bytes, ret_refusal);
	if (rc < 0)
		return rc;
	spool_room_record(s, uid, bytes, true, ret);
	ret->unwritten = bytes;
	spool_wrote(s, (int64_t)bytes);
	return 0;
}

static void change_claim(struct spool_claim *c, uint64_t bytes)
{
	ledger_settle(&c->bytes, bytes);
	ledger_settle(&c->pending, bytes);
}

int spool_room_resize(struct spool_claim *c, uint64_t unwritten, struct spool_refusal *ret_refusal)
{
	uint64_t rest = c->bytes.amount - c->unwritten;
	int rc = 0;

	if (!c->bytes.user)
		return 0;
	if (unwritten > c->unwritten)
		rc = prepare_room(c->spool, ledger_uid(&c->bytes), unwritten - c->unwritten, ret_refusal);
	if (rc < 0)
		return rc;
	spool_wrote(c->spool, (int64_t)unwritten - (int64_t)c->unwritten);
	c->unwritten = unwritten;
	change_claim(c, rest + unwritten);
	return 0;
}

void spool_room_wrote(struct spool_claim *c, uint64_t bytes)
{
	bytes = MIN(bytes, c->unwritten);
	if (c->spool)
		spool_wrote(c->spool, -(int64_t)bytes);
	c->unwritten -= bytes;
}

void spool_room_record(struct spool *s, uid_t uid, uint64_t bytes, bool pending, struct spool_claim *ret)
{
	struct ledger *l = spool_options(s)->ledger;

	*ret = (struct spool_claim){ .spool = s };
	ledger_record(l, uid, LEDGER_SPOOL, bytes, &ret->bytes);
	if (pending)
		ledger_record(l, uid, LEDGER_PENDING, bytes, &ret->pending);
}

void spool_room_settle(struct spool_claim *c, uint64_t size)
{
	if (!c->spool)
		return;
	spool_wrote(c->spool, -(int64_t)c->unwritten);
	c->unwritten = 0;
	change_claim(c, size);
	spool_report_room(c->spool);
}

void spool_room_rest(struct spool_claim *c)
{
	ledger_return(&c->pending);
	if (c->spool)
		spool_report_room(c->spool);
}

static struct snapshot *oldest_of(const struct spool *s, uid_t uid)
{
	struct snapshot *at = TAILQ_FIRST(spool_list(s));

	return next_of(s, ledger_owner(spool_options(s)->ledger, uid), &at);
}

bool spool_room_may_drop(const struct spool *s, uid_t uid)
{
	return oldest_of(s, uid) != NULL;
}

bool spool_room_drop_oldest(struct spool *s, uid_t uid)
{
	struct snapshot *oldest = oldest_of(s, uid);

	return oldest && spool_expire(s, oldest, ledger_setting(LEDGER_STORED, false));
}

void spool_room_return(struct spool_claim *c)
{
	if (!c->spool)
		return;
	spool_wrote(c->spool, -(int64_t)c->unwritten);
	ledger_return(&c->bytes);
	ledger_return(&c->pending);
	*c = (struct spool_claim){ 0 };
}

void spool_room_vacuum(struct spool *s, const struct snapshot *keep)
{
	uint64_t total = capacity(s, 0);
	struct holdings all = { 0 };
	struct snapshot *victim;

	if (missing(s, total, 0))
		spool_drop_shared_traces(s, missing(s, total, 0));
	if (!missing(s, total, 0) || holdings_list(s, total, -1u, keep, &all) < 0)
		return;
	while (missing(s, total, 0) && (victim = take_oldest_of_largest(&all, false)))
		if (!spool_expire(s, victim, limit_of(s, 0, total)))
			break;
	free(all.list);
}
