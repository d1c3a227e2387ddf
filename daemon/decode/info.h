/* SPDX-License-Identifier: MIT */
/* Describes the contents of an input without decoding it, as text or as one JSON document. */
#ifndef CSIGHT_DECODE_INFO_H
#define CSIGHT_DECODE_INFO_H

#include "lib/coresight/armsnap.h"
#include "lib/perfdata/read.h"

int info_write(const struct pd_contents *contents, bool json, int fd);
int info_write_snapshot(const struct armsnap *snapshot, bool json, int fd);

#endif
