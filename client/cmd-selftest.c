/* SPDX-License-Identifier: MIT */
/*
 * csight selftest: records a known program with each trace unit and mode that this machine has, and compares the decode
 * with the truth: single steps, or the log of the emulator.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "client/client.h"
#include "client/ending.h"
#include "client/private-daemon.h"
#include "client/selftest-recording.h"
#include "client/text-table.h"
#include "lib/base/escape.h"
#include "lib/base/io.h"

enum { OPTION_OUTPUT, OPTION_EMU, OPTION_KEEP, OPTION_CHECK };

static const struct verb_option options[] = {
	[OPTION_OUTPUT] = { "output", 'o', "FILE", "also write the report to FILE, as JSON" },
	[OPTION_EMU] = { "emu", 0, NULL, "only the emulated trace unit" },
	[OPTION_KEEP] = { "keep", 0, "DIR", "keep the recordings in DIR, which must not exist" },
	[OPTION_CHECK] = { "check", 0, "DIR", "compare the emulated recordings in DIR again; record nothing" },
	{ 0 },
};

enum row_result { ROW_PASSED, ROW_LOST, ROW_FAILED, ROW_NOT_RUN };

struct row {
	const char *unit, *mode;
	enum row_result result;
	struct reason why;
	struct selftest_recording rec;
};

static const struct selftest_mode {
	const char *name, *mode, *option;
	bool emulated;
} modes[] = {
	{ "emulated", "default", NULL, true },
	{ "emulated-addresses", "no return stack", "--retstack=off", true },
	{ "emulated-broadcast", "branch broadcast", "--branch-broadcast", true },
	{ "emulated-cycles", "cycle counts", "--cycles", true },
	{ "emulated-timeless", "no timestamps", "--no-timestamps", true },
	{ "units", "default", NULL, false },
	{ "units-cycles", "cycle counts", "--cycles", false },
	{ "units-timeless", "no timestamps", "--no-timestamps", false },
};

struct selftest {
	const char *output, *keep, *check;
	bool emulated_only;
	char root[PATH_MAX], program[PATH_MAX];
	struct selftest_log steps;
	struct row rows[ELEMENTS(modes)];
	size_t n;
};

static const char *result_str(enum row_result r)
{
	static const char *const names[] = { "passed", "lost", "failed", "not run" };

	return names[r];
}

/* Trace units may lose trace if they mark it; the emulated one loses none. */
static void judge(struct row *row)
{
	const struct selftest_result *f = &row->rec.found;

	if (f->different || f->unmarked || f->wrong_times || f->wrong_contexts) {
		row->result = ROW_FAILED;
		reason_set(&row->why, 0,
			   "%llu instructions differ, %llu are missing without a gap, %llu timestamps and %llu "
			   "context IDs are wrong",
			   (unsigned long long)f->different, (unsigned long long)f->unmarked,
			   (unsigned long long)f->wrong_times, (unsigned long long)f->wrong_contexts);
	} else if (!f->compared) {
		row->result = ROW_FAILED;
		reason_set(&row->why, 0, "nothing of the known program was recorded");
	} else if (f->missing || f->gaps) {
		row->result = row->rec.emulated ? ROW_FAILED : ROW_LOST;
		reason_set(&row->why, 0, "%llu instructions are missing; the trace has %llu gaps",
			   (unsigned long long)f->missing, (unsigned long long)f->gaps);
	} else {
		row->result = ROW_PASSED;
	}
}

/* Judges a recording by its comparison with the truth. made: 0, or the error of making it. */
static void judge_recording(struct selftest *s, struct row *row, int made)
{
	if (made < 0) {
		row->result = ROW_NOT_RUN;
		return;
	}
	made = selftest_recording_compare(&row->rec, row->rec.emulated ? NULL : &s->steps, &row->why);
	if (made < 0)
		row->result = made == -EPERM ? ROW_NOT_RUN : ROW_FAILED;
	else
		judge(row);
}

