/* SPDX-License-Identifier: MIT */
/*
 * csight-kernel: the copy of a made-up kernel's code has its bytes, those of modules, and their names, and no other
 * memory, none of BPF programs; daemon/capture/perf/kernel-code.c gets it from the program.
 */
#include "config.h"

#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "daemon/capture/perf/kernel-code.h"
#include "daemon/kernel/kernel-copy.h"
#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "lib/code/debug-file.h"
#include "lib/code/image.h"
#include "lib/code/kallsyms.h"
#include "lib/code/symbols.h"
#include "tests/unit.h"

#define OWN 0xffff800008010000ull    /* the kernel's own code, which takes several reads, and data behind it */
#define MODULE 0xffff800001200000ull /* a module: code of two pages, then data */
#define BPF 0xffff800001c00000ull    /* a page of BPF programs */
enum { N_SEGMENTS = 3, OWN_CODE = 600 * 4096 - 64 };
enum { PAGE = 4096, OWN_CODE_PAGES = 600, OWN_PAGES = OWN_CODE_PAGES + 3, MODULE_PAGES = 6, BPF_PAGES = 1 };

static char work[] = "/tmp/csight-kernel-XXXXXX";

static const struct {
	uint64_t address;
	unsigned pages;
} memory[N_SEGMENTS] = { { MODULE, MODULE_PAGES }, { BPF, BPF_PAGES }, { OWN, OWN_PAGES } };

/* The stub of a module: adrp x16, 0x1000; add x16, x16, #8; br x16 */
static const uint32_t stub[] = { 0xb0000010, 0x91002210, 0xd61f0200 };
#define STUB (MODULE + PAGE + 0x100)

/* The trampoline of kpti: vectors, and the exit in the page behind them; and where both run. */
#define VECTORS (OWN + OWN_CODE_PAGES * PAGE)
#define EXIT (VECTORS + PAGE + 0x38)
#define RUNS_AT 0xfffffbfffdbf6000ull
#define RET_TO_USER (OWN + 0x100)

static const uint32_t vector[] = { 0xd51bd07e }; /* msr tpidrro_el0, x30 */
static const uint32_t way_out[] = { 0xd518203d, 0xd538601d,
				    0xd69f03e0 }; /* msr ttbr1_el1, x29; mrs x29, far_el1; eret */
/* mov x30, RUNS_AT + PAGE + 0x38; br x30 */
static const uint32_t by_constant[] = { 0xd503201f, 0x92c0801e, 0xf2bfb7fe, 0xf28e071e, 0xd61f03c0 };
/* mov x30, RUNS_AT; adrp and add x29, EXIT; add x30, x30, x29; adrp and add x29, VECTORS; sub x30, x30, x29; br x30 */
static const uint32_t by_distance[] = { 0x92c0801e, 0xf2bfb7fe, 0xf28c001e, 0xb00012dd, 0x9100e3bd,
					0x8b1d03de, 0x900012dd, 0x910003bd, 0xcb1d03de, 0xd61f03c0 };
/* mov x29, RUNS_AT + PAGE + 0x38; msr vbar_el1, x30; ldr x30, [sp, #240]; add sp, sp, #336; br x29 */
static const uint32_t by_restoring[] = { 0x92c0801d, 0xf2bfb7fd, 0xf28e071d, 0xd518c01e,
					 0xf9407bfe, 0x910543ff, 0xd61f03a0 };
/* mov x29, RUNS_AT + PAGE + 0x38; ldp x28, x29, [sp]; br x29. And with a branch between them. */
static const uint32_t by_load[] = { 0x92c0801d, 0xf2bfb7fd, 0xf28e071d, 0xa94077fc, 0xd61f03a0 },
		      behind_branch[] = { 0x92c0801d, 0xf2bfb7fd, 0xf28e071d, 0x94000001, 0xd61f03a0 };
static const uint32_t *leaving; /* code of ret_to_user; NULL: there is no trampoline */
static size_t leaving_size;

static bool is_within(uint64_t address, uint64_t start, size_t size)
{
	return address >= start && address - start < size;
}

