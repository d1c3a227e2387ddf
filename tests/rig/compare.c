/* SPDX-License-Identifier: MIT */
/*
 * Compares a decode with the truth log of the virtual machine (tests/rig/shared.h), instruction by instruction.
 *
 *   compare [-p PID] [-a TIME] [-t FROM:TO] [-w] [-e] [-g] [-x START:END]... [-X START:END]... LOG [TID] <DECODE
 *
 * DECODE: output of `csight decode --to pcs`, or of --to elements --by-thread, which includes gaps. TID: the decode is
 * of this thread, whatever its headings. The instructions of each thread must be all those that it executed while it
 * was traced, in order, on any CPU.
 *
 *   -p: the decode must contain every thread of this process and no other.
 *   -a: the process was armed at this value of the virtual counter, while stopped: earlier execution is not expected.
 *   -t: it was frozen between these values of the virtual counter: later execution is not expected.
 *   -w: rings wrapped: the beginning may be missing, for each CPU its own, so that there may be gaps until the
 *       last of them begins.
 *   -e: the end may be missing.
 *   -g: there may be gaps: the parts between them must be in the truth, in order. Prints what is missing.
 *   -x: addresses without an image, excluded from both.
 *   -X: execution here must not be in the decode; excluded from the truth, and counted.
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

#include "lib/base/util.h"
#include "tests/rig/shared.h"

enum { EXCLUDED = 16, AROUND = 5, TID_MAX = 1 << 24, PAGES_PRINTED = 8, PAGE = 4096, RECORDS = 4096 };
/* For a ring that wrapped, length of the truth that is searched per decoded instruction. */
enum { REACH = 4, REACH_LEAST = 1 << 20 };

struct list {
	uint64_t *all;
	size_t n, room;
};

/* The instructions that a thread executed on one CPU between two marks. */
struct piece {
	uint64_t begun, ended;
	unsigned cpu;
	uint32_t tid;
	off_t from, to; /* positions in the log */
	uint64_t n;     /* instructions */
};

struct thread {
	uint32_t tid;
	bool decoded;
	struct list decode, holes; /* holes: number of decoded instructions before each gap */
	struct list truth;
	/* number of instructions executed when tracing stopped or the thread left a CPU, and when */
	struct list cuts, cut_times;
	struct list cut_cpus; /* CPU until then */
	uint64_t pieces, moves;
	uint64_t n, passed_over; /* executed instructions; those at the beginning that are not in truth */
};

static struct {
	uint32_t pid;
	bool windowed, wrapped, unended, holey;
	uint64_t armed, frozen_from, frozen_to;
	struct ranges {
		uint64_t all[EXCLUDED][2];
		unsigned n;
	} excluded, hidden;
} options;

static struct thread *threads;
static size_t n_threads;
static uint32_t index_of[TID_MAX]; /* index plus one */
static struct piece *pieces;
static size_t n_pieces, pieces_room;
static uint64_t executed, hidden, n_decoded;

static void *more_of(void *all, size_t n, size_t *room, size_t size)
{
	if (n < *room)
		return all;
	*room = *room ? *room * 2 : 1024;
	all = reallocarray(all, *room, size);
	if (!all)
		abort();
	return all;
}

static void add(struct list *l, uint64_t v)
{
	l->all = more_of(l->all, l->n, &l->room, sizeof(*l->all));
	l->all[l->n++] = v;
}

static struct thread *thread_of(uint32_t tid)
{
	static size_t room;

