/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/debuginfod.h"
#include "client/local-decode.h"
#include "client/served-files.h"
#include "lib/base/escape.h"
#include "lib/base/io.h"

void local_decode_done(struct local_decode *d)
{
	file_decode_done(&d->file);
	for (size_t i = 0; i < d->n_made; i++)
		if (d->file.outputs[i] != STDOUT_FILENO)
			closep(&d->file.outputs[i]);
}

static int report_failure(const struct local_decode *d)
{
	client_error("%s", esc(d->file.error));
	return STATUS_FAILED;
}

static int report_open(const char *name)
{
	client_error("cannot open %s: %s", esc(name), strerror(errno));
	return STATUS_FAILED;
}

void local_decode_set_options(struct local_decode *d, const struct trace_options *o)
{
	if (!d->file.options)
		d->file.options = json_object_new_object();
	json_add_str(d->file.options, "buffer", o->buffer);
	d->file.regs = o->regs;
	if (o->regs)
		output_files_protect(o->regs);
	memcpy(d->file.finder.dirs, o->dirs, sizeof(o->dirs));
	d->file.finder.n_dirs = o->n_dirs;
}

int local_decode_add_images(struct local_decode *d, const char *path)
{
	struct finder *f = &d->file.finder;
	int rc = client_check_directory("images", path);

	if (rc != 0)
		return rc;
	if (f->n_dirs == FINDER_DIRS_MAX)
		return client_usage(d->client, "at most %d --images options are accepted", FINDER_DIRS_MAX);
	f->dirs[f->n_dirs++] = path;
	return 0;
}

/* Has the formats that the user chose checked before their files are made. */
static void set_formats(struct local_decode *d)
{
	for (size_t i = 0; i < d->output_files.n; i++)
		d->file.formats[i] = d->output_files.files[i].format;
	d->file.n_outputs = d->output_files.n;
}

int local_decode_open_input(struct local_decode *d, const char *name)
{
	bool is_stdin = strcmp(name, "-") == 0;
	int fd = is_stdin ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : open(name, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (is_stdin)
		name = "standard input";
	if (fd < 0)
		return report_open(name);
	if (is_stdin && !d->file.regs && fstat(fd, &st) == 0 && !S_ISREG(st.st_mode)) {
		client_error("standard input is decoded in order only as bare trace, which requires --regs FILE");
		close(fd);
		return STATUS_FAILED;
	}
	d->file.regs_set = "--regs FILE";
	set_formats(d);
	return file_decode_open(&d->file, fd, name) < 0 || file_decode_check(&d->file) < 0 ? report_failure(d)
											   : STATUS_OK;
}

int local_decode_open_snapshot(struct local_decode *d, const char *id, int trace, int json)
{
	return file_decode_open_snapshot(&d->file, id, trace, json) < 0 ? report_failure(d) : STATUS_OK;
}

/* Returns rc, the result of the decode, or the first error at the end of an output. */
static int end_outputs(struct local_decode *d, int rc)
{
	for (size_t i = 0; i < d->n_made; i++) {
		int error = output_files_end(d->file.outputs[i], rc);

		if (rc < 0 || error == 0)
			continue;
		rc = error;
		client_error("cannot write %s: %s%s",
			     d->output_files.files[i].path ? esc(d->output_files.files[i].path) : "standard output",
			     strerror(-rc), client_write_advice(-rc));
	}
	return rc;
}

int local_decode_open_outputs(struct local_decode *d)
{
	int rc = STATUS_OK;

	set_formats(d);
	for (size_t i = 0; i < d->output_files.n && rc == STATUS_OK; i++) {
		const struct output_file *a = &d->output_files.files[i];
		const char *path = !a->path && strcmp(a->format, "none") == 0 ? "/dev/null" : a->path;

		d->file.outputs[i] = STDOUT_FILENO;
		/* Readable too, since a store is not written sequentially and is read back. */
		if (path)
			rc = output_files_open(path, O_RDWR, d->file.name, d->file.input, &d->file.outputs[i]);
		d->n_made += rc == STATUS_OK;
	}
	if (rc != STATUS_OK)
		end_outputs(d, -ECANCELED);
	return rc;
}

/*
 * True if the reader of standard output has closed it: that is no error, unless there are other outputs, which are
 * incomplete.
 */
static bool reader_is_gone(const struct local_decode *d)
{
	struct pollfd gone = { STDOUT_FILENO, 0, 0 };

	return d->n_made == 1 && d->file.outputs[0] == STDOUT_FILENO && poll(&gone, 1, 0) == 1 &&
	       gone.revents & POLLERR;
}

static int on_progress(void *userdata, const char *phase, uint64_t done, uint64_t total)
{
	const struct local_decode *d = userdata;

	return client_progress(d->client, phase, done, total);
}

static void on_served(void *userdata, const struct decoder_event *e, int fd)
{
	struct local_decode *d = userdata;

	/* Records images, and other files only of bare trace: of other inputs these are parts of the input itself. */
	if (d->served && (e->type == DECODER_IMAGE || d->file.regs))
		served_files_add(d->served, &d->file.finder, e, fd);
	if (d->bundled && e->type == DECODER_IMAGE)
		bundle_keep(d->bundled, e, fd);
}

int local_decode_run(struct local_decode *d)
{
	int rc;

	d->file.hooks = (struct file_decode_hooks){ .progress = on_progress, .served = on_served, .userdata = d };
	d->file.finder.fetch = debuginfod_fetch;
	rc = file_decode_run(&d->file);
	client_progress_end(d->client);
	if ((rc == -EIO || rc == -ECANCELED) && reader_is_gone(d))
		return STATUS_OK;
	if (rc < 0) {
		end_outputs(d, rc);
		return report_failure(d);
	}
	if (end_outputs(d, 0) < 0)
		return STATUS_FAILED;
	if (d->on_result)
		d->on_result(d->client, d->file.result);
	return STATUS_OK;
}

int local_decode_to(struct local_decode *d, const char *format, int to)
{
	d->file.outputs[0] = fcntl(to, F_DUPFD_CLOEXEC, 0);
	if (d->file.outputs[0] < 0)
		return report_open(d->file.name);
	d->n_made = 1;
	d->output_files.files[0].format = format;
	d->output_files.n = 1;
	set_formats(d);
	return local_decode_run(d);
}

int local_decode_rename(struct local_decode *d, const char *name, int store, int to)
{
	d->file.name = name;
	d->file.type = "store";
	d->file.input = fcntl(store, F_DUPFD_CLOEXEC, 0);
	return d->file.input < 0 ? report_open(name) : local_decode_to(d, "store", to);
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
