/* SPDX-License-Identifier: MIT */
/*
 * daemon/standing: units of systemd by control groups, process sets, rules, the kernel's events, whose targets a rule
 * takes; the program of a process; daemon/exec-gate.c.
 */
#include "config.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/capture/process/proc-file.h"
#include "daemon/exec-gate.h"
#include "daemon/opener.h"
#include "daemon/standing/control-group.h"
#include "daemon/standing/process-events.h"
#include "daemon/standing/process-set.h"
#include "daemon/standing/standing-rule.h"
#include "daemon/standing/standing.h"
#include "lib/base/util.h"
#include "tests/unit.h"

static bool of_unit(const char *text, const char *unit, bool user)
{
	struct control_groups g;

	snprintf(g.text, sizeof(g.text), "%s", text);
	return control_groups_of_unit(&g, unit, user);
}

static bool have(const char *text, const char *group)
{
	struct control_groups g;

	snprintf(g.text, sizeof(g.text), "%s", text);
	return control_groups_have(&g, group);
}

static void test_units(void)
{
	static const char web[] = "0::/system.slice/web.slice/nginx.service/worker\n";
	static const char user[] = "0::/user.slice/user-7.slice/user@7.service/app.slice/nginx.service\n";
	static const char hybrid[] = "4:memory:/x/nginx.service\n1:name=systemd:/system.slice/a.service\n0::/\n";

	CHECK(of_unit(web, "nginx.service", false));
	CHECK(of_unit(web, "web.slice", false));
	CHECK(of_unit(web, "system.slice", false));
	CHECK(!of_unit(web, "worker", false));
	CHECK(!of_unit(web, "nginx", false));
	CHECK(!of_unit(web, "ginx.service", false));
	/* What is below a unit was named by whom it was delegated to. */
	CHECK(!of_unit(user, "nginx.service", false));
	CHECK(of_unit(user, "user@7.service", false));
	CHECK(of_unit(user, "nginx.service", true));
	CHECK(of_unit(user, "app.slice", true));
	CHECK(!of_unit("0::/a.service/user@7.service/nginx.service\n", "nginx.service", true));
	CHECK(!of_unit("0::/system.slice/a.service/nginx.service\n", "nginx.service", true));
	CHECK(of_unit(hybrid, "a.service", false));
	CHECK(!of_unit(hybrid, "nginx.service", false));
	CHECK(of_unit("0::/system.slice/_cpu.service\n", "cpu.service", false));
	CHECK(!of_unit("", "a.service", true));
	CHECK(!of_unit("0:/a.service", "a.service", true));
}

static bool same_unit(const char *first, const char *second)
{
	struct control_groups a, b;

	snprintf(a.text, sizeof(a.text), "%s", first);
	snprintf(b.text, sizeof(b.text), "%s", second);
	return control_groups_same_unit(&a, &b);
}

static void test_same_unit(void)
{
	static const char user[] = "0::/user.slice/user-7.slice/user@7.service/app.slice/a.service\n";

	CHECK(same_unit("0::/system.slice/a.service\n", "0::/system.slice/a.service\n"));
	CHECK(same_unit("0::/system.slice/a.service/one\n", "0::/system.slice/a.service/two/three\n"));
	CHECK(!same_unit("0::/system.slice/a.service\n", "0::/system.slice/b.service\n"));
	CHECK(!same_unit("0::/system.slice/a.service\n", "0::/system.slice/a.service2\n"));
	CHECK(!same_unit("0::/system.slice/a.service\n", "0::/system.slice/x.slice/a.service\n"));
	CHECK(same_unit(user, user));
	CHECK(!same_unit(user, "0::/user.slice/user-7.slice/user@7.service/app.slice/b.service\n"));
	CHECK(!same_unit(user, "0::/user.slice/user-7.slice/user@7.service\n"));
	CHECK(same_unit("1:name=systemd:/a.service\n0::/\n", "2:memory:/\n1:name=systemd:/a.service/x\n"));
	/* Neither a slice nor the root is a unit. */
	CHECK(!same_unit("0::/\n", "0::/\n"));
	CHECK(!same_unit("0::/system.slice\n", "0::/system.slice\n"));
	CHECK(!same_unit("", ""));
}

