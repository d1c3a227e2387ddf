/* SPDX-License-Identifier: MIT */
/* csight arm, csight disarm. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "client/container.h"
#include "client/format.h"
#include "client/function-lookup.h"
#include "client/live-function.h"
#include "lib/base/buf.h"
#include "lib/base/escape.h"

/* A path below it names a group as well. */
#define CGROUP_ROOT "/sys/fs/cgroup"

/* POINTS_MAX: addresses of a filter. */
enum { FUNCTIONS_MAX = 8, POINTS_MAX = 8, RING_SIZE_MIN = 64 << 10, RING_SIZE_MAX = 1 << 30 };
enum { CYCLE_THRESHOLD_MAX = 4095, TIMESTAMP_INTERVAL_MAX = 8192, CPUS_MAX = 1024 };
enum {
	OPTION_PID,
	OPTION_KERNEL,
	OPTION_CYCLES,
	OPTION_NO_TIMESTAMPS,
	OPTION_NO_CONTEXTS,
	OPTION_RETSTACK,
	OPTION_BROADCAST,
	OPTION_THRESHOLD,
	OPTION_INTERVAL,
	OPTION_THREAD,
	OPTION_FUNCTION,
	OPTION_DURING,
	OPTION_FILTER,
	OPTION_SINK,
	OPTION_RING_SIZE,
	OPTION_MODE,
	OPTION_COUNTERS,
	OPTION_CPUS,
	/* Options of a standing target: */
	OPTION_NAME,
	OPTION_EXE,
	OPTION_UNIT,
	OPTION_CGROUP,
	OPTION_CONTAINER,
	OPTION_TREE,
	OPTION_USER,
	OPTION_ALL
};

enum { OPTION_STANDING = OPTION_KERNEL /* of disarm */ };

static const struct verb_option arm_options[] = {
	[OPTION_PID] = { "pid", 'p', "N", "process ID" },
	[OPTION_KERNEL] = { "kernel", 0, NULL, "also trace its execution in the kernel (root only)" },
	[OPTION_CYCLES] = { "cycles", 0, NULL, "count cycles" },
	[OPTION_NO_TIMESTAMPS] = { "no-timestamps", 0, NULL, "no timestamps: less trace, and no times" },
	[OPTION_NO_CONTEXTS] = { "no-contexts", 0, NULL, "no context IDs" },
	[OPTION_RETSTACK] = { "retstack", 0, "on|off",
			      "omit the addresses of returns that a return stack predicts (default on)" },
	[OPTION_BROADCAST] = { "branch-broadcast", 0, NULL, "trace the target of every taken branch" },
	[OPTION_THRESHOLD] = { "cycle-threshold", 0, "N", "with --cycles: least number of cycles that is traced" },
	[OPTION_INTERVAL] = { "timestamp-interval", 0, "N", "cycles between timestamps, a power of two up to 8192" },
	[OPTION_THREAD] = { "thread", 0, "TID", "trace only this thread of the process" },
	[OPTION_FUNCTION] = { "function", 0, "NAME[@FILE]",
			      "trace only this function of FILE (default the program); repeatable" },
	[OPTION_DURING] = { "during", 0, "NAME[@FILE]", "trace only while this function runs, with what it calls" },
	[OPTION_FILTER] = { "filter", 0, "TEXT", "trace only these addresses; TEXT is a perf address filter" },
	[OPTION_SINK] = { "sink", 0, "NAME", "trace sink, as listed by csight doctor" },
	[OPTION_RING_SIZE] = { "ring-size", 0, "BYTES", "size of each ring of the process; suffixes K, M, G" },
	[OPTION_MODE] = { "mode", 0, "ring|fill", "keep the newest trace (default), or the first that fits" },
	[OPTION_COUNTERS] = { "counters", 0, "NAME[,NAME]", "also count events, such as cycles or cpu-frequency" },
	[OPTION_CPUS] = { "cpus", 0, "LIST", "trace only on these CPUs, such as 0-3,5" },
	[OPTION_NAME] = { "name", 0, "PATTERN", "processes of this name, now and later: a standing target" },
	[OPTION_EXE] = { "exe", 0, "FILE", "processes that execute this program, now and later" },
	[OPTION_UNIT] = { "unit", 0, "NAME", "processes of this unit of systemd, now and later" },
	[OPTION_CGROUP] = { "cgroup", 0, "PATH", "processes in this control group, now and later" },
	[OPTION_CONTAINER] = { "container", 0, "ID", "processes of this running container, now and later" },
	[OPTION_TREE] = { "tree", 0, "N", "this process and its descendants, now and later" },
	[OPTION_USER] = { "user", 0, "NAME", "processes of this user, now and later" },
	[OPTION_ALL] = { "all", 0, NULL, "all own processes, now and later; of root, those of all users" },
	{ 0 },
};

