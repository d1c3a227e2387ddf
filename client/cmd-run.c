/* SPDX-License-Identifier: MIT */
/* csight run: executes the program in place of csight, so that terminal, signals and exit status are the program's own;
 * with --emu, qemu-aarch64 with the plugin. With --snapshot, or a csightd for this run alone, the program is a child
 * instead, and is not reaped before the snapshot is taken, so that its process ID stays valid. A process of the trace
 * units is armed before it executes the program.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "client/client.h"
#include "client/cmd-assert.h"
#include "client/format.h"
#include "client/guest.h"
#include "lib/doctor/emulator.h"
#include "lib/base/buf.h"
#include "lib/base/escape.h"
#include "lib/base/path.h"
#include "lib/emu/etm-encode.h"

enum {
	OPTION_EMU,
	OPTION_SNAPSHOT,
	OPTION_CLOCK,
	OPTION_RETSTACK,
	OPTION_BROADCAST,
	OPTION_CYCLES,
	OPTION_THRESHOLD,
	OPTION_NO_TIMESTAMPS,
	OPTION_NO_CONTEXTS,
	OPTION_RING_SIZE,
	OPTION_RINGS,
	OPTION_MODE,
	OPTION_TRUTH,
	OPTION_STACKS,
	OPTION_SYSROOT,
	OPTION_ASSERT,
	OPTION_NOMINAL
};

static const struct verb_option options[] = {
	[OPTION_EMU] = { "emu", 0, NULL, "use the emulated trace unit, rather than those of the machine" },
	[OPTION_SNAPSHOT] = { "snapshot", 0, NULL, "take a snapshot when the program ends" },
	[OPTION_CLOCK] = { "clock", 0, "virtual|wall", "time without that of the emulator (default), or real time" },
	[OPTION_RETSTACK] = { "retstack", 0, "on|off",
			      "omit the addresses of returns that a return stack predicts (default on)" },
	[OPTION_BROADCAST] = { "branch-broadcast", 0, NULL, "trace the target of every taken branch" },
	[OPTION_CYCLES] = { "cycles", 0, NULL, "count cycles; the emulated unit counts instructions" },
	[OPTION_THRESHOLD] = { "cycle-threshold", 0, "N", "least number of cycles that is traced (default 256)" },
	[OPTION_NO_TIMESTAMPS] = { "no-timestamps", 0, NULL, "no timestamps: less trace, and no times" },
	[OPTION_NO_CONTEXTS] = { "no-contexts", 0, NULL, "no context IDs" },
	[OPTION_RING_SIZE] = { "ring-size", 0, "BYTES", "history of each thread; suffixes K, M, G" },
	[OPTION_MODE] = { "mode", 0, "ring|fill", "keep the newest trace (default), or the first that fits" },
	[OPTION_RINGS] = { "rings", 0, "N", "number of threads that are traced at a time" },
	[OPTION_TRUTH] = { "truth", 0, "DIR", "log executed instructions into DIR, for tests" },
	[OPTION_STACKS] = { "truth-stacks", 0, NULL, "with --truth, also log stack pointers" },
	[OPTION_SYSROOT] = { "sysroot", 'L', "DIR", "libraries of a dynamic program (default " GUEST_SYSROOT ")" },
	[OPTION_ASSERT] = { "assert", 0, "ASSERTION",
			    "with --snapshot: check this, as csight assert does; repeatable" },
	[OPTION_NOMINAL] = { "nominal", 0, NULL, "with --assert: take times as they are, without their error bounds" },
	{ 0 },
};

struct run_options {
	bool emu, snapshot, broadcast, cycles, no_timestamps, no_contexts, stacks;
	bool nominal;
	const char *asserts[CMD_ASSERT_MAX];
	size_t n_asserts;
	const char *clock, *retstack, *threshold, *ring_size, *rings, *truth, *sysroot, *mode;
};

static int fail_program(const char *program, const char *why)
{
	client_error("cannot run %s under the emulated trace unit: %s", esc(program), why);
	return STATUS_FAILED;
}

static int fail_native(const char *program, const char *why)
{
	client_error("cannot run %s under the trace units: %s", esc(program), why);
	return STATUS_FAILED;
}

/* Refuses options that the machine's trace units do not have. Returns -1, or the exit status. */
static int check_native(struct client *c, const struct run_options *run)
{
	const struct {
		const char *name;
		bool given;
	} emulated[] = {
		{ "clock", run->clock },         { "rings", run->rings },     { "truth", run->truth },
		{ "truth-stacks", run->stacks }, { "sysroot", run->sysroot },
	};

	for (size_t i = 0; i < ELEMENTS(emulated); i++)
		if (emulated[i].given)
			return client_usage(c, "--%s is an option of the emulated trace unit: it needs --emu",
					    emulated[i].name);
	return -1;
}

