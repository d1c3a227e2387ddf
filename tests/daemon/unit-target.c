/* SPDX-License-Identifier: MIT */
/*
 * daemon/target.c: which source of a process replaces an earlier one. daemon/recording.c: the program that it names.
 * daemon/state-shares.c: who loses targets if not all can be stored. daemon/exit-listener.c: the filter of many
 * processes. daemon/trigger: triggers of a target that leaves the list since it was disarmed.
 */
#include "config.h"

#include <event2/event.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "daemon/directory-tree.h"
#include "daemon/recording.h"
#include "daemon/snapshot-writer.h"
#include "daemon/spool.h"
#include "daemon/state-shares.h"
#include "daemon/target.h"
#include "daemon/trigger/trigger.h"
#include "lib/base/io.h"
#include "lib/base/util.h"
#include "tests/unit.h"

enum { OTHER = 61001 };

static struct target_list *all;

static uint64_t memory(struct capture_source *s)
{
	return 4096;
}

static struct capture_source *release(struct capture_source *s)
{
	free(s);
	return NULL;
}

/* A thread without trace. */
static int drain(struct capture_source *s, struct capture_positions *positions, struct capture_drain *d,
		 struct capture_copy **ret)
{
	struct capture_copy *c = calloc(1, sizeof(*c));

	c->jitdump.fd = -1;
	c->threads = calloc(1, sizeof(*c->threads));
	c->n_threads = 1;
	*ret = c;
	return 0;
}

static const struct capture_ops recordable = {
	.name = "recordable", .memory = memory, .free = release, .drain = drain
};
static const struct capture_ops first = { .name = "first", .memory = memory, .free = release };
static size_t no_hits(struct capture_source *s, uint64_t *cursor, struct emu_hit *ret, size_t max)
{
	return 0;
}

static int no_counts(struct capture_source *s, struct emu_watch_count *ret)
{
	memset(ret, 0, EMU_WATCHES_MAX * sizeof(*ret));
	return 0;
}

static int set_list(struct capture_source *s, const struct capture_watch_list *list, struct reason *why)
{
	return 0;
}

static void hold(struct capture_source *s, uint32_t slot, uint64_t least)
{
}

static void want(struct capture_source *s)
{
}

static bool is_applied(struct capture_source *s, uint32_t *ret_limits)
{
	*ret_limits = 0;
	return true;
}

static bool is_settled(struct capture_source *s, uint64_t ended)
{
	return true;
}

static int change(struct capture_source *s)
{
	return 0;
}

static const struct capture_watching watching = { .set = set_list,
						  .hold = hold,
						  .want = want,
						  .hits = no_hits,
						  .counts = no_counts,
						  .applied = is_applied,
						  .settled = is_settled };
static const struct capture_ops watched = {
	.name = "watched", .memory = memory, .arm = change, .disarm = change, .watching = &watching, .free = release
};
static const struct capture_ops second = { .name = "second", .memory = memory, .free = release };

static void limits_of(void *data, uid_t user, struct ledger_limits *ret)
{
	for (enum ledger_kind k = 0; k < LEDGER_KINDS; k++)
		ret->most[k] = LEDGER_UNLIMITED;
}

/* This process registers with a source. */
static int add(const struct capture_ops *ops, struct target **ret)
{
	const struct target_info info = { .pid = getpid(),
					  .uid = getuid(),
					  .owner = getuid(),
					  .payer = getuid(),
					  .name = "unit-target",
					  .exe = "/bin/true",
					  .arguments = "" };
	struct capture_source *s = calloc(1, sizeof(*s));
	struct ledger_refusal why = { 0 };
	int rc;

	if (!s)
		exit(1);
	s->ops = ops;
	rc = target_new(all, &info, s, ret, &why);
	if (rc == 0)
		ring_move(&(*ret)->ring, RING_ARMED);
	return rc;
}

static void test_replacement(void)
{
	struct target *a = NULL, *b = NULL, *c = NULL, *d = NULL;

	CHECK_EQ(add(&first, &a), 0);
	/* The user of the process has armed it, and no other user wants it. */
	CHECK_EQ(add(&second, &b), 0);
	CHECK(a->ring.state == RING_GONE && a->replaced && b->ring.state == RING_ARMED);
	/* Another user has armed it. */
	b->requester = OTHER;
	CHECK_EQ(add(&first, &c), -EBUSY);
	CHECK(b->ring.state == RING_ARMED && !c);
	/* After execve() it registers again. */
	CHECK_EQ(add(&second, &c), 0);
	CHECK(b->ring.state == RING_GONE && c->ring.state == RING_ARMED && c->requester == getuid());
	/* Its trace is another user's, as that of the kernel is root's. */
	c->owner = OTHER;
	CHECK_EQ(add(&first, &d), -EBUSY);
	CHECK_EQ(c->ring.state, RING_ARMED);
	/* Root wants it, too. */
	target_requested(c, OTHER);
	CHECK_EQ(c->requester, getuid());
	target_requested(c, 0);
	CHECK_EQ(c->requester, 0u);
	target_unref(a);
	target_unref(b);
	target_unref(c);
}

