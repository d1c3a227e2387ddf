/*
 * One event of the kernel's and its rings: opening, mapping, reading records. What a ring says is checked as if a
 * stranger had written it. On the capture lane, which must be the thread that opened the event.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_PEVENT_H
#define CSIGHT_DAEMON_CAPTURE_PEVENT_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/base/buf.h"
#include "lib/perfdata/write.h"

enum { PEVENT_ID_SIZE = 32 /* of the sample_id behind each record, as these attributes ask for it */ };

/* What every event of ours has in common: disabled, identifiers and times behind each record. */
struct perf_event_attr pevent_attr(uint32_t type, const uint64_t words[5]);

/* 0 or negative errno; cpu -1: all, pid -1: all. */
int pevent_open(const struct perf_event_attr *attr, pid_t pid, int cpu, int *ret_fd);

/* PERF_EVENT_IOC_*; 0 or negative errno. */
int pevent_control(int fd, unsigned long what, unsigned long argument);

/* For how long it has been enabled, ns; 0: it failed, and is to be enabled anew. */
uint64_t pevent_enabled(int fd);

struct pevent_ring {
	struct perf_event_mmap_page *page;
	const uint8_t *data;
	size_t data_size; /* a power of two */
	const uint8_t *aux;
	size_t aux_size;
};

/* aux_size 0: none; else it is mapped to be overwritten when full. */
int pevent_map(int fd, size_t data_size, size_t aux_size, struct pevent_ring *ret);
void pevent_unmap(struct pevent_ring *r);

struct pevent_record {
	uint32_t type;
	uint16_t misc;
	const uint8_t *body; /* what stands between header and sample_id */
	size_t size;
	struct pd_origin origin;
};

/* One record at the beginning of what there is; its size. -EBADMSG. */
int pevent_parse(const void *data, size_t size, struct pevent_record *ret);

/* What PERF_RECORD_LOST counts, else 0. */
uint64_t pevent_lost(const struct pevent_record *r);

/*
 * Moves all records that are there into b, behind one another, and gives the room back to the kernel. -EBADMSG: the
 * ring makes no sense; what it held is dropped.
 */
int pevent_take(struct pevent_ring *r, struct buf *b);

/* Bytes that pevent_take() would move. */
uint64_t pevent_filled(const struct pevent_ring *r);

/* How far the AUX buffer has been written, ever. */
uint64_t pevent_aux_head(const struct pevent_ring *r);

/* From the trace's counter to the records' clock; not known where the kernel does not tell. */
struct pd_clock pevent_clock(const struct pevent_ring *r);

/*
 * What is to be added to CLOCK_MONOTONIC for the records' clock, now; false: it cannot be told, as on other processors
 * than Arm's.
 */
bool pevent_shift(const struct pevent_ring *r, int64_t *ret);

/* Why opening or mapping failed, what is needed and what would help. */
void pevent_explain(char *ret, size_t room, int rc, const char *what, uint64_t locked_bytes);

#endif
