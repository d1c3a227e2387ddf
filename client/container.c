/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <ctype.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/container.h"
#include "lib/base/util.h"

enum { ID_SIZE = 64, ID_LEAST = 4 };

/* A component of the path of a control group, and the component above it. */
struct component {
	char name[NAME_MAX + 1], above[NAME_MAX + 1];
};

struct container_search {
	const char *id;
	char *path;
	size_t size;
	char found[NAME_MAX + 1]; /* the name of the container; empty: none */
	bool several;
};

static bool is_id(const char *name)
{
	return strlen(name) == ID_SIZE && strspn(name, "0123456789abcdef") == ID_SIZE;
}

/* Replaces \x2d and the like, as systemd writes them. */
static void unescape(char *name)
{
	char *to = name;

	for (; *name; name++) {
		unsigned code;

		if (name[0] == '\\' && name[1] == 'x' && isxdigit((unsigned char)name[2]) &&
		    isxdigit((unsigned char)name[3]) && sscanf(name + 2, "%2x", &code) == 1) {
			*to++ = (char)code;
			name += 3;
		} else {
			*to++ = *name;
		}
	}
	*to = 0;
}

/*
 * Removes the prefix and the suffix that a container engine adds to a name. Returns false if the name does not have
 * both.
 */
static bool strip(char *name, const char *prefix, const char *suffix)
{
	size_t n = strlen(name), before = strlen(prefix), behind = strlen(suffix);

	if (n <= before + behind || strncmp(name, prefix, before) != 0 || strcmp(name + n - behind, suffix) != 0)
		return false;
	name[n - behind] = 0;
	memmove(name, name + before, n - behind - before + 1);
	return true;
}

/*
 * Replaces the name of a component by that of the container that it is made for. Returns false if it is made for none.
 */
static bool name_container(struct component *p)
{
	/* Prefixes of container engines that name control groups by the IDs of containers. */
	static const char *const scopes[] = { "docker-", "libpod-", "crio-", "cri-containerd-", "nerdctl-" };
	/*
	 * Parents of the control groups of container engines that run without systemd: Docker, LXC, and namespaces of
	 * containerd.
	 */
	static const char *const folders[] = { "docker", "lxc", "default", "moby", "k8s.io" };

	for (size_t n = 0; n < ELEMENTS(scopes); n++)
		if (strip(p->name, scopes[n], ".scope"))
			return is_id(p->name);
	if (strip(p->name, "machine-", ".scope") || strip(p->name, "systemd-nspawn@", ".service")) {
		unescape(p->name);
		return true;
	}
	if (strip(p->name, "lxc.payload.", "") || is_id(p->name))
		return true;
	for (size_t n = 0; n < ELEMENTS(folders); n++)
		if (strcmp(p->above, folders[n]) == 0)
			return true;
	return false;
}

static bool matches(const char *name, const char *id)
{
	size_t n = strlen(id);

	return strcmp(name, id) == 0 || (is_id(name) && n >= ID_LEAST && strncmp(name, id, n) == 0);
}

/* Searches the path of a process in one hierarchy of control groups. */
static void search_path(struct container_search *s, const char *path)
{
	struct component p = { "", "" };

	for (const char *at = path; *at == '/';) {
		const char *end = strchrnul(at + 1, '/');
		char name[NAME_MAX + 1];

		snprintf(name, sizeof(name), "%.*s", (int)(end - at - 1), at + 1);
		strcpy(p.name, name);
		if (name_container(&p) && matches(p.name, s->id)) {
			s->several |= s->found[0] && strcmp(s->found, p.name) != 0;
			if (!s->found[0])
				snprintf(s->path, s->size, "%.*s", (int)(end - path), path);
			strcpy(s->found, p.name);
		}
		strcpy(p.above, name);
		at = end;
	}
}

static void search_process(struct container_search *s, const char *pid)
{
	_cleanup_fclose_ FILE *f = NULL;
	_cleanup_free_ char *line = NULL;
	char file[NAME_MAX + 32];
	size_t room = 0;
	ssize_t n;

	snprintf(file, sizeof(file), "/proc/%s/cgroup", pid);
	f = fopen(file, "re");
	while (f && (n = getline(&line, &room, f)) > 0) {
		const char *second = strchr(line, ':');

		if (line[n - 1] == '\n')
			line[n - 1] = 0;
		second = second ? strchr(second + 1, ':') : NULL;
		if (second)
			search_path(s, second + 1);
	}
}

int container_find(const char *id, char *ret, size_t size)
{
	_cleanup_closedir_ DIR *proc = opendir("/proc");
	struct container_search s = { .id = id, .path = ret, .size = size };
	struct dirent *e;

	if (!proc)
		return -errno;
	while ((e = readdir(proc)))
		if (isdigit((unsigned char)e->d_name[0]))
			search_process(&s, e->d_name);
	return s.several ? -ENOTUNIQ : s.found[0] ? 0 : -ENOENT;
}
