/* SPDX-License-Identifier: MIT */
/* What Perfetto's two formats share. */
#ifndef CSIGHT_EXPORT_PERFETTO_H
#define CSIGHT_EXPORT_PERFETTO_H

#include "lib/base/buf.h"
#include "lib/export/export.h"

/* Returns name and text of the annotation that explains an unusual begin or end of a frame, or NULL for both. */
void perfetto_reason(const struct store_event *e, bool cut, const char **ret_name, const char **ret_text);

/* Adds packets with the attributes of the snapshot. */
void perfetto_description(const struct store *s, const struct export_result *result, struct buf *ret);

#endif