static const struct verb_option disarm_options[] = {
	[OPTION_PID] = { "pid", 'p', "N", "process ID" },
	[OPTION_STANDING] = { "standing", 0, "ID", "remove a standing target; its processes remain armed" },
	{ 0 },
};

struct arm {
	struct csight_arm_options options;
	struct csight_rule rule;
	bool stands; /* an option of the rule was given */
	char exe[PATH_MAX], unit[NAME_MAX + 1], group[PATH_MAX];
	const char *functions[FUNCTIONS_MAX];
	size_t n_functions;
	const char *during;
	struct buf filter; /* address filters: that of --filter, then one for each function, then those of --during */
};

static void arm_done(struct arm *a)
{
	buf_done(&a->filter);
}

struct arm_function {
	char *name;
	char exe[PATH_MAX];
	const char *file;
	int fd;
	struct function_place at;
};

static void arm_function_done(struct arm_function *f)
{
	free(f->name);
	closep(&f->fd);
}

/* Finds NAME[@FILE] in that file, or in the program. Returns 0 or an exit status. */
static int arm_find_function(const char *wanted, pid_t pid, struct arm_function *ret)
{
	char link[32], *behind;
	ssize_t n;
	int rc;

	ret->name = strdup(wanted);
	if (!ret->name) {
		client_error("out of memory");
		return STATUS_FAILED;
	}
	snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
	n = readlink(link, ret->exe, sizeof(ret->exe) - 1);
	ret->exe[n < 0 ? 0 : n] = 0;
	/* The first '@' ends the name of the function: C++ names have none, file names may. */
	behind = strchr(ret->name, '@');
	if (behind)
		*behind = 0;
	ret->file = behind ? behind + 1 : ret->exe;
	ret->fd = open(behind ? ret->file : link, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	rc = ret->fd < 0 ? -errno : function_lookup(ret->fd, ret->name, &ret->at);
	if (rc == 0)
		return STATUS_OK;
	client_error("cannot find function %s in %s: %s%s", esc(ret->name), esc(ret->file[0] ? ret->file : link),
		     rc == -ENOENT && ret->fd >= 0 ? "it has no function of this name"
		     : rc == -ENOTUNIQ             ? "it has several functions of this name"
		     : rc == -ENODATA              ? "it has no symbol table"
		     : rc == -EFAULT               ? "the process that parses it crashed"
						   : strerror(-rc),
		     strstr(ret->file, "/qemu-") ? "; emulated programs have no address filters" : "");
	return rc == -ENOENT ? STATUS_NOT_FOUND : STATUS_FAILED;
}

/* Appends an address filter: START/SIZE, or ADDRESS if size is 0. */
static void arm_add_filter(struct arm *a, const char *verb, uint64_t start, uint64_t size, const char *file)
{
	char place[48], text[PATH_MAX + 64];
	int n;

	snprintf(place, sizeof(place), size ? "0x%" PRIx64 "/0x%" PRIx64 : "0x%" PRIx64, start, size);
	n = snprintf(text, sizeof(text), "%s%s %s@%s", a->filter.size ? "," : "", verb, place, file);
	buf_add(&a->filter, text, MIN((size_t)n, sizeof(text) - 1));
}

/*
 * Appends the filter for the addresses of a function, since the kernel filters by address only. Returns 0 or an exit
 * status.
 */
static int arm_add_function(struct arm *a, const char *wanted, pid_t pid)
{
	_cleanup_(arm_function_done) struct arm_function f = { .fd = -1 };
	int status = arm_find_function(wanted, pid, &f);

	if (status == STATUS_OK)
		arm_add_filter(a, "filter", f.at.start, f.at.end - f.at.start, f.file);
	return status;
}

/* The same for what a function executes until it returns, with the functions that it calls. */
static int arm_add_during(struct arm *a, pid_t pid)
{
	_cleanup_(arm_function_done) struct arm_function f = { .fd = -1 };
	uint64_t places[POINTS_MAX - 1];
	struct function_ends ends = { .places = places, .room = ELEMENTS(places) };
	struct reason why = { .text = "" };
	int status = arm_find_function(a->during, pid, &f), rc;

	if (status != STATUS_OK)
		return status;
	rc = live_function_ends(f.fd, f.at.start, f.at.end, &ends, &why);
	if (rc == 0 && !ends.n)
		rc = reason_set(&why, -EOPNOTSUPP, "it never does");
	if (rc < 0) {
		client_error("cannot find where function %s of %s returns: %s", esc(f.name), esc(f.file),
			     why.text[0] ? why.text : strerror(-rc));
		return STATUS_FAILED;
	}
	arm_add_filter(a, "start", f.at.start, 0, f.file);
	for (size_t i = 0; i < ends.n; i++)
		arm_add_filter(a, "stop", ends.places[i], 0, f.file);
	return STATUS_OK;
}

static int arm_add_functions(struct arm *a, pid_t pid)
{
	int status = STATUS_OK;

	if (a->options.filter)
		buf_add(&a->filter, a->options.filter, strlen(a->options.filter));
	for (size_t i = 0; i < a->n_functions && status == STATUS_OK; i++)
		status = arm_add_function(a, a->functions[i], pid);
	if (a->during && status == STATUS_OK)
		status = arm_add_during(a, pid);
	buf_add(&a->filter, "", 1);
	if (status == STATUS_OK && buf_error(&a->filter)) {
		client_error("out of memory");
		status = STATUS_FAILED;
	}
	a->options.filter = (const char *)a->filter.data;
	return status;
}

/* Finds the control group of a container. Returns 0 or an exit status. */
static int arm_find_container(struct arm *a, const char *id)
{
	int rc = container_find(id, a->group, sizeof(a->group));

	a->rule.cgroup = a->group;
	if (rc == -ENOENT)
		client_error(
		    "no process runs in a container %s; docker ps, podman ps, crictl ps and machinectl list them",
		    esc(id));
	else if (rc == -ENOTUNIQ)
		client_error("the IDs of several containers begin with %s: more digits are required", esc(id));
	else if (rc < 0)
		client_error("cannot look for container %s in /proc: %s", esc(id), strerror(-rc));
	return rc == 0 ? STATUS_OK : rc == -ENOENT ? STATUS_NOT_FOUND : STATUS_FAILED;
}

/* Adds an option of the rule. Returns 0, or an exit status. */
static int arm_add_rule(struct client *c, struct arm *a, int option, const char *value)
{
	struct csight_rule *r = &a->rule;
	const struct passwd *user;
	uint64_t number;

	if (r->cgroup && (option == OPTION_ALL || option == OPTION_CGROUP || option == OPTION_CONTAINER))
		return client_usage(c, "--all, --cgroup and --container exclude each other");
	a->stands = true;
	switch (option) {
	case OPTION_NAME:
		r->name = value;
		break;
	case OPTION_EXE:
		r->exe = realpath(value, a->exe);
		if (!r->exe) {
			client_error("cannot find the program %s: %s", esc(value), strerror(errno));
			return STATUS_FAILED;
		}
		break;
	case OPTION_ALL:
		r->cgroup = "/";
		break;
	case OPTION_UNIT:
		snprintf(a->unit, sizeof(a->unit), "%s%s", value, strchr(value, '.') ? "" : ".service");
		r->unit = a->unit;
		break;
	case OPTION_CGROUP:
		r->cgroup =
		    strncmp(value, CGROUP_ROOT "/", strlen(CGROUP_ROOT "/")) == 0 ? value + strlen(CGROUP_ROOT) : value;
		break;
	case OPTION_CONTAINER:
		return arm_find_container(a, value);
	case OPTION_TREE:
		if (parse_u64(value, INT32_MAX, &number) < 0 || number == 0)
			return client_usage(c, "--tree: '%s' is not a process ID", esc(value));
		r->tree = (pid_t)number;
		break;
	case OPTION_USER:
		user = getpwnam(value);
		if (!user && parse_u64(value, UINT32_MAX - 1, &number) < 0) {
			client_error("there is no user %s", esc(value));
			return STATUS_FAILED;
		}
		r->has_user = true;
		r->user = user ? user->pw_uid : (uid_t)number;
		break;
	}
	return STATUS_OK;
}

/* Parses the value of an option about the content of the trace. Returns a usage error's status, or STATUS_OK. */
static int arm_add_content(struct client *c, struct csight_arm_options *options, int option, const char *value)
{
	bool cpus[CPUS_MAX];
	uint64_t number;

	switch (option) {
	case OPTION_THREAD:
		if (parse_u64(value, INT32_MAX, &number) < 0 || number == 0)
			return client_usage(c, "--thread: '%s' is not a thread ID", esc(value));
		options->thread = (uint32_t)number;
		break;
	case OPTION_RETSTACK:
		options->no_return_stack = strcmp(value, "off") == 0;
		if (!options->no_return_stack && strcmp(value, "on") != 0)
			return client_usage(c, "--retstack: '%s' is neither on nor off", esc(value));
		break;
	case OPTION_THRESHOLD:
		if (parse_u64(value, CYCLE_THRESHOLD_MAX, &options->cycle_threshold) < 0 || !options->cycle_threshold)
			return client_usage(c, "--cycle-threshold: '%s' is not a number from 1 to %d", esc(value),
					    CYCLE_THRESHOLD_MAX);
		break;
	case OPTION_INTERVAL:
		if (parse_u64(value, TIMESTAMP_INTERVAL_MAX, &options->timestamp_interval) < 0 ||
		    !options->timestamp_interval || options->timestamp_interval & (options->timestamp_interval - 1))
			return client_usage(c, "--timestamp-interval: '%s' is not a power of two from 1 to %d",
					    esc(value), TIMESTAMP_INTERVAL_MAX);
		break;
	case OPTION_CPUS:
		options->cpus = value;
		if (!*value || parse_ranges(value, cpus, CPUS_MAX) < 0)
			return client_usage(c, "--cpus: '%s' is not a list of CPUs such as 0-3,5", esc(value));
		break;
	case OPTION_RING_SIZE:
		if (parse_size(value, &options->ring_size) < 0 || options->ring_size < RING_SIZE_MIN ||
		    options->ring_size > RING_SIZE_MAX || (options->ring_size & (options->ring_size - 1)))
			return client_usage(c, "--ring-size: '%s' is not a power of two from 64K to 1G", esc(value));
		break;
	case OPTION_MODE:
		options->mode = value;
		if (!client_is_mode(value))
			return client_usage(c, "--mode: '%s' is neither ring nor fill", esc(value));
		break;
	}
	return STATUS_OK;
}

/* Parses the command line. Returns false, with the exit status in c->status, if the verb ends there. */
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
		case OPTION_DURING:
			arm->during = value;
			break;
		case OPTION_FILTER:
			options->filter = value;
			break;
		case OPTION_SINK:
			options->sink = value;
			break;
		case OPTION_COUNTERS:
			options->counters = value;
			break;
		case OPTION_BROADCAST:
			options->branch_broadcast = true;
			break;
		case OPTION_RETSTACK:
		case OPTION_THRESHOLD:
		case OPTION_INTERVAL:
		case OPTION_THREAD:
		case OPTION_CPUS:
		case OPTION_RING_SIZE:
		case OPTION_MODE:
			c->status = arm_add_content(c, options, o, value);
			if (c->status != STATUS_OK)
				return false;
			break;
		case OPTION_NAME:
		case OPTION_EXE:
		case OPTION_UNIT:
		case OPTION_CGROUP:
		case OPTION_CONTAINER:
		case OPTION_TREE:
		case OPTION_USER:
		case OPTION_ALL:
			c->status = arm_add_rule(c, arm, o, value);
			if (c->status != STATUS_OK)
				return false;
			break;
		}
	}
	if (o == CLIENT_STOP)
		return false;
	if (options->cycle_threshold && !options->cycles) {
		c->status = client_usage(c, "--cycle-threshold has no effect without --cycles");
		return false;
	}
	if (arm->stands && options->thread) {
		c->status = client_usage(c, "--thread is of one process, and a standing target selects many");
		return false;
	}
	if (arm->during && arm->n_functions) {
		c->status = client_usage(c, "--during and --function exclude each other");
		return false;
	}
	if (arm->stands && (pid || c->argc || arm->n_functions || arm->during)) {
		c->status = client_usage(c, "a standing target takes no process ID%s",
					 arm->n_functions || arm->during
					     ? ", and no --function or --during: each process has other addresses"
					     : "");
		return false;
	}
	c->status = arm->stands ? STATUS_OK : client_pid(c, pid, ret_pid);
	if (c->status == 0 && (arm->n_functions || arm->during))
		c->status = arm_add_functions(arm, *ret_pid);
	if (c->status == 0)
		c->status = client_connect(c);
	return c->status == 0;
}

