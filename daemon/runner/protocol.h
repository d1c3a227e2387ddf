/* SPDX-License-Identifier: MIT */
/* The request to csight-runner: this, then what the command is for, the command, and the environment, each with a NUL.
 */
#ifndef CSIGHT_RUNNER_PROTOCOL_H
#define CSIGHT_RUNNER_PROTOCOL_H

#include <stdint.h>

enum { RUNNER_VERSION = 1, RUNNER_MESSAGE_MAX = 16 << 10 };

struct runner_request {
	uint32_t version, uid, n_environment;
};

#endif
