/* SPDX-License-Identifier: MIT */
/*
 * Compares a decode with the truth log of the virtual machine (tests/rig/shared.h), instruction by instruction.
 *
 *   compare [-p PID] [-a TIME] [-t FROM:TO] [-w] [-f] [-g] [-x START:END]... LOG [TID] <DECODE
 *
 * DECODE: output of `csight decode --to pcs`, or of --to elements --by-thread, which includes gaps. TID: the decode is
 * of this thread, whatever its headings. The instructions of each thread must be all those that it executed while it
 * was traced, in order, on any CPU. Where it executed others in between, there must be a gap; where it was only on a
 * CPU that is not traced, as when it was preempted at once, there may be one.
 *
 *   -p: the decode must contain every thread of this process and no other.
 *   -a: the process was armed at this value of the virtual counter, while stopped: earlier execution is not expected.
 *   -t: it was frozen between these values of the virtual counter: later execution is not expected.
 *   -w: rings wrapped: the beginning may be missing, for each CPU its own, with a gap wherever something is missing
 *       between two decoded instructions (alignment.h).
 *   -f: the trace units were off where a filter wanted that, which is no gap.
 *   -g: there may be gaps: the parts between them must be in the truth, in order. Prints what is missing.
 *   -x: addresses without an image, excluded from both.
 *
 * Prints what is equal, and for each thread that differs the first difference with its context. Exits with 0 if all is
 * equal.
 */
#include "config.h"

#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/base/util.h"
#include "tests/rig/alignment.h"

enum {
	EXCLUDED = 16,
	AROUND = 5,
	TID_MAX = 1 << 24,
	PAGES_PRINTED = 8,
	LEAST_COMMON = 1000,
	PLACES = 2000,
	PAGE = 4096,
	RECORDS = 4096
};

static struct {
	uint32_t pid;
	bool holey, pausing;
	uint64_t armed;
	struct alignment_options alignment;
	struct ranges {
		uint64_t all[EXCLUDED][2];
		unsigned n;
	} excluded;
} options;

static struct thread *threads;
static size_t n_threads, threads_room;
static uint32_t index_of[TID_MAX]; /* index plus one */
static struct piece *pieces;
static size_t n_pieces, pieces_room;
static uint64_t executed, n_decoded;

static void add_piece(struct piece **list, size_t *n, size_t *room, const struct piece *p)
{
	if (array_reserve(*list, *n, room) < 0)
		abort();
	(*list)[(*n)++] = *p;
}

static struct thread *thread_of(uint32_t tid)
{
	tid %= TID_MAX;
	if (!index_of[tid]) {
		if (array_reserve(threads, n_threads, &threads_room) < 0)
			abort();
		threads[n_threads++] = (struct thread){ .tid = tid };
		index_of[tid] = (uint32_t)n_threads;
	}
	return &threads[index_of[tid] - 1];
}

static bool is_in(const struct ranges *r, uint64_t pc)
{
	for (unsigned i = 0; i < r->n; i++)
		if (pc >= r->all[i][0] && pc < r->all[i][1])
			return true;
	return false;
}

/* Adds instructions that are not excluded. */
static void add_range(struct runs *to, uint64_t start, uint64_t count)
{
	if (!options.excluded.n) {
		runs_add(to, start, count);
		return;
	}
	for (uint64_t i = 0; i < count; i++) {
		uint64_t pc = start + 4 * i;

		if (!is_in(&options.excluded, pc))
			runs_add(to, pc, 1);
	}
}

static void decoded(struct thread *t, uint64_t start, uint64_t count)
{
	t->decoded = true;
	t->in_kernel = start >> 63;
	n_decoded += count;
	add_range(&t->decode, start, count);
}

/* Adjacent gaps, and gaps before the first instruction, separate nothing. */
static void add_hole(struct thread *t)
{
	if (!t->decode.total || (t->n_holes && t->holes[t->n_holes - 1] == t->decode.total))
		return;
	if (array_reserve(t->holes, t->n_holes, &t->holes_room) < 0)
		abort();
	t->holes[t->n_holes++] = t->decode.total;
}

