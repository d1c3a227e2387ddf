/* What lib/code finds in a file, and its debug file: "symbols-dump FILE [DEBUG]": each stretch, as "start
   function name"; "symbols-dump": the names on standard input, readable. */
#include <fcntl.h>
#include <string.h>

#include "lib/code/debug-file.h"
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

int main(int argc, char **argv)
{
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
	rc = symbols_load_with(fd, debug, &s);
	if (rc < 0) {
		fprintf(stderr, "symbols-dump: %s\n", strerror(-rc));
		return 1;
	}
	dump_symbols(s);
	return 0;
}
