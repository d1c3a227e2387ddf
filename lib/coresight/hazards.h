/* SPDX-License-Identifier: MIT */
/*
 * Known defects of processors, firmware and kernels that make tracing into TRBE, the private sink of a CPU, unsafe or
 * incomplete. Which of them a machine has follows from the identification registers of its CPUs, the kernel's release,
 * configuration and command line. A kernel that has a correction without being new enough is not recognized.
 */
#ifndef CSIGHT_CORESIGHT_HAZARDS_H
#define CSIGHT_CORESIGHT_HAZARDS_H

#include <stddef.h>

#include "lib/coresight/topology.h"

enum hazard_effect {
	HAZARD_NOTE,   /* does not concern what csightd records */
	HAZARD_LOSS,   /* trace may be missing without a mark */
	HAZARD_DAMAGE, /* memory or trace may be corrupted, or the machine may hang */
};

struct hazard {
	enum hazard_effect effect;
	char text[320];
	char remedy[160];
};

enum { HAZARDS_MAX = 24 };

struct hazards {
	struct hazard list[HAZARDS_MAX]; /* the worst first */
	size_t n;
};

/* root: the directory that t was read from. Finds no hazard where no CPU has a TRBE. */
void hazards_find(int root, const struct topology *t, struct hazards *ret);

/* Returns the first one of effect HAZARD_DAMAGE, or NULL. */
const struct hazard *hazards_damage(const struct hazards *h);

#endif
