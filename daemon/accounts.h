/* SPDX-License-Identifier: MIT */
/*
 * Users and groups by name, and lists of them. Looking a name up may ask a network, and take long: only where nothing
 * waits, as when the configuration is read. Membership is resolved then; a list is searched without a look-up.
 */
#ifndef CSIGHT_DAEMON_ACCOUNTS_H
#define CSIGHT_DAEMON_ACCOUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define ACCOUNTS_NO_UID ((uid_t)-1) /* of no process */

/*
 * Finds the uid of a name or number. Returns 0; -ESRCH if there is no such user; or another negative errno if the
 * look-up failed, and it may exist.
 */
int accounts_find_user(const char *name, uid_t *ret);

/* A set of users, some of them as groups. Zeros are the empty set. */
struct account_set {
	uid_t *uids; /* users, and the members of groups */
	size_t n_uids, room_uids;
	gid_t *gids;
	size_t n_gids, room_gids;
};

/*
 * Add a user, or a group with its members, by name or number. They return 0; -ESRCH if there is no such user or group;
 * or another negative errno if a look-up failed: who is meant is unknown then.
 */
int accounts_set_add_user(struct account_set *s, const char *name);
int accounts_set_add_group(struct account_set *s, const char *name);

/*
 * Adds a list of names, separated by commas or blanks; a group has an '@' before its name. *ret_bad: the first name
 * that failed. After -ESRCH the set has all other names, and is not empty.
 */
int accounts_set_add_list(struct account_set *s, const char *list, const char **ret_bad);
void accounts_set_done(struct account_set *s);

/* Returns whether the set has the user, or one of the groups. */
bool accounts_set_has(const struct account_set *s, uid_t uid, const gid_t *gids, size_t n_gids);

/* Returns whether both sets have the same members, found in the same order. */
bool accounts_set_equal(const struct account_set *a, const struct account_set *b);

#endif
