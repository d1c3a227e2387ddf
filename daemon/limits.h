/* SPDX-License-Identifier: MIT */
/* The limits of the ledger, from the settings and the machine: what percentages are of, and what root has in reserve.
 */
#ifndef CSIGHT_DAEMON_LIMITS_H
#define CSIGHT_DAEMON_LIMITS_H

#include "daemon/ledger.h"
#include "daemon/settings.h"
#include "daemon/subuids.h"

struct limits;

/* Raises the limit of descriptors. settings and subuids must stay valid until limits_free(). */
int limits_new(const struct settings *settings, struct subuids *subuids, struct limits **ret);

struct limits *limits_free(struct limits *l);
struct ledger *limits_ledger(const struct limits *l);

/* Derives the limits again, after the settings have changed. */
void limits_update(struct limits *l);

/* Returns the bytes that stay free on the spool's file system. */
uint64_t limits_keep_free(const struct limits *l);

#endif
