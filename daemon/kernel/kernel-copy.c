/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/kernel/kernel-copy.h"
#include "daemon/kernel/protocol.h"
#include "daemon/kernel/trampoline.h"
#include "lib/base/io.h"
#include "lib/code/elf.h"
#include "lib/code/kallsyms.h"

/* SEGMENTS_MAX: readers of ELF files resolve addresses in no more (ELF_LOADS_MAX of lib/code/elf-private.h). */
enum { SEGMENTS_MAX = 256, PIECE = 1 << 20, PAGE = 4096 };

static const char lockdown[] = "/sys/kernel/security/lockdown";

/* Explains why /proc/kcore cannot be opened. */
static int explain_kcore(int error, struct reason *why)
{
	_cleanup_close_ int fd = open(lockdown, O_RDONLY | O_CLOEXEC);
	char text[128] = "";
	ssize_t n = fd < 0 ? 0 : io_read(fd, text, sizeof(text) - 1);

	if (error == -EPERM && n > 0 && strstr(text, "[confidentiality]"))
		return reason_set(why, error, "the kernel's lockdown (confidentiality) forbids to read its memory");
	if (error == -ENOENT)
		return reason_set(why, error, "this kernel has no /proc/kcore (CONFIG_PROC_KCORE)");
	if (error == -EPERM || error == -EACCES)
		return reason_set(why, error, "/proc/kcore cannot be read: %s (CAP_SYS_RAWIO is needed)",
				  strerror(-error));
	return reason_set(why, error, "/proc/kcore cannot be read: %s", strerror(-error));
}

struct kcore {
	int fd;
	struct elf *elf;
};

/* Reads from one segment. Returns the number of bytes, 0 where there are none, or negative errno. */
static ssize_t read_kcore(const struct kcore *kcore, uint64_t address, void *ret, uint64_t size)
{
	uint64_t offset, left;

	if (elf_offset(kcore->elf, address, &offset, &left) < 0)
		return 0;
	return io_pread(kcore->fd, ret, (size_t)MIN(left, size), offset);
}

static size_t read_code(void *data, uint64_t address, void *ret, size_t size)
{
	ssize_t n = read_kcore(data, address, ret, size);

	return n > 0 ? (size_t)n : 0;
}

/* Copies memory at from to a range of the file; what kcore lacks stays zero. Returns the number of bytes copied, or
 * negative errno. */
static int64_t copy_range(const struct kcore *kcore, uint64_t from, const struct elf_core_segment *range, int to)
{
	_cleanup_free_ char *piece = malloc(PIECE);
	int64_t copied = 0;
	uint64_t step;

	if (!piece)
		return -ENOMEM;
	for (uint64_t done = 0; done < range->size; done += step) {
		ssize_t n = read_kcore(kcore, from + done, piece, MIN(range->size - done, (uint64_t)PIECE));
		int rc;

		step = n > 0 ? (uint64_t)n : PAGE;
		if (n == -EPERM)
			return n;
		if (n <= 0)
			continue;
		rc = io_pwrite(to, piece, (size_t)n, (off_t)(range->offset + done));
		if (rc < 0)
			return rc;
		copied += n;
	}
	return copied;
}

static int copy_code(const struct kcore *kcore, const struct elf_core *core, const struct kallsyms *k,
		     const struct trampoline *trampoline, int to, struct reason *why)
{
	for (size_t i = 0; i < core->n_segments; i++) {
		const struct elf_core_segment *range = &core->segments[i];
		bool own = range->address <= k->start && k->start - range->address < range->size;
		bool second = trampoline->size && range->address == trampoline->runs_at;
		int64_t n = copy_range(kcore, second ? trampoline->code : range->address, range, to);

		if (n == -EPERM)
			return explain_kcore((int)n, why);
		if (n < 0)
			return (int)n;
		if (own && (uint64_t)n < k->end - k->start)
			return reason_set(why, -ENODATA, "/proc/kcore lacks the kernel's own code");
	}
	return 0;
}

