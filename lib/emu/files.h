/* SPDX-License-Identifier: MIT */
/*
 * The files mapped with code. They are kept open: csightd receives the descriptor of the file itself, and translated
 * code is compared with it. The plugin's lock protects all functions.
 */
#ifndef CSIGHT_EMU_FILES_H
#define CSIGHT_EMU_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/emu/shared.h"

struct mapped_file {
	struct mapped_file *next;
	char *path;
	uint32_t id; /* the id sent to the daemon; 0: the file could not be opened */
	struct descriptor descriptor;
	unsigned major, minor;
	uint64_t inode;
	uint8_t build_id_size, build_id[EMU_BUILD_ID_MAX];
};

/* A mapping of a file, from a line of /proc/self/maps; addresses are of this process, not of the guest. */
struct files_mapping {
	uint64_t start, end, offset, inode;
	unsigned major, minor;
	const char *path;
};

/* Finds the file of a mapping. A new file is opened and sent to the daemon. NULL: no memory. */
struct mapped_file *files_find(struct shared *s, const struct files_mapping *m);

/* Reads size bytes; returns false if not all could be read. */
bool files_read(struct mapped_file *f, void *ret, size_t size, uint64_t offset);

/* Sends all files to the daemon, after a new registration. */
void files_send(struct shared *s);

#endif
