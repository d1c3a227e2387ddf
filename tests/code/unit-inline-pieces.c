/* SPDX-License-Identifier: MIT */
/*
 * lib/code/inline-pieces.c: where calls of inlined functions begin in code without markers. The code and its DWARF are
 * made by hand, as LLVM makes them: one instance for all copies of a loop that was unrolled.
 */
#include <string.h>
#include <sys/mman.h>

#include "lib/base/io.h"
#include "lib/code/inlines.h"
#include "tests/code/dwarfgen.h"
#include "tests/unit.h"

enum {
	LOAD = 0xb9400008,     /* ldr w8, [x0] */
	STORE = 0xb9000008,    /* str w8, [x0] */
	ADD = 0x11000508,      /* add w8, w8, #1 */
	EOR = 0x4a090108,      /* eor w8, w8, w9 */
	BACK = 0x54ffff81,     /* b.ne to four instructions before */
	BACK_ALL = 0x54fffe01, /* b.ne to 16 instructions before */
	RET = 0xd65f03c0,
};

/* Ranges of an instance in instructions, [first, end). */
struct part {
	uint8_t first, end;
};

/* An instruction with its source place; line 0: that of the one before. */
struct made_instruction {
	uint32_t op;
	uint8_t line, column;
};

/* A function "outer" has an instance of "each", which has one of "bump", if that has parts. */
struct made_code {
	struct made_instruction list[24];
	struct part each[4], bump[4];
	/* Where calls begin: "each@4 bump@4 each@8"; "~" behind the instances of which that is a guess. */
	const char *begins;
};

static void add_abbrevs(struct buf *b)
{
	/* 1: a unit: low_pc, high_pc, stmt_list. 2: a function: name, low_pc, high_pc. */
	DWARFGEN(b, 1, 0x11, 1, 0x11, 0x01, 0x12, 0x07, 0x10, 0x17, 0, 0);
	DWARFGEN(b, 2, 0x2e, 1, 0x03, 0x08, 0x11, 0x01, 0x12, 0x06, 0, 0);
	/* 3: an abstract instance: name, decl_file, decl_line. 4: an instance: origin, ranges, call_file, call_line. */
	DWARFGEN(b, 3, 0x2e, 0, 0x03, 0x08, 0x3a, 0x0b, 0x3b, 0x0b, 0, 0);
	DWARFGEN(b, 4, 0x1d, 1, 0x31, 0x13, 0x55, 0x17, 0x58, 0x0b, 0x59, 0x0b, 0, 0, 0);
}

static void add_instance(struct buf *info, struct buf *ranges, uint32_t origin, const struct part *parts)
{
	DWARFGEN(info, 4);
	buf_u32(info, origin);
	buf_u32(info, (uint32_t)ranges->size);
	DWARFGEN(info, 1, 5);
	for (int i = 0; i < 4 && parts[i].end; i++) {
		buf_u64(ranges, 4u * parts[i].first);
		buf_u64(ranges, 4u * parts[i].end);
	}
	buf_zero(ranges, 16);
}

static void add_info(struct buf *b, struct buf *ranges, const struct made_code *c)
{
	struct buf u = { 0 };
	uint32_t each, bump;

	buf_u16(&u, 4);
	buf_u32(&u, 0);
	DWARFGEN(&u, 8, 1);
	buf_u64(&u, DWARF_TEXT);
	buf_u64(&u, sizeof(c->list) / sizeof(c->list[0]) * 4);
	buf_u32(&u, 0);
	each = 4 + (uint32_t)u.size;
	DWARFGEN(&u, 3);
	dwarfgen_text(&u, "each");
	DWARFGEN(&u, 1, 19);
	bump = 4 + (uint32_t)u.size;
	DWARFGEN(&u, 3);
	dwarfgen_text(&u, "bump");
	DWARFGEN(&u, 1, 29, 2);
	dwarfgen_text(&u, "outer");
	buf_u64(&u, DWARF_TEXT);
	buf_u32(&u, sizeof(c->list) / sizeof(c->list[0]) * 4);
	add_instance(&u, ranges, each, c->each);
	if (c->bump[0].end) {
		add_instance(&u, ranges, bump, c->bump);
		DWARFGEN(&u, 0);
	}
	DWARFGEN(&u, 0, 0, 0);
	buf_u32(b, (uint32_t)u.size);
	buf_add(b, u.data, u.size);
	buf_done(&u);
}

