/*
 * What the kernel tells of all processes beside the trace: who was born, named, executed and ended, what was mapped,
 * and on demand who ran when. One event a CPU that does nothing but tell. Its records are given on in the order of
 * their time, only those of processes that someone asks for. On the capture lane.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_SIDE_H
#define CSIGHT_DAEMON_CAPTURE_SIDE_H

#include "daemon/capture/perf/pevent.h"

struct side;

struct side_user {
	bool (*wants)(void *data, uint32_t pid, uint32_t type);
	void (*record)(void *data, uint32_t pid, const struct pevent_record *r);
	void *data;
};

/* poll_fd: an epoll that its rings are added to. Nothing is opened yet. */
int side_new(const struct side_user *user, int poll_fd, struct side **ret);
struct side *side_free(struct side *s);

/*
 * Opens what is missing on these CPUs (ascending) and closes what is too much; switches: context switches, too. A CPU
 * that is off is passed over. ret_why tells of a failure.
 */
int side_open(struct side *s, const uint32_t *cpus, size_t n_cpus, bool switches, char *ret_why, size_t room);
void side_close(struct side *s);
bool side_is_open(const struct side *s);

/* Gives on all records up to the moment of the call. */
void side_drain(struct side *s);

/* That moment, in the records' clock; 0: there was none yet. */
uint64_t side_now(const struct side *s);

/* What is to be added to CLOCK_MONOTONIC for that clock, as of then. */
int64_t side_shift(const struct side *s);

/* Records were lost since this was last asked; none before *ret_since. */
bool side_lost(struct side *s, uint64_t *ret_since);

/* From the trace's counter to the records' clock. */
struct pd_clock side_clock(const struct side *s);

#endif
