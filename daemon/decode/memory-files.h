/* SPDX-License-Identifier: MIT */
/*
 * Files in memory for a job. The limit of a process's memory does not count them, so that a job gets a fixed number:
 * they are made before cage_lock(), which forbids others.
 */
#ifndef CSIGHT_DECODE_MEMORY_FILES_H
#define CSIGHT_DECODE_MEMORY_FILES_H

enum { MEMORY_FILES_TABLES = 8, MEMORY_FILES_TABLE_MAX = 64 << 20 };

/* Makes the files of this process. */
void memory_files_open(void);

/* Returns a file of at most MEMORY_FILES_TABLE_MAX bytes, which can be sealed, or -1; the caller owns it. */
int memory_files_table(void);

/* Returns the file for a store, of which there is one, or -1; the caller owns it. */
int memory_files_store(void);

#endif
