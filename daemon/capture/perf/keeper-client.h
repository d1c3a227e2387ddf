/* SPDX-License-Identifier: MIT */
/*
 * The connection to csight-keeper, which keeps events and rings when this daemon ends (daemon/keeper/protocol.h). All
 * functions return negative errno; -EPIPE and the like mean that the keeper has ended. Capture thread only.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_KEEPER_CLIENT_H
#define CSIGHT_DAEMON_CAPTURE_KEEPER_CLIENT_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <sys/types.h>

#include "daemon/capture/perf/perf-event.h"
#include "daemon/keeper/protocol.h"

struct keeper_client;

struct kept_name {
	uint64_t group;
	enum keeper_kind kind;
	uint32_t number;
};

/* -ENOENT, -ECONNREFUSED: there is no keeper; -EBUSY: another daemon uses it. Waits while systemd starts it. */
int keeper_client_new(const char *path, struct keeper_client **ret);

/* Connects again, without waiting for long. What was opened before is not kept. */
int keeper_client_connect(struct keeper_client *k, const char *path);
bool keeper_client_is_connected(const struct keeper_client *k);

/* Closes the connection if the keeper has ended. */
void keeper_client_check(struct keeper_client *k);
struct keeper_client *keeper_client_free(struct keeper_client *k);

/* Closes the connection, so that everything is kept: all later calls fail. */
void keeper_client_leave(struct keeper_client *k);

/* Has the keeper open an event and keep it. Without a connection as perf_event_open(). */
int keeper_client_open(struct keeper_client *k, const struct kept_name *name, const struct perf_event_attr *attr,
		       pid_t pid, int cpu, int *ret_fd);

/* Must precede perf_ring_map() in this process, with the same sizes. Without a connection it does nothing. */
int keeper_client_map(struct keeper_client *k, const struct kept_name *name, size_t data_size, size_t aux_size,
		      bool fill);

/* Has the keeper keep a duplicate of the descriptor. _new: it has nothing of this name. */
int keeper_client_hold(struct keeper_client *k, const struct kept_name *name, int fd);
int keeper_client_hold_new(struct keeper_client *k, const struct kept_name *name, int fd);

/* The same for an event that this process has mapped, and its ring. */
int keeper_client_hold_ring(struct keeper_client *k, const struct kept_name *name, int fd,
			    const struct perf_ring *ring);

/* Has the keeper close what has this name; kind KEEPER_ALL: the whole group. Descriptors of this process stay open. */
void keeper_client_close(struct keeper_client *k, const struct kept_name *name);

/* Calls fn for each thing of the group; it owns the descriptor. Stops at its first error. */
typedef int (*kept_thing_fn)(void *data, const struct keeper_message *m, int fd);
int keeper_client_list(struct keeper_client *k, uint64_t group, kept_thing_fn fn, void *data);

/* An earlier daemon took things from the keeper, and ended before it claimed them: records that it read may be lost. */
bool keeper_client_misses_records(const struct keeper_client *k);

/* What was listed and read is in the logs, or not needed. */
void keeper_client_claimed(struct keeper_client *k);

/* Calls fn for each group, with fd -1. */
int keeper_client_groups(struct keeper_client *k, kept_thing_fn fn, void *data);

#endif
