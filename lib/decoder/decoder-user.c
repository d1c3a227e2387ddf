/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <pwd.h>

#include "lib/base/util.h"
#include "lib/decoder/decoder.h"

/* The kernel's overflow uid and gid, which own nothing. */
enum { OVERFLOW_ID = 65534, RECORD_MAX = 16 << 10 };

/* Finds a user by name; any thread may call it. Returns 0 or a positive errno. *ret_found false: no such user. */
static int find_user(const char *name, uid_t *ret_uid, gid_t *ret_gid, bool *ret_found)
{
	struct passwd record, *found = NULL;
	char text[RECORD_MAX];
	int rc = getpwnam_r(name, &record, text, sizeof(text), &found);

	*ret_found = found;
	*ret_uid = found ? record.pw_uid : 0;
	*ret_gid = found ? record.pw_gid : 0;
	return rc;
}

int decoder_user(const char *name, uid_t *ret_uid, gid_t *ret_gid)
{
	bool found;
	uid_t uid;
	gid_t gid;
	int rc;

	if (geteuid() != 0) {
		*ret_uid = (uid_t)-1;
		*ret_gid = (gid_t)-1;
		return 0;
	}
	if (name[0]) {
		rc = find_user(name, &uid, &gid, &found);
		if (!found)
			return rc == ENOMEM || rc == EMFILE || rc == ENFILE || rc == EIO ? -rc : -ESRCH;
		*ret_uid = uid;
		*ret_gid = gid;
		return 0;
	}
	find_user("csight", &uid, &gid, &found);
	if (!found)
		find_user("nobody", &uid, &gid, &found);
	*ret_uid = uid ? uid : OVERFLOW_ID;
	*ret_gid = gid ? gid : OVERFLOW_ID;
	return 0;
}
