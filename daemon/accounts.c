/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <grp.h>
#include <pwd.h>
#include <string.h>

#include "daemon/accounts.h"
#include "lib/base/array.h"
#include "lib/base/parse.h"
#include "lib/base/util.h"

enum { ACCOUNT_TEXT_SIZE = 64 << 10, ACCOUNT_NAME_SIZE = 256 };

int accounts_find_user(const char *name, uid_t *ret)
{
	struct passwd entry, *found = NULL;
	char text[4096];
	uint64_t uid;

	if (parse_u64(name, UINT32_MAX - 1, &uid) == 0) {
		*ret = (uid_t)uid;
		return 0;
	}
	if (getpwnam_r(name, &entry, text, sizeof(text), &found) != 0 || !found)
		return -ESRCH;
	*ret = found->pw_uid;
	return 0;
}

static int add_uid(struct account_set *s, uid_t uid)
{
	if (array_reserve(s->uids, s->n_uids, &s->room_uids) < 0)
		return -ENOMEM;
	s->uids[s->n_uids++] = uid;
	return 0;
}

int accounts_set_add_user(struct account_set *s, const char *name)
{
	uid_t uid;
	int rc = accounts_find_user(name, &uid);

	return rc < 0 ? rc : add_uid(s, uid);
}

/* A process can drop its supplementary groups, so that its credentials alone do not say who is in a group. */
static int add_members(struct account_set *s, const struct group *g)
{
	const struct passwd *user;
	int rc = 0;

	for (char **name = g->gr_mem; *name && rc == 0; name++) {
		rc = accounts_set_add_user(s, *name);
		if (rc == -ESRCH)
			rc = 0;
	}
	setpwent();
	while (rc == 0 && (user = getpwent()))
		if (user->pw_gid == g->gr_gid)
			rc = add_uid(s, user->pw_uid);
	endpwent();
	return rc;
}

int accounts_set_add_group(struct account_set *s, const char *name)
{
	_cleanup_free_ char *text = malloc(ACCOUNT_TEXT_SIZE);
	struct group entry, *found = NULL;
	uint64_t gid;
	int rc = 0;

	if (!text || array_reserve(s->gids, s->n_gids, &s->room_gids) < 0)
		return -ENOMEM;
	if (parse_u64(name, UINT32_MAX - 1, &gid) == 0) {
		getgrgid_r((gid_t)gid, &entry, text, ACCOUNT_TEXT_SIZE, &found);
	} else {
		getgrnam_r(name, &entry, text, ACCOUNT_TEXT_SIZE, &found);
		if (!found)
			return -ESRCH;
		gid = found->gr_gid;
	}
	s->gids[s->n_gids++] = (gid_t)gid;
	if (found)
		rc = add_members(s, found);
	return rc;
}

int accounts_set_add_list(struct account_set *s, const char *list, const char **ret_bad)
{
	static const char separators[] = ", \t";
	static char name[ACCOUNT_NAME_SIZE];
	int rc = 0;

	for (list += strspn(list, separators); *list && rc == 0; list += strspn(list, separators)) {
		size_t n = strcspn(list, separators);

		snprintf(name, sizeof(name), "%.*s", (int)MIN(n, sizeof(name) - 1), list);
		rc = name[0] == '@' ? accounts_set_add_group(s, name + 1) : accounts_set_add_user(s, name);
		list += n;
	}
	if (rc < 0)
		*ret_bad = name;
	return rc;
}

void accounts_set_done(struct account_set *s)
{
	free(s->uids);
	free(s->gids);
	*s = (struct account_set){ 0 };
}

bool accounts_set_has(const struct account_set *s, uid_t uid, const gid_t *gids, size_t n_gids)
{
	for (size_t n = 0; n < s->n_uids; n++)
		if (s->uids[n] == uid)
			return true;
	for (size_t n = 0; n < s->n_gids; n++)
		for (size_t i = 0; i < n_gids; i++)
			if (s->gids[n] == gids[i])
				return true;
	return false;
}

bool accounts_set_equal(const struct account_set *a, const struct account_set *b)
{
	if (a->n_uids != b->n_uids || a->n_gids != b->n_gids)
		return false;
	for (size_t n = 0; n < a->n_uids; n++)
		if (a->uids[n] != b->uids[n])
			return false;
	for (size_t n = 0; n < a->n_gids; n++)
		if (a->gids[n] != b->gids[n])
			return false;
	return true;
}
