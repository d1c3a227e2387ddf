/* SPDX-License-Identifier: MIT */
/*
 * Reads an Arm snapshot: a directory with snapshot.ini, which names an ini file for each device, and trace.ini, which
 * names the trace buffers and their trace sources. Cores have memory dumps, trace sources have registers.
 *
 * The contents may be hostile. The reader opens no files: a function of the caller returns the text of a file by name.
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
	const char *name, *class, *type; /* "" if absent */
	bool formatted;                  /* "format = coresight", in a device file for a bare buffer */
	uint32_t regs[ARMSNAP_REGS];
	uint32_t has; /* 1 << enum armsnap_reg */
};

/* Contents of a core's memory. device is the index of the core. */
struct armsnap_dump {
	uint32_t device;
	const char *file;
	uint64_t address, offset, length; /* length UINT64_MAX: to the end of the file */
	uint8_t spaces;                   /* bits of enum engine_space: the memory spaces */
};

struct armsnap_buffer {
	const char *key, *name, *file; /* key: the name of its section in trace.ini */
	bool formatted;
};

/* A relation between a core, a trace source and a buffer, by their names. */
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
	struct armsnap_link *sources; /* from a trace source to its buffer */
	size_t n_sources;
	struct armsnap_link *cores; /* from a core to its trace source */
	size_t n_cores;
	struct buf texts; /* char *: owns all names */
};

struct armsnap_files {
	/* Returns the whole text of a file, which the reader frees. The reader returns a negative return unchanged. */
	int (*read)(void *user, const char *name, char **ret, size_t *ret_size);
	void *user;
};

struct armsnap_problem {
	char file[128]; /* cut if longer */
	unsigned line;  /* 0: concerns the whole file */
	const char *cause;
};

/* Reads a whole snapshot. -EBADMSG, with *ret_problem set; -ENOMEM; or the error of files->read. */
int armsnap_read(const struct armsnap_files *files, struct armsnap **ret, struct armsnap_problem *ret_problem);

/* Reads one device file, with registers and dumps, that describes a bare buffer. Errors as armsnap_read(). */
int armsnap_read_device(const struct armsnap_files *files, const char *name, struct armsnap **ret,
			struct armsnap_problem *ret_problem);

/* The architectural name of a register. */
const char *armsnap_reg_str(enum armsnap_reg reg);

struct armsnap *armsnap_free(struct armsnap *s);

/* Find the index of a device by name, and of a buffer by name or key; NULL finds the first buffer. -ENOENT. */
int armsnap_device(const struct armsnap *s, const char *name, uint32_t *ret);
int armsnap_buffer(const struct armsnap *s, const char *name, uint32_t *ret);

static inline void armsnap_freep(struct armsnap **s)
{
	armsnap_free(*s);
}

#endif
