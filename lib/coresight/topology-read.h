/* SPDX-License-Identifier: MIT */
/* The steps of topology_read(). */
#ifndef CSIGHT_CORESIGHT_TOPOLOGY_READ_H
#define CSIGHT_CORESIGHT_TOPOLOGY_READ_H

#include "lib/coresight/sysroot.h"
#include "lib/coresight/topology.h"

#define TOPOLOGY_PMU "sys/bus/event_source/devices/cs_etm"
#define TOPOLOGY_DEVICES "sys/bus/coresight/devices"
#define TOPOLOGY_CPUS "sys/devices/system/cpu"

struct topology_reading {
	int root;
	struct topology *t;
};

/* Records a problem with a path, unless the error is -ENOMEM. */
void topology_problem(struct topology_reading *r, const char *path, int error, const char *cause);

/* Composes "DIR/NAME"; returns false if that is too long. */
bool topology_join_path(char ret[static SYSROOT_PATH_MAX], const char *dir, const char *name);

/* Reads a number from DIR/NAME. Returns false on failure, and records a problem unless the file does not exist. */
bool topology_value(struct topology_reading *r, const char *dir, const char *name, uint64_t *ret);

/* The steps, in this order. -ENOMEM is their only error. */
int topology_read_devices(struct topology_reading *r);
int topology_read_pmu(struct topology_reading *r);
int topology_read_sinks(struct topology_reading *r);
int topology_read_cpus(struct topology_reading *r);
int topology_reach(struct topology_reading *r);

#endif
