/* A snapshot's directory as a whole: plain files, and directories a few levels deep. Links are not followed. */
#ifndef CSIGHT_DAEMON_DIRECTORY_TREE_H
#define CSIGHT_DAEMON_DIRECTORY_TREE_H

#include <stdint.h>

int directory_tree_size(int dir, uint64_t *ret);
int directory_tree_remove(int parent, const char *name);

#endif
