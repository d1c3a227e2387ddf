/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/client.h"
#include "client/ending.h"
#include "client/selftest-recording.h"
#include "lib/base/io.h"
#include "lib/base/json.h"
#include "lib/base/path.h"

enum { ARGUMENTS = 16, TEXT_MAX = 1 << 20, ERROR_MAX = 4096 };

static int put_path(const struct selftest_recording *rec, const char *file, char *ret)
{
	int n = snprintf(ret, PATH_MAX, "%s/%s%s%s", rec->root, rec->name, *file ? "/" : "", file);

	return n < 0 || n >= PATH_MAX ? -ENAMETOOLONG : 0;
}

int selftest_recording_program(char *ret, size_t size, struct reason *r)
{
	int rc = path_helper("csight-known", PKGLIBEXECDIR, ret, size);

	return rc < 0 ? reason_set(r, rc, "the program csight-known is neither beside csight nor in " PKGLIBEXECDIR)
		      : 0;
}

/* Sets the reason to the last line that a failed csight printed on standard error. Returns -EIO. */
static int fail_child(const struct selftest_recording *rec, const char *what, struct reason *r)
{
	char path[PATH_MAX];
	_cleanup_free_ char *text = NULL;
	const char *line;
	size_t size;

	if (put_path(rec, "error", path) < 0 || io_read_file(AT_FDCWD, path, ERROR_MAX, &text, &size) < 0)
		size = 0;
	while (size && text[size - 1] == '\n')
		text[--size] = 0;
	if (!size)
		return reason_set(r, -EIO, "csight %s failed", what);
	line = strrchr(text, '\n');
	line = line ? line + 1 : text;
	return reason_set(r, -EIO, "%s", strncmp(line, "csight: ", 8) == 0 ? line + 8 : line);
}

static void become_csight(const struct selftest_recording *rec, const char *const *argv, const char *output)
{
	char out[PATH_MAX], error[PATH_MAX];
	int fds[2];

	if (put_path(rec, output, out) < 0 || put_path(rec, "error", error) < 0)
		_exit(127);
	fds[0] = open(out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	fds[1] = open(error, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fds[0] < 0 || fds[1] < 0 || dup2(fds[0], STDOUT_FILENO) < 0 || dup2(fds[1], STDERR_FILENO) < 0)
		_exit(127);
	execv("/proc/self/exe", (char *const *)argv);
	_exit(127);
}

static void end_child(void *argument)
{
	const pid_t *pid = argument;

	kill(*pid, SIGTERM);
	waitpid(*pid, NULL, 0);
}

/* Runs this csight with its standard output in a file of the recording. */
static int run_csight(const struct selftest_recording *rec, const char *const *argv, const char *output,
		      struct reason *r)
{
	int status, rc;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0)
		become_csight(rec, argv, output);
	if (pid > 0)
		ending_add(end_child, &pid);
	do
		rc = pid < 0 || waitpid(pid, &status, 0) < 0 ? -errno : 0;
	while (rc == -EINTR);
	ending_drop(&pid);
	if (rc < 0)
		return reason_set(r, rc, "cannot start csight %s: %s", argv[1], strerror(-rc));
	if (WIFEXITED(status) && WEXITSTATUS(status) == STATUS_OK)
		return 0;
	rc = fail_child(rec, argv[1], r);
	return WIFEXITED(status) && WEXITSTATUS(status) == STATUS_DENIED ? -EPERM : rc;
}

static int write_times(const struct selftest_recording *rec, uint64_t before, uint64_t after)
{
	_cleanup_json_ json_object *o = json_object_new_object();
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];

	json_add_u64(o, "before", before);
	json_add_u64(o, "after", after);
	text = json_text(o, JSON_PLAIN);
	if (!text || put_path(rec, "recording.json", path) < 0)
		return -ENOMEM;
	return io_write_file(AT_FDCWD, path, text, strlen(text), 0600);
}

int selftest_recording_make(const struct selftest_recording *rec, const char *program, struct reason *r)
{
	const char *argv[ARGUMENTS] = { "csight", "run", "--snapshot", "--json", NULL };
	uint64_t before = now_ns(CLOCK_MONOTONIC);
	char dir[PATH_MAX], truth[PATH_MAX];
	size_t n = 4;
	int rc;

	if (put_path(rec, "", dir) < 0 || put_path(rec, "truth", truth) < 0)
		return reason_set(r, -ENAMETOOLONG, "the path of the recordings is too long");
	if (mkdir(dir, 0700) < 0 || mkdir(truth, 0700) < 0) {
		rc = -errno;
		return reason_set(r, rc, "cannot make the directory %s: %s", dir, strerror(-rc));
	}
	if (rec->socket) {
		argv[n++] = "--socket";
		argv[n++] = rec->socket;
	}
	if (rec->emulated) {
		argv[n++] = "--emu";
		argv[n++] = "--truth";
		argv[n++] = truth;
	}
	if (rec->option)
		argv[n++] = rec->option;
	argv[n++] = "--";
	argv[n++] = program;
	rc = run_csight(rec, argv, "out", r);
	if (rc == 0)
		rc = write_times(rec, before, now_ns(CLOCK_MONOTONIC));
	return rc < 0 && !r->text[0] ? reason_set(r, rc, "cannot write to %s: %s", dir, strerror(-rc)) : rc;
}

