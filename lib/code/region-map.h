/* SPDX-License-Identifier: MIT */
/*
 * The function at an address of a process. A struct region_map holds the mappings of one process over time. It maps an
 * address and a time to a region (a function, a PLT stub, or code without a name) and, on request, to the functions
 * that are inlined there.
 *
 * Except where noted, one thread at a time may use a map.
 */
#ifndef CSIGHT_CODE_REGION_MAP_H
#define CSIGHT_CODE_REGION_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/util.h"

struct inlines;
struct symbols;
struct unwind;

enum region_kind {
	REGION_FUNCTION, /* named [image+0xOFFSET] if no symbol names it */
	REGION_PLT,      /* a PLT stub, named name@plt */
	REGION_UNNAMED,  /* code of an image between its functions, named [image+0xOFFSET] */
	REGION_ANON,     /* code in memory, named [anon] or after the mapping */
	REGION_UNKNOWN,  /* no known mapping, named [unknown] */
	/* These have no addresses: */
	REGION_INLINED,   /* a function that is inlined in others */
	REGION_SYSCALL,   /* a system call, named after it */
	REGION_WAITING,   /* the thread waits in the kernel */
	REGION_PREEMPTED, /* the thread could run, and waits for a CPU */
};

/* Owned by the map. Two addresses are in the same function if and only if their regions are the same pointer. */
struct region {
	uint32_t id; /* dense, in order of the first look-up */
	enum region_kind kind;
	uint64_t start, end;  /* in memory, at the first look-up; start is the function's entry */
	const char *name;     /* demangled */
	const char *image;    /* path of the mapping, or "" */
	const char *build_id; /* of the file, in hexadecimal; "": unknown */
	uint64_t offset;      /* of start in the file; 0 without a file */
	uint8_t stack_use;    /* flags of lib/code/unwind.h; 0: none, or unknown */
	const char *file;     /* source file of the declaration, from DWARF; NULL: unknown */
	uint32_t line;
};

/*
 * One inlined instance of a function. Two addresses are in the same instance if and only if the pointers are the same.
 * Owned by the map.
 */
struct inlined {
	const struct region *function; /* REGION_INLINED, shared by all instances of the function */
	const struct inlined *parent;  /* the instance that contains this one; NULL: the region's own function */
	const char *call_file;         /* source file and line of the call; NULL, 0: unknown */
	uint32_t call_line;
	uint32_t depth; /* 1: directly in the region's own function */
	bool uncertain; /* where a call of this instance begins is a guess */
};

struct region_map;

int region_map_new(struct region_map **ret);
struct region_map *region_map_free(struct region_map *m);

static inline void region_map_freep(struct region_map **m)
{
	region_map_free(*m);
}

/* The map copies the strings, and borrows the tables, which must outlive it. */
struct region_mapping {
	uint64_t addr, len, offset; /* as in struct pd_map */
	uint64_t time;              /* the mapping is valid from then on, until another one covers it */
	const char *path; /* "" or "//anon": no file; the kernel's name of other memory: "/memfd:x", "[heap]" */
	const struct symbols *symbols; /* of the file; NULL: none */
	struct inlines *inlines;       /* NULL: none */
	struct unwind *unwind;         /* NULL: none */
	const char *build_id;          /* in hexadecimal; NULL: unknown */
};

/*
 * Adds a mapping. Regions already returned stay valid. The next look-up sorts all mappings again, so add all known ones
 * before the first look-up. -ENOMEM; -E2BIG: too many.
 */
int region_map_add(struct region_map *m, const struct region_mapping *mapping);

/*
 * Sets tables of names by address for code in memory: that of a perf map, and one for code that it does not name.
 * Borrowed; NULL: none. Call before any look-up.
 */
void region_map_set_names(struct region_map *m, const struct symbols *perf_map, const struct symbols *others);

/* Makes look-ups return inlined functions, too. Call before any look-up. */
void region_map_enable_inlined(struct region_map *m);

/* The result of a look-up, and the interval of addresses and of times in which it is valid. */
struct region_hit {
	const struct region *region;
	const struct inlined *inlined; /* innermost instance; NULL: none, or inlined functions are not enabled */
	/* instances of which a call begins when control reaches start, outer ones first, then NULL; NULL: none */
	const struct inlined *const *entered;
	uint64_t start, end;  /* [start, end) */
	uint64_t from, until; /* [from, until) */
};

/* Looks up addr at time: REGION_UNKNOWN where no mapping is known. -ENOMEM; -E2BIG: mappings overlap too much. */
int region_map_find(struct region_map *m, uint64_t addr, uint64_t time, struct region_hit *ret);

/* Finds the source file, which lives as long as the mapping's table, and line of an instruction. After a look-up. */
bool region_map_line(const struct region_map *m, uint64_t addr, uint64_t time, const char **ret_file,
		     uint32_t *ret_line);

static inline bool region_hit_holds(const struct region_hit *hit, uint64_t addr, uint64_t time)
{
	return addr >= hit->start && addr < hit->end && time >= hit->from && time < hit->until;
}

/* The map's cache of recent results, by address, so that a hot loop can look up without a call. Lives as long as m. */
enum { REGION_RECENT = 1 << 15 };

const struct region_hit *region_map_recent(const struct region_map *m);

static inline bool region_recall(const struct region_hit *recent, uint64_t addr, uint64_t time, struct region_hit *ret)
{
	const struct region_hit *hit = &recent[addr >> 2 & (REGION_RECENT - 1)];

	if (!region_hit_holds(hit, addr, time))
		return false;
	*ret = *hit;
	return true;
}

/*
 * Allocates a cache of size bytes for what the caller derives from results; later calls return the same memory. The map
 * owns it, and zeroes it whenever a mapping is added. NULL: no memory, or inlined functions are not enabled.
 */
void *region_map_cache(struct region_map *m, size_t size);

/* Sorts the mappings, as the first look-up does. -ENOMEM, -E2BIG. */
int region_map_seal(struct region_map *m);

/*
 * Returns an interval around addr whose addresses are all in the same region and inlined instance at any one time. The
 * interval may be smaller than possible. Any thread may call this while the map is sealed.
 */
void region_map_extent(const struct region_map *m, uint64_t addr, uint64_t *ret_start, uint64_t *ret_end);

/*
 * As unwind_moves_stack(), unwind_block_loads_stack(), unwind_handler(), unwind_is_landing() and unwind_is_entry()
 * (lib/code/unwind.h), for a region and by addresses in memory. Without unwind information they return false and
 * -ENOENT.
 */
bool region_moves_stack(const struct region *region, uint64_t branch);
bool region_loads_stack(const struct region *region, uint64_t addr);
int region_handler(const struct region *region, uint64_t return_address, uint64_t *ret);
bool region_is_landing(const struct region *region, uint64_t addr);
bool region_is_entry(const struct region *region, uint64_t addr);

#endif
