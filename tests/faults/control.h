/* SPDX-License-Identifier: MIT */
/*
 * What the driver of a sweep (sweep.py) and the shim share: a file, mapped by every process that has the shim and the
 * variable CSIGHT_FAULTS, which names the file. sweep.py reads and writes it by these offsets.
 */
#ifndef CSIGHT_FAULTS_CONTROL_H
#define CSIGHT_FAULTS_CONTROL_H

#include <stdint.h>

enum { SITES_MAX = 16384, FRAMES_MAX = 12 };

enum fault_mode { FAULT_OFF, FAULT_RECORD, FAULT_FAIL, FAULT_KILL };

enum fault_program { PROGRAM_OTHER, PROGRAM_DAEMON, PROGRAM_DECODER, PROGRAM_CLIENT, PROGRAM_LIBRARY };

/* A site: the calling functions of one call, as far as the third one of csight's own code. */
struct fault_site {
	uint64_t id;
	uint32_t program, call;
	uint32_t hits; /* while recording */
	uint32_t n_frames;
	uint64_t frames[FRAMES_MAX]; /* relative to their module; bit 63: csight's own; bit 62: libcsight.so */
};

struct fault_control {
	uint32_t mode;
	uint32_t program;  /* whose calls fail, or are recorded; 0: of all */
	uint64_t id;       /* the site that fails */
	uint32_t call;     /* its call */
	uint32_t error;    /* the errno; 0: a short read or write */
	uint32_t times;    /* how often it fails */
	uint32_t hits;     /* how often it has been reached */
	int64_t clock_ns;  /* added to CLOCK_REALTIME */
	uint32_t delay_us; /* of each open(), and of each write and fsync of a file */
	uint32_t n_sites;
	struct fault_site sites[SITES_MAX];
};

#endif
