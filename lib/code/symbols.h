/*
 * Which function an address belongs to. A struct symbols is the function table of one file, in file offsets, so that
 * one table serves all mappings of the file. A struct region_map has the mappings of one process over time; it maps
 * addresses to regions: a function, a PLT stub, or code without a name.
 *
 * Files are hostile: one that is truncated or inconsistent causes an error or fewer names, never a crash. Threads may
 * share a struct symbols once it is loaded, and nothing else here.
 */
#ifndef CSIGHT_CODE_SYMBOLS_H
#define CSIGHT_CODE_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/util.h"

struct inlines;
struct symbols;
struct unwind;

/*
 * Reads .symtab, else .dynsym and MiniDebugInfo (.gnu_debugdata), of a little-endian ELF file of 32 or 64 bits; and the
 * starts of functions without a symbol from .eh_frame_hdr or .ARM.exidx. fd stays the caller's. -ENODATA: no symbol
 * table; -EBADMSG: not such a file, or damaged; -EFBIG: over the limits; -ENOMEM, -EIO.
 */
int symbols_load(int fd, struct symbols **ret);

/* The same; for a file without .symtab, that of its debug file is read (lib/code/debug-file.h), -1 for none. */
int symbols_load_with(int fd, int debug, struct symbols **ret);

struct symbol {
	uint64_t start, end; /* file offsets; end 0: the start of the next function */
	const char *name;
};

/* Makes a table from a list in any order. Names are copied. */
int symbols_from_list(const struct symbol *list, size_t n, struct symbols **ret);

/* Makes a table from a perf map (/tmp/perf-PID.map); its offsets are addresses. Malformed lines are ignored. */
int symbols_load_perf_map(int fd, struct symbols **ret);
struct symbols *symbols_free(struct symbols *s);

/* A key of everything that symbols_load_with() reads: files of the same key have the same table. Errors as there. */
enum { SYMBOLS_KEY_SIZE = 33 };

int symbols_key(int fd, int debug, char ret[SYMBOLS_KEY_SIZE]);

/* Write and read a table as a file, in a format of this program alone. The file is hostile: -EBADMSG. */
int symbols_write(const struct symbols *s, int fd);
int symbols_read(int fd, struct symbols **ret);

size_t symbols_count(const struct symbols *s);

/* The interval around an offset that belongs to one function, or to none. */
struct symbols_at {
	uint64_t start, end;
	bool known;        /* a function; else the interval lies between functions */
	const char *name;  /* mangled; NULL: none */
	uint64_t function; /* start of the function, which may be in another of its pieces */
	uint64_t function_end;
	bool plt;
};

void symbols_find(const struct symbols *s, uint64_t offset, struct symbols_at *ret);

/* Finds a function by its name, mangled or demangled. -ENOENT; -ENOTUNIQ: several have it; -ENOMEM. */
int symbols_named(const struct symbols *s, const char *name, struct symbols_at *ret);

/* A readable form of a C++, Rust, D, OCaml or Go name, or a copy of any other; long ones are cut. NULL: no memory. The
 * caller frees. */
char *symbol_demangle(const char *name);

static inline void symbols_freep(struct symbols **s)
{
	symbols_free(*s);
}

enum region_kind {
	REGION_FUNCTION, /* [image+0xOFFSET] where it has no name */
	REGION_PLT,      /* a stub; named name@plt */
	REGION_UNNAMED,  /* code of an image between its functions: [image+0xOFFSET] */
	REGION_ANON,     /* code in memory of no file: [anon] or what the mapping is called */
	REGION_UNKNOWN,  /* nothing is known to be mapped there: [unknown] */
	REGION_INLINED,  /* a function where it was inlined, in others' code; it has no addresses */
};

