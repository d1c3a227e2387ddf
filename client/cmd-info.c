/* SPDX-License-Identifier: MIT */
/* csight info: describes an input; csight-decode parses it. */
#include "client/local-decode.h"

static void info_on_result(struct client *c, json_object *result)
{
	/* csight-decode has written the description to the output. */
}

static int info_run(struct client *c)
{
	_cleanup_(local_decode_done) struct local_decode d = {
		LOCAL_DECODE_NONE,
		.client = c,
		.on_result = info_on_result,
	};
	const char *value;
	int rc;

	d.file.describes = true;
	if (client_option(c, &value) == CLIENT_STOP)
		return c->status;
	if (c->argc != 1)
		return client_usage(c, c->argc ? "only one input is accepted" : "missing input");
	rc = output_files_finish(c, &d.output_files, c->json ? "info-json" : "info");
	if (rc == 0)
		rc = local_decode_open_input(&d, c->argv[0]);
	if (rc == 0)
		rc = local_decode_open_outputs(&d);
	return rc == 0 ? local_decode_run(&d) : rc;
}

const struct verb cmd_info = {
	.name = "info",
	.arguments = "INPUT",
	.summary = "describe the contents of an input, without decoding it",
	.flags = VERB_JSON,
	.run = info_run,
};
