/* SPDX-License-Identifier: MIT */
/*
 * The limits of users in csightd.conf: the defaults, and the sections [User NAME] and [Group NAME], in the order of the
 * file. A section of a user precedes those of groups, and a later section an earlier one.
 */
#ifndef CSIGHT_DAEMON_QUOTAS_H
#define CSIGHT_DAEMON_QUOTAS_H

#include "daemon/accounts.h"
#include "daemon/ledger.h"

struct quota_section;

struct quotas {
	struct ledger_limits defaults;
	struct quota_section *sections;
	size_t n, room;
};

/*
 * Finds the section with this text between its brackets, or begins it, and returns its number. -EINVAL: it is not of
 * that form; -ESRCH: there is no such user or group.
 */
int quotas_section(struct quotas *q, const char *name);

/* Sets a limit. section: a number that quotas_section() returned; negative: the defaults. */
void quotas_set(struct quotas *q, int section, enum ledger_kind kind, uint64_t most);

/* Fills the limits of a user. */
void quotas_limits(const struct quotas *q, uid_t user, struct ledger_limits *ret);

/* Returns whether both have the same sections with the same limits; the defaults are not compared. */
bool quotas_sections_equal(const struct quotas *a, const struct quotas *b);
void quotas_done(struct quotas *q);

/* Finds the kind that a setting limits for each user. Returns 0 or -ENOENT. */
int quotas_kind(const char *setting, enum ledger_kind *ret);

#endif
