/* The parts of topology_read(), which share what they have read so far. */
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

/* Notes what is wrong with a path; lack of memory is none of the tree's faults. */
void topology_problem(struct topology_reading *r, const char *path, int error, const char *cause);

/* "DIR/NAME"; false where that is too long for anything that there is. */
bool topology_path(char ret[static SYSROOT_PATH_MAX], const char *dir, const char *name);

/* A number in DIR/NAME. False where there is none; what is there and is no number is a problem besides. */
bool topology_value(struct topology_reading *r, const char *dir, const char *name, uint64_t *ret);

/* In this order. -ENOMEM only. */
int topology_read_devices(struct topology_reading *r);
int topology_read_pmu(struct topology_reading *r);
int topology_read_sinks(struct topology_reading *r);
int topology_read_cpus(struct topology_reading *r);
int topology_reach(struct topology_reading *r);

#endif
