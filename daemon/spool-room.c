/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <sys/statvfs.h>

#include "daemon/spool-room.h"
#include "daemon/spool.h"
#include "lib/base/log.h"
#include "lib/base/util.h"

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

/* Returns the user's oldest snapshot that can be removed. */
static struct snapshot *oldest_of(const struct spool *s, uid_t uid, const struct snapshot *keep)
{
	struct ledger *l = spool_options(s)->ledger;
	uid_t owner = ledger_owner(l, uid);
	struct snapshot *snapshot;

	TAILQ_FOREACH (snapshot, spool_list(s), link)
		if (is_settled(snapshot) && !snapshot->kept && snapshot != keep &&
		    ledger_owner(l, snapshot->owner) == owner)
			break;
	return snapshot;
}

/*
 * Returns the oldest snapshot of the user who exceeds its share by most, among the snapshots that are kept, or, without
 * kept, among the others. other: the user who needs room, or -1; keep: a snapshot to leave out, or NULL.
 */
static struct snapshot *oldest_of_largest(const struct spool *s, uint64_t total, uid_t other, bool kept,
					  const struct snapshot *keep)
{
	struct snapshot *snapshot, *found = NULL;
	uint64_t most = 0;

	TAILQ_FOREACH (snapshot, spool_list(s), link) {
		uint64_t over;

		if (!is_settled(snapshot) || snapshot->kept != kept || snapshot == keep)
			continue;
		over = excess(s, snapshot->owner, other == (uid_t)-1 ? snapshot->owner : other, total, 0);
		if (over > most) {
			found = snapshot;
			most = over;
		}
	}
	return found;
}

/* Removes what is over the user's own limit. -EDQUOT: there is too little to remove. */
static int make_own_room(struct spool *s, uid_t uid, uint64_t bytes, struct ledger_refusal *ret)
{
	struct ledger *l = spool_options(s)->ledger;
	uint64_t limit = ledger_limit(l, uid, LEDGER_SPOOL);
	uid_t owner = ledger_owner(l, uid);
	struct snapshot *victim;

	for (;;) {
		uint64_t used = ledger_used(l, uid, LEDGER_SPOOL), leaving = spool_leaving(s, owner);

		if (used - MIN(used, leaving) + bytes <= limit)
			return 0;
		victim = oldest_of(s, uid, NULL);
		if (!victim || !spool_expire(s, victim, ledger_setting(LEDGER_SPOOL, false))) {
			*ret = (struct ledger_refusal){
				.kind = LEDGER_SPOOL, .limit = limit, .used = used, .wanted = bytes
			};
			return -EDQUOT;
		}
	}
}

/* Removes snapshots until there is room in the whole spool, or none is left that may be removed for this user. */
static bool make_room(struct spool *s, uid_t uid, uint64_t bytes)
{
	struct ledger *l = spool_options(s)->ledger;

	for (;;) {
		uint64_t total = capacity(s, uid), sum = ledger_sum(l, LEDGER_SPOOL), leaving = spool_leaving(s, -1u);
		struct snapshot *victim;

		sum -= MIN(sum, leaving);
		if (sum + bytes <= total)
			return true;
		if (spool_drop_shared_trace(s))
			continue;
		if (excess(s, uid, uid, total, bytes) > 0)
			victim = oldest_of(s, uid, NULL);
		else if (!(victim = oldest_of_largest(s, total, uid, false, NULL)))
			/* Kept snapshots of a user beyond its share are removed for others. */
			victim = oldest_of_largest(s, total, uid, true, NULL);
		if (!victim ||
		    !spool_expire(s, victim,
				  total < ledger_most(l, uid, LEDGER_SPOOL) ? "spool-keep-free" : "spool-max"))
			return false;
	}
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
	int rc = make_own_room(s, uid, bytes, &ret->limit);

	if (rc < 0) {
		ledger_explain(&ret->limit, &ret->reason);
		return rc;
	}
	room = make_room(s, uid, bytes);
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

bool spool_room_drop_oldest(struct spool *s, uid_t uid)
{
	struct snapshot *oldest = oldest_of(s, uid, NULL);

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
	struct ledger *l = spool_options(s)->ledger;

	for (;;) {
		uint64_t total = capacity(s, 0), sum = ledger_sum(l, LEDGER_SPOOL), leaving = spool_leaving(s, -1u);
		struct snapshot *victim;

		if (sum - MIN(sum, leaving) <= total)
			break;
		if (spool_drop_shared_trace(s))
			continue;
		victim = oldest_of_largest(s, total, -1u, false, keep);
		if (!victim ||
		    !spool_expire(s, victim, total < ledger_most(l, 0, LEDGER_SPOOL) ? "spool-keep-free" : "spool-max"))
			break;
	}
}
