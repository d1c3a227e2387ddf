/* dlopen and dlclose of two libraries in turn, so that different code comes to lie at the same addresses. */
#include <dlfcn.h>
#include <string.h>

#include "program.h"

static apart uint64_t once(const char *path, uint64_t v)
{
	uint64_t (*turn)(uint64_t) = NULL;
	void *library = dlopen(path, RTLD_NOW);

	if (library)
		*(void **)&turn = dlsym(library, "turn");
	if (!turn) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	v = turn(v);
	dlclose(library);
	return v;
}

int main(int argc, char **argv)
{
	char one[4096], two[4096];
	char *slash = strrchr(argv[0], '/');
	int dir = slash ? (int)(slash - argv[0]) : 1;
	uint64_t v = 1;

	/* Beside the program, or where the second argument says. */
	snprintf(one, sizeof(one), "%.*s/plugin-one.so", dir, argc > 2 ? argv[2] : slash ? argv[0] : ".");
	snprintf(two, sizeof(two), "%.*s/plugin-two.so", dir, argc > 2 ? argv[2] : slash ? argv[0] : ".");
	if (argc > 2) {
		snprintf(one, sizeof(one), "%s/plugin-one.so", argv[2]);
		snprintf(two, sizeof(two), "%s/plugin-two.so", argv[2]);
	}
	for (unsigned long round = size_of(argc, argv, 3); round; round--) {
		v = once(one, v);
		v = once(two, v);
	}
	return result(v);
}
