/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <pwd.h>

#include "lib/base/util.h"
#include "lib/decoder/decoder.h"

/* The kernel's overflow uid and gid, which own nothing. */
enum { OVERFLOW_ID = 65534 };

int decoder_user(const char *name, uid_t *ret_uid, gid_t *ret_gid)
{
	const struct passwd *p = NULL;

	if (geteuid() != 0) {
		*ret_uid = (uid_t)-1;
		*ret_gid = (gid_t)-1;
		return 0;
	}
	if (name[0]) {
		errno = 0;
		p = getpwnam(name);
		if (!p)
			return errno == ENOMEM || errno == EMFILE || errno == ENFILE || errno == EIO ? -errno : -ESRCH;
		*ret_uid = p->pw_uid;
		*ret_gid = p->pw_gid;
		return 0;
	}
	p = getpwnam("csight");
	if (!p)
		p = getpwnam("nobody");
	*ret_uid = p && p->pw_uid ? p->pw_uid : OVERFLOW_ID;
	*ret_gid = p && p->pw_gid ? p->pw_gid : OVERFLOW_ID;
	return 0;
}
