/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "lib/base/array.h"
#include "lib/base/util.h"
#include "lib/code/a64.h"
#include "lib/code/function-ends.h"

enum {
	LINK_REGISTER = 30,
	CHECK_MAX = 8,    /* instructions of a check of the stack */
	CHECK_STUB = 128, /* and of its call of the runtime, with registers that are saved and restored */
};

struct walk {
	uint64_t start, end;
	uint64_t *seen; /* addresses of instructions, in a hash table */
	size_t n_seen;
	uint64_t *todo;
	size_t n_todo, todo_room;
	struct function_ends *ret;
	struct reason *why;
	int failed; /* why the ends are unknown, the first error; the walk goes on, to set ret->loops */
};

#define FAIL(w, ...) ((w)->failed = (w)->failed ? (w)->failed : reason_set((w)->why, __VA_ARGS__))

/* Adds an address to the set. Returns false if it is in it already, or the set is full. */
static bool add_seen(struct walk *w, uint64_t at)
{
	size_t room = 2 * FUNCTION_ENDS_INSTRUCTIONS_MAX, i = (size_t)(at / 4 * 0x9e3779b97f4a7c15ull >> 32) % room;

	while (w->seen[i] != UINT64_MAX && w->seen[i] != at)
		i = (i + 1) % room;
	if (w->seen[i] == at || w->n_seen == FUNCTION_ENDS_INSTRUCTIONS_MAX)
		return false;
	w->seen[i] = at;
	w->n_seen++;
	return true;
}

static int add_target(struct walk *w, uint64_t at)
{
	int rc = array_reserve(w->todo, w->n_todo, &w->todo_room);

	w->ret->loops |= at == w->start;
	if (rc == 0)
		w->todo[w->n_todo++] = at;
	return rc;
}

static bool is_return(uint32_t op)
{
	return (op >> 21 & 0xf) == 2;
}

/* BRK, UDF, HLT: execution does not go on. */
static bool is_trap(uint32_t op)
{
	return (op & 0xffe0001f) == 0xd4200000 || (op & 0xffe0001f) == 0xd4400000 || op <= 0xffff;
}

static void add_end(struct walk *w, uint64_t at)
{
	struct function_ends *ret = w->ret;

	if (ret->n < ret->room)
		ret->places[ret->n++] = at;
	else
		FAIL(w, -E2BIG, "it returns at more than %zu instructions", ret->room);
}

/* Handles an indirect branch that is no call: adds an end, or sets why the ends are unknown. */
static void handle_indirect(struct walk *w, uint64_t at, uint32_t op)
{
	bool names_register = !(op >> 11 & 1); /* RETAA and RETAB do not */

	if (!is_return(op))
		FAIL(w, -EOPNOTSUPP, "it jumps to an address that it computes, at 0x%" PRIx64, at);
	else if (names_register && (op >> 5 & 31) != LINK_REGISTER)
		FAIL(w, -EOPNOTSUPP, "it returns by another register than the link register, at 0x%" PRIx64, at);
	else
		add_end(w, at);
}

/* Follows the code at an address up to where it does not go on; adds targets of branches and ends to w. */
static int follow(struct walk *w, uint64_t at, bool (*read)(void *data, uint64_t at, uint32_t *ret), void *data)
{
	bool inside = at >= w->start && at < w->end, link;
	uint64_t target;
	uint32_t op;
	int rc = 0;

	/* Control does not run on into the next function: a call at the end of this one does not return. */
	while (rc == 0 && (!inside || at < w->end) && add_seen(w, at)) {
		if (!read(data, at, &op)) {
			FAIL(w, -EOPNOTSUPP, "it goes on where there is no code, at 0x%" PRIx64, at);
			return 0;
		}
		if (is_trap(op))
			return 0;
		switch (a64_classify(op, at, &link, &target)) {
		case A64_BRANCH:
			if (!link)
				return add_target(w, target);
			break;
		case A64_CONDITIONAL:
			rc = add_target(w, target);
			break;
		case A64_INDIRECT:
			if (link)
				break;
			handle_indirect(w, at, op);
			return 0;
		default:
			break;
		}
		at += 4;
	}
	return rc;
}

static int by_address(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

int function_ends_find(uint64_t start, uint64_t end, bool (*read)(void *data, uint64_t at, uint32_t *ret), void *data,
		       struct function_ends *ret, struct reason *why)
{
	struct walk w = { .start = start, .end = end, .ret = ret, .why = why };
	int rc = 0;

	ret->n = 0;
	ret->loops = false;
	w.seen = malloc(2 * FUNCTION_ENDS_INSTRUCTIONS_MAX * sizeof(*w.seen));
	if (!w.seen)
		return -ENOMEM;
	for (size_t i = 0; i < 2 * FUNCTION_ENDS_INSTRUCTIONS_MAX; i++)
		w.seen[i] = UINT64_MAX;
	rc = follow(&w, start, read, data);
	while (rc == 0 && w.n_todo)
		rc = follow(&w, w.todo[--w.n_todo], read, data);
	rc = rc < 0 ? rc : w.failed;
	if (rc == 0 && w.n_seen == FUNCTION_ENDS_INSTRUCTIONS_MAX)
		rc = reason_set(why, -E2BIG, "it has more than %d instructions", FUNCTION_ENDS_INSTRUCTIONS_MAX - 1);
	if (rc == 0 && !ret->n)
		rc = reason_set(why, -EOPNOTSUPP, "it does not return");
	qsort(ret->places, ret->n, sizeof(*ret->places), by_address);
	free(w.seen);
	free(w.todo);
	return rc;
}

/* LDR Xn, [X28, #16] or, of functions on a system stack, #24: the limit of the stack in struct g of Go. */
static bool loads_stack_limit(uint32_t op)
{
	return (op & 0xfffffbe0) == 0xf9400b80;
}

/* True if the code at an address comes to a jump to start, by calls but no other branch. */
static bool jumps_back(uint64_t at, uint64_t start, bool (*read)(void *data, uint64_t at, uint32_t *ret), void *data)
{
	uint64_t target;
	uint32_t op;
	bool link;

	for (unsigned i = 0; i < CHECK_STUB && read(data, at, &op); i++, at += 4) {
		enum a64_kind kind = a64_classify(op, at, &link, &target);

		if (kind != A64_PLAIN && !link)
			return kind == A64_BRANCH && target == start;
	}
	return false;
}

uint64_t function_ends_skip_check(uint64_t start, uint64_t end, bool (*read)(void *data, uint64_t at, uint32_t *ret),
				  void *data)
{
	uint64_t behind = start, stub = 0, target;
	uint32_t op;
	bool link;

	if (!read(data, start, &op) || !loads_stack_limit(op))
		return start;
	/* That of a large frame has two branches, to one place. */
	for (uint64_t at = start + 4; at < end && at - start < 4 * CHECK_MAX && read(data, at, &op); at += 4) {
		enum a64_kind kind = a64_classify(op, at, &link, &target);

		if (kind == A64_CONDITIONAL && (!stub || target == stub)) {
			stub = target;
			behind = at + 4;
		} else if (kind != A64_PLAIN) {
			break;
		}
	}
	return stub >= behind && stub < end && jumps_back(stub, start, read, data) ? behind : start;
}
