/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "daemon/directory-tree.h"
#include "daemon/job-files.h"
#include "daemon/snapshot.h"
#include "lib/base/io.h"
#include "lib/decoder/decoder.h"

enum { JSON_MAX = 64 << 20, JSON_LONG = 64 << 10 };

const char *const job_files_types[JOB_OUTPUTS] = { "store", "perfetto" };
static const char *const output_files[JOB_OUTPUTS] = { "store", "trace.pftrace" };

void job_files_init(struct job_files *f)
{
	*f = (struct job_files){ .dir = -1, .input = -1, .code = -1, .jitdump = -1, .description = -1 };
	for (size_t n = 0; n < JOB_OUTPUTS; n++)
		f->outputs[n] = -1;
}

void job_files_close_input(struct job_files *f)
{
	closep(&f->input);
	closep(&f->code);
	closep(&f->jitdump);
	closep(&f->description);
}

void job_files_done(struct job_files *f)
{
	closep(&f->dir);
	job_files_close_input(f);
	for (size_t n = 0; n < JOB_OUTPUTS; n++)
		closep(&f->outputs[n]);
	json_object_put(f->info);
	f->info = NULL;
}

static int open_input(int dir, const char *name, bool optional, int *ret)
{
	*ret = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return *ret >= 0 || (optional && errno == ENOENT) ? 0 : -errno;
}

/* The loop would take long to write the description, and to free what it is made of: a recording has many threads. */
static int describe(struct job_files *f)
{
	int rc = decoder_write_description(f->info, &f->description);

	json_object_object_del(f->info, "threads");
	return rc;
}

int job_files_open(struct job_files *f, int spool_fd, const char *id)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	int rc;

	f->dir = openat(spool_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (f->dir < 0)
		return -errno;
	rc = io_read_file(f->dir, "snapshot.json", JSON_MAX, &text, &size);
	if (rc == 0)
		rc = json_parse(text, size, &f->info);
	if (rc == 0 && size > JSON_LONG)
		rc = describe(f);
	if (rc == 0)
		rc = open_input(f->dir, SNAPSHOT_TRACE_FILE, false, &f->input);
	if (rc == 0)
		rc = open_input(f->dir, "code/bytes", true, &f->code);
	if (rc == 0)
		rc = open_input(f->dir, "code/jitdump", true, &f->jitdump);
	for (size_t n = 0; n < JOB_OUTPUTS && rc == 0; n++) {
		f->outputs[n] =
		    openat(f->dir, output_files[n], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (f->outputs[n] < 0)
			rc = -errno;
	}
	return rc;
}

int job_files_keep(struct job_files *f)
{
	for (size_t n = 0; n < JOB_OUTPUTS && f->dir >= 0; n++)
		if (fsync(f->outputs[n]) < 0)
			return -errno;
	return 0;
}

void job_files_drop(struct job_files *f)
{
	if (f->dir >= 0)
		job_files_remove(f->dir);
}

void job_files_remove(int dir)
{
	for (size_t n = 0; n < JOB_OUTPUTS; n++)
		unlinkat(dir, output_files[n], 0);
}

uint64_t job_files_size(const struct job_files *f)
{
	uint64_t size = 0;

	if (f->dir >= 0)
		directory_tree_size(f->dir, &size);
	return size;
}

uint64_t job_files_written(const struct job_files *f, uint64_t *ret_largest)
{
	uint64_t sum = 0;
	struct stat st;

	*ret_largest = 0;
	for (size_t n = 0; n < JOB_OUTPUTS; n++) {
		if (f->outputs[n] < 0 || fstat(f->outputs[n], &st) < 0)
			continue;
		sum += (uint64_t)st.st_blocks * 512;
		*ret_largest = MAX(*ret_largest, (uint64_t)st.st_size);
	}
	return sum;
}
