/* SPDX-License-Identifier: MIT */
/* What inlines.c (look-ups) and inline-entries.c (where calls begin) share. */
#ifndef CSIGHT_CODE_INLINES_PRIVATE_H
#define CSIGHT_CODE_INLINES_PRIVATE_H

#include <pthread.h>

#include "lib/code/dwarf.h"
#include "lib/code/inlines.h"

#define NODE_NONE UINT32_MAX

/* An interval of addresses of a unit or a node, by its number `of`. Where spans overlap, the deepest one applies. */
struct inline_span {
	uint64_t start, end;
	uint32_t of, depth;
};

struct spans {
	struct inline_span *items;
	size_t n;
};

/* A function, or an inlined instance of one. */
struct node {
	uint32_t parent; /* node that contains the instance; NODE_NONE: a function */
	bool has_entry;  /* entry is known */
	bool scattered;  /* it has several ranges of addresses */
	bool entered;    /* it is in the unit's entries */
	bool uncertain;  /* its entry is a guess */
	bool part;       /* the rest of the function around it, which the compiler had split off: not a call */
	const char *name;
	uint64_t origin; /* offset of the entry of the function that this is an instance of; 0: unknown */
	struct dwarf_unit *decl_unit;
	uint64_t decl_file, decl_line, decl_column, call_file, call_line;
	uint64_t start; /* of its first range */
	uint64_t entry; /* DW_AT_entry_pc */
};

/* When control reaches the address, a call of the node begins. */
struct inline_entry {
	uint64_t address;
	uint32_t node;
};

struct unit {
	bool read;
	struct spans flat;
	struct node *nodes; /* each after those around it */
	size_t n_nodes;
	struct inline_entry *entries; /* sorted by address, then node */
	size_t n_entries;
};

/* A segment of instructions. */
struct code_bytes {
	uint64_t address;
	struct reader bytes;
};

enum { CODE_SEGMENTS_MAX = 4 };

struct inlines {
	struct elf *elf, *debug_elf; /* not read after load_files(), when descriptors may be closed */
	struct dwarf dwarf;
	struct spans units;                        /* `of`: number of the unit */
	struct unit *read;                         /* for each unit of the DWARF */
	size_t n_spans;                            /* of all units */
	struct code_bytes code[CODE_SEGMENTS_MAX]; /* of A64; borrowed from the ELF handle */
	size_t n_code;
	pthread_mutex_t lock; /* look-ups parse units, and paths of files */
	bool deferred;        /* the DWARF is loaded by the first look-up */
	int error;            /* why that failed, with DWARF in an ELF file; 0: it did not */
	int fd, debug;        /* descriptors of the file and its debug file, open while deferred */
};

/* Returns the number of the first span that begins after address. */
size_t inlines_span_after(const struct spans *s, uint64_t address);

/* Returns the innermost node at an address, or NODE_NONE. */
uint32_t inlines_node_at(const struct unit *u, uint64_t address);

/* Returns the function that a node is in; a function and NODE_NONE are their own. */
uint32_t inlines_function_of(const struct unit *u, uint32_t node);

/* Reads the instruction at an address; false: it is not in the file, or no A64. */
bool inlines_instruction(const struct inlines *s, uint64_t address, uint32_t *ret);

/* Returns true if control may continue elsewhere after the instruction, other than by a call. */
bool inlines_ends_block(uint32_t op);

/*
 * inline-pieces.c: returns what a copy of an instruction has in common with it, other than the source place: of loads
 * and stores all but the registers, of calls the target. 0: an instruction of another kind, which copies may lack.
 */
uint64_t inline_pieces_key(uint32_t op, uint64_t at);

/*
 * inline-pieces.c: finds the entries of a unit without markers, sets `entered` of their nodes, and adds them to a
 * buffer of struct inline_entry.
 */
int inline_pieces_find(struct inlines *s, uint32_t number, struct buf *to);

/* inline-entries.c: finds the entries of a unit whose nodes and spans are known. -ENOMEM, or an error of dwarf_rows().
 */
int inline_entries_find(struct inlines *s, uint32_t number);

/*
 * Narrows an interval around address so that entries are only at its start. Returns how many are there; *ret_first is
 * the number of the first one.
 */
size_t inline_entries_at(const struct unit *u, uint64_t address, uint64_t *start, uint64_t *end, size_t *ret_first);

#endif
