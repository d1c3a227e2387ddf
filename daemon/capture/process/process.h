/*
 * Which code a real process ran: what the kernel's records tell of its mappings, and what can be read of it, become a
 * log of mappings and code as lib/emu/ring.h has it, and descriptors of the files. On one thread at a time.
 *
 * All times are nanoseconds of one clock, that of the kernel's records. Records may come in any order, late ones too.
 *
 * A snapshot: freeze; process_map() and the others for every record there is; process_look(); the records once more,
 * for one that came while it looked takes back what was read too late; process_write_log(). Bytes that were read hold
 * from the last record that made their memory code. Where that cannot be known (memory that can be written and executed
 * at once, or through another mapping), the log says that nothing is known ("//unknown"), and the decoder has no image
 * there. Between snapshots, process_watch() after each round of records keeps code that will be written over.
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

struct process;

/*
 * Opens /proc/PID and reads what is mapped. pidfd is borrowed until process_free(). data: the kernel tells of mappings
 * that are not executable, too (attr.mmap_data), and thereby when code is opened for writing: then code that was made
 * page by page keeps its history. -ESRCH: it is gone; -EACCES, -EPERM: not even its mappings may be read.
 */
int process_new(pid_t pid, int pidfd, bool data, uint64_t now_ns, struct process **ret);
struct process *process_free(struct process *p);

/* A PERF_RECORD_MMAP2: of mmap, mprotect, or an exec. Of major, minor and inode, or build_id, only one may be known. */
struct process_map {
	uint64_t time, addr, len, offset;
	uint32_t prot, flags;
	uint32_t major, minor;
	uint64_t inode, generation;
	uint8_t build_id_size, build_id[EMU_BUILD_ID_MAX];
	const char *path;
};

void process_map(struct process *p, const struct process_map *m);

/* A PERF_RECORD_COMM; exec: PERF_RECORD_MISC_COMM_EXEC, which means process_exec() too. */
void process_name(struct process *p, uint64_t time, uint32_t tid, const char *name, bool exec);

/* A new program: nothing of what was mapped is any more. */
void process_exec(struct process *p, uint64_t time);

/* Records were lost after since, and none after now: what is there must be found out anew. */
void process_lost(struct process *p, uint64_t since_ns, uint64_t now_ns);

/*
 * What is to be added to CLOCK_MONOTONIC for the records' clock, as of now: for what the program itself gives times
 * to. Without it, it is taken from how late process_look() is called.
 */
void process_shift(struct process *p, int64_t shift_ns);

/*
 * Reads what the records told of and is not read yet. now_ns: every record up to then was told, and it was asked for
 * after the look before. It takes time in proportion to what is new, and is bounded. A process that became somebody
 * else's (a setuid exec) is not read any more. True: something was read, and is kept if it is written over from the
 * next call on; so draining the records once more and calling again is worth it.
 */
bool process_look(struct process *p, uint64_t now_ns);

/*
 * The same between snapshots: it is passed over where it would take more than a small share of all time, as for a
 * process that changes its mappings without end.
 */
bool process_watch(struct process *p, uint64_t now_ns);

/*
 * Adds the log to ret_log, texts that are each ended by NUL to missing, and the files that the log names: *ret_files is
 * the caller's, with the descriptors of those that were not handed over before. -ENOMEM only.
 */
int process_write_log(struct process *p, struct buf *ret_log, struct buf *missing, struct capture_file **ret_files,
		      size_t *ret_n_files);

/* Nothing before this time will be asked for again. */
void process_forget(struct process *p, uint64_t before_ns);

/* Bytes of memory that its history takes. */
uint64_t process_memory(const struct process *p);

#endif
