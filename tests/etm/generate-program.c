/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "lib/base/util.h"
#include "tests/etm/generate-parts.h"

static const uint64_t region_at[GEN_REGIONS] = { 0x400000, 0xffff80400000, 0x7f8000000000 };

/* Makes the program: opcodes of the Arm ARM, C4.1, with random fields. */
static struct instruction plain_instruction(struct gen *g)
{
	/* Some have encodings close to branches, or are hints that stand near them. */
	static const uint32_t ops[] = { 0xd503201f, 0xd503245f, 0xd503233f, 0xd50323bf, 0xd50330ff, 0xd5033f9f,
					0xd5033bbf, 0xd503305f, 0x91000400, 0xf9400021, 0xf9000021, 0xa9bf7bfd,
					0xa8c17bfd, 0xd5380000, 0xd51b4200, 0x52800000, 0x1e602800, 0x4e20e400,
					0x58000040, 0x10000000, 0xdac10000, 0xd50320df, 0xd5032080 };

	return (struct instruction){ .op = ops[gen_below(g, ELEMENTS(ops))] };
}

static struct instruction indirect_instruction(struct gen *g)
{
	static const struct instruction modern[] = {
		{ 0xd71f0800, INSTR_IBR, SUB_NONE, .link = false }, /* BRAA, BRAB */
		{ 0xd61f081f, INSTR_IBR, SUB_NONE, .link = false }, /* BRAAZ, BRABZ */
		{ 0xd73f0800, INSTR_IBR, SUB_LINK, .link = true },    { 0xd63f081f, INSTR_IBR, SUB_LINK, .link = true },
		{ 0xd65f0bff, INSTR_IBR, SUB_RET, .link = false }, /* RETAA, RETAB */
		{ 0xd69f0bff, INSTR_IBR, SUB_ERET, .returns = true },
	};
	uint32_t n = gen_below(g, 31) << 5;
	struct instruction i;

	if (g->modern && gen_below(g, 2)) {
		i = modern[gen_below(g, ELEMENTS(modern))];
		if ((i.op & 0x3e0) == 0)
			i.op |= n | ((i.op & 0x1f) ? 0 : gen_below(g, 32));
		i.op |= gen_below(g, 2) << 10;
		return i;
	}
	switch (gen_below(g, 8)) {
	case 0:
	case 1:
		return (struct instruction){ 0xd61f0000 | n, INSTR_IBR, SUB_NONE };
	case 2:
	case 3:
		return (struct instruction){ 0xd63f0000 | n, INSTR_IBR, SUB_LINK, .link = true };
	case 4:
		return (struct instruction){ 0xd69f03e0, INSTR_IBR, SUB_ERET, .returns = true };
	default:
		return (struct instruction){ 0xd65f0000 | (gen_below(g, 4) ? 30u << 5 : n), INSTR_IBR, SUB_RET };
	}
}

static struct instruction direct_instruction(struct gen *g, int32_t far, int32_t near)
{
	struct instruction i = { .kind = INSTR_BR, .conditional = true, .words = near };
	uint32_t imm19 = ((uint32_t)near & 0x7ffff) << 5, imm14 = ((uint32_t)near & 0x3fff) << 5;

	switch (gen_below(g, 12)) {
	case 0:
	case 1:
		return (struct instruction){ 0x14000000 | ((uint32_t)far & 0x3ffffff), INSTR_BR, .words = far };
	case 2:
	case 3:
	case 4:
		return (struct instruction){ 0x94000000 | ((uint32_t)far & 0x3ffffff), INSTR_BR, SUB_LINK, .link = true,
					     .words = far };
	case 5:
	case 6:
	case 7:
		i.op = 0x54000000 | imm19 | gen_below(g, g->modern ? 32 : 16);
		break;
	case 8:
	case 9:
		i.op = 0x34000000 | gen_below(g, 2) << 31 | gen_below(g, 2) << 24 | imm19 | gen_below(g, 32);
		break;
	default:
		i.op = 0x36000000 | gen_below(g, 2) << 31 | gen_below(g, 2) << 24 | gen_below(g, 32) << 19 | imm14 |
		       gen_below(g, 32);
		break;
	}
	return i;
}

