/* SPDX-License-Identifier: MIT */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "lib/export/decode-formats.h"
#include "lib/local/bundle.h"
#include "lib/local/file-decode.h"
#include "lib/perfdata/format.h"
#include "lib/store/format.h"

enum { SNAPSHOT_JSON_MAX = 64 << 20, JSON_PIECE = 64 << 10, JOB = 1 };

/* The names of the formats, and what they are made of, without the functions that write them. */
#define FORMAT(id, name, basis, content, export) { name, basis },

static const struct {
	const char *name;
	enum decode_format_basis basis;
} formats[] = {
	// clang-format off
	DECODE_FORMATS(FORMAT, FORMAT)
	// clang-format on
};

void file_decode_done(struct file_decode *d)
{
	finder_done(&d->finder);
	closep(&d->finder.dir);
	closep(&d->input);
	closep(&d->code);
	closep(&d->jitdump);
	closep(&d->job);
	/* Closing its socket ends the server and the child of the job. */
	closep(&d->server);
	if (d->pid > 0)
		while (waitpid(d->pid, NULL, 0) < 0 && errno == EINTR)
			;
	json_object_put(d->finder.snapshot);
	json_object_put(d->finder.bundle);
	closep(&d->finder.bundle_fd);
	free(d->kcore_dir);
	json_object_put(d->options);
	json_object_put(d->result);
}

static int set_error(struct file_decode *d, int rc, const char *fmt, ...) _printf_(3, 4);
static int set_error(struct file_decode *d, int rc, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(d->error, sizeof(d->error), fmt, args);
	va_end(args);
	return rc;
}

static int set_failure(struct file_decode *d, const char *what, const char *name, int rc)
{
	return set_error(d, rc, "cannot %s %.700s: %s", what, name, strerror(-rc));
}

static int read_snapshot(struct file_decode *d, const char *name, const char *text, size_t size)
{
	int rc = json_parse(text, size, &d->finder.snapshot);

	if (rc < 0 || !json_object_is_type(d->finder.snapshot, json_type_object))
		return set_failure(d, "read snapshot.json of", name, rc < 0 ? rc : -EBADMSG);
	return 0;
}

static int read_text(int fd, struct buf *ret)
{
	ssize_t n;

	ret->limit = SNAPSHOT_JSON_MAX;
	do {
		char *to = (char *)buf_reserve(ret, JSON_PIECE);

		n = to ? io_read(fd, to, JSON_PIECE) : -ENOMEM;
		if (n > 0)
			buf_grew(ret, (size_t)n);
	} while (n > 0);
	return (int)n;
}

int file_decode_open_snapshot(struct file_decode *d, const char *id, int trace, int json)
{
	_cleanup_close_ int description = json;
	_cleanup_buf_ struct buf text = { 0 };
	int rc;

	d->name = id;
	d->type = "perf.data";
	d->input = trace;
	rc = read_text(description, &text);
	return rc < 0 ? set_failure(d, "read snapshot.json of", id, rc)
		      : read_snapshot(d, id, (char *)text.data, text.size);
}

/* Determines the type of an input file, and refuses files that are not a trace with advice on what to do. */
static int check_file_type(struct file_decode *d, const char *name)
{
	uint64_t magic = 0;

	/* The decoder reports files that are too short. */
	if (pread(d->input, &magic, sizeof(magic), 0) != sizeof(magic))
		return 0;
	magic = le64toh(magic);
	if (magic == STORE_MAGIC)
		d->type = "store";
	else if (magic != PD_MAGIC && magic != __builtin_bswap64(PD_MAGIC))
		return set_error(d, -EINVAL,
				 "%.700s is neither a perf.data file nor a snapshot directory; bare trace requires %s",
				 name, d->regs_set);
	return 0;
}

