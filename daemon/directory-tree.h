/* SPDX-License-Identifier: MIT */
/* Size and removal of a directory tree of files and a few levels of directories. Links are not followed. */
#ifndef CSIGHT_DAEMON_DIRECTORY_TREE_H
#define CSIGHT_DAEMON_DIRECTORY_TREE_H

#include <stdint.h>

/* Sums the sizes of the files beneath dir. -ELOOP: too many levels. */
int directory_tree_size(int dir, uint64_t *ret);
int directory_tree_remove(int parent, const char *name);

/* Removes a regular file, whose blocks are free afterwards, even if a reader has it open, who finds it empty. */
int directory_tree_unlink(int dir, const char *name);

#endif