/* Adds the trampoline, where it runs, to the code. */
static int add_trampoline(const struct trampoline *t, struct elf_core *core)
{
	struct elf_core_segment *segments = reallocarray(core->segments, core->n_segments + 1, sizeof(*core->segments));
	struct elf_core_function *functions;

	if (!segments)
		return -ENOMEM;
	core->segments = segments;
	functions = reallocarray(core->functions, core->n_functions + 2, sizeof(*core->functions));
	if (!functions)
		return -ENOMEM;
	core->functions = functions;
	segments[core->n_segments++] = (struct elf_core_segment){ .address = t->runs_at, .size = t->size };
	functions[core->n_functions++] =
	    (struct elf_core_function){ .address = t->runs_at, .size = t->exit, .name = "tramp_vectors" };
	functions[core->n_functions++] = (struct elf_core_function){ .address = t->runs_at + t->exit,
								     .size = t->size - t->exit,
								     .name = "tramp_exit" };
	return 0;
}

static int find_code(const struct kcore *kcore, const struct kallsyms *k, struct elf_core *core, struct trampoline *ret)
{
	int rc = kallsyms_code(k, SEGMENTS_MAX - 1, &core->segments, &core->n_segments);

	if (rc == 0)
		rc = kallsyms_functions(k, &core->functions, &core->n_functions);
	if (rc == 0 && trampoline_find(k, read_code, (void *)kcore, ret))
		rc = add_trampoline(ret, core);
	return rc;
}

static int write_file(const struct kcore *kcore, const struct kallsyms *k, struct elf_core *core,
		      struct kernel_copy *ret, struct reason *why)
{
	struct trampoline trampoline = { 0 };
	_cleanup_close_ int fd = -1;
	uint64_t bytes = 0;
	int rc = find_code(kcore, k, core, &trampoline);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < core->n_segments; i++)
		bytes += MIN(core->segments[i].size, (uint64_t)KERNEL_COPY_MAX);
	if (bytes >= KERNEL_COPY_MAX)
		return reason_set(why, -EFBIG, "the kernel's code takes more than %d MiB", KERNEL_COPY_MAX >> 20);
	fd = memfd_create("csight-kernel", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	rc = elf_core_write(fd, core, &ret->size);
	if (rc == 0)
		rc = copy_code(kcore, core, k, &trampoline, fd, why);
	if (rc == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		rc = -errno;
	if (rc == 0)
		ret->fd = TAKE_FD(fd);
	return rc;
}

static int make_file(int from, const struct kallsyms *k, struct kernel_copy *ret, struct reason *why)
{
	_cleanup_(elf_freep) struct elf *elf = NULL;
	struct elf_core core = { 0 };
	int rc = elf_open(from, &elf);

	if (rc < 0)
		return rc == -EPERM ? explain_kcore(rc, why) : rc;
	core.machine = elf_identity(elf)->machine;
	rc = write_file(&(struct kcore){ from, elf }, k, &core, ret, why);
	free(core.segments);
	free(core.functions);
	return rc;
}

int kernel_copy_make(const char *dir, struct kernel_copy *ret, struct reason *why)
{
	_cleanup_close_ int at = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC), kcore = -1, names = -1;
	_cleanup_(kallsyms_done) struct kallsyms k = { 0 };
	struct kernel_copy made = { .fd = -1 };
	int rc;

	why->text[0] = '\0';
	kcore = at < 0 ? -1 : openat(at, "kcore", O_RDONLY | O_CLOEXEC);
	if (kcore < 0)
		return explain_kcore(-errno, why);
	names = openat(at, "kallsyms", O_RDONLY | O_CLOEXEC);
	if (names < 0)
		return reason_set(why, -errno, "cannot open /proc/kallsyms: %s", strerror(errno));
	rc = kallsyms_read(names, &k, why);
	if (rc == 0)
		rc = make_file(kcore, &k, &made, why);
	if (rc < 0)
		return *why->text ? rc : reason_set(why, rc, "cannot copy the kernel's code: %s", strerror(-rc));
	made.start = k.start;
	made.length = k.end - k.start;
	*ret = made;
	return 0;
}