static int run_parse(struct client *c, struct run_options *ret)
{
	const char *value;
	uint64_t size;
	int64_t n;
	int o;

	while ((o = client_option(c, &value)) >= 0) {
		const char **const to[] = {
			[OPTION_CLOCK] = &ret->clock,         [OPTION_RETSTACK] = &ret->retstack,
			[OPTION_RING_SIZE] = &ret->ring_size, [OPTION_RINGS] = &ret->rings,
			[OPTION_TRUTH] = &ret->truth,         [OPTION_SYSROOT] = &ret->sysroot,
			[OPTION_THRESHOLD] = &ret->threshold, [OPTION_MODE] = &ret->mode,
		};
		bool *const flags[ELEMENTS(options)] = {
			[OPTION_EMU] = &ret->emu,
			[OPTION_SNAPSHOT] = &ret->snapshot,
			[OPTION_BROADCAST] = &ret->broadcast,
			[OPTION_CYCLES] = &ret->cycles,
			[OPTION_NO_TIMESTAMPS] = &ret->no_timestamps,
			[OPTION_NO_CONTEXTS] = &ret->no_contexts,
			[OPTION_STACKS] = &ret->stacks,
			[OPTION_NOMINAL] = &ret->nominal,
		};

		if (o == OPTION_ASSERT && ret->n_asserts == CMD_ASSERT_MAX)
			return client_usage(c, "at most %d assertions are accepted", CMD_ASSERT_MAX);
		if (o == OPTION_ASSERT)
			ret->asserts[ret->n_asserts++] = value;
		else if (flags[o])
			*flags[o] = true;
		else
			*to[o] = value;
	}
	if (o == CLIENT_STOP)
		return c->status;
	if (!c->argc)
		return client_usage(c, "missing program");
	if (ret->clock && strcmp(ret->clock, "virtual") != 0 && strcmp(ret->clock, "wall") != 0)
		return client_usage(c, "--clock: '%s' is neither virtual nor wall", esc(ret->clock));
	if (ret->retstack && strcmp(ret->retstack, "on") != 0 && strcmp(ret->retstack, "off") != 0)
		return client_usage(c, "--retstack: '%s' is neither on nor off", esc(ret->retstack));
	if (ret->mode && !client_is_mode(ret->mode))
		return client_usage(c, "--mode: '%s' is neither ring nor fill", esc(ret->mode));
	if (ret->threshold && parse_i64(ret->threshold, 0, ETM_THRESHOLD_MAX, &n) < 0)
		return client_usage(c, "--cycle-threshold: '%s' is not a number from 0 to %d", esc(ret->threshold),
				    ETM_THRESHOLD_MAX);
	if (ret->ring_size && (parse_size(ret->ring_size, &size) < 0 || size < EMU_RING_SIZE_MIN ||
			       size > EMU_RING_SIZE_MAX || (size & (size - 1))))
		return client_usage(c, "--ring-size: '%s' is not a power of two from 64K to 1G", esc(ret->ring_size));
	if (ret->threshold && !ret->cycles)
		return client_usage(c, "--cycle-threshold has no effect without --cycles");
	if (ret->stacks && !ret->truth)
		return client_usage(c, "--truth-stacks has no effect without --truth");
	if (c->json && !ret->snapshot)
		return client_usage(c, "--json has no effect without --snapshot");
	if (ret->n_asserts && !ret->snapshot)
		return client_usage(c, "--assert has no effect without --snapshot");
	if (ret->nominal && !ret->n_asserts)
		return client_usage(c, "--nominal has no effect without --assert");
	for (size_t i = 0; i < ret->n_asserts; i++)
		if (cmd_assert_check(c, ret->asserts[i]) != 0)
			return STATUS_USAGE;
	if (ret->rings && parse_i64(ret->rings, 1, EMU_RINGS_MAX, &n) < 0)
		return client_usage(c, "--rings: '%s' is not a number from 1 to %d", esc(ret->rings), EMU_RINGS_MAX);
	return ret->emu ? -1 : check_native(c, ret);
}

