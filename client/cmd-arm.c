/* SPDX-License-Identifier: MIT */
/* csight arm, csight disarm. */
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "client/client.h"
#include "client/format.h"
#include "client/function-lookup.h"
#include "lib/base/buf.h"
#include "lib/base/escape.h"

enum { FUNCTIONS_MAX = 8, RING_SIZE_MIN = 64 << 10, RING_SIZE_MAX = 1 << 30 };
enum {
	OPTION_PID,
	OPTION_KERNEL,
	OPTION_CYCLES,
	OPTION_NO_TIMESTAMPS,
	OPTION_NO_CONTEXTS,
	OPTION_FUNCTION,
	OPTION_FILTER,
	OPTION_SINK,
	OPTION_RING_SIZE
};

static const struct verb_option arm_options[] = {
	[OPTION_PID] = { "pid", 'p', "N", "process ID" },
	[OPTION_KERNEL] = { "kernel", 0, NULL, "also trace its execution in the kernel (root only)" },
	[OPTION_CYCLES] = { "cycles", 0, NULL, "count cycles" },
	[OPTION_NO_TIMESTAMPS] = { "no-timestamps", 0, NULL, "no timestamps: less trace, and no times" },
	[OPTION_NO_CONTEXTS] = { "no-contexts", 0, NULL, "no context IDs" },
	[OPTION_FUNCTION] = { "function", 0, "NAME[@FILE]",
			      "trace only this function of FILE (default the program); repeatable" },
	[OPTION_FILTER] = { "filter", 0, "TEXT", "trace only these addresses; TEXT is a perf address filter" },
	[OPTION_SINK] = { "sink", 0, "NAME", "trace sink, as listed by csight doctor" },
	[OPTION_RING_SIZE] = { "ring-size", 0, "BYTES", "size of each ring of the process; suffixes K, M, G" },
	{ 0 },
};

static const struct verb_option disarm_options[] = {
	[OPTION_PID] = { "pid", 'p', "N", "process ID" },
	{ 0 },
};

struct arm {
	struct csight_arm_options options;
	const char *functions[FUNCTIONS_MAX];
	size_t n_functions;
	struct buf filter; /* address filters: that of --filter, then one for each function */
};

static void arm_done(struct arm *a)
{
	buf_done(&a->filter);
}