static void on_changed(void *data, const struct snapshot *s, enum snapshot_change change)
{
}

static void on_step(void *data)
{
}

static void on_ended(void *data)
{
	*(bool *)data = true;
}

/* Records a step of a target that executes another program before the recorder begins the file. */
static struct trace_file *record_renamed(struct event_base *base, struct spool *spool, struct target *t)
{
	bool ended = false;
	struct snapshot *s = snapshot_new();
	struct recording_options options = { .base = base,
					     .queue = spool_options(spool)->queue,
					     .spool = spool,
					     .ledger = spool_options(spool)->ledger,
					     .target = t,
					     .snapshot = s,
					     .progress = on_step,
					     .ended = on_ended,
					     .data = &ended };
	struct spool_refusal why = { 0 };
	struct recording *r = NULL;
	struct trace_file *f = NULL;

	strcpy(s->id, "20260101T000000-000001");
	CHECK_EQ(spool_room_claim(spool, t->owner, 1 << 20, &s->claim, &why), 0);
	CHECK_EQ(recording_begin(&options, &r), 0);
	target_renamed(t, "other", "/bin/other-program");
	while (r && recording_log(r) == UINT64_MAX)
		event_base_loop(base, EVLOOP_ONCE);
	recording_end(r, RECORDING_REQUEST);
	while (!ended)
		event_base_loop(base, EVLOOP_ONCE);
	f = recording_take_file(r);
	recording_saved(r);
	recording_free(r);
	snapshot_unref(s);
	return f;
}

/* The recorder's thread reads no text of the target: the loop replaces them when the process executes a program. */
static void test_renamed(struct event_base *base, struct ledger *ledger)
{
	char path[] = "/tmp/csight-target-XXXXXX";
	struct spool_options options = { .path = mkdtemp(path), .ledger = ledger, .base = base, .changed = on_changed };
	struct capture_copy copy = { .jitdump.fd = -1 };
	struct snapshot_writer writer = { .copy = &copy };
	_cleanup_free_ char *trace = NULL;
	struct target *t = NULL;
	struct spool *spool = NULL;
	struct trace_file *f;
	size_t size = 0;

	CHECK(workqueue_new(base, "test", 0, &options.queue) == 0 && spool_new(&options, &spool) == 0 &&
	      add(&recordable, &t) == 0);
	f = record_renamed(base, spool, t);
	writer.target = t;
	CHECK(f && trace_file_end(f, &writer) == 0);
	trace_file_free(f);
	CHECK_EQ(io_read_file(spool_fd(spool), SNAPSHOT_TMP "20260101T000000-000001/" SNAPSHOT_TRACE_FILE, 1 << 20,
			      &trace, &size),
		 0);
	CHECK(trace && memmem(trace, size, "/bin/true", 9) && !memmem(trace, size, "/bin/other-program", 18));
	target_unref(t);
	workqueue_free(options.queue);
	spool_free(spool);
	CHECK_EQ(directory_tree_remove(AT_FDCWD, path), 0);
}

static void on_left(void *data, struct target *t)
{
	trigger_list_ended(*(struct trigger_list **)data, t);
}

static void on_armed(struct target *t, int rc, void *data)
{
	CHECK_EQ(rc, 0);
}

static struct trigger *set_trigger(struct trigger_list *triggers, struct target *t, const char *text)
{
	const struct audit_actor by = { .uid = getuid() };
	struct trigger_request request = { .target = t, .by = &by };
	struct ledger_refusal limit = { 0 };
	struct reason why = { "" };
	struct trigger *ret = NULL;

	CHECK_EQ(trigger_spec_parse(text, &request.spec, &why), 0);
	CHECK_EQ(trigger_add(triggers, &request, &ret, &why, &limit), 0);
	return ret;
}

/* A target that was made to be armed leaves the list when it is disarmed: its triggers end, without a hit. */
static void test_disarm(const struct target_list_options *list, struct trigger_list *triggers)
{
	struct trigger *signal, *end;
	struct target *t = NULL;

	CHECK_EQ(add(&watched, &t), 0);
	signal = set_trigger(triggers, t, "signal 10");
	end = set_trigger(triggers, t, "exit");
	CHECK_EQ(ledger_used(list->ledger, getuid(), LEDGER_TRIGGERS), 2u);
	for (unsigned i = 0; i < 2; i++) {
		t->adopted = i == 1;
		target_disarm(t, on_armed, NULL);
		while (t->ring.state != RING_DISARMED)
			event_base_loop(list->base, EVLOOP_ONCE);
		event_base_loop(list->base, EVLOOP_NONBLOCK);
		CHECK(signal->ended == (i == 1) && end->ended == (i == 1));
		if (i == 0)
			target_arm(t, on_armed, NULL);
		while (i == 0 && t->ring.state != RING_ARMED)
			event_base_loop(list->base, EVLOOP_ONCE);
	}
	CHECK(!t->listed && !end->hits && !signal->watched && !end->watched);
	CHECK_EQ(ledger_used(list->ledger, getuid(), LEDGER_TRIGGERS), 0u);
	target_unref(t);
}