/* Appends NAME=VALUE to the arguments of the plugin. Commas are doubled, since a single one ends the value. */
static void put_argument(struct buf *b, const char *name, const char *value)
{
	if (*name)
		buf_printf(b, ",%s=", name);
	for (; *value; value++) {
		buf_u8(b, (uint8_t)*value);
		if (*value == ',')
			buf_u8(b, ',');
	}
}

static int put_plugin(struct client *c, const struct run_options *run, const char *plugin, const char *socket,
		      struct buf *b)
{
	_cleanup_free_ char *truth = NULL;
	uint64_t size;

	put_argument(b, "", plugin);
	put_argument(b, "socket", socket);
	if (run->clock)
		put_argument(b, "clock", run->clock);
	if (run->retstack)
		put_argument(b, "retstack", run->retstack);
	if (run->broadcast)
		put_argument(b, "broadcast", "on");
	if (run->cycles)
		put_argument(b, "cycles", "on");
	if (run->threshold)
		put_argument(b, "threshold", run->threshold);
	if (run->no_timestamps)
		put_argument(b, "timestamps", "off");
	if (run->no_contexts)
		put_argument(b, "contexts", "off");
	if (run->ring_size && parse_size(run->ring_size, &size) == 0)
		buf_printf(b, ",ringsize=%llu", (unsigned long long)size);
	if (run->rings)
		put_argument(b, "rings", run->rings);
	if (run->mode)
		put_argument(b, "mode", run->mode);
	if (run->truth) {
		/* An absolute path, because the program may change its directory before the log is opened. */
		truth = realpath(run->truth, NULL);
		if (!truth) {
			client_error("cannot log into %s: %s", esc(run->truth), strerror(errno));
			return STATUS_FAILED;
		}
		put_argument(b, "truth", truth);
		if (run->stacks)
			put_argument(b, "stacks", "on");
	}
	buf_u8(b, 0);
	return buf_error(b) ? fail_program(c->argv[0], strerror(-buf_error(b))) : STATUS_OK;
}

/* Chooses the sysroot of the program's libraries: --sysroot, else "/", else that of Debian's cross packages. */
static int find_sysroot(const struct guest *guest, const char *program, const char **sysroot)
{
	char why[2 * PATH_MAX];

	if (!*sysroot && !guest_interpreter_in(guest, NULL) && !getenv("QEMU_LD_PREFIX"))
		*sysroot = GUEST_SYSROOT;
	if (!*sysroot || guest_interpreter_in(guest, *sysroot))
		return STATUS_OK;
	snprintf(why, sizeof(why),
		 "its interpreter %s is neither on this machine nor in %s; apt install libc6-arm64-cross, or name the "
		 "directory of its libraries with -L",
		 esc(guest->interpreter), esc(*sysroot));
	return fail_program(program, why);
}

static int fail_connect(struct client *c, int rc)
{
	client_error("cannot run %s under the emulated trace unit: csightd, which keeps the trace, is not available",
		     esc(c->argv[0]));
	return client_daemon_failed(c, rc);
}