/* Appends the filter for the addresses of a function, since the kernel filters by address only. 0 or an exit status. */
static int arm_add_function(struct arm *a, const char *wanted, pid_t pid)
{
	_cleanup_free_ char *name = strdup(wanted);
	_cleanup_close_ int fd = -1;
	char link[32], exe[PATH_MAX], text[PATH_MAX + 64];
	struct function_place at;
	const char *file = exe;
	char *behind;
	ssize_t n;
	int rc;

	if (!name) {
		client_error("out of memory");
		return STATUS_FAILED;
	}
	snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
	n = readlink(link, exe, sizeof(exe) - 1);
	exe[n < 0 ? 0 : n] = 0;
	/* The first '@' ends the name of the function: C++ names have none, file names may. */
	behind = strchr(name, '@');
	if (behind) {
		*behind = 0;
		file = behind + 1;
	}
	fd = open(behind ? file : link, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	rc = fd < 0 ? -errno : function_lookup(fd, name, &at);
	if (rc < 0) {
		client_error("cannot find function %s in %s: %s", esc(name), esc(file[0] ? file : link),
			     rc == -ENOENT && fd >= 0 ? "it has no function of this name"
			     : rc == -ENOTUNIQ        ? "it has several functions of this name"
			     : rc == -ENODATA         ? "it has no symbol table"
			     : rc == -EFAULT          ? "the process that parses it crashed"
						      : strerror(-rc));
		return rc == -ENOENT ? STATUS_NOT_FOUND : STATUS_FAILED;
	}
	n = snprintf(text, sizeof(text), "%sfilter 0x%" PRIx64 "/0x%" PRIx64 "@%s", a->filter.size ? "," : "", at.start,
		     at.end - at.start, file);
	buf_add(&a->filter, text, MIN((size_t)n, sizeof(text) - 1));
	return STATUS_OK;
}

static int arm_add_functions(struct arm *a, pid_t pid)
{
	int status = STATUS_OK;

	if (a->options.filter)
		buf_add(&a->filter, a->options.filter, strlen(a->options.filter));
	for (size_t i = 0; i < a->n_functions && status == STATUS_OK; i++)
		status = arm_add_function(a, a->functions[i], pid);
	buf_add(&a->filter, "", 1);
	if (status == STATUS_OK && buf_error(&a->filter)) {
		client_error("out of memory");
		status = STATUS_FAILED;
	}
	a->options.filter = (const char *)a->filter.data;
	return status;
}

/* On failure returns false, with the exit status in c->status. */
static bool arm_parse(struct client *c, pid_t *ret_pid, struct arm *arm)
{
	struct csight_arm_options *options = &arm->options;
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
		case OPTION_FUNCTION:
			if (arm->n_functions == FUNCTIONS_MAX) {
				c->status =
				    client_usage(c, "at most %d --function options are accepted", FUNCTIONS_MAX);
				return false;
			}
			arm->functions[arm->n_functions++] = value;
			break;
		case OPTION_FILTER:
			options->filter = value;
			break;
		case OPTION_SINK:
			options->sink = value;
			break;
		case OPTION_RING_SIZE:
			if (parse_size(value, &options->ring_size) < 0 || options->ring_size < RING_SIZE_MIN ||
			    options->ring_size > RING_SIZE_MAX || (options->ring_size & (options->ring_size - 1))) {
				c->status = client_usage(c, "--ring-size: '%s' is not a power of two from 64K to 1G",
							 esc(value));
				return false;
			}
			break;
		}
	}
	if (o == CLIENT_STOP)
		return false;
	c->status = client_pid(c, pid, ret_pid);
	if (c->status == 0 && arm->n_functions)
		c->status = arm_add_functions(arm, *ret_pid);
	if (c->status == 0)
		c->status = client_connect(c);
	return c->status == 0;
}

static int arm_run(struct client *c)
{
	_cleanup_object_ struct csight_object *target = NULL;
	_cleanup_(arm_done) struct arm arm = { .options.size = sizeof(arm.options) };
	const char *trouble, *state;
	pid_t pid;
	int rc;

	if (!arm_parse(c, &pid, &arm))
		return c->status;
	rc = csight_arm(c->daemon, pid, &arm.options, &target);
	if (rc < 0)
		return client_daemon_failed(c, rc);
	trouble = csight_text(target, "trouble");
	state = csight_text(target, "state");
	if (c->json)
		client_print_json_member(stdout, "target", csight_json(target));
	else if (!c->quiet)
		printf("%s (process %d) is %s%s%s\n", esc(csight_text(target, "name")), (int)pid, esc(state),
		       trouble ? ": " : "", trouble ? esc(trouble) : "");
	/* Scripts see that nothing is traced. */
	return state && strcmp(state, "blocked") == 0 ? STATUS_FAILED : STATUS_OK;
}

static int disarm_run(struct client *c)
{
	pid_t pid;
	int rc;

	if (!arm_parse(c, &pid, &(struct arm){ 0 }))
		return c->status;
	rc = csight_disarm(c->daemon, pid);
	if (rc < 0)
		return client_daemon_failed(c, rc);
	if (c->json)
		printf("{}\n");
	else if (!c->quiet)
		printf("process %d is disarmed; its history is dropped\n", (int)pid);
	return STATUS_OK;
}

const struct verb cmd_arm = {
	.name = "arm",
	.arguments = "--pid N",
	.summary = "start recording a process",
	.flags = VERB_SOCKET | VERB_JSON | VERB_QUIET,
	.options = arm_options,
	.run = arm_run,
};

const struct verb cmd_disarm = {
	.name = "disarm",
	.arguments = "--pid N",
	.summary = "stop recording a process and drop its history",
	.flags = VERB_SOCKET | VERB_JSON | VERB_QUIET,
	.options = disarm_options,
	.run = disarm_run,
};
