/* SPDX-License-Identifier: MIT */
/* Assertions about a new snapshot, for csight run. */
#ifndef CSIGHT_CLIENT_CMD_ASSERT_H
#define CSIGHT_CLIENT_CMD_ASSERT_H

#include "client/client.h"

enum { CMD_ASSERT_MAX = 64 };

/* Prints a usage error unless the text is an assertion. Returns 0 or the exit status. */
int cmd_assert_check(struct client *c, const char *text);

/* Checks the assertions, and prints their results, as csight assert does. Returns the exit status. */
int cmd_assert_snapshot(struct client *c, const char *const *texts, size_t n, bool nominal, const char *id);

#endif
