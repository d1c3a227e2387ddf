/* csight arm, csight disarm. */
#include "client/client.h"
#include "client/format.h"
#include "lib/base/escape.h"

enum { OPTION_PID, OPTION_KERNEL, OPTION_CYCLES, OPTION_NO_TIMESTAMPS, OPTION_NO_CONTEXTS, OPTION_FILTER, OPTION_SINK };

static const struct verb_option arm_options[] = {
	[OPTION_PID] = { "pid", 'p', "N", "the process" },
	[OPTION_KERNEL] = { "kernel", 0, NULL, "what it does in the kernel, too (root)" },
	[OPTION_CYCLES] = { "cycles", 0, NULL, "count cycles" },
	[OPTION_NO_TIMESTAMPS] = { "no-timestamps", 0, NULL, "fewer bytes, and no times" },
	[OPTION_NO_CONTEXTS] = { "no-contexts", 0, NULL, "without context IDs" },
	[OPTION_FILTER] = { "filter", 0, "TEXT", "trace these addresses only, in the kernel's words" },
	[OPTION_SINK] = { "sink", 0, "NAME", "the trace sink, as csight doctor lists them" },
	{ 0 },
};

static const struct verb_option disarm_options[] = {
	[OPTION_PID] = { "pid", 'p', "N", "the process" },
	{ 0 },
};

/* False: c->status is the exit status. */
static bool parse(struct client *c, pid_t *ret_pid, struct csight_arm_options *options)
{
	const char *value, *pid = NULL;
	int o;

	while ((o = client_option(c, &value)) >= 0) {
		switch (o) {
		case OPTION_PID:
			pid = value;
			break;
		case OPTION_KERNEL:
			options->kernel = true;
			break;
		case OPTION_CYCLES:
			options->cycles = true;
			break;
		case OPTION_NO_TIMESTAMPS:
			options->no_timestamps = true;
			break;
		case OPTION_NO_CONTEXTS:
			options->no_contexts = true;
			break;
		case OPTION_FILTER:
			options->filter = value;
			break;
		case OPTION_SINK:
			options->sink = value;
			break;
		}
	}
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
	struct csight_arm_options options = { 0 };
	const char *trouble;
	pid_t pid;
	int rc;

	if (!parse(c, &pid, &options))
		return c->status;
	rc = csight_arm(c->daemon, pid, &options, &target);
	if (rc < 0)
		return client_failed(c, rc);
	trouble = csight_text(target, "trouble");
	if (c->json)
		printf("{\"target\":%s}\n", csight_json(target));
	else if (!c->quiet)
		printf("%s (process %d) is %s%s%s\n", esc(csight_text(target, "name")), (int)pid,
		       esc(csight_text(target, "state")), trouble ? ": " : "", trouble ? esc(trouble) : "");
	return STATUS_OK;
}

static int run_disarm(struct client *c)
{
	pid_t pid;
	int rc;

	if (!parse(c, &pid, &(struct csight_arm_options){ 0 }))
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
	.options = arm_options,
	.run = run_arm,
};

const struct verb cmd_disarm = {
	.name = "disarm",
	.arguments = "--pid N",
	.summary = "stop tracing a process and drop its history",
	.flags = VERB_SOCKET | VERB_JSON | VERB_QUIET,
	.options = disarm_options,
	.run = run_disarm,
};
