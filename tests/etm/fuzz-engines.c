/* SPDX-License-Identifier: MIT */
/*
 * Compares both engines on the same bytes, element for element: mutated real traces and mutated synthetic ones
 * (generate.h); and the native engine with the expected elements of synthetic traces that are not mutated.
 *
 *   fuzz-engines [--seconds N] [--seed N] [--known FILE] [--save DIR] [INPUT...]     inputs of trace_load()
 *   fuzz-engines [--known FILE] [--show CASE]... [INPUT...]                          prints a saved case
 *
 * Each engine runs in a process of its own, which is restarted after a crash or a timeout. A difference that no known
 * mistake explains (tests/etm/opencsd-mistakes describes the list) is reduced and saved in DIR, and the exit status is
 * 1. Crashes and hangs of the native engine count as differences; those of OpenCSD are only counted. Seconds are
 * processor time of all processes.
 */
#include "config.h"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/util.h"
#include "tests/etm/fuzz-engines.h"

enum {
	TEXT_MAX = 8 << 20,
	LINES_MAX = TEXT_MAX / 16,
	RUNS_OF_A_WORKER = 2000, /* a process is replaced after so many, as OpenCSD leaks memory with each tree */
	BATCH = 100,
	LIMIT_CPU = 10, /* seconds of processor time for a job; and of wall time, for a busy machine: */
	LIMIT = 600,
	SMALLER_TRIES = 600,
	ZEROS = 0xff,
	OTHERS = 0x55,
	ONE = 1, /* tasks of a process */
	MANY = 2,
};

struct answer {
	int rc;
	bool full;
	size_t size, n;
	char text[TEXT_MAX];         /* lines */
	uint32_t offsets[LINES_MAX]; /* of each line */
};

/* The result of one job of a batch, without its lines. */
struct outcome {
	uint64_t hash;
	size_t size; /* of the job */
	int rc;
	bool full, against_truth;
};

/*
 * Jobs by consecutive seeds that each process makes and runs by itself: with one job at a time the processes would
 * spend most of their time waiting for each other.
 */
struct batch {
	uint64_t seed;
	unsigned n, done;
	struct outcome outcomes[BATCH];
};

struct worker {
	const struct engine_ops *ops;
	struct answer *answer;
	struct batch *batch;
	int to, from; /* pipes; -1: not running */
	pid_t pid;
	unsigned runs;
	int fill; /* byte, inverted, that fresh memory is filled with */
	uint64_t crashes, hangs;
};

static struct job *job;
static struct worker reference = { .ops = &opencsd_engine_ops, .to = -1, .fill = ZEROS };
static struct worker subject = { .ops = &native_engine_ops, .to = -1, .fill = OTHERS };

static int write_line(void *user, const struct element *e)
{
	struct answer *a = user;

	if (a->size + 300 > TEXT_MAX || a->n == LINES_MAX) {
		a->full = true;
		return -ENOBUFS;
	}
	a->offsets[a->n++] = (uint32_t)e->offset;
	a->size += element_format(e, a->text + a->size, 256);
	a->text[a->size++] = '\n';
	return 0;
}

static void answer_with_truth(struct answer *a)
{
	struct generated made;

	generate(job->seed, job->made_size, job->without, &made);
	for (size_t i = 0; i < made.n_truth; i++)
		write_line(a, &made.truth[i]);
	generated_done(&made);
	a->rc = 0;
}

/* Runs an engine; for a synthetic trace that is not mutated, the expected elements replace OpenCSD's. */
static void work(const struct engine_ops *ops, struct answer *a)
{
	const struct element_sink sink = { .element = write_line, .user = a };
	struct job_memory memory;
	uint64_t chunks = job->chunks;
	struct engine *e = NULL;
	int rc;

	a->size = a->n = 0;
	a->full = false;
	if (job->against_truth && ops == &opencsd_engine_ops) {
		answer_with_truth(a);
		return;
	}
	job_memory(job, &memory);
	rc = ops->open(&job->config, &memory.memory, &sink, &e);
	for (size_t at = 0; rc == 0 && at < job->size;) {
		size_t n = job->size - at;

		if (chunks) {
			chunks = chunks * 6364136223846793005u + 1442695040888963407u;
			n = MIN(n, (size_t)1 + (chunks >> 33) % (chunks >> 62 ? 37 : 4000));
		}
		rc = ops->push(e, job->bytes + at, n);
		at += n;
	}
	if (rc == 0)
		rc = ops->finish(e);
	ops->close(e);
	job_memory_done(&memory);
	a->rc = rc;
}

static uint64_t hash_of(const struct answer *a)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (size_t i = 0; i < a->size; i++)
		hash = (hash ^ (uint8_t)a->text[i]) * 0x100000001b3;
	return hash;
}

