/* A store: nothing is decoded. Its functions are looked up anew in the files that they are of, for better names. */
#include <stdlib.h>
#include <string.h>

#include "daemon/decode/output.h"
#include "daemon/decode/input.h"
#include "lib/base/hex.h"
#include "lib/code/symbols.h"
#include "lib/store/store.h"

/* Each image has so many addresses of one map for itself; no file is as large. */
enum { IMAGE_BITS = 40 };

struct store_input {
	struct input input;
	struct store *store;
};

/* Which image a function with a name of its own is of; a file without a build-id may be another one by now. */
static int find_image(struct image_set *images, const struct store_function *f, uint32_t *ret)
{
	uint8_t id[IMAGE_BUILD_ID_MAX];
	size_t length = strlen(f->build_id), size = hex_decode(f->build_id, length, id, sizeof(id));

	*ret = IMAGE_NONE;
	if ((f->kind != REGION_FUNCTION && f->kind != REGION_PLT) || !size || 2 * size != length || !f->image[0] ||
	    f->offset >> IMAGE_BITS)
		return 0;
	return image_file_add(images, f->image, id, size, 0, ret);
}

static void stored_close(struct input *in)
{
	store_close(((struct store_input *)in)->store);
}

static int open_store(struct store_input *p)
{
	struct input *in = &p->input;
	uint32_t image;
	int rc = store_open(in->job->input, &p->store);

	if (rc < 0)
		return reason_set(&in->job->reason, rc, "%s",
				  rc == -EPROTONOSUPPORT ? "it is a store in the format of another version of csight"
				  : rc == -ENODATA       ? "it is a store that was cut or is damaged"
							 : strerror(-rc));
	in->store = p->store;
	rc = image_set_new(&in->images);
	for (size_t i = 0; rc == 0 && i < store_functions(p->store); i++)
		rc = find_image(in->images, store_function(p->store, i), &image);
	return rc == 0 ? input_request_images(in) : rc;
}

int input_store_open(struct decode_job *job, json_object *warnings, struct input **ret)
{
	static const struct input_ops ops = { .close = stored_close };
	static const struct pd_contents nothing;
	struct store_input *p;
	int rc;

	for (size_t i = 0; i < job->n_outputs; i++)
		if (!output_is_calls(job->outputs[i].format) || job->only_thread >= 0)
			return reason_set(&job->reason, -EINVAL, "a store gives calls, of all threads");
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->input.ops = &ops;
	p->input.job = job;
	p->input.contents = &nothing;
	p->input.names = IMAGE_NONE;
	p->input.warnings = warnings;
	rc = open_store(p);
	if (rc < 0) {
		input_close(&p->input);
		return rc;
	}
	*ret = &p->input;
	return 0;
}

/* One map for all of them: an image's offsets are addresses behind each other's. */
static int map_images(const struct input *in, struct symbols *const *symbols, struct inlines *const *inlines,
		      struct region_map *map)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < image_files(in->images); i++) {
		const struct region_mapping mapping = {
			.addr = (uint64_t)i << IMAGE_BITS,
			.len = 1ull << IMAGE_BITS,
			.path = image_file(in->images, i)->path,
			.symbols = symbols[i],
			.inlines = inlines[i],
		};

		if (symbols[i])
			rc = region_map_add(map, &mapping);
	}
	return rc;
}

static int find_name(const struct input *in, struct region_map *map, const struct store_function *f,
		     struct store_name *ret)
{
	struct region_hit hit;
	uint32_t image;
	int rc = find_image(in->images, f, &image);

	if (rc < 0 || image == IMAGE_NONE)
		return rc;
	rc = region_map_find(map, ((uint64_t)image << IMAGE_BITS) + f->offset, 0, &hit);
	/* In brackets stands what has no name. */
	if (rc == 0 && (hit.region->kind == REGION_FUNCTION || hit.region->kind == REGION_PLT) &&
	    hit.region->name[0] != '[')
		*ret = (struct store_name){ hit.region->name, hit.region->file, hit.region->line };
	return rc;
}

static bool is_other(const struct store_function *f, const struct store_name *n)
{
	if (!n->name)
		return false;
	return strcmp(n->name, f->name) != 0 || (n->file && (strcmp(n->file, f->file) != 0 || n->line != f->line));
}

int rename_functions(const struct input *in, struct symbols *const *symbols, struct inlines *const *inlines, int to,
		     uint64_t *ret_renamed)
{
	_cleanup_(region_map_freep) struct region_map *map = NULL;
	size_t n = store_functions(in->store);
	_cleanup_free_ struct store_name *names = calloc(n + 1, sizeof(*names));
	uint64_t renamed = 0;
	int rc = names ? region_map_new(&map) : -ENOMEM;

	if (rc == 0)
		rc = map_images(in, symbols, inlines, map);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		rc = find_name(in, map, store_function(in->store, i), &names[i]);
		renamed += is_other(store_function(in->store, i), &names[i]);
	}
	if (rc == 0)
		rc = store_rename(in->store, to, names);
	if (rc == 0)
		*ret_renamed = renamed;
	return rc;
}