static bool read_decode(FILE *f, long only)
{
	struct thread *t = only >= 0 ? thread_of((uint32_t)only) : NULL;
	char line[512];

	while (fgets(line, sizeof(line), f)) {
		uint64_t start, end;
		uint32_t tid, count;

		if (*line == '#') {
			if (only >= 0)
				continue;
			if (sscanf(line, "# thread %" SCNu32, &tid) != 1) {
				printf("unknown thread: %s", line);
				return false;
			}
			t = thread_of(tid);
			continue;
		}
		if (!t)
			return false;
		if (sscanf(line, "%*x range %" SCNx64 " %" SCNx64 " %" SCNu32, &start, &end, &count) == 3)
			decoded(t, start, count);
		else if (strstr(line, " no-sync ") || strstr(line, " no-image ") || strstr(line, " unknown-address") ||
			 strstr(line, " range-nopath ") || (t->in_kernel && strstr(line, " trace-on ")))
			add_hole(t); /* a trace that stops in the kernel leaves out what the kernel does then */
		else if (!strchr(line, ' '))
			decoded(t, strtoull(line, NULL, 16), 1);
	}
	return true;
}

/* Returns false if this piece and all later ones began after the freeze. */
static bool end_piece(struct piece *p, uint64_t at, uint64_t time)
{
	p->to = at;
	p->ended = time;
	if (options.alignment.windowed && p->begun > options.alignment.frozen_to)
		return false;
	if (p->tid && p->begun >= options.armed) {
		add_piece(&pieces, &n_pieces, &pieces_room, p);
		executed += p->n;
	}
	return true;
}

static bool is_selected(uint32_t tid, uint32_t pid)
{
	if (options.pid && pid == options.pid)
		thread_of(tid);
	return tid && index_of[tid] && (!options.pid || pid == options.pid);
}

static FILE *open_log(const char *path)
{
	FILE *f = fopen(path, "re");

	if (!f)
		abort();
	setvbuf(f, NULL, _IOFBF, 1 << 20);
	return f;
}

static void read_log(const char *path, unsigned cpu)
{
	_cleanup_fclose_ FILE *f = open_log(path);
	struct rig_truth record;
	struct piece piece = { .cpu = cpu };
	bool on = false, switched = false;
	uint32_t tid = 0;
	uint64_t at = 0;

	for (; fread(&record, sizeof(record), 1, f) == 1; at += sizeof(record)) {
		if (!RIG_IS_MARK(record.start)) {
			piece.n += record.count;
			continue;
		}
		if (RIG_MARK_TYPE(record.start) == RIG_MARK_UNTRACED) {
			piece.untraced = options.pausing ? 0 : record.count;
			continue;
		}
		piece.passed = switched && !on && RIG_MARK_TYPE(record.start) == RIG_MARK_SWITCH;
		if (!end_piece(&piece, at, record.count))
			return;
		switched = RIG_MARK_TYPE(record.start) == RIG_MARK_SWITCH;
		on = switched ? on : RIG_MARK_TYPE(record.start) == RIG_MARK_START;
		if (switched) {
			uint32_t pid = (uint32_t)(record.start >> 24 & 0xffffff);

			tid = (uint32_t)(record.start & 0xffffff);
			tid = is_selected(tid, pid) ? tid : 0;
		}
		piece = (struct piece){ .begun = record.count, .cpu = cpu, .tid = tid, .start = at + sizeof(record) };
	}
	end_piece(&piece, at, UINT64_MAX);
}

static int by_time(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	if (x->begun != y->begun)
		return x->begun < y->begun ? -1 : 1;
	return x->start < y->start ? -1 : x->start > y->start;
}

static void read_piece(struct piece *p, int fd)
{
	static struct rig_truth records[RECORDS];
	struct thread *t = thread_of(p->tid);

	p->from = t->truth.total;
	for (uint64_t at = p->start; at < p->to;) {
		size_t size = MIN((size_t)(p->to - at), sizeof(records));

		if (pread(fd, records, size, (off_t)at) != (ssize_t)size)
			abort();
		for (size_t i = 0; i < size / sizeof(*records); i++)
			if (!RIG_IS_MARK(records[i].start))
				add_range(&t->truth, records[i].start, records[i].count);
		at += size;
	}
	p->n = t->truth.total - p->from;
	add_piece(&t->pieces, &t->n_pieces, &t->pieces_room, p);
}

