/* SPDX-License-Identifier: MIT */
/* Size and removal of a directory tree of files and a few levels of directories. Links are not followed. */
#ifndef CSIGHT_DAEMON_DIRECTORY_TREE_H
#define CSIGHT_DAEMON_DIRECTORY_TREE_H

#include <stdint.h>

enum { DIRECTORY_TREE_BLOCK = 4096 /* bytes of a block of the file system, as they are counted here */ };

/*
 * Returns the bytes that a file of this size takes: whole blocks, and one block in part, so that empty files, which
 * have an inode and an entry, take room, too.
 */
uint64_t directory_tree_room(uint64_t size);

/* Sums what dir and the files and directories beneath it take. -ELOOP: too many levels. */
int directory_tree_size(int dir, uint64_t *ret);
int directory_tree_remove(int parent, const char *name);

/* Removes a regular file, whose blocks are free afterwards, even if a reader has it open, who finds it empty. */
int directory_tree_unlink(int dir, const char *name);

#endif
