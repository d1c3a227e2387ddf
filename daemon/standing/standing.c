/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>

#include "daemon/ancestors.h"
#include "daemon/capture/perf/perf.h"
#include "daemon/capture/process/credentials.h"
#include "daemon/capture/process/proc-file.h"
#include "daemon/exec-gate.h"
#include "daemon/opener.h"
#include "daemon/policy.h"
#include "daemon/standing/process-events.h"
#include "daemon/standing/process-set.h"
#include "daemon/standing/standing.h"
#include "daemon/target-adopt.h"
#include "lib/base/escape.h"
#include "lib/base/log.h"
#include "lib/base/parse.h"

enum {
	TURN_NS = 5000000, /* for processes that run, so that the loop turns meanwhile */
	ANCESTORS_MAX = 256,
	UNITS_SECONDS = 10, /* between two looks for trace units */
	PASS_SECONDS = 3,   /* after which a process that was at a gate has executed its program */
};

#define GATE_NS 1000000000ull /* a gate is replaced at most once in this time */

struct standing_list {
	struct standing_list_options o;
	struct standing_head list; /* oldest first */
	uint32_t last_id;
	bool begun;
	bool forking;                  /* the process that consider() handles was just forked */
	struct process_events *events; /* while there are rules and trace units */
	struct event *units;           /* waits for trace units */
	struct event *look;            /* a pass over the processes that run continues */
	DIR *proc;                     /* where the pass continues; NULL: none is under way */
	bool again;                    /* another pass follows */
	struct ancestors ancestors;
	struct standing_head leaving; /* removed in this turn of the loop */
	struct event *sweep;          /* frees them */
};

/* A process that is being armed for a rule. */
struct arming {
	struct standing_list *all;
	uint32_t rule;
	uint32_t number; /* of the process at the gate; 0: it does not wait there */
};

static void report_change(const struct standing_list *all)
{
	if (all->o.changed)
		all->o.changed(all->o.data);
}

/* Some rules fail for each new process: only the first failures are logged, then fewer and fewer. */
static void note_failure(struct standing *s, pid_t pid, const char *name, const char *text)
{
	char rule[STANDING_RULE_TEXT_SIZE];

	reason_set(&s->why, 0, "process %d (%s): %s", (int)pid, esc(name), text);
	s->failed++;
	if (s->failed & (s->failed - 1))
		return;
	standing_rule_text(&s->rule, rule);
	log_warning("standing target %u (%s) of uid %u could not arm %llu processes, the last one %s", s->id, esc(rule),
		    s->by.uid, (unsigned long long)s->failed, s->why.text);
}

/* Makes this the rule that the target belongs to. */
static void assign(struct standing *s, struct target *t)
{
	t->standing = s->id;
	target_requested(t, s->by.uid);
	process_set_put(s->set, t->pid, true);
	report_change(s->all);
}

/* True if the parent was a process of the tree, and ended after this process had started. */
static bool is_of_ended_parent(const struct standing *s, const struct standing_process *p)
{
	const struct target *t = p->parent > 0 ? target_list_find(s->all->o.targets, p->parent, s->by.uid) : NULL;
	uint64_t start, ticks = (uint64_t)sysconf(_SC_CLK_TCK),
			sleep = now_ns(CLOCK_BOOTTIME) - now_ns(CLOCK_MONOTONIC),
			gone = p->parent == s->rule.tree ? s->first_gone_ns : 0;

	if (t && t->standing == s->id && t->ring.state == RING_GONE)
		gone = MAX(gone, t->gone_ns);
	return gone && proc_file_start(p->pid, &start) == 0 && start <= (gone + sleep) / (1000000000u / ticks);
}

/* True if the process or one of its ancestors is known to be of the tree. */
static bool in_tree(const struct standing *s, const struct standing_process *p)
{
	pid_t at = p->pid;

	if (process_set_has(s->set, at) || process_set_has(s->set, p->parent) || is_of_ended_parent(s, p))
		return true;
	for (unsigned i = 0; i < ANCESTORS_MAX && at > 1; i++) {
		at = ancestors_parent(&s->all->ancestors, at);
		if (at > 0 && process_set_has(s->set, at))
			return true;
	}
	return false;
}

