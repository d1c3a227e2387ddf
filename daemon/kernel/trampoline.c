/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/kernel/trampoline.h"
#include "lib/base/util.h"

enum {
	PAGE = 4096,
	LEAVING_MAX = 8 << 10,  /* bytes of ret_to_user */
	EXIT_WORDS = 24,        /* of the exit, at most */
	BEHIND_MAX = 128 << 20, /* bytes behind the kernel's code that are searched */
	CHUNK = 1 << 20,
	ENTRY = 0x400,    /* of a table of vectors: where programs enter */
	TABLES_PAGES = 4, /* pages of vectors before the exit, at most */
};

enum { MSR_TTBR1 = 0xd5182020, ERET = 0xd69f03e0, MSR_TPIDRRO_X30 = 0xd51bd07e };

/* Registers whose value is known: it was computed from constants alone. */
struct registers {
	uint64_t value[32];
	uint32_t known;
};

static void set(struct registers *r, unsigned to, uint64_t value)
{
	r->value[to] = value;
	r->known |= 1u << to;
}

static bool is_known(const struct registers *r, unsigned from)
{
	return r->known >> from & 1;
}

static uint64_t page_of(uint32_t op, uint64_t address)
{
	uint64_t pages = (op >> 5 & 0x7ffff) << 2 | (op >> 29 & 3);

	return (address & ~(uint64_t)(PAGE - 1)) + (pages ^ 1u << 20) * PAGE - ((uint64_t)PAGE << 20);
}

/* True for a branch: control may reach the instruction after it from elsewhere, or with other values in registers. */
static bool is_branch(uint32_t op)
{
	return (op & 0x1c000000) == 0x14000000 && op >> 24 != 0xd5;
}

/*
 * Forgets the registers that an instruction which execute() does not follow may write: of a load or store, the two data
 * registers and the base; of a branch, all; of others, the destination.
 */
static void forget(struct registers *r, uint32_t op)
{
	r->known &= ~(1u << (op & 31));
	if ((op & 0x0a000000) == 0x08000000)
		r->known &= ~(1u << (op >> 10 & 31) | 1u << (op >> 5 & 31));
	/* The status of an exclusive store; the one or two registers that a compare and swap compares. */
	if ((op & 0x3f000000) == 0x08000000)
		r->known &= ~(3u << (op >> 16 & 31));
	if (is_branch(op))
		r->known = 0;
}

/* Follows movn, movz, movk, adrp, add and sub. */
static void execute(struct registers *r, uint32_t op, uint64_t address)
{
	unsigned to = op & 31, from = op >> 5 & 31, other = op >> 16 & 31, shift = (op >> 21 & 3) * 16;
	uint64_t constant = (uint64_t)(op >> 5 & 0xffff) << shift, immediate = op >> 10 & 0xfff;

	if ((op & 0xff800000) == 0xd2800000)
		set(r, to, constant);
	else if ((op & 0xff800000) == 0x92800000)
		set(r, to, ~constant);
	else if ((op & 0xff800000) == 0xf2800000 && is_known(r, to))
		set(r, to, (r->value[to] & ~(0xffffull << shift)) | constant);
	else if ((op & 0x9f000000) == 0x90000000)
		set(r, to, page_of(op, address));
	else if ((op & 0xff800000) == 0x91000000 && is_known(r, from))
		set(r, to, r->value[from] + (immediate << (op >> 22 & 1 ? 12 : 0)));
	else if ((op & 0xffe0fc00) == 0x8b000000 && is_known(r, from) && is_known(r, other))
		set(r, to, r->value[from] + r->value[other]);
	else if ((op & 0xffe0fc00) == 0xcb000000 && is_known(r, from) && is_known(r, other))
		set(r, to, r->value[from] - r->value[other]);
	else
		forget(r, op);
}

/* Returns where a function jumps to outside the kernel's own code, by constants; 0: nowhere. */
static uint64_t find_jump(const struct kallsyms *k, const uint32_t *code, size_t n, uint64_t address)
{
	struct registers r = { .known = 0 };

	for (size_t i = 0; i < n; i++) {
		unsigned by = code[i] >> 5 & 31;

		if ((code[i] & 0xfffffc1f) == 0xd61f0000 && is_known(&r, by) &&
		    (r.value[by] < k->start || r.value[by] >= k->end))
			return r.value[by];
		execute(&r, code[i], address + i * 4);
	}
	return 0;
}

static uint64_t find_runs_at(const struct kallsyms *k, trampoline_read_fn *read, void *data)
{
	uint32_t code[LEAVING_MAX / 4];

	for (size_t i = 0; i < k->n; i++) {
		const struct kallsyms_symbol *s = &k->symbols[i];
		size_t size = s->next > s->address ? MIN(s->next - s->address, sizeof(code)) : 0;

		if (!*s->owner && s->code && strcmp(s->name, "ret_to_user") == 0)
			return find_jump(k, code, read(data, s->address, code, size) / 4, s->address);
	}
	return 0;
}

/* The exit changes to the program's page table, and returns to the program soon after. */
static bool is_exit(const uint32_t *code, size_t n)
{
	bool changed = false;

	for (size_t i = 0; i < MIN(n, (size_t)EXIT_WORDS); i++) {
		if ((code[i] & 0xffffffe0) == MSR_TTBR1)
			changed = true;
		if (code[i] == ERET)
			return changed;
	}
	return false;
}

/* Returns the address of the exit in the kernel, by its place in a page; 0: there is none. */
static uint64_t find_exit(const struct kallsyms *k, trampoline_read_fn *read, void *data, uint64_t in_page)
{
	uint64_t from = k->end & ~(uint64_t)(PAGE - 1), found = 0;
	uint8_t *chunk = malloc(CHUNK);

	for (uint64_t done = 0; chunk && !found && done < BEHIND_MAX; done += CHUNK) {
		size_t n = read(data, from + done, chunk, CHUNK);

		for (size_t at = in_page; !found && at + EXIT_WORDS * 4 <= n; at += PAGE)
			if (is_exit((const uint32_t *)(chunk + at), EXIT_WORDS))
				found = from + done + at;
	}
	free(chunk);
	return found;
}

/* True if a page has tables of vectors, of half a page each. */
static bool has_vectors(trampoline_read_fn *read, void *data, uint64_t page)
{
	uint32_t first = 0;

	return read(data, page + ENTRY, &first, sizeof(first)) == sizeof(first) && first == MSR_TPIDRRO_X30;
}

bool trampoline_find(const struct kallsyms *k, trampoline_read_fn *read, void *data, struct trampoline *ret)
{
	uint64_t runs_at = find_runs_at(k, read, data);
	uint64_t exit = runs_at ? find_exit(k, read, data, runs_at % PAGE) : 0, first;

	if (!exit)
		return false;
	first = exit - exit % PAGE;
	for (unsigned i = 0; i < TABLES_PAGES && has_vectors(read, data, first - PAGE); i++)
		first -= PAGE;
	*ret = (struct trampoline){ .code = first,
				    .runs_at = runs_at - (exit - first),
				    .size = exit - exit % PAGE + PAGE - first,
				    .exit = exit - first };
	return true;
}