static void test_groups(void)
{
	CHECK(have("0::/a/b\n", "/a"));
	CHECK(have("0::/a/b\n", "/a/"));
	CHECK(have("0::/a/b\n", "/a/b"));
	CHECK(!have("0::/a/b\n", "/a/b/c"));
	CHECK(!have("0::/ab\n", "/a"));
	CHECK(have("3:pids:/docker/1\n0::/\n", "/docker/1"));
	CHECK(!have("0::/\n", "/a"));
	CHECK(!have("", "/a"));
	CHECK(have("0::/\n", "/"));
	CHECK(have("0::/system.slice/nginx.service\n", "/"));
	CHECK(have("0::/user.slice/csight-own.service\n", "/"));
	CHECK(!have("0::/system.slice/csightd.service\n", "/"));
	CHECK(
	    !have("1:name=systemd:/system.slice/system-csight\\x2ddecode.slice/csight-decode@1.service\n0::/\n", "/"));
	CHECK(have("0::/system.slice/csightd.service\n", "/system.slice"));
}

static void test_sets(void)
{
	struct process_set *s = process_set_new();

	CHECK(!process_set_has(s, 4194303));
	process_set_put(s, 4194303, true);
	process_set_put(s, 8, true);
	process_set_put(s, 4194304, true);
	CHECK(process_set_has(s, 4194303));
	CHECK(process_set_has(s, 8));
	CHECK(!process_set_has(s, 4194304));
	process_set_put(s, 8, false);
	CHECK(!process_set_has(s, 8));
	CHECK(!process_set_has(NULL, 1));
	process_set_free(s);
}

static void test_rules(void)
{
	char name[] = "ngin*", exe[] = "bin/x", group[] = "a/b", every[] = "/", unit[] = "nginx";
	const struct standing_process p = { .pid = 1, .uid = 7, .name = "nginx", .exe = "/usr/sbin/nginx" };
	struct standing_rule r = { .name = name };
	struct reason why = { "" };
	char text[STANDING_RULE_TEXT_SIZE];

	CHECK(standing_rule_matches(&r, 0, &p));
	CHECK(standing_rule_matches(&r, 7, &p));
	CHECK(!standing_rule_matches(&r, 8, &p));
	r.has_user = true;
	r.user = 8;
	CHECK(!standing_rule_matches(&r, 0, &p));
	standing_rule_text(&r, text);
	CHECK_STR(text, "name=ngin* user=8");
	CHECK_EQ(standing_rule_check(&r, &why), 0);
	CHECK_EQ(standing_rule_check(&(struct standing_rule){ .tree = 0 }, &why), -EINVAL);
	CHECK_EQ(standing_rule_check(&(struct standing_rule){ .exe = exe }, &why), -EINVAL);
	CHECK_EQ(standing_rule_check(&(struct standing_rule){ .cgroup = group }, &why), -EINVAL);
	CHECK_EQ(standing_rule_check(&(struct standing_rule){ .cgroup = every }, &why), 0);
	CHECK_EQ(standing_rule_check(&(struct standing_rule){ .unit = unit }, &why), -EINVAL);
}

struct seen {
	pid_t child;
	unsigned forks, execs, lost;
};

static void on_forked(void *data, pid_t parent, pid_t child)
{
	struct seen *s = data;

	s->forks += parent == getpid() && child == s->child;
}

static void on_executed(void *data, pid_t pid)
{
	struct seen *s = data;

	s->execs += pid == s->child;
}

static void on_lost(void *data)
{
	struct seen *s = data;

	s->lost++;
}