/* A reload may have ended what the user may do; rules rest until another one allows it again. */
static bool may_record(const struct standing_list *all, uid_t user)
{
	return settings_permit_account(all->o.settings, ledger_owner(all->o.ledger, user));
}

static bool matches(const struct standing *s, const struct standing_process *p)
{
	return standing_rule_matches(&s->rule, s->by.uid, p) && (!s->rule.tree || in_tree(s, p));
}

static bool is_selected(const struct standing *s, const struct standing_process *p)
{
	return matches(s, p) && may_record(s->all, s->by.uid) &&
	       (!s->options.kernel || settings_permit_kernel(s->all->o.settings, s->by.uid));
}

/* A user's rule takes nothing from root: no trace of the kernel, and no target that root has armed. */
static bool may_have(const struct standing *s, const struct target *t)
{
	return policy_owns(s->by.uid, t->owner) &&
	       (s->by.uid == 0 || t->requester != 0 || t->ring.state == RING_DISARMED);
}

/* t: the process's target, or NULL. */
static struct standing *find_rule(const struct standing_list *all, const struct standing_process *p,
				  const struct target *t)
{
	struct standing *s;

	TAILQ_FOREACH (s, &all->list, link)
		if (is_selected(s, p) && (!t || may_have(s, t)))
			return s;
	return NULL;
}

static struct standing_process process_of(const struct target *t)
{
	return (struct standing_process){
		.pid = t->pid, .parent = t->parent, .uid = t->uid, .name = t->name, .exe = t->exe
	};
}

/* Gives a target that is armed to a rule, if its source satisfies the rule's options. */
static bool take(struct standing *s, struct target *t)
{
	struct reason why = { "" };

	if (t->ring.source->ops->check(t->ring.source, &s->options, &why) < 0) {
		note_failure(s, t->pid, t->name, why.text);
		return false;
	}
	assign(s, t);
	return true;
}

/* Lets a process that waits at the gate execute its program. */
static void let_pass(struct standing *s, uint32_t number)
{
	s->arriving -= s->arriving > 0;
	if (s->gate)
		exec_gate_pass(s->gate, number);
}

/* A target that could not be armed belongs to no rule any more. */
static void on_armed(struct target *t, int rc, void *data)
{
	_cleanup_free_ struct arming *a = data;
	struct standing *s = standing_find(a->all, a->rule);
	const struct audit_object on = { .pid = t->pid, .owner = t->owner, .name = t->name };
	_cleanup_buf_ struct buf trouble = { .limit = CAPTURE_MISSING_MAX };

	if (rc < 0)
		t->standing = 0;
	if (!s)
		return;
	if (rc == 0) {
		s->armed++;
		audit_done(&s->by, AUDIT_ARM, &on);
		report_change(s->all);
	} else if (rc != -ESRCH && !(rc == -EACCES && a->number)) {
		/* -EACCES at the gate is no failure: the exec may change the owner, and consider() follows. */
		target_trouble(t, &trouble);
		note_failure(s, t->pid, t->name, trouble.size ? (const char *)trouble.data : strerror(-rc));
	}
	if (a->number)
		let_pass(s, a->number);
}

static int arm(struct standing *s, struct target *t, uint32_t number)
{
	struct arming *a = malloc(sizeof(*a));

	if (!a) {
		t->standing = 0;
		target_remove_unarmed(t);
		return -ENOMEM;
	}
	*a = (struct arming){ s->all, s->id, number };
	t->gate_ns = number ? now_ns(CLOCK_MONOTONIC) : 0;
	target_arm(t, on_armed, a);
	return 0;
}