static int find_socket(struct client *c, char *ret, size_t size)
{
	_cleanup_object_ struct csight_object *status = NULL;
	const char *socket;
	int started, rc;

	rc = client_connect(c);
	if (rc != 0)
		return rc;
	rc = csight_status(c->daemon, &status);
	started = rc == -ENOTCONN ? client_start_daemon(c) : rc;
	if (started > 0)
		return started;
	if (rc < 0 && started == 0)
		rc = csight_status(c->daemon, &status);
	if (rc < 0)
		return fail_connect(c, rc);
	socket = csight_text(status, "emuSocket");
	if (!socket || (size_t)snprintf(ret, size, "%s", socket) >= size)
		return fail_program(c->argv[0],
				    "csightd does not accept emulated programs; start it with --capture=emu");
	return STATUS_OK;
}

static volatile sig_atomic_t program;

/*
 * Passes on a signal that a supervisor or a shell sends to csight, which it takes for the program. The terminal sends
 * its signals to both processes; then only the program acts on them.
 */
static void pass_on(int signal, siginfo_t *info, void *context)
{
	int saved = errno;

	if (program > 0 && info->si_code != SI_KERNEL)
		kill((pid_t)program, signal);
	errno = saved;
}

static const int passed_signals[] = { SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2 };
static struct sigaction actions_before[ELEMENTS(passed_signals)];

/*
 * Executes the program in the child process. gate: a pipe; the child waits for a byte from it, and ends if the pipe is
 * closed without one; or NULL.
 */
static void execute_child(struct client *c, char *const *argv, const int *gate)
{
	char opened;

	if (gate) {
		close(gate[1]);
		if (read(gate[0], &opened, 1) != 1)
			_exit(STATUS_FAILED);
	}
	execv(argv[0], argv);
	_exit((gate ? fail_native : fail_program)(c->argv[0], strerror(errno)));
}

/*
 * Starts the program. Signals that come meanwhile wait until its process ID is known, so that none is lost. gate: a
 * pipe from which the child reads a byte before it executes the program; or NULL. Negative errno.
 */
static int start_program(struct client *c, char *const *argv, const int *gate)
{
	const struct sigaction action = { .sa_sigaction = pass_on, .sa_flags = SA_SIGINFO };
	sigset_t passed, before;
	pid_t pid;

	sigemptyset(&passed);
	for (size_t i = 0; i < ELEMENTS(passed_signals); i++)
		sigaddset(&passed, passed_signals[i]);
	sigprocmask(SIG_BLOCK, &passed, &before);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		sigprocmask(SIG_SETMASK, &before, NULL);
		execute_child(c, argv, gate);
	}
	program = pid;
	for (size_t i = 0; pid > 0 && i < ELEMENTS(passed_signals); i++) {
		sigaction(passed_signals[i], NULL, &actions_before[i]);
		/* A signal that csight ignores, as under nohup, is not passed on. */
		if (actions_before[i].sa_handler != SIG_IGN)
			sigaction(passed_signals[i], &action, NULL);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	return pid < 0 ? -errno : pid;
}

/* The program has ended: signals are for csight again. */
static void end_passing(void)
{
	program = 0;
	for (size_t i = 0; i < ELEMENTS(passed_signals); i++)
		sigaction(passed_signals[i], &actions_before[i], NULL);
}

static int wait_program(pid_t pid, siginfo_t *ret)
{
	int rc;

	do
		rc = waitid(P_PID, (id_t)pid, ret, WEXITED | WNOWAIT) < 0 ? -errno : 0;
	while (rc == -EINTR);
	return rc;
}

/* Prints why there is no snapshot. */
static int fail_snapshot(struct client *c, int rc)
{
	if (rc == -ENODATA || rc == -EOPNOTSUPP || rc == -ESRCH)
		client_error("no snapshot of %s: the program was not recorded", esc(c->argv[0]));
	return client_daemon_failed(c, rc);
}