/* Collects the instructions of each thread in the order of execution. */
static void read_truth(const char *dir)
{
	FILE *logs[RIG_CPUS] = { 0 };
	uint64_t n_before[RIG_CPUS] = { 0 };
	_cleanup_free_ char *pattern = NULL;
	glob_t found = { 0 };

	if (asprintf(&pattern, "%s/truth.*", dir) < 0 || glob(pattern, 0, NULL, &found) != 0)
		return;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		unsigned cpu = (unsigned)strtoul(strrchr(found.gl_pathv[i], '.') + 1, NULL, 10) % RIG_CPUS;

		logs[cpu] = open_log(found.gl_pathv[i]);
		read_log(found.gl_pathv[i], cpu);
	}
	globfree(&found);
	if (n_pieces)
		qsort(pieces, n_pieces, sizeof(*pieces), by_time);
	for (size_t i = 0; i < n_pieces; i++) {
		pieces[i].at = n_before[pieces[i].cpu];
		n_before[pieces[i].cpu] += pieces[i].n;
		read_piece(&pieces[i], fileno(logs[pieces[i].cpu]));
	}
	for (size_t i = 0; i < RIG_CPUS; i++)
		if (logs[i])
			fclose(logs[i]);
}

static void print_around(const char *what, const struct runs *r, uint64_t at)
{
	printf("  %s:", what);
	for (uint64_t i = at > AROUND ? at - AROUND : 0; i < MIN(r->total, at + AROUND); i++)
		printf(i == at ? " [%" PRIx64 "]" : " %" PRIx64, runs_address(r, i));
	printf("%s\n", at >= r->total ? " end" : "");
}

static void print_difference(const char *from, const struct thread *t, uint64_t decode, uint64_t truth)
{
	printf("%s, they differ at instruction %" PRIu64 " of the truth:\n", from, truth);
	print_around("decoded", &t->decode, decode);
	print_around("truth  ", &t->truth, truth);
}

static void print_thread(const struct thread *t)
{
	uint64_t d = t->decode.total, n = t->truth.total, same = runs_common_start(&t->decode, 0, &t->truth, 0);
	uint64_t last = runs_common_end(&t->decode, d, &t->truth, n, MIN(d, n));

	printf("thread %u: decoded %" PRIu64 " with %zu holes, the truth has %" PRIu64 " in %zu pieces: DIFFERENT\n",
	       t->tid, d, t->n_holes, n, t->n_pieces);
	print_difference("from the start", t, same, same);
	if (last < MIN(d, n))
		print_difference("from the end", t, d - 1 - last, n - 1 - last);
	for (size_t i = 0; i < MIN(t->n_holes, (size_t)AROUND); i++)
		print_difference("hole", t, t->holes[i], t->holes[i]);
}

/* Where nothing may be missing, a gap is where the thread executed something untraced, or was on an untraced CPU. */
static bool holes_are_explained(const struct thread *t)
{
	size_t next = 0;

	for (size_t i = 0; i < t->n_holes; i++) {
		if (t->holes[i] == t->decode.total)
			continue;
		while (next < t->n_pieces &&
		       !((t->pieces[next].untraced || t->pieces[next].passed) && t->pieces[next].from >= t->holes[i]))
			next++;
		if (next == t->n_pieces || t->pieces[next].from != t->holes[i])
			return false;
	}
	return true;
}

static uint64_t *left_out; /* pages missing from the decode */
static size_t n_left_out, left_out_room;

static void leave_out(const struct thread *t, uint64_t from, uint64_t to)
{
	for (; from < to; from++) {
		uint64_t page = runs_address(&t->truth, from) & ~(uint64_t)(PAGE - 1);
		size_t i = 0;

		while (i < n_left_out && left_out[i] != page)
			i++;
		if (i < n_left_out)
			continue;
		if (array_reserve(left_out, n_left_out, &left_out_room) < 0)
			abort();
		left_out[n_left_out++] = page;
	}
}