/* Each of 200 short-lived processes is seen when it is forked and when it executes a program, without polling. */
static void test_events(void)
{
	struct seen seen = { 0 };
	const struct process_events_listener l = { on_forked, on_executed, on_lost, &seen };
	struct event_base *base = event_base_new();
	struct process_events *events;
	struct reason why = { "" };
	int rc = process_events_new(base, &l, &events, &why);

	if (rc == -EACCES || rc == -EPERM || rc == -ENOSYS || rc == -ENOENT) {
		event_base_free(base);
		unit_skip("the kernel's events of processes", why.text);
		return;
	}
	CHECK_EQ(rc, 0);
	for (unsigned i = 1; i <= 200 && rc == 0; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			execl("/bin/true", "true", (char *)NULL);
			_exit(1);
		}
		/* The events of several CPUs are not in order. */
		seen.child = pid;
		waitpid(pid, NULL, 0);
		while ((seen.execs < i || seen.forks < i) && !seen.lost)
			event_base_loop(base, EVLOOP_ONCE);
	}
	CHECK_EQ(seen.forks, 200);
	CHECK_EQ(seen.execs, 200);
	CHECK_EQ(seen.lost, 0);
	process_events_free(events);
	event_base_free(base);
}

/* The gate before a program, by the real opener and kernel. */
struct visits {
	struct event_base *base;
	struct exec_gate *gate;
	pid_t pids[4];
	unsigned n;
	bool pass, closed, ran_before;
	int rc;
};

static bool has_executed(pid_t pid)
{
	char path[32], exe[256] = "";

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	return readlink(path, exe, sizeof(exe) - 1) > 0 && strstr(exe, "/guarded");
}

static void on_waits(void *data, pid_t pid, uint32_t number)
{
	struct visits *v = data;

	v->ran_before |= has_executed(pid);
	v->pids[v->n++ % ELEMENTS(v->pids)] = pid;
	if (v->pass)
		exec_gate_pass(v->gate, number);
	event_base_loopbreak(v->base);
}

static void on_closed(void *data, int rc)
{
	struct visits *v = data;

	v->closed = true;
	v->rc = rc;
	event_base_loopbreak(v->base);
}

static pid_t start(const char *program, const char *option, const char *value)
{
	pid_t pid = fork();

	if (pid == 0) {
		execl(program, program, option, value, (char *)NULL);
		_exit(1);
	}
	return pid;
}

static int status_of(pid_t pid)
{
	int status = -1;

	waitpid(pid, &status, 0);
	return status;
}

static int connect_gate(const char *socket, const char *program)
{
	int fd = -1;

	for (unsigned i = 0; i < 100 && fd < 0; i++) {
		fd = opener_open_gate(socket, program);
		if (fd < 0)
			usleep(20000);
	}
	return fd;
}

static void visit(struct visits *v, const char *program, const char *socket)
{
	const struct exec_gate_listener l = { on_waits, on_closed, v };
	pid_t pid;

	CHECK_EQ(exec_gate_new(v->base, connect_gate(socket, program), &l, &v->gate), 0);
	/* The gate is there when its first message is. */
	event_base_loop(v->base, EVLOOP_ONCE);
	if (v->closed)
		return;
	v->pass = true;
	pid = start(program, "x", NULL);
	event_base_dispatch(v->base);
	CHECK_EQ(v->n, 1);
	CHECK_EQ(v->pids[0], pid);
	CHECK(!v->ran_before);
	CHECK_EQ(status_of(pid), 0);
	/* One that is not let go is let go by the time limit, */
	v->pass = false;
	pid = start(program, "x", NULL);
	event_base_dispatch(v->base);
	CHECK_EQ(status_of(pid), 0);
	/* and by the end of the connection. */
	pid = start(program, "x", NULL);
	event_base_dispatch(v->base);
	CHECK_EQ(v->n, 3);
	v->gate = exec_gate_free(v->gate);
	CHECK_EQ(status_of(pid), 0);
	CHECK_EQ(status_of(start(program, "x", NULL)), 0);
}

