/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/emu/etm-encode.h"
#include "lib/etm/guard.h"
#include "lib/perfdata/format.h"
#include "lib/perfdata/write.h"
#include "tests/fuzz/fuzz.h"

static const char *seed_dir;
static unsigned seeds;

void fuzz_require(bool holds)
{
	if (!holds)
		abort();
}

int fuzz_fd(const void *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || io_pwrite(fd, data, size, 0) < 0)
		exit(EXIT_FAILURE);
	return fd;
}

unsigned fuzz_count_fds(void)
{
	_cleanup_closedir_ DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	while (dir && readdir(dir))
		n++;
	return n;
}

void fuzz_guard(void)
{
	static bool done;

	if (!done)
		guard_install();
	done = true;
}

void fuzz_seed(const void *data, size_t size)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/seed-%u", seed_dir, seeds++);
	f = fopen(path, "w");
	if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0) {
		perror(path);
		exit(EXIT_FAILURE);
	}
}

void fuzz_seed_fd(int fd)
{
	struct stat st;
	_cleanup_free_ char *text = NULL;

	fuzz_require(fd >= 0 && fstat(fd, &st) == 0);
	text = malloc((size_t)st.st_size + 1);
	fuzz_require(text && pread(fd, text, (size_t)st.st_size, 0) == st.st_size);
	fuzz_seed(text, (size_t)st.st_size);
}

void fuzz_add_part(struct buf *b, uint8_t flags, const void *text, size_t size)
{
	buf_u8(b, flags);
	buf_u8(b, (uint8_t)(size >> 8));
	buf_u8(b, (uint8_t)size);
	buf_add(b, text, size);
}

/*
 * A known bug of OpenCSD 1.3.3: in a lookup of the last four bytes of the address space, the end address wraps to 0,
 * every cached page matches, and OpenCSD copies from outside of it. Such crashes are ignored.
 */
const char *__asan_default_suppressions(void);
const char *__asan_default_suppressions(void)
{
	return "interceptor_via_lib:libopencsd\n";
}

/* With FUZZ_SEEDS=DIR in its environment a harness writes its seeds to DIR and exits. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	seed_dir = getenv("FUZZ_SEEDS");
	if (!seed_dir)
		return 0;
	fuzz_seeds();
	exit(EXIT_SUCCESS);
}

const uint32_t fuzz_code[FUZZ_CODE_WORDS] = {
	0xd503201f, /*  0: nop */
	0x54000040, /*  4: b.eq c */
	0xd503201f, /*  8: nop */
	0x94000005, /*  c: bl 20 */
	0xb4ffffa0, /* 10: cbz x0, 4 */
	0xd63f0000, /* 14: blr x0 */
	0xd4000001, /* 18: svc 0 */
	0x17fffff9, /* 1c: b 0 */
	0x37000040, /* 20: tbnz w0, 0, 28 */
	0xd503201f, /* 24: nop */
	0xd65f03c0, /* 28: ret */
	0xd61f0000, /* 2c: br x0 */
	0xd503201f, /* 30: nop */
	0xd69f03e0, /* 34: eret */
	0xd5033fdf, /* 38: isb */
	0x14000000, /* 3c: b 3c */
};

/* Three iterations of its loop, with a call, an exception, and a jump to an address without code. */
size_t fuzz_trace(uint8_t ret[FUZZ_TRACE_MAX])
{
	struct etm e;

	etm_init(&e, ret, FUZZ_TRACE_MAX, true, FUZZ_PID);
	etm_sync(&e, 100, FUZZ_BASE, true);
	for (uint64_t i = 0; i < 3; i++) {
		etm_atom(&e, i & 1);
		etm_branch(&e, FUZZ_BASE + 0x10);
		etm_atom(&e, true);
		etm_indirect(&e, FUZZ_BASE + 0x10, 0);
		etm_atom(&e, false);
		etm_indirect(&e, FUZZ_BASE + 0x24, FUZZ_BASE + 0x18);
		etm_indirect(&e, FUZZ_BASE + 0x18, 0);
		etm_exception(&e, ETM_CALL, FUZZ_BASE + 0x1c, false);
		etm_timestamp(&e, 200 + i);
		etm_trace_on(&e, FUZZ_BASE + 0x1c);
		etm_branch(&e, 0);
		etm_sync(&e, 300 + i, FUZZ_BASE, false);
	}
	etm_branch(&e, 0);
	etm_branch(&e, FUZZ_BASE + 0x10);
	etm_atom(&e, true);
	etm_indirect(&e, 0x500000, 0);
	etm_exception(&e, ETM_INST_FAULT, 0x500000, true);
	etm_flush(&e);
	return e.head;
}

