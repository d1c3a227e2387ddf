/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/selftest-log.h"
#include "lib/base/array.h"

enum { PCS_MAX = 1 << 22, THREADS_MAX = 64, FILES_MAX = 64 };

struct selftest_thread *selftest_log_thread(struct selftest_log *log, uint32_t tid)
{
	for (size_t i = 0; i < log->n; i++)
		if (log->threads[i].tid == tid)
			return &log->threads[i];
	if (log->n == THREADS_MAX || array_reserve(log->threads, log->n, &log->capacity) < 0)
		return NULL;
	log->threads[log->n] = (struct selftest_thread){ .tid = tid };
	return &log->threads[log->n++];
}

int selftest_log_add(const struct selftest_log *log, struct selftest_thread *t, uint64_t pc)
{
	t->executed++;
	if (pc < log->start || (log->stop && pc >= log->stop))
		return 0;
	if (t->n == PCS_MAX)
		return -E2BIG;
	if (array_reserve(t->pcs, t->n, &t->capacity) < 0)
		return -ENOMEM;
	t->pcs[t->n++] = pc - log->start;
	return 0;
}

static int add_range(const struct selftest_log *log, struct selftest_thread *t, uint64_t start, uint64_t count)
{
	int rc = 0;

	if (count > PCS_MAX)
		return -E2BIG;
	for (uint64_t i = 0; rc == 0 && i < count; i++)
		rc = selftest_log_add(log, t, start + 4 * i);
	return rc;
}

static int add_mark(struct selftest_thread *t)
{
	t->n_gaps += t->executed != 0;
	if (t->n_marks && t->marks[t->n_marks - 1] == t->n)
		return 0;
	if (array_reserve(t->marks, t->n_marks, &t->marks_capacity) < 0)
		return -ENOMEM;
	t->marks[t->n_marks++] = t->n;
	return 0;
}

static bool is_gap(const char *kind)
{
	static const char *const kinds[] = { "no-sync ", "no-image ", "unknown-address", "range-nopath " };

	for (size_t i = 0; i < ELEMENTS(kinds); i++)
		if (strncmp(kind, kinds[i], strlen(kinds[i])) == 0)
			return true;
	return false;
}

static int add_element(const struct selftest_log *log, struct selftest_thread *t, const char *kind)
{
	uint64_t a, b;
	uint32_t count;
	const char *id;

	if (sscanf(kind, "range %" SCNx64 " %" SCNx64 " %" SCNu32, &a, &b, &count) == 3)
		return add_range(log, t, a, count);
	if (is_gap(kind))
		return add_mark(t);
	if (sscanf(kind, "timestamp %" SCNx64, &a) == 1) {
		t->wrong_times += a < t->time || (log->latest && (a < log->earliest || a > log->latest));
		t->time = a;
	}
	id = strncmp(kind, "context ", 8) == 0 ? strstr(kind, " ctxid=") : NULL;
	if (id)
		t->wrong_contexts += strtoull(id + 7, NULL, 16) != t->tid;
	return 0;
}

int selftest_log_read_decode(struct selftest_log *log, FILE *f)
{
	struct selftest_thread *t = NULL;
	char line[512];
	uint32_t tid;
	int rc = 0;

	while (rc == 0 && fgets(line, sizeof(line), f)) {
		const char *kind = strchr(line, ' ');

		if (sscanf(line, "# thread %" SCNu32, &tid) == 1) {
			t = selftest_log_thread(log, tid);
			rc = t ? 0 : -E2BIG;
		} else if (!t || !kind) {
			rc = -EBADMSG;
		} else {
			rc = add_element(log, t, kind + 1);
		}
	}
	return rc < 0 ? rc : ferror(f) ? -EIO : 0;
}

int selftest_log_read_addresses(struct selftest_log *log, const char *path)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	uint64_t start, stop;

	if (!f)
		return -errno;
	if (fscanf(f, "known %" SCNx64 " %" SCNx64 "\n", &start, &stop) != 2 || start >= stop)
		return -EBADMSG;
	log->start = start;
	log->stop = stop;
	return 0;
}

static int read_runs(struct selftest_log *log, const char *path, uint32_t tid)
{
	struct selftest_thread *t = selftest_log_thread(log, tid);
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	uint64_t run[2];
	int rc = t ? 0 : -E2BIG;

	if (!f)
		return -errno;
	/* The end of the file is filled with zeros. */
	while (rc == 0 && fread(run, sizeof(run), 1, f) == 1 && run[1])
		rc = add_range(log, t, run[0], run[1]);
	return rc;
}

