/*
 * Memory images: which bytes of code stood where in a process, and when. Made of files by their mappings (file bytes at
 * plain offsets; no header is believed) and of pieces of captured code. Files are read by pread where code is asked
 * for, so one that is cut short while it is used costs its bytes and no more.
 *
 * Times are those of the trace; what came later covers what came earlier. Where there is no code at a time, the first
 * that came after it answers: a stream's own clock lags behind by up to a timestamp.
 */
#ifndef CSIGHT_CODE_IMAGE_H
#define CSIGHT_CODE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/util.h"

enum { IMAGE_BUILD_ID_MAX = 32, IMAGE_FILES_MAX = 65536, IMAGE_MAPPINGS_MAX = 1 << 22 };

/* In place of a file: memory of no file; and what was not to be known, for which nothing later answers. */
#define IMAGE_NONE (UINT32_MAX - 1)
#define IMAGE_UNKNOWN (UINT32_MAX - 2)

struct image_file {
	const char *path;
	uint8_t build_id[IMAGE_BUILD_ID_MAX]; /* of what was traced, where known */
	uint8_t build_id_size;
	uint64_t inode;     /* 0: not known */
	int fd;             /* -1: not there */
	const char *reason; /* why not, or NULL */
};

struct image_set;

int image_set_new(struct image_set **ret);
struct image_set *image_set_free(struct image_set *s);

/*
 * The number of the file of this path, build-id and inode, the same for the same: a file that was replaced while it was
 * traced is another one. -E2BIG: too many.
 */
int image_file_add(struct image_set *s, const char *path, const void *build_id, size_t build_id_size, uint64_t inode,
		   uint32_t *ret);
size_t image_file_count(const struct image_set *s);
const struct image_file *image_file(const struct image_set *s, uint32_t file);

/*
 * Takes fd, or -1 and a reason. A file whose own build-id is not the wanted one, or that has symbols alone and no code,
 * is refused: its descriptor is closed, the reason says so, and another one can be given.
 */
void image_file_attach(struct image_set *s, uint32_t file, int fd, const char *reason);

/* From time on, addr to addr + len of a process is mapped to a file, from offset on. */
struct image_mapping {
	uint64_t addr, len, offset, time;
	uint32_t file; /* or IMAGE_NONE, IMAGE_UNKNOWN */
};

int image_map(struct image_set *s, uint32_t pid, const struct image_mapping *mapping);

/*
 * Maps a kernel, or the memory of one, by its own segments: symbol of it stands at address. -ENOENT: the file is not
 * there; -ENODATA: it has no such symbol.
 */
int image_map_elf(struct image_set *s, uint32_t pid, uint32_t file, const char *symbol, uint64_t address);

/* Reads code/bytes (lib/code/captured-code.h) for pid; fd stays the caller's and must stay open. -EBADMSG where it is
 * cut or garbled, with all pieces before that kept. */
int image_add_code(struct image_set *s, uint32_t pid, int fd);

/* After the last image_map() and image_add_code(), before the first question. */
int image_seal(struct image_set *s);

/* Bytes at addr of pid as of time (UINT64_MAX: the last), in one piece; 0: no image. */
size_t image_read(struct image_set *s, uint32_t pid, uint64_t addr, uint64_t time, void *ret, size_t size);

/* Which file it is that stands there, and at which offset; false: none. */
bool image_locate(struct image_set *s, uint32_t pid, uint64_t addr, uint64_t time, uint32_t *ret_file,
		  uint64_t *ret_offset);

/* A number that changes at each time at which anything of pid's memory does. */
uint64_t image_version(const struct image_set *s, uint32_t pid, uint64_t time);

/* The build-id note of an ELF file, by its program headers: its size, 0 where there is none. Hostile files. */
size_t image_build_id(int fd, uint8_t ret[IMAGE_BUILD_ID_MAX]);

static inline void image_set_freep(struct image_set **s)
{
	image_set_free(*s);
}

#endif
