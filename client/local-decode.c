/* SPDX-License-Identifier: MIT */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/local-decode.h"
#include "client/served-files.h"
#include "lib/base/buf.h"
#include "lib/base/escape.h"
#include "lib/base/io.h"
#include "lib/export/decode-formats.h"
#include "lib/perfdata/format.h"
#include "lib/store/format.h"

enum { SNAPSHOT_JSON_MAX = 64 << 20, JSON_PIECE = 64 << 10, JOB = 1 };

void local_decode_done(struct local_decode *o)
{
	finder_done(&o->finder);
	closep(&o->finder.dir);
	closep(&o->input);
	closep(&o->code);
	closep(&o->jitdump);
	for (size_t i = 0; i < o->n_files; i++)
		if (o->files[i].fd != STDOUT_FILENO)
			closep(&o->files[i].fd);
	closep(&o->job);
	/* Closing its socket ends the server and the child of the job. */
	closep(&o->server);
	if (o->pid > 0)
		while (waitpid(o->pid, NULL, 0) < 0 && errno == EINTR)
			;
	json_object_put(o->finder.snapshot);
	json_object_put(o->finder.bundle);
	bundle_remove(o->unpacked);
	json_object_put(o->options);
	json_object_put(o->result);
}

static int report_failure(const char *what, const char *name, int rc)
{
	client_error("cannot %s %s: %s", what, esc(name), strerror(-rc));
	return STATUS_FAILED;
}

static int read_snapshot(struct local_decode *d, const char *name, const char *text, size_t size)
{
	int rc = json_parse(text, size, &d->finder.snapshot);

	if (rc < 0 || !json_object_is_type(d->finder.snapshot, json_type_object))
		return report_failure("read snapshot.json of", name, rc < 0 ? rc : -EBADMSG);
	return STATUS_OK;
}

int local_decode_open_snapshot(struct local_decode *d, const char *id, int trace, int json)
{
	_cleanup_close_ int description = json;
	_cleanup_buf_ struct buf text = { .limit = SNAPSHOT_JSON_MAX };
	ssize_t n;

	d->name = id;
	d->type = "perf.data";
	d->input = trace;
	do {
		char *to = (char *)buf_reserve(&text, JSON_PIECE);

		n = to ? io_read(description, to, JSON_PIECE) : -ENOMEM;
		if (n > 0)
			buf_grew(&text, (size_t)n);
	} while (n > 0);
	return n < 0 ? report_failure("read snapshot.json of", id, (int)n)
		     : read_snapshot(d, id, (char *)text.data, text.size);
}

