/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "lib/base/util.h"
#include "lib/coresight/kernel-config.h"
#include "lib/coresight/sysroot.h"

enum { CONFIG_MAX = 2 << 20 };

/* Reads a text file, which may be compressed. */
static char *read_config(int root, const char *path)
{
	_cleanup_free_ char *text = malloc(CONFIG_MAX + 2);
	_cleanup_close_ int fd = -1;
	gzFile file;
	int n;

	if (!text || sysroot_file(root, path, &fd) < 0)
		return NULL;
	file = gzdopen(fd, "r");
	if (!file)
		return NULL;
	TAKE_FD(fd);
	text[0] = '\n';
	n = gzread(file, text + 1, CONFIG_MAX);
	gzclose(file);
	if (n < 0)
		return NULL;
	text[n + 1] = 0;
	return TAKE_PTR(text);
}

char *kernel_config_read(int root, const char *release)
{
	static const struct {
		const char *prefix, *suffix;
	} places[] = { { "boot/config-", "" }, { "usr/lib/modules/", "/config" }, { "lib/modules/", "/config" } };
	char path[SYSROOT_PATH_MAX];
	/* The running kernel's own copy comes first. A release with a slash would lead to another directory. */
	char *config = read_config(root, "proc/config.gz");

	if (!*release || strchr(release, '/'))
		return config;
	for (size_t i = 0; i < ELEMENTS(places) && !config; i++) {
		snprintf(path, sizeof(path), "%s%s%s", places[i].prefix, release, places[i].suffix);
		config = read_config(root, path);
	}
	return config;
}

bool kernel_config_is(const char *config, const char *option, char value)
{
	char line[80];
	const char *at;

	snprintf(line, sizeof(line), "\nCONFIG_%s=%c", option, value);
	at = config ? strstr(config, line) : NULL;
	return at && (at[strlen(line)] == '\n' || !at[strlen(line)]);
}