/* Makes a process on hardware a target, which the caller arms. at_exec: the process waits at the gate. */
static int adopt(struct standing *s, const struct standing_process *p, bool at_exec, struct target **ret)
{
	struct capture_options options = s->options;
	const struct standing_list_options *o = &s->all->o;
	const struct target_adoption adoption = { .units = o->units,
						  .targets = o->targets,
						  .settings = o->settings,
						  .pid = p->pid,
						  .caller = s->by.uid,
						  .of_caller = true,
						  .options = &options };
	const struct audit_object on = { .pid = p->pid, .owner = p->uid, .name = p->name };
	struct ledger_refusal limit = { 0 };
	struct reason why = { "" };
	int rc;

	options.at_exec = at_exec;
	rc = target_adopt(&adoption, ret, &why, &limit);
	if (rc == -EDQUOT) {
		audit_limit(&s->by, AUDIT_ARM, &on, &limit);
		ledger_explain(&limit, &why);
	}
	/* A process that changes its user, after fork() or by execve(), is considered again after its execve(). */
	if (rc < 0 && rc != -ESRCH && !(rc == -EACCES && (at_exec || s->all->forking)))
		note_failure(s, p->pid, p->name, *why.text ? why.text : strerror(-rc));
	if (rc == 0)
		assign(s, *ret);
	return rc;
}

struct standing_text {
	char name[CREDENTIALS_NAME_SIZE], exe[PATH_MAX];
};

/* Reads a process from /proc, with its texts in text. False: it has ended, or is a thread of the kernel, or csightd. */
static bool read_process(pid_t pid, struct standing_text *text, struct standing_process *ret)
{
	struct credentials c;

	if (pid == getpid() || proc_file_exe(pid, text->exe, sizeof(text->exe)) < 0 || credentials_read(pid, &c) < 0)
		return false;
	memcpy(text->name, c.name, sizeof(text->name));
	*ret = (struct standing_process){
		.pid = pid, .parent = c.parent, .uid = credentials_uid(&c), .name = text->name, .exe = text->exe
	};
	return true;
}

static struct target *find_running(const struct standing_list *all, pid_t pid)
{
	struct target *t = target_list_find(all->o.targets, pid, 0);

	return t && t->ring.state != RING_GONE ? t : NULL;
}

static void look_again(struct standing_list *all)
{
	const struct timeval now = { 0, 0 };

	all->again = true;
	if (all->begun && all->events)
		event_add(all->look, &now);
}

static void on_disarmed(struct target *t, int rc, void *data)
{
	struct standing_list *all = data;

	if (rc == 0)
		report_change(all);
	/* Another rule may select it now. */
	look_again(all);
}

/* True if the rule will select a process that is about to execute its program: the present program does not count. */
static bool will_be_selected(const struct standing *s, const struct standing_process *p)
{
	struct standing awaited = *s;

	awaited.rule.exe = awaited.rule.name = NULL;
	return p->uid != (uid_t)-1 && is_selected(&awaited, p);
}

static void on_waits(void *data, pid_t pid, uint32_t number)
{
	struct standing *s = data;
	struct standing_text text;
	struct standing_process p;
	struct target *t;

	s->arriving++;
	/* The rule may have been removed in this turn of the loop. */
	if (!standing_find(s->all, s->id) || find_running(s->all, pid) || !read_process(pid, &text, &p) ||
	    !will_be_selected(s, &p) || adopt(s, &p, true, &t) < 0 || arm(s, t, number) < 0)
		let_pass(s, number);
}

static void on_gate_closed(void *data, int rc)
{
	struct standing *s = data;

	log_notice("standing target %u: there is no gate before %s (%s): its processes are armed after they have begun",
		   s->id, esc(s->rule.exe), strerror(-rc));
	s->gate = exec_gate_free(s->gate);
}

static void make_gate(struct standing *s)
{
	const struct exec_gate_listener listener = { on_waits, on_gate_closed, s };
	int fd;

	if (!s->rule.exe || !policy_administers(s->by.uid) || !s->all->events)
		return;
	s->gate = exec_gate_free(s->gate);
	s->arriving = 0;
	s->gate_ns = now_ns(CLOCK_MONOTONIC);
	fd = opener_open_gate(s->all->o.settings->opener, s->rule.exe);
	if (fd < 0 || exec_gate_new(s->all->o.base, fd, &listener, &s->gate) < 0)
		log_debug("no gate before %s", esc(s->rule.exe));
}