/* Takes the snapshot of the ended program, and prints it, or checks assertions about it. Returns the exit status. */
static int take_snapshot(struct client *c, pid_t pid, const struct run_options *run)
{
	_cleanup_object_ struct csight_object *snapshot = NULL;
	int rc = csight_snapshot(c->daemon, pid, CSIGHT_NO_ARM, client_progress, c, &snapshot);

	client_progress_end(c);
	if (rc < 0) {
		fail_snapshot(c, rc);
		return STATUS_FAILED;
	}
	/* Else what the snapshot has would keep its rings, and a shared sink its options. */
	csight_disarm(c->daemon, pid);
	if (run->n_asserts)
		return cmd_assert_snapshot(c, run->asserts, run->n_asserts, run->nominal, csight_text(snapshot, "id"));
	return client_report_snapshot(c, c->json ? stdout : stderr, snapshot);
}

/* Waits for the end of the program, and takes the snapshot. Returns the exit status. */
static int await_child(struct client *c, pid_t pid, const struct run_options *run)
{
	int rc, failed = STATUS_OK;
	siginfo_t end;

	rc = wait_program(pid, &end);
	end_passing();
	if (rc < 0)
		return fail_program(c->argv[0], strerror(-rc));
	/* The child is not reaped yet, so that no other process can get its process ID. */
	if (run->snapshot)
		failed = take_snapshot(c, pid, run);
	waitpid(pid, NULL, 0);
	if (end.si_code != CLD_EXITED)
		return 128 + end.si_status;
	/* If the program failed, csight returns its status rather than that of the snapshot. */
	return end.si_status ? end.si_status : failed;
}

static int run_as_child(struct client *c, char *const *argv, const struct run_options *run)
{
	int pid = start_program(c, argv, NULL);

	return pid < 0 ? fail_program(c->argv[0], strerror(-pid)) : await_child(c, pid, run);
}

static int arm_process(struct client *c, pid_t pid, const struct run_options *run)
{
	struct csight_arm_options arm = { .size = sizeof(arm),
					  .mode = run->mode,
					  .cycles = run->cycles,
					  .no_timestamps = run->no_timestamps,
					  .no_contexts = run->no_contexts,
					  .branch_broadcast = run->broadcast,
					  .no_return_stack = run->retstack && strcmp(run->retstack, "off") == 0 };
	int rc;

	/* The trace unit counts from 1; 0 is the default here. */
	if (run->threshold && parse_u64(run->threshold, ETM_THRESHOLD_MAX, &arm.cycle_threshold) == 0)
		arm.cycle_threshold = MAX(arm.cycle_threshold, 1u);
	if (run->ring_size)
		parse_size(run->ring_size, &arm.ring_size);
	rc = csight_arm(c->daemon, pid, &arm, NULL);
	return rc < 0 ? client_daemon_failed(c, rc) : STATUS_OK;
}

/* Runs the program as a child that is armed before it executes the program: until then, it waits at a gate. */
static int run_armed_child(struct client *c, char *const *argv, const struct run_options *run)
{
	int gate[2], pid, rc;

	if (pipe2(gate, O_CLOEXEC) < 0)
		return fail_native(c->argv[0], strerror(errno));
	pid = start_program(c, argv, gate);
	close(gate[0]);
	if (pid < 0) {
		close(gate[1]);
		return fail_native(c->argv[0], strerror(-pid));
	}
	rc = arm_process(c, pid, run);
	if (rc == STATUS_OK && write(gate[1], "", 1) != 1)
		rc = fail_native(c->argv[0], strerror(errno));
	/* The child ends, since the gate is closed without a byte. */
	close(gate[1]);
	if (rc == STATUS_OK)
		return await_child(c, pid, run);
	end_passing();
	waitpid(pid, NULL, 0);
	return rc;
}

