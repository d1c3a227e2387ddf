/*
 * What the kernel tells of all processes beside the trace: who was born, named, executed and ended, what was mapped,
 * and on demand who ran when. One event a CPU that does nothing but tell. Its records are given on in the order of
 * their time, only those of processes that someone asks for. On the capture lane.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_SIDEBAND_H
#define CSIGHT_DAEMON_CAPTURE_SIDEBAND_H

#include "daemon/capture/perf/perf-event.h"
#include "lib/base/reason.h"

struct sideband;

struct sideband_listener {
	bool (*wants)(void *data, uint32_t pid, uint32_t type);
	void (*record)(void *data, uint32_t pid, const struct perf_record *r);
	void *data;
};

/* poll_fd: an epoll that its rings are added to. Nothing is opened yet. */
int sideband_new(const struct sideband_listener *user, int poll_fd, struct sideband **ret);
struct sideband *sideband_free(struct sideband *s);

/*
 * Opens what is missing on these CPUs (ascending) and closes what is too much; switches: context switches, too. A CPU
 * that is off is passed over. why tells of a failure.
 */
int sideband_open(struct sideband *s, const uint32_t *cpus, size_t n_cpus, bool switches, struct reason *why);
void sideband_close(struct sideband *s);
bool sideband_is_open(const struct sideband *s);

/* Gives on all records up to the moment of the call. */
void sideband_drain(struct sideband *s);

/* That moment, in the records' clock; 0: there was none yet. */
uint64_t sideband_now(const struct sideband *s);

/* What is to be added to CLOCK_MONOTONIC for that clock, as of then. */
int64_t sideband_shift(const struct sideband *s);

/* Records were lost since this was last asked; none before *ret_since. */
bool sideband_lost(struct sideband *s, uint64_t *ret_since);

/* From the trace's counter to the records' clock. */
struct pd_clock sideband_clock(const struct sideband *s);

#endif