/* Replaces the gate after a process of the rule bypassed it: another file may have the program's path now. */
static void renew_gate(struct standing *s)
{
	if (s->arriving == 0 && now_ns(CLOCK_MONOTONIC) - s->gate_ns > GATE_NS)
		make_gate(s);
}

/*
 * Renames a target; disarms it if it has executed a program that its rule does not select. executed: an event says that
 * it has executed one; else that is known by another path alone, since events may be lost.
 */
static void reconsider(struct standing_list *all, struct target *t, const struct standing_process *p, bool executed)
{
	struct standing *s = t->standing ? standing_find(all, t->standing) : NULL;
	bool other = executed || strcmp(t->exe, p->exe) != 0;

	target_renamed(t, p->name, p->exe);
	if (!s || !standing_rule_names_program(&s->rule))
		return;
	if (matches(s, p)) {
		t->gate_ns = 0;
		return;
	}
	/* The event may be that of its program before, and late: it still has to execute the one that it waits for. */
	if (t->gate_ns && now_ns(CLOCK_MONOTONIC) - t->gate_ns < PASS_SECONDS * 1000000000ull) {
		if (!event_pending(all->look, EV_TIMEOUT, NULL))
			event_add(all->look, &(const struct timeval){ PASS_SECONDS, 0 });
		return;
	}
	if (!other && !t->gate_ns)
		return;
	t->standing = 0;
	/* Root may have armed it after the rule had. */
	if (may_have(s, t))
		target_disarm(t, on_disarmed, all);
}

/* Applies the rules to a process on hardware: one that runs, was forked, or has executed a program. */
static void consider(struct standing_list *all, pid_t pid, bool executed)
{
	struct standing_text text;
	struct standing_process p;
	struct target *t = find_running(all, pid);
	struct standing *s;

	if ((t && t->ring.source->ops != &perf_capture) || !read_process(pid, &text, &p))
		return;
	if (t && t->adopted)
		reconsider(all, t, &p, executed);
	if (t && t->standing)
		return;
	s = find_rule(all, &p, t);
	if (s && t && t->ring.state != RING_DISARMED && t->ring.state != RING_DRAINING && !target_leaves(t) &&
	    take(s, t))
		s->armed++;
	else if (s && !t && p.uid != (uid_t)-1 && adopt(s, &p, false, &t) == 0) {
		arm(s, t, 0);
		renew_gate(s);
	}
}

static void on_forked(void *data, pid_t parent, pid_t child)
{
	struct standing_list *all = data;
	const struct standing_process p = { .pid = parent };
	struct standing *s;

	/* The records of several CPUs are not in order: the parent may not be known yet. */
	TAILQ_FOREACH (s, &all->list, link)
		if (s->set)
			process_set_put(s->set, child, process_set_has(s->set, parent) || in_tree(s, &p));
	all->forking = true;
	consider(all, child, false);
	all->forking = false;
}

static void on_executed(void *data, pid_t pid)
{
	consider(data, pid, true);
}

static void on_lost(void *data)
{
	look_again(data);
}

static bool next_process(DIR *proc, pid_t *ret)
{
	const struct dirent *d;
	int64_t pid;

	while ((d = readdir(proc)))
		if (parse_i64(d->d_name, 1, INT32_MAX, &pid) == 0) {
			*ret = (pid_t)pid;
			return true;
		}
	return false;
}

static void on_look(evutil_socket_t fd, short what, void *data)
{
	uint64_t until = now_ns(CLOCK_MONOTONIC) + TURN_NS;
	const struct timeval now = { 0, 0 };
	struct standing_list *all = data;
	pid_t pid;

	if (TAILQ_EMPTY(&all->list)) {
		all->events = process_events_free(all->events);
		return;
	}
	if (!all->proc) {
		all->again = false;
		all->proc = opendir("/proc");
	}
	while (all->proc && now_ns(CLOCK_MONOTONIC) < until) {
		if (next_process(all->proc, &pid)) {
			consider(all, pid, false);
			continue;
		}
		closedir(all->proc);
		all->proc = NULL;
	}
	if (all->proc || all->again)
		event_add(all->look, &now);
}