static void test_gate(void)
{
	char dir[] = "/tmp/csight-unit-XXXXXX", socket[64], program[64], command[160], opener[4096];
	struct visits v = { .base = event_base_new() };
	pid_t pid;

	snprintf(opener, sizeof(opener), "%s", unit_built("csight-opener"));
	CHECK(mkdtemp(dir) != NULL);
	snprintf(socket, sizeof(socket), "%s/opener", dir);
	snprintf(program, sizeof(program), "%s/guarded", dir);
	snprintf(command, sizeof(command), "cp /bin/true %s", program);
	CHECK_EQ(system(command), 0);
	pid = start(opener, "--socket", socket);
	visit(&v, program, socket);
	if (v.closed)
		unit_skip("a gate before a program", strerror(-v.rc));
	exec_gate_free(v.gate);
	kill(pid, SIGTERM);
	waitpid(pid, NULL, 0);
	event_base_free(v.base);
	snprintf(command, sizeof(command), "rm -r %s", dir);
	CHECK_EQ(system(command), 0);
}

static void limits_of(void *data, uid_t user, struct ledger_limits *ret)
{
	for (enum ledger_kind k = 0; k < LEDGER_KINDS; k++)
		ret->most[k] = LEDGER_UNLIMITED;
}

/* Rules and targets without trace units. */
struct world {
	struct settings settings;
	struct standing_list_options o;
	struct standing_list *all;
};

static void world_begin(struct world *w)
{
	struct ledger_options limits = { .limits = limits_of };
	struct target_list_options targets = { .settings = &w->settings, .base = event_base_new() };

	*w = (struct world){ .settings = { .history_targets = 8, .capture = "emu" } };
	for (enum ledger_kind k = 0; k < LEDGER_KINDS; k++)
		limits.totals[k].most = LEDGER_UNLIMITED;
	CHECK_EQ(ledger_new(&limits, &targets.ledger), 0);
	w->o =
	    (struct standing_list_options){ .base = targets.base, .settings = &w->settings, .ledger = targets.ledger };
	CHECK_EQ(target_list_new(&targets, &w->o.targets), 0);
	CHECK_EQ(trace_units_new(&(struct trace_units_options){ .settings = &w->settings }, &w->o.units), 0);
	CHECK_EQ(standing_list_new(&w->o, &w->all), 0);
}

static void world_end(struct world *w)
{
	standing_list_free(w->all);
	trace_units_free(w->o.units);
	target_list_free(w->o.targets);
	ledger_free(w->o.ledger);
	event_base_free(w->o.base);
}

/* A rule may end while it is being used: it exists until the next turn of the loop. */
static void test_removal(void)
{
	const struct audit_actor by = { .uid = getuid() };
	const struct standing_request request = { .rule.name = (char *)"program", .by = &by };
	struct ledger_refusal limit = { 0 };
	struct reason why = { "" };
	struct standing *s = NULL, *again;
	struct world w;

	world_begin(&w);
	CHECK_EQ(standing_add(w.all, &request, &s, &why, &limit), 0);
	standing_remove(s);
	CHECK(!standing_find(w.all, 1));
	CHECK_EQ(ledger_sum(w.o.ledger, LEDGER_STANDING), 0u);
	/* What was freed last is the first to be used again. */
	again = malloc(sizeof(*s));
	CHECK(again != s);
	CHECK(s->id == 1 && s->all == w.all);
	free(again);
	event_base_loop(w.o.base, EVLOOP_NONBLOCK);
	world_end(&w);
}

enum { USER = 61001 };

static int accepts(struct capture_source *s, const struct capture_options *o, struct reason *why)
{
	return 0;
}

static uint64_t memory(struct capture_source *s)
{
	return 4096;
}

