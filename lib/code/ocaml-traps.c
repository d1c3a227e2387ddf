/* SPDX-License-Identifier: MIT */
#include "lib/code/ocaml-traps.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "lib/base/util.h"
#include "lib/code/a64.h"

enum { UNSEEN = 0, NO_TRAP = 1 };

static bool is_push(uint32_t op)
{
	return op == 0x910003fa; /* MOV X26, SP */
}

/* LDR X26, [SP], #16. The same instruction after MOV SP, X26 raises an exception and is no pop. */
static bool is_pop(const uint32_t *code, size_t at)
{
	return code[at] == 0xf84107fa && !(at > 0 && code[at - 1] == 0x9100035f) &&
	       !(at > 1 && code[at - 2] == 0x9100035f);
}

/* Finds the handler of a push: the target of the last ADR among the 4 instructions before it. */
static bool handler_before(const uint32_t *code, size_t n, size_t at, size_t *ret)
{
	for (size_t i = at; i-- > 0 && at - i <= 4;) {
		int64_t to;

		if ((code[i] & 0x9f000000) != 0x10000000)
			continue;
		to = (int64_t)((uint64_t)(code[i] >> 5 & 0x7ffff) << 45) >> 43;
		to = (int64_t)i + (to | (code[i] >> 29 & 3)) / 4;
		*ret = (size_t)to;
		return to >= 0 && to < (int64_t)n;
	}
	return false;
}

/* A traversal of a function's control flow that computes the innermost trap at each instruction. */
struct trap_walk {
	const uint32_t *code;
	size_t n;
	/* For each instruction: the index of the push of its innermost trap plus two, or NO_TRAP, UNSEEN */
	uint32_t *state;
	uint32_t *todo;
	size_t n_todo;
};

static void walk_reach(struct trap_walk *w, size_t at, uint32_t state)
{
	if (at >= w->n || w->state[at] != UNSEEN)
		return;
	w->state[at] = state;
	w->todo[w->n_todo++] = (uint32_t)at;
}

static void walk_step(struct trap_walk *w, size_t at)
{
	uint32_t op = w->code[at], state = w->state[at];
	uint64_t target;
	size_t handler;
	bool link;
	enum a64_kind kind = a64_classify(op, 4 * (uint64_t)at, &link, &target);

	if (is_push(op) && handler_before(w->code, w->n, at, &handler)) {
		walk_reach(w, handler, state);
		state = (uint32_t)at + 2;
	} else if (is_pop(w->code, at) && state > NO_TRAP) {
		state = w->state[state - 2];
	}
	if ((kind == A64_BRANCH && !link) || kind == A64_CONDITIONAL)
		walk_reach(w, target / 4, state);
	if (link || kind == A64_CONDITIONAL || kind == A64_PLAIN || kind == A64_SVC || kind == A64_ISB)
		walk_reach(w, at + 1, state);
}

int ocaml_traps_find(const uint32_t *code, size_t n, size_t at, size_t *ret)
{
	_cleanup_free_ uint32_t *state = NULL, *todo = NULL;
	struct trap_walk w = { .code = code, .n = n };
	bool any = false;

	for (size_t i = 0; i < n && !any; i++)
		any = is_push(code[i]);
	if (!any || !at || at > n)
		return 0;
	w.state = state = calloc(n, sizeof(*state));
	w.todo = todo = calloc(n, sizeof(*todo));
	if (!state || !todo)
		return -ENOMEM;
	/*
	 * Code after a jump table may be reachable only through the table, which is not read: such code inherits the
	 * state of the instruction before it.
	 */
	for (size_t i = 0; i < n; i++) {
		walk_reach(&w, i, i && state[i - 1] ? state[i - 1] : NO_TRAP);
		while (w.n_todo)
			walk_step(&w, todo[--w.n_todo]);
	}
	/* at is a return address: the call is the instruction before it. */
	if (state[at - 1] <= NO_TRAP)
		return 0;
	return handler_before(code, n, state[at - 1] - 2, ret) ? 1 : 0;
}
