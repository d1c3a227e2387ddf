/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/capture/process/process-internal.h"
#include "lib/base/array.h"
#include "lib/base/util.h"

enum {
	IMAGES_MAX = 1024, /* limit of the log's reader */
	PATHS_MAX = 256,   /* names of memory */
	NAMES_MAX = 8 << 10,
	ROOM_SHARE = 20, /* making room takes at most one part in this many of the time */
};

static const char anonymous[] = "//anon";

static int compare_id(const void *key, const void *item)
{
	uint32_t id = *(const uint32_t *)key, other = ((const struct process_image *)item)->id;

	return (id > other) - (id < other);
}

struct process_image *process_find_image(struct process_code *p, uint32_t id)
{
	/* They are in order of their identifiers. */
	return p->n_images ? bsearch(&id, p->images, p->n_images, sizeof(*p->images), compare_id) : NULL;
}

/*
 * Making room in a full history or list of images takes time, which the program can cause again at once: then what does
 * not fit is dropped for a while.
 */
static bool may_make_room(const struct process_code *p)
{
	return now_ns(CLOCK_MONOTONIC) >= p->room_rest_until;
}

static void made_room(struct process_code *p, uint64_t begun)
{
	uint64_t now = now_ns(CLOCK_MONOTONIC);

	p->room_rest_until = now + ROOM_SHARE * (now - begun);
}

struct naming {
	struct process_code *process;
	bool *named; /* by index */
};

static void note_named(void *data, uint32_t id)
{
	const struct naming *n = data;
	const struct process_image *i = process_find_image(n->process, id);

	if (i)
		n->named[i - n->process->images] = true;
}

/* Drops the images that no record names. */
static void drop_images(struct process_code *p)
{
	uint64_t begun = now_ns(CLOCK_MONOTONIC);
	_cleanup_free_ bool *named = calloc(p->n_images + 1, sizeof(*named));
	size_t kept = 0;

	if (!named)
		return;
	code_history_each_image(p->history, note_named, &(struct naming){ p, named });
	for (size_t i = 0; i < p->n_images; i++)
		if (named[i]) {
			p->images[kept++] = p->images[i];
		} else {
			closep(&p->images[i].fd);
			free(p->images[i].path);
		}
	p->n_images = kept;
	made_room(p, begun);
}

static bool same_image(const struct process_image *i, const struct process_map *m)
{
	/* Inode numbers are reused; /proc does not show the generation. */
	if (m->inode ? i->inode != m->inode || i->major != m->major || i->minor != m->minor ||
			   (i->generation && m->generation && i->generation != m->generation)
		     : !m->build_id_size || i->build_id_size != m->build_id_size ||
			   memcmp(i->build_id, m->build_id, m->build_id_size) != 0)
		return false;
	return strcmp(i->path, m->path) == 0;
}

static uint32_t find_image(struct process_code *p, const struct process_map *m)
{
	struct process_image i = { .fd = -1,
				   .inode = m->inode,
				   .generation = m->generation,
				   .major = m->major,
				   .minor = m->minor,
				   .build_id_size = MIN(m->build_id_size, (uint8_t)EMU_BUILD_ID_MAX) };

	for (size_t n = p->n_images; n-- > 0;)
		if (same_image(&p->images[n], m))
			return p->images[n].id;
	if (p->n_images >= IMAGES_MAX && may_make_room(p))
		drop_images(p);
	if (p->n_images >= IMAGES_MAX) {
		p->crowded = true;
		return CODE_NO_IMAGE;
	}
	if (array_reserve(p->images, p->n_images, &p->room_images) < 0)
		return CODE_NO_IMAGE;
	i.path = strdup(m->path);
	if (!i.path)
		return CODE_NO_IMAGE;
	memcpy(i.build_id, m->build_id, i.build_id_size);
	i.id = ++p->last_image;
	p->images[p->n_images++] = i;
	return i.id;
}

/* Returns the name of a memory; equal names have equal pointers. */
static const char *memory_path(struct process_code *p, const char *path)
{
	if (path[0] != '[')
		return anonymous;
	for (size_t i = 0; i < p->n_paths; i++)
		if (strcmp(p->paths[i], path) == 0)
			return p->paths[i];
	if (p->n_paths >= PATHS_MAX || array_reserve(p->paths, p->n_paths, &p->room_paths) < 0)
		return anonymous;
	p->paths[p->n_paths] = strdup(path);
	return p->paths[p->n_paths] ? p->paths[p->n_paths++] : anonymous;
}