	tid %= TID_MAX;
	if (!index_of[tid]) {
		threads = more_of(threads, n_threads, &room, sizeof(*threads));
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

static void decoded(struct thread *t, uint64_t pc)
{
	t->decoded = true;
	n_decoded++;
	if (!is_in(&options.excluded, pc))
		add(&t->decode, pc);
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
		if (sscanf(line, "%*x range %" SCNx64 " %" SCNx64 " %" SCNu32, &start, &end, &count) == 3) {
			for (uint32_t i = 0; i < count; i++)
				decoded(t, start + 4 * i);
		} else if (strstr(line, " no-sync ") || strstr(line, " no-image ") ||
			   strstr(line, " unknown-address") || strstr(line, " range-nopath ")) {
			/* Adjacent gaps, and gaps before the first instruction, separate nothing. */
			if (t->decode.n && (!t->holes.n || t->holes.all[t->holes.n - 1] != t->decode.n))
				add(&t->holes, t->decode.n);
		} else if (!strchr(line, ' ')) {
			decoded(t, strtoull(line, NULL, 16));
		}
	}
	return true;
}

/* Returns false if this piece and all later ones began after the freeze. */
static bool end_piece(struct piece *p, off_t at, uint64_t time)
{
	p->to = at;
	p->ended = time;
	if (options.windowed && p->begun > options.frozen_to)
		return false;
	if (p->tid && p->begun >= options.armed) {
		pieces = more_of(pieces, n_pieces, &pieces_room, sizeof(*pieces));
		pieces[n_pieces++] = *p;
		thread_of(p->tid)->n += p->n;
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
	uint32_t tid = 0;
	off_t at = 0;

	for (; fread(&record, sizeof(record), 1, f) == 1; at += (off_t)sizeof(record)) {
		if (!(record.start & RIG_MARK)) {
			piece.n += record.count;
			continue;
		}
		if (!end_piece(&piece, at, record.count))
			return;
		if (RIG_MARK_TYPE(record.start) == RIG_MARK_SWITCH) {
			uint32_t pid = (uint32_t)(record.start >> 24 & 0xffffff);

			tid = (uint32_t)(record.start & 0xffffff);
			tid = is_selected(tid, pid) ? tid : 0;
		}
		piece =
		    (struct piece){ .begun = record.count, .cpu = cpu, .tid = tid, .from = at + (off_t)sizeof(record) };
	}
	end_piece(&piece, at, UINT64_MAX);
}

static int by_time(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	if (x->begun != y->begun)
		return x->begun < y->begun ? -1 : 1;
	return x->from < y->from ? -1 : x->from > y->from;
}

static void add_instructions(struct thread *t, const struct rig_truth *record)
{
	for (uint64_t i = 0; i < record->count; i++) {
		uint64_t pc = record->start + 4 * i;

		if (is_in(&options.hidden, pc))
			hidden++;
		else if (!is_in(&options.excluded, pc))
			add(&t->truth, pc);
	}
}

static void read_piece(struct thread *t, const struct piece *p, int fd)
{
	static struct rig_truth records[RECORDS];

	for (off_t at = p->from; at < p->to;) {
		size_t size = MIN((size_t)(p->to - at), sizeof(records));

		if (pread(fd, records, size, at) != (ssize_t)size)
			abort();
		for (size_t i = 0; i < size / sizeof(*records); i++)
			add_instructions(t, &records[i]);
		at += (off_t)size;
	}
	add(&t->cuts, t->truth.n);
	add(&t->cut_times, p->ended);
	add(&t->cut_cpus, p->cpu);
}

/* A ring that wrapped cannot hold anything so old. */
static bool is_too_old(const struct thread *t, const struct piece *p)
{
	return options.wrapped && t->n - t->passed_over - p->n > REACH * t->decode.n + REACH_LEAST && !t->truth.n;
}

/* Collects the instructions of each thread in the order of execution. */
static void read_truth(const char *dir)
{
	FILE *logs[RIG_CPUS] = { 0 };
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
		const struct piece *p = &pieces[i];
		struct thread *t = thread_of(p->tid);
		static unsigned last_cpu[TID_MAX];

		if (is_too_old(t, p))
			t->passed_over += p->n;
		else
			read_piece(t, p, fileno(logs[p->cpu]));
		if (!p->n)
			continue;
		t->pieces++;
		t->moves += last_cpu[t->tid] && last_cpu[t->tid] != p->cpu + 1;
		last_cpu[t->tid] = p->cpu + 1;
	}
	for (size_t i = 0; i < RIG_CPUS; i++)
		if (logs[i])
			fclose(logs[i]);
}

static void print_around(const char *what, const struct list *l, size_t n, size_t at)
{
	printf("  %s:", what);
	for (size_t i = at > AROUND ? at - AROUND : 0; i < MIN(n, at + AROUND); i++)
		printf(i == at ? " [%" PRIx64 "]" : " %" PRIx64, l->all[i]);
	printf("%s\n", at >= n ? " end" : "");
}

static void print_difference(const char *from, const struct thread *t, size_t n_truth, size_t decode, size_t truth)
{
	printf("%s, they differ at instruction %zu of the truth:\n", from, truth);
	print_around("decoded", &t->decode, t->decode.n, decode);
	print_around("truth  ", &t->truth, n_truth, truth);
}

/* Returns the end of a piece of the truth, not after n, at which these instructions end; SIZE_MAX: none. */
static size_t find_back(const struct thread *t, size_t n, const uint64_t *what, size_t size)
{
	for (size_t i = t->cuts.n; i-- > 0;) {
		size_t end = t->cuts.all[i];

		if (end <= n && end >= size && memcmp(t->truth.all + end - size, what, size * sizeof(uint64_t)) == 0)
			return end;
	}
	return SIZE_MAX;
}

/*
 * True if the parts between the gaps are in the truth in order, the last of them at n, and no CPU has a gap after its
 * first decoded instruction.
 */
static bool is_end_with_holes(const struct thread *t, size_t n)
{
	size_t to = t->decode.n, last = n, piece = t->cuts.n;
	uint64_t complete = 0; /* bit mask of CPUs that have nothing before the current position */

	for (size_t i = t->holes.n + 1; i-- > 0;) {
		size_t from = i ? t->holes.all[i - 1] : 0, end;

		end = find_back(t, last, t->decode.all + from, to - from);
		if (end == SIZE_MAX || (to == t->decode.n && end != n))
			return false;
		/* Walk backwards over the missing pieces. */
		while (piece > 0 && t->cuts.all[piece - 1] > end) {
			size_t begin = piece > 1 ? t->cuts.all[piece - 2] : 0;

			if (begin < MIN(last, t->cuts.all[piece - 1]))
				complete |= 1ull << t->cut_cpus.all[piece - 1];
			piece--;
		}
		last = end - (to - from);
		for (size_t k = piece; k > 0 && t->cuts.all[k - 1] > last; k--) {
			size_t begin = k > 1 ? t->cuts.all[k - 2] : 0;

			if (begin < t->cuts.all[k - 1] && complete >> t->cut_cpus.all[k - 1] & 1)
				return false;
		}
		to = from;
	}
	return true;
}

/* True if the decode equals the truth up to n, or (with -w) the end of it. */
static bool is_end(const struct thread *t, size_t n)
{
	size_t own = t->decode.n;

	if (options.wrapped ? own > n : own != n)
		return false;
	if (options.wrapped && t->holes.n)
		return is_end_with_holes(t, n);
	return !own || memcmp(t->decode.all, t->truth.all + (n - own), own * sizeof(uint64_t)) == 0;
}

/* Finds the number of instructions that the thread had executed under trace at the freeze. */
static bool find_end(const struct thread *t, size_t *ret)
{
	size_t last = 0;

	*ret = t->truth.n;
	if (!options.windowed)
		return is_end(t, t->truth.n);
	for (size_t i = 0; i < t->cuts.n; i++) {
		uint64_t time = t->cut_times.all[i];

		if (time < options.frozen_from)
			last = t->cuts.all[i];
		else if (time <= options.frozen_to && is_end(t, t->cuts.all[i]))
			return *ret = t->cuts.all[i], true;
		if (time <= options.frozen_to)
			*ret = t->cuts.all[i];
	}
	if (!is_end(t, last))
		return false;
	*ret = last;
	return true;
}

/* True if only the end is missing from the decode. */
static bool lacks_end(const struct thread *t, uint64_t *missing)
{
	if (t->holes.n || t->decode.n > t->truth.n ||
	    memcmp(t->decode.all, t->truth.all, t->decode.n * sizeof(uint64_t)) != 0)
		return false;
	*missing += t->truth.n - t->decode.n;
	return true;
}

static size_t find(const struct list *truth, size_t from, const uint64_t *what, size_t n)
{
	for (size_t i = from; i + n <= truth->n; i++)
		if (truth->all[i] == *what && memcmp(truth->all + i, what, n * sizeof(*what)) == 0)
			return i;
	return SIZE_MAX;
}

static struct list left_out; /* pages missing from the decode */

static void leave_out(const struct thread *t, size_t from, size_t to)
{
	for (; from < to; from++) {
		uint64_t page = t->truth.all[from] & ~(uint64_t)(PAGE - 1);
		size_t i = 0;

		while (i < left_out.n && left_out.all[i] != page)
			i++;
		if (i == left_out.n)
			add(&left_out, page);
	}
}

static bool compare_parts(const struct thread *t)
{
	size_t at = 0, from = 0;

	for (size_t i = 0; i <= t->holes.n; i++) {
		size_t to = i < t->holes.n ? t->holes.all[i] : t->decode.n;
		size_t found = from < to ? find(&t->truth, at, t->decode.all + from, to - from) : at;

		if (found == SIZE_MAX) {
			printf("thread %u: part %zu of %zu, of %zu instructions, is not in the truth:\n", t->tid, i + 1,
			       t->holes.n + 1, to - from);
			print_around("decoded", &t->decode, t->decode.n, from);
			print_around("truth  ", &t->truth, t->truth.n, at);
			return false;
		}
		leave_out(t, at, found);
		at = found + (to - from);
		from = to;
	}
	return true;
}

struct missing {
	uint64_t before, after;
};

static bool compare_thread(const struct thread *t, struct missing *missing)
{
	size_t same = 0, last = 0, n;

	if (options.holey)
		return compare_parts(t);
	if (find_end(t, &n) && (!t->holes.n || options.wrapped)) {
		missing->before += t->passed_over + n - t->decode.n;
		return true;
	}
	if (options.unended && t->decode.n && lacks_end(t, &missing->after))
		return true;
	printf("thread %u: decoded %zu with %zu holes, the truth has %zu of %zu in %" PRIu64 " pieces: DIFFERENT\n",
	       t->tid, t->decode.n, t->holes.n, n, t->truth.n, t->pieces);
	while (same < MIN(t->decode.n, n) && t->decode.all[same] == t->truth.all[same])
		same++;
	print_difference("from the start", t, n, same, same);
	while (last < MIN(t->decode.n, n) && t->decode.all[t->decode.n - 1 - last] == t->truth.all[n - 1 - last])
		last++;
	if (last < MIN(t->decode.n, n))
		print_difference("from the end", t, n, t->decode.n - 1 - last, n - 1 - last);
	for (size_t i = 0; i < MIN(t->holes.n, (size_t)AROUND); i++)
		print_difference("hole", t, n, t->holes.all[i], t->holes.all[i]);
	return false;
}

static void print_summary(struct missing missing)
{
	uint64_t shown = 0, n = 0, all_pieces = 0, moves = 0, holes = 0, truth = 0;

	for (size_t i = 0; i < n_threads; i++) {
		n += threads[i].decode.n > 0;
		shown += threads[i].decode.n;
		truth += threads[i].truth.n + threads[i].passed_over;
		all_pieces += threads[i].pieces;
		moves += threads[i].moves;
		holes += threads[i].holes.n;
	}
	printf("%" PRIu64 " equal, threads %" PRIu64 ", pieces %" PRIu64 ", moves %" PRIu64, shown, n, all_pieces,
	       moves);
	if (missing.before)
		printf(", missing at the beginning %" PRIu64, missing.before);
	if (missing.after)
		printf(", missing at the end %" PRIu64, missing.after);
	if (options.hidden.n)
		printf(", hidden %" PRIu64, hidden);
	if (options.holey) {
		printf(", holes %" PRIu64 ", not shown %" PRIu64 " in %zu pages", holes, truth - shown, left_out.n);
		for (size_t i = 0; i < MIN(left_out.n, (size_t)PAGES_PRINTED); i++)
			printf(" %" PRIx64, left_out.all[i]);
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

	while ((option = getopt(argc, argv, "p:a:t:wegx:X:")) != -1) {
		switch (option) {
		case 'p':
			options.pid = (uint32_t)strtoul(optarg, NULL, 10);
			break;
		case 'a':
			options.armed = strtoull(optarg, NULL, 10);
			break;
		case 't':
			options.windowed = true;
			if (sscanf(optarg, "%" SCNu64 ":%" SCNu64, &options.frozen_from, &options.frozen_to) != 2)
				return false;
			break;
		case 'w':
			options.wrapped = true;
			break;
		case 'g':
			options.holey = true;
			break;
		case 'e':
			options.unended = true;
			break;
		case 'x':
		case 'X':
			if (!read_range(option == 'x' ? &options.excluded : &options.hidden, optarg))
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
	struct missing missing = { 0 };
	bool good;

	if (!read_options(argc, argv)) {
		fprintf(stderr, "usage: compare [-p PID] [-a TIME] [-t FROM:TO] [-w] [-e] [-g] [-x|-X START:END]... "
				"LOG [TID] <DECODE\n");
		return 2;
	}
	good = read_decode(stdin, argc - optind == 2 ? strtol(argv[optind + 1], NULL, 10) : -1);
	read_truth(argv[optind]);
	for (size_t i = 0; i < n_threads; i++) {
		const struct thread *t = &threads[i];

		if (t->decoded && !t->pieces) {
			printf("thread %u is not in the truth%s\n", t->tid, options.pid ? " of the process" : "");
			good = false;
		} else if (!compare_thread(t, &missing)) {
			good = false;
		}
	}
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
