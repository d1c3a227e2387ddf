/* SPDX-License-Identifier: MIT */
/* The check of the environment, for csight doctor and csight_doctor_run(): the state of the machine that its checks
 * read, and their findings in the order in which to act on them. All files are read below a root directory. With
 * another root than "/" nothing of this machine is examined.
 */
#ifndef CSIGHT_DOCTOR_H
#define CSIGHT_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/util.h"
#include "lib/coresight/sysroot.h"
#include "lib/coresight/topology.h"

enum doctor_level {
	DOCTOR_OK,
	DOCTOR_NOTE,    /* for information */
	DOCTOR_WARNING, /* tracing works with restrictions */
	DOCTOR_ERROR,   /* hardware tracing does not work */
};

enum { DOCTOR_FINDINGS_MAX = 96 };

struct doctor_finding {
	enum doctor_level level;
	const char *topic;
	char text[512];   /* not escaped */
	char remedy[384]; /* "" for none */
};

/* The devices that firmware describes and has not disabled. */
struct doctor_firmware {
	const char *source; /* "ACPI" or "the device tree"; NULL: the kernel shows neither */
	unsigned sources, buffers, private, disabled;
	unsigned nodes; /* number of nodes of the device tree that were read */
};

struct doctor {
	int root;
	bool here; /* the root is "/" of this machine */
	struct topology *topology;
	char release[80], arch[80]; /* "": unknown */
	bool arm;                   /* an Arm machine, or unknown */
	char *config;               /* the kernel's configuration, a newline before each line; NULL: unavailable */
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

/* Opens the root and reads the state that several checks need. Negative errno. */
int doctor_begin(struct doctor *d, const char *root);
void doctor_done(struct doctor *d);
#define _cleanup_doctor_ _cleanup_(doctor_done)

/* Appends a finding. doctor_remedy() sets what to do about it. Texts are truncated if they are too long. */
struct doctor_finding *doctor_find(struct doctor *d, enum doctor_level level, const char *topic, const char *fmt, ...)
    _printf_(4, 5);
void doctor_remedy(struct doctor_finding *f, const char *fmt, ...) _printf_(2, 3);

void doctor_read_firmware(struct doctor *d);

/* Returns whether the kernel is known to be older than Linux MAJOR.MINOR. */
bool doctor_kernel_before(const struct doctor *d, unsigned major, unsigned minor);

/* Runs all checks. Returns how many findings are errors. */
size_t doctor_check(struct doctor *d);

const char *doctor_level_str(enum doctor_level level);

/* "1 CPU", "2 CPUs"; "1.5 GiB". */
enum { DOCTOR_TEXT_SIZE = 64 };
const char *doctor_plural(char text[DOCTOR_TEXT_SIZE], uint64_t n, const char *noun);
const char *doctor_size(char text[DOCTOR_TEXT_SIZE], uint64_t bytes);
#define DOCTOR_PLURAL(n, noun) doctor_plural((char[DOCTOR_TEXT_SIZE]){ 0 }, n, noun)
#define DOCTOR_SIZE(bytes) doctor_size((char[DOCTOR_TEXT_SIZE]){ 0 }, bytes)

/* The checks, in the order in which they run: doctor_NAME() is in doctor-NAME.c, doctor_report_features() in
 * doctor-use.c. */
void doctor_kernel(struct doctor *d);
void doctor_firmware(struct doctor *d);
void doctor_hardware(struct doctor *d);
void doctor_rights(struct doctor *d);
void doctor_use(struct doctor *d);
void doctor_programs(struct doctor *d);
void doctor_report_features(struct doctor *d);

/* Returns whether the kernel has a driver: the first of modules, names separated by blanks, is there, or what the
 * kernel's configuration has for option. */
enum doctor_driver { DRIVER_UNKNOWN, DRIVER_THERE, DRIVER_NOT_LOADED, DRIVER_NOT_BUILT };
enum doctor_driver doctor_driver(const struct doctor *d, const char *option, const char *modules);

/* Formats the CPUs for which which() is true, as "CPU 3" or "CPUs 0-3,5"; "" for none. Returns their number. */
size_t doctor_cpus(const struct doctor *d, bool (*which)(const struct doctor *d, const struct topology_cpu *cpu),
		   char *ret, size_t size);

#endif
