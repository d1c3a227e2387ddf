/*
 * What csight doctor looks at, and what it finds: in the order in which one would put things right. Everything is read
 * beneath a root directory; of another root than "/" only files are looked at, and nothing of this machine.
 */
#ifndef CSIGHT_CLIENT_DOCTOR_H
#define CSIGHT_CLIENT_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/util.h"
#include "lib/coresight/sysroot.h"
#include "lib/coresight/topology.h"

enum doctor_level {
	DOCTOR_OK,
	DOCTOR_NOTE,    /* good to know */
	DOCTOR_WARNING, /* tracing is poorer for it */
	DOCTOR_ERROR,   /* it stops tracing on the hardware */
};

enum { DOCTOR_FINDINGS_MAX = 96 };

struct doctor_finding {
	enum doctor_level level;
	const char *topic;
	char text[512];   /* as found: escaped where it is shown */
	char remedy[384]; /* "" for none */
};

/* What firmware describes: devices that are not disabled. */
struct doctor_firmware {
	const char *source; /* NULL: firmware is not shown */
	unsigned sources, buffers, private, disabled;
	unsigned nodes; /* of the device tree, that were looked at */
};

struct doctor {
	int root;
	bool here; /* the root is this machine's */
	struct topology *topology;
	char release[80], arch[80]; /* "" where not told */
	bool arm;                   /* an Arm machine, or nothing says otherwise */
	char *config;               /* the kernel's, each line behind a newline; NULL where it cannot be read */
	struct doctor_firmware firmware;
	uint64_t capabilities; /* of this process */
	bool emulator;         /* csight run --emu works */
	struct doctor_finding findings[DOCTOR_FINDINGS_MAX];
	size_t n_findings;
};

#define DOCTOR_EMPTY       \
	{                  \
		.root = -1 \
	}

/* Opens the root and reads what several checks need. Negative errno. */
int doctor_begin(struct doctor *d, const char *root);
void doctor_done(struct doctor *d);
#define _cleanup_doctor_ _cleanup_(doctor_done)

/* The next finding; text and remedy are cut where they are too long. remedy "" for none. */
struct doctor_finding *doctor_find(struct doctor *d, enum doctor_level level, const char *topic, const char *fmt, ...)
    _printf_(4, 5);
void doctor_remedy(struct doctor_finding *f, const char *fmt, ...) _printf_(2, 3);

void doctor_read_firmware(struct doctor *d);

/* The checks, a file each, in their order. */
void doctor_kernel(struct doctor *d);
void doctor_firmware(struct doctor *d);
void doctor_hardware(struct doctor *d);
void doctor_rights(struct doctor *d);
void doctor_use(struct doctor *d);
void doctor_programs(struct doctor *d);
void doctor_offers(struct doctor *d);

/* How the kernel has a driver; of several modules the first one is looked for. */
enum doctor_driver { DRIVER_UNKNOWN, DRIVER_THERE, DRIVER_NOT_LOADED, DRIVER_NOT_BUILT };
enum doctor_driver doctor_driver(const struct doctor *d, const char *option, const char *modules);

/* "CPU 3", "CPUs 0-3,5": those that which() is true of; returns how many. ret is "" for none. */
size_t doctor_cpus(const struct doctor *d, bool (*which)(const struct doctor *d, const struct topology_cpu *cpu),
		   char *ret, size_t size);

#endif
