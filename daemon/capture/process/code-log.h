/* SPDX-License-Identifier: MIT */
/*
 * Reads a private copy of a target's code log (lib/emu/ring.h): mappings, mapped files, and bytes that no file holds.
 * The log is untrusted: reading ends at the first invalid record; all records before it count.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_CODE_LOG_H
#define CSIGHT_DAEMON_CAPTURE_CODE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/emu/ring.h"

struct code_map {
	struct emu_record_map record;
	const char *path; /* within the log, or "//unknown" */
	uint32_t image;   /* UINT32_MAX: anonymous memory */
};

/* A mapped file. */
struct code_image {
	const char *path;
	uint32_t file; /* its identifier in the log; 0: the program sent no descriptor */
	uint32_t major, minor;
	uint64_t inode;
	uint8_t build_id_size, build_id[EMU_BUILD_ID_MAX];
};

struct code_name {
	uint64_t time_ns;
	uint32_t tid;
	char name[EMU_NAME_SIZE + 1];
};

struct code_log {
	struct code_map *maps;
	size_t n_maps, room_maps;
	struct code_image *images;
	size_t n_images, room_images;
	struct code_name *names;
	size_t n_names, room_names;
	uint64_t pieces, bytes; /* of recorded code */
	bool broken;            /* the log ended in an invalid record */
	bool crowded;           /* the log had more mappings, files or names than the limits */
};

int code_log_read(const uint8_t *log, size_t size, struct code_log *ret);
void code_log_done(struct code_log *l);

/* Removes the records that are later than a time. Returns the new size. */
size_t code_log_cut(uint8_t *log, size_t size, uint64_t time);

/* Writes the recorded bytes in the format of lib/code/captured-code.h. */
int code_log_write_bytes(const uint8_t *log, size_t size, int fd);

#endif