/* Opens a directory of perf record --kcore, whose kcore_dir has the code of the kernel. */
static int open_perf_directory(struct file_decode *d, const char *name)
{
	int rc = io_open_beneath(d->finder.dir, "data", &d->input);

	if (rc == -ENOENT)
		return set_error(
		    d, rc,
		    "%.700s is no directory of a trace: it has neither snapshot.json nor snapshot.ini, nor data as "
		    "of perf record --kcore",
		    name);
	if (rc < 0)
		return set_failure(d, "open data of", name, rc);
	closep(&d->finder.dir);
	if (asprintf(&d->kcore_dir, "%s/kcore_dir", name) < 0) {
		d->kcore_dir = NULL;
		return set_failure(d, "open", name, -ENOMEM);
	}
	d->finder.dirs[d->finder.n_dirs++] = d->kcore_dir;
	return check_file_type(d, name);
}

/* Opens a file of a directory, which another user may have made. -ENOENT is not explained. */
static int open_part(struct file_decode *d, const char *part, const char *name, int *ret)
{
	int rc = io_open_beneath(d->finder.dir, part, ret);

	return rc == 0 || rc == -ENOENT ? rc
					: set_error(d, rc, "cannot open %s of %.700s: %s", part, name,
						    rc == -EINVAL ? "it is not a regular file" : strerror(-rc));
}

static int open_trace(struct file_decode *d, const char *name)
{
	int rc = open_part(d, "trace.perf.data", name, &d->input);

	return rc == -ENOENT ? set_failure(d, "open trace.perf.data of", name, rc) : rc;
}

static int open_snapshot_directory(struct file_decode *d, const char *name)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	int rc = io_read_file(d->finder.dir, "snapshot.json", SNAPSHOT_JSON_MAX, &text, &size);

	if (rc == -ENOENT)
		return open_perf_directory(d, name);
	if (rc < 0)
		return set_failure(d, "read snapshot.json of", name, rc);
	rc = read_snapshot(d, name, text, size);
	if (rc != 0)
		return rc;
	rc = open_trace(d, name);
	if (rc < 0)
		return rc;
	rc = open_part(d, "code/bytes", name, &d->code);
	if (rc == 0 || rc == -ENOENT)
		rc = open_part(d, "code/jitdump", name, &d->jitdump);
	return rc == -ENOENT ? 0 : rc;
}

/* Opens a snapshot directory of csightd (snapshot.json), an Arm snapshot (snapshot.ini), or one of perf (data). */
static int open_directory(struct file_decode *d, const char *name)
{
	int rc = io_open_beneath(d->finder.dir, "snapshot.ini", &d->input);

	if (rc == -ENOENT)
		return open_snapshot_directory(d, name);
	if (rc < 0)
		return set_failure(d, "open snapshot.ini of", name, rc);
	d->type = "snapshot";
	return 0;
}

