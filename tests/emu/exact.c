/* SPDX-License-Identifier: MIT */
/*
 * Compares a decode with the truth log, instruction by instruction.
 *
 *   exact DIR PID TID:END[:LEAST[:EXECUTED]]... <ELEMENTS
 *
 * ELEMENTS are those of one process, as `csight decode --to elements` prints them. The instructions in a thread's
 * ranges must be the part of its truth log, DIR/PID.TID.*.truth, that ends with instruction number END of the log (the
 * number of instructions when the ring was frozen), and at least LEAST instructions. The decode lacks the instructions
 * that ran while the thread was frozen, which the file of the same name with .gaps lists. A program that SIGKILL ended
 * may have traced one block more than its log has: EXECUTED is the number of instructions that its ring has counted,
 * and what that has more than the log, up to a block, is not compared. SIGKILL may also have come before the trace of
 * that block, which the ring counts first: then the decode ends where the log does. Each cycle count must equal
 * the number of instructions since the previous count. Prints a line per thread and "N equal in all"; exits with 0 if
 * all are equal.
 */
#include "config.h"

#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "lib/base/util.h"
#include "tests/emu/truth.h"

enum { BLOCK_MAX = 512 }; /* instructions of a block of QEMU */

struct runs {
	struct truth_run *all;
	size_t n, capacity;
	uint64_t count;
	uint64_t counted; /* instructions at the last cycle count */
	bool cycles;
};

static int add(struct runs *r, uint64_t start, uint64_t count)
{
	struct truth_run *last = r->n ? &r->all[r->n - 1] : NULL;

	r->count += count;
	if (last && last->start + 4 * last->count == start) {
		last->count += count;
		return 0;
	}
	if (r->n == r->capacity) {
		size_t capacity = r->capacity ? r->capacity * 2 : 4096;
		struct truth_run *all = reallocarray(r->all, capacity, sizeof(*all));

		if (!all)
			return -ENOMEM;
		r->all = all;
		r->capacity = capacity;
	}
	r->all[r->n++] = (struct truth_run){ start, count };
	return 0;
}

/* Ignores the first count, which in a ring that has wrapped includes instructions that the ring no longer holds. */
static void check_cycles(struct runs *r, uint32_t cycles, unsigned *ret_gaps)
{
	if (r->cycles && cycles != r->count - r->counted) {
		printf("in the decode: %" PRIu32 " cycles for %" PRIu64 " instructions, at instruction %" PRIu64 "\n",
		       cycles, r->count - r->counted, r->count);
		(*ret_gaps)++;
	}
	r->cycles = true;
	r->counted = r->count;
}

/* Reads the elements of one thread, up to the heading of the next, whose number goes to *ret_next (0: none). */
static int read_elements(FILE *f, struct runs *ret, unsigned *ret_gaps, unsigned *ret_next)
{
	char line[512];

	*ret_next = 0;
	while (fgets(line, sizeof(line), f)) {
		uint64_t start, end;
		uint32_t count;
		int rc;

		if (sscanf(line, "# thread %u", ret_next) == 1)
			return 0;
		if (sscanf(line, "%*x range %" SCNx64 " %" SCNx64 " %" SCNu32, &start, &end, &count) == 3) {
			if (end != start + 4ull * count)
				return -EBADMSG;
			rc = add(ret, start, count);
			if (rc < 0)
				return rc;
		} else if (sscanf(line, "%*x cycles %" SCNu32, &count) == 1) {
			check_cycles(ret, count, ret_gaps);
		} else if (strstr(line, " no-image ") || strstr(line, " range-nopath ") ||
			   strstr(line, " unknown-address")) {
			printf("in the decode: %s", line);
			(*ret_gaps)++;
		}
	}
	return 0;
}

static void show(const char *name, const struct truth_run *run, uint64_t at)
{
	if (run && run->count)
		printf("  %s: %" PRIx64 " (%" PRIu64 " into a run of %" PRIu64 " from %" PRIx64 ")\n", name,
		       run->start + 4 * at, at, run->count, run->start);
	else
		printf("  %s: ended\n", name);
}

