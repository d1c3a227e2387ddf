/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "daemon/decode/build-id-job.h"
#include "lib/base/hex.h"
#include "lib/code/image.h"

int build_id_job_run(struct decode_job *job)
{
	_cleanup_json_ json_object *result = json_object_new_object();
	json_object *list = json_object_new_array();

	json_add_str(result, "type", "result");
	for (size_t i = 0; i < job->n_files; i++) {
		uint8_t id[IMAGE_BUILD_ID_MAX];
		char hex[2 * IMAGE_BUILD_ID_MAX + 1];
		size_t size = image_build_id(job->files[i], id);

		hex_encode(id, size, hex);
		if (size)
			json_array_add(list, json_object_new_string(hex));
		else
			json_array_add_null(list);
	}
	json_add(result, "build_ids", list);
	return job_result(job, result);
}
