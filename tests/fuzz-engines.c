/*
 * Both engines on the same bytes: mutated real traces and mutated made-up ones (generate.h), element for element; and
 * the native engine against the truth of made-up ones as they are.
 *
 *   fuzz-engines [--seconds N] [--seed N] [--known FILE] [--save DIR] [INPUT...]     inputs as trace.h has them
 *   fuzz-engines [--known FILE] [--show CASE]... [INPUT...]                          what was saved, line by line
 *
 * Each engine works in a process of its own, that is begun anew where it crashes or takes too long. A difference that
 * no mistake in the known list explains (tests/opencsd-mistakes tells of its form) is made small and saved in DIR: exit
 * status
 * 1. A crash or a hang of the native engine is one, too; those of OpenCSD are counted.
 */
#include "config.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/buf.h"
#include "lib/base/util.h"
#include "lib/etm/packet.h"
#include "tests/generate.h"
#include "tests/trace.h"

enum {
	INPUTS = 64,
	BYTES_MAX = 1 << 16,
	TEXT_MAX = 8 << 20,
	LINES_MAX = TEXT_MAX / 16,
	STORY_MAX = BYTES_MAX * 48,
	RUNS_OF_A_WORKER = 2000, /* OpenCSD loses memory with each tree */
	BATCH = 100,
	LIMIT_MS = 10000,
	KNOWN_MAX = 64,
	SMALLER_TRIES = 600,
	/* What OpenCSD 1.3.3 does not know: such traces are compared with their truth alone. */
	NEW_FEATURES = GENERATE_COMPARE_BRANCHES | GENERATE_PAUTH_LR | GENERATE_RESETS | GENERATE_INSTRUMENTATION |
		       GENERATE_MARKERS | GENERATE_Q | GENERATE_RETURN_STACK,
	NO_INPUT = INPUTS,
	ZEROS = 0xff,
	OTHERS = 0x55,
	ONE = 1, /* tasks of a worker */
	MANY = 2,
};

/* What an engine is given, in memory that all processes share. */
struct job {
	struct engine_config config;
	uint32_t input; /* whose code it is; NO_INPUT: that of a made-up trace */
	uint64_t seed;  /* of that */
	uint32_t made_size, without;
	bool against_truth;
	uint32_t chunks; /* seed of the sizes it is pushed in; 0: at once */
	size_t size;
	uint8_t bytes[BYTES_MAX];
};

struct answer {
	int rc;
	bool full;
	size_t size, n;
	char text[TEXT_MAX];	     /* lines */
	uint32_t offsets[LINES_MAX]; /* of each */
};

/* What is known of each of some jobs without their lines. */
struct outcome {
	uint64_t hash;
	size_t size; /* of the job */
	int rc;
	bool full, against_truth;
};

/* By turns the processes would wait for each other more than they work: one job after another by its seed, each on its own. */
struct batch {
	uint64_t seed;
	unsigned n, done;
	struct outcome outcomes[BATCH];
};

struct worker {
	const struct engine_ops *ops;
	struct answer *answer;
	struct batch *batch;
	int to, from; /* pipes; -1: it is not running */
	pid_t pid;
	unsigned runs;
	int fill; /* of memory that it gets, inverted */
	uint64_t crashes, hangs;
};

struct input {
	struct trace trace;
	const char *path;
	size_t *syncs, n_syncs;
};

/* A mistake of OpenCSD's: patterns of what each side says first, where they differ. */
struct mistake {
	char name[256], theirs[256], ours[256], before[256], then[256], packets[256];
	bool anywhere; /* two ranges may begin at different places */
	bool longer;   /* OpenCSD's range goes on behind ours */
	uint64_t seen;
};

static struct input inputs[INPUTS];
static size_t n_inputs;
static struct job *job;
static struct worker reference = { .ops = &engine_opencsd, .to = -1, .fill = ZEROS };
static struct worker subject = { .ops = &engine_native, .to = -1, .fill = OTHERS };
static struct mistake known[KNOWN_MAX];
static size_t n_known;
static uint64_t state;

static void make_job(void);

