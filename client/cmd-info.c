/* csight info: what an input is, read by csight-decode. */
#include "client/offline.h"

static void on_result(struct client *c, json_object *result)
{
	/* It has been written already. */
}

static int run(struct client *c)
{
	_cleanup_(offline_done) struct offline d = { OFFLINE_NONE, .client = c, .on_result = on_result };
	const char *value;
	int rc;

	if (client_option(c, &value) == CLIENT_STOP)
		return c->status;
	if (c->argc != 1)
		return client_usage(c, c->argc ? "one input at a time" : "which input? its name is missing");
	rc = asked_settle(c, &d.asked, c->json ? "info-json" : "info");
	if (rc == 0)
		rc = offline_input(&d, c->argv[0]);
	if (rc == 0)
		rc = offline_output(&d);
	return rc == 0 ? offline_run(&d) : rc;
}

const struct verb cmd_info = {
	.name = "info",
	.arguments = "INPUT",
	.summary = "tell what an input holds, without decoding it",
	.flags = VERB_JSON,
	.run = run,
};
