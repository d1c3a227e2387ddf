/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/reader.h"
#include "lib/base/util.h"
#include "lib/code/a64.h"
#include "lib/code/bytes.h"
#include "lib/code/elf.h"
#include "lib/code/ocaml-traps.h"
#include "lib/code/stack-use.h"
#include "lib/code/unwind.h"

enum {
	RECORD_MAX = 4096,   /* bytes of a record of .eh_frame */
	TABLE_MAX = 1 << 18, /* bytes of a function's table of call sites */
	FUNCTIONS_MAX = 1 << 20,
	CODE_MAX = 1 << 20, /* bytes of a function that are examined */
	BEFORE_BRANCH = 32, /* instructions before a branch among which it may set the stack pointer */
	BLOCK_MAX = 64,     /* instructions of a basic block */
	ANSWERS = 1024,
	ARM_ENTRY_SIZE = 8, /* bytes of an entry of .ARM.exidx */
};

/* LSB, "DWARF Exception Header Encoding". */
enum {
	PE_ABSOLUTE = 0,
	PE_ULEB = 1,
	PE_U2 = 2,
	PE_U4 = 3,
	PE_U8 = 4,
	PE_S2 = 10,
	PE_S4 = 11,
	PE_S8 = 12,
	PE_PCREL = 0x10,
	PE_OMIT = 0xff
};

/* A function, from its unwind record. */
struct function {
	uint64_t start, end;
	uint64_t table; /* address of its table of call sites; 0: none */
};

struct answer {
	uint64_t at, handler;
	int rc;
};

struct unwind {
	pthread_mutex_t lock; /* of all that follows: look-ups fill caches */
	struct elf *elf;
	struct bytes *bytes;
	bool a64;        /* the code is A64; other code is not examined */
	unsigned bits;   /* of an address */
	uint64_t entry;  /* where the program begins; UINT64_MAX: nowhere */
	uint64_t header; /* address of .eh_frame_hdr; 0: none */
	uint32_t records;
	uint64_t arm_index; /* address of .ARM.exidx; 0: none */
	uint32_t arm_entries;
	struct function *functions; /* without header: those with a table of call sites, sorted */
	size_t n_functions;
	bool indexed;                   /* functions is filled */
	struct answer answers[ANSWERS]; /* cache of unwind_handler(), by return address */
};

static size_t read_address(const struct unwind *u, uint64_t address, void *ret, size_t size)
{
	uint64_t offset, left;

	return elf_offset(u->elf, address, &offset, &left) == 0 ? bytes_read(u->bytes, offset, ret, size) : 0;
}

/* Reads .eh_frame_hdr in the form that linkers write: a sorted table of 32-bit distances from its own start. */
static void read_frame_header(struct unwind *u, uint64_t address)
{
	static const uint8_t usual[4] = { 1, PE_PCREL | PE_S4, PE_U4, 0x30 | PE_S4 };
	uint8_t head[12];
	struct reader r = reader_of(head + 8, 4);

	if (read_address(u, address, head, sizeof(head)) != sizeof(head) || memcmp(head, usual, 4) != 0)
		return;
	u->header = address;
	rd_u32(&r, &u->records);
}

static int unwind_read_headers(struct unwind *u, int fd)
{
	const struct elf_segment *table;
	uint64_t entry, left;
	uint16_t machine;
	int rc = elf_open(fd, &u->elf);

	if (rc == 0)
		rc = bytes_new(fd, &u->bytes);
	if (rc < 0)
		return rc;
	machine = elf_identity(u->elf)->machine;
	u->bits = elf_identity(u->elf)->bits;
	u->a64 = machine == ELF_MACHINE_AARCH64 && u->bits == 64;
	if (!u->a64 && (machine != ELF_MACHINE_ARM || u->bits != 32))
		return -EBADMSG;
	entry = elf_identity(u->elf)->entry;
	if (!entry || elf_offset(u->elf, entry, &u->entry, &left) < 0)
		u->entry = UINT64_MAX;
	table = elf_segment(u->elf, ELF_SEGMENT_UNWIND);
	if (table)
		read_frame_header(u, table->address);
	table = u->a64 ? NULL : elf_segment(u->elf, ELF_SEGMENT_ARM_UNWIND);
	if (table) {
		u->arm_index = table->address;
		u->arm_entries = (uint32_t)(table->size / ARM_ENTRY_SIZE);
	}
	return 0;
}

