/* SPDX-License-Identifier: MIT */
/* Containers by the control groups that Docker, Podman, containerd, CRI-O, LXC and systemd-nspawn make for them. */
#ifndef CSIGHT_CLIENT_CONTAINER_H
#define CSIGHT_CLIENT_CONTAINER_H

#include <stddef.h>

/*
 * Finds the control group of a running container by its name, or by at least 4 digits of its hexadecimal ID. *ret is
 * its path as in /proc/PID/cgroup. -ENOENT: no process runs in such a container. -ENOTUNIQ: several IDs begin with
 * these digits.
 */
int container_find(const char *id, char *ret, size_t size);

#endif