/* Opens the directory of the register file. The decoder requests this file, and those that it names, below it. */
static int open_regs(struct file_decode *d)
{
	_cleanup_free_ char *dir = strdup(d->regs);
	char *slash = dir ? strrchr(dir, '/') : NULL;

	if (!dir)
		return set_failure(d, "open", d->regs, -ENOMEM);
	if (slash)
		slash[slash == dir] = 0;
	d->finder.dir = open(slash ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (d->finder.dir < 0)
		return set_failure(d, "open", slash ? dir : ".", -errno);
	json_add_str(d->options, "regs", slash ? strrchr(d->regs, '/') + 1 : d->regs);
	d->type = "bytes";
	return 0;
}

static bool has_basis(const char *format, enum decode_format_basis basis)
{
	for (size_t i = 0; i < ELEMENTS(formats); i++)
		if (strcmp(formats[i].name, format) == 0)
			return formats[i].basis == basis;
	return false;
}

const char *file_decode_format(const char *name)
{
	for (size_t i = 0; i < ELEMENTS(formats); i++)
		if (strcmp(formats[i].name, name) == 0)
			return formats[i].name;
	return NULL;
}

int file_decode_check(struct file_decode *d)
{
	bool all = d->n_outputs > 0;

	for (size_t i = 0; i < d->n_outputs; i++) {
		if (d->n_outputs > 1 && has_basis(d->formats[i], DECODE_FORMAT_FROM_PACKETS))
			return set_error(d, -EINVAL, "%s cannot be combined with another format", d->formats[i]);
		all = all && has_basis(d->formats[i], DECODE_FORMAT_FROM_CALLS);
	}
	if (json_object_object_get(d->options, "buffer") && strcmp(d->type, "snapshot") != 0)
		return set_error(d, -EINVAL, "%.700s is no Arm snapshot, whose trace buffers have names", d->name);
	if (strcmp(d->type, "store") == 0 && !all)
		return set_error(
		    d, -EINVAL,
		    "%.700s is a store, which has no instructions: name the snapshot, its directory or its "
		    "perf.data file (csight show, report, grep, diff, open, and export of calls read stores)",
		    d->name);
	return 0;
}

/* Opens a file of a bundle. -ENOENT is not explained. */
static int open_bundled(struct file_decode *d, const char *part, const char *name, int *ret)
{
	int fd = bundle_open(d->finder.bundle_fd, part);

	if (fd < 0)
		return fd == -ENOENT ? fd : set_failure(d, "read the bundle", name, fd);
	*ret = fd;
	return 0;
}

/* The same of a text, which is parsed. */
static int read_bundled(struct file_decode *d, const char *part, const char *name, json_object **ret)
{
	_cleanup_buf_ struct buf text = { 0 };
	_cleanup_close_ int fd = -1;
	int rc = open_bundled(d, part, name, &fd);

	if (rc < 0)
		return rc;
	rc = read_text(fd, &text);
	if (rc == 0)
		rc = json_parse((char *)text.data, text.size, ret);
	if (rc == 0 && !json_object_is_type(*ret, json_type_object))
		rc = -EBADMSG;
	return rc < 0 ? set_failure(d, "read the bundle", name, rc) : 0;
}

/* Opens a bundle as the snapshot directory that it is made of, or its perf.data file. */
static int open_bundle(struct file_decode *d, const char *name)
{
	int rc;

	d->finder.bundle_fd = TAKE_FD(d->input);
	rc = read_bundled(d, BUNDLE_INDEX, name, &d->finder.bundle);
	if (rc == 0)
		rc = read_bundled(d, "snapshot.json", name, &d->finder.snapshot);
	if (rc == 0 || rc == -ENOENT)
		rc = open_bundled(d, "trace.perf.data", name, &d->input);
	if (rc == -ENOENT)
		return set_failure(d, "open trace.perf.data of", name, rc);
	if (rc == 0)
		rc = open_bundled(d, "code/bytes", name, &d->code);
	if (rc == 0 || rc == -ENOENT)
		rc = open_bundled(d, "code/jitdump", name, &d->jitdump);
	return rc == -ENOENT ? 0 : rc;
}

int file_decode_open(struct file_decode *d, int fd, const char *name)
{
	struct stat st;

	d->name = name;
	d->type = "perf.data";
	d->input = fd;
	if (fstat(d->input, &st) < 0)
		return set_failure(d, "open", name, -errno);
	if (S_ISREG(st.st_mode) && !d->regs && bundle_is(d->input))
		return open_bundle(d, name);
	if (!S_ISDIR(st.st_mode))
		return d->regs ? open_regs(d) : check_file_type(d, name);
	if (d->regs)
		return set_error(d, -EINVAL, "%s requires a file of bare trace, but %.700s is a directory", d->regs_set,
				 name);
	d->finder.dir = d->input;
	d->input = -1;
	return open_directory(d, name);
}

static int start_job(struct file_decode *d)
{
	struct decoder_start s = {
		.input = d->type,
		.input_fd = d->input,
		.code_fd = d->code,
		.jitdump_fd = d->jitdump,
		.outputs = d->formats,
		.output_fds = d->outputs,
		.n_outputs = d->n_outputs,
		.options = d->options,
		.snapshot = d->finder.snapshot,
	};
	uid_t uid;
	gid_t gid;
	int rc;

	rc = decoder_user("", &uid, &gid);
	if (rc == 0)
		rc = decoder_spawn(NULL, uid, gid, &d->pid, &d->server);
	if (rc == 0)
		rc = decoder_submit_limited(d->server, JOB, d->limit, &d->job);
	if (rc == 0)
		rc = decoder_start(d->job, &s);
	return rc < 0 ? set_failure(d, "start", "csight-decode", rc) : 0;
}

static int report_crash(struct file_decode *d)
{
	char how[128] = "ended without a result, and so did its server";
	int status = 0;
	uint64_t job;

	if (decoder_receive_end(d->server, 0, &job, &status) == 0)
		decoder_death(status, how, sizeof(how));
	return set_error(d, -EPIPE, "the decoder crashed: %s", how);
}

/* If the decoder has ended, the next decoder_receive() reports it. */
static int check_reply(struct file_decode *d, int rc)
{
	return rc < 0 && rc != -EPIPE && rc != -ECONNRESET ? set_failure(d, "answer", "csight-decode", rc) : 0;
}

static int serve_image(struct file_decode *d, const struct decoder_event *e)
{
	char reason[256] = "";
	_cleanup_close_ int fd = finder_open(&d->finder, e, reason, sizeof(reason));

	if (d->hooks.served)
		d->hooks.served(d->hooks.userdata, e, fd);
	return check_reply(d, decoder_reply_image(d->job, e->index, fd, reason));
}

static int serve_file(struct file_decode *d, const struct decoder_event *e)
{
	_cleanup_close_ int fd = -1;
	int rc = d->finder.dir < 0 ? -ENOENT : io_open_beneath(d->finder.dir, e->path, &fd);

	if (d->hooks.served)
		d->hooks.served(d->hooks.userdata, e, fd);
	return check_reply(
	    d, decoder_reply_file(d->job, fd, rc == -EINVAL ? "no regular file below the directory" : strerror(-rc)));
}

static int report_progress(struct file_decode *d, const struct decoder_event *e)
{
	int rc = d->hooks.progress ? d->hooks.progress(d->hooks.userdata, "decoding", e->done, e->total) : 0;

	return rc ? set_error(d, -ECANCELED, "the decode of %.700s was cancelled", d->name) : 0;
}

/* Handles a message of the decoder; sets d->result after the last one. */
static int handle_event(struct file_decode *d, const struct decoder_event *e)
{
	switch (e->type) {
	case DECODER_IMAGE:
		return serve_image(d, e);
	case DECODER_FILE:
		return serve_file(d, e);
	case DECODER_TABLE:
	case DECODER_KEEP:
		/* Without `tables` in the start message csight-decode must not send these events. */
		return set_failure(d, "understand", "csight-decode", -EBADMSG);
	case DECODER_PROGRESS:
		return report_progress(d, e);
	case DECODER_RESULT:
		d->result = json_object_get(e->body);
		return 0;
	case DECODER_FAILED:
		return set_error(d, -EIO, "cannot %s %.500s: %s", d->describes ? "read" : "decode", d->name, e->reason);
	}
	return 0;
}

/* Waits for a message, or until the decode is cancelled. */
static int wait_for_event(struct file_decode *d)
{
	struct pollfd ready[] = { { d->job, POLLIN, 0 }, { d->cancel, POLLIN, 0 } };

	while (poll(ready, ELEMENTS(ready), -1) < 0)
		if (errno != EINTR)
			return set_failure(d, "wait for", "csight-decode", -errno);
	return ready[1].revents ? set_error(d, -ECANCELED, "the decode of %.700s was cancelled", d->name) : 0;
}

static int receive_event(struct file_decode *d)
{
	_cleanup_(decoder_event_done) struct decoder_event e = { 0 };
	int rc = wait_for_event(d);

	if (rc < 0)
		return rc;
	rc = decoder_receive(d->job, 0, &e);
	if (rc == -EPIPE)
		return report_crash(d);
	return rc < 0 ? set_failure(d, "understand", "csight-decode", rc) : handle_event(d, &e);
}

int file_decode_run(struct file_decode *d)
{
	int rc = file_decode_check(d);

	if (rc == 0)
		rc = start_job(d);
	while (rc == 0 && !d->result)
		rc = receive_event(d);
	return rc;
}