/* Makes the truth for trace units, by single steps. Only an aarch64 machine can execute the program itself. */
static int make_steps(struct selftest *s, struct reason *r)
{
#ifdef __aarch64__
	char path[PATH_MAX + 8];
	int rc;

	snprintf(path, sizeof(path), "%s/steps", s->root);
	rc = selftest_log_step(&s->steps, s->program, path);
	return rc < 0 ? reason_set(r, rc, "cannot single-step the known program: %s", strerror(-rc)) : 0;
#else
	(void)s;
	return reason_set(r, -EOPNOTSUPP, "this machine is no aarch64: it has no such trace units");
#endif
}

static void run_rows(struct client *c, struct selftest *s, bool emulated, const char *socket, int failed,
		     const struct reason *why)
{
	for (size_t i = 0; i < ELEMENTS(modes); i++) {
		struct row *row = &s->rows[s->n];
		int rc = failed;

		if (modes[i].emulated != emulated)
			continue;
		*row = (struct row){
			.unit = emulated ? "emulated" : "trace units",
			.mode = modes[i].mode,
			.why = *why,
			.rec = { s->root, modes[i].name, socket, modes[i].option, emulated, 0, 0, 0, { 0 } },
		};
		client_progress(c, row->unit, i, ELEMENTS(modes));
		if (rc == 0 && !s->check)
			rc = selftest_recording_make(&row->rec, s->program, &row->why);
		judge_recording(s, row, rc);
		s->n++;
	}
	client_progress_end(c);
}

/*
 * Makes the recordings under the emulator, with a daemon of its own, whose spool is in the directory of the recordings.
 */
static void run_emulated(struct client *c, struct selftest *s, int failed, struct reason *why)
{
	char state[PATH_MAX + 8];
	struct private_daemon d = { 0 };

	if (s->check || failed < 0) {
		run_rows(c, s, true, NULL, failed, why);
		return;
	}
	snprintf(state, sizeof(state), "%s/state", s->root);
	setenv("XDG_STATE_HOME", state, 1);
	if (mkdir(state, 0700) < 0 || private_daemon_start(&d) < 0)
		failed = reason_set(why, -EIO, "no csightd could be started for it");
	run_rows(c, s, true, d.socket, failed, why);
	private_daemon_end(&d);
}

static json_object *report(const struct selftest *s)
{
	json_object *o = json_object_new_object(), *rows = json_object_new_array();

	json_add_str(o, "version", PACKAGE_VERSION);
	for (size_t i = 0; i < s->n; i++) {
		const struct row *row = &s->rows[i];
		const struct selftest_result *f = &row->rec.found;
		json_object *r = json_object_new_object();

		json_add_str(r, "unit", row->unit);
		json_add_str(r, "mode", row->mode);
		json_add_str(r, "result", result_str(row->result));
		if (row->why.text[0])
			json_add_bytes(r, "reason", row->why.text);
		if (f->executed) {
			json_add_u64(r, "instructions", f->executed);
			json_add_u64(r, "equal", f->compared);
			json_add_u64(r, "different", f->different);
			json_add_u64(r, "missing", f->missing);
			json_add_u64(r, "unmarked", f->unmarked);
			json_add_u64(r, "gaps", f->gaps);
			json_add_u64(r, "wrongTimestamps", f->wrong_times);
			json_add_u64(r, "wrongContexts", f->wrong_contexts);
			json_add_u64(r, "bytes", row->rec.bytes);
			json_add_u64(r, "blind", row->rec.blind);
			json_add_u64(r, "elapsed", row->rec.elapsed);
		}
		json_array_add(rows, r);
	}
	json_add(o, "rows", rows);
	return o;
}

static void print_table(const struct selftest *s)
{
	static const char *const head[] = {
		"UNIT", "MODE", "RESULT", "EQUAL>", "MISSING>", "GAPS>", "BYTES>", "TIME>"
	};
	struct text_table *t = text_table_new(head, ELEMENTS(head));

	for (size_t i = 0; i < s->n; i++) {
		const struct row *row = &s->rows[i];
		const struct selftest_result *f = &row->rec.found;
		enum format_style style = row->result == ROW_PASSED   ? STYLE_GOOD
					  : row->result == ROW_FAILED ? STYLE_BAD
								      : STYLE_PLAIN;
		bool has = f->executed;

		text_table_add(t, STYLE_PLAIN, row->unit);
		text_table_add(t, STYLE_PLAIN, row->mode);
		text_table_add(t, style, result_str(row->result));
		text_table_add(t, STYLE_PLAIN, has ? format_count(f->compared) : NULL);
		text_table_add(t, STYLE_PLAIN, has ? format_count(f->missing + f->unmarked) : NULL);
		text_table_add(t, STYLE_PLAIN, has ? format_count(f->gaps) : NULL);
		text_table_add(t, STYLE_PLAIN, has ? format_count(row->rec.bytes) : NULL);
		text_table_add(t, STYLE_PLAIN, has ? format_duration(row->rec.elapsed) : NULL);
	}
	text_table_print(t, stdout);
	text_table_free(t);
	for (size_t i = 0; i < s->n; i++)
		if (s->rows[i].why.text[0])
			printf("%s, %s: %s\n", s->rows[i].unit, s->rows[i].mode, esc(s->rows[i].why.text));
}