/* Looks for trace units, and if there are none, again later. */
static void await_units(struct standing_list *all)
{
	const struct timeval pause = { UNITS_SECONDS, 0 };

	if (!TAILQ_EMPTY(&all->list) && !all->events && strcmp(all->o.settings->capture, "emu") != 0 &&
	    !trace_units_machine(all->o.units))
		event_add(all->units, &pause);
}

/* Opens the kernel's events where there are trace units. Programs under the emulated one register. */
static int open_events(struct standing_list *all, struct reason *why)
{
	const struct process_events_listener listener = {
		.forked = on_forked, .executed = on_executed, .lost = on_lost, .data = all
	};

	if (all->events || !trace_units_machine(all->o.units))
		return 0;
	return process_events_new(all->o.base, &listener, &all->events, why);
}

/*
 * Assigns each target that has no rule, and that the new rule selects, to the oldest rule that selects it; disarmed
 * targets are armed again.
 */
static void take_targets(struct standing *new)
{
	struct standing_list *all = new->all;
	struct target *t;

	TAILQ_FOREACH (t, target_list_all(all->o.targets), link) {
		const struct standing_process p = process_of(t);
		struct standing *s;

		if (t->standing || t->ring.state == RING_GONE || !is_selected(new, &p) ||
		    !(s = find_rule(all, &p, t)) || !take(s, t))
			continue;
		if (t->ring.state == RING_DISARMED || target_leaves(t))
			arm(s, t, 0);
		else
			s->armed++;
	}
}

/* The rule of a tree ends when the tree's first process has, and none of its targets is left. */
static void end_of_tree(struct standing *s)
{
	const struct target *t;

	if (!s->first_gone || s->awaited)
		return;
	TAILQ_FOREACH (t, target_list_all(s->all->o.targets), link)
		if (t->standing == s->id && t->ring.state != RING_GONE)
			return;
	log_info("standing target %u ends: the processes of its tree have ended", s->id);
	standing_remove(s);
}

static void end_trees(struct standing_list *all)
{
	struct standing *s, *next;

	for (s = TAILQ_FIRST(&all->list); s; s = next) {
		next = TAILQ_NEXT(s, link);
		end_of_tree(s);
	}
}

/* Without events csightd would miss that another process gets this number. */
static void forget(struct standing *s, pid_t pid)
{
	if (!s->all->events)
		process_set_put(s->set, pid, false);
}

static void on_first_ended(evutil_socket_t fd, short what, void *data)
{
	struct standing *s = data;

	s->first_gone = true;
	s->first_gone_ns = now_ns(CLOCK_MONOTONIC);
	forget(s, s->rule.tree);
	end_of_tree(s);
}

void standing_target(struct standing_list *all, struct target *t, enum target_change change)
{
	struct standing_process p;
	struct standing *s;

	if (!all || !all->begun)
		return;
	/* The process of a target that was replaced continues; on_first_ended() forgets the first of a tree. */
	if (change == TARGET_ENDED && !t->replaced && (s = standing_find(all, t->standing)) && t->pid != s->rule.tree)
		forget(s, t->pid);
	if (change == TARGET_DISARMED)
		t->standing = 0;
	if (change != TARGET_ARMED && !t->replaced)
		end_trees(all);
	if (change != TARGET_ARMED || t->standing || t->adopted)
		return;
	p = process_of(t);
	s = find_rule(all, &p, t);
	if (s && take(s, t))
		s->armed++;
}

void standing_await(struct standing_list *all, uint32_t id)
{
	struct standing *s = all ? standing_find(all, id) : NULL;

	if (s)
		s->awaited++;
}

