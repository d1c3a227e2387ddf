/* SPDX-License-Identifier: MIT */
/* A store as input: nothing is decoded, and its functions are renamed (rename.h). Has images, but no trace and no code.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/decode/input.h"
#include "daemon/decode/rename.h"
#include "lib/store/format.h"
#include "lib/store/store.h"

struct input_store {
	struct input input;
	struct store *store;
};

static void input_store_close(struct input *in)
{
	store_close(((struct input_store *)in)->store);
}

static int open_store(struct input_store *p)
{
	struct input *in = &p->input;
	uint32_t image, version;
	int rc = store_open(in->job->input, &p->store);

	if (rc == -EPROTONOSUPPORT && store_read_version(in->job->input, &version) == 0)
		return reason_set(&in->job->reason, rc,
				  "the format of the store has version %u, and csight-decode reads versions %d to %d",
				  version, STORE_OLDEST, STORE_VERSION);
	if (rc < 0)
		return reason_set(&in->job->reason, rc, "%s",
				  rc == -ENODATA ? "the store is truncated or damaged" : strerror(-rc));
	in->store = p->store;
	rc = image_set_new(&in->images);
	for (size_t i = 0; rc == 0 && i < store_functions(p->store); i++)
		rc = rename_find_image(in->images, store_function(p->store, i), &image);
	return rc == 0 ? input_request_images(in) : rc;
}

int input_store_open(struct decode_job *job, json_object *warnings, struct input **ret)
{
	static const struct input_ops ops = { .close = input_store_close };
	static const struct pd_contents nothing;
	struct input_store *p;
	int rc;

	for (size_t i = 0; i < job->n_outputs; i++)
		if (job->outputs[i].format->basis != DECODE_FORMAT_FROM_CALLS || job->only_thread >= 0)
			return reason_set(&job->reason, -EINVAL,
					  "a store can only be written in formats made of calls, with all threads");
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
