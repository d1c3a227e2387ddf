/*
 * Which code a target ran, from a private copy of its log (lib/emu/ring.h): mappings, the files behind them, bytes that
 * no file gives back. The log is hostile: a broken record ends the reading of it, and what came before counts.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_CODE_LOG_H
#define CSIGHT_DAEMON_CAPTURE_CODE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/emu/ring.h"

struct code_map {
	struct emu_record_map record;
	const char *path; /* within the log */
	uint32_t image;   /* UINT32_MAX: anonymous memory */
};

/* A file that was mapped. */
struct code_image {
	const char *path;
	uint32_t file; /* its id in the log; 0: none was sent */
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
	uint64_t pieces, bytes; /* of code that was recorded */
	bool broken;            /* it ended in a record that makes no sense */
	bool crowded;           /* it had more mappings, files or names than are kept */
};

int code_log_read(const uint8_t *log, size_t size, struct code_log *ret);
void code_log_done(struct code_log *l);

/* Writes the recorded bytes as lib/code/blob.h has them. */
int code_log_write_bytes(const uint8_t *log, size_t size, int fd);

#endif
