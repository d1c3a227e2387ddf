/* SPDX-License-Identifier: MIT */
/* The status of csightd as OpenMetrics text, which Prometheus and others read. */
#ifndef CSIGHT_CLIENT_METRICS_H
#define CSIGHT_CLIENT_METRICS_H

#include <stdio.h>

#include "lib/csight/csight.h"

/* Writes what the three replies of csightd have. -ENOMEM; errors of f are the caller's to check. */
int metrics_write(FILE *f, const struct csight_object *status, const struct csight_object *targets,
		  const struct csight_object *snapshots);

#endif