/* Users 1 to 3 want so many bytes in steps of 100, of 1000 in all. Returns what each of them gets, two digits each. */
static unsigned divide(const struct ledger *ledger, const unsigned wants[3], struct state_shares *s)
{
	unsigned got[4] = { 0 };

	*s = (struct state_shares){ .ledger = ledger };
	for (uid_t user = 1; user <= 3; user++)
		for (unsigned n = 0; n < wants[user - 1]; n += 100)
			state_shares_want(s, user, 100);
	state_shares_divide(s, 1000);
	for (uid_t user = 1; user <= 3; user++)
		for (unsigned n = 0; n < wants[user - 1]; n += 100)
			got[user] += state_shares_take(s, user, 100);
	return got[1] * 10000 + got[2] * 100 + got[3];
}

static void test_shares(const struct ledger *ledger)
{
	struct state_shares s;

	CHECK_EQ(divide(ledger, (const unsigned[]){ 300, 300, 400 }, &s), 30304u);
	CHECK_EQ(s.left_out, 0u);
	state_shares_done(&s);
	CHECK_EQ(divide(ledger, (const unsigned[]){ 100, 100, 9000 }, &s), 10108u);
	CHECK(s.left_out == 82 && s.largest == 3);
	state_shares_done(&s);
	CHECK_EQ(divide(ledger, (const unsigned[]){ 5000, 200, 5000 }, &s), 40204u);
	state_shares_done(&s);
	CHECK_EQ(divide(ledger, (const unsigned[]){ 0, 0, 0 }, &s), 0u);
	state_shares_done(&s);
	CHECK_EQ(state_shares_text("a\001"), 12u);
	CHECK_EQ(state_shares_text(NULL), 0u);
}

static void ignore(void *data, const struct exit_event *e)
{
}

/* The kernel's room for the filters of a socket suffices for some processes: beyond that, events of all are received.
 */
static void test_exit_filter(struct event_base *base)
{
	enum { PIDS = 400, ALL = 7 };
	int fd = unshare(CLONE_NEWNET) < 0 ? -1 : socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	FILE *room = fd < 0 ? NULL : fopen("/proc/sys/net/core/optmem_max", "w");
	struct exit_listener *l = NULL;
	pid_t pids[PIDS];
	socklen_t n = 0;

	if (!room) {
		unit_skip("a filter for many processes", "net.core.optmem_max cannot be set for a network namespace");
		closep(&fd);
		return;
	}
	CHECK(fprintf(room, "10240") > 0 && fclose(room) == 0);
	for (int i = 0; i < PIDS; i++)
		pids[i] = i + 1;
	CHECK_EQ(exit_listener_new(base, fd, ignore, NULL, &l), 0);
	CHECK_EQ(exit_listener_set(l, pids, PIDS / 2), 0);
	CHECK(getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, NULL, &n) == 0 && n == ALL + PIDS);
	CHECK_EQ(exit_listener_set(l, pids, PIDS), 0);
	n = 0;
	CHECK(getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, NULL, &n) == 0 && n == ALL);
	exit_listener_free(l);
}

int main(void)
{
	struct ledger_options options = { .limits = limits_of };
	struct settings settings = { .history_targets = 8, .history_bytes = 1 << 20, .history_seconds = 600 };
	struct trigger_list *triggers = NULL;
	struct target_list_options list = {
		.base = event_base_new(), .settings = &settings, .ended = on_left, .data = &triggers
	};
	struct trigger_list_options watching_list = { .base = list.base };
	struct daemon daemon = { 0 };

	for (enum ledger_kind k = 0; k < LEDGER_KINDS; k++)
		options.totals[k].most = LEDGER_UNLIMITED;
	if (!list.base || ledger_new(&options, &list.ledger) < 0 ||
	    workqueue_new(list.base, "capture", 0, &list.capture_queue) < 0 || target_list_new(&list, &all) < 0)
		return 1;
	watching_list.daemon = &daemon;
	watching_list.ledger = list.ledger;
	watching_list.capture_queue = list.capture_queue;
	if (turns_new(list.base, list.ledger, &watching_list.turns) < 0 ||
	    trigger_list_new(&watching_list, &triggers) < 0)
		return 1;
	test_disarm(&list, triggers);
	test_renamed(list.base, list.ledger);
	test_replacement();
	test_shares(list.ledger);
	test_exit_filter(list.base);
	workqueue_stop(list.capture_queue);
	triggers = trigger_list_free(triggers);
	target_list_free(all);
	workqueue_free(list.capture_queue);
	turns_free(watching_list.turns);
	ledger_free(list.ledger);
	event_base_free(list.base);
	return unit_end();
}