void standing_restore(struct standing_list *all, struct target *t, uint32_t id)
{
	struct standing *s = all ? standing_find(all, id) : NULL;

	if (!s)
		return;
	s->awaited -= s->awaited > 0;
	if (t && s->set && !t->standing && t->ring.state != RING_GONE && policy_owns(s->by.uid, t->owner)) {
		assign(s, t);
		s->armed++;
	}
	if (all->begun)
		end_of_tree(s);
}

static int check_request(const struct standing_list *all, const struct standing_request *r, struct reason *why)
{
	const struct standing *s;
	int rc = standing_rule_check(&r->rule, why);

	if (rc < 0)
		return rc;
	if (r->options.kernel && !settings_permit_kernel(all->o.settings, r->by->uid))
		return reason_set(why, -EACCES, "only root and kernel-users may trace execution in the kernel");
	if (!r->id && !may_record(all, r->by->uid))
		return reason_set(
		    why, -EACCES,
		    "standing targets are for members of the groups in allow that name services list; the "
		    "groups of this process do not count");
	if (r->by->uid != 0 && r->rule.has_user && r->rule.user != r->by->uid)
		return reason_set(why, -EPERM, "user %u may not record the processes of user %u", r->by->uid,
				  r->rule.user);
	TAILQ_FOREACH (s, &all->list, link)
		if (s->by.uid == r->by->uid && !s->section == !r->section && standing_rule_equal(&s->rule, &r->rule))
			return reason_set(why, -EEXIST, "standing target %u has this rule; disarm it first", s->id);
	return 0;
}

static void standing_free(struct standing *s)
{
	ledger_return(&s->charge);
	if (s->first_ended)
		event_free(s->first_ended);
	closep(&s->first);
	exec_gate_free(s->gate);
	standing_rule_done(&s->rule);
	capture_options_done(&s->options);
	process_set_free(s->set);
	free(s->section);
	free(s);
}

static void free_all(struct standing_head *list)
{
	struct standing *s;

	while ((s = TAILQ_FIRST(list))) {
		TAILQ_REMOVE(list, s, link);
		standing_free(s);
	}
}

static void on_sweep(evutil_socket_t fd, short what, void *data)
{
	struct standing_list *all = data;

	free_all(&all->leaving);
}

/* Watches the first process of the tree. restored: the rule is one of an earlier daemon, which may have outlasted it.
 */
static int watch_first(struct standing *s, bool restored, struct reason *why)
{
	const struct standing_rule *r = &s->rule;
	int rc = policy_process(s->by.uid, r->tree);
	uint64_t start;

	if (rc == 0 && (s->first = (int)syscall(SYS_pidfd_open, r->tree, 0)) < 0)
		rc = -errno;
	if (proc_file_start(r->tree, &start) < 0 || start != r->tree_start)
		rc = -ESRCH;
	if (rc == -ESRCH && restored) {
		s->first_gone = true;
		return 0;
	}
	if (rc < 0)
		return reason_set(why, s->by.uid == 0 ? rc : -EPERM, "process %d has ended, or is another user's",
				  (int)r->tree);
	s->first_ended = event_new(s->all->o.base, s->first, EV_READ, on_first_ended, s);
	if (!s->first_ended || event_add(s->first_ended, NULL) < 0)
		return -ENOMEM;
	process_set_put(s->set, r->tree, true);
	return 0;
}

static int fill(struct standing *s, const struct standing_request *r, struct reason *why)
{
	int rc = standing_rule_copy(&r->rule, &s->rule);

	if (rc == 0)
		rc = capture_options_copy(&r->options, &s->options);
	if (rc == 0 && r->section && !(s->section = strdup(r->section)))
		rc = -ENOMEM;
	if (rc == 0 && r->rule.tree && !(s->set = process_set_new()))
		rc = -ENOMEM;
	if (rc == 0 && r->rule.tree)
		rc = watch_first(s, r->id, why);
	return rc;
}

int standing_add(struct standing_list *all, const struct standing_request *r, struct standing **ret, struct reason *why,
		 struct ledger_refusal *ret_limit)
{
	int rc = check_request(all, r, why);
	struct standing *s;