static void work_batch(const struct engine_ops *ops, struct answer *a, struct batch *b)
{
	static struct job own;
	struct job *common = job;

	job = &own;
	for (b->done = 0; b->done < b->n; b->done++) {
		job_make(job, b->seed + b->done);
		work(ops, a);
		b->outcomes[b->done] = (struct outcome){ hash_of(a), job->size, a->rc, a->full, job->against_truth };
	}
	job = common;
}

static void serve(const struct worker *w, int from, int to)
{
	char byte;

	while (read(from, &byte, 1) == 1) {
		if (byte == ONE)
			work(w->ops, w->answer);
		else
			work_batch(w->ops, w->answer, w->batch);
		if (write(to, &byte, 1) != 1)
			break;
	}
	_exit(0);
}

static void end_worker(struct worker *w)
{
	if (w->to < 0)
		return;
	kill(w->pid, SIGKILL);
	close(w->to);
	close(w->from);
	waitpid(w->pid, NULL, 0);
	w->to = -1;
}

static void begin_worker(struct worker *w)
{
	int there[2], back[2];

	if (pipe2(there, O_CLOEXEC) < 0 || pipe2(back, O_CLOEXEC) < 0)
		abort();
	w->pid = fork();
	if (w->pid == 0) {
		close(there[1]);
		close(back[0]);
		mallopt(M_PERTURB, w->fill);
		serve(w, there[0], back[1]);
	}
	close(there[0]);
	close(back[1]);
	w->to = there[1];
	w->from = back[0];
	w->runs = 0;
}

static void start(struct worker *w, char task)
{
	w->runs += task == MANY ? w->batch->n : 1;
	if (w->to >= 0 && w->runs > RUNS_OF_A_WORKER)
		end_worker(w);
	if (w->to < 0)
		begin_worker(w);
	if (write(w->to, &task, 1) != 1)
		abort();
}

/* The processor time of a process, in ns. */
static uint64_t time_of(const struct worker *w)
{
	clockid_t clock;

	return w->to >= 0 && clock_getcpuclockid(w->pid, &clock) == 0 ? now_ns(clock) : 0;
}

/* Waits for a result; false: the process crashed, or exceeded its time. */
static bool wait_for(struct worker *w)
{
	struct pollfd answer = { w->from, POLLIN, 0 };
	uint64_t since = time_of(w);
	unsigned done = w->batch->done, waited = 0;
	char byte;
	int rc;

	while ((rc = poll(&answer, 1, 1000)) == 0 && time_of(w) - since <= LIMIT_CPU * 1000000000ull &&
	       waited++ < LIMIT)
		if (w->batch->done != done) {
			since = time_of(w);
			done = w->batch->done;
			waited = 0;
		}
	if (rc == 0)
		w->hangs++;
	else if (read(w->from, &byte, 1) == 1)
		return true;
	else
		w->crashes++;
	end_worker(w);
	return false;
}

static bool run(struct worker *w)
{
	start(w, ONE);
	return wait_for(w);
}

static void copy_line(char to[256], const char *from, const char *end)
{
	const char *newline = memchr(from, '\n', (size_t)(end - from));
	size_t n = MIN((size_t)((newline ? newline : end) - from), (size_t)255);

	memcpy(to, from, n);
	to[n] = 0;
}

static struct difference compare(const struct answer *theirs, const struct answer *ours)
{
	struct difference d = { 0 };
	const char *a = theirs->text, *a_end = a + theirs->size, *b = ours->text, *b_end = b + ours->size,
		   *before = NULL;
	uint32_t offsets[2];
	size_t n = 0;

	if (theirs->full || ours->full)
		return d;
	while (a < a_end && b < b_end) {
		const char *a_next = memchr(a, '\n', (size_t)(a_end - a)),
			   *b_next = memchr(b, '\n', (size_t)(b_end - b));

		if (a_next - a != b_next - b || memcmp(a, b, (size_t)(a_next - a)) != 0)
			break;
		before = a;
		a = a_next + 1;
		b = b_next + 1;
		n++;
	}
	offsets[0] = n < theirs->n ? theirs->offsets[n] : UINT32_MAX;
	offsets[1] = n < ours->n ? ours->offsets[n] : UINT32_MAX;
	d.from = MIN(offsets[0], offsets[1]);
	d.to = MAX(offsets[0], offsets[1]);
	d.there = a < a_end || b < b_end;
	copy_line(d.theirs, a, a_end);
	copy_line(d.ours, b, b_end);
	if (before)
		copy_line(d.before, before, a_end);
	while (b < b_end && strncmp(b, "no-sync ", 8) != 0 && strncmp(b, "end ", 4) != 0)
		b = (const char *)memchr(b, '\n', (size_t)(b_end - b)) + 1;
	copy_line(d.then, b, b_end);
	return d;
}

