/* SPDX-License-Identifier: MIT */
/* Capture backend for programs under the emulated ETM, by the memory that csight-etm.so shares (lib/emu/ring.h). */
#ifndef CSIGHT_DAEMON_CAPTURE_EMU_H
#define CSIGHT_DAEMON_CAPTURE_EMU_H

#include "daemon/capture/capture.h"

extern const struct capture_ops emu_capture;

/* Fields of the header that describe the process, validated and terminated by NUL. */
struct emu_about {
	uint32_t parent;
	char name[EMU_NAME_SIZE + 1], exe[EMU_PATH_SIZE + 1];
	char arguments[EMU_CMDLINE_SIZE];
	size_t arguments_size;
	bool disarmed; /* an earlier daemon disarmed it */
};

/*
 * Creates a source from the memfd of a program, and arms it, unless an earlier daemon disarmed it. Owns memfd
 * from then on, also on failure. -EPERM: not sealed; -EBADMSG: invalid header; -EPROTONOSUPPORT: unknown version;
 * -EFBIG: too large; -EMEDIUMTYPE: not plain shared memory.
 */
int emu_source_new(int memfd, struct emu_about *ret_about, struct capture_source **ret);

#endif