/* Runs a program under the trace units of the machine. */
static int run_natively(struct client *c, const struct run_options *run)
{
	char path[PATH_MAX];
	struct reason why = { "" };
	char **argv;
	int rc;

	if (!guest_find(c->argv[0], path, sizeof(path), &why))
		return fail_native(c->argv[0], why.text);
	if (access(path, X_OK) < 0)
		return fail_native(c->argv[0], strerror(errno));
	rc = client_connect(c);
	if (rc != 0)
		return rc;
	argv = calloc((size_t)c->argc + 1, sizeof(*argv));
	if (!argv)
		return fail_native(c->argv[0], strerror(ENOMEM));
	memcpy(argv, c->argv, (size_t)c->argc * sizeof(*argv));
	argv[0] = path;
	if (run->snapshot) {
		rc = run_armed_child(c, argv, run);
	} else {
		rc = arm_process(c, getpid(), run);
		if (rc == STATUS_OK) {
			fflush(stdout);
			execv(path, argv);
			rc = fail_native(c->argv[0], strerror(errno));
		}
	}
	free(argv);
	return rc;
}

/* Runs the emulator, with its arguments before those of the program. */
static int run_emulator(struct client *c, const struct run_options *run, const char *emulator, char *plugin)
{
	_cleanup_free_ char **argv = calloc((size_t)c->argc + 8, sizeof(*argv));
	size_t n = 0;

	if (!argv)
		return fail_program(c->argv[0], strerror(ENOMEM));
	argv[n++] = (char *)emulator;
	if (run->sysroot) {
		argv[n++] = (char *)"-L";
		argv[n++] = (char *)run->sysroot;
	}
	/*
	 * A thread that ends can hold the lock of GLib's allocator while another forks, whose child then waits for it
	 * forever. No child inherits a lock of malloc().
	 */
	if (!getenv("G_SLICE") && setenv("G_SLICE", "always-malloc", 1) == 0) {
		argv[n++] = (char *)"-U";
		argv[n++] = (char *)"G_SLICE";
	}
	argv[n++] = (char *)"-plugin";
	argv[n++] = plugin;
	memcpy(argv + n, c->argv, (size_t)c->argc * sizeof(*argv));
	if (run->snapshot || c->private)
		return run_as_child(c, argv, run);
	execv(emulator, argv);
	return fail_program(c->argv[0], strerror(errno));
}

static int run_verb(struct client *c)
{
	char plugin[PATH_MAX], emulator[PATH_MAX], socket[PATH_MAX], program_path[PATH_MAX];
	struct reason why = { "" };
	_cleanup_buf_ struct buf argument = { 0 };
	struct run_options run = { 0 };
	struct guest guest;
	int rc;

	rc = run_parse(c, &run);
	if (rc >= 0)
		return rc;
	if (!run.emu)
		return run_natively(c, &run);
	if (!guest_find(c->argv[0], program_path, sizeof(program_path), &why) ||
	    !guest_program(program_path, &guest, &why))
		return fail_program(c->argv[0], why.text);
	rc = find_sysroot(&guest, c->argv[0], &run.sysroot);
	if (rc != 0)
		return rc;
	if (path_helper("csight-etm.so", PKGLIBDIR, plugin, sizeof(plugin)) < 0)
		return fail_program(c->argv[0], "csight-etm.so is neither beside csight nor in " PKGLIBDIR);
	if (!emulator_find(plugin, emulator, sizeof(emulator), &why))
		return fail_program(c->argv[0], why.text);
	rc = find_socket(c, socket, sizeof(socket));
	if (rc == 0)
		rc = put_plugin(c, &run, plugin, socket, &argument);
	c->argv[0] = program_path;
	if (rc == 0)
		rc = run_emulator(c, &run, emulator, (char *)argument.data);
	return rc;
}

const struct verb cmd_run = {
	.name = "run",
	.arguments = "[--emu] -- PROGRAM [ARGUMENT...]",
	.summary = "run a program and record it from its first instruction",
	.flags = VERB_SOCKET | VERB_JSON | VERB_QUIET | VERB_PROGRAM,
	.options = options,
	.run = run_verb,
};
