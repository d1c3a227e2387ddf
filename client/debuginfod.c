/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/debuginfod.h"
#include "lib/base/escape.h"
#include "lib/base/util.h"

/* elfutils/debuginfod.h, as its library is not linked. A length of 0: the build-id is text. */
struct debuginfod_client;

struct library {
	struct debuginfod_client *(*begin)(void);
	int (*find_debuginfo)(struct debuginfod_client *c, const unsigned char *id, int length, char **path);
	int (*find_executable)(struct debuginfod_client *c, const unsigned char *id, int length, char **path);
};

bool debuginfod_wanted(void)
{
	const char *urls = getenv("DEBUGINFOD_URLS");

	return urls && urls[strspn(urls, " ")];
}

static bool load_library(struct library *ret)
{
	void *handle = dlopen("libdebuginfod.so.1", RTLD_LAZY);

	if (!handle) {
		fprintf(stderr, "csight: cannot use DEBUGINFOD_URLS: %s; on Debian, apt install libdebuginfod1\n",
			esc(dlerror()));
		return false;
	}
	*(void **)&ret->begin = dlsym(handle, "debuginfod_begin");
	*(void **)&ret->find_debuginfo = dlsym(handle, "debuginfod_find_debuginfo");
	*(void **)&ret->find_executable = dlsym(handle, "debuginfod_find_executable");
	return ret->begin && ret->find_debuginfo && ret->find_executable;
}

/* One client for all files, since it keeps its connections. */
static struct debuginfod_client *use_client(struct library *ret)
{
	static struct debuginfod_client *client;
	static struct library library;
	static bool tried;

	if (!tried && load_library(&library))
		client = library.begin();
	tried = true;
	*ret = library;
	return client;
}

bool debuginfod_fetch(const char *build_id, bool debug, char *ret, size_t size)
{
	struct debuginfod_client *client;
	struct library library;
	char *path = NULL;
	int fd = -1;
	bool fits;

	if (!debuginfod_wanted() || !(client = use_client(&library)))
		return false;
	fd = (debug ? library.find_debuginfo : library.find_executable)(client, (const unsigned char *)build_id, 0,
									&path);
	if (fd < 0)
		return false;
	close(fd);
	fits = path && (size_t)snprintf(ret, size, "%s", path) < size;
	free(path);
	return fits;
}
