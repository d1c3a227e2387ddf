/* SPDX-License-Identifier: MIT */
/* Finds a function in the files that a running program has mapped. */
#ifndef CSIGHT_CLIENT_LIVE_FUNCTION_H
#define CSIGHT_CLIENT_LIVE_FUNCTION_H

#include <sys/types.h>

#include "client/function-lookup.h"
#include "lib/base/json.h"
#include "lib/base/reason.h"
#include "lib/code/function-ends.h"

/*
 * Finds the function that a name or pattern matches: in the program itself, else in its libraries. Returns 0 with its
 * places, an array of type Place of org.csight that the caller frees; or an exit status, after an error, which lists
 * the functions if several match. ret_why: why the function's ends are unknown, if they are; the places lack them then.
 */
int live_function_find(pid_t pid, const char *exe, const char *pattern, json_object **ret, struct reason *ret_why);

/* Finds where a function of the ELF file fd returns: function_ends_find(), from `start` on. */
int live_function_ends(int fd, uint64_t start, uint64_t end, struct function_ends *ret, struct reason *why);

/* The same for the code of a source line, FILE:N. */
int live_function_line(pid_t pid, const char *exe, const char *line, json_object **ret);

#endif