/* Every other word of the made-up memory differs. */
static uint32_t word_at(uint64_t address)
{
	if (leaving && is_within(address, RET_TO_USER, leaving_size))
		return leaving[(address - RET_TO_USER) / 4];
	if (leaving && is_within(address, VECTORS + 0x400, sizeof(vector)))
		return vector[0];
	if (leaving && is_within(address, EXIT, sizeof(way_out)))
		return way_out[(address - EXIT) / 4];
	if (address >= RUNS_AT)
		return word_at(address - RUNS_AT + VECTORS);
	if (address >= STUB && address - STUB < sizeof(stub))
		return stub[(address - STUB) / 4];
	return (uint32_t)(address * 2654435761u >> 2 ^ address >> 32);
}

static void write_file(const char *name, const void *data, size_t size)
{
	_cleanup_close_ int dir = open(work, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (io_write_file(dir, name, data, size, 0600) < 0)
		abort();
}

/* without: the number of a segment that the file lacks. */
static void make_kcore(unsigned without)
{
	_cleanup_buf_ struct buf b = { 0 };
	Elf64_Ehdr header = { .e_type = ET_CORE,
			      .e_machine = EM_AARCH64,
			      .e_version = EV_CURRENT,
			      .e_phoff = sizeof(header),
			      .e_ehsize = sizeof(header),
			      .e_phentsize = sizeof(Elf64_Phdr),
			      .e_phnum = (Elf64_Half)(N_SEGMENTS - (without < N_SEGMENTS)) };
	uint64_t offset = PAGE;

	memcpy(header.e_ident, ELFMAG, SELFMAG);
	header.e_ident[EI_CLASS] = ELFCLASS64;
	header.e_ident[EI_DATA] = ELFDATA2LSB;
	header.e_ident[EI_VERSION] = EV_CURRENT;
	buf_add(&b, &header, sizeof(header));
	for (unsigned i = 0; i < N_SEGMENTS; i++) {
		const Elf64_Phdr load = { .p_type = PT_LOAD,
					  .p_flags = PF_R | PF_W | PF_X,
					  .p_offset = offset,
					  .p_vaddr = memory[i].address,
					  .p_filesz = memory[i].pages * (uint64_t)PAGE,
					  .p_memsz = memory[i].pages * (uint64_t)PAGE };

		if (i == without)
			continue;
		buf_add(&b, &load, sizeof(load));
		offset += load.p_filesz;
	}
	buf_zero(&b, PAGE - b.size);
	for (unsigned i = 0; i < N_SEGMENTS; i++)
		for (uint64_t at = 0; i != without && at < memory[i].pages * (uint64_t)PAGE; at += 4)
			buf_u32(&b, word_at(memory[i].address + at));
	write_file("kcore", b.data, b.size);
}

static void make_names(const char *fmt, ...) _printf_(1, 2);
static void make_names(const char *fmt, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list args;

	va_start(args, fmt);
	if (vasprintf(&text, fmt, args) < 0)
		abort();
	va_end(args);
	write_file("kallsyms", text, strlen(text));
}

/* Not in the order of addresses, as the kernel lists modules behind itself. */
static void make_usual_names(void)
{
	make_names("%llx t head\n%llx T _stext\n%llx T first\n%llx t second\n%llx D _etext\n%llx d table\n"
		   "%llx T freed_init\n"
		   "%llx t mod_run\t[mod]\n%llx t $x\t[mod]\n%llx T mod_last\t[mod]\n%llx d mod_data\t[mod]\n"
		   "%llx t bpf_prog_1\t[bpf]\n",
		   OWN - PAGE, OWN, OWN, OWN + 0x1000, OWN + OWN_CODE, OWN + (OWN_CODE_PAGES + 1) * PAGE,
		   OWN + (OWN_CODE_PAGES + 2) * PAGE, MODULE + 0x40, MODULE + 0x44, MODULE + PAGE + 0x10,
		   MODULE + 3 * PAGE, BPF + 0x80);
}

/* Returns how many bytes of the copy are known at an address, 0 if one of them is wrong. */
static size_t known_at(struct image_set *s, uint64_t address, size_t size)
{
	uint8_t *got = malloc(size);
	size_t n = image_read(s, 1, address, UINT64_MAX, got, size);

	for (size_t i = 0; i + 4 <= n; i += 4) {
		uint32_t want = word_at(address + i);

		if (memcmp(got + i, &want, 4) != 0)
			n = 0;
	}
	free(got);
	return n;
}

static void check_name(struct image_set *s, const struct symbols *names, uint64_t address, const char *want)
{
	struct symbols_at at = { 0 };
	uint64_t offset = 0;
	uint32_t file;

	CHECK(image_locate(s, 1, address, UINT64_MAX, &file, &offset));
	symbols_find(names, offset, &at);
	CHECK_STR(at.name ? at.name : "", want);
}

static void check_names(struct image_set *s, const struct symbols *names)
{
	check_name(s, names, OWN, "first");
	check_name(s, names, OWN + 0xffc, "first");
	check_name(s, names, OWN + 0x1000, "second");
	check_name(s, names, OWN + OWN_CODE - 4, "second");
	check_name(s, names, OWN + OWN_CODE, "");
	check_name(s, names, MODULE + 0x40, "mod_run");
	check_name(s, names, MODULE + 0x48, "mod_run");
	check_name(s, names, MODULE + PAGE + 0x10, "mod_last");
	check_name(s, names, STUB - 4, "mod_last");
	check_name(s, names, STUB, "[plt]");
	check_name(s, names, STUB + 8, "[plt]");
}

static void check_copy(int fd, uint64_t size)
{
	_cleanup_(image_set_freep) struct image_set *s = NULL;
	_cleanup_(symbols_freep) struct symbols *names = NULL;
	struct stat st = { 0 };
	uint32_t file = 0;

	CHECK(fstat(fd, &st) == 0 && (uint64_t)st.st_size == size);
	CHECK_EQ(pwrite(fd, "", 1, 0), -1);
	CHECK_EQ(symbols_load(fd, &names), 0);
	CHECK(image_set_new(&s) == 0 && image_file_add(s, "[kernel.kallsyms]", NULL, 0, 0, &file) == 0);
	image_file_attach(s, file, fcntl(fd, F_DUPFD_CLOEXEC, 3), NULL);
	CHECK_EQ(image_map_elf(s, 1, file, "_stext", OWN, NULL), 0);
	CHECK_EQ(image_seal(s), 0);
	CHECK_EQ(known_at(s, OWN, OWN_CODE_PAGES * PAGE), OWN_CODE_PAGES * PAGE);
	CHECK_EQ(known_at(s, MODULE, 2 * PAGE), 2 * PAGE);
	/* BPF programs come and go. */
	CHECK_EQ(known_at(s, BPF, PAGE), 0);
	/* No data: the pages behind code are unknown. */
	CHECK_EQ(known_at(s, OWN + OWN_CODE_PAGES * PAGE, 4), 0);
	CHECK_EQ(known_at(s, OWN + (OWN_CODE_PAGES + 2) * PAGE, 4), 0);
	CHECK_EQ(known_at(s, MODULE + 4 * PAGE, 4), 0);
	check_names(s, names);
}

static void check_refused(int error, const char *text)
{
	struct kernel_copy copy = { .fd = -1 };
	struct reason why = { "" };

	CHECK_EQ(kernel_copy_make(work, &copy, &why), error);
	if (!CHECK(strstr(why.text, text) != NULL))
		printf("# %s\n", why.text);
	CHECK_EQ(copy.fd, -1);
}

static void test_copy(void)
{
	struct kernel_copy copy = { .fd = -1 };
	struct reason why = { "" };

	make_usual_names();
	make_kcore(UINT32_MAX);
	CHECK_EQ(kernel_copy_make(work, &copy, &why), 0);
	CHECK(copy.start == OWN && copy.length == OWN_CODE);
	check_copy(copy.fd, copy.size);
	closep(&copy.fd);
}

/* The trampoline has no symbol where it runs: that is found by the code that jumps there, if it does. */
static void test_trampoline(const uint32_t *code, size_t size, bool jumps)
{
	_cleanup_(image_set_freep) struct image_set *s = NULL;
	_cleanup_(symbols_freep) struct symbols *names = NULL;
	struct kernel_copy copy = { .fd = -1 };
	struct reason why = { "" };
	uint32_t file;

	leaving = code;
	leaving_size = size;
	make_kcore(UINT32_MAX);
	make_names("%llx T _stext\n%llx t ret_to_user\n%llx t second\n%llx D _etext\n", OWN, RET_TO_USER, OWN + 0x200,
		   OWN + OWN_CODE);
	CHECK_EQ(kernel_copy_make(work, &copy, &why), 0);
	CHECK_EQ(symbols_load(copy.fd, &names), 0);
	CHECK(image_set_new(&s) == 0 && image_file_add(s, "[kernel.kallsyms]", NULL, 0, 0, &file) == 0);
	image_file_attach(s, file, copy.fd, NULL);
	CHECK_EQ(image_map_elf(s, 1, file, "_stext", OWN, NULL), 0);
	CHECK_EQ(image_seal(s), 0);
	CHECK_EQ(known_at(s, OWN, PAGE), PAGE);
	CHECK_EQ(known_at(s, RUNS_AT, 2 * PAGE), jumps ? 2 * PAGE : 0);
	CHECK_EQ(known_at(s, RUNS_AT + 2 * PAGE, 4), 0);
	if (jumps) {
		check_name(s, names, RUNS_AT + 0x400, "tramp_vectors");
		check_name(s, names, RUNS_AT + PAGE + 0x38, "tramp_exit");
	}
	leaving = NULL;
	make_kcore(UINT32_MAX);
}

static void test_refusals(void)
{
	make_usual_names();
	make_kcore(2);
	check_refused(-ENODATA, "lacks the kernel's own code");
	make_kcore(UINT32_MAX);
	make_names("0000000000000000 T _stext\n0000000000000000 T _etext\n");
	check_refused(-EACCES, "kptr_restrict");
	make_names("%llx T _stext\n%llx T other\n", OWN, OWN + 64);
	check_refused(-EBADMSG, "_etext");
	make_names("%llx T _stext\n%llx T _etext\n", OWN, OWN + (1ull << 40));
	check_refused(-EFBIG, "MiB");
	make_names("what is this\n");
	check_refused(-EBADMSG, "/proc/kallsyms");
	write_file("kallsyms", "ffff800008010000 T _stext\n\0", 27);
	check_refused(-EBADMSG, "/proc/kallsyms");
	make_names("%s", "");
	check_refused(-EBADMSG, "_stext");
	write_file("kcore", "none", 4);
	make_usual_names();
	check_refused(-EBADMSG, "cannot copy");
	CHECK_EQ(chdir(work) || unlink("kcore"), 0);
	check_refused(-ENOENT, "CONFIG_PROC_KCORE");
}

static int open_work(const char *name)
{
	_cleanup_free_ char *path = NULL;

	return asprintf(&path, "%s/%s", work, name) < 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
}

/* perf record --kcore keeps the memory without symbols, and their list beside it. */
static void test_list_of_symbols(void)
{
	_cleanup_(image_set_freep) struct image_set *s = NULL;
	_cleanup_(symbols_freep) struct symbols *names = NULL, *none = NULL;
	_cleanup_close_ int kcore = -1, list = -1, text = -1, hidden = -1;
	struct debug_wanted wanted = { .kernel = false };
	uint64_t used = 0;
	uint32_t file = 0;

	make_usual_names();
	make_kcore(UINT32_MAX);
	kcore = open_work("kcore");
	list = open_work("kallsyms");
	write_file("text", "kallsyms?\n", 10);
	text = open_work("text");
	CHECK(debug_file_wanted(kcore, &wanted));
	CHECK_STR(wanted.link, "kallsyms");
	CHECK_EQ(debug_file_is(list, &wanted, &used), 1);
	CHECK(!debug_file_is(kcore, &wanted, &used) && !debug_file_is(text, &wanted, &used));
	CHECK_EQ(symbols_load_with(kcore, list, &names), 0);
	CHECK(image_set_new(&s) == 0 && image_file_add(s, "[kernel.kallsyms]", NULL, 0, 0, &file) == 0);
	image_file_attach(s, file, fcntl(kcore, F_DUPFD_CLOEXEC, 3), NULL);
	CHECK_EQ(image_map_elf(s, 1, file, "_stext", OWN, NULL), 0);
	CHECK_EQ(image_seal(s), 0);
	check_names(s, names);
	CHECK_EQ(symbols_load_with(kcore, text, &none), -ENODATA);
	make_names("0000000000000000 T _stext\n0000000000000000 T _etext\n");
	hidden = open_work("kallsyms");
	CHECK_EQ(symbols_load_with(kcore, hidden, &none), -ENODATA);
}

/* Code in more places than there may be segments: the closest are joined, and all of it is in one. */
static void test_many_places(void)
{
	enum { PLACES = 1000, MAX_RANGES = 256 };
	_cleanup_(kallsyms_done) struct kallsyms k = { 0 };
	_cleanup_free_ struct elf_core_segment *ranges = NULL;
	_cleanup_buf_ struct buf b = { 0 };
	struct reason why = { "" };
	size_t n = 0, held = 0;
	_cleanup_close_ int fd = -1;

	buf_printf(&b, "%llx T _stext\n%llx T _etext\n", OWN, OWN + OWN_CODE);
	for (unsigned i = 0; i < PLACES; i++)
		buf_printf(&b, "%llx t p%u\t[module]\n", BPF + i * (1ull << 16) * (1 + i % 7), i);
	write_file("kallsyms", b.data, b.size);
	CHECK_EQ(chdir(work), 0);
	fd = open("kallsyms", O_RDONLY | O_CLOEXEC);
	CHECK_EQ(kallsyms_read(fd, &k, &why), 0);
	CHECK_EQ(kallsyms_code(&k, MAX_RANGES, &ranges, &n), 0);
	CHECK(n > 1 && n <= MAX_RANGES);
	for (unsigned i = 0; i < PLACES; i++) {
		uint64_t address = BPF + i * (1ull << 16) * (1 + i % 7);

		for (size_t r = 0; r < n; r++)
			held += address >= ranges[r].address && address - ranges[r].address < ranges[r].size;
	}
	CHECK_EQ(held, PLACES);
}

static void test_program(void)
{
	_cleanup_free_ char *socket = NULL;
	struct capture_kernel got = { .size = 0 };
	struct reason why = { "" };
	struct kernel_code *k;
	int rc = -1;
	pid_t pid;

	make_kcore(UINT32_MAX);
	make_usual_names();
	if (asprintf(&socket, "%s/socket", work) < 0)
		abort();
	k = kernel_code_new(socket);
	CHECK_EQ(kernel_code_update(k, &why), -EOPNOTSUPP);
	CHECK_STR(why.text, "kernel: csight-kernel.socket cannot be reached: No such file or directory");
	CHECK_EQ(kernel_code_get(k, &got), -ENODATA);
	pid = fork();
	if (pid == 0) {
		const char *program = unit_built("csight-kernel");

		execl(program, program, "--socket", socket, "--proc", work, NULL);
		_exit(127);
	}
	for (int i = 0; rc < 0 && i < 1000; i++) {
		usleep(10000);
		rc = kernel_code_update(k, &why);
	}
	CHECK_EQ(rc, 0);
	CHECK_EQ(kernel_code_get(k, &got), 0);
	CHECK(got.start == OWN && got.length == OWN_CODE);
	check_copy(got.fd, got.size);
	closep(&got.fd);
	/* One copy serves until modules change; what is refused is refused with the cause. */
	make_names("0 T _stext\n0 T _etext\n");
	CHECK_EQ(kernel_code_update(k, &why), 0);
	kernel_code_free(k);
	k = kernel_code_new(socket);
	CHECK_EQ(kernel_code_update(k, &why), -EOPNOTSUPP);
	CHECK(strstr(why.text, "kernel: the kernel hides the addresses") != NULL);
	kernel_code_free(k);
	kill(pid, SIGTERM);
	waitpid(pid, NULL, 0);
}

int main(void)
{
	char command[128];

	if (!mkdtemp(work))
		return 1;
	test_copy();
	test_program();
	test_list_of_symbols();
	test_trampoline(by_constant, sizeof(by_constant), true);
	test_trampoline(by_distance, sizeof(by_distance), true);
	test_trampoline(by_restoring, sizeof(by_restoring), true);
	test_trampoline(by_load, sizeof(by_load), false);
	test_trampoline(behind_branch, sizeof(behind_branch), false);
	test_refusals();
	test_many_places();
	snprintf(command, sizeof(command), "rm -rf %s", work);
	return system(command) || unit_end();
}
