/* SPDX-License-Identifier: MIT */
/* The status of csightd as OpenMetrics text, which Prometheus and others read. */
#ifndef CSIGHT_CLIENT_METRICS_H
#define CSIGHT_CLIENT_METRICS_H

#include <stdio.h>

#include "lib/csight/csight.h"

/* Writes the metrics in three replies of csightd. Returns 0 or -ENOMEM; the caller checks f for errors. */
int metrics_write(FILE *f, const struct csight_object *status, const struct csight_object *targets,
		  const struct csight_object *snapshots);

#endif
