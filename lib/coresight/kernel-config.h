/* SPDX-License-Identifier: MIT */
/* The configuration that a kernel was built with, as far as a machine's files show it. */
#ifndef CSIGHT_CORESIGHT_KERNEL_CONFIG_H
#define CSIGHT_CORESIGHT_KERNEL_CONFIG_H

#include <stdbool.h>

/* Returns the configuration with a newline before each line, which the caller frees; NULL: unavailable. */
char *kernel_config_read(int root, const char *release);

/* Whether the option has this value: 'y', 'm'. False without a configuration. */
bool kernel_config_is(const char *config, const char *option, char value);

#endif
