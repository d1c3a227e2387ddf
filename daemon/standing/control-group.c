/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "daemon/capture/process/proc-file.h"
#include "daemon/standing/control-group.h"
#include "lib/base/util.h"

int control_groups_read(pid_t pid, struct control_groups *ret)
{
	char path[32];
	int rc;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	rc = proc_file_read(AT_FDCWD, path, ret->text, sizeof(ret->text));
	return MIN(rc, 0);
}

struct group_line {
	const char *controllers, *path;
	size_t controllers_size, path_size;
};

/* Parses the line ID:CONTROLLERS:PATH at *at, and moves *at behind it. Returns false at the end. */
static bool next_line(const char **at, struct group_line *ret)
{
	const char *end = strchrnul(*at, '\n'), *first = strchr(*at, ':');
	const char *second = first ? strchr(first + 1, ':') : NULL;

	if (!second || second > end)
		return false;
	*ret = (struct group_line){ .controllers = first + 1,
				    .path = second + 1,
				    .controllers_size = (size_t)(second - first - 1),
				    .path_size = (size_t)(end - second - 1) };
	*at = *end ? end + 1 : end;
	return true;
}

/* Returns the next part of a path, without the '_' by which systemd escapes names; NULL: there is none. */
static const char *next_part(const char **at, const char *end, size_t *ret_size)
{
	const char *part, *behind;

	while (*at < end && **at == '/')
		++*at;
	if (*at == end)
		return NULL;
	part = *at;
	behind = memchr(part, '/', (size_t)(end - part));
	*at = behind ? behind : end;
	part += *part == '_';
	*ret_size = (size_t)(*at - part);
	return part;
}

static bool ends_in(const char *part, size_t size, const char *suffix)
{
	size_t n = strlen(suffix);

	return size > n && memcmp(part + size - n, suffix, n) == 0;
}

/* True if the process belongs to csightd, or to a service that csightd starts: units of the system's slice. */
static bool is_of_csightd(const struct group_line *l)
{
	static const char slice[] = "/system.slice/", *const names[] = { "csightd.service", "csight-",
									 "system-csight" };
	size_t size = strlen(slice);

	if (l->path_size < size || memcmp(l->path, slice, size) != 0)
		return false;
	for (size_t i = 0; i < ELEMENTS(names); i++)
		if (l->path_size - size >= strlen(names[i]) && memcmp(l->path + size, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

bool control_groups_have(const struct control_groups *g, const char *group)
{
	size_t size = strlen(group);
	const char *at = g->text;
	bool found = false;
	struct group_line l;

	while (size > 0 && group[size - 1] == '/')
		size--;
	while (next_line(&at, &l)) {
		if (size == 0 && is_of_csightd(&l))
			return false;
		found = found || (l.path_size >= size && memcmp(l.path, group, size) == 0 &&
				  (l.path_size == size || l.path[size] == '/'));
	}
	return found;
}

/*
 * Returns whether the path leads to this unit. Slices come first, then the unit; below user@UID.service, slices and a
 * unit of the user's service manager follow.
 */
static bool leads_to_unit(const struct group_line *l, const char *unit, bool user)
{
	const char *at = l->path, *end = l->path + l->path_size, *part;
	size_t size;

	while ((part = next_part(&at, end, &size))) {
		bool slice = ends_in(part, size, ".slice");

		if (size == strlen(unit) && memcmp(part, unit, size) == 0)
			return true;
		if (slice)
			continue;
		if (!user || strncmp(part, "user@", strlen("user@")) != 0 || !ends_in(part, size, ".service"))
			return false;
		user = false;
	}
	return false;
}

/* True if the line is of the hierarchy in which systemd puts units. */
static bool is_of_systemd(const struct group_line *l)
{
	static const char systemd[] = "name=systemd";

	return l->controllers_size == 0 ||
	       (l->controllers_size == strlen(systemd) && memcmp(l->controllers, systemd, strlen(systemd)) == 0);
}

/* Returns the length of the path up to its unit, see leads_to_unit(); 0: there is none. */
static size_t unit_size(const struct group_line *l)
{
	const char *at = l->path, *end = l->path + l->path_size, *part;
	bool user = true;
	size_t size, unit = 0;

	while ((part = next_part(&at, end, &size))) {
		if (ends_in(part, size, ".slice"))
			continue;
		unit = (size_t)(at - l->path);
		if (!user || strncmp(part, "user@", strlen("user@")) != 0 || !ends_in(part, size, ".service"))
			break;
		user = false;
	}
	return unit;
}

bool control_groups_equal(const struct control_groups *a, const struct control_groups *b)
{
	return *a->text && strcmp(a->text, b->text) == 0;
}

bool control_groups_same_unit(const struct control_groups *a, const struct control_groups *b)
{
	struct group_line first, second;
	const char *at = a->text;

	while (next_line(&at, &first)) {
		size_t size = is_of_systemd(&first) ? unit_size(&first) : 0;
		const char *other = b->text;

		while (size && next_line(&other, &second))
			if (is_of_systemd(&second) && unit_size(&second) == size &&
			    memcmp(first.path, second.path, size) == 0)
				return true;
	}
	return false;
}

bool control_groups_of_unit(const struct control_groups *g, const char *unit, bool user)
{
	const char *at = g->text;
	struct group_line l;

	while (next_line(&at, &l))
		if (is_of_systemd(&l) && leads_to_unit(&l, unit, user))
			return true;
	return false;
}
