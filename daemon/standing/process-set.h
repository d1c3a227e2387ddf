/* SPDX-License-Identifier: MIT */
/* A set of process IDs: one bit for each. */
#ifndef CSIGHT_DAEMON_PROCESS_SET_H
#define CSIGHT_DAEMON_PROCESS_SET_H

#include <stdbool.h>
#include <sys/types.h>

struct process_set;

struct process_set *process_set_new(void);
struct process_set *process_set_free(struct process_set *s);
bool process_set_has(const struct process_set *s, pid_t pid);
void process_set_put(struct process_set *s, pid_t pid, bool in);

#endif
