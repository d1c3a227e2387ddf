/* The build-id of an ELF file that is mapped with code: some bounded reads, once a file. */
#ifndef CSIGHT_EMU_BUILDID_H
#define CSIGHT_EMU_BUILDID_H

#include <stdint.h>

#include "lib/emu/ring.h"

/* Its size; 0: there is none, or the file is no 64-bit little-endian ELF. */
uint8_t buildid_read(int fd, uint8_t ret[EMU_BUILD_ID_MAX]);

#endif
