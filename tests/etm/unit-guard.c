/* SPDX-License-Identifier: MIT */
/*
 * lib/etm/guard.c and the OpenCSD engine: a crash of OpenCSD costs the rest of a piece; a crash of our own code ends
 * the process.
 */
#include "config.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <opencsd/c_api/opencsd_c_api.h>

#include "daemon/decode/cage.h"
#include "lib/base/util.h"
#include "lib/etm/engine.h"
#include "lib/etm/guard.h"
#include "tests/unit.h"

/* Replaces OpenCSD's function (ld --wrap). */
ocsd_datapath_resp_t __real_ocsd_dt_process_data(const dcd_tree_handle_t tree, const ocsd_datapath_op_t op,
						 const ocsd_trc_index_t index, const uint32_t size, const uint8_t *data,
						 uint32_t *used);
ocsd_datapath_resp_t __wrap_ocsd_dt_process_data(const dcd_tree_handle_t tree, const ocsd_datapath_op_t op,
						 const ocsd_trc_index_t index, const uint32_t size, const uint8_t *data,
						 uint32_t *used);

uint32_t __real_ocsd_get_version(void);
uint32_t __wrap_ocsd_get_version(void);

static uint32_t version; /* 0: the real one */

uint32_t __wrap_ocsd_get_version(void)
{
	return version ? version : __real_ocsd_get_version();
}

static unsigned calls, crash_at, ranges, lost, no_image;
static uint64_t bytes_read;
static bool endless; /* code without a branch */

ocsd_datapath_resp_t __wrap_ocsd_dt_process_data(const dcd_tree_handle_t tree, const ocsd_datapath_op_t op,
						 const ocsd_trc_index_t index, const uint32_t size, const uint8_t *data,
						 uint32_t *used)
{
	if (++calls == crash_at)
		raise(SIGSEGV);
	return __real_ocsd_dt_process_data(tree, op, index, size, data, used);
}

static size_t read_code(void *user, const struct engine_context *context, uint64_t address, void *ret, size_t size)
{
	static const uint32_t loop[] = { 0xd503201f, 0x17ffffff };

	bytes_read += endless ? size : 0;
	if (endless) {
		for (size_t i = 0; i < size; i++)
			((uint8_t *)ret)[i] = ((const uint8_t *)loop)[(address + i) % 4];
		return size;
	}
	if (address < 0x400000 || address >= 0x400008)
		return 0;
	size = MIN(size, (size_t)(0x400008 - address));
	memcpy(ret, (const uint8_t *)loop + (address - 0x400000), size);
	return size;
}

static int count(void *user, const struct element *e)
{
	bool *crash = user;

	ranges += e->kind == ELEM_RANGE;
	no_image += e->kind == ELEM_NO_IMAGE;
	lost += e->kind == ELEM_NO_SYNC && e->reason == REASON_UNDEFINED;
	if (*crash && e->kind == ELEM_RANGE)
		raise(SIGSEGV);
	return 0;
}

static struct engine_stats decode(bool crash_in_sink)
{
	static const uint8_t trace[] = { 0, 0, 0,    0, 0, 0,    0, 0, 0, 0, 0, 0x80, 1,
					 0, 4, 0x85, 0, 0, 0x40, 0, 0, 0, 0, 0, 0x30 };
	static const uint8_t more[] = { 0xf7, 0xf7, 0xf7, 0xf7 };
	const struct engine_config config = { .protocol = PROTOCOL_ETMV4,
					      .trace_id = 0x10,
					      .configr = 1,
					      .idr0 = 0x28000ea1,
					      .idr1 = 0x4100f403,
					      .idr2 = 0x488 };
	const struct engine_memory memory = { .read = read_code };
	const struct element_sink sink = { count, &crash_in_sink };
	struct engine_stats stats = { 0 };
	struct engine *e;

	calls = ranges = lost = no_image = 0;
	if (!CHECK_EQ(opencsd_engine_ops.open(&config, &memory, &sink, &e), 0))
		return stats;
	CHECK_EQ(opencsd_engine_ops.push(e, trace, sizeof(trace)), 0);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(opencsd_engine_ops.push(e, more, sizeof(more)), 0);
	CHECK_EQ(opencsd_engine_ops.finish(e), 0);
	opencsd_engine_ops.stats(e, &stats);
	CHECK_EQ(stats.bytes, sizeof(trace) + 3 * sizeof(more));
	opencsd_engine_ops.close(e);
	return stats;
}

/* True if what() ends a child process by the signal, or by a sanitizer that caught it. */
static bool dies(void (*what)(void), int signal)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		/* The child's checks are not counted, and a sanitizer's report is not part of the TAP output. */
		close(STDOUT_FILENO);
		close(STDERR_FILENO);
		what();
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid)
		return false;
	return WIFSIGNALED(status) ? WTERMSIG(status) == signal : UNDER_SANITIZER && WEXITSTATUS(status) != 0;
}

static void crash(void)
{
	raise(SIGSEGV);
}

static void crash_in_sink(void)
{
	decode(true);
}

static void test_lands(void)
{
	/* Volatile: the jump restores registers. */
	volatile int landed = 0;
	sigjmp_buf here;

	for (volatile int i = 0; i < 2; i++) {
		if (sigsetjmp(here, 1) != 0) {
			landed++;
			continue;
		}
		guard_set(&here);
		if (i == 0)
			crash();
		else
			abort();
	}
	CHECK_EQ(landed, 2);
	CHECK(guard_set(NULL) == NULL);
}

static void test_stuck(void)
{
	volatile int landed = 0;
	sigjmp_buf here;

	guard_watch(1);
	if (sigsetjmp(here, 1) != 0) {
		landed++;
	} else {
		guard_begin(&here);
		for (volatile unsigned i = 0;; i++)
			;
	}
	guard_watch(0);
	CHECK_EQ(landed, 1);
}

/* The library's structures are those of another minor version. */
static void test_version(void)
{
	const struct engine_config config = { .protocol = PROTOCOL_STM };
	const struct engine_memory memory = { 0 };
	const struct element_sink sink = { count, NULL };
	struct engine *e = NULL;
	const char *warning = NULL;

	version = __real_ocsd_get_version() + 0x100;
	CHECK(opencsd_engine_ops.open(&config, &memory, &sink, &e) == -ELIBBAD);
	opencsd_version(&warning);
	CHECK(warning && strstr(warning, "built again"));
	version = __real_ocsd_get_version() ^ 1;
	CHECK(opencsd_engine_ops.open(&config, &memory, &sink, &e) == 0);
	e = opencsd_engine_ops.close(e);
	version = 0;
}

int main(void)
{
	struct engine_stats stats;

	guard_install();
	test_version();
	test_lands();
	test_stuck();
	CHECK(dies(abort, SIGABRT));
	CHECK(dies(crash, SIGSEGV));
	crash_at = 0;
	stats = decode(false);
	CHECK_EQ(stats.crashes, 0);
	CHECK_EQ(ranges, 12);
	crash_at = 3;
	stats = decode(false);
	CHECK_EQ(stats.crashes, 1);
	CHECK_EQ(lost, 1);
	CHECK_EQ(ranges, 4);
	CHECK_EQ(calls, 3);
	crash_at = 0;
	CHECK(dies(crash_in_sink, SIGSEGV));
	CHECK_EQ(decode(false).crashes, 0);
	/* The limit on walked code applies again to each packet. */
	endless = true;
	CHECK_EQ(decode(false).crashes, 0);
	CHECK(no_image > 0);
	CHECK(bytes_read > 4096 && bytes_read < 8 << 20);
	return unit_end();
}
