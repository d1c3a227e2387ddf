/* Programs under the emulated ETM: the memory that csight-etm.so shares (lib/emu/ring.h). */
#ifndef CSIGHT_DAEMON_CAPTURE_EMU_H
#define CSIGHT_DAEMON_CAPTURE_EMU_H

#include "daemon/capture/capture.h"

extern const struct capture_ops emu_capture;

/* The header's words about the process, checked and ended by NUL. */
struct emu_about {
	uint32_t parent;
	char name[EMU_NAME_SIZE + 1], exe[EMU_PATH_SIZE + 1];
	char arguments[EMU_CMDLINE_SIZE];
	size_t arguments_size;
};

/*
 * Takes a memfd (also on failure) that a program handed over, and arms it. -EPERM: not sealed; -EBADMSG: its header
 * lies; -EPROTONOSUPPORT: another version; -EFBIG: larger than is allowed; -EMEDIUMTYPE: not plain shared memory.
 */
int emu_source_new(int memfd, struct emu_about *ret_about, struct capture_source **ret);

#endif
