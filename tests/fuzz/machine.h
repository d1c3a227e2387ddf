/* SPDX-License-Identifier: MIT */
/* The sysfs of a small machine with trace units, for harnesses: files and links beneath a root directory. */
#ifndef CSIGHT_TESTS_FUZZ_MACHINE_H
#define CSIGHT_TESTS_FUZZ_MACHINE_H

#include <stddef.h>

enum { MACHINE_ENTRIES = 37 };

struct machine_entry {
	const char *path, *text, *link; /* text or link */
};

extern const struct machine_entry machine_entries[MACHINE_ENTRIES];

/* Writes a new file, which is not there yet. */
void machine_write(int root, const char *path, const void *data, size_t size);

/* Makes entry i, which is not there yet; its directory is. */
void machine_put(int root, size_t i);

/* Makes all entries, with their directories. */
void machine_make(int root);

#endif
