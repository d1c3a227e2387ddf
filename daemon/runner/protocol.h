/* SPDX-License-Identifier: MIT */
/*
 * A request to csight-runner: this struct, then strings, each with its NUL: what the command is run for, the command,
 * and n_environment variables.
 */
#ifndef CSIGHT_RUNNER_PROTOCOL_H
#define CSIGHT_RUNNER_PROTOCOL_H

#include <stdint.h>

enum { RUNNER_VERSION = 1, RUNNER_MESSAGE_MAX = 16 << 10 };

struct runner_request {
	uint32_t version, uid, n_environment;
};

#endif