int unwind_open(int fd, struct unwind **ret)
{
	struct unwind *u = calloc(1, sizeof(*u));
	int rc;

	if (!u)
		return -ENOMEM;
	pthread_mutex_init(&u->lock, NULL);
	rc = unwind_read_headers(u, fd);
	if (rc < 0)
		unwind_free(u);
	else
		*ret = u;
	return rc;
}

struct unwind *unwind_free(struct unwind *u)
{
	if (!u)
		return NULL;
	bytes_free(u->bytes);
	elf_free(u->elf);
	free(u->functions);
	pthread_mutex_destroy(&u->lock);
	free(u);
	return NULL;
}

/* A reader of a copy of the bytes at an address. */
struct address_reader {
	struct reader r;
	uint64_t address;     /* of the first byte */
	const uint8_t *first; /* the first byte in the copy */
	bool narrow;          /* addresses have 32 bits */
};

static uint64_t reader_address(const struct address_reader *a)
{
	return a->address + (uint64_t)(a->r.at - a->first);
}

static struct address_reader address_reader_of(const struct unwind *u, uint64_t address, uint8_t *buffer, size_t size)
{
	size_t n = read_address(u, address, buffer, size);

	return (struct address_reader){ reader_of(buffer, n), address, buffer, u->bits == 32 };
}

static int read_encoded(struct address_reader *a, uint8_t encoding, uint64_t *ret)
{
	unsigned format = encoding & 0x0f;
	uint64_t here = reader_address(a), v = 0;
	uint32_t v32;
	uint16_t v16;
	int rc;

	if (format == PE_ABSOLUTE)
		format = a->narrow ? PE_U4 : PE_U8;
	switch (format) {
	case PE_ULEB:
		rc = rd_varint(&a->r, &v);
		break;
	case PE_U2:
	case PE_S2:
		rc = rd_u16(&a->r, &v16);
		v = rc < 0 ? 0 : (encoding & 8) ? (uint64_t)(int64_t)(int16_t)v16 : v16;
		break;
	case PE_U4:
	case PE_S4:
		rc = rd_u32(&a->r, &v32);
		v = rc < 0 ? 0 : (encoding & 8) ? (uint64_t)(int64_t)(int32_t)v32 : v32;
		break;
	case PE_U8:
	case PE_S8:
		rc = rd_u64(&a->r, &v);
		break;
	default:
		return -EBADMSG;
	}
	if (rc < 0 || (encoding & 0xf0 & ~PE_PCREL))
		return -EBADMSG;
	*ret = v && (encoding & PE_PCREL) ? here + v : v;
	if (a->narrow)
		*ret &= UINT32_MAX;
	return 0;
}

/* Finds the address of the record of the last function that starts at or before address. */
static bool find_record(const struct unwind *u, uint64_t address, uint64_t *ret)
{
	uint32_t low = 0, high = u->records, pair[2];

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (read_address(u, u->header + 12 + 8 * (uint64_t)middle, pair, sizeof(pair)) != sizeof(pair))
			return false;
		if (u->header + (uint64_t)(int64_t)(int32_t)pair[0] <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || read_address(u, u->header + 12 + 8 * (uint64_t)(low - 1), pair, sizeof(pair)) != sizeof(pair))
		return false;
	*ret = u->header + (uint64_t)(int64_t)(int32_t)pair[1];
	return true;
}

struct encodings {
	uint8_t code, table;
	bool sized;
};

static int skip_leb(struct address_reader *a)
{
	uint64_t v;

	return rd_leb(&a->r, false, &v);
}

/* Reads how a CIE's records encode their addresses (LSB, "The Common Information Entry Format"). */
static int read_cie(const struct unwind *u, uint64_t address, struct encodings *ret)
{
	uint8_t buffer[RECORD_MAX], version, encoding;
	struct address_reader a = address_reader_of(u, address, buffer, sizeof(buffer));
	uint64_t ignored;
	uint32_t length, id;
	const char *augmentation;

	*ret = (struct encodings){ .table = PE_OMIT };
	if (rd_u32(&a.r, &length) < 0 || length == UINT32_MAX || rd_u32(&a.r, &id) < 0 || id != 0 ||
	    rd_u8(&a.r, &version) < 0 || rd_str(&a.r, &augmentation) < 0 || skip_leb(&a) < 0 || skip_leb(&a) < 0)
		return -EBADMSG;
	if (version == 1 ? rd_skip(&a.r, 1) < 0 : skip_leb(&a) < 0)
		return -EBADMSG;
	if (*augmentation != 'z')
		return *augmentation ? -EBADMSG : 0;
	ret->sized = true;
	if (rd_varint(&a.r, &ignored) < 0)
		return -EBADMSG;
	while (*++augmentation) {
		if (*augmentation == 'S' || *augmentation == 'B')
			continue;
		if (rd_u8(&a.r, &encoding) < 0)
			return -EBADMSG;
		if (*augmentation == 'R')
			ret->code = encoding;
		else if (*augmentation == 'L')
			ret->table = encoding;
		else if (*augmentation != 'P' || read_encoded(&a, encoding & 0x1f, &ignored) < 0)
			return -EBADMSG;
	}
	return 0;
}

