/*
 * What harnesses share. A harness is LLVMFuzzerTestOneInput() and fuzz_seeds(), which makes the inputs that it starts
 * from; nothing of others is needed. `make fuzz` builds and runs them all, `make fuzz FUZZ=NAME FUZZ_SECONDS=N` one of
 * them.
 */
#ifndef CSIGHT_TESTS_FUZZ_H
#define CSIGHT_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/etm/engine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* Calls fuzz_seed() for each. */
void fuzz_seeds(void);
void fuzz_seed(const void *data, size_t size);
void fuzz_seed_fd(int fd);

/* A file of these bytes; the caller closes it. */
int fuzz_fd(const void *data, size_t size);

/* What must hold whatever the input. */
void fuzz_require(bool holds);

/* OpenCSD's crashes are its own. Called by a run, as libFuzzer's handlers must be there before. */
void fuzz_guard(void);

enum { FUZZ_PID = 4000, FUZZ_BASE = 0x400000, FUZZ_CODE_WORDS = 16, FUZZ_TRACE_MAX = 4096 };

/* A program of branches of all kinds, and an ETMv4 trace of it that the emulator's encoder writes. */
extern const uint32_t fuzz_code[FUZZ_CODE_WORDS];
size_t fuzz_trace(uint8_t ret[FUZZ_TRACE_MAX]);
struct engine_config fuzz_etmv4(void);

/* That program everywhere but where bit 20 of the address is set, ending with each page; another version each tick. */
size_t fuzz_read_code(void *user, const struct engine_context *context, uint64_t address, void *ret, size_t size);
uint64_t fuzz_version(void *user, const struct engine_context *context);

/* A perf.data with that trace, of one thread; the caller closes it. */
int fuzz_perfdata(void);

#endif
