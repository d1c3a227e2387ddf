/* SPDX-License-Identifier: MIT */
/*
 * daemon/state.c, state-file.c, target-adopt.c, trigger/trigger-state.c, standing/standing-wire.c: the file in which
 * csightd stores what outlasts it. The input is two bytes, which choose the settings and what csightd finds (the enums
 * below), and the text of targets.json. In the text, $1 to $6 stand for the IDs of processes, $a to $f for when these
 * started, and $B for the boot. The parts of csightd that the state refers to start as in daemon/main.c; the processes
 * register; csightd ends, and starts again with what it has written. What is accepted is well-formed, what was restored
 * once is restored again, and nothing is left.
 *
 * As root, in a mount namespace of its own, where /sys is that of a machine with trace units, whose events cannot be
 * opened.
 */
#include "config.h"

#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "daemon/capture/emu/emu.h"
#include "daemon/capture/process/credentials.h"
#include "daemon/capture/process/proc-file.h"
#include "daemon/daemon.h"
#include "daemon/job.h"
#include "daemon/policy.h"
#include "daemon/request.h"
#include "daemon/standing/standing-wire.h"
#include "daemon/standing/standing.h"
#include "daemon/state-file.h"
#include "daemon/state.h"
#include "daemon/trigger/trigger.h"
#include "daemon/user-queues.h"
#include "daemon/workqueue.h"
#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/machine.h"

enum {
	SMALL = 32 << 10,
	RINGS = 512 << 10,
	USER = 1,
	HITS = 5, /* of each watch point, counted by the program */
	SNAPSHOTS = 2,
	TOO_LARGE = 65 << 20, /* for the file */
};

/* The first byte of the input. */
enum {
	NO_UNITS = 1,       /* the settings allow programs under the emulator alone */
	DENIED = 2,         /* USER is */
	LIMITED = 4,        /* one of each for a user */
	PRIVATE = 8,        /* others than root may not use a shared sink */
	OTHER_PROGRAM = 16, /* the processes have executed another program */
	DISARMED = 32,      /* they have been disarmed */
	ENDS = 64,          /* one ends before it registers */
	PAUSES = 128,       /* all recording is paused, or continues */
};

/* The second byte, modulo: what csightd finds. The upper bits: it cannot write, and whether it restores. */
enum { FILE_PLAIN, FILE_READABLE, FILE_LINK, FILE_FIFO, FILE_NONE, FILE_LARGE, FILE_KINDS };
enum { UNWRITABLE = 0x40, FORGETS = 0x80 };

/*
 * The processes: of root, two of a user, the second of which runs a program with the name of an emulator, one with
 * several uids, one that has ended, and one that may end.
 */
enum { OF_ROOT, OF_USER, OF_USER_TOO, OF_BOTH, ENDED, ENDING, PROCESSES };

static struct {
	pid_t pid;
	uint64_t start;
	uid_t uid; /* (uid_t)-1: several */
} processes[PROCESSES];

static char top_path[] = "/dev/shm/csight-fuzz-XXXXXX";
static char boot[STATE_BOOT_SIZE];
static char emulator[64]; /* a program that sleeps */
static struct event_base *base;
static struct ledger *accounts; /* of user_queues */
static struct user_queues *user_queues;

/* One run of csightd. */
static struct daemon d;

static void limits_of(void *data, uid_t user, struct ledger_limits *ret)
{
	quotas_limits(&d.settings.quotas, user, ret);
}

static void on_snapshot_changed(void *data, const struct snapshot *s, enum snapshot_change change)
{
	if (d.triggers)
		trigger_list_snapshot_changed(d.triggers, s, change);
}

static void on_target_ended(void *data, struct target *t)
{
	trigger_list_ended(d.triggers, t);
}

static void on_target_changed(void *data, struct target *t, enum target_change change)
{
	state_target(d.state, t, change);
	standing_target(d.standing, t, change);
}

static void on_hits(void *data, struct target *t)
{
	trigger_list_hits(d.triggers, t);
}

static void on_state_changed(void *data)
{
	state_changed(d.state);
}

