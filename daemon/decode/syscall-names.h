/* SPDX-License-Identifier: MIT */
/*
 * The numbers of system calls on hardware, whose trace does not have them: from the constants in the executed code.
 * Found numbers are kept, by process and address.
 */
#ifndef CSIGHT_DECODE_SYSCALL_NAMES_H
#define CSIGHT_DECODE_SYSCALL_NAMES_H

#include "daemon/decode/input.h"
#include "lib/base/hash.h"
#include "lib/code/region-map.h"

struct syscall_names {
	struct input *input;
	struct hash numbers;
};

/* The place of a system call in the code. */
struct syscall_place {
	const struct stream *stream;
	const struct engine_context *context;
	struct region_map *regions;
	uint64_t time;    /* of the region map */
	uint64_t address; /* of the SVC */
};

/* Returns the number, or -1. */
int64_t syscall_names_find(struct syscall_names *s, const struct syscall_place *p);

static inline void syscall_names_done(struct syscall_names *s)
{
	hash_done(&s->numbers);
}

#endif
