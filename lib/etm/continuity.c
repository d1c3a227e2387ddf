/* SPDX-License-Identifier: MIT */
#include "lib/etm/continuity.h"

#include <endian.h>

#include "lib/code/a64.h"

/* Reads the target of the direct branch at address. False: the code is unavailable, or is no direct branch. */
static bool read_branch_target(const struct engine_memory *memory, const struct engine_context *context,
			       uint64_t address, uint64_t *ret)
{
	enum a64_kind kind;
	uint32_t op;
	bool link;

	if (memory->read(memory->user, context, address, &op, sizeof(op)) != sizeof(op))
		return false;
	kind = a64_classify(le32toh(op), address, &link, ret);
	return kind == A64_BRANCH || kind == A64_CONDITIONAL;
}

bool continuity_holds(struct continuity *c, const struct element *e, const struct engine_memory *memory,
		      const struct engine_context *context)
{
	bool holds;

	if (element_is_aside(e))
		return true;
	if (e->kind != ELEM_RANGE) {
		c->known = false;
		return true;
	}
	holds = !c->known || e->range.start == c->next;
	c->known = e->isa == ISA_A64;
	c->next = e->range.end;
	if (e->taken && e->instr == INSTR_BR)
		c->known = c->known && read_branch_target(memory, context, e->range.end - 4, &c->next);
	else if (e->taken && e->instr == INSTR_IBR)
		c->known = false;
	/* An unconditional branch that was not taken is impossible. */
	else if (c->known && !e->conditional && (e->instr == INSTR_BR || e->instr == INSTR_IBR))
		holds = false;
	return holds;
}
