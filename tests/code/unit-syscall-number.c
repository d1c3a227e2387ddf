/* SPDX-License-Identifier: MIT */
/* Numbers of system calls from code. The instructions were assembled by aarch64-linux-gnu-as. */
#include "lib/base/util.h"
#include "lib/code/syscall-number.h"
#include "tests/unit.h"

enum {
	MOV_W8_98 = 0x52800c48,
	MOV_X8_64 = 0xd2800808,
	MOV_X8_X0 = 0xaa0003e8,
	MOV_X0_1 = 0xd2800020,
	LDP_X7_X8 = 0xa9402027,    /* ldp x7, x8, [x1] */
	LDR_X1_X8_UP = 0xf8408501, /* ldr x1, [x8], #8 */
	STR_X1 = 0xf9000041,       /* str x1, [x2] */
	SVC = 0xd4000001,
	CBZ_2 = 0xb4000040, /* cbz x0, .+8 */
	CBZ_4 = 0xb4000080, /* cbz x0, .+16 */
	B_2 = 0x14000002,   /* b .+8 */
	BL_2 = 0x94000002,
	RET = 0xd65f03c0,
	NOP = 0xd503201f,
};

#define NUMBER(svc, ...) syscall_number((const uint32_t[]){ __VA_ARGS__ }, ELEMENTS(((uint32_t[]){ __VA_ARGS__ })), svc)

int main(void)
{
	CHECK_EQ(NUMBER(1, MOV_W8_98, SVC, RET), 98);
	CHECK_EQ(NUMBER(4, MOV_X8_64, MOV_X0_1, STR_X1, NOP, SVC), 64);
	/* The kernel preserves X8, and a branch that is not taken changes nothing. */
	CHECK_EQ(NUMBER(3, MOV_X8_64, SVC, CBZ_4, SVC), 64);
	CHECK_EQ(NUMBER(2, MOV_W8_98, MOV_X8_64, SVC), 64);
	/* Not a constant, or changed after it. */
	CHECK_EQ(NUMBER(1, MOV_X8_X0, SVC), -1);
	CHECK_EQ(NUMBER(2, MOV_W8_98, MOV_X8_X0, SVC), -1);
	CHECK_EQ(NUMBER(2, MOV_W8_98, LDP_X7_X8, SVC), -1);
	CHECK_EQ(NUMBER(2, MOV_W8_98, LDR_X1_X8_UP, SVC), -1);
	/* A call may change it; code after a jump or a return is reached from elsewhere. */
	CHECK_EQ(NUMBER(2, MOV_W8_98, BL_2, SVC), -1);
	CHECK_EQ(NUMBER(2, MOV_W8_98, RET, SVC), -1);
	CHECK_EQ(NUMBER(2, MOV_W8_98, B_2, SVC), -1);
	/* Another path leads to the SVC without the assignment. */
	CHECK_EQ(NUMBER(2, CBZ_2, MOV_W8_98, SVC), -1);
	CHECK_EQ(NUMBER(1, SVC, SVC), -1);
	CHECK_EQ(NUMBER(1, MOV_W8_98, NOP), -1);
	CHECK_EQ(NUMBER(9, MOV_W8_98, SVC), -1);
	return unit_end();
}
