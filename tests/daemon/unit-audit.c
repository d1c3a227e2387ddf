/* SPDX-License-Identifier: MIT */
/* daemon/audit.c: repeated refusals are summed, and what is not recorded is counted. The events are read in the log. */
#include <event2/event.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/audit.h"
#include "lib/base/log.h"
#include "tests/unit.h"

#define check(good, what) unit_check((good), __FILE__, __LINE__, "%s", what)

enum { ANNA = 1000, INTERVAL_MS = 50 };

static struct event_base *base;
static struct ledger *ledger;
static struct audit *audit;
static int log_fd, err_fd, idle_events;
static char text[1 << 20];
static const struct audit_object process = { .pid = 77, .owner = 1001, .name = "a\nname" };

static void limits_of(void *data, uid_t user, struct ledger_limits *ret)
{
	for (enum ledger_kind k = 0; k < LEDGER_KINDS; k++)
		ret->most[k] = 4;
}

static void begin(void)
{
	struct ledger_options o = { .limits = limits_of };

	for (enum ledger_kind k = 0; k < LEDGER_KINDS; k++)
		o.totals[k] = (struct ledger_total){ .most = LEDGER_UNLIMITED };
	base = event_base_new();
	if (ledger_new(&o, &ledger) < 0 ||
	    audit_new(&(struct audit_options){ .base = base, .ledger = ledger, .interval_ms = INTERVAL_MS }, &audit) <
		0)
		exit(1);
	idle_events = event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED);
	if (ftruncate(log_fd, 0) < 0 || lseek(log_fd, 0, SEEK_SET) < 0 || dup2(log_fd, STDERR_FILENO) < 0)
		exit(1);
}

static unsigned lines_with(const char *part)
{
	unsigned n = 0;

	for (const char *at = text; (at = strstr(at, part)); at++)
		n++;
	return n;
}

static void look(void)
{
	ssize_t n = pread(log_fd, text, sizeof(text) - 1, 0);

	text[MAX(n, 0)] = 0;
}

/* Waits until the log has so many lines, without the loop. */
static void look_for(unsigned lines)
{
	for (int i = 0; i < 500 && (look(), lines_with("\n") < lines); i++)
		usleep(10000);
}

/* Runs the loop until the log has so many lines. */
static void run_for(unsigned lines)
{
	while (look(), lines_with("\n") < lines)
		event_base_loop(base, EVLOOP_ONCE);
}

/* Runs the loop until an interval has passed in which nothing was refused: then no timer is left. */
static void run_quiet(void)
{
	while (event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED) > idle_events)
		event_base_loop(base, EVLOOP_ONCE);
}

static void end(void)
{
	audit_free(audit);
	ledger_free(ledger);
	event_base_free(base);
	look();
	dup2(err_fd, STDERR_FILENO);
}

static struct audit_actor actor(uid_t uid)
{
	return (struct audit_actor){ .audit = audit, .uid = uid, .pid = 5, .login_uid = 42 };
}

static void test_sums(void)
{
	const struct ledger_refusal why = { .kind = LEDGER_TARGETS, .limit = 4, .used = 4, .wanted = 1 };
	struct audit_actor anna, bert;

	begin();
	anna = actor(ANNA);
	bert = actor(ANNA + 1);
	for (int i = 0; i < 3; i++)
		audit_deny(&anna, AUDIT_ARM, &process);
	audit_deny(&bert, AUDIT_ARM, &process);
	audit_deny(&anna, AUDIT_DISARM, &process);
	audit_limit(&anna, AUDIT_ARM, &process, &why);
	look_for(4);
	check(lines_with("\n") == 4, "the first refusal of each user, action and kind is recorded at once");
	check(lines_with("refused uid 1000 (pid 5, login uid 42) to arm process 77 (a\\x0aname) of uid 1001: "
			 "permission denied\n") == 1,
	      "with who, what and why, in one line");
	check(
	    lines_with("to arm process 77 (a\\x0aname) of uid 1001: the limit targets-per-user is 4, of which 4 are in "
		       "use; 1 more were wanted\n") == 1,
	    "with the limit");
	run_for(5);
	check(lines_with("\n") == 5 &&
		  lines_with("refused uid 1000 (pid 5, login uid 42) 2 more times within 1 s to arm: "
			     "permission denied\n") == 1,
	      "the others are summed after an interval");
	audit_deny(&anna, AUDIT_ARM, &process);
	run_for(6);
	check(lines_with(" 1 more times within") == 1, "so is the next one, after another interval");
	run_quiet();
	audit_deny(&anna, AUDIT_ARM, &process);
	audit_deny(&anna, AUDIT_ARM, &process);
	look_for(7);
	check(lines_with("to arm process 77 (a\\x0aname) of uid 1001: permission denied\n") == 3,
	      "after an interval without one, it is recorded at once again");
	end();
	check(lines_with(" 1 more times within") == 2, "the sums are recorded at the end");
}

static void test_bounds(void)
{
	struct audit_actor by;

	begin();
	for (uid_t uid = ANNA; uid < ANNA + 1030; uid++) {
		by = actor(uid);
		audit_deny(&by, AUDIT_ARM, &process);
	}
	end();
	check(lines_with("permission denied\n") == 1024 &&
		  lines_with("6 refusals are not recorded: csightd keeps 1024 sums\n") == 1,
	      "refusals of more users than can be kept apart are counted");
	begin();
	by = actor(ANNA);
	/* Without the loop, all of them wait. */
	for (int i = 0; i < 300; i++)
		audit_done(&by, AUDIT_ARM, &process);
	by = actor(ANNA + 1);
	audit_done(&by, AUDIT_ARM, &process);
	end();
	check(lines_with("armed process") == 257 && lines_with("uid 1001 (pid 5, login uid 42) armed process") == 1,
	      "a user who causes more events than the journal accepts loses events of its own");
	check(lines_with("44 events \"arm\" of uid 1000 (pid 5, login uid 42) are not recorded: too many wait for the "
			 "journal\n") == 1,
	      "and they are counted");
}

static void test_self(void)
{
	struct audit_actor by;

	begin();
	by = audit_self(audit);
	audit_done(&by, AUDIT_REMOVE,
		   &(struct audit_object){ .pid = 77, .owner = 1001, .snapshot = "ID", .detail = "spool-max" });
	by.audit = NULL;
	audit_done(&by, AUDIT_REMOVE, &process);
	audit_deny(&by, AUDIT_REMOVE, &process);
	end();
	check(strstr(text, "csightd removed snapshot ID of process 77 of uid 1001, to keep within spool-max\n") &&
		  lines_with("\n") == 1,
	      "csightd's own removals have their limit; without an audit nothing is recorded");
}

int main(void)
{
	log_setup("unit-audit", LOG_INFO);
	err_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
	log_fd = memfd_create("log", MFD_CLOEXEC);
	if (log_fd < 0 || err_fd < 0)
		return 1;
	test_sums();
	test_bounds();
	test_self();
	return unit_end();
}
