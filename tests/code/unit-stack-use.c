/* SPDX-License-Identifier: MIT */
/* lib/code/stack-use.c: which code leaves its frame by another stack pointer. */
#include "lib/base/util.h"
#include "lib/code/stack-use.h"
#include "lib/code/unwind.h"
#include "tests/unit.h"

enum {
	LDR_X1_X23 = 0xf9402ae1,   /* ldr x1, [x23, #80] */
	LDR_X1_SP = 0xf94007e1,    /* ldr x1, [sp, #8] */
	LDR_X21_SP = 0xf94007f5,   /* ldr x21, [sp, #8] */
	LDP_X29 = 0xa8c17bfd,      /* ldp x29, x30, [sp], #16 */
	AND_SP_X1 = 0x927ef43f,    /* and sp, x1, #-4 */
	MOV_SP_X1 = 0x9100003f,    /* mov sp, x1 */
	MOV_SP_X29 = 0x910003bf,   /* mov sp, x29 */
	MOV_SP_X19 = 0x9100027f,   /* mov sp, x19 */
	MOV_X19_SP = 0x910003f3,   /* mov x19, sp */
	SUB_X9_SP = 0xd10143e9,    /* sub x9, sp, #80 */
	AND_SP_X9 = 0x927be93f,    /* and sp, x9, #-32 */
	ADD_SP_SP_X4 = 0x8b2463ff, /* add sp, sp, x4 */
	MOV_W4 = 0x52800204,       /* mov w4, #16 */
	LDR_X5_X0 = 0xf9403405,    /* ldr x5, [x0, #104] */
	LDUR_X1_X0 = 0xf85f8001,   /* ldur x1, [x0, #-8] */
	NOP = 0xd503201f,
	RET = 0xd65f03c0,
};

#define FLAGS(...) stack_use_flags((const uint32_t[]){ __VA_ARGS__ }, sizeof((const uint32_t[]){ __VA_ARGS__ }) / 4)

int main(void)
{
	/* LuaJIT's exit handler continues the interpreter. */
	CHECK_EQ(FLAGS(LDR_X1_X23, LDR_X21_SP, AND_SP_X1, LDR_X21_SP), UNWIND_LOADS_STACK);
	CHECK_EQ(FLAGS(LDUR_X1_X0, MOV_SP_X1), UNWIND_LOADS_STACK | UNWIND_SETS_STACK);
	/* A register that is not the one loaded, is loaded from the frame, or too long before. */
	CHECK_EQ(FLAGS(LDR_X5_X0, MOV_SP_X1), UNWIND_SETS_STACK);
	CHECK_EQ(FLAGS(LDR_X1_SP, AND_SP_X1), 0);
	CHECK_EQ(FLAGS(LDR_X1_X23, NOP, NOP, NOP, NOP, NOP, NOP, NOP, NOP, AND_SP_X1), 0);
	/* Frames with alignment, of variable size, and large ones. */
	CHECK_EQ(FLAGS(SUB_X9_SP, AND_SP_X9), 0);
	CHECK_EQ(FLAGS(MOV_SP_X29, LDP_X29, RET), 0);
	CHECK_EQ(FLAGS(MOV_X19_SP, MOV_SP_X19), UNWIND_SETS_STACK | UNWIND_SAVES_STACK);
	CHECK_EQ(FLAGS(MOV_W4, ADD_SP_SP_X4), 0);
	/* An unwinder. */
	CHECK_EQ(FLAGS(NOP, ADD_SP_SP_X4), UNWIND_SETS_STACK);
	return unit_end();
}
