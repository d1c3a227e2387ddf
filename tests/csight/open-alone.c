/* SPDX-License-Identifier: MIT */
/*
 * What note.c needs of the rest of libcsight, for programs of another architecture, for which there may be no json-c
 * and no other libraries: handles that have a socket and no connection.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/csight/csight-internal.h"

static struct csight handle;

int csight_open(const char *socket, struct csight **ret)
{
	handle.owner = getpid();
	handle.socket = getenv("CSIGHT_SOCKET");
	*ret = &handle;
	return handle.socket ? 0 : -ENOTCONN;
}

struct csight *csight_close(struct csight *c)
{
	csight_notes_close(c);
	return NULL;
}

const char *csight_error(const struct csight *c)
{
	return "an error of a handle without a connection";
}

void csight_begin_call(struct csight *c, const char *fmt, ...)
{
}

int csight_set_error(struct csight *c, int rc, const char *fmt, ...)
{
	return rc;
}

int csight_set_connect_error(struct csight *c, int rc, uid_t uid)
{
	return rc;
}

int csight_check_peer(struct csight *c, int fd, uid_t *ret_uid)
{
	return 0;
}
