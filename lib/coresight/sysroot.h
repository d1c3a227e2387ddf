/* SPDX-License-Identifier: MIT */
/*
 * Reads small files of sysfs and procfs beneath a root directory: "/" for this machine, or a copy of another machine's.
 * Links are resolved as if the root were "/", so that none leads out of it, and each read is bounded. The contents of a
 * tree may be hostile, but the tree must not change during a read. Paths are relative to the root; a leading '/' is
 * ignored.
 */
#ifndef CSIGHT_CORESIGHT_SYSROOT_H
#define CSIGHT_CORESIGHT_SYSROOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SYSROOT_PATH_MAX = 1024, SYSROOT_TEXT_MAX = 4097, SYSROOT_NAMES_MAX = 65536 };

int sysroot_open(const char *root, int *ret_fd);

/* Resolves all links in path; the root is ".". -ENOENT; -ELOOP: too many links; -ENAMETOOLONG. */
int sysroot_resolve(int root, const char *path, char ret[static SYSROOT_PATH_MAX]);

static inline bool sysroot_has(int root, const char *path)
{
	char at[SYSROOT_PATH_MAX];

	return sysroot_resolve(root, path, at) == 0;
}

/* Opens a regular file of any size for reading; the caller closes it. -EINVAL: not a regular file. */
int sysroot_file(int root, const char *path, int *ret_fd);

/*
 * Reads a whole file of less than size bytes as a NUL-terminated text, without the newline at its end. -EFBIG;
 * -EBADMSG: it contains NULs.
 */
int sysroot_text(int root, const char *path, char *ret, size_t size);

/* Reads a file that holds one number, decimal or 0x…. -EBADMSG: it holds anything else. */
int sysroot_number(int root, const char *path, uint64_t *ret);

/* The names in a directory, sorted with numbers by value (cpu2 before cpu10). */
struct sysroot_names {
	char **list;
	size_t n;
};

/* -EFBIG: more than SYSROOT_NAMES_MAX. The caller releases the names with sysroot_names_free(). */
int sysroot_list(int root, const char *path, struct sysroot_names *ret);
void sysroot_names_free(struct sysroot_names *names);
#define _cleanup_names_ _cleanup_(sysroot_names_free)

#endif
