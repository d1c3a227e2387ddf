/* SPDX-License-Identifier: MIT */
/* The state of csightd in one line, for systemctl status: targets, snapshots, and the last error of the log. */
#ifndef CSIGHT_DAEMON_STATUS_LINE_H
#define CSIGHT_DAEMON_STATUS_LINE_H

#include "daemon/spool.h"
#include "daemon/target.h"

struct status_line;

int status_line_new(struct event_base *base, const struct target_list *targets, const struct spool *spool,
		    struct status_line **ret);
struct status_line *status_line_free(struct status_line *s);

/* Composes the line again, and sends it within a second, since something may have changed. s may be NULL. */
void status_line_changed(struct status_line *s);

#endif