/* UNSTEADY: OpenCSD's elements depend on uninitialised memory. */
enum verdict { SAME, EXPLAINED, THEIR_CRASH, UNSTEADY, BEYOND, DIFFERENT, OUR_CRASH, VERDICTS };
static const char *const verdicts[VERDICTS] = {
	"same", "explained", "crashes of OpenCSD", "unsteady OpenCSD", "beyond native", "DIFFERENT", "CRASHES"
};

static enum verdict judge(struct difference *ret)
{
	*ret = (struct difference){ 0 };
	if (!run(&subject))
		return OUR_CRASH;
	if (subject.answer->rc == -EOPNOTSUPP && !job->against_truth)
		return BEYOND;
	if (!run(&reference))
		return THEIR_CRASH;
	*ret = compare(reference.answer, subject.answer);
	if (!ret->there)
		return SAME;
	if (job->against_truth)
		return DIFFERENT;
	return mistakes_explain(job, ret) ? EXPLAINED : DIFFERENT;
}

/* Runs a differing job with two fill bytes: elements of OpenCSD that depend on them cannot be compared. */
static enum verdict judge_again(struct difference *d)
{
	struct difference other;
	uint64_t ours = hash_of(subject.answer), theirs = hash_of(reference.answer);
	enum verdict v;

	end_worker(&reference);
	end_worker(&subject);
	reference.fill = OTHERS;
	subject.fill = ZEROS;
	v = judge(&other);
	end_worker(&reference);
	end_worker(&subject);
	reference.fill = ZEROS;
	subject.fill = OTHERS;
	if (hash_of(subject.answer) != ours) {
		strcpy(d->before, "(the native engine does not always say the same)");
		return DIFFERENT;
	}
	return v == DIFFERENT && hash_of(reference.answer) == theirs ? DIFFERENT : UNSTEADY;
}

/* Reduces the job while it keeps the verdict and the kinds of the elements that differ. */
static void make_smaller(enum verdict wanted, const struct difference *first)
{
	static uint8_t kept[BYTES_MAX];
	size_t size = job->size;
	unsigned tries = job->against_truth ? SMALLER_TRIES : 0;

	memcpy(kept, job->bytes, size);
	for (size_t piece = size / 2; piece && tries < SMALLER_TRIES;) {
		bool shrunk = false;

		for (size_t at = 0; at + piece <= size && tries < SMALLER_TRIES; tries++) {
			struct difference d;

			memcpy(job->bytes, kept, at);
			memcpy(job->bytes + at, kept + at + piece, size - at - piece);
			job->size = size - piece;
			if (judge(&d) == wanted && (wanted != DIFFERENT || judge_again(&d) == wanted) &&
			    strcspn(d.theirs, " ") == strcspn(first->theirs, " ") &&
			    strncmp(d.theirs, first->theirs, strcspn(d.theirs, " ")) == 0 &&
			    strncmp(d.ours, first->ours, strcspn(first->ours, " ")) == 0) {
				size -= piece;
				memcpy(kept, job->bytes, size);
				shrunk = true;
			} else {
				at += piece;
			}
		}
		if (!shrunk || piece > size)
			piece /= 2;
	}
	memcpy(job->bytes, kept, size);
	job->size = size;
}

static void save(const char *dir, uint64_t seed, enum verdict verdict, const struct difference *d)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s-%llx", dir, verdict == OUR_CRASH ? "crash" : "different",
		 (unsigned long long)seed);
	f = fopen(path, "we");
	if (!f)
		return;
	fprintf(f, "# seed %llx\n# before:  %s\n# OpenCSD: %s\n# native:  %s\n", (unsigned long long)seed, d->before,
		d->theirs, d->ours);
	job_write(job, f);
	fclose(f);
	printf("%s: before: %s\n   OpenCSD: %s\n   native:  %s\n", path, d->before, d->theirs, d->ours);
	fflush(stdout);
}

static int show(const char *path)
{
	const char *mistake;
	struct difference d;
	enum verdict v;
	int rc = job_read(job, path);

	if (rc < 0) {
		fprintf(stderr, "%s: %s (its input must be given, too)\n", path, strerror(-rc));
		return 1;
	}
	v = judge(&d);
	mistake = v == EXPLAINED ? mistakes_explain(job, &d) : NULL;
	printf("%s: %s%s%s\n%s\n--- OpenCSD, %d\n%.*s--- native, %d\n%.*s", path, verdicts[v], mistake ? ": " : "",
	       mistake ? mistake : "", mistakes_story(job, d.from, d.to), reference.answer->rc,
	       (int)reference.answer->size, reference.answer->text, subject.answer->rc, (int)subject.answer->size,
	       subject.answer->text);
	return v >= DIFFERENT;
}

