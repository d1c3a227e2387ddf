/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/array.h"
#include "lib/decoder/debug-places.h"

enum { PLACES_MAX = 256, ID_MIN = 4 };

static int add_place(struct debug_places *p, const char *fmt, ...) _printf_(2, 3);

static int add_place(struct debug_places *p, const char *fmt, ...)
{
	va_list args;
	char *path;
	int rc = array_reserve(p->paths, p->n, &p->capacity);

	if (rc < 0 || p->n == PLACES_MAX)
		return rc;
	va_start(args, fmt);
	rc = vasprintf(&path, fmt, args);
	va_end(args);
	if (rc < 0)
		return -ENOMEM;
	p->paths[p->n++] = path;
	return 0;
}

void debug_places_done(struct debug_places *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->paths[i]);
	free(p->paths);
	*p = (struct debug_places){ 0 };
}

bool debug_places_id_valid(const char *id)
{
	return id && strlen(id) >= ID_MIN && !id[strspn(id, "0123456789abcdef")];
}

/* Returns the length of the directory of an absolute path without "..", else -1. */
static int directory_length(const char *path)
{
	return path && path[0] == '/' && !strstr(path, "/../") ? (int)(strrchr(path, '/') - path) : -1;
}

/* Returns the length of the directory that contains the one of this length. */
static int parent_length(const char *path, int length)
{
	while (length > 0 && path[--length] != '/')
		;
	return length;
}

static int list_by_id(const struct debug_wish *w, const char *id, struct debug_places *p)
{
	int dir = directory_length(w->path), program = directory_length(w->program), rc = 0;

	for (int root = dir; rc == 0 && root > 0; root = parent_length(w->path, root))
		rc = add_place(p, "%.*s/usr/lib/debug/.build-id/%.2s/%s.debug", root, w->path, id, id + 2);
	if (rc == 0)
		rc = add_place(p, "/usr/lib/debug/.build-id/%.2s/%s.debug", id, id + 2);
	if (rc == 0 && dir >= 0)
		rc = add_place(p, "%.*s/.build-id/%.2s/%s.debug", dir, w->path, id, id + 2);
	if (rc == 0 && program >= 0)
		rc = add_place(p, "%.*s/.build-id/%.2s/%s.debug", program, w->program, id, id + 2);
	return rc;
}

static int list_by_link(const struct debug_wish *w, const char *link, struct debug_places *p)
{
	int dir = directory_length(w->path), rc = dir < 0 ? 0 : add_place(p, "%.*s/%s", dir, w->path, link);

	if (rc == 0 && dir >= 0)
		rc = add_place(p, "%.*s/.debug/%s", dir, w->path, link);
	for (int root = dir; rc == 0 && root >= 0; root = root ? parent_length(w->path, root) : -1)
		rc = add_place(p, "%.*s/usr/lib/debug%.*s/%s", root, w->path, dir - root, w->path + root, link);
	return rc;
}

int debug_places_list(const struct debug_wish *w, struct debug_places *ret)
{
	struct debug_places p = { 0 };
	const char *id = debug_places_id_valid(w->build_id) ? w->build_id : NULL,
		   *link = w->link && w->link[0] && w->link[0] != '.' && !strchr(w->link, '/') ? w->link : NULL;
	int rc = id ? list_by_id(w, id, &p) : 0;

	if (rc == 0 && link)
		rc = list_by_link(w, link, &p);
	if (rc == 0 && id && w->cache)
		rc = add_place(&p, "%s/%s/debuginfo", w->cache, id);
	if (rc < 0)
		debug_places_done(&p);
	else
		*ret = p;
	return rc;
}

bool debug_places_cache(char *ret, size_t size)
{
	const char *own = getenv("DEBUGINFOD_CACHE_PATH"), *caches = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

	if (own && *own)
		return (size_t)snprintf(ret, size, "%s", own) < size;
	if (caches && *caches)
		return (size_t)snprintf(ret, size, "%s/debuginfod_client", caches) < size;
	return home && *home && (size_t)snprintf(ret, size, "%s/.cache/debuginfod_client", home) < size;
}
