/* SPDX-License-Identifier: MIT */
/*
 * State shared by the files of process.h: process.c (interface), process-maps.c (mappings and images), process-scan.c
 * (reading of the process), process-log.c (output).
 */
#ifndef CSIGHT_DAEMON_CAPTURE_PROCESS_INTERNAL_H
#define CSIGHT_DAEMON_CAPTURE_PROCESS_INTERNAL_H

#include "daemon/capture/process/code-history.h"
#include "daemon/capture/process/process.h"
#include "daemon/capture/process/proc-dir.h"

/* A file with code that was mapped. */
struct process_image {
	uint32_t id, major, minor;
	uint64_t inode, generation;
	char *path;
	uint8_t build_id_size, build_id[EMU_BUILD_ID_MAX];
	int fd; /* until it is passed to the caller */
	bool tried, handed;
	uint64_t opened_ns; /* time of the scan that tried */
	const char *why;    /* why it could not be opened */
};

struct process_comm {
	uint64_t time;
	uint32_t tid;
	char name[EMU_NAME_SIZE];
};

struct process_code {
	struct proc_dir proc;
	int pidfd;
	uid_t account;
	struct code_history *history;
	struct process_image *images;
	size_t n_images, room_images;
	uint32_t last_image;
	char **paths;
	size_t n_paths, room_paths;
	struct process_comm *names;
	size_t n_names, room_names;
	struct capture_jitdump jitdump; /* of the program; fd -1: there is none */
	uint64_t scan_ns;               /* time of the last scan */
	uint64_t rest_until;            /* CLOCK_MONOTONIC: no watch before */
	uint64_t room_rest_until;       /* likewise: no room is made in what is full */
	uint64_t dropped_ns;            /* time of the first record that was dropped since the last scan; 0: none */
	int64_t shift;                  /* added to CLOCK_MONOTONIC it gives the records' clock, as of shift_ns */
	uint64_t shift_ns;
	bool shift_known;
	uint64_t cut;    /* the history is incomplete before this time; 0: complete */
	bool pending;    /* there are new mappings since the last scan */
	bool closed;     /* the owner changed: the process must not be read */
	bool leaderless; /* the first thread had ended at the last scan */
	bool full, crowded, lost;
	int unread;  /* why its memory cannot be read: negative errno, or 0 */
	int skipped; /* why the last scan did not begin, likewise */
	/* of process_scan_now() in a thread of its own: */
	uint64_t scan_now;
	int scan_rc;
};

/* process.c: returns the time now in the records' clock, as far as it is known. */
uint64_t process_clock(const struct process_code *p);

/* process-maps.c: returns the image with this identifier, or NULL. */
struct process_image *process_find_image(struct process_code *p, uint32_t id);

/* process-maps.c: adds a mapping that was recorded, or found by a scan, there or in place of a recorded one. */
enum process_source { PROCESS_RECORDED, PROCESS_FOUND, PROCESS_FOUND_OTHER };
void process_add(struct process_code *p, const struct process_map *m, enum process_source how);

/*
 * process-maps.c: before a scan, if records were dropped since the last one: makes room in the history, and records
 * that all mappings are unknown from the first dropped record up to now_ns.
 */
void process_note_dropped(struct process_code *p, uint64_t now_ns);

/* process-maps.c: forgets all records: what was mapped before this time is unknown. The next scan finds what is. */
void process_start_over(struct process_code *p, uint64_t time);

/* process-scan.c: false: there is nothing new to read, and it has been a short time since the last scan. */
bool process_scan_needed(const struct process_code *p, uint64_t now_ns);

/*
 * process-scan.c: reads what is new. Returns 1 if something was read, 0 if not. -ESRCH: the process has ended; -EAGAIN:
 * not possible now; -EACCES, -EPERM.
 */
int process_scan_now(struct process_code *p, uint64_t now_ns);

#endif
