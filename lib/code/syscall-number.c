/* SPDX-License-Identifier: MIT */
#include "lib/code/a64.h"
#include "lib/code/syscall-number.h"

enum { DISTANCE_MAX = 64, X8 = 8 };

/* MOVZ W8 or X8, #imm16 */
static bool is_constant(uint32_t op)
{
	return (op & 0x7fe0001f) == (0x52800000 | X8);
}

static bool is_load_or_store(uint32_t op)
{
	return (op & 0x0a000000) == 0x08000000;
}

/* True if the instruction may write X8: if a field that can be a destination names it, even where it is a source. */
static bool may_write(uint32_t op)
{
	if ((op & 31) == X8)
		return true;
	/* The second register of a pair, and the base address, which may be updated. */
	return is_load_or_store(op) && ((op >> 10 & 31) == X8 || (op >> 5 & 31) == X8);
}

/* True if a direct branch of the function leads to an instruction after `from` and up to `to`. */
static bool is_entered(const uint32_t *code, size_t n, size_t from, size_t to)
{
	uint64_t target;
	bool link;

	for (size_t i = 0; i < n; i++) {
		enum a64_kind kind = a64_classify(code[i], 4 * i, &link, &target);

		if ((kind == A64_BRANCH || kind == A64_CONDITIONAL) && target > 4 * from && target <= 4 * to)
			return true;
	}
	return false;
}

int64_t syscall_number(const uint32_t *code, size_t n, size_t svc)
{
	uint64_t target;
	bool link;

	if (svc >= n || a64_classify(code[svc], 0, &link, &target) != A64_SVC)
		return -1;
	for (size_t i = svc; i-- > 0 && svc - i <= DISTANCE_MAX;) {
		enum a64_kind kind = a64_classify(code[i], 0, &link, &target);

		if (kind == A64_BRANCH || kind == A64_INDIRECT)
			return -1;
		if (is_constant(code[i]))
			return is_entered(code, n, i, svc) ? -1 : (int64_t)(code[i] >> 5 & 0xffff);
		/* Conditional branches and SVC write no register. */
		if (kind == A64_PLAIN && may_write(code[i]))
			return -1;
	}
	return -1;
}