static int arm_standing(struct client *c, const struct arm *arm)
{
	_cleanup_object_ struct csight_object *standing = NULL;
	int rc = csight_arm_standing(c->daemon, &arm->rule, &arm->options, &standing);

	if (rc < 0)
		return client_daemon_failed(c, rc);
	if (c->json)
		client_print_json_member(stdout, "standing", csight_json(standing));
	else if (!c->quiet)
		printf("standing target %d is set: %s\n", (int)csight_number(standing, "id", 0),
		       esc(csight_text(standing, "text")));
	return STATUS_OK;
}

static int arm_run(struct client *c)
{
	_cleanup_object_ struct csight_object *target = NULL;
	_cleanup_(arm_done) struct arm arm = { .options.size = sizeof(arm.options), .rule.size = sizeof(arm.rule) };
	const char *trouble, *state;
	pid_t pid;
	int rc;

	if (!arm_parse(c, &pid, &arm))
		return c->status;
	if (arm.stands)
		return arm_standing(c, &arm);
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
	/* The exit status shows scripts that nothing is traced. */
	return state && strcmp(state, "blocked") == 0 ? STATUS_FAILED : STATUS_OK;
}

/*
 * Parses the command line and connects. *ret_id: the standing target to disarm; 0: the process *ret_pid. Returns 0, an
 * exit status after an error message, or -1 after --help.
 */
