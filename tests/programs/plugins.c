/* SPDX-License-Identifier: MIT */
/*
 * Loads and unloads two libraries in turn with dlopen() and dlclose(). If the kernel reuses addresses, different code
 * runs at the same ones. The second argument is the directory of the libraries (default: the program's), or:
 *   placed   the program maps the libraries itself, at the same address
 *   renamed  as placed, and each is a new file in /tmp, of the same name, which is deleted before its code runs
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "program.h"

enum { PLACE_SIZE = 1 << 20 };

static char copy_name[64];
static char *place;

static void fail(const char *what)
{
	fprintf(stderr, "%s\n", what);
	exit(1);
}

static const char *copy_of(const char *path)
{
	char buffer[4096];
	int from = open(path, O_RDONLY), to = open(copy_name, O_WRONLY | O_CREAT | O_EXCL, 0700);
	ssize_t n;

	if (from < 0 || to < 0)
		fail("no copy");
	while ((n = read(from, buffer, sizeof(buffer))) > 0)
		if (write(to, buffer, (size_t)n) != n)
			fail("no copy");
	close(from);
	close(to);
	return copy_name;
}

/* Maps a library at place and calls the function at an offset in its file, whose first segment includes the code. */
static uint64_t call_placed(const char *path, size_t offset, uint64_t v)
{
	int fd = open(*copy_name ? copy_of(path) : path, O_RDONLY);
	uint64_t (*turn)(uint64_t);

	if (fd < 0 || mmap(place, PLACE_SIZE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0) != place)
		fail("no mapping");
	close(fd);
	if (*copy_name)
		unlink(copy_name);
	turn = (uint64_t(*)(uint64_t))(void *)(place + offset);
	v = turn(v);
	munmap(place, PLACE_SIZE);
	return v;
}

static apart uint64_t once(const char *path, uint64_t v)
{
	void *library = dlopen(path, RTLD_NOW), *turn = library ? dlsym(library, "turn") : NULL;
	Dl_info info;

	if (!turn || !dladdr(turn, &info))
		fail(dlerror());
	if (!place)
		v = ((uint64_t(*)(uint64_t))turn)(v);
	dlclose(library);
	return place ? call_placed(path, (size_t)((char *)turn - (char *)info.dli_fbase), v) : v;
}

int main(int argc, char **argv)
{
	char one[4096], two[4096];
	char *slash = strrchr(argv[0], '/');
	int dir = slash ? (int)(slash - argv[0]) : 1;
	uint64_t v = 1;

	snprintf(one, sizeof(one), "%.*s/plugin-one.so", dir, slash ? argv[0] : ".");
	snprintf(two, sizeof(two), "%.*s/plugin-two.so", dir, slash ? argv[0] : ".");
	if (argc > 2 && (strcmp(argv[2], "renamed") == 0 || strcmp(argv[2], "placed") == 0)) {
		/* Find a free range of addresses. */
		place = mmap(NULL, PLACE_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		munmap(place, PLACE_SIZE);
		if (strcmp(argv[2], "renamed") == 0)
			snprintf(copy_name, sizeof(copy_name), "/tmp/csight-test-plugin-%d.so", (int)getpid());
	} else if (argc > 2) {
		snprintf(one, sizeof(one), "%s/plugin-one.so", argv[2]);
		snprintf(two, sizeof(two), "%s/plugin-two.so", argv[2]);
	}
	for (unsigned long round = size_of(argc, argv, 3); round; round--) {
		v = once(one, v);
		v = once(two, v);
	}
	return result(v);
}