static uint64_t draw(void)
{
	state += 0x9e3779b97f4a7c15;
	uint64_t z = state;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static size_t below(size_t n)
{
	return n ? draw() % n : 0;
}

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

static uint64_t same_version(void *user, const struct engine_context *context)
{
	return 0;
}

static void tell_truth(struct answer *a)
{
	struct generated made;

	generate(job->seed, job->made_size, job->without, &made);
	for (size_t i = 0; i < made.n_truth; i++)
		write_line(a, &made.truth[i]);
	generated_done(&made);
	a->rc = 0;
}

/* In place of OpenCSD's, the truth where there is one. */
static void work(const struct engine_ops *ops, struct answer *a)
{
	const struct element_sink sink = { .element = write_line, .user = a };
	struct engine_memory memory = { generate_read, same_version, false, NULL };
	struct generated made = { 0 };
	uint64_t chunks = job->chunks;
	struct engine *e = NULL;
	int rc;

	a->size = a->n = 0;
	a->full = false;
	if (job->against_truth && ops == &engine_opencsd) {
		tell_truth(a);
		return;
	}
	if (job->input == NO_INPUT) {
		generate(job->seed, job->made_size, job->without, &made);
		memory.user = made.code;
	} else {
		memory = inputs[job->input].trace.memory;
	}
	rc = ops->open(&job->config, &memory, &sink, &e);
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
	generated_done(&made);
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
		state = b->seed + b->done;
		make_job();
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

/* False: it crashed, or took too long. */
static bool wait_for(struct worker *w)
{
	struct pollfd answer = { w->from, POLLIN, 0 };
	unsigned done;
	char byte;
	int rc;

	do {
		done = w->batch->done;
		rc = poll(&answer, 1, LIMIT_MS);
	} while (rc == 0 && w->batch->done != done);
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

/* The first lines that differ; "" where a side has ended. */
struct difference {
	bool there;
	uint32_t from, to; /* offsets of the two */
	char theirs[256], ours[256], before[256];
	char then[256]; /* where ours stops: the next line of losing synchronisation, or of the end */
};

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

/* Of two ranges the patterns alone would say little: both begin at the same place. */
static bool same_start(const struct difference *d)
{
	const char *theirs = d->theirs + 6, *ours = d->ours + 6;

	/* Of what it takes for A32 nothing is alike. */
	if (strncmp(d->theirs, "range ", 6) != 0 || strncmp(d->ours, "range ", 6) != 0 || strstr(d->theirs, " A32 "))
		return true;
	return strcspn(theirs, " ") == strcspn(ours, " ") && memcmp(theirs, ours, strcspn(ours, " ")) == 0;
}

static uint64_t end_of_range(const char *line)
{
	unsigned long long end = 0;

	return sscanf(line, "range %*x %llx", &end) == 1 ? end : 0;
}

static size_t find_sync(const uint8_t *bytes, size_t n)
{
	static const uint8_t sync[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80 };
	const uint8_t *at = memmem(bytes, n, sync, sizeof(sync));

	return at ? (size_t)(at - bytes) : n;
}

/* What P0 elements there are, the newest last, but that none of them goes by being committed. */
struct elements {
	size_t n;
	uint8_t kinds[BYTES_MAX * 24];
};

/* Whether a packet takes back a source address. */
static bool follow(struct elements *e, const struct packet *p)
{
	size_t n = 0;
	bool taken = false;

	switch (p->kind) {
	case PACKET_ATOMS:
	case PACKET_CANCEL:
		n = p->n_atoms;
		break;
	case PACKET_SOURCE:
	case PACKET_EXCEPTION:
	case PACKET_PE_RESET:
	case PACKET_Q:
		n = 1;
		break;
	case PACKET_TRANSACTION_START:
		n = !(job->config.idr0 & 1u << 30);
		break;
	case PACKET_ASYNC:
		e->n = 0;
		break;
	default:
		break;
	}
	while (n--)
		e->kinds[e->n++] = (uint8_t)p->kind;
	for (n = MIN((size_t)p->cancel, e->n); n; n--)
		taken = e->kinds[--e->n] == PACKET_SOURCE || taken;
	return taken;
}

/* Fields of trace info that go on, or go on further than numbers of 32 bits. */
static bool is_long(const uint8_t *info, uint32_t size)
{
	unsigned more = 0;

	for (uint32_t i = 1; i < size && more < 5; i++)
		more = info[i] & 0x80 ? more + 1 : 0;
	return more == 5 || info[1] & 0x80 || (info[1] & 1 && info[2] & 0x80);
}

/* What a packet is called, and more of some, each with a blank behind it. */
static size_t tell_packet(char *to, const struct packet *p, const uint8_t *bytes, bool early)
{
	const char *info = early ? "sync-info" : "trace-info";
	size_t n;

	switch (p->kind) {
	case PACKET_TRACE_INFO:
		n = (size_t)sprintf(to, "%s ", info);
		if (p->number)
			n += (size_t)sprintf(to + n, "%s-unseen ", info);
		if (bytes[1] & 16)
			n += (size_t)sprintf(to + n, "%s-window ", info);
		if (is_long(bytes, p->size))
			n += (size_t)sprintf(to + n, "%s-long ", info);
		return n;
	case PACKET_RESERVED:
	case PACKET_INVALID:
	case PACKET_BROKEN:
		return (size_t)sprintf(to, "bad-%02x ", bytes[0]);
	case PACKET_CONTEXT:
		return (size_t)sprintf(to, "%s%s ", early ? "early-" : "", p->context.updated ? "context" : "same-context");
	case PACKET_ASYNC:
		return (size_t)sprintf(to, "async ");
	default:
		n = (size_t)sprintf(to, "%s%s ", early ? "early-" : "", packet_name(p->kind));
		if (p->cancel > INT32_MAX || p->commit > INT32_MAX)
			n += (size_t)sprintf(to + n, "negative ");
		return n;
	}
}

/*
 * The packets by name, from the last synchronisation before one offset up to the first behind another. Those before the
 * first trace info are "early-" ones, and that one is a "sync-info"; one that is cut off is a "cut-" one. Behind a packet that takes
 * back a source address is "cancelled-source".
 */
static const char *story(uint32_t from, uint32_t to)
{
	static char text[STORY_MAX];
	static struct elements elements;
	struct packets packets;
	struct packet p;
	size_t n = 0;
	bool early = true;

	packets_init(&packets, &job->config);
	for (size_t at = find_sync(job->bytes, job->size); at < job->size; at += p.size) {
		if (!packets_next(&packets, job->bytes + at, job->size - at, &p)) {
			n += (size_t)sprintf(text + n, "%scut-%s ", early ? "early-" : "",
					     packet_name(packets.kinds[job->bytes[at]]));
			break;
		}
		if (p.kind == PACKET_ASYNC && at > to && to >= from)
			break;
		if (p.kind == PACKET_ASYNC) {
			early = true;
			n = at <= from ? 0 : n;
		}
		n += tell_packet(text + n, &p, job->bytes + at, early);
		if (follow(&elements, &p))
			n += (size_t)sprintf(text + n, "cancelled-source ");
		early = early && p.kind != PACKET_TRACE_INFO;
	}
	text[n] = 0;
	return text;
}

static bool matches(const char *pattern, const char *text)
{
	return strcmp(pattern, "*") == 0 || fnmatch(pattern, text, FNM_EXTMATCH) == 0;
}

static struct mistake *explain(const struct difference *d)
{
	const char *packets = story(d->from, d->to);

	for (size_t i = 0; i < n_known; i++) {
		struct mistake *m = &known[i];

		if (m->longer && end_of_range(d->theirs) <= end_of_range(d->ours))
			continue;
		if ((m->anywhere || same_start(d)) && matches(m->theirs, d->theirs) && matches(m->ours, d->ours) &&
		    matches(m->before, d->before) && matches(m->then, d->then) && matches(m->packets, packets))
			return m;
	}
	return NULL;
}
/* UNSTEADY: OpenCSD's answer depends on memory that it has not written. */
enum verdict { SAME, EXPLAINED, THEIR_CRASH, UNSTEADY, BEYOND, DIFFERENT, OUR_CRASH, VERDICTS };
static const char *const verdicts[VERDICTS] = {
	"same", "explained", "crashes of OpenCSD", "unsteady OpenCSD", "beyond native", "DIFFERENT", "CRASHES"
};

static enum verdict judge(struct difference *ret)
{
	struct mistake *m;

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
	m = explain(ret);
	if (m)
		m->seen++;
	return m ? EXPLAINED : DIFFERENT;
}

/* What OpenCSD says of memory that it has not written is nothing to be compared with; we read no such. */
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

/* Without what is not needed for the same verdict, with the same kinds of element on both sides. */
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

static void write_case(FILE *f)
{
	const struct engine_config *c = &job->config;

	if (job->input == NO_INPUT)
		fprintf(f, "made %llx %x %x %d\n", (unsigned long long)job->seed, job->made_size, job->without,
			job->against_truth);
	else
		fprintf(f, "code %s\n", inputs[job->input].path);
	fprintf(f, "config %d %x %x %x %x %x %x %x %x %d\n", c->protocol, c->trace_id, c->configr, c->traceidr, c->idr0,
		c->idr1, c->idr2, c->idr8, c->devarch, c->core_aa64);
	fprintf(f, "chunks %x\nbytes", job->chunks);
	for (size_t i = 0; i < job->size; i++)
		fprintf(f, "%s%02x", i % 32 ? " " : "\n", job->bytes[i]);
	fprintf(f, "\n");
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
	write_case(f);
	fclose(f);
	printf("%s: before: %s\n   OpenCSD: %s\n   native:  %s\n", path, d->before, d->theirs, d->ours);
	fflush(stdout);
}

static int find_input(const char *path)
{
	for (size_t i = 0; i < n_inputs; i++)
		if (strcmp(inputs[i].path, path) == 0)
			return (int)i;
	return -1;
}

static int read_case(const char *path)
{
	FILE *f = fopen(path, "re");
	struct engine_config *c = &job->config;
	char line[8192], code[4096];
	unsigned byte, v[10] = { 0 };
	unsigned long long seed;
	int input = -1;

	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f) && strncmp(line, "bytes", 5) != 0) {
		if (sscanf(line, "code %4095s", code) == 1)
			input = find_input(code);
		if (sscanf(line, "made %llx %x %x %u", &seed, &v[0], &v[1], &v[2]) == 4) {
			input = NO_INPUT;
			job->seed = seed;
			job->made_size = v[0];
			job->without = v[1];
			job->against_truth = v[2];
		}
		sscanf(line, "config %u %x %x %x %x %x %x %x %x %u", v, v + 1, v + 2, v + 3, v + 4, v + 5, v + 6, v + 7,
		       v + 8, v + 9);
		sscanf(line, "chunks %x", &job->chunks);
	}
	*c = (struct engine_config){ .protocol = v[0],
				     .trace_id = (uint8_t)v[1],
				     .configr = v[2],
				     .traceidr = v[3],
				     .idr0 = v[4],
				     .idr1 = v[5],
				     .idr2 = v[6],
				     .idr8 = v[7],
				     .devarch = v[8],
				     .core_aa64 = v[9] };
	for (job->size = 0; job->size < BYTES_MAX && fscanf(f, "%2x", &byte) == 1;)
		job->bytes[job->size++] = (uint8_t)byte;
	fclose(f);
	job->input = (uint32_t)input;
	return input < 0 ? -ENOENT : 0;
}

static int show(const char *path)
{
	const struct mistake *m;
	struct difference d;
	enum verdict v;
	int rc = read_case(path);

	if (rc < 0) {
		fprintf(stderr, "%s: %s (its input must be given, too)\n", path, strerror(-rc));
		return 1;
	}
	v = judge(&d);
	m = v == EXPLAINED ? explain(&d) : NULL;
	printf("%s: %s%s%s\n%s\n--- OpenCSD, %d\n%.*s--- native, %d\n%.*s", path, verdicts[v], m ? ": " : "",
	       m ? m->name : "", story(d.from, d.to), reference.answer->rc, (int)reference.answer->size, reference.answer->text,
	       subject.answer->rc, (int)subject.answer->size, subject.answer->text);
	return v >= DIFFERENT;
}

/* Headers by their frequency in what one wants to see, most of them with what belongs to them. */
static size_t put_packet(uint8_t ret[32])
{
	static const uint8_t plain[] = { 0x04, 0x07, 0x0a, 0x0b, 0x80, 0x88, 0x90, 0x91, 0x92, 0xa0, 0xa1,
					 0xa2, 0xaf, 0xb0, 0xb1, 0xb2, 0x70, 0x71, 0x74, 0x7f, 0x30, 0x31,
					 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x3d, 0x3f };
	static const uint8_t payload[][2] = {
		/* header, bytes behind it; 0xff: a field without a known end */
		{ 0x01, 2 },    { 0x02, 0xff }, { 0x03, 0xff }, { 0x06, 1 },    { 0x06, 2 },    { 0x09, 9 },
		{ 0x0c, 1 },    { 0x0d, 1 },    { 0x0e, 0xff }, { 0x0f, 0xff }, { 0x2d, 0xff }, { 0x2e, 0xff },
		{ 0x2f, 0xff }, { 0x81, 1 },    { 0x81, 5 },    { 0x82, 5 },    { 0x85, 9 },    { 0x85, 13 },
		{ 0x95, 0xff }, { 0x96, 0xff }, { 0x9a, 4 },    { 0x9b, 4 },    { 0x9d, 8 },    { 0x9e, 8 },
		{ 0xa5, 3 },    { 0xa6, 3 },    { 0xaa, 5 },    { 0xab, 5 },    { 0xac, 1 },    { 0xb4, 0xff },
		{ 0xb5, 0xff }, { 0xb6, 4 },    { 0xb8, 8 },    { 0x00, 1 },
	};
	size_t n = 1, kind = below(10), row;

	ret[0] = (uint8_t)(0xc0 + below(0x40));
	if (kind < 4)
		return n;
	if (kind < 7) {
		ret[0] = plain[below(sizeof(plain))];
		return n;
	}
	if (kind == 7) {
		ret[0] = (uint8_t)(0x10 + below(0x10));
		return n;
	}
	row = below(ELEMENTS(payload));
	ret[0] = payload[row][0];
	if (payload[row][1] == 0xff) {
		while (n < 9 && below(3))
			ret[n++] = (uint8_t)(0x80 | draw());
		ret[n++] = (uint8_t)below(below(2) ? 4 : 0x80);
	} else {
		for (; n <= payload[row][1]; n++)
			ret[n] = (uint8_t)(below(4) ? draw() : below(4));
	}
	return n;
}

static void insert(size_t at, const uint8_t *bytes, size_t n)
{
	if (job->size + n > BYTES_MAX)
		return;
	memmove(job->bytes + at + n, job->bytes + at, job->size - at);
	memcpy(job->bytes + at, bytes, n);
	job->size += n;
}

static void cut_out(size_t at, size_t n)
{
	n = MIN(n, job->size - at);
	memmove(job->bytes + at, job->bytes + at + n, job->size - at - n);
	job->size -= n;
}

static void mutate(void)
{
	size_t at = below(job->size), n;
	uint8_t bytes[64];

	switch (below(8)) {
	case 0:
		job->bytes[at] ^= (uint8_t)(1u << below(8));
		break;
	case 1:
		job->bytes[at] = (uint8_t)draw();
		break;
	case 2:
		cut_out(at, 1 + below(below(4) ? 4 : 64));
		break;
	case 3: /* once more */
		n = 1 + below(32);
		n = MIN(n, job->size - at);
		memcpy(bytes, job->bytes + at, n);
		insert(below(job->size), bytes, n);
		break;
	default:
		for (n = 1 + below(4); n; n--)
			insert(at, bytes, put_packet(bytes));
		break;
	}
}

static void mutate_config(struct engine_config *c)
{
	switch (below(12)) {
	case 1:
		/* With OpenCSD, code that changes is that of the newest timestamp, also for what is older and waits for
		 * its commit. */
		c->idr8 = job->input == NO_INPUT ? (uint32_t)below(20) : c->idr8;
		break;
	case 5:
		c->configr ^= 1u << 4; /* cycle counts */
		break;
	case 6:
		c->idr0 ^= 1u << 30; /* transactions */
		break;
	}
}

/* What is known to be wrong with OpenCSD 1.3.3 beyond what patterns could tell. */
static void keep_to_known(struct engine_config *c)
{
	/* It does not commit what cycle counts commit. */
	c->idr0 |= 1u << 29;
	/* Its return stack loses entries at exceptions, source addresses, and trace info; or it crashes. */
	c->configr &= ~(1u << 12);
	/* It knows no Q elements. */
	c->idr0 &= ~(3u << 15);
	/* Of a source without context IDs, or VMIDs, it reads them all the same, where a context says that it has some.
	 */
	if (!(c->idr2 >> 5 & 31))
		c->idr2 |= 4u << 5;
	if (!(c->idr2 >> 10 & 31))
		c->idr2 |= 1u << 10;
}

static void make_up(void)
{
	struct generated made;

	job->input = NO_INPUT;
	job->seed = draw();
	job->made_size = 200 + (uint32_t)below(below(4) ? 3000 : 12000);
	job->against_truth = below(3) == 0;
	job->without = (uint32_t)(draw() & draw()) | (job->against_truth ? 0 : NEW_FEATURES);
	/* What speculated and was changed is hardly ever a trace again. */
	if (!job->against_truth && below(4))
		job->without |= GENERATE_SPECULATION;
	/* OpenCSD 1.3.3 does not count a source address as what can be cancelled. */
	if (!job->against_truth && !(job->without & GENERATE_SPECULATION))
		job->without |= GENERATE_SOURCES;
	generate(job->seed, job->made_size, job->without, &made);
	job->config = made.config;
	job->size = MIN(made.size, (size_t)BYTES_MAX);
	memcpy(job->bytes, made.bytes, job->size);
	generated_done(&made);
}

/* A piece of a real trace. */
static void take_piece(void)
{
	const struct input *in;
	size_t from, n;

	job->input = (uint32_t)below(n_inputs);
	job->against_truth = false;
	in = &inputs[job->input];
	job->config = in->trace.config;
	from = in->n_syncs && below(16) ? in->syncs[below(in->n_syncs)] : below(in->trace.size);
	n = 100 + below(below(4) ? 1000 : 16000);
	n = MIN(in->trace.size - from, n);
	memcpy(job->bytes, in->trace.bytes + from, n);
	job->size = n;
}

static void make_job(void)
{
	if (!n_inputs || below(2))
		make_up();
	else
		take_piece();
	job->chunks = below(2) ? (uint32_t)draw() : 0;
	if (job->against_truth)
		return;
	if (below(4) == 0)
		mutate_config(&job->config);
	keep_to_known(&job->config);
	for (size_t i = below(2) ? 1 + below(3) : below(30); i && job->size > 1; i--)
		mutate();
}

static void find_syncs(struct input *in)
{
	static const uint8_t sync[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80 };
	const uint8_t *at = in->trace.bytes, *end = at + in->trace.size;

	while ((at = memmem(at, (size_t)(end - at), sync, sizeof(sync)))) {
		in->syncs = reallocarray(in->syncs, in->n_syncs + 1, sizeof(*in->syncs));
		if (!in->syncs)
			abort();
		in->syncs[in->n_syncs++] = (size_t)(at - in->trace.bytes);
		at += sizeof(sync);
	}
}

static int read_known(const char *path)
{
	FILE *f = fopen(path, "re");
	struct mistake *m = NULL;
	char line[256];

	if (!f)
		return -errno;
	/* The rest of a longer one, of bytes, is none that is looked for. */
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		if (strncmp(line, "mistake ", 8) == 0 && n_known < KNOWN_MAX) {
			m = &known[n_known++];
			snprintf(m->name, sizeof(m->name), "%s", line + 8);
			strcpy(m->before, "*");
			strcpy(m->then, "*");
			strcpy(m->packets, "*");
		} else if (m && strncmp(line, "opencsd ", 8) == 0) {
			snprintf(m->theirs, sizeof(m->theirs), "%s", line + 8);
		} else if (m && strncmp(line, "right ", 6) == 0) {
			snprintf(m->ours, sizeof(m->ours), "%s", line + 6);
		} else if (m && strncmp(line, "before ", 7) == 0) {
			snprintf(m->before, sizeof(m->before), "%s", line + 7);
		} else if (m && strncmp(line, "then ", 5) == 0) {
			snprintf(m->then, sizeof(m->then), "%s", line + 5);
		} else if (m && strncmp(line, "packets ", 8) == 0) {
			snprintf(m->packets, sizeof(m->packets), "%s", line + 8);
		} else if (m && strcmp(line, "anywhere") == 0) {
			m->anywhere = true;
		} else if (m && strcmp(line, "longer") == 0) {
			m->longer = true;
		}
	}
	fclose(f);
	return 0;
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

	state = seed;
	make_job();
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

/* SAME, BEYOND, or what is to be looked at alone. */
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

static int fuzz(uint64_t seed, unsigned seconds, const char *dir)
{
	uint64_t ends = now_ns(CLOCK_MONOTONIC) + seconds * 1000000000ull, counts[VERDICTS] = { 0 }, n = 0, bytes = 0;

	for (; now_ns(CLOCK_MONOTONIC) < ends; seed += BATCH) {
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
	printf("%llu streams, %.1f MB:", (unsigned long long)n, (double)bytes / 1e6);
	for (size_t i = 0; i < VERDICTS; i++)
		printf(" %s %llu", verdicts[i], (unsigned long long)counts[i]);
	printf("\n");
	for (size_t i = 0; i < n_known; i++)
		printf("  %-40s %llu\n", known[i].name, (unsigned long long)known[i].seen);
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
	/* The C library fills no memory that its threads' caches hold back. */
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
		else if (strcmp(argv[i], "--known") == 0 && read_known(value) == 0)
			i++;
		else if (n_inputs < INPUTS && trace_load(argv[i], -1, &inputs[n_inputs].trace) == 0)
			inputs[n_inputs++].path = argv[i];
		else
			return 2;
	}
	for (size_t i = 0; i < n_inputs; i++)
		find_syncs(&inputs[i]);
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
	for (size_t i = 0; i < n_inputs; i++) {
		trace_done(&inputs[i].trace);
		free(inputs[i].syncs);
	}
	return result;
}