static int disarm_parse(struct client *c, pid_t *ret_pid, uint32_t *ret_id)
{
	const char *value, *pid = NULL, *standing = NULL;
	uint64_t id = 0;
	int o;

	while ((o = client_option(c, &value)) >= 0)
		*(o == OPTION_STANDING ? &standing : &pid) = value;
	if (o == CLIENT_STOP)
		return c->status ? c->status : -1;
	if (standing && (pid || c->argc))
		return client_usage(c, "only one of --pid and --standing may be given");
	if (standing && (parse_u64(standing, UINT32_MAX, &id) < 0 || id == 0))
		return client_usage(c, "'%s' is not the ID of a standing target; csight targets lists them",
				    esc(standing));
	*ret_id = (uint32_t)id;
	o = standing ? STATUS_OK : client_pid(c, pid, ret_pid);
	return o ? o : client_connect(c);
}

static int disarm_run(struct client *c)
{
	uint32_t id = 0;
	pid_t pid = 0;
	int rc = disarm_parse(c, &pid, &id);

	if (rc)
		return MAX(rc, 0);
	rc = id ? csight_disarm_standing(c->daemon, id) : csight_disarm(c->daemon, pid);
	if (rc < 0)
		return client_daemon_failed(c, rc);
	if (c->json)
		printf("{}\n");
	else if (!c->quiet && id)
		printf("standing target %u is removed; the processes that it armed remain so\n", id);
	else if (!c->quiet)
		printf("process %d is disarmed; its history is dropped\n", (int)pid);
	return STATUS_OK;
}

const struct verb cmd_arm = {
	.name = "arm",
	.arguments = "--pid N | --name PATTERN | --exe FILE | ...",
	.summary = "start recording a process, or all of a kind",
	.flags = VERB_SOCKET | VERB_JSON | VERB_QUIET,
	.options = arm_options,
	.run = arm_run,
};

const struct verb cmd_disarm = {
	.name = "disarm",
	.arguments = "--pid N | --standing ID",
	.summary = "stop recording a process and drop its history",
	.flags = VERB_SOCKET | VERB_JSON | VERB_QUIET,
	.options = disarm_options,
	.run = disarm_run,
};