static struct capture_source *release(struct capture_source *s)
{
	free(s);
	return NULL;
}

static const struct capture_ops ops = { .name = "test", .check = accepts, .memory = memory, .free = release };

/* Makes an armed target of a process of USER. */
static struct target *make_target(const struct world *w, uid_t owner, uid_t requester)
{
	const struct target_info info = { .pid = getpid(),
					  .uid = USER,
					  .owner = owner,
					  .payer = USER,
					  .name = "program",
					  .exe = "/bin/program",
					  .arguments = "" };
	struct capture_source *source = calloc(1, sizeof(*source));
	struct ledger_refusal limit = { 0 };
	struct target *t = NULL;

	source->ops = &ops;
	if (target_new(w->o.targets, &info, source, &t, &limit) < 0)
		exit(1);
	target_armed(t);
	target_requested(t, requester);
	return t;
}

/* Sets a rule of USER that selects the target. */
static void set_rule(const struct world *w)
{
	const struct audit_actor by = { .uid = USER };
	const struct standing_request request = { .rule.name = (char *)"program", .by = &by };
	struct ledger_refusal limit = { 0 };
	struct reason why = { "" };
	struct standing *s;

	CHECK_EQ(standing_add(w->all, &request, &s, &why, &limit), 0);
}

/* Returns which rule has an armed target after its user has set one for it; 0: none. */
static uint32_t rule_of(uid_t owner, uid_t requester)
{
	struct target *t;
	struct world w;
	uint32_t got;

	world_begin(&w);
	standing_list_begin(w.all);
	t = make_target(&w, owner, requester);
	set_rule(&w);
	got = t->standing;
	target_unref(t);
	world_end(&w);
	return got;
}

/* A user's rule takes what the user has armed, but nothing of root's: it would end with the rule's next program. */
static void test_owners(void)
{
	CHECK_EQ(rule_of(USER, USER), 1u);
	CHECK_EQ(rule_of(USER, 0), 0u);
	CHECK_EQ(rule_of(0, USER), 0u);
}

/* The rule of a user who may not connect any more takes nothing. */
static void test_denied(void)
{
	uid_t user = USER;
	struct target *t;
	struct world w;

	world_begin(&w);
	standing_list_begin(w.all);
	set_rule(&w);
	t = make_target(&w, USER, USER);
	w.settings.deny = (struct account_set){ .uids = &user, .n_uids = 1 };
	standing_target(w.all, t, TARGET_ARMED);
	CHECK_EQ(t->standing, 0u);
	w.settings.deny.n_uids = 0;
	standing_target(w.all, t, TARGET_ARMED);
	CHECK_EQ(t->standing, 1u);
	target_unref(t);
	world_end(&w);
}

/* A program whose file was removed or replaced keeps its path. */
static void test_program_path(void)
{
	char dir[] = "/tmp/csight-unit-XXXXXX", program[64], command[160], exe[128] = "";
	pid_t pid;

	CHECK(mkdtemp(dir) != NULL);
	snprintf(program, sizeof(program), "%s/program", dir);
	snprintf(command, sizeof(command), "cp /bin/sleep %s", program);
	CHECK_EQ(system(command), 0);
	pid = start(program, "100", NULL);
	while (proc_file_exe(pid, exe, sizeof(exe)) == 0 && strcmp(exe, program) != 0)
		usleep(1000);
	CHECK(unlink(program) == 0 && rmdir(dir) == 0);
	CHECK_EQ(proc_file_exe(pid, exe, sizeof(exe)), 0);
	CHECK_STR(exe, program);
	kill(pid, SIGKILL);
	status_of(pid);
}

int main(void)
{
	test_units();
	test_same_unit();
	test_groups();
	test_sets();
	test_rules();
	test_events();
	test_gate();
	test_removal();
	test_owners();
	test_denied();
	test_program_path();
	return unit_end();
}
