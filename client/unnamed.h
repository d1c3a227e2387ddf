/* SPDX-License-Identifier: MIT */
/* Functions of a store that have no name, since the debug files of their programs or libraries were not found. */
#ifndef CSIGHT_CLIENT_UNNAMED_H
#define CSIGHT_CLIENT_UNNAMED_H

#include "client/client.h"
#include "lib/base/json.h"
#include "lib/store/store.h"

/*
 * If such debug files can be found by now, or servers of debug files are named, writes a copy of the store with the
 * names of the functions. Returns its descriptor, or -1: nothing has changed. name is for messages.
 */
int unnamed_rename(struct client *c, const char *name, int fd, const struct store *s);

/* Prints a line: how many functions, in which files, and what to do; nothing if all have names. */
void unnamed_print(FILE *to, const struct store *s);

/* Returns a new list of these files. */
json_object *unnamed_json(const struct store *s);

#endif
