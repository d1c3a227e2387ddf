/*
 * The files that are mapped with code, open: csightd gets the very file, and translated bytes are compared with it.
 * Called under the plugin's lock.
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
	uint32_t id; /* as it was sent; 0: it could not be opened */
	int fd;
	unsigned major, minor;
	uint64_t inode;
	uint8_t build_id_size, build_id[EMU_BUILD_ID_MAX];
};

/* A mapping of a file, as a line of /proc/self/maps has it; addresses are this process's. */
struct files_mapping {
	uint64_t start, end, offset, inode;
	unsigned major, minor;
	const char *path;
};

/* A file that is new is opened and handed over. NULL: no memory. */
struct mapped_file *files_find(struct shared *s, const struct files_mapping *m);

/* All of it, or false. */
bool files_read(const struct mapped_file *f, void *ret, size_t size, uint64_t offset);

/* Hands all of them to a daemon that has none yet. */
void files_send(struct shared *s);

#endif
