/* SPDX-License-Identifier: MIT */
/* Assigns the numbers of functions and sites that events refer to. */
#include "lib/base/array.h"
#include "lib/store/writer.h"

/*
 * Finds or assigns the number of a function of which there may be several regions. Each part of a program has one for
 * an inlined function; a file that is loaded again, or by several processes, has one for each function at each place.
 */
static int find_same(struct store_writer *w, const struct writer_function *f, const char *image, uint32_t **ret)
{
	const uint64_t name = (uint64_t)f->name << 32;
	struct buf file = { 0 };
	uint32_t number;
	int rc;

	if (f->kind == REGION_INLINED)
		return hash_find(&w->inlined_functions, name | f->image, (uint64_t)f->file << 32 | f->line, ret);
	if (f->kind != REGION_FUNCTION || image[0] != '/' || !f->offset)
		return 1;
	buf_printf(&file, "%u %u", f->image, f->build_id);
	buf_u8(&file, 0);
	rc = buf_error(&file);
	if (rc == 0)
		rc = texts_find(&w->files, (const char *)file.data, &number);
	buf_done(&file);
	return rc < 0 ? rc : hash_find(&w->file_functions, name | number, f->offset, ret);
}

static int add_function(struct store_writer *w, const struct region *region, uint32_t *ret)
{
	struct writer_function f = {
		.address = region->start, .offset = region->offset, .kind = region->kind, .line = region->line
	};
	uint32_t *number = NULL;
	int rc = array_reserve(w->functions, w->n_functions, &w->cap_functions);

	if (rc == 0)
		rc = texts_find(&w->strings, region->image, &f.image);
	if (rc == 0)
		rc = texts_find(&w->strings, region->file ? region->file : "", &f.file);
	if (rc == 0)
		rc = texts_find(&w->strings, region->build_id ? region->build_id : "", &f.build_id);
	if (rc == 0)
		rc = texts_find(&w->strings, region->name, &f.name);
	if (rc == 0)
		rc = find_same(w, &f, region->image, &number);
	if (rc <= 0) {
		*ret = rc == 0 ? *number : 0;
		return rc;
	}
	*ret = (uint32_t)w->n_functions;
	if (number)
		*number = *ret;
	w->functions[w->n_functions++] = f;
	store_notes_function(w, *ret, region->name);
	return 0;
}

/* Finds or assigns the number of a region. */
static int find_function(struct store_writer *w, const struct region *region, uint32_t *ret)
{
	uint32_t *number;
	int rc = hash_find(&w->regions, (uintptr_t)region, 0, &number);

	if (rc == 1)
		rc = add_function(w, region, number);
	if (rc == 0)
		*ret = *number;
	return rc;
}

static int add_site(struct store_writer *w, const struct inlined *inlined, uint32_t *ret)
{
	struct writer_site s = { .line = inlined->call_line };
	uint32_t *number;
	int rc = array_reserve(w->sites, w->n_sites, &w->cap_sites);

	if (rc == 0)
		rc = find_function(w, inlined->function, &s.function);
	if (rc == 0)
		rc = texts_find(&w->strings, inlined->call_file ? inlined->call_file : "", &s.file);
	if (rc == 0)
		rc = hash_find(&w->site_places, (uint64_t)s.function << 32 | s.file, s.line, &number);
	if (rc == 1) {
		*number = (uint32_t)w->n_sites;
		w->sites[w->n_sites++] = s;
		rc = w->n_sites >= ROOT_INLINED ? -EFBIG : 0;
	}
	if (rc < 0)
		return rc;
	*ret = *number;
	if (inlined->uncertain)
		w->functions[s.function].calls_uncertain = true;
	return 0;
}

int numbering_find(struct store_writer *w, const struct region *function, const struct inlined *inlined,
		   struct writer_seen *ret)
{
	struct writer_seen seen = { .key = inlined ? (const void *)inlined : function, .site = NO_SITE };
	uint32_t *number;
	int rc;

	if (!seen.key)
		return -EINVAL;
	if (inlined) {
		rc = hash_find(&w->inlined_instances, (uintptr_t)inlined, 0, &number);
		if (rc == 1)
			rc = add_site(w, inlined, number);
		if (rc < 0)
			return rc;
		seen.site = *number;
		seen.function = w->sites[seen.site].function;
	} else {
		rc = find_function(w, function, &seen.function);
	}
	if (rc == 0)
		*ret = seen;
	return rc;
}