static int read_function(const struct unwind *u, uint64_t address, struct function *ret)
{
	uint8_t buffer[RECORD_MAX];
	struct address_reader a = address_reader_of(u, address, buffer, sizeof(buffer));
	struct encodings e;
	uint64_t size, ignored, here;
	uint32_t length, back;

	if (rd_u32(&a.r, &length) < 0 || length == UINT32_MAX)
		return -EBADMSG;
	here = reader_address(&a);
	if (rd_u32(&a.r, &back) < 0 || !back || read_cie(u, here - back, &e) < 0 ||
	    read_encoded(&a, e.code, &ret->start) < 0 || read_encoded(&a, e.code & 0x0f, &size) < 0)
		return -EBADMSG;
	ret->end = ret->start + size;
	ret->table = 0;
	if (e.sized && e.table != PE_OMIT &&
	    (rd_varint(&a.r, &ignored) < 0 || read_encoded(&a, e.table, &ret->table) < 0))
		return -EBADMSG;
	return 0;
}

static int compare_functions(const void *a, const void *b)
{
	const struct function *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

/* Static programs may have no .eh_frame_hdr: reads all records once and keeps those with a table of call sites. */
static void index_records(struct unwind *u)
{
	const struct elf_section *section;
	uint64_t at = 0;
	uint32_t head[2];
	size_t capacity = 0;

	u->indexed = true;
	if (elf_section_named(u->elf, ".eh_frame", &section) < 0 || section->size > UINT32_MAX)
		return;
	while (at + sizeof(head) < section->size && u->n_functions < FUNCTIONS_MAX &&
	       read_address(u, section->address + at, head, sizeof(head)) == sizeof(head) && head[0] &&
	       head[0] != UINT32_MAX) {
		struct function f;

		if (head[1] && read_function(u, section->address + at, &f) == 0 && f.table) {
			if (array_reserve(u->functions, u->n_functions, &capacity) < 0)
				return;
			u->functions[u->n_functions++] = f;
		}
		at += 4 + (uint64_t)head[0];
	}
	if (u->n_functions)
		qsort(u->functions, u->n_functions, sizeof(*u->functions), compare_functions);
}

/* Decodes an address stored at `at` as a signed 31-bit distance from `at` (EHABI32, prel31). */
static uint64_t relative_address(uint64_t at, uint32_t word)
{
	return (at + (uint64_t)(int64_t)((int32_t)(word << 1) >> 1)) & UINT32_MAX;
}

/* Returns the start of function i of .ARM.exidx; the last function ends at the end of the address space. */
static bool arm_start(const struct unwind *u, uint32_t i, uint64_t *ret)
{
	uint64_t at = u->arm_index + ARM_ENTRY_SIZE * (uint64_t)i;
	uint32_t word;

	*ret = (uint64_t)UINT32_MAX + 1;
	if (i < u->arm_entries && read_address(u, at, &word, sizeof(word)) != sizeof(word))
		return false;
	if (i < u->arm_entries)
		*ret = relative_address(at, word) & ~(uint64_t)1;
	return true;
}

/*
 * Returns the address of an entry's table of call sites, 0: none. The table follows the unwinding instructions if the
 * entry has a personality routine of its own, as those of g++ and rustc have (EHABI32, "The generic model").
 */
static uint64_t arm_table(const struct unwind *u, uint32_t i)
{
	enum { CANNOT_UNWIND = 1 };
	uint64_t at = u->arm_index + ARM_ENTRY_SIZE * (uint64_t)i + 4;
	const uint32_t compact = (uint32_t)1 << 31;
	uint32_t word, head[2];

	if (read_address(u, at, &word, sizeof(word)) != sizeof(word) || word == CANNOT_UNWIND || (word & compact))
		return 0;
	at = relative_address(at, word);
	if (read_address(u, at, head, sizeof(head)) != sizeof(head) || (head[0] & compact))
		return 0;
	return at + sizeof(head) + 4 * (uint64_t)(head[1] >> 24);
}

static bool find_arm_function(const struct unwind *u, uint64_t address, struct function *ret)
{
	uint32_t low = 0, high = u->arm_entries;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (!arm_start(u, middle, &ret->start))
			return false;
		if (ret->start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || !arm_start(u, low - 1, &ret->start) || !arm_start(u, low, &ret->end))
		return false;
	ret->table = arm_table(u, low - 1);
	return ret->table && address >= ret->start && address < ret->end;
}

/* Finds the function of an address, if it has a table of call sites. false: it has none, or is unknown. */
static bool find_function(struct unwind *u, uint64_t address, struct function *ret)
{
	size_t low = 0, high;
	uint64_t record;

	if (u->arm_index && find_arm_function(u, address, ret))
		return true;
	if (u->header)
		return find_record(u, address, &record) && read_function(u, record, ret) == 0 && ret->table &&
		       address >= ret->start && address < ret->end;
	if (!u->indexed)
		index_records(u);
	high = u->n_functions;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (u->functions[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || address >= u->functions[low - 1].end)
		return false;
	*ret = u->functions[low - 1];
	return true;
}

/*
 * Finds the landing pad of the call with this return address in the table of call sites (LSDA), in the format of g++,
 * gccgo and rustc; or the landing pad that is at the address itself.
 */
static int find_landing(const struct unwind *u, const struct function *f, uint64_t address, bool itself, uint64_t *ret)
{
	_cleanup_free_ uint8_t *buffer = malloc(TABLE_MAX);
	uint8_t encoding, sites;
	uint64_t base = f->start, size, start, length, landing;
	const uint8_t *end;
	struct address_reader a;

	if (!buffer)
		return -ENOMEM;
	a = address_reader_of(u, f->table, buffer, TABLE_MAX);
	if (rd_u8(&a.r, &encoding) < 0 || (encoding != PE_OMIT && read_encoded(&a, encoding, &base) < 0) ||
	    rd_u8(&a.r, &encoding) < 0 || (encoding != PE_OMIT && rd_varint(&a.r, &size) < 0) ||
	    rd_u8(&a.r, &sites) < 0 || rd_varint(&a.r, &size) < 0)
		return -EBADMSG;
	end = a.r.at + MIN(size, (uint64_t)rd_left(&a.r));
	while (a.r.at < end) {
		if (read_encoded(&a, sites & 0x0f, &start) < 0 || read_encoded(&a, sites & 0x0f, &length) < 0 ||
		    read_encoded(&a, sites & 0x0f, &landing) < 0 || skip_leb(&a) < 0)
			return -EBADMSG;
		if (itself && landing && base + landing == address)
			return 1;
		/* A return address belongs to the call before it, which may be the last instruction of a site. */
		if (!itself && address - 1 - f->start >= start && address - 1 - f->start - start < length) {
			*ret = base + landing;
			return landing != 0;
		}
	}
	return 0;
}

static const uint32_t *read_code(struct unwind *u, uint64_t start, uint64_t end, uint32_t **ret, size_t *ret_n)
{
	size_t size = end > start ? (size_t)MIN(end - start, (uint64_t)CODE_MAX) : 0;

	*ret = malloc(size + 4);
	*ret_n = *ret ? bytes_read(u->bytes, start, *ret, size) / 4 : 0;
	return *ret;
}

static int find_handler(struct unwind *u, uint64_t start, uint64_t end, uint64_t at, uint64_t *ret)
{
	_cleanup_free_ uint32_t *code = NULL;
	uint64_t address, landing, left;
	struct function f;
	size_t n;
	int rc;

	if (elf_address(u->elf, at, &address) < 0)
		return -ENOENT;
	if (find_function(u, address - 1, &f)) {
		rc = find_landing(u, &f, address, false, &landing);
		if (rc == 1 && elf_offset(u->elf, landing, ret, &left) < 0)
			return -ENOENT;
		return rc < 0 ? -ENOENT : rc;
	}
	if (!u->a64)
		return u->arm_index || u->header || u->n_functions ? 0 : -ENOENT;
	if (at < start || at > end || !read_code(u, start, end, &code, &n))
		return -ENOENT;
	rc = ocaml_traps_find(code, n, (size_t)(at - start) / 4, &n);
	if (rc == 1)
		*ret = start + 4 * (uint64_t)n;
	return rc == 0 && !u->header && !u->n_functions ? -ENOENT : rc;
}

static unsigned stack_use(struct unwind *u, uint64_t start, uint64_t end)
{
	_cleanup_free_ uint32_t *code = NULL;
	size_t n;

	return u->a64 && read_code(u, start, end, &code, &n) ? stack_use_flags(code, n) : 0;
}

static bool moves_stack(struct unwind *u, uint64_t start, uint64_t at)
{
	uint32_t code[BEFORE_BRANCH];
	uint64_t first = at - MIN(at - MIN(start, at), (uint64_t)sizeof(code));
	size_t n = bytes_read(u->bytes, first, code, (size_t)(at - first)) / 4;
	uint64_t target;
	bool link;

	for (size_t i = n; i-- > 0;) {
		enum a64_kind kind = a64_classify(code[i], 0, &link, &target);

		if (!link && (kind == A64_BRANCH || kind == A64_INDIRECT))
			return false;
		if (stack_use_sets_sp(code, i))
			return true;
	}
	return false;
}

static bool block_moves_stack(struct unwind *u, uint64_t at)
{
	uint32_t code[BLOCK_MAX];
	size_t n = bytes_read(u->bytes, at, code, sizeof(code)) / 4;
	uint64_t target;
	bool link;

	for (size_t i = 0; i < n; i++)
		if (a64_classify(code[i], 0, &link, &target) != A64_PLAIN)
			return (code[i] & 0xfffffc1f) == 0xd61f0000 && moves_stack(u, 0, at + 4 * (uint64_t)i);
	return false;
}

static bool block_loads_stack(struct unwind *u, uint64_t at)
{
	uint32_t code[BLOCK_MAX];
	size_t n = bytes_read(u->bytes, at, code, sizeof(code)) / 4;
	uint64_t target;
	bool link;

	for (size_t i = 0; i < n && a64_classify(code[i], 0, &link, &target) == A64_PLAIN; i++)
		if (stack_use_loads_sp(code, i))
			return true;
	return false;
}

static bool is_landing(struct unwind *u, uint64_t at)
{
	uint64_t address, landing;
	struct function f;

	return elf_address(u->elf, at, &address) == 0 && find_function(u, address, &f) &&
	       find_landing(u, &f, address, true, &landing) == 1;
}

int unwind_handler(struct unwind *u, uint64_t start, uint64_t end, uint64_t at, uint64_t *ret)
{
	struct answer *a = &u->answers[at >> 2 & (ANSWERS - 1)];
	int rc;

	pthread_mutex_lock(&u->lock);
	if (!at || a->at != at) {
		a->at = at;
		a->rc = find_handler(u, start, end, at, &a->handler);
	}
	rc = a->rc;
	if (rc == 1)
		*ret = a->handler;
	pthread_mutex_unlock(&u->lock);
	return rc;
}

unsigned unwind_stack_use(struct unwind *u, uint64_t start, uint64_t end)
{
	unsigned use;

	pthread_mutex_lock(&u->lock);
	use = stack_use(u, start, end);
	pthread_mutex_unlock(&u->lock);
	return use;
}

bool unwind_moves_stack(struct unwind *u, uint64_t start, uint64_t at)
{
	bool moves;

	pthread_mutex_lock(&u->lock);
	moves = u->a64 && moves_stack(u, start, at);
	pthread_mutex_unlock(&u->lock);
	return moves;
}

bool unwind_is_landing(struct unwind *u, uint64_t at)
{
	bool is;

	pthread_mutex_lock(&u->lock);
	is = is_landing(u, at);
	pthread_mutex_unlock(&u->lock);
	return is;
}

bool unwind_is_entry(const struct unwind *u, uint64_t at)
{
	return at == u->entry;
}

bool unwind_block_moves_stack(struct unwind *u, uint64_t at)
{
	bool moves;

	pthread_mutex_lock(&u->lock);
	moves = u->a64 && block_moves_stack(u, at);
	pthread_mutex_unlock(&u->lock);
	return moves;
}

bool unwind_block_loads_stack(struct unwind *u, uint64_t at)
{
	bool loads;

	pthread_mutex_lock(&u->lock);
	loads = u->a64 && block_loads_stack(u, at);
	pthread_mutex_unlock(&u->lock);
	return loads;
}
