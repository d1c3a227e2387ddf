/*
 * An Arm trace snapshot: a directory with snapshot.ini, which names an ini file of each device and trace.ini, which
 * names the trace buffers and what is in them. Cores have memory dumps, trace sources have registers.
 *
 * Everything in it is hostile. Nothing is opened here: a function of the caller gives the text of a file by its name.
 */
#ifndef CSIGHT_CORESIGHT_SNAPSHOT_H
#define CSIGHT_CORESIGHT_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buf.h"

enum snapshot_reg {
	REG_TRCCONFIGR,
	REG_TRCTRACEIDR,
	REG_TRCIDR0,
	REG_TRCIDR1,
	REG_TRCIDR2,
	REG_TRCIDR8,
	REG_TRCDEVARCH,
	REG_ETMCR,
	REG_ETMIDR,
	REG_ETMCCER,
	REG_ETMTRACEIDR,
	REG_STMTCSR,
	REG_ITMTCR,
	SNAPSHOT_REGS,
};

struct snapshot_device {
	const char *name, *class, *type; /* "" where not told */
	bool formatted;                  /* "format = coresight": of a file that describes a bare buffer */
	uint32_t regs[SNAPSHOT_REGS];
	uint32_t has; /* 1 << enum snapshot_reg */
};

/* Bytes of memory of a core (a device's number). */
struct snapshot_dump {
	uint32_t device;
	const char *file;
	uint64_t address, offset, length; /* length UINT64_MAX: to the end of the file */
	uint8_t spaces;                   /* enum engine_space's bits: where it stands */
};

struct snapshot_buffer {
	const char *key, *name, *file; /* key: its section, as trace.ini lists it */
	bool formatted;
};

/* Which source's trace is in a buffer, and of which core it is; names of devices. */
struct snapshot_link {
	const char *from, *to;
};

struct snapshot {
	struct snapshot_device *devices;
	size_t n_devices;
	struct snapshot_dump *dumps; /* in the order of the files */
	size_t n_dumps;
	struct snapshot_buffer *buffers;
	size_t n_buffers;
	struct snapshot_link *sources; /* a source, its buffer */
	size_t n_sources;
	struct snapshot_link *cores; /* a core, its source */
	size_t n_cores;
	struct buf texts; /* what all the names point to: char * */
};

struct snapshot_files {
	/* The whole text of a file, for the caller to free. A negative return is returned by the reader as it is. */
	int (*read)(void *user, const char *name, char **ret, size_t *ret_size);
	void *user;
};

struct snapshot_problem {
	char file[128]; /* cut where it is longer */
	unsigned line;  /* 0: not of a line */
	const char *cause;
};

/* -EBADMSG with *ret_problem; -ENOMEM; what files->read returned. */
int snapshot_read(const struct snapshot_files *files, struct snapshot **ret, struct snapshot_problem *ret_problem);

/* One device by itself: a file of registers, and of dumps, for a bare buffer. */
int snapshot_read_device(const struct snapshot_files *files, const char *name, struct snapshot **ret,
			 struct snapshot_problem *ret_problem);

/* As its architecture names it. */
const char *snapshot_reg_str(enum snapshot_reg reg);

struct snapshot *snapshot_free(struct snapshot *s);

/* Numbers of devices and buffers by their names: -ENOENT. A buffer also by its key; NULL: the first. */
int snapshot_device(const struct snapshot *s, const char *name, uint32_t *ret);
int snapshot_buffer(const struct snapshot *s, const char *name, uint32_t *ret);

static inline void snapshot_freep(struct snapshot **s)
{
	snapshot_free(*s);
}

#endif
