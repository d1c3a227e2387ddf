/* SPDX-License-Identifier: MIT */
/* lib/etm/continuity.c: which range may follow which element. */
#include "config.h"

#include <endian.h>

#include "lib/base/util.h"
#include "lib/etm/continuity.h"
#include "tests/unit.h"

enum { BASE = 0x1000, B_COND = 0x1004, BL_BACK = 0x1008, RET = 0x100c, TBZ = 0x1010, NOP = 0x1014, END = 0x1018 };

static const uint32_t program[] = {
	0xd503201f, /* nop */
	0x54000080, /* b.eq BASE + 0x14 */
	0x97fffffe, /* bl BASE */
	0xd65f03c0, /* ret */
	0x3607ff80, /* tbz w0, #0, BASE */
	0xd503201f, /* nop */
};

static size_t read_code(void *user, const struct engine_context *context, uint64_t address, void *ret, size_t size)
{
	if (address < BASE || address >= END || size > END - address)
		return 0;
	for (size_t i = 0; i < size / 4; i++)
		((uint32_t *)ret)[i] = htole32(program[(address - BASE) / 4 + i]);
	return size;
}

static struct continuity continuity;

static bool follows(const struct element *e)
{
	const struct engine_memory memory = { .read = read_code };

	return continuity_holds(&continuity, e, &memory, &(struct engine_context){ 0 });
}

static bool range(uint64_t start, uint64_t end, bool taken)
{
	uint64_t last = end - 4;
	struct element e = { .kind = ELEM_RANGE, .isa = ISA_A64, .taken = taken };

	e.instr = last == B_COND || last == TBZ || last == BL_BACK ? INSTR_BR : last == RET ? INSTR_IBR : INSTR_OTHER;
	e.conditional = last == B_COND || last == TBZ;
	e.range.start = start;
	e.range.end = end;
	return follows(&e);
}

static bool other(enum element_kind kind)
{
	return follows(&(struct element){ .kind = (uint8_t)kind });
}

int main(void)
{
	CHECK(range(BASE, B_COND + 4, true));
	CHECK(range(NOP, END, true)); /* a range that an exception ended */
	CHECK(!range(TBZ, TBZ + 4, true));
	CHECK(range(BASE, B_COND + 4, false));
	CHECK(range(BL_BACK, BL_BACK + 4, true));
	CHECK(other(ELEM_TIMESTAMP) && other(ELEM_CONTEXT) && other(ELEM_CYCLES));
	CHECK(!range(BL_BACK, BL_BACK + 4, true));
	CHECK(range(BASE, B_COND + 4, true));
	CHECK(!range(BL_BACK, BL_BACK + 4, true));

	/* Behind an indirect branch any start is valid. */
	CHECK(range(BASE, B_COND + 4, false));
	CHECK(range(BL_BACK, RET + 4, true));
	CHECK(range(TBZ, TBZ + 4, false));
	CHECK(!range(BASE, B_COND + 4, false));
	for (enum element_kind kind = ELEM_RANGE_NOPATH; kind <= ELEM_END; kind++) {
		if (kind == ELEM_CONTEXT)
			continue;
		CHECK(other(kind));
		CHECK(range(BASE, B_COND + 4, true));
	}

	/* Branches that are always taken. */
	other(ELEM_TRACE_ON);
	CHECK(!range(BL_BACK, BL_BACK + 4, false));
	CHECK(!range(RET, RET + 4, false));

	/* Code that is unavailable, or no branch any more, makes any start valid. */
	other(ELEM_TRACE_ON);
	CHECK(follows(&(struct element){
	    .kind = ELEM_RANGE, .isa = ISA_A64, .taken = true, .instr = INSTR_BR, .range = { 0x5000, 0x5008, 2, 4 } }));
	CHECK(range(BASE, B_COND + 4, true));
	other(ELEM_TRACE_ON);
	CHECK(follows(&(struct element){
	    .kind = ELEM_RANGE, .isa = ISA_A64, .taken = true, .instr = INSTR_BR, .range = { NOP, END, 1, 4 } }));
	CHECK(range(BASE, B_COND + 4, true));
	other(ELEM_TRACE_ON);
	CHECK(follows(&(struct element){ .kind = ELEM_RANGE, .isa = ISA_T32, .range = { 0x5000, 0x5008, 4, 2 } }));
	CHECK(range(BASE, B_COND + 4, true));
	return unit_end();
}