/* Each instruction has a row. */
static void add_lines(struct buf *b, const struct made_code *c)
{
	struct buf head = { 0 }, u = { 0 };
	uint8_t line = 1, column = 0;

	buf_u16(&head, 4);
	DWARFGEN(&u, 4, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0);
	dwarfgen_text(&u, "main.c");
	DWARFGEN(&u, 0, 0, 0, 0);
	buf_u32(&head, (uint32_t)u.size);
	DWARFGEN(&u, 0, 9, 2);
	buf_u64(&u, DWARF_TEXT);
	for (size_t i = 0; i < ELEMENTS(c->list); i++) {
		uint8_t to = c->list[i].line ? c->list[i].line : line;

		column = c->list[i].line ? c->list[i].column : column;
		/* DW_LNS_advance_line, set_column, copy, advance_pc. */
		DWARFGEN(&u, 3, (uint8_t)((to - line) & 0x7f), 5, column, 1, 2, 1);
		line = to;
	}
	DWARFGEN(&u, 0, 1, 1);
	buf_u32(b, (uint32_t)(head.size + u.size));
	buf_add(b, head.data, head.size);
	buf_add(b, u.data, u.size);
	buf_done(&head);
	buf_done(&u);
}

static int make(const struct made_code *c, struct inlines **ret)
{
	_cleanup_close_ int fd = memfd_create("elf", MFD_CLOEXEC);
	struct buf s[DWARF_SECTIONS] = { 0 };
	_cleanup_buf_ struct buf b = { 0 };

	add_abbrevs(&s[DWARF_ABBREV]);
	add_info(&s[DWARF_INFO], &s[DWARF_RANGES], c);
	add_lines(&s[DWARF_LINE], c);
	dwarfgen_elf(&b, s);
	for (int i = 0; i < DWARF_SECTIONS; i++)
		buf_done(&s[i]);
	buf_zero(&b, DWARF_TEXT_OFFSET - b.size);
	for (size_t i = 0; i < ELEMENTS(c->list); i++)
		buf_u32(&b, c->list[i].op ? c->list[i].op : RET);
	buf_zero(&b, DWARF_TEXT_OFFSET + DWARF_TEXT_SIZE - b.size);
	return io_write(fd, b.data, b.size) < 0 ? -EIO : inlines_load(fd, -1, ret);
}

/* Where calls begin, in the form of struct made_code. */
static const char *begins_of(const struct made_code *c)
{
	_cleanup_(inlines_freep) struct inlines *s = NULL;
	static char text[512];
	struct inlines_at at, call;
	size_t n = 0;

	text[0] = 0;
	if (!CHECK_EQ(make(c, &s), 0))
		return text;
	for (size_t i = 0; i < ELEMENTS(c->list); i++) {
		uint64_t offset = DWARF_TEXT_OFFSET + 4 * i;

		inlines_find(s, offset, &at);
		for (size_t k = 0; at.start == offset && k < at.n_entries; k++) {
			inlines_entry(s, offset, k, &call);
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s%s@%zu", n ? " " : "",
					      call.frames[call.n - 1].name,
					      call.frames[call.n - 1].uncertain ? "~" : "", i);
		}
	}
	return text;
}