static bool is_file(const struct process_map *m)
{
	static const char huge[] = "/anon_hugepage";

	/* Shared memory may be written through another mapping at any time, as some JIT compilers do. */
	return m->path[0] == '/' && m->path[1] != '/' && (m->inode || m->build_id_size) && !(m->flags & MAP_SHARED) &&
	       strncmp(m->path, huge, strlen(huge)) != 0;
}

/* When the history is full, its older half is replaced by the state at its end. */
static int make_room(struct process_code *p)
{
	uint64_t begun = now_ns(CLOCK_MONOTONIC);
	int rc;

	p->cut = MAX(p->cut, code_history_middle(p->history));
	rc = code_history_forget(p->history, p->cut);
	made_room(p, begun);
	return rc;
}

/* From this time on all is unknown. What is noted as lost may be earlier than what was dropped before. */
static void note_dropped(struct process_code *p, uint64_t time)
{
	p->dropped_ns = MAX(p->dropped_ns ? MIN(p->dropped_ns, time) : time, 1);
	p->crowded = true;
}

static void add_record(struct process_code *p, const struct code_record *r)
{
	int rc = p->dropped_ns ? -ENOSPC : code_history_record(p->history, r);

	if (rc == -ENOSPC && !p->dropped_ns && may_make_room(p)) {
		rc = make_room(p);
		if (rc == 0)
			rc = code_history_record(p->history, r);
		else
			note_dropped(p, p->cut); /* with the older half, records since then may be gone */
	}
	if (rc < 0)
		note_dropped(p, r->time);
}

void process_add(struct process_code *p, const struct process_map *m, enum process_source how)
{
	struct code_record r = { .time = m->time,
				 .start = m->addr,
				 .end = m->addr + m->len,
				 .offset = m->offset,
				 .image = CODE_NO_IMAGE,
				 .found = how != PROCESS_RECORDED,
				 .instead = how == PROCESS_FOUND_OTHER };

	if (m->addr >> 63 || m->len > INT64_MAX - m->addr)
		return;
	if (!(m->prot & PROT_EXEC)) {
		r.kind = CODE_NONE;
	} else if (is_file(m) && (r.image = find_image(p, m)) != CODE_NO_IMAGE) {
		r.kind = CODE_FILE;
		r.writable = m->prot & PROT_WRITE;
	} else {
		r.kind = CODE_MEMORY;
		r.writable = m->prot & PROT_WRITE || m->flags & MAP_SHARED || is_file(m);
		r.path = memory_path(p, m->path);
	}
	p->pending |= r.kind != CODE_NONE;
	add_record(p, &r);
}

void process_map(struct process_code *p, const struct process_map *m)
{
	process_add(p, m, PROCESS_RECORDED);
}

void process_exec(struct process_code *p, uint64_t time)
{
	struct code_record r = { .time = time, .end = INT64_MAX, .kind = CODE_EXECED, .image = CODE_NO_IMAGE };

	/* The jitdump described the previous program. */
	closep(&p->jitdump.fd);
	code_history_set_described(p->history, false);
	p->pending = true;
	add_record(p, &r);
}

/* All mappings are unknown after since_ns, up to now_ns. */
static void note_unknown(struct process_code *p, uint64_t since_ns, uint64_t now_ns)
{
	struct code_record r = { .time = since_ns + 1, .end = INT64_MAX, .kind = CODE_LOST, .image = CODE_NO_IMAGE };

	p->pending = true;
	add_record(p, &r);
	/* Later records may have been lost, too, up to now. */
	r.time = MAX(now_ns, r.time + 1) - 1;
	add_record(p, &r);
}

void process_note_lost_records(struct process_code *p, uint64_t since_ns, uint64_t now_ns)
{
	p->lost = true;
	note_unknown(p, since_ns, now_ns);
}

void process_note_dropped(struct process_code *p, uint64_t now)
{
	uint64_t since = p->dropped_ns;

	if (!since)
		return;
	p->dropped_ns = 0;
	if (make_room(p) < 0 || code_history_crowded(p->history))
		process_start_over(p, now);
	else
		note_unknown(p, since - 1, now);
}

void process_start_over(struct process_code *p, uint64_t time)
{
	code_history_clear(p->history);
	p->cut = MAX(p->cut, time);
	p->dropped_ns = 0;
	p->pending = true;
}

void process_name(struct process_code *p, uint64_t time, uint32_t tid, const char *name, bool exec)
{
	struct process_comm n = { .time = time, .tid = tid };

	if (exec)
		process_exec(p, time);
	if (p->n_names >= NAMES_MAX || array_reserve(p->names, p->n_names, &p->room_names) < 0)
		return;
	memcpy(n.name, name, strnlen(name, sizeof(n.name)));
	p->names[p->n_names++] = n;
}