static int print_report(struct client *c, const struct selftest *s)
{
	_cleanup_json_ json_object *o = report(s);
	bool failed = false, passed = false;
	int rc = 0;

	if (c->json)
		client_print_json(o);
	else
		print_table(s);
	if (s->output) {
		_cleanup_free_ char *text = json_text(o, JSON_PRETTY);

		rc = text ? io_write_file(AT_FDCWD, s->output, text, strlen(text), 0644) : -ENOMEM;
	}
	if (rc < 0) {
		client_error("cannot write %s: %s%s", esc(s->output), strerror(-rc), client_write_advice(-rc));
		return STATUS_FAILED;
	}
	for (size_t i = 0; i < s->n; i++) {
		failed |= s->rows[i].result == ROW_FAILED;
		passed |= s->rows[i].result != ROW_NOT_RUN;
	}
	return failed ? STATUS_DIFFERS : passed ? STATUS_OK : STATUS_FAILED;
}

static int make_root(struct selftest *s)
{
	const char *tmp = getenv("TMPDIR");
	const char *given = s->check ? s->check : s->keep;
	int rc = 0;

	if (s->keep && mkdir(s->keep, 0700) < 0)
		rc = -errno;
	if (rc == 0 && given && !realpath(given, s->root))
		rc = -errno;
	if (!given) {
		snprintf(s->root, sizeof(s->root), "%s/csight-selftest-XXXXXX", tmp && *tmp ? tmp : "/tmp");
		rc = mkdtemp(s->root) ? 0 : -errno;
		if (rc == 0)
			ending_add(selftest_recording_remove, s->root);
	}
	if (rc < 0)
		client_error("cannot use %s for recordings: %s", esc(given ? given : s->root), strerror(-rc));
	return rc < 0 ? STATUS_FAILED : STATUS_OK;
}

static int selftest_run(struct client *c)
{
	struct reason why = { "" }, no_steps = { "" };
	struct selftest s = { .n = 0 };
	const char *value;
	int o, rc;

	while ((o = client_option(c, &value)) >= 0)
		if (o == OPTION_EMU)
			s.emulated_only = true;
		else
			*(o == OPTION_OUTPUT ? &s.output : o == OPTION_KEEP ? &s.keep : &s.check) = value;
	if (o == CLIENT_STOP)
		return c->status;
	if (c->argc)
		return client_usage(c, "unexpected argument '%s'", esc(c->argv[0]));
	if (s.keep && s.check)
		return client_usage(c, "--keep and --check exclude each other");
	rc = make_root(&s);
	if (rc != STATUS_OK)
		return rc;
	rc = s.check ? 0 : selftest_recording_program(s.program, sizeof(s.program), &why);
	if (!s.emulated_only && !s.check) {
		int stepped = rc < 0 ? reason_set(&no_steps, rc, "%s", why.text) : make_steps(&s, &no_steps);

		run_rows(c, &s, false, c->socket, stepped, &no_steps);
	}
	run_emulated(c, &s, rc, &why);
	rc = print_report(c, &s);
	selftest_log_done(&s.steps);
	if (!s.keep && !s.check)
		selftest_recording_remove(s.root);
	ending_drop(s.root);
	return rc;
}

const struct verb cmd_selftest = {
	.name = "selftest",
	.arguments = "",
	.summary = "record a known program, and compare its decode with what it executed",
	.flags = VERB_SOCKET | VERB_JSON,
	.options = options,
	.run = selftest_run,
};