/* A truth log without the instructions that ran while the thread was frozen. */
struct truth {
	const struct truth_run *runs; /* the log, mapped */
	size_t n, next;
	struct truth_run *gaps; /* {from, to} in instructions of the log */
	size_t n_gaps, gap;
	uint64_t at; /* number of the instruction after the last run read */
	struct truth_run rest;
};

static void map_log(const char *path, struct truth *t)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		abort();
	t->n = (size_t)st.st_size / sizeof(struct truth_run);
	t->runs = mmap(NULL, t->n * sizeof(struct truth_run), PROT_READ, MAP_SHARED, fd, 0);
	if (t->runs == MAP_FAILED)
		abort();
}

static void read_gaps(const char *path, struct truth *t)
{
	_cleanup_free_ char *name = strdup(path);
	char *dot = name ? strrchr(name, '.') : NULL;
	_cleanup_fclose_ FILE *f = NULL;
	struct truth_run gap;

	if (!dot || strlen(dot) < 5)
		return;
	strcpy(dot, ".gaps");
	f = fopen(name, "re");
	while (f && fread(&gap, sizeof(gap), 1, f) == 1) {
		t->gaps = reallocarray(t->gaps, t->n_gaps + 1, sizeof(gap));
		if (!t->gaps)
			abort();
		t->gaps[t->n_gaps++] = gap;
	}
}

/* The number of traced instructions among the first `end`. */
static uint64_t traced(const struct truth *t, uint64_t end)
{
	uint64_t n = end;

	for (size_t i = 0; i < t->n_gaps; i++)
		if (t->gaps[i].start < end)
			n -= MIN(t->gaps[i].count, end) - t->gaps[i].start;
	return n;
}

/* Returns the next run, and skips empty ones, whose only instruction faulted. count is 0 at the end. */
static struct truth_run next_run(struct truth *t)
{
	for (;;) {
		struct truth_run run = t->rest;
		uint64_t from, to, skip;

		if (!run.count) {
			if (t->next == t->n || !t->runs[t->next].start)
				return (struct truth_run){ 0 };
			run = t->runs[t->next++];
			t->at += run.count;
		}
		t->rest = (struct truth_run){ 0 };
		if (!run.count)
			continue;
		while (t->gap < t->n_gaps && t->gaps[t->gap].count <= t->at - run.count)
			t->gap++;
		if (t->gap == t->n_gaps || t->gaps[t->gap].start >= t->at)
			return run;
		/* The run contains a freeze: return the part before it, and keep the part after it. */
		from = t->gaps[t->gap].start;
		to = MIN(t->gaps[t->gap].count, t->at);
		if (from > t->at - run.count) {
			skip = from - (t->at - run.count);
			t->rest = (struct truth_run){ run.start + 4 * skip, run.count - skip };
			return (struct truth_run){ run.start, skip };
		}
		skip = to - (t->at - run.count);
		t->rest = (struct truth_run){ run.start + 4 * skip, run.count - skip };
	}
}

static void show_difference(const struct runs *decode, size_t i, uint64_t k, const struct truth_run *run, uint64_t at,
			    uint64_t number)
{
	printf("the first difference is at instruction %" PRIu64 ":\n", number);
	for (size_t p = i > 3 ? i - 3 : 0; p < i; p++)
		show("before ", &decode->all[p], 0);
	show("decoded", &decode->all[i], k);
	show("truth  ", run, at);
}

/* Compares the decode with the truth from instruction `from` on; returns the number of equal instructions. */
static uint64_t compare(const struct runs *decode, struct truth *truth, uint64_t from, bool shows, bool *ret_equal)
{
	struct truth_run run = { 0 };
	uint64_t seen = 0, at = 0, same = 0;

	for (;;) {
		run = next_run(truth);
		if (!run.count || seen + run.count > from)
			break;
		seen += run.count;
	}
	at = from - seen;
	for (size_t i = 0; i < decode->n; i++) {
		const struct truth_run *d = &decode->all[i];

		for (uint64_t k = 0; k < d->count;) {
			uint64_t n;

			if (at == run.count) {
				at = 0;
				run = next_run(truth);
			}
			n = MIN(d->count - k, run.count - at);
			if (n == 0 || d->start + 4 * k != run.start + 4 * at) {
				if (shows)
					show_difference(decode, i, k, &run, at, from + same);
				*ret_equal = false;
				return same;
			}
			k += n;
			at += n;
			same += n;
		}
	}
	*ret_equal = true;
	return same;
}

