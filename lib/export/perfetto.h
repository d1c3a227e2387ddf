/* What Perfetto's two formats share. */
#ifndef CSIGHT_EXPORT_PERFETTO_H
#define CSIGHT_EXPORT_PERFETTO_H

#include "lib/base/buf.h"
#include "lib/export/export.h"

/* What there is to say of a frame's beginning or end beyond what and when; NULL: nothing. */
void perfetto_reason(const struct store_event *e, bool cut, const char **ret_name, const char **ret_text);

/* The snapshot's own, as packets. */
void perfetto_description(const struct store *s, const struct export_result *result, struct buf *ret);

#endif