static int read_json(const struct selftest_recording *rec, const char *file, json_object **ret)
{
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];
	const char *begin;
	size_t size;
	int rc = put_path(rec, file, path);

	if (rc == 0)
		rc = io_read_file(AT_FDCWD, path, TEXT_MAX, &text, &size);
	if (rc < 0)
		return rc;
	/* The line that the program printed precedes the JSON. */
	begin = strchr(text, '{');
	return begin ? json_parse(begin, size - (size_t)(begin - text), ret) : -EBADMSG;
}

/*
 * Decodes the snapshot of a recording: of a bundle that csightd's snapshot is exported as, by its ID; or from the spool
 * in the recordings if they are compared again.
 */
static int decode(const struct selftest_recording *rec, json_object *snapshot, struct reason *r)
{
	const char *export[ARGUMENTS] = { "csight", "export", "--quiet", "--to", "bundle" };
	const char *argv[ARGUMENTS] = { "csight", "decode", "--by-thread", "--to", "elements", NULL };
	bool again = rec->emulated && !rec->socket;
	char path[PATH_MAX];
	const char *id;
	size_t n = 5;
	int rc = 0;

	if (json_get_str(snapshot, "id", &id) < 0 || strchr(id, '/') ||
	    snprintf(path, sizeof(path), again ? "%s/state/csight/%s" : "%s/%s/bundle", rec->root,
		     again ? id : rec->name) >= (int)sizeof(path))
		return reason_set(r, -EBADMSG, "the snapshot has no valid ID");
	if (rec->socket) {
		export[n++] = "--socket";
		export[n++] = rec->socket;
	}
	export[n] = id;
	argv[5] = path;
	if (!again)
		rc = run_csight(rec, export, "bundle", r);
	return rc < 0 ? rc : run_csight(rec, argv, "elements", r);
}

static int read_logs(const struct selftest_recording *rec, struct selftest_log *truth, struct selftest_log *decoded,
		     bool stepped)
{
	char path[PATH_MAX];
	_cleanup_fclose_ FILE *f = NULL;
	int rc = put_path(rec, "out", path);

	if (rc == 0)
		rc = selftest_log_read_addresses(decoded, path);
	/* The emulator's log has the addresses of the decode, and all instructions of the program: nothing is cut. */
	if (!stepped)
		decoded->start = decoded->stop = 0;
	if (rc == 0 && !stepped)
		rc = put_path(rec, "truth", path);
	if (rc == 0 && !stepped)
		rc = selftest_log_read_truth(truth, path);
	if (rc == 0)
		rc = put_path(rec, "elements", path);
	if (rc < 0)
		return rc;
	f = fopen(path, "re");
	return f ? selftest_log_read_decode(decoded, f) : -errno;
}

int selftest_recording_compare(struct selftest_recording *rec, const struct selftest_log *steps, struct reason *r)
{
	_cleanup_selftest_log_ struct selftest_log truth = { 0 }, decoded = { 0 };
	_cleanup_json_ json_object *times = NULL, *run = NULL;
	json_object *snapshot, *part;
	uint64_t before, after;
	int rc = read_json(rec, "recording.json", &times);

	if (rc == 0)
		rc = read_json(rec, "out", &run);
	if (rc == 0)
		rc = json_get(run, "snapshot", json_type_object, &snapshot);
	if (rc < 0 || json_get_u64(times, "before", &before) < 0 || json_get_u64(times, "after", &after) < 0)
		return reason_set(r, rc < 0 ? rc : -EBADMSG, "cannot read the recording %s", rec->name);
	rec->elapsed = after - before;
	json_get_u64(snapshot, "blind", &rec->blind);
	if (json_get(snapshot, "decode", json_type_object, &part) == 0)
		json_get_u64(part, "bytes", &rec->bytes);
	rc = decode(rec, snapshot, r);
	if (rc < 0)
		return rc;
	/* The time of the emulated trace unit is that of the machine. That of others has a unit of its own. */
	if (rec->emulated) {
		decoded.earliest = before;
		decoded.latest = after;
	}
	rc = read_logs(rec, &truth, &decoded, steps);
	if (rc < 0)
		return reason_set(r, rc, "cannot read what was executed and decoded: %s", strerror(-rc));
	selftest_log_compare(steps ? steps : &truth, &decoded, !steps, &rec->found);
	return 0;
}

void selftest_recording_remove(void *root)
{
	pid_t pid = fork();

	if (pid == 0) {
		execlp("rm", "rm", "-rf", "--", (const char *)root, (char *)NULL);
		_exit(127);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}
