/* SPDX-License-Identifier: MIT */
/* The options of a decode that every verb that reads stores accepts, for inputs that must be decoded first. */
#ifndef CSIGHT_CLIENT_TRACE_OPTIONS_H
#define CSIGHT_CLIENT_TRACE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/local/finder.h"

enum { TRACE_OPTIONS_DIRS_MAX = FINDER_DIRS_MAX };

struct trace_options {
	const char *dirs[TRACE_OPTIONS_DIRS_MAX]; /* --images */
	size_t n_dirs;
	const char *buffer, *regs; /* NULL: not given */
};

static inline bool trace_options_given(const struct trace_options *o)
{
	return o->n_dirs || o->buffer || o->regs;
}

#define TRACE_OPTIONS_IMAGES_HELP "search DIR for the traced programs and libraries; repeatable"
#define TRACE_OPTIONS_BUFFER_HELP "trace buffer of an Arm snapshot (default the first)"
#define TRACE_OPTIONS_REGS_HELP "the input is bare trace; FILE describes its trace source"

#endif
