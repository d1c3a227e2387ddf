/* SPDX-License-Identifier: MIT */
/* Assigns the numbers of functions and sites that events refer to. */
#include "lib/base/array.h"
#include "lib/store/writer.h"

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
	*ret = (uint32_t)w->n_functions;
	/* Each part of a program has its own struct region for one inlined function. */
	if (rc == 0 && f.kind == REGION_INLINED) {
		rc = hash_find(&w->inlined_functions, (uint64_t)f.name << 32 | f.image, (uint64_t)f.file << 32 | f.line,
			       &number);
		if (rc == 0) {
			*ret = *number;
			return 0;
		}
		if (rc == 1)
			*number = *ret;
	}
	if (rc < 0)
		return rc;
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
