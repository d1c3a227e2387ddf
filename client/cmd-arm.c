/* csight arm, csight disarm. */
#include "client/client.h"
#include "client/format.h"
#include "lib/base/escape.h"

static const struct verb_option options[] = {
	{ "pid", 'p', "N", "the process" },
	{ 0 },
};

/* False: c->status is the exit status. */
static bool parse(struct client *c, pid_t *ret_pid)
{
	const char *value, *pid = NULL;
	int o;

	while ((o = client_option(c, &value)) >= 0)
		pid = value;
	if (o == CLIENT_STOP)
		return false;
	c->status = client_pid(c, pid, ret_pid);
	if (c->status == 0)
		c->status = client_connect(c);
	return c->status == 0;
}

static int run_arm(struct client *c)
{
	_cleanup_object_ struct csight_object *target = NULL;
	pid_t pid;
	int rc;

	if (!parse(c, &pid))
		return c->status;
	rc = csight_arm(c->daemon, pid, &target);
	if (rc < 0)
		return client_failed(c, rc);
	if (c->json)
		printf("{\"target\":%s}\n", csight_json(target));
	else if (!c->quiet)
		printf("%s (process %d) is %s\n", esc(csight_text(target, "name")), (int)pid,
		       esc(csight_text(target, "state")));
	return STATUS_OK;
}

static int run_disarm(struct client *c)
{
	pid_t pid;
	int rc;

	if (!parse(c, &pid))
		return c->status;
	rc = csight_disarm(c->daemon, pid);
	if (rc < 0)
		return client_failed(c, rc);
	if (c->json)
		printf("{}\n");
	else if (!c->quiet)
		printf("process %d is disarmed; what was recorded of it is dropped\n", (int)pid);
	return STATUS_OK;
}

const struct verb cmd_arm = {
	.name = "arm",
	.arguments = "--pid N",
	.summary = "keep a history of a process from now on",
	.flags = VERB_SOCKET | VERB_JSON | VERB_QUIET,
	.options = options,
	.run = run_arm,
};

const struct verb cmd_disarm = {
	.name = "disarm",
	.arguments = "--pid N",
	.summary = "stop tracing a process and drop its history",
	.flags = VERB_SOCKET | VERB_JSON | VERB_QUIET,
	.options = options,
	.run = run_disarm,
};
