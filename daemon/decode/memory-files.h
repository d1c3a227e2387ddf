/* SPDX-License-Identifier: MIT */
/*
 * Files in memory for a job. The limit of a process's memory does not count them: a job gets a fixed number, which are
 * made before cage_lock(), since the cage forbids further ones.
 */
#ifndef CSIGHT_DECODE_MEMORY_FILES_H
#define CSIGHT_DECODE_MEMORY_FILES_H

enum { MEMORY_FILES_TABLES = 8, MEMORY_FILES_TABLE_MAX = 64 << 20 };

/* Makes all files; each call of the functions below takes one. */
void memory_files_open(void);

/*
 * Takes a file for a symbol table of at most MEMORY_FILES_TABLE_MAX bytes, which can be sealed. Returns a descriptor
 * that the caller owns, or -1: none is left.
 */
int memory_files_take_table(void);

/* Takes the file for a store, of which there is one. Returns a descriptor that the caller owns, or -1. */
int memory_files_take_store(void);

#endif
