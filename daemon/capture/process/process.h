/* SPDX-License-Identifier: MIT */
/*
 * Collects the code that a process ran. Kernel records of its mappings and the readable contents of its memory become a
 * code log (lib/emu/ring.h) and descriptors of the mapped files. For use by one thread at a time.
 *
 * All times are nanoseconds of the records' clock. Records may be added in any order of time, also late.
 *
 * Sequence of a snapshot: freeze; process_map() and related calls for all available records; process_scan(); once more
 * for new records, since a record that arrived during the scan invalidates bytes that were read too late;
 * process_write_log(). Bytes that were read hold from the last record that made their memory executable. If that is
 * unknown (memory that is writable and executable at once, or through another mapping), the log marks the range as
 * "//unknown", and the decoder has no image there. Between snapshots, process_scan_limited() after each round of
 * records saves code before it is overwritten.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_PROCESS_H
#define CSIGHT_DAEMON_CAPTURE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/capture/capture.h"
#include "lib/base/buf.h"
#include "lib/emu/ring.h"

struct process_code;

/*
 * Opens /proc/PID and reads the mappings. data: records also cover mappings that are not executable (attr.mmap_data),
 * and so show when code becomes writable; then code that was generated page by page keeps its history. -ESRCH: the
 * process has ended; -EACCES, -EPERM: its mappings may not be read; and errors of address_space_call().
 */
struct process_of {
	pid_t pid;
	int pidfd;
	uid_t account; /* see address-space.h */
};

int process_new(const struct process_of *of, bool data, uint64_t now_ns, struct process_code **ret);
struct process_code *process_free(struct process_code *p);

/* A PERF_RECORD_MMAP2: of mmap(), mprotect() or exec. It has either device and inode numbers or a build-id. */
struct process_map {
	uint64_t time, addr, len, offset;
	uint32_t prot, flags;
	uint32_t major, minor;
	uint64_t inode, generation;
	uint8_t build_id_size, build_id[EMU_BUILD_ID_MAX];
	const char *path;
};

void process_map(struct process_code *p, const struct process_map *m);

/* A PERF_RECORD_COMM. exec: PERF_RECORD_MISC_COMM_EXEC; then process_exec() is implied. */
void process_name(struct process_code *p, uint64_t time, uint32_t tid, const char *name, bool exec);

/* The process executed a program: all mappings are gone. */
void process_exec(struct process_code *p, uint64_t time);

/* Nothing that happened before this time, at which process_new() was called, was recorded: what was mapped is unknown.
 */
void process_known_since(struct process_code *p, uint64_t time_ns);

/* Records after since_ns were lost, none after now_ns: the mappings will be read again. */
void process_note_lost_records(struct process_code *p, uint64_t since_ns, uint64_t now_ns);

/*
 * Sets what added to CLOCK_MONOTONIC gives the records' clock, for times that the program itself recorded. Otherwise
 * the value is estimated from the calls of process_scan().
 */
void process_set_shift(struct process_code *p, int64_t shift_ns);

/*
 * Reads memory and files of new mappings. now_ns: all records up to this time have been added, and it was determined
 * after the previous scan. The time scanned is bounded, and proportional to what is new. A process whose owner changed
 * (by a set-user-ID exec) is not read any more. Returns true if something was read; adding new records and scanning
 * again then preserves it against being overwritten. *p becomes NULL if the reading had to be given up.
 */
bool process_scan(struct process_code **p, uint64_t now_ns);

/*
 * Scans between snapshots; returns as process_scan(). Skips the scan if scans would take more than a small share of the
 * time, as for a process that changes its mappings all the time.
 */
bool process_scan_limited(struct process_code **p, uint64_t now_ns);

/* In place of a scan: what was read before holds, if no record up to now contradicts it. */
void process_confirm(struct process_code *p, uint64_t now_ns);

/*
 * Appends the log to ret_log and texts, each terminated by NUL, to missing. *ret_files: the files that the log names,
 * owned by the caller, with descriptors of those not passed before. -ENOMEM only.
 */
int process_write_log(struct process_code *p, struct buf *ret_log, struct buf *missing, struct capture_file **ret_files,
		      size_t *ret_n_files);

/* Appends the log without the bytes of code that no file has, which is unknown then. */
int process_write_mappings(struct process_code *p, struct buf *ret);

/* *ret: the program's jitdump, with a descriptor that the caller owns; fd -1: there is none. Negative errno. */
int process_copy_jitdump(const struct process_code *p, struct capture_jitdump *ret);

/* Drops everything before this time. */
void process_forget(struct process_code *p, uint64_t before_ns);

/* Returns the memory used by the history, bytes. */
uint64_t process_memory(const struct process_code *p);

#endif