/* The loop is around the instance; its copies follow one another. */
static const struct made_code unrolled = {
	.list = { { ADD, 1, 1 },
		  [4] = { LOAD, 20, 5 },
		  { ADD, 20, 7 },
		  { STORE, 20, 9 },
		  { EOR, 20, 3 },
		  { LOAD, 20, 5 },
		  { ADD, 20, 7 },
		  { STORE, 20, 9 },
		  { EOR, 20, 3 },
		  { LOAD, 20, 5 },
		  { ADD, 20, 7 },
		  { STORE, 20, 9 },
		  { EOR, 20, 3 },
		  { LOAD, 20, 5 },
		  { ADD, 20, 7 },
		  { STORE, 20, 9 },
		  { EOR, 20, 3 },
		  { BACK_ALL, 2, 1 } },
	.each = { { 4, 20 } },
	.begins = "each@4 each@8 each@12 each@16",
};

/* Its own instructions do not show the copies; those of the function inside do. */
static const struct made_code by_inner = {
	.list = { { ADD, 1, 1 },
		  [4] = { LOAD, 30, 5 },
		  { STORE, 30, 9 },
		  { ADD, 20, 7 },
		  { ADD, 20, 7 },
		  { LOAD, 30, 5 },
		  { STORE, 30, 9 },
		  { ADD, 20, 7 },
		  { ADD, 20, 7 } },
	.each = { { 4, 12 } },
	.bump = { { 4, 6 }, { 8, 10 } },
	.begins = "each@4 bump@4 each@8 bump@8",
};

/* A loop of the function itself, to its begin: one call, which may as well be one each time. */
static const struct made_code own_loop = {
	.list = { { ADD, 1, 1 },
		  [4] = { LOAD, 20, 5 },
		  { ADD, 20, 7 },
		  { STORE, 20, 9 },
		  { ADD, 20, 3 },
		  { BACK, 20, 1 } },
	.each = { { 4, 9 } },
	.begins = "each~@4",
};

/* A loop of the function behind its begin. */
static const struct made_code later_loop = {
	.list = { { ADD, 1, 1 },
		  [3] = { LOAD, 20, 2 },
		  { LOAD, 21, 5 },
		  { ADD, 21, 7 },
		  { STORE, 21, 9 },
		  { ADD, 21, 3 },
		  { BACK, 21, 1 } },
	.each = { { 3, 9 } },
	.begins = "each@3",
};

/* Control comes from outside to the second part only: the first one is a loop, which the compiler placed before. */
static const struct made_code begins_behind = {
	.list = { { ADD, 1, 1 },
		  [2] = { 0x14000007, 1, 2 }, /* b to 9 */
		  [3] = { EOR, 21, 5 },
		  { LOAD, 21, 6 },
		  { ADD, 21, 7 },
		  { STORE, 21, 9 },
		  { BACK, 21, 1 },
		  { RET, 2, 1 },
		  { LOAD, 20, 2 },
		  { ADD, 20, 3 },
		  { 0x17fffff8, 20, 4 } }, /* b to 3 */
	.each = { { 3, 8 }, { 9, 12 } },
	.begins = "each@9",
};

/* Without loads, stores and calls: one call, unless an instruction is there twice. */
static const struct made_code plain = {
	.list = { { ADD, 1, 1 }, [4] = { ADD, 20, 7 }, { EOR, 20, 9 } },
	.each = { { 4, 6 } },
	.begins = "each@4",
};
static const struct made_code twice = {
	.list = { { ADD, 1, 1 }, [4] = { ADD, 20, 7 }, { ADD, 20, 7 } },
	.each = { { 4, 6 } },
	.begins = "each~@4",
};

/* A part of the calls that are there three times, in place of each twice: how many there are is a guess. */
static const struct made_code odd_copies = {
	.list = { { ADD, 1, 1 },
		  [4] = { LOAD, 20, 5 },
		  { STORE, 20, 9 },
		  { LOAD, 20, 5 },
		  { STORE, 20, 9 },
		  { STORE, 20, 9 } },
	.each = { { 4, 9 } },
	.begins = "each~@4 each~@6",
};

static const struct made_code *const all[] = { &unrolled,      &by_inner, &own_loop, &later_loop,
					       &begins_behind, &plain,    &twice,    &odd_copies };

int main(void)
{
	for (size_t i = 0; i < ELEMENTS(all); i++)
		CHECK_STR(begins_of(all[i]), all[i]->begins);
	return unit_end();
}