int selftest_log_read_truth(struct selftest_log *log, const char *dir)
{
	_cleanup_closedir_ DIR *d = opendir(dir);
	struct {
		char path[PATH_MAX];
		uint32_t tid;
	} *files = d ? calloc(FILES_MAX, sizeof(*files)) : NULL;
	const struct dirent *e;
	size_t n = 0;
	int rc = 0;

	if (!files)
		return -errno;
	while ((e = readdir(d))) {
		uint32_t pid, tid, serial;
		int end = 0;

		if (sscanf(e->d_name, "%" SCNu32 ".%" SCNu32 ".%" SCNu32 ".truth%n", &pid, &tid, &serial, &end) != 3 ||
		    !end || e->d_name[end] || serial >= FILES_MAX)
			continue;
		snprintf(files[serial].path, sizeof(files[serial].path), "%s/%s", dir, e->d_name);
		files[serial].tid = tid;
		n++;
	}
	for (size_t i = 0; rc == 0 && i < FILES_MAX; i++)
		if (files[i].path[0])
			rc = read_runs(log, files[i].path, files[i].tid);
	free(files);
	return rc < 0 ? rc : n ? 0 : -ENOENT;
}

void selftest_log_done(struct selftest_log *log)
{
	for (size_t i = 0; i < log->n; i++) {
		free(log->threads[i].pcs);
		free(log->threads[i].marks);
	}
	free(log->threads);
	*log = (struct selftest_log){ 0 };
}

/*
 * Returns the index in the truth at which the instructions of a segment occur, at `from` or later; truth->n: nowhere.
 */
static size_t find_segment(const struct selftest_thread *truth, size_t from, const uint64_t *pcs, size_t n)
{
	for (size_t at = from; at + n <= truth->n; at++)
		if (memcmp(truth->pcs + at, pcs, n * sizeof(*pcs)) == 0)
			return at;
	return truth->n;
}

/*
 * Finds each segment between two marks of the decode at its first place after the preceding segment. If all segments
 * occur in order, this finds them. The instructions between them are missing.
 */
static void compare_thread(const struct selftest_thread *truth, const struct selftest_thread *decode,
			   struct selftest_result *ret)
{
	size_t at = 0, mark = 0, begin = 0;

	while (begin < decode->n) {
		bool marked = mark < decode->n_marks && decode->marks[mark] == begin;
		size_t end, n, found;

		mark += marked;
		end = mark < decode->n_marks ? decode->marks[mark] : decode->n;
		n = end - begin;
		found = marked ? find_segment(truth, at, decode->pcs + begin, n) : at;
		if (found + n > truth->n ||
		    memcmp(truth->pcs + found, decode->pcs + begin, n * sizeof(uint64_t)) != 0) {
			ret->different += decode->n - begin;
			return;
		}
		ret->missing += found - at;
		ret->compared += n;
		at = found + n;
		begin = end;
	}
	*(mark < decode->n_marks ? &ret->missing : &ret->unmarked) += truth->n - at;
}

static const struct selftest_thread *find_other(const struct selftest_log *in, const struct selftest_log *from,
						size_t i, bool same_process)
{
	if (!same_process)
		return i < in->n ? &in->threads[i] : NULL;
	for (size_t j = 0; j < in->n; j++)
		if (in->threads[j].tid == from->threads[i].tid)
			return &in->threads[j];
	return NULL;
}

void selftest_log_compare(const struct selftest_log *truth, const struct selftest_log *decode, bool same_process,
			  struct selftest_result *ret)
{
	for (size_t i = 0; i < truth->n; i++) {
		const struct selftest_thread *t = find_other(decode, truth, i, same_process);

		if (t)
			compare_thread(&truth->threads[i], t, ret);
		else
			ret->unmarked += truth->threads[i].n;
	}
	for (size_t i = 0; i < decode->n; i++) {
		const struct selftest_thread *t = &decode->threads[i];

		if (!find_other(truth, decode, i, same_process))
			ret->different += t->n;
		ret->gaps += t->n_gaps;
		ret->executed += t->executed;
		ret->wrong_times += t->wrong_times;
		ret->wrong_contexts += t->wrong_contexts;
	}
}