struct engine_config fuzz_etmv4(void)
{
	struct emu_regs regs;

	etm_regs(true, &regs);
	return (struct engine_config){ .protocol = PROTOCOL_ETMV4,
				       .trace_id = (uint8_t)regs.traceidr,
				       .configr = regs.configr,
				       .traceidr = regs.traceidr,
				       .idr0 = regs.idr0,
				       .idr1 = regs.idr1,
				       .idr2 = regs.idr2,
				       .idr8 = regs.idr8 };
}

int fuzz_perfdata(void)
{
	struct engine_config c = fuzz_etmv4();
	struct pd_cpu cpu = { PD_MAGIC_ETMV4, 0, 7, { c.configr, c.traceidr, c.idr0, c.idr1, c.idr2, c.idr8, 0xcc } };
	const struct pd_event counters[] = { { .name = "cycles:u", .rate = 1000 },
					     { .name = PD_FREQUENCY_NAME, .type = 1, .config = 9, .period = 1 },
					     { .name = "power:cpu_frequency", .type = 2, .config = 300, .period = 1 } };
	struct pd_session session = { "host", "6.1", "aarch64", "prog", 8, 0, true, &cpu, 1, counters, 3 };
	struct pd_map map = { .pid = FUZZ_PID,
			      .tid = FUZZ_PID,
			      .addr = FUZZ_BASE,
			      .len = 0x1000,
			      .prot = 5,
			      .inode = 7,
			      .path = "/bin/prog",
			      .time = 10 };
	uint8_t trace[FUZZ_TRACE_MAX];
	size_t size = fuzz_trace(trace);
	struct pd_aux aux = { 0, size, PD_AUX_RAW | PD_AUX_OVERWRITE, FUZZ_PID, FUZZ_PID, UINT32_MAX, 500 };
	struct pd_buffer buffer = { .size = size, .reference = 1, .tid = FUZZ_PID, .cpu = UINT32_MAX };
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct pd_writer *w = NULL;

	fuzz_require(fd >= 0 && pd_write_begin(fd, &session, &w) == 0);
	pd_write_comm(w, FUZZ_PID, FUZZ_PID, "prog", true, 5);
	pd_write_task(w, &(struct pd_task){ FUZZ_PID, FUZZ_PID, FUZZ_PID + 1, FUZZ_PID, false, 6 });
	pd_write_map(w, &map);
	map.build_id_size = PD_BUILD_ID_MAX;
	map.addr += 0x10000;
	pd_write_map(w, &map);
	pd_write_itrace_start(w, FUZZ_PID, FUZZ_PID, UINT32_MAX, 11);
	for (uint32_t i = 0; i < 3; i++)
		pd_write_sample(w, &(struct pd_sample){ i, { FUZZ_PID, FUZZ_PID, 0, 100 + i }, 1000 });
	pd_write_aux(w, &aux);
	pd_write_task(w, &(struct pd_task){ FUZZ_PID, FUZZ_PID, FUZZ_PID + 1, FUZZ_PID, true, 600 });
	pd_write_buffer(w, &buffer);
	pd_write_bytes(w, trace, size);
	fuzz_require(pd_write_end(w) == 0);
	pd_writer_free(w);
	return fd;
}

struct emu_slot *fuzz_rings(uint8_t *map, size_t size)
{
	struct emu_header *h = (struct emu_header *)map;
	size_t watching = ALIGN8(sizeof(*h)), slots = watching + sizeof(struct emu_watching),
	       log = slots + 4 * sizeof(struct emu_slot);

	*h = (struct emu_header){ .magic = EMU_MAGIC,
				  .version = EMU_VERSION,
				  .header_size = sizeof(*h),
				  .total_size = size,
				  .n_rings = 4,
				  .slot_size = sizeof(struct emu_slot),
				  .watching_offset = watching,
				  .slots_offset = slots,
				  .log_offset = log,
				  .log_size = 1024,
				  .rings_offset = 192 << 10,
				  .ring_size = 64 << 10,
				  .pid = FUZZ_PID,
				  .name = "prog" };
	return (struct emu_slot *)(map + slots);
}

size_t fuzz_read_code(void *user, const struct engine_context *context, uint64_t address, void *ret, size_t size)
{
	enum { PAGE = 4096 };

	if (address >> 20 & 1)
		return 0;
	size = MIN(size, (size_t)(PAGE - address % PAGE));
	for (size_t i = 0; i < size; i++)
		((uint8_t *)ret)[i] = ((const uint8_t *)fuzz_code)[(address + i) % sizeof(fuzz_code)];
	return size;
}

uint64_t fuzz_version(void *user, const struct engine_context *context)
{
	return context->has_time ? context->time & 1 : 0;
}
