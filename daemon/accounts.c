/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/accounts.h"
#include "lib/base/array.h"
#include "lib/base/parse.h"
#include "lib/base/util.h"

enum { TEXT_LEAST = 4 << 10, TEXT_MOST = 16 << 20, ACCOUNT_NAME_SIZE = 256 };

/* What is looked up: a user or group of this name, or a group of this number; and what was found. */
struct account_lookup {
	const char *user, *group;
	gid_t gid;
	char *text;
	struct passwd passwd;
	struct group entry;
};

static int look_up_in(struct account_lookup *l, size_t size, bool *ret_found)
{
	struct passwd *passwd = NULL;
	struct group *entry = NULL;
	int rc = l->user    ? getpwnam_r(l->user, &l->passwd, l->text, size, &passwd)
		 : l->group ? getgrnam_r(l->group, &l->entry, l->text, size, &entry)
			    : getgrgid_r(l->gid, &l->entry, l->text, size, &entry);

	*ret_found = passwd || entry;
	return rc;
}

/* Returns 0, with a text that the caller frees; -ESRCH if there is none; or another errno if that is unknown. */
static int look_up(struct account_lookup *l)
{
	for (size_t size = TEXT_LEAST; size <= TEXT_MOST; size *= 4) {
		bool found = false;
		int rc;

		free(l->text);
		l->text = malloc(size);
		if (!l->text)
			return -ENOMEM;
		while ((rc = look_up_in(l, size, &found)) == EINTR)
			;
		if (rc != ERANGE)
			return found ? 0 : rc == 0 || rc == ENOENT ? -ESRCH : -rc;
	}
	return -E2BIG;
}

int accounts_find_user(const char *name, uid_t *ret)
{
	struct account_lookup l = { .user = name };
	uint64_t uid;
	int rc;

	if (parse_u64(name, UINT32_MAX - 1, &uid) == 0) {
		*ret = (uid_t)uid;
		return 0;
	}
	rc = look_up(&l);
	if (rc == 0)
		*ret = l.passwd.pw_uid;
	free(l.text);
	return rc;
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
	while (rc == 0 && (errno = 0, user = getpwent()))
		if (user->pw_gid == g->gr_gid)
			rc = add_uid(s, user->pw_uid);
	/* At the end of the list it may have other values. */
	if (rc == 0 && (errno == EIO || errno == ENOMEM || errno == EMFILE || errno == ENFILE))
		rc = -errno;
	endpwent();
	return rc;
}

int accounts_set_add_group(struct account_set *s, const char *name)
{
	struct account_lookup l = { .group = name };
	uint64_t gid;
	bool number = parse_u64(name, UINT32_MAX - 1, &gid) == 0;
	int rc;

	if (array_reserve(s->gids, s->n_gids, &s->room_gids) < 0)
		return -ENOMEM;
	if (number) {
		l.group = NULL;
		l.gid = (gid_t)gid;
	}
	rc = look_up(&l);
	if (rc == 0 || (rc == -ESRCH && number))
		s->gids[s->n_gids++] = number ? (gid_t)gid : l.entry.gr_gid;
	if (rc == 0)
		rc = add_members(s, &l.entry);
	else if (rc == -ESRCH && number)
		rc = 0;
	free(l.text);
	return rc;
}

int accounts_set_add_list(struct account_set *s, const char *list, const char **ret_bad)
{
	static const char separators[] = ", \t";
	static char name[ACCOUNT_NAME_SIZE], unknown[ACCOUNT_NAME_SIZE];
	int rc = 0;

	*unknown = 0;
	for (list += strspn(list, separators); *list && rc == 0; list += strspn(list, separators)) {
		size_t n = strcspn(list, separators);

		snprintf(name, sizeof(name), "%.*s", (int)MIN(n, sizeof(name) - 1), list);
		rc = name[0] == '@' ? accounts_set_add_group(s, name + 1) : accounts_set_add_user(s, name);
		list += n;
		if (rc != -ESRCH)
			continue;
		if (!*unknown)
			memcpy(unknown, name, sizeof(name));
		/* It stands for an account that no process has: a set of unknown names is no empty one. */
		rc = add_uid(s, ACCOUNTS_NO_UID);
	}
	*ret_bad = rc < 0 ? name : unknown;
	return rc == 0 && *unknown ? -ESRCH : rc;
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
