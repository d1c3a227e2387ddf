/* SPDX-License-Identifier: MIT */
/*
 * Shared by the fuzz harnesses. A harness defines LLVMFuzzerTestOneInput() and fuzz_seeds(), which generates its seed
 * inputs. `make fuzz` builds and runs all harnesses, `make fuzz FUZZ=NAME FUZZ_SECONDS=N` one of them.
 */
#ifndef CSIGHT_TESTS_FUZZ_H
#define CSIGHT_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/emu/ring.h"
#include "lib/etm/engine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* Calls fuzz_seed() for each seed input. */
void fuzz_seeds(void);
void fuzz_seed(const void *data, size_t size);
void fuzz_seed_fd(int fd);

/* Appends what harnesses read as a message: a byte of flags, a byte and the next for the length, the text. */
void fuzz_add_part(struct buf *b, uint8_t flags, const void *text, size_t size);

/* Creates an anonymous file with these bytes; the caller closes it. */
int fuzz_fd(const void *data, size_t size);

/* Aborts if the condition, which must hold for any input, is false. */
void fuzz_require(bool holds);

/* Returns the number of descriptors that are open: what an input opens is closed at its end. */
unsigned fuzz_count_fds(void);

/*
 * Ignores crashes inside OpenCSD. Called at the first input, since libFuzzer must have installed its signal handlers.
 */
void fuzz_guard(void);

enum { FUZZ_PID = 4000, FUZZ_BASE = 0x400000, FUZZ_CODE_WORDS = 16, FUZZ_TRACE_MAX = 4096 };

/* A program with all kinds of branches, and an ETMv4 trace of it by the encoder of the emulated trace unit. */
extern const uint32_t fuzz_code[FUZZ_CODE_WORDS];
size_t fuzz_trace(uint8_t ret[FUZZ_TRACE_MAX]);
struct engine_config fuzz_etmv4(void);

/*
 * Writes the header of shared memory of a program under the emulated trace unit: four rings of 64 KiB, of which none is
 * in use. Returns their slots.
 */
struct emu_slot *fuzz_rings(uint8_t *map, size_t size);

/* Memory that repeats the program in every page, except where bit 20 of the address is set; a new version each tick. */
size_t fuzz_read_code(void *user, const struct engine_context *context, uint64_t address, void *ret, size_t size);
uint64_t fuzz_version(void *user, const struct engine_context *context);

/* Creates a perf.data file with that trace, of one thread; the caller closes it. */
int fuzz_perfdata(void);

#endif