static struct instruction rare_instruction(struct gen *g, int32_t near)
{
	if (gen_rarely(g, GENERATE_COMPARE_BRANCHES, 6)) {
		/* CB (register), CBB, CBH, CB (immediate); OpenCSD does not mark them as conditional, nor do we. */
		static const uint32_t ops[] = {
			0x74000000, 0xf4000000, 0x74008000, 0x7400c000, 0x75000000, 0xf5000000
		};

		return (struct instruction){ ops[gen_below(g, ELEMENTS(ops))] | gen_below(g, 8) << 16 |
						 ((uint32_t)near & 0x1ff) << 5 | gen_below(g, 32),
					     INSTR_BR, .words = near };
	}
	if (g->modern && gen_rarely(g, GENERATE_PAUTH_LR, 6))
		/* RETAASPPC label, RETAASPPCR; and B key. */
		return gen_below(g, 2)
			   ? (struct instruction){ 0x5500001f | gen_below(g, 2) << 21 | gen_below(g, 0x10000) << 5,
						   INSTR_IBR, SUB_RET }
			   : (struct instruction){ 0xd65f0be0 | gen_below(g, 2) << 10 | gen_below(g, 31), INSTR_IBR,
						   SUB_RET };
	if (g->modern && gen_rarely(g, GENERATE_TRANSACTIONS, 4))
		return (struct instruction){ 0xd5233060 | gen_below(g, 32), INSTR_TSTART };
	if (gen_below(g, 3) == 0)
		return (struct instruction){ 0xd503205f | gen_below(g, 2) << 5, g->waits ? INSTR_WFI : INSTR_OTHER };
	if (g->modern && gen_below(g, 3) == 0)
		return (struct instruction){ 0xd5031000 | gen_below(g, 64), g->waits ? INSTR_WFI : INSTR_OTHER };
	return (struct instruction){ 0xd5033fdf, INSTR_ISB };
}

void gen_make_code(struct gen *g)
{
	static const uint32_t traps[] = { 0xd4000001, 0xd4000002, 0xd4000003 };

	for (unsigned r = 0; r < GEN_REGIONS; r++)
		for (int32_t i = 0; i < GEN_WORDS; i++) {
			struct instruction *to = &g->code->words[r][i];
			int32_t near = (int32_t)gen_below(g, 64) - 32, far = (int32_t)gen_below(g, GEN_WORDS) - i;

			if (i + near < 0 || i + near >= GEN_WORDS - 1 || !near)
				near = -MIN(i, 3);
			switch (gen_below(g, 16)) {
			case 0:
			case 1:
			case 2:
				*to = direct_instruction(g, far, near);
				break;
			case 3:
			case 4:
				*to = indirect_instruction(g);
				break;
			case 5:
				*to = rare_instruction(g, near);
				break;
			case 6:
				*to = (struct instruction){ .op = traps[gen_below(g, ELEMENTS(traps))] |
								  gen_below(g, 0x10000) << 5 };
				break;
			default:
				*to = plain_instruction(g);
			}
			if (i == GEN_WORDS - 1)
				*to = (struct instruction){ 0xd61f0000, INSTR_IBR };
		}
}

const struct instruction *generate_instruction(const struct generate_code *code, uint64_t address)
{
	for (unsigned r = 0; r < GEN_REGIONS; r++)
		if (address >= region_at[r] && address - region_at[r] < 4 * GEN_WORDS)
			return &code->words[r][(address - region_at[r]) / 4];
	return NULL;
}

size_t generate_read(void *code, const struct engine_context *context, uint64_t address, void *ret, size_t size)
{
	uint8_t *to = ret;
	size_t n = 0;

	for (; n < size; n++) {
		const struct instruction *i = generate_instruction(code, address + n);

		if (!i)
			break;
		to[n] = (uint8_t)(i->op >> (8 * ((address + n) & 3)));
	}
	return n;
}

uint64_t gen_anywhere(struct gen *g)
{
	return region_at[gen_below(g, GEN_REGIONS)] + 4 * gen_below(g, GEN_WORDS);
}
