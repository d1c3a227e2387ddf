/* SPDX-License-Identifier: MIT */
/*
 * Perf events and their rings: opening, mapping, reading records. Contents of a ring are validated as if they came from
 * an untrusted writer. Events are used by the capture thread.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_PERF_EVENT_H
#define CSIGHT_DAEMON_CAPTURE_PERF_EVENT_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/capture/process/address-space.h"
#include "lib/base/buf.h"
#include "lib/base/reason.h"
#include "lib/perfdata/write.h"

enum { PERF_RECORD_ID_SIZE = 32 /* sample_id of each record with the default attributes, bytes */ };

/* Attributes common to all events: disabled, with identifiers and times in each record. */
struct perf_event_attr perf_event_default_attr(uint32_t type, const uint64_t words[5]);

/* 0 or negative errno. cpu -1: all CPUs; pid -1: all processes. */
int perf_event_open(const struct perf_event_attr *attr, pid_t pid, int cpu, int *ret_fd);

/* What an event does to the trace event that leads its group; or PERF_EVENT_PAUSED, how that begins. */
enum perf_event_action { PERF_EVENT_PAUSED = 1, PERF_EVENT_PAUSES = 2, PERF_EVENT_RESUMES = 4 };

void perf_event_set_action(struct perf_event_attr *attr, enum perf_event_action action);

struct perf_event_place {
	uint32_t tid;
	int cpu;
	int group; /* the event that leads it; 0: none */
};

/*
 * The same for an event of a thread. The kernel waits there while the process executes a program, for the address space
 * that it leaves; -ETIMEDOUT: it, or its account, does not let go of that, or did not a short time ago.
 */
int perf_event_open_thread(struct address_space_of of, const struct perf_event_attr *attr, struct perf_event_place at,
			   int *ret_fd);

/* Reads the number of a tracepoint ("GROUP/NAME"). Sets why on failure. */
int perf_event_tracepoint(const char *name, uint64_t *ret, struct reason *why);

/*
 * Closes events in a thread of its own: the call waits while the process has a lock of its events. fds: allocated,
 * ended by -1; owned. What there is no thread for stays open.
 */
void perf_event_close_apart(int *fds);

/* what: PERF_EVENT_IOC_*. 0 or negative errno. */
int perf_event_control(int fd, unsigned long what, unsigned long argument);

/* Returns how long the event has been enabled, ns; 0: it failed and must be enabled again. */
uint64_t perf_event_time_enabled(int fd);

struct perf_ring {
	struct perf_event_mmap_page *page;
	const uint8_t *data;
	size_t data_size;  /* a power of two */
	uint64_t position; /* up to which records were read */
	const uint8_t *aux;
	size_t aux_size;
};

/*
 * aux_size 0: no AUX buffer; otherwise one that is overwritten circularly. perf_ring_map_fill(): one that stops the
 * sink when it is full. The first mapping of an event decides for all.
 */
int perf_ring_map(int fd, size_t data_size, size_t aux_size, struct perf_ring *ret);
int perf_ring_map_fill(int fd, size_t data_size, size_t aux_size, struct perf_ring *ret);
void perf_ring_unmap(struct perf_ring *r);

/*
 * Maps a ring whose oldest records are overwritten, of an event with write_backward. perf_ring_read_newest() appends
 * its records to b, newest first, up to those that there were when *head had its value, 0 for all; and sets *head.
 * PERF_EVENT_IOC_PAUSE_OUTPUT must be in effect.
 */
int perf_ring_map_backward(int fd, size_t data_size, struct perf_ring *ret);
int perf_ring_read_newest(const struct perf_ring *r, uint64_t *head, struct buf *b);

struct perf_record {
	uint32_t type;
	uint16_t misc;
	const uint8_t *body; /* between header and sample_id */
	size_t size;
	struct pd_origin origin;
};

/* Parses the record at the start of data. Returns its size, or -EBADMSG. */
int perf_record_parse(const void *data, size_t size, struct perf_record *ret);

/* Returns the number of lost records that a PERF_RECORD_LOST counts; 0 for other types. */
uint64_t perf_record_lost(const struct perf_record *r);

/*
 * Returns the process that a FORK, EXIT, COMM or MMAP2 record is about, or that a switch record names as running; 0 for
 * other types.
 */
uint32_t perf_record_pid(const struct perf_record *r);

/*
 * Appends all available records to b; perf_ring_release() frees the space of what was read. -EBADMSG: the ring is
 * inconsistent; its contents are dropped.
 */
int perf_ring_read(struct perf_ring *r, struct buf *b);
void perf_ring_release(struct perf_ring *r);

/* Returns the number of bytes in the ring that are in use. */
uint64_t perf_ring_filled(const struct perf_ring *r);

/* Returns the number of bytes ever written to the AUX buffer. */
uint64_t perf_ring_aux_head(const struct perf_ring *r);

/* Converts the trace's timestamps to the records' clock; unknown if the kernel does not provide it. */
struct pd_clock perf_ring_clock(const struct perf_ring *r);

/*
 * Determines what added to CLOCK_MONOTONIC gives the records' clock now. Returns false if unknown, as on other
 * architectures than Arm.
 */
bool perf_ring_shift(const struct perf_ring *r, int64_t *ret);

/* Sets why to the reason why opening or mapping failed, what is required, and what may help. Returns rc. */
int perf_event_explain(struct reason *why, int rc, const char *what, uint64_t locked_bytes);

#endif
