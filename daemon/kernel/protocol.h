/* SPDX-License-Identifier: MIT */
/*
 * What csightd and csight-kernel send each other: one request on a connection, one answer, with a descriptor if rc is
 * 0: a sealed memfd with the kernel's code, or the kernel's log. Both are of one version of csightd.
 */
#ifndef CSIGHT_DAEMON_KERNEL_PROTOCOL_H
#define CSIGHT_DAEMON_KERNEL_PROTOCOL_H

#include <stdint.h>

enum { KERNEL_VERSION = 2, KERNEL_WHY_MAX = 256, KERNEL_COPY_MAX = 512 << 20 };

#define KERNEL_LOG "/dev/kmsg"

enum kernel_wanted { KERNEL_FOR_CODE, KERNEL_FOR_LOG };

struct kernel_request {
	uint32_t version;
	uint32_t wanted; /* enum kernel_wanted */
};

struct kernel_response {
	int32_t rc;
	uint32_t version;
	uint64_t size;          /* of the copy, bytes */
	uint64_t start, length; /* of the kernel's own code, without modules */
	char why[KERNEL_WHY_MAX];
};

#endif
