/* SPDX-License-Identifier: MIT */
/*
 * Memory images: the bytes of code of processes over time. An image consists of mappings of files (file bytes at file
 * offsets; headers are not used) and of captured code. Files are read with pread on each request, so truncating a file
 * during use loses only the truncated bytes.
 *
 * Times are those of the trace. A later mapping covers an earlier one. Where no code is mapped at a time, the first
 * later mapping applies: a stream's clock lags behind by up to the interval of its timestamps.
 */
#ifndef CSIGHT_CODE_IMAGE_H
#define CSIGHT_CODE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/util.h"

enum { IMAGE_BUILD_ID_MAX = 32, IMAGE_FILES_MAX = 65536, IMAGE_MAPPINGS_MAX = 1 << 22 };

/* Instead of a file number: memory of no file; and memory with unknown bytes, which hides later mappings as well. */
#define IMAGE_NONE (UINT32_MAX - 1)
#define IMAGE_UNKNOWN (UINT32_MAX - 2)

struct image_file {
	const char *path;
	uint8_t build_id[IMAGE_BUILD_ID_MAX]; /* of the traced file; build_id_size 0: unknown */
	uint8_t build_id_size;
	uint64_t inode;     /* 0: unknown */
	int fd;             /* -1: no file is attached */
	const char *reason; /* why none is attached; NULL: not attempted yet */
};

struct image_set;

int image_set_new(struct image_set **ret);
struct image_set *image_set_free(struct image_set *s);

/*
 * Finds or adds a file and returns its number. Files are distinguished by path, build-id and inode: a file that was
 * replaced while it was traced gets a number of its own. -E2BIG: more than IMAGE_FILES_MAX; -ENOMEM.
 */
int image_file_add(struct image_set *s, const char *path, const void *build_id, size_t build_id_size, uint64_t inode,
		   uint32_t *ret);

size_t image_file_count(const struct image_set *s);

/* The result is valid until the next image_file_add(). */
const struct image_file *image_file(const struct image_set *s, uint32_t file);

/*
 * Attaches the open file fd, which s owns from then on; or, with fd -1, records why there is none. A file with another
 * build-id than the traced one, or with symbols but no code, is refused: fd is closed, the reason is recorded, and the
 * caller may attach another file.
 */
void image_file_attach(struct image_set *s, uint32_t file, int fd, const char *reason);

/* len bytes of a file, from offset on, mapped at addr from time on. */
struct image_mapping {
	uint64_t addr, len, offset, time;
	uint32_t file; /* or IMAGE_NONE, IMAGE_UNKNOWN */
};

int image_map(struct image_set *s, uint32_t pid, const struct image_mapping *mapping);

/*
 * Maps a kernel by the segments of its ELF file, relocated so that symbol is at address; a core file of a kernel is
 * mapped at its own addresses. Appends the mappings to ret, unless that is NULL. -ENOENT: no file is attached;
 * -ENODATA: not ELF, or without the symbol; as image_map().
 */
int image_map_elf(struct image_set *s, uint32_t pid, uint32_t file, const char *symbol, uint64_t address,
		  struct buf *ret);

/*
 * Adds the captured code (lib/code/captured-code.h) in fd to pid. fd stays the caller's and must stay open. -EBADMSG:
 * it is truncated or damaged; the pieces before the damage are added.
 */
int image_add_code(struct image_set *s, uint32_t pid, int fd);

/*
 * Adds pieces of a file that holds code which pid generated; their member file is ignored. fd stays the caller's and
 * must stay open. Called at most once for a pid.
 */
int image_add_generated(struct image_set *s, uint32_t pid, int fd, const struct image_mapping *pieces, size_t n);

/* Builds the index: call before look-ups that follow image_map() or image_add_code(). -ENOMEM. */
int image_seal(struct image_set *s);

/* The time is not known: only bytes that were the same at all times are. */
#define IMAGE_ANY_TIME (UINT64_MAX - 1)

/* Reads the bytes at addr of pid at time (UINT64_MAX: the latest). Returns how many bytes are known without a hole. */
size_t image_read(struct image_set *s, uint32_t pid, uint64_t addr, uint64_t time, void *ret, size_t size);

/* Finds the file and the offset in it that are mapped at addr; false: none. */
bool image_locate(struct image_set *s, uint32_t pid, uint64_t addr, uint64_t time, uint32_t *ret_file,
		  uint64_t *ret_offset);

/* Returns a number that differs between two times if any mapping of pid changed between them. */
uint64_t image_version(const struct image_set *s, uint32_t pid, uint64_t time);

/* Reads the build-id note of a hostile ELF file by its program headers. Returns its size; 0: none. */
size_t image_build_id(int fd, uint8_t ret[IMAGE_BUILD_ID_MAX]);

static inline void image_set_freep(struct image_set **s)
{
	image_set_free(*s);
}

#endif
