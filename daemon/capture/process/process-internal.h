/* The two halves of process.h: what is kept, and looking at the process. For these two alone. */
#ifndef CSIGHT_DAEMON_CAPTURE_PROCESS_INTERNAL_H
#define CSIGHT_DAEMON_CAPTURE_PROCESS_INTERNAL_H

#include "daemon/capture/process/code-history.h"
#include "daemon/capture/process/jitdump.h"
#include "daemon/capture/process/process.h"
#include "daemon/capture/process/proc-dir.h"

/* A file of which code was mapped. */
struct process_image {
	uint32_t id, major, minor;
	uint64_t inode, generation;
	char *path;
	uint8_t build_id_size, build_id[EMU_BUILD_ID_MAX];
	int fd; /* until it is handed over */
	bool tried, handed;
	uint64_t opened_ns; /* the look that tried */
	const char *why;    /* it could not be opened */
};

struct process_comm {
	uint64_t time;
	uint32_t tid;
	char name[EMU_NAME_SIZE];
};

struct process {
	struct proc_dir proc;
	struct code_history *history;
	struct process_image *images;
	size_t n_images, room_images;
	uint32_t last_image;
	char **paths;
	size_t n_paths, room_paths;
	struct process_comm *names;
	size_t n_names, room_names;
	struct jitdump *jit;
	uint64_t look_ns;    /* of the last look */
	uint64_t rest_until; /* CLOCK_MONOTONIC: when it may be watched again */
	int64_t shift;       /* from CLOCK_MONOTONIC, as of shift_ns */
	uint64_t shift_ns;
	bool shift_known;
	uint64_t cut; /* what was before is not known; 0: all is */
	bool pending; /* something new is not looked at yet */
	bool closed;  /* somebody else's now: not to be read */
	bool unled;   /* its first thread had ended when last looked at */
	bool full, crowded, lost, jit_broken;
	int unread; /* why its memory cannot be read, or 0 */
};

struct process_image *process_find_image(struct process *p, uint32_t id);
enum process_source { PROCESS_RECORDED, PROCESS_FOUND, PROCESS_FOUND_INSTEAD };

void process_add(struct process *p, const struct process_map *m, enum process_source how);

/* 1: something was read. -ESRCH: it is gone; -EAGAIN: not now; -EACCES, -EPERM. */
int process_scan_now(struct process *p, uint64_t now_ns);

#endif
