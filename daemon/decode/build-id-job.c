/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "daemon/decode/build-id-job.h"
#include "lib/base/hex.h"
#include "lib/code/image.h"

int build_id_job_run(struct decode_job *job)
{
	_cleanup_json_ json_object *result = json_object_new_object();
	json_object *list = json_object_new_array();

	if (!result || !list) {
		json_object_put(list);
		return -ENOMEM;
	}
	json_add_str(result, "type", "result");
	json_object_object_add(result, "build_ids", list);
	for (size_t i = 0; i < job->n_files; i++) {
		uint8_t id[IMAGE_BUILD_ID_MAX];
		char hex[2 * IMAGE_BUILD_ID_MAX + 1];
		size_t size = image_build_id(job->files[i], id);

		hex_encode(id, size, hex);
		json_object_array_add(list, size ? json_object_new_string(hex) : NULL);
	}
	return job_result(job, result);
}
