/*
 * OCaml's exceptions on AArch64: a function that catches pushes a trap, the handler's address and the trap before it,
 * and pops it behind what it guards; x26 has the last one. Which trap is the last at any of its instructions follows
 * from the code alone.
 */
#ifndef CSIGHT_CODE_OCAML_TRAPS_H
#define CSIGHT_CODE_OCAML_TRAPS_H

#include <stddef.h>
#include <stdint.h>

/* The handler of the last trap at instruction `at`, as an index into the code. 1: *ret; 0: there is none; -ENOMEM. */
int ocaml_traps_find(const uint32_t *code, size_t n, size_t at, size_t *ret);

#endif
