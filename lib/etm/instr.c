/* SPDX-License-Identifier: MIT */
#include "lib/etm/instr.h"

struct instr_set instr_set_of(const struct engine_config *c)
{
	unsigned major = c->idr1 >> 8 & 15, minor = c->idr1 >> 4 & 15;
	bool ete = c->protocol == PROTOCOL_ETE;
	/* No register of an ETMv4 describes its processor. With ETMv4.4 it is new enough; else the caller has to know.
	 */
	bool modern = ete || minor >= 4 || c->core_aa64;
	bool as_branch = c->idr2 >> 31;

	if (ete) {
		major = c->devarch >> 12 & 15;
		minor = c->devarch >> 16 & 15;
	}
	as_branch = as_branch && (major << 4 | minor) >= 0x43;
	return (struct instr_set){ modern, modern, as_branch, as_branch && modern };
}

static int64_t branch_offset(uint32_t op, unsigned shift, unsigned bits)
{
	return ((int64_t)((uint64_t)(op >> shift) << (64 - bits)) >> (64 - bits)) * 4;
}

static bool decode_indirect(const struct instr_set *set, uint32_t op, struct instr *ret)
{
	if ((op & 0xffdffc1f) == 0xd61f0000 || /* BR, BLR */
	    (set->pauth && ((op & 0xffdff800) == 0xd71f0800 || (op & 0xffdff81f) == 0xd61f081f))) {
		ret->link = op >> 21 & 1;
		ret->sub = ret->link ? SUB_LINK : SUB_NONE;
		return true;
	}
	if ((op & 0xfffffc1f) == 0xd65f0000 ||                                            /* RET */
	    (set->pauth && ((op & 0xfffffbff) == 0xd65f0bff ||                            /* RETAA, RETAB */
			    (op & 0xffc0001f) == 0x5500001f ||                            /* RETAASPPC label */
			    ((op & 0xfffffbe0) == 0xd65f0be0 && (op & 0x1f) != 0x1f)))) { /* RETAASPPCR */
		ret->sub = SUB_RET;
		return true;
	}
	if (op == 0xd69f03e0 || /* ERET */
	    (set->pauth &&
	     ((op & 0xfffffbff) == 0xd69f0bff || op == 0xd6ff03e0 || op == 0xd6ff07e0))) { /* ERETAA, TEXIT */
		ret->sub = SUB_ERET;
		return true;
	}
	return false;
}

/* CB of registers and of an immediate, CBB, CBH. */
static bool is_compare_branch(uint32_t op)
{
	switch (op >> 24) {
	case 0x74:
		return (op & 0xc000) != 0x4000;
	case 0xf4:
		return (op & 0xc000) == 0;
	case 0x75:
	case 0xf5:
		return !(op & 0x4000);
	default:
		return false;
	}
}

static bool decode_direct(uint32_t op, struct instr *ret)
{
	if ((op & 0x7c000000) == 0x14000000) { /* B, BL */
		ret->link = op >> 31;
		ret->sub = ret->link ? SUB_LINK : SUB_NONE;
		ret->offset = branch_offset(op, 0, 26);
		return true;
	}
	if ((op & 0xff000000) == 0x54000000 || (op & 0x7e000000) == 0x34000000) { /* B.cond, BC.cond; CBZ, CBNZ */
		ret->conditional = true;
		ret->offset = branch_offset(op, 5, 19);
		return true;
	}
	if ((op & 0x7e000000) == 0x36000000) { /* TBZ, TBNZ */
		ret->conditional = true;
		ret->offset = branch_offset(op, 5, 14);
		return true;
	}
	/* These have a condition of their own; OpenCSD does not report them as conditional. */
	if (is_compare_branch(op)) {
		ret->offset = branch_offset(op, 5, 9);
		return true;
	}
	return false;
}

void instr_decode(const struct instr_set *set, uint32_t op, struct instr *ret)
{
	*ret = (struct instr){ 0 };
	if (decode_indirect(set, op, ret))
		ret->kind = INSTR_IBR;
	else if (decode_direct(op, ret))
		ret->kind = INSTR_BR;
	else if ((op & 0xfffff0ff) == 0xd50330df)
		ret->kind = INSTR_ISB;
	else if ((set->wfi && (op & 0xffffffdf) == 0xd503205f) || (set->wfit && (op & 0xffffffc0) == 0xd5031000))
		ret->kind = INSTR_WFI;
	else if (set->transactions && (op & 0xffffffe0) == 0xd5233060)
		ret->kind = INSTR_TSTART;
}
