/* SPDX-License-Identifier: MIT */
/*
 * Prints what lib/code finds in an ELF file, and in its debug file.
 * symbols-dump FILE [DEBUG]: each stretch of a function, as "start function name" with file offsets
 * symbols-dump --inlines FILE [DEBUG]: for each address on standard input what is inlined there, innermost first, as
 *   addr2line -a -f -i prints it
 * symbols-dump --calls FILE [DEBUG]: for each address on standard input the inlined calls that begin there, outermost
 *   function first
 * symbols-dump --handlers FILE: for each return address on standard input where an exception from that call lands
 * symbols-dump: the names on standard input, demangled
 */
#include <fcntl.h>
#include <string.h>

#include "lib/code/debug-file.h"
#include "lib/code/demangle.h"
#include "lib/code/elf.h"
#include "lib/code/inlines.h"
#include "lib/code/symbols.h"
#include "lib/code/unwind.h"

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
		name = demangle_symbol(line);
		puts(name ? name : "");
	}
}

/* The difference between addresses and file offsets in the one segment that has code. */
static uint64_t bias_of(int fd)
{
	_cleanup_(elf_freep) struct elf *e = NULL;
	const struct elf_segment *segments;
	size_t n = 0;

	segments = elf_open(fd, &e) == 0 ? elf_segments(e, &n) : NULL;
	for (size_t i = 0; i < n; i++)
		if (segments[i].type == ELF_SEGMENT_LOAD && segments[i].code)
			return segments[i].address - segments[i].offset;
	return 0;
}

static int dump_handlers(int fd)
{
	uint64_t address, handler, bias = bias_of(fd);
	struct unwind *u;
	int rc = unwind_open(fd, &u);

	if (rc < 0) {
		fprintf(stderr, "symbols-dump: %s\n", strerror(-rc));
		return 1;
	}
	while (scanf("%lx", &address) == 1) {
		rc = unwind_handler(u, 0, 0, address - bias, &handler);
		if (rc == 1)
			printf("%lx %lx\n", address, handler + bias);
		else
			printf("%lx %s\n", address, rc == 0 ? "none" : "unknown");
	}
	unwind_free(u);
	return 0;
}

static void print_line(struct inlines *s, uint64_t offset)
{
	const char *file = "??";
	uint32_t line = 0;

	inlines_line(s, offset, &file, &line);
	printf("%s:%u\n", file, line);
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
				print_line(s, address - bias);
			else
				printf("%s:%u\n", at.frames[i + 1].call_file ? at.frames[i + 1].call_file : "??",
				       at.frames[i + 1].call_line);
		}
	}
	return 0;
}

static int dump_calls(int fd, int debug)
{
	_cleanup_(inlines_freep) struct inlines *s = NULL;
	uint64_t address, bias = bias_of(fd);
	struct inlines_at at, call;
	int rc = inlines_load(fd, debug, &s);

	if (rc < 0) {
		fprintf(stderr, "symbols-dump: %s\n", strerror(-rc));
		return 1;
	}
	while (scanf("%lx", &address) == 1) {
		inlines_find(s, address - bias, &at);
		for (size_t i = 0; at.start == address - bias && i < at.n_entries; i++) {
			inlines_entry(s, address - bias, i, &call);
			printf("0x%016lx", address);
			for (size_t k = 0; k < call.n; k++)
				printf(" %s", call.frames[k].name ? call.frames[k].name : "??");
			puts(call.n && call.frames[call.n - 1].uncertain ? " ~" : "");
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	bool inlines = argc > 1 && strcmp(argv[1], "--inlines") == 0,
	     calls = argc > 1 && strcmp(argv[1], "--calls") == 0,
	     handlers = argc > 1 && strcmp(argv[1], "--handlers") == 0;

	argc -= inlines || calls || handlers;
	argv += inlines || calls || handlers;
	_cleanup_close_ int fd = argc > 1 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
	_cleanup_close_ int debug = argc > 2 ? open(argv[2], O_RDONLY | O_CLOEXEC) : -1;
	_cleanup_(symbols_freep) struct symbols *s = NULL;
	struct debug_wanted wanted;
	uint64_t used = 0;
	int rc;

	if (argc == 1) {
		demangle_lines();
		return 0;
	}
	if (fd < 0 || (argc > 2 && debug < 0)) {
		perror("symbols-dump");
		return 2;
	}
	if (argc > 2 && (!debug_file_wanted(fd, &wanted) || debug_file_is(debug, &wanted, &used) != 1)) {
		fprintf(stderr, "symbols-dump: not its debug file\n");
		return 1;
	}
	if (inlines)
		return dump_inlines(fd, debug);
	if (calls)
		return dump_calls(fd, debug);
	if (handlers)
		return dump_handlers(fd);
	rc = symbols_load_with(fd, debug, &s);
	if (rc < 0) {
		fprintf(stderr, "symbols-dump: %s\n", strerror(-rc));
		return 1;
	}
	dump_symbols(s);
	return 0;
}
