/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "daemon/decode/rename.h"
#include "lib/base/hex.h"
#include "lib/code/symbols.h"

/* All images share one region map, in which each has an address range of this size; no file is larger. */
enum { IMAGE_BITS = 40 };

int rename_find_image(struct image_set *images, const struct store_function *f, uint32_t *ret)
{
	uint8_t id[IMAGE_BUILD_ID_MAX];
	size_t length = strlen(f->build_id), size = hex_decode(f->build_id, length, id, sizeof(id));

	*ret = IMAGE_NONE;
	if ((f->kind != REGION_FUNCTION && f->kind != REGION_PLT) || !size || 2 * size != length || !f->image[0] ||
	    f->offset >> IMAGE_BITS)
		return 0;
	return image_file_add(images, f->image, id, size, 0, ret);
}

/* Maps image i at address i << IMAGE_BITS, so that an offset in a file identifies a region. */
static int map_images(const struct code_tables *tables, struct region_map *map)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < tables->n; i++) {
		const struct region_mapping mapping = {
			.addr = (uint64_t)i << IMAGE_BITS,
			.len = 1ull << IMAGE_BITS,
			.path = image_file(tables->input->images, i)->path,
			.symbols = tables->list[i].symbols,
			.inlines = tables->list[i].inlines,
		};

		if (tables->list[i].symbols)
			rc = region_map_add(map, &mapping);
	}
	return rc;
}

static int find_name(struct image_set *images, struct region_map *map, const struct store_function *f,
		     struct store_name *ret)
{
	struct region_hit hit;
	uint32_t image;
	int rc = rename_find_image(images, f, &image);

	if (rc < 0 || image == IMAGE_NONE)
		return rc;
	rc = region_map_find(map, ((uint64_t)image << IMAGE_BITS) + f->offset, 0, &hit);
	/* Names in brackets are placeholders for unnamed code. */
	if (rc == 0 && (hit.region->kind == REGION_FUNCTION || hit.region->kind == REGION_PLT) &&
	    hit.region->name[0] != '[')
		*ret = (struct store_name){ hit.region->name, hit.region->file, hit.region->line };
	return rc;
}

static bool is_renamed(const struct store_function *f, const struct store_name *n)
{
	if (!n->name)
		return false;
	return strcmp(n->name, f->name) != 0 || (n->file && (strcmp(n->file, f->file) != 0 || n->line != f->line));
}

int rename_store(const struct store *store, const struct code_tables *tables, int to, uint64_t *ret_renamed)
{
	_cleanup_(region_map_freep) struct region_map *map = NULL;
	size_t n = store_functions(store);
	_cleanup_free_ struct store_name *names = calloc(n + 1, sizeof(*names));
	uint64_t renamed = 0;
	int rc = names ? region_map_new(&map) : -ENOMEM;

	if (rc == 0)
		rc = map_images(tables, map);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		rc = find_name(tables->input->images, map, store_function(store, i), &names[i]);
		renamed += is_renamed(store_function(store, i), &names[i]);
	}
	if (rc == 0)
		rc = store_rename(store, to, names);
	if (rc == 0)
		*ret_renamed = renamed;
	return rc;
}