static void load_settings(uint8_t how, uint8_t found)
{
	char spool[64], config[64], none[5][64];
	static const char *const helpers[] = { "keeper", "decoder", "opener", "runner", "kernel" };
	const char *argv[48] = { "csightd", "--spool", spool, "--config", config };
	const char *set[16];
	struct reason why = { "" };
	size_t n = 5, n_set = 0;

	snprintf(spool, sizeof(spool), "%s/spool", top_path);
	snprintf(config, sizeof(config), "%s/config", top_path);
	for (size_t i = 0; i < ELEMENTS(helpers); i++) {
		snprintf(none[i], sizeof(none[i]), "%s=%s/none", helpers[i], top_path);
		set[n_set++] = none[i];
	}
	set[n_set++] = how & NO_UNITS ? "capture=emu" : "capture=auto";
	set[n_set++] = how & DENIED ? "deny=1" : "kernel-users=1";
	set[n_set++] = how & PRIVATE ? "shared-sink=root" : "shared-sink=all";
	set[n_set++] = found & FORGETS ? "restore=no" : "restore=yes";
	set[n_set++] = "hazards=allow";
	if (how & LIMITED) {
		set[n_set++] = "targets-per-user=1";
		set[n_set++] = "triggers-per-user=1";
		set[n_set++] = "standing-per-user=1";
	}
	for (size_t i = 0; i < n_set; i++) {
		argv[n++] = "--set";
		argv[n++] = set[i];
	}
	fuzz_require(settings_load((int)n, (char **)argv, true, &d.settings, &why) == 0);
}

static void start_parts(void)
{
	struct ledger_options ledger = { .limits = limits_of };
	struct target_list_options targets = {
		.base = base, .settings = &d.settings, .ended = on_target_ended, .changed = on_target_changed
	};
	struct spool_options spool = { .path = d.settings.spool, .base = base, .changed = on_snapshot_changed };
	struct trace_units_options units = { .base = base, .settings = &d.settings, .hits = on_hits };
	struct job_queue_options jobs = {
		.base = base, .settings = &d.settings, .user_queues = user_queues, .counters = &d.counters
	};
	struct request_list_options requests = {
		.base = base, .settings = &d.settings, .user_queues = user_queues, .counters = &d.counters
	};

	for (enum ledger_kind k = 0; k < LEDGER_KINDS; k++)
		ledger.totals[k] = (struct ledger_total){ .most = LEDGER_UNLIMITED };
	fuzz_require(workqueue_new(base, "capture", 0, &d.capture_queue) == 0 &&
		     workqueue_new(base, "spool", 0, &d.spool_queue) == 0 && ledger_new(&ledger, &d.ledger) == 0 &&
		     turns_new(base, d.ledger, &d.turns) == 0);
	targets.ledger = spool.ledger = jobs.ledger = requests.ledger = d.ledger;
	targets.capture_queue = units.capture_queue = requests.capture_queue = d.capture_queue;
	spool.queue = jobs.spool_queue = requests.spool_queue = d.spool_queue;
	fuzz_require(target_list_new(&targets, &d.targets) == 0 && spool_new(&spool, &d.spool) == 0);
	units.targets = d.targets;
	jobs.spool = requests.spool = d.spool;
	fuzz_require(trace_units_new(&units, &d.units) == 0 && job_queue_new(&jobs, &d.jobs) == 0);
	requests.jobs = d.jobs;
	fuzz_require(request_list_new(&requests, &d.requests) == 0);
}

static void start_lists(void)
{
	const struct trigger_list_options triggers = { .base = base,
						       .ledger = d.ledger,
						       .turns = d.turns,
						       .capture_queue = d.capture_queue,
						       .requests = d.requests,
						       .spool = d.spool,
						       .daemon = &d,
						       .changed = on_state_changed };
	const struct standing_list_options standing = { .base = base,
							.settings = &d.settings,
							.ledger = d.ledger,
							.units = d.units,
							.targets = d.targets,
							.changed = on_state_changed };

	fuzz_require(trigger_list_new(&triggers, &d.triggers) == 0 && standing_list_new(&standing, &d.standing) == 0);
}

static bool is_busy(void)
{
	const struct target *t;

	TAILQ_FOREACH (t, target_list_all(d.targets), link)
		if (t->ring.busy)
			return true;
	return false;
}

/* Runs the loop until nothing is being armed or changed. */
static void settle(void)
{
	do {
		event_base_loop(base, is_busy() ? EVLOOP_ONCE : EVLOOP_NONBLOCK);
	} while (is_busy());
}

static void start(uint8_t how, uint8_t found)
{
	struct state_options state = { .base = base };

	d = (struct daemon){ .base = base, .user_queues = user_queues };
	TAILQ_INIT(&d.waiting);
	TAILQ_INIT(&d.subscribers);
	load_settings(how, found);
	start_parts();
	start_lists();
	state.settings = &d.settings;
	state.queue = d.spool_queue;
	state.ledger = d.ledger;
	state.spool = d.spool;
	state.units = d.units;
	state.targets = d.targets;
	state.triggers = d.triggers;
	state.standing = d.standing;
	fuzz_require(state_new(&state, &d.state) == 0);
	settle();
}

