/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>
#include <sys/syscall.h>

#include "daemon/capture/process/credentials.h"
#include "daemon/capture/process/proc-file.h"
#include "daemon/policy.h"
#include "daemon/target-adopt.h"
#include "lib/base/escape.h"
#include "lib/base/log.h"

/*
 * Data of a process from files of /proc that need no access to its memory: such an access can block on a page of the
 * owner's.
 */
struct process_about {
	char name[CREDENTIALS_NAME_SIZE];
	char exe[PATH_MAX];
	pid_t parent;
	uid_t uid;
	gid_t gid;
	uint64_t start;
};

/*
 * The buffer of a shared sink holds the control flow of all users, which only this daemon separates; and each target
 * leaves less of the buffer to the others.
 */
static bool may_share(const struct settings *s, uid_t caller)
{
	return caller == 0 || strcmp(s->shared_sink, "all") == 0 || accounts_set_has(&s->shared_users, caller, NULL, 0);
}

/*
 * Reads the process of pidfd. -EACCES: its credentials are not those of one owner alone, or it is not dumpable.
 * at_exec: do not check whether it is dumpable, which its arming does.
 */
static int read_process(pid_t pid, int pidfd, bool at_exec, struct process_about *ret)
{
	struct credentials c;
	int rc;

	proc_file_exe(pid, ret->exe, sizeof(ret->exe));
	proc_file_start(pid, &ret->start);
	/* Last, since success means that the pid was the process's own until now. */
	rc = credentials_read_pidfd(pid, pidfd, &c);
	if (rc < 0)
		return rc == -EBADMSG ? -ESRCH : rc;
	ret->parent = c.parent;
	ret->uid = credentials_uid(&c);
	ret->gid = c.gid[0];
	memcpy(ret->name, c.name, sizeof(ret->name));
	return ret->uid != (uid_t)-1 && credentials_gids_equal(&c) && (at_exec || credentials_dumpable(&c)) ? 0
													    : -EACCES;
}

/* There are no trace units but those of the emulator, and the process has none that is registered here. */
static int report_no_units(const struct target_adoption *a, int pidfd, struct reason *ret_reason)
{
	struct process_about about = { 0 };
	int rc = pidfd < 0 ? -ESRCH : read_process(a->pid, pidfd, false, &about);
	const char *program = strrchr(about.exe, '/');

	if (rc == 0 && program && strncmp(program, "/qemu-", strlen("/qemu-")) == 0)
		return reason_set(
		    ret_reason, -EOPNOTSUPP,
		    "it runs under %s, but not under a trace unit of this csightd: it was not started by csight, "
		    "or for another csightd; start it with: csight run --emu -- PROGRAM",
		    esc(program + 1));
	return reason_set(ret_reason, -EOPNOTSUPP,
			  "it does not run under the emulated ETM, and there is no other trace source here: %s; start "
			  "it with: csight run --emu -- PROGRAM",
			  trace_units_why(a->units));
}

int target_adopt(const struct target_adoption *a, struct target **ret, struct reason *ret_reason,
		 struct ledger_refusal *ret_refusal)
{
	_cleanup_close_ int pidfd = (int)syscall(SYS_pidfd_open, a->pid, 0);
	struct perf_machine *machine = trace_units_machine(a->units);
	struct capture_source *source;
	struct process_about about = { 0 };
	struct target_info info;
	int rc;

	if (!machine)
		return report_no_units(a, pidfd, ret_reason);
	if (pidfd < 0)
		return -ESRCH;
	rc = read_process(a->pid, pidfd, a->options->at_exec, &about);
	if (rc == -EACCES)
		return reason_set(
		    ret_reason, rc,
		    "its user or group ids differ from each other, or it gained rights when it was executed");
	if (rc == 0 && a->start && a->start != about.start)
		rc = -ESRCH;
	if (rc < 0)
		return rc;
	if (!policy_owns(a->caller, about.uid))
		return -EACCES;
	if (perf_machine_shared(machine, a->options) && !may_share(a->settings, a->caller))
		return reason_set(ret_reason, -EPERM,
				  "the trace sink of this machine is shared, and the configuration (shared-sink) does "
				  "not allow this user to use it");
	rc = perf_target_new(machine, a->pid, pidfd, about.uid, a->options, &source);
	if (rc < 0)
		return rc;
	info = (struct target_info){ .pid = a->pid,
				     .parent = about.parent,
				     .uid = about.uid,
				     .owner = policy_owner(about.uid, a->options->kernel, a->caller),
				     .gid = about.gid,
				     .name = about.name,
				     .exe = about.exe,
				     .arguments = "",
				     .payer = a->of_caller ? a->caller : about.uid };
	rc = target_new(a->targets, &info, source, ret, ret_refusal);
	if (rc < 0)
		return rc;
	(*ret)->adopted = true;
	(*ret)->requester = a->caller;
	ring_move(&(*ret)->ring, RING_DISARMED);
	/* The list keeps its own reference. */
	target_unref(*ret);
	log_info("process %d (%s) of uid %u is a target now", (int)a->pid, esc(about.name), about.uid);
	return 0;
}
