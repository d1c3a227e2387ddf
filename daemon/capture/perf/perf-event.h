/*
 * One event of the kernel's and its rings: opening, mapping, reading records. What a ring says is checked as if a
 * stranger had written it. On the capture lane, which must be the thread that opened the event.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_PERF_EVENT_H
#define CSIGHT_DAEMON_CAPTURE_PERF_EVENT_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/base/buf.h"
#include "lib/perfdata/write.h"
#include "lib/base/reason.h"

enum { PERF_RECORD_ID_SIZE = 32 /* of the sample_id behind each record, as these attributes ask for it */ };

/* What every event of ours has in common: disabled, identifiers and times behind each record. */
struct perf_event_attr perf_event_default_attr(uint32_t type, const uint64_t words[5]);

/* 0 or negative errno; cpu -1: all, pid -1: all. */
int perf_event_open(const struct perf_event_attr *attr, pid_t pid, int cpu, int *ret_fd);

/* PERF_EVENT_IOC_*; 0 or negative errno. */
int perf_event_control(int fd, unsigned long what, unsigned long argument);

/* For how long it has been enabled, ns; 0: it failed, and is to be enabled anew. */
uint64_t perf_event_time_enabled(int fd);

struct perf_ring {
	struct perf_event_mmap_page *page;
	const uint8_t *data;
	size_t data_size; /* a power of two */
	const uint8_t *aux;
	size_t aux_size;
};

/* aux_size 0: none; else it is mapped to be overwritten when full. */
int perf_ring_map(int fd, size_t data_size, size_t aux_size, struct perf_ring *ret);
void perf_ring_unmap(struct perf_ring *r);

struct perf_record {
	uint32_t type;
	uint16_t misc;
	const uint8_t *body; /* what stands between header and sample_id */
	size_t size;
	struct pd_origin origin;
};

/* One record at the beginning of what there is; its size. -EBADMSG. */
int perf_record_parse(const void *data, size_t size, struct perf_record *ret);

/* What PERF_RECORD_LOST counts, else 0. */
uint64_t perf_record_lost(const struct perf_record *r);

/*
 * The process that a FORK, EXIT, COMM or MMAP2 record is about, or that a switch record names as running; 0 for other
 * types of records.
 */
uint32_t perf_record_pid(const struct perf_record *r);

/*
 * Moves all records that are there into b, behind one another, and gives the room back to the kernel. -EBADMSG: the
 * ring makes no sense; what it held is dropped.
 */
int perf_ring_read(struct perf_ring *r, struct buf *b);

/* Bytes that perf_ring_read() would move. */
uint64_t perf_ring_filled(const struct perf_ring *r);

/* How far the AUX buffer has been written, ever. */
uint64_t perf_ring_aux_head(const struct perf_ring *r);

/* From the trace's counter to the records' clock; not known where the kernel does not tell. */
struct pd_clock perf_ring_clock(const struct perf_ring *r);

/*
 * What is to be added to CLOCK_MONOTONIC for the records' clock, now; false: it cannot be told, as on other processors
 * than Arm's.
 */
bool perf_ring_shift(const struct perf_ring *r, int64_t *ret);

/* Why opening or mapping failed, what is needed and what would help. */
int perf_event_explain(struct reason *why, int rc, const char *what, uint64_t locked_bytes);

#endif
