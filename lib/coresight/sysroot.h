/*
 * Small files of the kernel's beneath a root directory: "/" for this machine, or a tree that was made to look like one.
 * Links are followed as if the root were "/", so none leads out of it, and each read is bounded. What a tree holds is
 * hostile; the tree is taken to stand still while it is read. Paths are relative to the root; a leading '/' is skipped.
 */
#ifndef CSIGHT_CORESIGHT_SYSROOT_H
#define CSIGHT_CORESIGHT_SYSROOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SYSROOT_PATH_MAX = 1024, SYSROOT_TEXT_MAX = 4097, SYSROOT_NAMES_MAX = 65536 };

int sysroot_open(const char *root, int *ret_fd);

/* Where path leads to, without any link; "." for the root. -ELOOP: links without end; -ENAMETOOLONG. */
int sysroot_resolve(int root, const char *path, char ret[static SYSROOT_PATH_MAX]);

static inline bool sysroot_has(int root, const char *path)
{
	char at[SYSROOT_PATH_MAX];

	return sysroot_resolve(root, path, at) == 0;
}

/* A regular file for armsnap_reading, however large; the caller closes. -EINVAL: it is none. */
int sysroot_file(int root, const char *path, int *ret_fd);

/* A whole file of less than size bytes, with a NUL behind it; a newline at its end is left out. -EFBIG; -EBADMSG: NULs.
 */
int sysroot_text(int root, const char *path, char *ret, size_t size);

/* A file that holds one number, decimal or 0x…: -EBADMSG where it is not just that. */
int sysroot_number(int root, const char *path, uint64_t *ret);

/* The names in a directory, in the order of versions (cpu2, cpu10). -EFBIG: too many. */
struct sysroot_names {
	char **list;
	size_t n;
};

int sysroot_list(int root, const char *path, struct sysroot_names *ret);
void sysroot_names_done(struct sysroot_names *names);
#define _cleanup_names_ _cleanup_(sysroot_names_done)

#endif