/* The first position after `from` and before `to` at which the thread executed something untraced; or `to`. */
static uint64_t untraced_within(const struct thread *t, uint64_t from, uint64_t to)
{
	for (size_t i = 0; i < t->n_pieces; i++)
		if (t->pieces[i].untraced && t->pieces[i].from > from && t->pieces[i].from < to)
			return t->pieces[i].from;
	return to;
}

/* The first place, not before at, where a part ran without anything untraced in between; UINT64_MAX: none. */
static uint64_t find_part(const struct thread *t, uint64_t at, uint64_t from, uint64_t to)
{
	for (;;) {
		uint64_t found = runs_find(&t->truth, at, &t->decode, from, to), end = found + (to - from);

		if (found == UINT64_MAX || untraced_within(t, found, end) == end)
			return found;
		at = found + 1;
	}
}

/* Prints how far a part that is not in the truth agrees with it, where it agrees longest. */
static void print_longest(const struct thread *t, uint64_t at, uint64_t from, uint64_t to)
{
	uint64_t best = 0, place = at, start = MIN(to, from + LEAST_COMMON), found, same, end;

	for (unsigned i = 0; i < PLACES; i++, at = found + 1) {
		found = runs_find(&t->truth, at, &t->decode, from, start);
		if (found == UINT64_MAX)
			break;
		same = MIN(runs_common_start(&t->decode, from, &t->truth, found), to - from);
		end = untraced_within(t, found, found + same);
		if (end - found > best) {
			best = end - found;
			place = found;
		}
	}
	printf("  longest, it agrees for %" PRIu64 " instructions from %" PRIu64 " of the truth on:\n", best, place);
	print_around("decoded", &t->decode, from + best);
	print_around("truth  ", &t->truth, place + best);
	for (size_t i = 0; i < t->n_pieces; i++)
		if (t->pieces[i].from + t->pieces[i].n >= place + best && t->pieces[i].from <= place + best)
			printf("  CPU %u, %" PRIu64 " to %" PRIu64 ": %" PRIu64 " instructions from %" PRIu64
			       " on, %" PRIu64 " untraced\n",
			       t->pieces[i].cpu, t->pieces[i].begun, t->pieces[i].ended, t->pieces[i].n,
			       t->pieces[i].from, t->pieces[i].untraced);
}

static bool compare_parts(const struct thread *t)
{
	uint64_t at = 0, from = 0;

	for (size_t i = 0; i <= t->n_holes; i++) {
		uint64_t to = i < t->n_holes ? t->holes[i] : t->decode.total;
		uint64_t found = from < to ? find_part(t, at, from, to) : at;

		if (found == UINT64_MAX) {
			printf("thread %u: part %zu of %zu, of %" PRIu64 " instructions, is not in the truth:\n",
			       t->tid, i + 1, t->n_holes + 1, to - from);
			print_around("decoded", &t->decode, from);
			print_around("truth  ", &t->truth, at);
			print_longest(t, at, from, to);
			return false;
		}
		leave_out(t, at, found);
		at = found + (to - from);
		from = to;
	}
	return true;
}

/* Aligns each thread by itself, then all together. */
static bool compare_aligned(uint64_t *missing)
{
	struct alignments *found = calloc(n_threads + 1, sizeof(*found));
	const struct alignment **chosen = calloc(n_threads + 1, sizeof(*chosen));
	size_t n = 0, ran = 0;
	bool good = true;

	if (!found || !chosen)
		abort();
	for (size_t i = 0; i < n_threads; i++)
		ran += threads[i].truth.total > 0 || threads[i].decode.total > 0;
	options.alignment.alone = ran == 1;
	for (size_t i = 0; i < n_threads; i++) {
		const struct thread *t = &threads[i];

		alignment_find(t, &options.alignment, &found[n]);
		if (found[n].too_many)
			printf("thread %u: too many places fit the decode\n", t->tid);
		if (found[n].n && !found[n].too_many && (options.alignment.wrapped || holes_are_explained(t))) {
			n++;
			continue;
		}
		print_thread(t);
		good = false;
	}
	if (good && !alignment_agree(found, n, &options.alignment, chosen)) {
		printf("no cut of the CPUs' buffers, and no moment of the freeze, explains what all threads lack\n");
		good = false;
	}
	for (size_t i = 0; i < n && good; i++)
		*missing += chosen[i]->missing;
	for (size_t i = 0; i < n; i++)
		free(found[i].all);
	free(found);
	free(chosen);
	return good;
}

