/* SPDX-License-Identifier: MIT */
/* lib/code/ocaml-traps.c: the innermost handler at each call of a function. */
#include "lib/base/util.h"
#include "lib/code/ocaml-traps.h"
#include "tests/unit.h"

enum { NOP = 0xd503201f };

#define ADR(words) (0x10000010u | ((words)&0x7ffffu) << 5) /* ADR X16, PC + words */
#define STORE 0xf81f0ffau                                  /* STR X26, [SP, #-16]! */
#define STORE_HANDLER 0xf90007f0u                          /* STR X16, [SP, #8] */
#define PUSH 0x910003fau                                   /* MOV X26, SP */
#define POP 0xf84107fau                                    /* LDR X26, [SP], #16 */
#define CALL 0x94000400u
#define JUMP(words) (0x14000000u | ((words)&0x3ffffffu))
#define RAISE_STACK 0x9100035fu /* MOV SP, X26 */
#define RAISE_HANDLER 0xf94007f0u
#define RAISE_JUMP 0xd61f0200u /* BR X16 */
#define RET 0xd65f03c0u

/* try f (try g () with _ -> raise) with _ -> h */
static const uint32_t code[] = {
	/* 0 */ ADR(20),
	STORE,
	STORE_HANDLER,
	PUSH,
	CALL,
	/* 5 */ ADR(9),
	STORE,
	STORE_HANDLER,
	PUSH,
	CALL,
	/* 10 */ POP,
	CALL,
	POP,
	JUMP(9),
	/* 14: inner handler */ CALL,
	RAISE_STACK,
	RAISE_HANDLER,
	POP,
	RAISE_JUMP,
	NOP,
	/* 20: outer handler */ CALL,
	NOP,
	/* 22 */ CALL,
	RET,
};

/* Looks up the handler of the call at an index. */
static int handler(size_t at, size_t *ret)
{
	*ret = 0;
	return ocaml_traps_find(code, ELEMENTS(code), at + 1, ret);
}

int main(void)
{
	static const uint32_t plain[] = { CALL, RET };
	size_t to;

	CHECK(handler(4, &to) == 1 && to == 20);
	CHECK(handler(9, &to) == 1 && to == 14);
	CHECK(handler(11, &to) == 1 && to == 20);
	CHECK(handler(14, &to) == 1 && to == 20);
	/* The code that raises an exception pops the trap whose handler it jumps to. */
	CHECK(handler(18, &to) == 1 && to == 20);
	CHECK_EQ(handler(20, &to), 0);
	CHECK_EQ(handler(22, &to), 0);
	CHECK_EQ(ocaml_traps_find(plain, ELEMENTS(plain), 1, &to), 0);
	CHECK_EQ(ocaml_traps_find(code, ELEMENTS(code), ELEMENTS(code) + 1, &to), 0);
	return unit_end();
}
