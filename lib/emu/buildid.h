/* SPDX-License-Identifier: MIT */
/* The build-id of a mapped ELF file, found by a bounded number of reads. */
#ifndef CSIGHT_EMU_BUILDID_H
#define CSIGHT_EMU_BUILDID_H

#include <stdint.h>

#include "lib/emu/ring.h"

/* Returns the size of the build-id; 0: the file has none, or is not a 64-bit little-endian ELF file. */
uint8_t buildid_read(int fd, uint8_t ret[EMU_BUILD_ID_MAX]);

#endif
