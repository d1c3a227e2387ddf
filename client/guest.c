#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "client/guest.h"
#include "lib/base/escape.h"
#include "lib/base/io.h"
#include "lib/base/reader.h"
#include "lib/base/util.h"

enum { HEADERS_MAX = 64 << 10 };

static bool refuse(char *why, size_t size, const char *fmt, ...) _printf_(3, 4);
static bool refuse(char *why, size_t size, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(why, size, fmt, args);
	va_end(args);
	return false;
}
#define REFUSE(g, ...) refuse((g)->why, sizeof((g)->why), __VA_ARGS__)

static const char *machine_name(uint16_t machine)
{
	switch (machine) {
	case EM_X86_64:
		return "x86-64";
	case EM_386:
		return "i386";
	case EM_ARM:
		return "32-bit Arm";
	case EM_RISCV:
		return "RISC-V";
	case EM_PPC64:
		return "PowerPC";
	case EM_S390:
		return "s390";
	default:
		return "another machine";
	}
}

static bool read_interpreter(const Elf64_Phdr *p, int fd, struct guest *ret)
{
	if (p->p_filesz == 0 || p->p_filesz >= sizeof(ret->interpreter))
		return false;
	if (pread(fd, ret->interpreter, p->p_filesz, (off_t)p->p_offset) != (ssize_t)p->p_filesz)
		return false;
	ret->interpreter[p->p_filesz] = 0;
	return true;
}

static bool read_segments(const Elf64_Ehdr *e, int fd, struct guest *ret)
{
	uint8_t table[HEADERS_MAX];
	struct reader r;
	Elf64_Phdr p;
	size_t size = (size_t)e->e_phnum * sizeof(p);
	bool code = false;

	if (e->e_phentsize != sizeof(p) || size > sizeof(table) ||
	    pread(fd, table, size, (off_t)e->e_phoff) != (ssize_t)size)
		return REFUSE(ret, "its ELF headers are damaged");
	r = reader_of(table, size);
	while (rd_copy(&r, &p, sizeof(p)) == 0) {
		code |= p.p_type == PT_LOAD && (p.p_flags & PF_X);
		if (p.p_type == PT_INTERP && !read_interpreter(&p, fd, ret))
			return REFUSE(ret, "the name of its interpreter is damaged");
	}
	return code || REFUSE(ret, "it is an aarch64 object without code to run");
}

static bool read_program(int fd, struct guest *ret)
{
	unsigned char start[sizeof(Elf64_Ehdr)] = { 0 };
	ssize_t n = io_read(fd, start, sizeof(start));
	size_t size = n < 0 ? 0 : (size_t)n;
	uint16_t machine;
	Elf64_Ehdr e;

	if (n < 0)
		return REFUSE(ret, "%s", strerror((int)-n));
	if (size >= 2 && start[0] == '#' && start[1] == '!')
		return REFUSE(ret,
			      "it is a script; run its interpreter, an aarch64 program, with the script as argument");
	if (size < EI_NIDENT + 4 || memcmp(start, ELFMAG, SELFMAG) != 0)
		return REFUSE(ret, "it is no ELF program");
	machine = (uint16_t)(start[EI_DATA] == ELFDATA2MSB ? start[18] << 8 | start[19] : start[19] << 8 | start[18]);
	if (machine != EM_AARCH64)
		return REFUSE(
		    ret, "it is a program for %s; --emu runs those for aarch64 (build it with aarch64-linux-gnu-gcc)",
		    machine_name(machine));
	if (start[EI_CLASS] != ELFCLASS64 || start[EI_DATA] != ELFDATA2LSB || size < sizeof(e))
		return REFUSE(ret, "it is for aarch64, but not a 64-bit little-endian program");
	memcpy(&e, start, sizeof(e));
	if (e.e_type != ET_EXEC && e.e_type != ET_DYN)
		return REFUSE(ret, e.e_type == ET_REL ? "it is an object file; link it first"
						      : "it is an ELF file, but no program");
	return read_segments(&e, fd, ret);
}

bool guest_program(const char *path, struct guest *ret)
{
	_cleanup_close_ int fd = -1;
	struct stat st;

	*ret = (struct guest){ 0 };
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 && errno == ENOENT && !strchr(path, '/'))
		return REFUSE(ret, "there is no such file here (the PATH is not searched)");
	if (fd < 0)
		return REFUSE(ret, "%s", strerror(errno));
	if (fstat(fd, &st) < 0)
		return REFUSE(ret, "%s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return REFUSE(ret, S_ISDIR(st.st_mode) ? "it is a directory" : "it is no regular file");
	return read_program(fd, ret);
}

bool guest_interpreter_in(const struct guest *g, const char *sysroot)
{
	char path[2 * PATH_MAX];

	if (!*g->interpreter)
		return true;
	snprintf(path, sizeof(path), "%s%s", sysroot ? sysroot : "", g->interpreter);
	return access(path, R_OK) == 0;
}

static bool find_in_path(const char *name, char *ret, size_t size)
{
	const char *at = getenv("PATH");

	for (size_t n; at && *at; at += n + (at[n] == ':')) {
		n = strcspn(at, ":");
		if (n && (size_t)snprintf(ret, size, "%.*s/%s", (int)n, at, name) < size && access(ret, X_OK) == 0)
			return true;
	}
	return false;
}

/* An emulator that knows no plugins refuses the option; one that does prints its version and ends. */
static int try_plugin(const char *emulator, const char *plugin)
{
	int null, status;
	pid_t pid;

	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		null = open("/dev/null", O_RDWR);
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		unsetenv("QEMU_PLUGIN");
		execl(emulator, emulator, "-plugin", plugin, "-version", (char *)NULL);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return -ENOEXEC;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EOPNOTSUPP;
}

bool guest_emulator(const char *plugin, char *ret, size_t size, char *ret_why, size_t why_size)
{
	const char *named = getenv("QEMU_AARCH64");
	int rc;

	if (named && *named && strchr(named, '/'))
		snprintf(ret, size, "%s", named);
	else if (!find_in_path(named && *named ? named : "qemu-aarch64", ret, size))
		return refuse(
		    ret_why, why_size,
		    "there is no %s on the PATH; on Debian 12, apt install qemu-user; elsewhere a QEMU 6 or later "
		    "built with --enable-plugins, named by $QEMU_AARCH64",
		    named && *named ? esc(named) : "qemu-aarch64");
	rc = try_plugin(ret, plugin);
	if (rc == 0)
		return true;
	if (rc == -EOPNOTSUPP)
		return refuse(
		    ret_why, why_size,
		    "%s takes no plugins (static builds do not); Debian 12's package qemu-user does, or build QEMU "
		    "with --enable-plugins, and name it by $QEMU_AARCH64",
		    esc(ret));
	return refuse(ret_why, why_size, "%s cannot be run: %s", esc(ret), strerror(-rc));
}
