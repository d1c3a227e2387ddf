/* What lib/code finds in a file, and its debug file: "symbols-dump FILE [DEBUG]": each stretch, as "start
   function name"; "symbols-dump": the names on standard input, readable. "symbols-dump --inlines FILE [DEBUG]": for
   each address on standard input what is inlined there, innermost first, as addr2line -a -f -i has it but for the
   innermost line. */
#include <elf.h>
#include <fcntl.h>
#include <string.h>

#include "lib/code/debug-file.h"
#include "lib/code/inlines.h"
#include "lib/code/symbols.h"

static void dump_symbols(const struct symbols *s)
{
	struct symbols_at at = { 0 };

	do {
		symbols_find(s, at.end, &at);
		if (at.known)
			printf("%jx %jx %s\n", (uintmax_t)at.start, (uintmax_t)at.function, at.name ? at.name : "-");
	} while (at.end != UINT64_MAX);
}

static void demangle_lines(void)
{
	char line[8192];

	while (fgets(line, sizeof(line), stdin)) {
		_cleanup_free_ char *name = NULL;

		line[strcspn(line, "\n")] = 0;
		name = symbol_demangle(line);
		puts(name ? name : "");
	}
}

/* Addresses are those of the one segment that has code. */
static uint64_t bias_of(int fd)
{
	Elf64_Ehdr header;
	Elf64_Phdr p;

	for (unsigned i = 0; pread(fd, &header, sizeof(header), 0) == sizeof(header) && i < header.e_phnum; i++)
		if (pread(fd, &p, sizeof(p), (off_t)(header.e_phoff + i * sizeof(p))) == sizeof(p) &&
		    p.p_type == PT_LOAD && p.p_flags & PF_X)
			return p.p_vaddr - p.p_offset;
	return 0;
}

static int dump_inlines(int fd, int debug)
{
	_cleanup_(inlines_freep) struct inlines *s = NULL;
	uint64_t address, bias = bias_of(fd);
	struct inlines_at at;
	int rc = inlines_load(fd, debug, &s);

	if (rc < 0) {
		fprintf(stderr, "symbols-dump: %s\n", strerror(-rc));
		return 1;
	}
	while (scanf("%lx", &address) == 1) {
		inlines_find(s, address - bias, &at);
		printf("0x%016lx\n", address);
		if (!at.n)
			puts("??\n");
		for (size_t i = at.n; i-- > 0;) {
			puts(at.frames[i].name ? at.frames[i].name : "??");
			if (i + 1 == at.n)
				puts("");
			else
				printf("%s:%u\n", at.frames[i + 1].call_file ? at.frames[i + 1].call_file : "??",
				       at.frames[i + 1].call_line);
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	bool inlines = argc > 1 && strcmp(argv[1], "--inlines") == 0;

	argc -= inlines;
	argv += inlines;
	_cleanup_close_ int fd = argc > 1 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
	_cleanup_close_ int debug = argc > 2 ? open(argv[2], O_RDONLY | O_CLOEXEC) : -1;
	_cleanup_(symbols_freep) struct symbols *s = NULL;
	struct debug_wanted wanted;
	int rc;

	if (argc == 1) {
		demangle_lines();
		return 0;
	}
	if (fd < 0 || (argc > 2 && debug < 0)) {
		perror("symbols-dump");
		return 2;
	}
	if (argc > 2 && (!debug_file_wanted(fd, &wanted) || !debug_file_is(debug, &wanted))) {
		fprintf(stderr, "symbols-dump: not its debug file\n");
		return 1;
	}
	if (inlines)
		return dump_inlines(fd, debug);
	rc = symbols_load_with(fd, debug, &s);
	if (rc < 0) {
		fprintf(stderr, "symbols-dump: %s\n", strerror(-rc));
		return 1;
	}
	dump_symbols(s);
	return 0;
}