/* In the order of daemon/main.c. */
static void stop(void)
{
	job_queue_stop(d.jobs);
	request_list_stop(d.requests);
	trace_units_stop(d.units);
	workqueue_stop(d.capture_queue);
	state_stop(d.state);
	workqueue_stop(d.spool_queue);
	trigger_list_stop(d.triggers);
	d.state = state_free(d.state);
	d.standing = standing_list_free(d.standing);
	d.requests = request_list_free(d.requests);
	d.triggers = trigger_list_free(d.triggers);
	d.jobs = job_queue_free(d.jobs);
	d.targets = target_list_free(d.targets);
	d.units = trace_units_free(d.units);
	d.spool = spool_free(d.spool);
	workqueue_free(d.capture_queue);
	workqueue_free(d.spool_queue);
	for (enum ledger_kind k = 0; k < LEDGER_RATES; k++)
		fuzz_require(ledger_sum(d.ledger, k) == 0);
	ledger_free(d.ledger);
	settings_done(&d.settings);
}

/* Makes the process a target, as the registration socket does. */
static void enter(size_t i, uint8_t how)
{
	struct emu_about *about = malloc(sizeof(*about));
	int fd = memfd_create("rings", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct target_info info = { .pid = processes[i].pid,
				    .uid = processes[i].uid,
				    .owner = processes[i].uid,
				    .payer = processes[i].uid,
				    .name = "prog",
				    .exe = how & OTHER_PROGRAM ? "/bin/other" : "/bin/prog",
				    .arguments = "" };
	struct ledger_refusal why;
	struct capture_source *source;
	struct emu_watching *watching;
	struct target *t;
	uint8_t *map;

	fuzz_require(about && fd >= 0 && ftruncate(fd, RINGS) == 0);
	map = mmap(NULL, RINGS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	fuzz_require(map != MAP_FAILED && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
	fuzz_rings(map, RINGS)[0] = (struct emu_slot){ .state = EMU_IDLE, .tid = 1, .serial = 1, .head = 1000 };
	watching = (struct emu_watching *)(map + ((struct emu_header *)map)->watching_offset);
	watching->limits = EMU_KNOWS_P99 | EMU_KNOWS_JOINS | EMU_KNOWS_GO_CALLS | EMU_KNOWS_OFF_CPU;
	for (size_t w = 0; w < EMU_WATCHES_MAX; w++)
		watching->counts[w] = (struct emu_watch_count){ HITS, HITS, HITS };
	munmap(map, RINGS);
	fuzz_require(emu_source_new(fd, about, &source) == 0);
	free(about);
	if (target_new(d.targets, &info, source, &t, &why) < 0)
		return;
	if (how & DISARMED)
		target_disarmed(t);
	else
		target_armed(t);
	target_unref(t);
	settle();
}

static void enter_all(uint8_t how)
{
	for (size_t i = 0; i < PROCESSES; i++)
		if (processes[i].uid != (uid_t)-1 && i != ENDED)
			enter(i, how);
}

/* What is restored is as csightd would have made it. summary: the same in the next run. */
static void check_trigger(const struct trigger *t, struct buf *summary)
{
	const struct target *of = target_list_find(d.targets, t->pid, 0);

	fuzz_require(t->number && trigger_find(d.triggers, t->number) == t && !t->attached && !t->section);
	fuzz_require(t->by.uid != (uid_t)-1 && of && policy_owns(t->by.uid, of->owner));
	fuzz_require(t->n_places <= TRIGGER_PLACES_MAX && t->n_slots <= TRIGGER_PLACES_MAX + 1);
	for (size_t i = 0; i < t->n_places; i++)
		fuzz_require(t->places[i].condition < trigger_spec_count(&t->spec));
	fuzz_require(t->n_kept <= t->spec.keep);
	for (size_t i = 0; i < t->n_kept; i++)
		fuzz_require(spool_find(d.spool, t->kept[i].id) != NULL);
	for (unsigned i = 0; i < trigger_spec_count(&t->spec); i++)
		fuzz_require(t->condition_hits[i] <= (uint64_t)INT64_MAX + HITS * EMU_WATCHES_MAX);
	buf_printf(summary, "trigger %u %u %u %s %s %d %d %llu %llu %zu\n", t->number, t->by.uid, t->by.login_uid,
		   t->condition, t->rules, t->enabled, t->ended, (unsigned long long)MIN(t->hits, INT64_MAX),
		   (unsigned long long)MIN(t->measured, INT64_MAX), t->n_kept);
}

static void check_standing(const struct standing *s, struct buf *summary)
{
	char text[STANDING_RULE_TEXT_SIZE];
	struct reason why = { "" };

	fuzz_require(s->id && standing_find(d.standing, s->id) == s && !s->section && s->by.uid != (uid_t)-1);
	fuzz_require(standing_rule_check(&s->rule, &why) == 0);
	fuzz_require(s->by.uid == 0 || !s->rule.has_user || s->rule.user == s->by.uid);
	fuzz_require(!s->options.kernel || settings_permit_kernel(&d.settings, s->by.uid));
	fuzz_require((s->rule.tree != 0) == (s->set != NULL));
	standing_rule_text(&s->rule, text);
	buf_printf(summary, "standing %u %u %u %s %d\n", s->id, s->by.uid, s->by.login_uid, text, s->options.kernel);
	json_object_put(standing_wire(s));
}

static void check(struct buf *summary)
{
	const struct standing *s;
	const struct trigger *t;
	const struct target *of;
	uint32_t last = 0;

	TAILQ_FOREACH (t, trigger_list_all(d.triggers), link) {
		fuzz_require(t->number > last);
		last = t->number;
		check_trigger(t, summary);
	}
	TAILQ_FOREACH (s, standing_list_all(d.standing), link)
		check_standing(s, summary);
	TAILQ_FOREACH (of, target_list_all(d.targets), link) {
		fuzz_require(!of->standing || standing_find(d.standing, of->standing));
		buf_printf(summary, "target %d %d %u\n", (int)of->pid, (int)of->ring.state, of->standing);
	}
	buf_printf(summary, "waits %d paused %d\n", state_waits(d.state), state_paused(d.state));
	fuzz_require(buf_error(summary) == 0);
}

/* New ones get numbers of their own. */
static void check_new(void)
{
	static char name[] = "new";
	const struct audit_actor by = { .login_uid = (uid_t)-1 };
	struct standing_request rule = { .rule = { .name = name }, .by = &by };
	struct trigger_request request = { .target = TAILQ_FIRST(target_list_all(d.targets)), .by = &by };
	struct ledger_refusal limit;
	struct reason why = { "" };
	struct standing *s;
	struct trigger *t;

	if (standing_add(d.standing, &rule, &s, &why, &limit) == 0) {
		fuzz_require(s->id && standing_find(d.standing, s->id) == s && s->id < UINT32_MAX);
		standing_remove(s);
	}
	fuzz_require(trigger_spec_parse("signal 10", &request.spec, &why) == 0);
	if (request.target && trigger_add(d.triggers, &request, &t, &why, &limit) == 0) {
		fuzz_require(t->number && trigger_find(d.triggers, t->number) == t && t->number < UINT32_MAX);
		trigger_remove(t);
		settle();
	}
}

static int open_spool_dir(void)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/spool", top_path);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* What csightd has written is what it reads. */
static void check_written(void)
{
	struct state_content content = { .boot = boot };
	_cleanup_close_ int dir = open_spool_dir();
	struct reason why = { "" };
	struct state_entry e;
	size_t past = 0;

	fuzz_require(state_file_read(dir, &content, &past, &why) == 0 && past == 0 && content.targets);
	for (size_t i = 0; i < json_array_size(content.targets); i++) {
		fuzz_require(state_file_parse(json_object_array_get_idx(content.targets, i), &e) == 0);
		fuzz_require(e.pid > 0 && e.uid != (uid_t)-1 && e.requester != (uid_t)-1);
	}
	json_object_put(content.targets);
	json_object_put(content.standing);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void remove_dir(void)
{
	nftw(top_path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* The child says by closing a pipe that its ids are set, and waits to be killed. */
static void start_process(size_t i, uid_t real, uid_t effective)
{
	struct credentials c;
	int ready[2];
	char byte;

	fuzz_require(pipe2(ready, O_CLOEXEC) == 0);
	processes[i].pid = fork();
	fuzz_require(processes[i].pid >= 0);
	if (processes[i].pid == 0) {
		if (setresgid(real, real, real) == 0 && setresuid(real, effective, effective) == 0)
			prctl(PR_SET_DUMPABLE, 1);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (i == OF_USER_TOO)
			execl(emulator, emulator, "infinity", (char *)NULL);
		close(ready[1]);
		for (;;)
			pause();
	}
	close(ready[1]);
	fuzz_require(read(ready[0], &byte, 1) == 0);
	close(ready[0]);
	fuzz_require(proc_file_start(processes[i].pid, &processes[i].start) == 0 &&
		     credentials_read(processes[i].pid, &c) == 0);
	processes[i].uid = credentials_uid(&c);
}

static void end_process(size_t i)
{
	kill(processes[i].pid, SIGKILL);
	waitpid(processes[i].pid, NULL, 0);
}

static void make_emulator(int top)
{
	_cleanup_free_ char *program = NULL;
	size_t size;

	snprintf(emulator, sizeof(emulator), "%s/qemu-aarch64", top_path);
	fuzz_require(io_read_file(AT_FDCWD, "/bin/sleep", TOO_LARGE, &program, &size) == 0 &&
		     io_write_file(top, "qemu-aarch64", program, size, 0755) == 0 && fchmod(top, 0711) == 0);
}

/* Gives this process a /sys of a machine with trace units, if it may have one. */
static void change_machine(int top)
{
	_cleanup_close_ int root = -1;
	char sys[64];

	snprintf(sys, sizeof(sys), "%s/machine/sys", top_path);
	fuzz_require(mkdirat(top, "machine", 0700) == 0);
	root = openat(top, "machine", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fuzz_require(root >= 0);
	machine_make(root);
	if (unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0)
		fuzz_require(mount(sys, "/sys", NULL, MS_BIND, NULL) == 0);
}

/* Snapshots that triggers keep. */
static void make_snapshots(int spool)
{
	static const char text[] = "{\"pid\":7,\"uid\":1,\"gid\":1,\"name\":\"p\",\"time\":5,\"blind\":6}",
			  state[] = "{\"state\":\"ready\",\"attempts\":1}";
	char path[48];

	for (unsigned i = 0; i < SNAPSHOTS; i++) {
		snprintf(path, sizeof(path), "20260101T000000-00000%u", i);
		fuzz_require(mkdirat(spool, path, 0700) == 0);
		strcat(path, "/snapshot.json");
		fuzz_require(io_write_file(spool, path, text, strlen(text), 0600) == 0);
		strcpy(strrchr(path, '/'), "/state.json");
		fuzz_require(io_write_file(spool, path, state, strlen(state), 0600) == 0);
	}
}

/* The first start opens what stays open, as the event base does. */
static void begin(void)
{
	_cleanup_close_ int top = -1, spool = -1;

	if (base)
		return;
	log_setup("fuzz", LOG_EMERG);
	base = event_base_new();
	fuzz_require(base && mkdtemp(top_path) && ledger_new(&(struct ledger_options){ 0 }, &accounts) == 0 &&
		     user_queues_new(base, accounts, &user_queues) == 0);
	atexit(remove_dir);
	top = open(top_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fuzz_require(top >= 0 && mkdirat(top, "spool", 0700) == 0);
	fuzz_require(io_write_file(top, "config", "", 0, 0600) == 0);
	spool = open_spool_dir();
	make_snapshots(spool);
	change_machine(top);
	make_emulator(top);
	state_file_boot(boot);
	start_process(OF_ROOT, 0, 0);
	start_process(OF_USER, USER, USER);
	start_process(OF_USER_TOO, USER, USER);
	start_process(OF_BOTH, USER, 0);
	start_process(ENDED, USER, USER);
	start_process(ENDING, USER, USER);
	end_process(ENDED);
	start(0, 0);
	enter_all(0);
	stop();
}

/* Appends what $next stands for. Returns false if it stands for nothing. */
static bool expand_one(uint8_t next, struct buf *ret)
{
	if (next >= '1' && next < '1' + PROCESSES)
		buf_printf(ret, "%d", (int)processes[next - '1'].pid);
	else if (next >= 'a' && next < 'a' + PROCESSES)
		buf_printf(ret, "%llu", (unsigned long long)processes[next - 'a'].start);
	else if (next == 'B')
		buf_printf(ret, "%s", boot);
	else
		return false;
	return true;
}

static void expand(const uint8_t *text, size_t size, struct buf *ret)
{
	for (size_t i = 0; i < size; i++)
		if (text[i] == '$' && i + 1 < size && expand_one(text[i + 1], ret))
			i++;
		else
			buf_add(ret, text + i, 1);
	fuzz_require(buf_error(ret) == 0);
}

static void remove_files(int spool)
{
	static const char *const names[] = { STATE_FILE, STATE_FILE ".bad", STATE_FILE ".tmp" };

	for (size_t i = 0; i < ELEMENTS(names); i++)
		if (unlinkat(spool, names[i], 0) < 0)
			unlinkat(spool, names[i], AT_REMOVEDIR);
}

static void make_large(int spool)
{
	_cleanup_close_ int fd = openat(spool, STATE_FILE, O_WRONLY | O_CLOEXEC);

	fuzz_require(fd >= 0 && ftruncate(fd, TOO_LARGE) == 0);
}

static void place_file(int spool, uint8_t found, const struct buf *text)
{
	int kind = (found & ~(UNWRITABLE | FORGETS)) % FILE_KINDS;

	if (kind == FILE_FIFO)
		fuzz_require(mkfifoat(spool, STATE_FILE, 0600) == 0);
	else if (kind == FILE_LINK)
		fuzz_require(symlinkat("/dev/null", spool, STATE_FILE) == 0);
	else if (kind != FILE_NONE)
		fuzz_require(
		    io_write_file(spool, STATE_FILE, text->data, text->size, kind == FILE_READABLE ? 0644 : 0600) == 0);
	if (kind == FILE_LARGE)
		make_large(spool);
	if (found & UNWRITABLE)
		fuzz_require(mkdirat(spool, STATE_FILE ".tmp", 0700) == 0);
}

/* Runs csightd from start to end. */
static void run(uint8_t how, uint8_t found, struct buf *summary)
{
	start(how, found);
	if (how & PAUSES)
		state_pause(d.state, !state_paused(d.state));
	if (how & ENDS)
		end_process(ENDING);
	enter_all(how);
	settle();
	check(summary);
	check_new();
	stop();
	if (how & ENDS)
		start_process(ENDING, USER, USER);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct buf text = { 0 }, first = { 0 }, second = { 0 };
	_cleanup_close_ int spool = -1;
	unsigned fds;
	uint8_t how, found;

	if (size < 2 || size > SMALL)
		return 0;
	begin();
	fds = fuzz_count_fds();
	spool = open_spool_dir();
	how = data[0];
	found = data[1];
	expand(data + 2, size - 2, &text);
	place_file(spool, found, &text);
	run(how, found, &first);
	if (!(found & UNWRITABLE)) {
		check_written();
		/* The process that has ended is another now. */
		if (!(how & (ENDS | PAUSES)) && !(found & FORGETS)) {
			run(how, FILE_PLAIN, &second);
			fuzz_require(first.size == second.size && memcmp(first.data, second.data, first.size) == 0);
			check_written();
		}
	}
	remove_files(spool);
	closep(&spool);
	fuzz_require(fuzz_count_fds() == fds);
	return 0;
}

/* Writes a seed; in its text ' stands for ". */
static void seed(uint8_t how, uint8_t found, const char *text)
{
	_cleanup_buf_ struct buf b = { 0 };

	buf_u8(&b, how);
	buf_u8(&b, found);
	for (; *text; text++)
		buf_u8(&b, *text == '\'' ? '"' : (uint8_t)*text);
	fuzz_require(buf_error(&b) == 0);
	fuzz_seed(b.data, b.size);
}

/* A target of the file: process is the number of one of the processes. */
struct stored {
	char process;
	unsigned uid;
	const char *more;
};

static void seed_file(uint8_t how, const char *of, const struct stored *targets, size_t n, const char *rules)
{
	_cleanup_buf_ struct buf b = { 0 };

	buf_printf(&b, "{'version':1,'boot':'%s','targets':[", of);
	for (size_t i = 0; i < n; i++)
		buf_printf(&b, "%s{'pid':$%c,'start':$%c,'uid':%u,'requester':%u,'name':'prog','exe':'/bin/prog'%s}",
			   i ? "," : "", targets[i].process, targets[i].process - '1' + 'a', targets[i].uid,
			   targets[i].uid, targets[i].more);
	buf_printf(&b, "],'standing':[%s]}", rules);
	buf_u8(&b, 0);
	fuzz_require(buf_error(&b) == 0);
	seed(how, 0, (const char *)b.data);
}

/* What is wrong with one target as a whole. */
static void seed_invalid(void)
{
	static const char *const wrong[] = {
		"7,null,{},[]",
		"{'pid':0,'start':1,'uid':1,'requester':1,'name':'p','exe':'/p'}",
		"{'pid':4294967297,'start':1,'uid':1,'requester':1,'name':'p','exe':'/p'}",
		"{'pid':1,'start':-1,'uid':1,'requester':1,'name':'p','exe':'/p'}",
		"{'pid':1,'start':1,'uid':-1,'requester':1,'name':'p','exe':'/p'}",
		"{'pid':1,'start':1,'uid':1,'requester':4294967295,'name':'p','exe':'/p'}",
		"{'pid':1,'start':1,'uid':1,'requester':1,'exe':'/p'}",
		"{'pid':2147483647,'start':1,'uid':1,'requester':1,'name':'p','exe':'/p'}",
		"{'pid':$2,'start':7,'uid':1,'requester':1,'name':'p','exe':'/p'}",
	};
	static const struct stored members[] = {
		{ '1', 0, ",'standing':-1" }, { '1', 0, ",'standing':''" },
		{ '1', 0, ",'triggers':{}" }, { '1', 0, ",'options':{'ringSize':3}" },
		{ '1', 0, ",'options':7" },   { '5', 1, "" },
	};
	_cleanup_buf_ struct buf b = { 0 };

	for (size_t i = 0; i < ELEMENTS(wrong); i++) {
		buf_clear(&b);
		buf_printf(&b, "{'version':1,'boot':'$B','targets':[%s]}", wrong[i]);
		buf_u8(&b, 0);
		fuzz_require(buf_error(&b) == 0);
		seed(0, 0, (const char *)b.data);
	}
	for (size_t i = 0; i < ELEMENTS(members); i++)
		seed_file(0, "$B", &members[i], 1, "");
}

#define COUNTS                                                                                                         \
	"'lastTaken':7,'counts':{'hits':9,'conditions':[4,5],'completed':[1,2],'measured':3,'unknown':1,'longest':8,"  \
	"'taken':2,'max':1},'slots':[{'slot':0,'hits':3,'measured':2,'unknown':1},{'slot':1,'hits':5,'measured':5,"    \
	"'unknown':5},{'slot':2,'hits':90,'measured':0,'unknown':0},{'slot':64,'hits':0,'measured':0,'unknown':0},{}]" \
	",'kept':[{'id':'20260101T000000-000000','value':4},{'id':'none','value':1},{'id':'20260101T000000-000001'"    \
	",'value':3},{'id':'20260101T000000-000000','value':-3}]"

static void seed_triggers(void)
{
	static const char *const triggers[] = {
		"{'id':7,'uid':1,'trigger':'syscall read longer-than 5ms keep 3','places':[]," COUNTS "}",
		"{'id':7,'uid':1,'trigger':'signal 10 or syscall read longer-than p99 max 3','places':[]," COUNTS "}",
		"{'id':7,'uid':1,'trigger':'signal 10 and signal 12 within 1s','places':[]," COUNTS "}",
		"{'id':7,'uid':1,'trigger':'off-cpu-longer-than 1ms every 5s','places':[],'enabled':false," COUNTS "}",
		"{'id':3,'uid':1,'loginUid':1,'trigger':'function f longer-than p99 or line "
		"a.c:7','places':[{'address':"
		"'0x10','size':16,'inode':5,'device':'8:1','ends':['0x18'],'loops':true,'go':'0x20'},{'address':'16',"
		"'condition':1}]}",
		"{'id':9,'uid':1,'trigger':'exit','places':[]},{'id':8,'uid':1,'trigger':'crash','places':[]},{'id':9,"
		"'uid':1,'trigger':'exit','places':[]}",
		"{'id':6,'uid':2,'trigger':'exit','places':[]},7,{}",
		"{'id':0,'uid':1,'trigger':'exit','places':[]},{'id':-1,'uid':1,'trigger':'exit','places':[]}",
		"{'id':4294967294,'uid':1,'trigger':'exit','places':[]}",
		"{'id':4,'uid':4294967296,'trigger':'exit','places':[]},{'id':5,'uid':-1,'trigger':'exit','places':[]}",
		"{'id':4,'uid':1,'trigger':'exit','places':[],'loginUid':''}",
		"{'id':4,'uid':1,'trigger':'no such key','places':[]},{'id':5,'uid':1,'trigger':'exit','places':[{}]}",
		"{'id':4,'uid':1,'trigger':'signal 10','places':[],'counts':{'conditions':[-5,'x',null],'hits':-5}}",
		"{'id':4,'uid':1,'trigger':'oom','places':[]},{'id':5,'uid':1,'trigger':'syscall none longer-than 1s',"
		"'places':[]}",
		"{'id':4,'uid':1,'trigger':'exit exec \\'echo x\\' group tree','places':[]}",
	};
	struct stored twice[] = { { '2', 1, "" },
				  { '2', 1, ",'triggers':[{'id':5,'uid':0,'trigger':'exit','places':[]}]" } };
	_cleanup_buf_ struct buf b = { 0 };

	for (size_t i = 0; i < ELEMENTS(triggers); i++) {
		struct stored one = { '2', 1, NULL };

		buf_clear(&b);
		buf_printf(&b, ",'triggers':[%s]", triggers[i]);
		buf_u8(&b, 0);
		fuzz_require(buf_error(&b) == 0);
		one.more = (const char *)b.data;
		seed_file(0, "$B", &one, 1, "");
		seed_file(NO_UNITS | LIMITED, "$B", &one, 1, "");
		seed_file(NO_UNITS | DISARMED, "$B", &one, 1, "");
		one.process = '6';
		seed_file(ENDS, "$B", &one, 1, "");
	}
	seed_file(0, "$B", twice, ELEMENTS(twice), "");
}

/* Targets of trace units, which csightd arms by itself. */
static void seed_units(void)
{
	static const struct stored targets[] = {
		{ '1', 0, ",'options':{'mode':'ring'}" },
		{ '2', 1, ",'options':{'cycles':true}" },
		{ '2', 1, ",'options':{},'standing':1" },
		{ '3', 2, ",'options':{}" },
		{ '4', 0, ",'options':{}" },
		{ '4', 1, ",'options':{}" },
		{ '5', 1, ",'options':{}" },
		{ '6', 1, ",'options':{'kernel':true}" },
		{ '3', 1, ",'options':{'sink':'tmc_etr0','filter':'x'}" },
		{ '1', 0, ",'options':{'sink':'none'}" },
	};
	static const uint8_t hows[] = { 0, NO_UNITS, DENIED, LIMITED, PRIVATE, ENDS };

	for (size_t i = 0; i < ELEMENTS(hows); i++) {
		seed_file(hows[i], "$B", targets, ELEMENTS(targets), "");
		for (size_t k = 0; k < ELEMENTS(targets); k++)
			seed_file(hows[i], "$B", &targets[k], 1, "");
	}
}

static void seed_standing(void)
{
	static const char *const rules[] = {
		"{'id':1,'requester':0,'rule':{'name':'ngin*','exe':'/bin/x','unit':'a.service','cgroup':'/"
		"a','user':1},"
		"'options':{'mode':'ring','filter':'f','sink':'s'}}",
		"{'id':2,'requester':1,'loginUid':1,'rule':{'tree':$2},'start':$b,'options':{}}",
		"{'id':2,'requester':1,'rule':{'name':'x'},'options':{}},{'id':2,'requester':1,'rule':{'name':'y'},"
		"'options':{}},{'id':3,'requester':1,'rule':{'name':'x'},'options':{}}",
		"{'id':3,'requester':1,'rule':{'tree':$1},'start':$a,'options':{}}",
		"{'id':4,'requester':0,'rule':{'tree':$5},'start':$e,'options':{}}",
		"{'id':4,'requester':0,'rule':{'tree':$2},'start':7,'options':{}}",
		"{'id':5,'requester':0,'rule':{'tree':$1},'options':{}}",
		"{'id':6,'requester':1,'rule':{'user':0},'options':{}}",
		"{'id':7,'requester':2,'rule':{'name':'y'},'options':{'kernel':true}}",
		"{'id':7,'requester':1,'rule':{'name':'y'},'options':{'kernel':true}}",
		"{'id':0,'requester':1,'rule':{'name':'y'},'options':{}}",
		"{'id':4294967294,'requester':1,'rule':{'name':'y'},'options':{}}",
		"{'id':1,'requester':4294967295,'rule':{'name':'y'},'options':{}}",
		"{'id':1,'requester':1,'loginUid':-7,'rule':{'name':'y'},'options':{}}",
		"{'id':1,'requester':1,'rule':{'exe':'relative'},'options':{}}",
		"{'id':1,'requester':1,'rule':{'cgroup':'//'},'options':{}}",
		"{'id':1,'requester':1,'rule':{'unit':'nginx'},'options':{}}",
		"{'id':1,'requester':1,'rule':{},'options':{}}",
		"{'id':1,'requester':1,'rule':{'exe':7},'options':{}}",
		"{'id':1,'requester':1,'rule':{'user':-7},'options':{}}",
		"{'id':1,'requester':1,'rule':{'tree':-7},'options':{}}",
		"{'id':1,'requester':1,'rule':{'name':'y'},'options':{'ringSize':3}},7,{}",
	};
	static const struct stored targets[] = { { '2', 1, ",'standing':2" }, { '1', 0, ",'standing':2" } };

	for (size_t i = 0; i < ELEMENTS(rules); i++)
		seed_file(0, "$B", targets, ELEMENTS(targets), rules[i]);
	seed_file(LIMITED, "$B", targets, ELEMENTS(targets), rules[2]);
	seed_file(DENIED, "$B", targets, ELEMENTS(targets), rules[1]);
	/* Of another boot. */
	seed_file(0, "other", targets, ELEMENTS(targets), rules[0]);
	seed_file(0, "other", targets, ELEMENTS(targets), rules[1]);
}

void fuzz_seeds(void)
{
	static const struct stored one = { '2', 1, "" };
	static const char *const texts[] = {
		"",
		"{'version':1,'bo",
		"{'version':2,'boot':'$B','targets':[]}",
		"{'version':'1'}",
		"[]",
		"{'version':1,'boot':'$B','targets':{}}",
		"{'version':1,'boot':'$B','targets':[],'paused':7}",
		"{'version':1,'boot':'$B','targets':[],'standing':7}",
		"{'version':1,'boot':'$B','targets':[],'paused':true}",
		"{'version':1,'boot':'other','targets':[],'paused':true}",
	};

	for (size_t i = 0; i < ELEMENTS(texts); i++)
		seed(0, 0, texts[i]);
	for (uint8_t kind = 0; kind < FILE_KINDS; kind++)
		seed(0, kind, texts[ELEMENTS(texts) - 1]);
	for (unsigned bit = 0; bit < 256; bit = bit ? bit * 2 : 1)
		seed_file((uint8_t)bit, "$B", &one, 1, "");
	seed(0, UNWRITABLE, texts[ELEMENTS(texts) - 2]);
	seed(PAUSES, UNWRITABLE | FORGETS, texts[ELEMENTS(texts) - 2]);
	seed_invalid();
	seed_triggers();
	seed_units();
	seed_standing();
}
