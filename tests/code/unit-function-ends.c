/* SPDX-License-Identifier: MIT */
/* lib/code/function-ends.c: where functions return, and where each call of a Go function passes, in made-up code. */
#include <errno.h>

#include "lib/base/util.h"
#include "lib/code/function-ends.h"
#include "tests/unit.h"

enum { BASE = 0x1000, ROOM = 3 };

#define NOP 0xd503201fu
#define RET 0xd65f03c0u
#define RET_X1 0xd65f0020u
#define RETAA 0xd65f0bffu
#define BR_X16 0xd61f0200u
#define BLR_X1 0xd63f0020u
#define CALL 0x94000100u
#define BRK 0xd4200000u
#define JUMP(words) (0x14000000u | ((unsigned)(words)&0x3ffffffu))
#define IF_ZERO(words) (0x34000000u | ((unsigned)(words)&0x7ffffu) << 5) /* CBZ W0 */

#define IF_LOWER(words) (0x54000009u | ((unsigned)(words)&0x7ffffu) << 5) /* B.LS */
#define STACK_LIMIT 0xf9400b90u                                           /* LDR X16, [X28, #16] */
#define SYSTEM_STACK_LIMIT 0xf9400f90u                                    /* LDR X16, [X28, #24] */
#define COMPARE 0xeb3063ffu                                               /* CMP SP, X16 */

struct code {
	const uint32_t *words;
	size_t n;
};

static bool read_word(void *data, uint64_t at, uint32_t *ret)
{
	const struct code *c = data;
	size_t i = (size_t)(at - BASE) / 4;

	if (at < BASE || i >= c->n)
		return false;
	*ret = c->words[i];
	return true;
}

static uint64_t places[ROOM];
static struct function_ends ends = { .places = places, .room = ROOM };
static struct reason why;

/* size: of the function at the begin, in instructions */
static int find(const uint32_t *words, size_t n, size_t size)
{
	struct code code = { words, n };

	why.text[0] = 0;
	return function_ends_find(BASE, BASE + 4 * size, read_word, &code, &ends, &why);
}

#define FIND(size, ...) find((const uint32_t[]){ __VA_ARGS__ }, sizeof((uint32_t[]){ __VA_ARGS__ }) / 4, size)

/* Returns the index of the instruction that each call of the Go function passes once. */
static unsigned skip(const uint32_t *words, size_t n)
{
	struct code code = { words, n };

	return (unsigned)(function_ends_skip_check(BASE, BASE + 4 * n, read_word, &code) - BASE) / 4;
}

#define SKIP(...) skip((const uint32_t[]){ __VA_ARGS__ }, sizeof((uint32_t[]){ __VA_ARGS__ }) / 4)

static void test_checks(void)
{
	CHECK_EQ(SKIP(STACK_LIMIT, COMPARE, IF_LOWER(2), RET, NOP, CALL, NOP, JUMP(-7)), 3);
	CHECK_EQ(SKIP(SYSTEM_STACK_LIMIT, COMPARE, IF_LOWER(2), RET, CALL, JUMP(-5)), 3);
	/* Of a large frame; the branch after it is one of the function. */
	CHECK_EQ(SKIP(STACK_LIMIT, NOP, NOP, IF_LOWER(5), COMPARE, IF_LOWER(3), IF_ZERO(1), RET, CALL, JUMP(-9)), 6);
	/* No check: of another function, of one that does not call the runtime, or that jumps elsewhere. */
	CHECK_EQ(SKIP(NOP, COMPARE, IF_LOWER(2), RET, CALL, JUMP(-5)), 0);
	CHECK_EQ(SKIP(STACK_LIMIT, COMPARE, IF_LOWER(2), RET, CALL, RET), 0);
	CHECK_EQ(SKIP(STACK_LIMIT, COMPARE, IF_LOWER(2), RET, CALL, JUMP(-4)), 0);
	CHECK_EQ(SKIP(STACK_LIMIT, COMPARE, IF_LOWER(200), RET, CALL, JUMP(-5)), 0);
	CHECK_EQ(SKIP(STACK_LIMIT, COMPARE, IF_LOWER(-2), RET, CALL, JUMP(-5)), 0);
	CHECK_EQ(SKIP(STACK_LIMIT, NOP, NOP, RET), 0);
	CHECK_EQ(SKIP(STACK_LIMIT), 0);
}

int main(void)
{
	test_checks();
	CHECK_EQ(FIND(2, NOP, RET, RET), 0);
	CHECK(ends.n == 1 && places[0] == BASE + 4 && !ends.loops);
	CHECK_EQ(FIND(6, IF_ZERO(3), CALL, RET, BLR_X1, NOP, RETAA), 0);
	CHECK(ends.n == 2 && places[0] == BASE + 8 && places[1] == BASE + 20);

	/* A call at the end does not return into the next function. */
	CHECK_EQ(FIND(4, IF_ZERO(2), RET, NOP, CALL, RET), 0);
	CHECK(ends.n == 1 && places[0] == BASE + 4);

	/* A tail call: where the other function returns. */
	CHECK_EQ(FIND(3, IF_ZERO(2), RET, JUMP(2), BRK, NOP, IF_ZERO(2), RET, RET), 0);
	CHECK(ends.n == 3 && places[1] == BASE + 24 && places[2] == BASE + 28);

	CHECK_EQ(FIND(2, NOP, BR_X16), -EOPNOTSUPP);
	CHECK_STR(why.text, "it jumps to an address that it computes, at 0x1004");
	CHECK_EQ(FIND(2, NOP, RET_X1), -EOPNOTSUPP);
	CHECK_EQ(FIND(2, NOP, JUMP(100)), -EOPNOTSUPP);
	CHECK_STR(why.text, "it goes on where there is no code, at 0x1194");
	CHECK_EQ(FIND(2, CALL, BRK), -EOPNOTSUPP);
	CHECK_STR(why.text, "it does not return");
	CHECK_EQ(FIND(8, IF_ZERO(2), RET, IF_ZERO(2), RET, IF_ZERO(2), RET, NOP, RET), -E2BIG);

	/* Loops, also where the ends are unknown. */
	CHECK_EQ(FIND(2, IF_ZERO(0), RET), 0);
	CHECK(ends.loops);
	CHECK_EQ(FIND(3, NOP, JUMP(-1), RET), -EOPNOTSUPP);
	CHECK(ends.loops);
	CHECK_EQ(FIND(3, NOP, IF_ZERO(-1), BR_X16), -EOPNOTSUPP);
	CHECK(ends.loops);
	/* One within the function is none. */
	CHECK_EQ(FIND(3, NOP, IF_ZERO(0), RET), 0);
	CHECK(!ends.loops);
	return unit_end();
}
