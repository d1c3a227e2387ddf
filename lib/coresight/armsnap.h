/*
 * An Arm trace snapshot: a directory with snapshot.ini, which names an ini file of each device and trace.ini, which
 * names the trace buffers and what is in them. Cores have memory dumps, trace sources have registers.
 *
 * Everything in it is hostile. Nothing is opened here: a function of the caller gives the text of a file by its name.
 */
#ifndef CSIGHT_CORESIGHT_ARMSNAP_H
#define CSIGHT_CORESIGHT_ARMSNAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buf.h"

enum armsnap_reg {
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
	ARMSNAP_REGS,
};

struct armsnap_device {
	const char *name, *class, *type; /* "" where not told */
	bool formatted;                  /* "format = coresight": of a file that describes a bare buffer */
	uint32_t regs[ARMSNAP_REGS];
	uint32_t has; /* 1 << enum armsnap_reg */
};

/* Bytes of memory of a core (a device's number). */
struct armsnap_dump {
	uint32_t device;
	const char *file;
	uint64_t address, offset, length; /* length UINT64_MAX: to the end of the file */
	uint8_t spaces;                   /* enum engine_space's bits: where it stands */
};

struct armsnap_buffer {
	const char *key, *name, *file; /* key: its section, as trace.ini lists it */
	bool formatted;
};

/* Which source's trace is in a buffer, and of which core it is; names of devices. */
struct armsnap_link {
	const char *from, *to;
};

struct armsnap {
	struct armsnap_device *devices;
	size_t n_devices;
	struct armsnap_dump *dumps; /* in the order of the files */
	size_t n_dumps;
	struct armsnap_buffer *buffers;
	size_t n_buffers;
	struct armsnap_link *sources; /* a source, its buffer */
	size_t n_sources;
	struct armsnap_link *cores; /* a core, its source */
	size_t n_cores;
	struct buf texts; /* what all the names point to: char * */
};

struct armsnap_files {
	/* The whole text of a file, for the caller to free. A negative return is returned by the reader as it is. */
	int (*read)(void *user, const char *name, char **ret, size_t *ret_size);
	void *user;
};

struct armsnap_problem {
	char file[128]; /* cut where it is longer */
	unsigned line;  /* 0: not of a line */
	const char *cause;
};

/* -EBADMSG with *ret_problem; -ENOMEM; what files->read returned. */
int armsnap_read(const struct armsnap_files *files, struct armsnap **ret, struct armsnap_problem *ret_problem);

/* One device by itself: a file of registers, and of dumps, for a bare buffer. */
int armsnap_read_device(const struct armsnap_files *files, const char *name, struct armsnap **ret,
			struct armsnap_problem *ret_problem);

/* As its architecture names it. */
const char *armsnap_reg_str(enum armsnap_reg reg);

struct armsnap *armsnap_free(struct armsnap *s);

/* Numbers of devices and buffers by their names: -ENOENT. A buffer also by its key; NULL: the first. */
int armsnap_device(const struct armsnap *s, const char *name, uint32_t *ret);
int armsnap_buffer(const struct armsnap *s, const char *name, uint32_t *ret);

static inline void armsnap_freep(struct armsnap **s)
{
	armsnap_free(*s);
}

#endif
