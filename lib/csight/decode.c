/* SPDX-License-Identifier: MIT */
/* Gives programs the decodes of files of lib/local. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include "lib/base/escape.h"
#include "lib/base/util.h"
#include "lib/csight/csight-internal.h"
#include "lib/local/file-decode.h"

enum { WORKERS_MAX = 64 };

struct csight_decode {
	struct csight *handle;
	struct file_decode file;
	char *name, *regs;
	char *dirs[FINDER_DIRS_MAX];
	bool ran;
};

static int set_file_error(struct csight_decode *d, int rc)
{
	escape_text(d->file.error, d->handle->error, sizeof(d->handle->error));
	return rc;
}

struct csight_decode *csight_decode_close(struct csight_decode *d)
{
	if (!d)
		return NULL;
	file_decode_done(&d->file);
	for (size_t i = 0; i < d->file.n_outputs; i++)
		close(d->file.outputs[i]);
	closep(&d->file.cancel);
	for (size_t i = 0; i < FINDER_DIRS_MAX; i++)
		free(d->dirs[i]);
	free(d->name);
	free(d->regs);
	free(d);
	return NULL;
}

/* Texts are copied: the caller's struct need not outlive csight_decode_open(). */
static int copy_texts(struct csight_decode *d, const char *path, const struct csight_decode_options *o)
{
	d->name = strdup(path);
	d->regs = o->regs ? strdup(o->regs) : NULL;
	if (!d->name || !d->regs != !o->regs)
		return -ENOMEM;
	for (size_t i = 0; i < o->n_images; i++) {
		d->dirs[i] = strdup(o->images[i]);
		if (!d->dirs[i])
			return -ENOMEM;
		d->file.finder.dirs[d->file.finder.n_dirs++] = d->dirs[i];
	}
	d->file.regs = d->regs;
	d->file.regs_set = "the option regs";
	return 0;
}

static int set_job_options(struct csight_decode *d, const struct csight_decode_options *o)
{
	json_object *to = json_object_new_object();

	if (!to)
		return -ENOMEM;
	d->file.options = to;
	d->file.limit = o->limit;
	json_add_str(to, "buffer", o->buffer);
	json_add_str(to, "engine", o->engine);
	if (o->tid)
		json_add_u64(to, "thread", o->tid);
	if (o->workers)
		json_add_u64(to, "workers", o->workers);
	if (o->by_thread)
		json_add_bool(to, "by_thread", true);
	if (o->verify)
		json_add_bool(to, "verify", true);
	if (o->no_inlines)
		json_add_bool(to, "inlines", false);
	return 0;
}

static int check_options(struct csight *c, const struct csight_decode_options *o)
{
	if (o->n_images > FINDER_DIRS_MAX)
		return csight_set_error(c, -EINVAL, "at most %d directories of images are accepted", FINDER_DIRS_MAX);
	if (o->workers > WORKERS_MAX)
		return csight_set_error(c, -EINVAL, "at most %d workers are accepted", WORKERS_MAX);
	if (o->engine && strcmp(o->engine, "auto") != 0 && strcmp(o->engine, "native") != 0 &&
	    strcmp(o->engine, "opencsd") != 0)
		return csight_set_error(c, -EINVAL, "unknown engine '%s'; there are auto, native and opencsd",
					o->engine);
	return 0;
}

/* Opens a regular file or a directory; a FIFO or device would have the caller wait. */
static int open_input(struct csight *c, const char *path, int *ret)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return csight_set_error(c, -errno, "%s", strerror(errno));
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return csight_set_error(c, -EINVAL, "it is neither a regular file nor a directory");
	*ret = TAKE_FD(fd);
	return 0;
}

static int prepare(struct csight_decode *d, const char *path, const struct csight_decode_options *o)
{
	int rc = copy_texts(d, path, o), fd = -1;

	if (rc == 0)
		rc = set_job_options(d, o);
	if (rc == 0) {
		d->file.cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		rc = d->file.cancel < 0 ? -errno : 0;
	}
	if (rc < 0)
		return csight_set_error(d->handle, rc, "%s", strerror(-rc));
	rc = open_input(d->handle, path, &fd);
	if (rc < 0)
		return rc;
	rc = file_decode_open(&d->file, fd, d->name);
	return rc < 0 ? set_file_error(d, rc) : 0;
}

int csight_decode_open(struct csight *c, const char *path, const struct csight_decode_options *options,
		       struct csight_decode **ret)
{
	struct csight_decode_options o;
	struct csight_decode *d;
	int rc;

	csight_begin_call(c, "decode %s", path);
	rc = csight_options_read(&o, sizeof(o), options);
	if (rc < 0)
		return csight_set_options_error(c, rc);
	rc = check_options(c, &o);
	if (rc < 0)
		return rc;
	d = malloc(sizeof(*d));
	if (!d)
		return csight_set_error(c, -ENOMEM, "out of memory");
	*d = (struct csight_decode){ .handle = c, .file = FILE_DECODE_NONE };
	rc = prepare(d, path, &o);
	if (rc < 0) {
		csight_decode_close(d);
		return rc;
	}
	*ret = d;
	return 0;
}

int csight_decode_output(struct csight_decode *d, const char *format, int fd)
{
	struct file_decode *f = &d->file;
	int copy;

	csight_begin_call(d->handle, "decode %s", d->name);
	if (d->ran)
		return csight_set_error(d->handle, -EBUSY, "it has been decoded: open it again for another output");
	if (f->n_outputs == DECODER_OUTPUTS_MAX)
		return csight_set_error(d->handle, -EINVAL, "at most %d outputs are accepted", DECODER_OUTPUTS_MAX);
	f->formats[f->n_outputs] = file_decode_format(format);
	if (!f->formats[f->n_outputs])
		return csight_set_error(d->handle, -EINVAL, "unknown format '%s'; csight decode --help lists them",
					format);
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (copy < 0)
		return csight_set_error(d->handle, -errno, "the output: %s", strerror(errno));
	f->outputs[f->n_outputs++] = copy;
	return 0;
}

int csight_decode_run(struct csight_decode *d, csight_progress_fn progress, void *userdata, struct csight_object **ret)
{
	int rc;

	csight_begin_call(d->handle, "decode %s", d->name);
	if (d->ran)
		return csight_set_error(d->handle, -EBUSY, "it has been decoded: open it again");
	if (!d->file.n_outputs)
		return csight_set_error(d->handle, -EINVAL, "it has no output: call csight_decode_output() before");
	d->ran = true;
	d->file.hooks = (struct file_decode_hooks){ .progress = progress, .userdata = userdata };
	rc = file_decode_run(&d->file);
	if (rc < 0)
		return set_file_error(d, rc);
	json_object_object_del(d->file.result, "type");
	if (ret)
		*ret = csight_object_of(json_object_get(d->file.result));
	return 0;
}

int csight_decode_cancel(struct csight_decode *d)
{
	int saved = errno, rc = eventfd_write(d->file.cancel, 1) < 0 && errno != EAGAIN ? -errno : 0;

	errno = saved;
	return rc;
}