static int open_snapshot_directory(struct local_decode *d, const char *name)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	int rc = io_read_file(d->finder.dir, "snapshot.json", SNAPSHOT_JSON_MAX, &text, &size);

	if (rc == -ENOENT) {
		client_error("%s is not a snapshot directory: it has neither snapshot.json nor snapshot.ini",
			     esc(name));
		return STATUS_FAILED;
	}
	if (rc < 0)
		return report_failure("read snapshot.json of", name, rc);
	rc = read_snapshot(d, name, text, size);
	if (rc != STATUS_OK)
		return rc;
	d->input = openat(d->finder.dir, "trace.perf.data", O_RDONLY | O_CLOEXEC);
	if (d->input < 0)
		return report_failure("open trace.perf.data of", name, -errno);
	d->code = openat(d->finder.dir, "code/bytes", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (d->code < 0 && errno != ENOENT)
		return report_failure("open code/bytes of", name, -errno);
	d->jitdump = openat(d->finder.dir, "code/jitdump", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (d->jitdump < 0 && errno != ENOENT)
		return report_failure("open code/jitdump of", name, -errno);
	return STATUS_OK;
}

/* Opens a snapshot directory of csightd (snapshot.json) or an Arm snapshot (snapshot.ini). */
static int open_directory(struct local_decode *d, const char *name)
{
	int rc = io_open_beneath(d->finder.dir, "snapshot.ini", &d->input);

	if (rc == -ENOENT)
		return open_snapshot_directory(d, name);
	if (rc < 0)
		return report_failure("open snapshot.ini of", name, rc);
	d->type = "snapshot";
	return STATUS_OK;
}

/* Opens the directory of the register file. The decoder requests this file, and those that it names, below it. */
static int open_regs(struct local_decode *d)
{
	_cleanup_free_ char *dir = strdup(d->regs);
	char *slash = dir ? strrchr(dir, '/') : NULL;

	if (!dir)
		return report_failure("open", d->regs, -ENOMEM);
	if (slash)
		slash[slash == dir] = 0;
	d->finder.dir = open(slash ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (d->finder.dir < 0)
		return report_failure("open", slash ? dir : ".", -errno);
	json_add_str(d->options, "regs", slash ? strrchr(d->regs, '/') + 1 : d->regs);
	d->type = "bytes";
	return STATUS_OK;
}

/* True if all requested formats are made from calls, so that a store can be the input. */
static bool outputs_are_of_calls(const struct local_decode *d)
{
	bool all = d->output_files.n > 0;

	for (size_t i = 0; i < d->output_files.n; i++) {
		const struct decode_format *format = decode_format_find(d->output_files.files[i].format);

		all = all && format && format->basis == DECODE_FORMAT_FROM_CALLS;
	}
	return all;
}

/* Determines the type of an input file, and refuses files that are not a trace with advice on what to do. */
static int check_file_type(struct local_decode *d, const char *name)
{
	uint64_t magic = 0;

	/* The decoder reports files that are too short. */
	if (pread(d->input, &magic, sizeof(magic), 0) != sizeof(magic))
		return STATUS_OK;
	magic = le64toh(magic);
	if (magic == STORE_MAGIC && outputs_are_of_calls(d)) {
		d->type = "store";
		return STATUS_OK;
	}
	if (magic == STORE_MAGIC)
		client_error(
		    "%s is a store, which has no instructions: name the snapshot, its directory or its perf.data file "
		    "(csight show, report, grep, diff, open, and export of calls read stores)",
		    esc(name));
	else if (magic != PD_MAGIC && magic != __builtin_bswap64(PD_MAGIC))
		client_error("%s is neither a perf.data file nor a snapshot directory; bare trace requires --regs FILE",
			     esc(name));
	else
		return STATUS_OK;
	return STATUS_FAILED;
}

void local_decode_set_options(struct local_decode *d, const struct trace_options *o)
{
	if (!d->options)
		d->options = json_object_new_object();
	json_add_str(d->options, "buffer", o->buffer);
	d->regs = o->regs;
	memcpy(d->finder.dirs, o->dirs, sizeof(o->dirs));
	d->finder.n_dirs = o->n_dirs;
}

static int open_trace(struct local_decode *d, const char *name)
{
	d->input = openat(d->finder.dir, "trace.perf.data", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return d->input < 0 ? report_failure("open trace.perf.data of", name, -errno) : STATUS_OK;
}

/* Unpacks a bundle, and opens it as the snapshot directory that it is made of, or its perf.data file. */
static int open_bundle(struct local_decode *d, const char *name)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	int rc = bundle_unpack(d->input, &d->unpacked);

	if (rc < 0)
		return report_failure("unpack the bundle", name, rc);
	closep(&d->input);
	d->finder.dir = open(d->unpacked, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	rc = d->finder.dir < 0 ? -errno : io_read_file(d->finder.dir, BUNDLE_INDEX, SNAPSHOT_JSON_MAX, &text, &size);
	if (rc == 0)
		rc = json_parse(text, size, &d->finder.bundle);
	if (rc == 0 && !json_object_is_type(d->finder.bundle, json_type_object))
		rc = -EBADMSG;
	if (rc < 0)
		return report_failure("read the index of the bundle", name, rc);
	return faccessat(d->finder.dir, "snapshot.json", F_OK, 0) == 0 ? open_snapshot_directory(d, name)
								       : open_trace(d, name);
}

int local_decode_open_input(struct local_decode *d, const char *name)
{
	bool is_stdin = strcmp(name, "-") == 0;
	struct stat st;

	d->name = name;
	d->type = "perf.data";
	d->input = is_stdin ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : open(name, O_RDONLY | O_CLOEXEC);
	if (is_stdin)
		d->name = "standard input";
	if (d->input < 0 || fstat(d->input, &st) < 0)
		return report_failure("open", d->name, -errno);
	if (is_stdin && !d->regs && !S_ISREG(st.st_mode)) {
		client_error("standard input is decoded in order only as bare trace, which requires --regs FILE");
		return STATUS_FAILED;
	}
	if (S_ISREG(st.st_mode) && !d->regs && bundle_is(d->input))
		return open_bundle(d, d->name);
	if (!S_ISDIR(st.st_mode))
		return d->regs ? open_regs(d) : check_file_type(d, d->name);
	if (d->regs) {
		client_error("--regs requires a file of bare trace, but %s is a directory", esc(name));
		return STATUS_FAILED;
	}
	d->finder.dir = d->input;
	d->input = -1;
	return open_directory(d, name);
}

static int create_output(const char *path, struct local_decode_file *ret)
{
	/* Readable too, since a store is not written sequentially and is read back. */
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

	if (fd < 0 && errno != ENOENT)
		fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0) {
		client_error("cannot write %s: %s%s", esc(path), strerror(errno), client_write_advice(errno));
		return STATUS_FAILED;
	}
	*ret = (struct local_decode_file){ fd, true };
	return STATUS_OK;
}

/* An incomplete file must not be mistaken for a complete one. */
static void remove_outputs(struct local_decode *d)
{
	struct stat st;

	for (size_t i = 0; i < d->n_files; i++)
		if (d->files[i].made && fstat(d->files[i].fd, &st) == 0 && S_ISREG(st.st_mode))
			unlink(d->output_files.files[i].path);
}

/* True if path is the input: opening it for output would truncate it. */
static bool is_input(const struct local_decode *d, const char *path)
{
	struct stat a, b;

	return stat(path, &a) == 0 && S_ISREG(a.st_mode) && fstat(d->input, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

int local_decode_open_outputs(struct local_decode *d)
{
	int rc = STATUS_OK;

	for (size_t i = 0; i < d->output_files.n && rc == STATUS_OK; i++) {
		const struct output_file *a = &d->output_files.files[i];
		const char *path = !a->path && strcmp(a->format, "none") == 0 ? "/dev/null" : a->path;

		d->files[i] = (struct local_decode_file){ STDOUT_FILENO };
		if (path && is_input(d, path)) {
			client_error("%s is the input: name another output file", esc(path));
			rc = STATUS_FAILED;
		} else if (path) {
			rc = create_output(path, &d->files[i]);
		}
		d->n_files += rc == STATUS_OK;
	}
	if (rc != STATUS_OK)
		remove_outputs(d);
	return rc;
}

static int start_job(struct local_decode *d)
{
	const char *formats[DECODER_OUTPUTS_MAX];
	int fds[DECODER_OUTPUTS_MAX];
	struct decoder_start s = {
		.input = d->type,
		.input_fd = d->input,
		.code_fd = d->code,
		.jitdump_fd = d->jitdump,
		.outputs = formats,
		.output_fds = fds,
		.n_outputs = d->n_files,
		.options = d->options,
		.snapshot = d->finder.snapshot,
	};
	uid_t uid;
	gid_t gid;
	int rc;

	for (size_t i = 0; i < d->n_files; i++) {
		formats[i] = d->output_files.files[i].format;
		fds[i] = d->files[i].fd;
	}
	rc = decoder_user("", &uid, &gid);
	if (rc == 0)
		rc = decoder_spawn(NULL, uid, gid, &d->pid, &d->server);
	if (rc == 0)
		rc = decoder_submit(d->server, JOB, &d->job);
	if (rc == 0)
		rc = decoder_start(d->job, &s);
	return rc < 0 ? report_failure("start", "csight-decode", rc) : STATUS_OK;
}

static int report_crash(struct local_decode *d)
{
	char how[128] = "ended without a result, and so did its server";
	int status = 0;
	uint64_t job;

	if (decoder_receive_end(d->server, 0, &job, &status) == 0)
		decoder_death(status, how, sizeof(how));
	client_error("the decoder crashed: %s", how);
	return STATUS_FAILED;
}

static bool prints_to_stdout(const struct local_decode *d)
{
	for (size_t i = 0; i < d->n_files; i++)
		if (d->files[i].fd == STDOUT_FILENO)
			return true;
	return false;
}

/* Handles a message of the decoder. Returns 0 or an exit status; sets *ret_done after the last message. */
static int handle_event(struct local_decode *d, const struct decoder_event *e, bool *ret_done)
{
	struct pollfd gone = { STDOUT_FILENO, 0, 0 };
	char reason[256] = "";
	int fd, rc;

	switch (e->type) {
	case DECODER_IMAGE:
		fd = finder_open(&d->finder, e, reason, sizeof(reason));
		if (d->served)
			served_files_add(d->served, &d->finder, e, fd);
		if (d->bundled)
			bundle_keep(d->bundled, e, fd);
		rc = decoder_reply_image(d->job, e->index, fd, reason);
		closep(&fd);
		/* If the decoder has ended, the next decoder_receive() reports it. */
		return rc < 0 && rc != -EPIPE && rc != -ECONNRESET ? report_failure("answer", "csight-decode", rc) : 0;
	case DECODER_FILE:
		fd = -1;
		rc = d->finder.dir < 0 ? -ENOENT : io_open_beneath(d->finder.dir, e->path, &fd);
		/* Of a snapshot these are parts of the input. */
		if (d->served && d->regs)
			served_files_add(d->served, &d->finder, e, fd);
		rc = decoder_reply_file(d->job, fd,
					rc == -EINVAL ? "no regular file below the directory" : strerror(-rc));
		closep(&fd);
		return rc < 0 && rc != -EPIPE && rc != -ECONNRESET ? report_failure("answer", "csight-decode", rc) : 0;
	case DECODER_TABLE:
	case DECODER_KEEP:
		/* Without `tables` in the start message csight-decode must not send these events. */
		return report_failure("understand", "csight-decode", -EBADMSG);
	case DECODER_PROGRESS:
		client_progress(d->client, "decoding", e->done, e->total);
		return 0;
	case DECODER_RESULT:
		client_progress_end(d->client);
		if (d->on_result)
			d->on_result(d->client, e->body);
		else
			d->result = json_object_get(e->body);
		*ret_done = true;
		return 0;
	case DECODER_FAILED:
		client_progress_end(d->client);
		/* The reader of standard output may have closed it, which is not an error. */
		if (prints_to_stdout(d) && poll(&gone, 1, 0) == 1 && gone.revents & POLLERR)
			*ret_done = true;
		else
			client_error("cannot %s %s: %s", d->describes ? "read" : "decode", esc(d->name),
				     esc(e->reason));
		return *ret_done ? STATUS_OK : STATUS_FAILED;
	}
	return 0;
}

static int receive_events(struct local_decode *d)
{
	bool done = false;
	int status = 0;

	while (!done && status == 0) {
		_cleanup_(decoder_event_done) struct decoder_event e = { 0 };
		int rc = decoder_receive(d->job, 0, &e);

		if (rc == -EPIPE) {
			client_progress_end(d->client);
			return report_crash(d);
		}
		status = rc < 0 ? report_failure("understand", "csight-decode", rc) : handle_event(d, &e, &done);
	}
	return status;
}

int local_decode_run(struct local_decode *d)
{
	int rc = start_job(d);

	if (rc == 0)
		rc = receive_events(d);
	if (rc != 0)
		remove_outputs(d);
	return rc;
}

int local_decode_to(struct local_decode *d, const char *format, int to)
{
	d->files[0].fd = fcntl(to, F_DUPFD_CLOEXEC, 0);
	d->n_files = 1;
	d->output_files.files[0].format = format;
	d->output_files.n = 1;
	return d->files[0].fd < 0 ? report_failure("open", d->name, -errno) : local_decode_run(d);
}

int local_decode_rename(struct local_decode *d, const char *name, int store, int to)
{
	d->name = name;
	d->type = "store";
	d->input = fcntl(store, F_DUPFD_CLOEXEC, 0);
	return d->input < 0 ? report_failure("open", name, -errno) : local_decode_to(d, "store", to);
}

void local_decode_print_missing(json_object *result)
{
	json_object *list;

	if (json_get(result, "images", json_type_array, &list) < 0)
		return;
	for (size_t i = 0; i < json_array_size(list); i++) {
		json_object *o = json_object_array_get_idx(list, i);
		const char *path = "?", *reason = "?";
		bool found = true;

		if (!json_object_is_type(o, json_type_object) || json_get_bool(o, "found", &found) < 0 || found)
			continue;
		json_get_str(o, "path", &path);
		json_get_str(o, "reason", &reason);
		fprintf(stderr, "  no image %s: %s\n", esc(path), esc(reason));
	}
}

/* Prints a warning, which may have several lines. */
static void print_warning(const char *text)
{
	const char *before = "  warning: ";

	while (text && *text) {
		size_t n = strcspn(text, "\n");
		char line[512];

		snprintf(line, sizeof(line), "%.*s", (int)MIN(n, sizeof(line) - 1), text);
		fprintf(stderr, "%s%s\n", before, esc(line));
		text += n + (text[n] == '\n');
		before = "  ";
	}
}

void local_decode_print_warnings(json_object *result)
{
	json_object *list;

	if (json_get(result, "warnings", json_type_array, &list) < 0)
		return;
	for (size_t i = 0; i < json_array_size(list); i++)
		print_warning(json_object_get_string(json_object_array_get_idx(list, i)));
}
