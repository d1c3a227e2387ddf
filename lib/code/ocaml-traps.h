/* SPDX-License-Identifier: MIT */
/*
 * OCaml exception handlers on AArch64. A function that catches exceptions pushes a trap (the handler's address and the
 * previous trap) before the guarded code and pops it afterwards. X26 points to the innermost trap. The innermost trap
 * at each instruction is determined from the machine code alone.
 */
#ifndef CSIGHT_CODE_OCAML_TRAPS_H
#define CSIGHT_CODE_OCAML_TRAPS_H

#include <stddef.h>
#include <stdint.h>

/*
 * Finds the handler of an exception that leaves the call before instruction `at` (the return address), as an index into
 * code[n]. 1: *ret is set; 0: the function has no trap there; -ENOMEM.
 */
int ocaml_traps_find(const uint32_t *code, size_t n, size_t at, size_t *ret);

#endif
