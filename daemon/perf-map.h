/* SPDX-License-Identifier: MIT */
/* The perf map of a target, which names generated code. */
#ifndef CSIGHT_DAEMON_PERF_MAP_H
#define CSIGHT_DAEMON_PERF_MAP_H

#include "daemon/target.h"

/*
 * As proc_dir_open_perf_map(), on the spool thread. Any user can lock a directory for ever, by a list of it in memory
 * of a file system in user space: errors of address_space_call(), too. account: that of the target's owner.
 */
int perf_map_open(const struct target *t, uid_t account, int *ret_fd, uint64_t *ret_size);

#endif
