/* SPDX-License-Identifier: MIT */
/*
 * The kernel's code, which csight-kernel copies: once, and again when modules have come or gone. Used by the capture
 * thread, which waits for the copy.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_KERNEL_CODE_H
#define CSIGHT_DAEMON_CAPTURE_KERNEL_CODE_H

#include "daemon/capture/capture.h"
#include "lib/base/reason.h"

struct kernel_code;

/* socket: of csight-kernel; NULL: there is none. Returns NULL if memory is short. */
struct kernel_code *kernel_code_new(const char *socket);
struct kernel_code *kernel_code_free(struct kernel_code *k);

/* Has the code copied, unless there is a copy of the modules that are loaded now. Negative errno, with the reason. */
int kernel_code_update(struct kernel_code *k, struct reason *why);

/* Gives the caller a descriptor of its own of the last copy. -ENODATA: there is none. */
int kernel_code_get(const struct kernel_code *k, struct capture_kernel *ret);

#endif