static void *shared(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		abort();
	return p;
}

static enum verdict judge_alone(uint64_t seed, const char *dir)
{
	struct difference d;
	enum verdict v;

	job_make(job, seed);
	v = judge(&d);
	if (v == DIFFERENT)
		v = judge_again(&d);
	if (v >= DIFFERENT) {
		make_smaller(v, &d);
		judge(&d);
		save(dir, seed, v, &d);
	}
	return v;
}

/* The verdict on one job of a batch: SAME, BEYOND, or one that has to run alone for its lines. */
static enum verdict judge_outcomes(size_t i)
{
	const struct outcome *ours = &subject.batch->outcomes[i], *theirs = &reference.batch->outcomes[i];

	if (i >= subject.batch->done || i >= reference.batch->done)
		return THEIR_CRASH;
	if (ours->rc == -EOPNOTSUPP && !ours->against_truth)
		return BEYOND;
	return ours->full || theirs->full || ours->hash == theirs->hash ? SAME : DIFFERENT;
}

static void run_batch(uint64_t seed)
{
	struct worker *const workers[] = { &subject, &reference };

	for (size_t i = 0; i < ELEMENTS(workers); i++) {
		workers[i]->batch->seed = seed;
		workers[i]->batch->n = BATCH;
		workers[i]->batch->done = 0;
		start(workers[i], MANY);
	}
	for (size_t i = 0; i < ELEMENTS(workers); i++)
		wait_for(workers[i]);
}

/* Processor time of all processes, in seconds. */
static double seconds_spent(void)
{
	struct rusage ended;

	getrusage(RUSAGE_CHILDREN, &ended);
	return (double)(ended.ru_utime.tv_sec + ended.ru_stime.tv_sec) +
	       (double)(ended.ru_utime.tv_usec + ended.ru_stime.tv_usec) / 1e6 +
	       (double)(now_ns(CLOCK_PROCESS_CPUTIME_ID) + time_of(&subject) + time_of(&reference)) / 1e9;
}

static int fuzz(uint64_t seed, unsigned seconds, const char *dir)
{
	uint64_t counts[VERDICTS] = { 0 }, n = 0, bytes = 0;
	double begun = seconds_spent();

	for (; seconds_spent() - begun < seconds; seed += BATCH) {
		run_batch(seed);
		for (size_t i = 0; i < BATCH; i++) {
			enum verdict v = judge_outcomes(i);

			if (v != SAME && v != BEYOND)
				v = judge_alone(seed + i, dir);
			counts[v]++;
			n++;
			if (i < subject.batch->done)
				bytes += subject.batch->outcomes[i].size;
		}
	}
	printf("%llu streams, %.1f MB, %.0f s:", (unsigned long long)n, (double)bytes / 1e6, seconds_spent() - begun);
	for (size_t i = 0; i < VERDICTS; i++)
		printf(" %s %llu", verdicts[i], (unsigned long long)counts[i]);
	printf("\n");
	mistakes_print();
	return counts[DIFFERENT] || counts[OUR_CRASH];
}

int main(int argc, char **argv)
{
	const char *dir = ".", **shown = calloc((size_t)argc, sizeof(*shown));
	size_t n_shown = 0;
	unsigned seconds = 60;
	uint64_t seed = 1;
	int result = 0;

	if (!shown)
		return 2;
	/* The allocator does not fill memory that it returns from its thread caches, so these are disabled. */
	if (!getenv("GLIBC_TUNABLES") && setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1) == 0)
		execv("/proc/self/exe", argv);
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";

		if (strcmp(argv[i], "--seconds") == 0)
			seconds = (unsigned)strtoul(value, NULL, 0), i++;
		else if (strcmp(argv[i], "--seed") == 0)
			seed = strtoull(value, NULL, 0), i++;
		else if (strcmp(argv[i], "--save") == 0)
			dir = value, i++;
		else if (strcmp(argv[i], "--show") == 0)
			shown[n_shown++] = value, i++;
		else if (strcmp(argv[i], "--known") == 0 && mistakes_read(value) == 0)
			i++;
		else if (job_add_input(argv[i]) < 0)
			return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	job = shared(sizeof(*job));
	reference.answer = shared(sizeof(*reference.answer));
	subject.answer = shared(sizeof(*subject.answer));
	reference.batch = shared(sizeof(*reference.batch));
	subject.batch = shared(sizeof(*subject.batch));
	for (size_t i = 0; i < n_shown; i++)
		result |= show(shown[i]);
	if (!n_shown)
		result = fuzz(seed, seconds, dir);
	free(shown);
	end_worker(&reference);
	end_worker(&subject);
	job_drop_inputs();
	return result;
}