static uint64_t count_moves(const struct thread *t, uint64_t *ret_pieces)
{
	const struct piece *last = NULL;
	uint64_t moves = 0;

	for (size_t i = 0; i < t->n_pieces; i++) {
		if (!t->pieces[i].n)
			continue;
		++*ret_pieces;
		moves += last && last->cpu != t->pieces[i].cpu;
		last = &t->pieces[i];
	}
	return moves;
}

static void print_summary(uint64_t missing)
{
	uint64_t shown = 0, n = 0, all_pieces = 0, moves = 0, holes = 0, truth = 0;

	for (size_t i = 0; i < n_threads; i++) {
		n += threads[i].decode.total > 0;
		shown += threads[i].decode.total;
		truth += threads[i].truth.total;
		moves += count_moves(&threads[i], &all_pieces);
		holes += threads[i].n_holes;
	}
	printf("%" PRIu64 " equal, threads %" PRIu64 ", pieces %" PRIu64 ", moves %" PRIu64, shown, n, all_pieces,
	       moves);
	if (missing)
		printf(", missing at the beginning %" PRIu64, missing);
	if (options.holey) {
		printf(", holes %" PRIu64 ", not shown %" PRIu64 " in %zu pages", holes, truth - shown, n_left_out);
		for (size_t i = 0; i < MIN(n_left_out, (size_t)PAGES_PRINTED); i++)
			printf(" %" PRIx64, left_out[i]);
	}
	printf("\n");
}

static bool read_range(struct ranges *r, const char *text)
{
	return r->n < EXCLUDED && sscanf(text, "%" SCNx64 ":%" SCNx64, &r->all[r->n][0], &r->all[r->n][1]) == 2 &&
	       ++r->n;
}

static bool read_options(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "p:a:t:wfgx:")) != -1) {
		switch (option) {
		case 'p':
			options.pid = (uint32_t)strtoul(optarg, NULL, 10);
			break;
		case 'a':
			options.armed = strtoull(optarg, NULL, 10);
			break;
		case 't':
			options.alignment.windowed = true;
			if (sscanf(optarg, "%" SCNu64 ":%" SCNu64, &options.alignment.frozen_from,
				   &options.alignment.frozen_to) != 2)
				return false;
			break;
		case 'w':
			options.alignment.wrapped = true;
			break;
		case 'f':
			options.pausing = true;
			break;
		case 'g':
			options.holey = true;
			break;
		case 'x':
			if (!read_range(&options.excluded, optarg))
				return false;
			break;
		default:
			return false;
		}
	}
	return argc - optind == 1 || argc - optind == 2;
}

int main(int argc, char **argv)
{
	uint64_t missing = 0;
	bool good;

	if (!read_options(argc, argv)) {
		fprintf(stderr, "usage: compare [-p PID] [-a TIME] [-t FROM:TO] [-w] [-f] [-g] [-x START:END]... "
				"LOG [TID] <DECODE\n");
		return 2;
	}
	good = read_decode(stdin, argc - optind == 2 ? strtol(argv[optind + 1], NULL, 10) : -1);
	read_truth(argv[optind]);
	for (size_t i = 0; i < n_threads; i++) {
		const struct thread *t = &threads[i];

		if (t->decoded && !t->n_pieces) {
			printf("thread %u is not in the truth%s\n", t->tid, options.pid ? " of the process" : "");
			good = false;
		} else if (options.holey && !compare_parts(t)) {
			good = false;
		}
	}
	if (good && !options.holey)
		good = compare_aligned(&missing);
	if (good && !executed) {
		printf("nothing ran\n");
		good = false;
	}
	if (good && !n_decoded) {
		printf("nothing was decoded\n");
		good = false;
	}
	if (good)
		print_summary(missing);
	return !good;
}