/* Removes the last instructions of a decode. */
static void drop(struct runs *decode, uint64_t count)
{
	decode->count -= count;
	while (count) {
		struct truth_run *last = &decode->all[decode->n - 1];
		uint64_t n = MIN(count, last->count);

		last->count -= n;
		count -= n;
		decode->n -= !last->count;
	}
}

/* Returns true if the whole decode is what precedes instruction number end of the log. */
static bool ends_with_log(const struct runs *decode, const char *log, uint64_t end)
{
	struct truth truth = { 0 };
	bool equal = false;

	if (decode->count > end)
		return false;
	map_log(log, &truth);
	read_gaps(log, &truth);
	compare(decode, &truth, end - decode->count, false, &equal);
	free(truth.gaps);
	munmap((void *)truth.runs, truth.n * sizeof(struct truth_run));
	return equal;
}

/* Compares the decode of a thread with its log; returns the number of equal instructions. */
static uint64_t check_thread(const char *dir, const char *pid, const char *spec, struct runs *decode, unsigned gaps,
			     bool *ret_good)
{
	_cleanup_free_ char *pattern = NULL;
	struct truth truth = { 0 };
	uint64_t tid, end = 0, least = 1, executed = 0, same;
	glob_t found = { 0 };
	bool equal;

	*ret_good = false;
	if (sscanf(spec, "%" SCNu64 ":%" SCNu64 ":%" SCNu64 ":%" SCNu64, &tid, &end, &least, &executed) < 2 ||
	    asprintf(&pattern, "%s/%s.%" PRIu64 ".*.truth", dir, pid, tid) < 0)
		return 0;
	if (glob(pattern, 0, NULL, &found) != 0 || found.gl_pathc != 1) {
		printf("thread %" PRIu64 ": %zu logs %s\n", tid, (size_t)found.gl_pathc, pattern);
		globfree(&found);
		return 0;
	}
	free(pattern);
	pattern = strdup(found.gl_pathv[0]);
	globfree(&found);
	if (!pattern)
		return 0;
	map_log(pattern, &truth);
	read_gaps(pattern, &truth);
	end = traced(&truth, end);
	if (executed > end && executed - end <= BLOCK_MAX && decode->count >= executed - end &&
	    !ends_with_log(decode, pattern, end))
		drop(decode, executed - end);
	if (decode->count > end) {
		printf("thread %" PRIu64 ": decoded %" PRIu64 " instructions, the truth has %" PRIu64 "\n", tid,
		       decode->count, end);
		return 0;
	}
	same = compare(decode, &truth, end - decode->count, true, &equal);
	*ret_good = equal && !gaps && same >= least;
	printf("thread %" PRIu64 ": %" PRIu64 " of %" PRIu64 " equal, truth %" PRIu64 ", at least %" PRIu64
	       ", gaps %u%s\n",
	       tid, same, decode->count, end, least, gaps, *ret_good ? "" : ": WRONG");
	free(truth.gaps);
	munmap((void *)truth.runs, truth.n * sizeof(struct truth_run));
	return same;
}

int main(int argc, char **argv)
{
	unsigned tid = 0, next, seen = 0;
	uint64_t total = 0;
	bool good = true;

	if (argc < 4) {
		fprintf(stderr, "usage: exact DIR PID TID:END[:LEAST[:EXECUTED]]... <ELEMENTS\n");
		return 2;
	}
	do {
		struct runs decode = { 0 };
		unsigned gaps = 0;
		int rc = read_elements(stdin, &decode, &gaps, &next);

		if (rc < 0) {
			fprintf(stderr, "exact: the elements: %s\n", strerror(-rc));
			return 2;
		}
		for (int i = 3; tid && i < argc; i++)
			if (strtoul(argv[i], NULL, 10) == tid) {
				bool one;

				total += check_thread(argv[1], argv[2], argv[i], &decode, gaps, &one);
				good = good && one;
				seen++;
			}
		free(decode.all);
		tid = next;
	} while (next);
	if (seen != (unsigned)argc - 3) {
		printf("of %d threads, %u were decoded\n", argc - 3, seen);
		good = false;
	}
	printf("%" PRIu64 " equal in all\n", total);
	return !good;
}