/* Lives as long as its map. Two addresses are in the same function when their regions are the same pointer. */
struct region {
	uint32_t id; /* dense, in the order of first sight */
	enum region_kind kind;
	uint64_t start, end;  /* as it was mapped when first seen; the function's entry is start */
	const char *name;     /* demangled */
	const char *image;    /* the mapping's path, or "" */
	const char *build_id; /* of that file, in hexadecimal; "": not known */
	uint64_t offset;      /* of start in it; 0 where it is no file */
	uint8_t stack_use;    /* of its code, as lib/code/unwind.h has it; 0 where that is not known */
	const char *file;     /* where the function is declared: of the mapping's inlines; NULL: not known */
	uint32_t line;
};

/* A function that was inlined, at one place. Two addresses are in the same one when the pointers are the same. */
struct inlined {
	const struct region *function; /* REGION_INLINED, the same at all places */
	const struct inlined *around;  /* the one that it is inlined in; NULL: the region's own function */
	const char *call_file;         /* where it is called; NULL, 0: not known */
	uint32_t call_line;
	uint32_t depth; /* 1: in the region's own function */
};

struct region_map;

int region_map_new(struct region_map **ret);
struct region_map *region_map_free(struct region_map *m);

static inline void region_map_freep(struct region_map **m)
{
	region_map_free(*m);
}

struct region_mapping {
	uint64_t addr, len, offset;    /* as struct pd_map has them */
	uint64_t time;                 /* holds from here until another mapping covers it */
	const char *path;              /* copied; "" or "//anon": no file */
	const struct symbols *symbols; /* or NULL; borrowed, outlives the map */
	struct inlines *inlines;       /* likewise; asked by whoever finds regions */
	struct unwind *unwind;         /* of the same file, or NULL; borrowed, too */
	const char *build_id;          /* of the file, copied, in hexadecimal; NULL: not known */
};

/*
 * -E2BIG: more mappings than any process has. Regions that were handed out stay valid. The next look-up sorts them
 * all: give what is known before the first one.
 */
int region_map_add(struct region_map *m, const struct region_mapping *mapping);

/* Names by address for what is in no file; borrowed. Before the first look-up. */
void region_map_names(struct region_map *m, const struct symbols *by_address);

/* From now on what is inlined is told of, too. Before the first look-up. */
void region_map_inlined(struct region_map *m);

/* An answer, and the addresses and times that it holds for. */
struct region_hit {
	const struct region *region;
	const struct inlined *inlined; /* the innermost one; NULL: none, or not asked for */
	uint64_t start, end;           /* [start, end) */
	uint64_t from, until;          /* [from, until) */
};

static inline bool region_hit_holds(const struct region_hit *hit, uint64_t addr, uint64_t time)
{
	return addr >= hit->start && addr < hit->end && time >= hit->from && time < hit->until;
}

/* Answers of before, each where its address has it: a short way for who asks often. They last as long as the map. */
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
 * So many bytes for whoever asks the map to keep what follows from its answers: zeros at first, and when something is
 * added. NULL: no memory, or nothing inlined is told of.
 */
void *region_map_room(struct region_map *m, size_t size);

/* Sorts what was added, as the first look-up does. -ENOMEM, -E2BIG. */
int region_map_seal(struct region_map *m);

/*
 * The stretch around an address all of which is in one and the same region, and inlined function, at any one time; as
 * large as is easily told. May be asked from any thread, while the map is sealed.
 */
void region_map_stretch(const struct region_map *m, uint64_t addr, uint64_t *ret_start, uint64_t *ret_end);

/* lib/code/unwind.h, of a region that a map gave; addresses are those of memory. False and -ENOENT: nothing is known.
 */
bool region_moves_stack(const struct region *region, uint64_t branch);
int region_handler(const struct region *region, uint64_t return_address, uint64_t *ret);

/* Always answers, with REGION_UNKNOWN where nothing is mapped; -ENOMEM or -E2BIG only. */
int region_map_find(struct region_map *m, uint64_t addr, uint64_t time, struct region_hit *ret);

#endif