	if (rc < 0)
		return rc;
	if (!(s = calloc(1, sizeof(*s))))
		return -ENOMEM;
	s->all = all;
	s->by = *r->by;
	s->first = -1;
	rc = fill(s, r, why);
	if (rc == 0)
		rc = ledger_charge(all->o.ledger, s->by.uid, LEDGER_STANDING, 1, &s->charge, ret_limit);
	if (rc == 0 && all->begun)
		rc = open_events(all, why);
	if (rc < 0) {
		standing_free(s);
		return rc;
	}
	s->id = r->id && !standing_find(all, r->id) ? r->id : ++all->last_id;
	all->last_id = MAX(all->last_id, s->id);
	TAILQ_INSERT_TAIL(&all->list, s, link);
	if (all->begun) {
		await_units(all);
		make_gate(s);
		take_targets(s);
		look_again(all);
	}
	report_change(all);
	*ret = s;
	return 0;
}

void standing_remove(struct standing *s)
{
	const struct timeval now = { 0, 0 };
	struct standing_list *all = s->all;
	struct target *t;

	TAILQ_FOREACH (t, target_list_all(all->o.targets), link)
		if (t->standing == s->id)
			t->standing = 0;
	/* Callers may still be handling an event, or making a target for the rule: on_look() and on_sweep() free the
	 * events and the rule later. */
	TAILQ_REMOVE(&all->list, s, link);
	if (s->first_ended)
		event_del(s->first_ended);
	ledger_return(&s->charge);
	TAILQ_INSERT_TAIL(&all->leaving, s, link);
	event_active(all->sweep, EV_TIMEOUT, 0);
	if (TAILQ_EMPTY(&all->list))
		event_add(all->look, &now);
	report_change(all);
}

struct standing *standing_find(const struct standing_list *all, uint32_t id)
{
	struct standing *s;

	TAILQ_FOREACH (s, &all->list, link)
		if (s->id == id)
			return s;
	return NULL;
}

/* The drivers of trace units may be loaded later than csightd. */
static void on_units(evutil_socket_t fd, short what, void *data)
{
	struct standing_list *all = data;

	await_units(all);
	if (!event_pending(all->units, EV_TIMEOUT, NULL))
		standing_list_begin(all);
}

void standing_list_begin(struct standing_list *all)
{
	struct reason why = { "" };
	struct standing *s;
	int rc;

	all->begun = true;
	if (TAILQ_EMPTY(&all->list))
		return;
	await_units(all);
	rc = open_events(all, &why);
	if (rc < 0)
		log_warning("standing targets arm no program of the trace units: %s",
			    *why.text ? why.text : strerror(-rc));
	TAILQ_FOREACH (s, &all->list, link) {
		make_gate(s);
		take_targets(s);
	}
	end_trees(all);
	look_again(all);
}

int standing_list_new(const struct standing_list_options *options, struct standing_list **ret)
{
	struct standing_list *all = calloc(1, sizeof(*all));

	if (!all)
		return -ENOMEM;
	all->o = *options;
	TAILQ_INIT(&all->list);
	TAILQ_INIT(&all->leaving);
	all->look = evtimer_new(options->base, on_look, all);
	all->units = evtimer_new(options->base, on_units, all);
	all->sweep = event_new(options->base, -1, 0, on_sweep, all);
	if (!all->look || !all->units || !all->sweep) {
		standing_list_free(all);
		return -ENOMEM;
	}
	*ret = all;
	return 0;
}

struct standing_list *standing_list_free(struct standing_list *all)
{
	if (!all)
		return NULL;
	free_all(&all->list);
	free_all(&all->leaving);
	process_events_free(all->events);
	if (all->proc)
		closedir(all->proc);
	if (all->look)
		event_free(all->look);
	if (all->units)
		event_free(all->units);
	if (all->sweep)
		event_free(all->sweep);
	ancestors_done(&all->ancestors);
	free(all);
	return NULL;
}

const struct standing_head *standing_list_all(const struct standing_list *all)
{
	return &all->list;
}
