/* SPDX-License-Identifier: MIT */
/*
 * Measures an engine against OpenCSD on the same bytes in the same process, with alternating runs.
 *
 *   bench-engine NAME INPUT [ID]        a trace: elements, the first pass of a new process, memory
 *   bench-engine --packets NAME INPUT   branch-broadcast trace: its packets alone
 *   bench-engine --frames NAME INPUT    the de-framer; bytes without frames are put into frames of six sources
 *
 * The reference is OpenCSD with its code in buffers and a callback that does nothing. ROUNDS (3) is the number of runs.
 * A round of ours is a first pass by a new engine, and a warm pass over the same bytes; OpenCSD gains less than one
 * percent from a second pass. BYTES limits the size of the trace; MEMORY measures the memory that 1 GiB of trace takes.
 * Times are processor time of the thread. Output lines: trace, work, pass, reference and subject in MB/s and ns per
 * range, the ratio's minimum, median and maximum, and whether both results are equal.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/buf.h"
#include "lib/base/util.h"
#include "lib/coresight/deframe.h"
#include "lib/etm/branches.h"
#include "lib/etm/native.h"
#include "tests/bench/reference.h"

enum { FIRST_BYTES = 1 << 20, HEAD_BYTES = 4 << 20, ROUNDS_MAX = 99, FRAME_BYTES = 32 << 20, SOURCES = 6 };
#define MEMORY_BYTES (1ull << 30)

static unsigned rounds = 3;
static const char *name;

static double now(void)
{
	return (double)now_ns(CLOCK_THREAD_CPUTIME_ID);
}

static int ignore(void *user, const struct element *e)
{
	return 0;
}

/* A measured engine. run() returns the times of the first and the warm pass, in ns. */
struct subject {
	const char *work;
	int (*run)(const struct trace *t, const struct engine_memory *memory, double *ret_first, double *ret_warm);
	const struct engine_ops *ops; /* its elements must equal OpenCSD's */
};

static int run_engine(const struct engine_ops *ops, const struct trace *t, const struct engine_memory *memory,
		      double *ret_first, double *ret_warm)
{
	const struct element_sink sink = { .element = ignore };
	struct engine *e = NULL;
	double at = now();
	int rc = ops->open(&t->config, memory, &sink, &e);

	if (rc == 0)
		rc = ops->push(e, t->bytes, t->size);
	*ret_first = now() - at;
	if (rc == 0)
		rc = ops->reset(e);
	at = now();
	if (rc == 0)
		rc = ops->push(e, t->bytes, t->size);
	*ret_warm = now() - at;
	if (rc == 0)
		rc = ops->finish(e);
	ops->close(e);
	return rc;
}

/* The native engine's batches, without a struct element for each range. */
static int take_batch(void *user, const struct native_batch *b)
{
	return 0;
}

/* Regions of the size of functions. */
static uint32_t region_of(void *user, uint64_t address)
{
	return (uint32_t)(address >> 9) & INT32_MAX;
}

static int run_outlet(enum native_outlet outlet, const struct trace *t, const struct engine_memory *memory,
		      double *ret_first, double *ret_warm)
{
	const struct native_sink sink = { .batch = take_batch, .outlet = outlet, .region = region_of };
	struct native *e = NULL;
	double at = now();
	int rc = native_open(&t->config, memory, &sink, &e);

	if (rc == 0)
		rc = native_push(e, t->bytes, t->size);
	*ret_first = now() - at;
	if (rc == 0)
		rc = native_reset(e);
	at = now();
	if (rc == 0)
		rc = native_push(e, t->bytes, t->size);
	*ret_warm = now() - at;
	if (rc == 0)
		rc = native_finish(e);
	native_close(e);
	return rc;
}

static int run_compact(const struct trace *t, const struct engine_memory *memory, double *ret_first, double *ret_warm)
{
	return run_outlet(NATIVE_EDGES, t, memory, ret_first, ret_warm);
}

static int run_calls(const struct trace *t, const struct engine_memory *memory, double *ret_first, double *ret_warm)
{
	return run_outlet(NATIVE_CALLS, t, memory, ret_first, ret_warm);
}

static int run_sums(const struct trace *t, const struct engine_memory *memory, double *ret_first, double *ret_warm)
{
	return run_outlet(NATIVE_SUMS, t, memory, ret_first, ret_warm);
}

/* The first one emits elements. */
static const struct subject subjects[] = {
	{ "elements", NULL, &native_engine_ops },
	{ "compact", run_compact, NULL },
	{ "calls", run_calls, NULL },
	{ "sums", run_sums, NULL },
	{ 0 },
};

static uint64_t reference_ranges;

static ocsd_datapath_resp_t on_counted(const void *user, const ocsd_trc_index_t index, const uint8_t id,
				       const ocsd_generic_trace_elem *e)
{
	reference_ranges += e->elem_type == OCSD_GEN_TRC_ELEM_INSTR_RANGE;
	return OCSD_RESP_CONT;
}

static int compare_doubles(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static double median(const double *values)
{
	double sorted[ROUNDS_MAX];

	memcpy(sorted, values, rounds * sizeof(*values));
	qsort(sorted, rounds, sizeof(*sorted), compare_doubles);
	return rounds & 1 ? sorted[rounds / 2] : (sorted[rounds / 2 - 1] + sorted[rounds / 2]) / 2;
}

/* ranges 0: the row has no time per range. */
static void show(const char *work, const char *pass, uint64_t bytes, uint64_t ranges, const double *reference,
		 const double *subject, const char *same)
{
	double ratio[ROUNDS_MAX], least = 1e30, most = 0;

	printf("%-18s %-9s %-5s %9.1f", name, work, pass, (double)bytes * 1e3 / median(reference));
	if (ranges)
		printf(" %8.2f", median(reference) / (double)ranges);
	else
		printf(" %8s", "-");
	for (unsigned i = 0; i < rounds; i++) {
		ratio[i] = reference[i] / subject[i];
		least = MIN(least, ratio[i]);
		most = MAX(most, ratio[i]);
	}
	printf(" %9.1f", (double)bytes * 1e3 / median(subject));
	if (ranges)
		printf(" %8.2f", median(subject) / (double)ranges);
	else
		printf(" %8s", "-");
	printf(" %7.1f %7.1f %7.1f  %s\n", least, median(ratio), most, same);
	fflush(stdout);
}

static int run_subject(const struct subject *s, const struct trace *t, const struct engine_memory *memory,
		       double *ret_first, double *ret_warm)
{
	return s->ops ? run_engine(s->ops, t, memory, ret_first, ret_warm) : s->run(t, memory, ret_first, ret_warm);
}

/* Runs in a new process, which has not read any image yet. */
static double first_bytes(const struct subject *s, const struct trace *t)
{
	struct trace part = *t;
	double took = 0, warm;
	int fds[2], status;
	pid_t pid;

	part.size = MIN(t->size, (size_t)FIRST_BYTES);
	fflush(stdout);
	if (pipe(fds) < 0)
		abort();
	pid = fork();
	if (pid == 0) {
		int rc = run_subject(s, &part, &t->memory, &took, &warm);

		_exit(rc < 0 || write(fds[1], &took, sizeof(took)) != sizeof(took));
	}
	close(fds[1]);
	if (pid < 0 || read(fds[0], &took, sizeof(took)) != sizeof(took) || waitpid(pid, &status, 0) != pid)
		took = 0;
	close(fds[0]);
	return took;
}

static void bench_first(const struct trace *t)
{
	const struct subject reference = { "elements", NULL, &opencsd_engine_ops };
	double times[ROUNDS_MAX], took[ELEMENTS(subjects)][ROUNDS_MAX];

	for (unsigned i = 0; i < rounds; i++) {
		times[i] = first_bytes(&reference, t);
		for (size_t k = 0; subjects[k].work; k++)
			took[k][i] = first_bytes(&subjects[k], t);
	}
	for (size_t k = 0; subjects[k].work; k++)
		show(subjects[k].work, "new", MIN(t->size, (size_t)FIRST_BYTES), 0, times, took[k], "-");
}

/* The memory that decoding 1 GiB of trace takes, without images, which are read before. */
static void bench_memory(const struct trace *t, struct pages *p)
{
	const struct engine_memory memory = { pages_read, pages_version, false, p };
	const struct element_sink sink = { .element = ignore };
	const struct engine_ops *ops = &native_engine_ops;
	struct rusage before, after;
	struct engine *e = NULL;
	int rc;

	fflush(stdout);
	if (fork() != 0) {
		wait(NULL);
		return;
	}
	getrusage(RUSAGE_SELF, &before);
	rc = ops->open(&t->config, &memory, &sink, &e);
	for (uint64_t done = 0; rc == 0 && done < MEMORY_BYTES; done += t->size)
		rc = ops->push(e, t->bytes, t->size);
	if (rc == 0)
		rc = ops->finish(e);
	getrusage(RUSAGE_SELF, &after);
	printf("%-18s %-9s %-5s %9.1f MiB%s\n", name, "memory", "1GiB",
	       (double)(after.ru_maxrss - before.ru_maxrss) / 1024, rc < 0 ? " until it failed" : "");
	fflush(stdout);
	_exit(0);
}

/* Checks that the reference decodes the same ranges: it is faster where code is missing. */
static int check_reference(const struct trace *t, struct pages *p)
{
	struct trace head = *t;
	struct said said;
	double took;
	int rc;

	head.size = MIN(head.size, (size_t)HEAD_BYTES);
	reference_ranges = 0;
	rc = reference_listen(&opencsd_engine_ops, &head, p, &said);
	if (rc == 0)
		rc = reference_run(&head, p, on_counted, &took);
	if (rc == 0 && reference_ranges != said.ranges)
		printf("# %s: the reference emits %ju ranges instead of %ju and cannot be used\n", name,
		       (uintmax_t)reference_ranges, (uintmax_t)said.ranges);
	return rc < 0 ? rc : reference_ranges == said.ranges ? 0 : -EIO;
}

static int bench_trace(const struct trace *t)
{
	struct pages p = { .trace = t };
	const struct engine_memory memory = { pages_read, pages_version, false, &p };
	double times[ROUNDS_MAX], took[ELEMENTS(subjects)][2][ROUNDS_MAX];
	bool same[ELEMENTS(subjects)];
	struct said reference, said;
	int rc;

	bench_first(t);
	rc = reference_listen(&opencsd_engine_ops, t, &p, &reference);
	if (rc == 0)
		rc = check_reference(t, &p);
	if (rc < 0)
		return rc;
	printf("# %s: %.1f MB, %.1f M instructions in %.1f M ranges; %.3f bytes an instruction; %zu pages of code\n",
	       name, (double)t->size / 1e6, (double)reference.instructions / 1e6, (double)reference.ranges / 1e6,
	       (double)t->size / (double)MAX(reference.instructions, (uint64_t)1), p.n);
	for (size_t k = 0; subjects[k].work; k++)
		same[k] = subjects[k].ops && reference_listen(subjects[k].ops, t, &p, &said) == 0 &&
			  memcmp(&said, &reference, sizeof(said)) == 0;
	for (unsigned i = 0; rc == 0 && i < rounds; i++) {
		rc = reference_run(t, &p, reference_ignore, &times[i]);
		for (size_t k = 0; rc == 0 && subjects[k].work; k++)
			rc = run_subject(&subjects[k], t, &memory, &took[k][0][i], &took[k][1][i]);
	}
	if (rc < 0)
		return rc;
	for (unsigned pass = 0; pass < 2; pass++) {
		const char *which = pass ? "warm" : "first";

		for (size_t k = 0; subjects[k].work; k++)
			show(subjects[k].work, which, t->size, reference.ranges, times, took[k][pass],
			     !subjects[k].ops ? "-"
			     : same[k]        ? "equal"
					      : "DIFFERENT");
	}
	if (getenv("MEMORY"))
		bench_memory(t, &p);
	return 0;
}

static int take_branches(void *user, const struct branch *list, size_t n)
{
	return 0;
}

static int run_branches(const struct trace *t, double *ret)
{
	const struct branches_sink sink = { take_branches };
	struct branches *b = NULL;
	double at = now();
	int rc = branches_open(&t->config, &sink, &b);

	if (rc == 0)
		rc = branches_push(b, t->bytes, t->size);
	if (rc == 0)
		rc = branches_finish(b);
	*ret = now() - at;
	branches_close(b);
	return rc;
}

static int bench_packets(const struct trace *t)
{
	double times[ROUNDS_MAX], took[ROUNDS_MAX];

	for (unsigned i = 0; i < rounds; i++) {
		int rc = reference_run(t, NULL, NULL, &times[i]);

		if (rc == 0)
			rc = run_branches(t, &took[i]);
		if (rc < 0)
			return rc;
	}
	show("branches", "first", t->size, 0, times, took, "-");
	return 0;
}

/* Puts a trace into formatter frames of several sources with equal bytes, which alternate after a few bytes. */
static void make_frames(const struct trace *t, struct buf *frames)
{
	uint32_t random = 1, left = 0;
	size_t at[SOURCES] = { 0 };
	uint8_t ids[2], now_id = 0;

	/* The sources of two bytes, in advance. */
	ids[0] = ids[1] = 1;
	while (frames->size < FRAME_BYTES) {
		uint8_t frame[DEFRAME_SIZE] = { 0 };

		for (unsigned i = 0; i < DEFRAME_SIZE - 1; i++) {
			bool even = !(i & 1), turns = ids[0] != now_id;

			if (even && (turns || (ids[1] != ids[0] && i < 14))) {
				/* An ID byte names the source of the next byte, or, with its flag, of the one behind
				 * that. */
				now_id = turns ? ids[0] : ids[1];
				frame[i] = (uint8_t)(now_id << 1 | 1);
				frame[15] |= (uint8_t)(!turns << (i / 2));
				continue;
			}
			frame[i] = t->bytes[at[ids[0] - 1]++ % t->size];
			if (even) {
				frame[15] |= (uint8_t)((frame[i] & 1) << (i / 2));
				frame[i] &= 0xfe;
			}
			ids[0] = ids[1];
			if (!left--) {
				random = random * 1103515245 + 12345;
				left = 3 + (random >> 16) % 28;
				ids[1] = (uint8_t)(1 + (random >> 24) % SOURCES);
			}
		}
		buf_add(frames, frame, sizeof(frame));
	}
}

static uint64_t framed_bytes;

static ocsd_datapath_resp_t take_bytes(const void *decoder, const ocsd_datapath_op_t op, const ocsd_trc_index_t index,
				       const uint32_t size, const uint8_t *data, uint32_t *used)
{
	if (op == OCSD_OP_DATA) {
		framed_bytes += size;
		*used = size;
	}
	return OCSD_RESP_CONT;
}

static void no_monitor(const void *decoder, const int flags)
{
}

static ocsd_err_t create_taker(const int flags, const void *config, const ocsd_extern_dcd_cb_fns *functions,
			       ocsd_extern_dcd_inst_t *ret)
{
	ret->fn_data_in = take_bytes;
	ret->fn_update_pkt_mon = no_monitor;
	ret->decoder_handle = &framed_bytes;
	ret->p_decoder_name = (char *)"taker";
	ret->cs_id = *(const uint8_t *)config;
	return OCSD_OK;
}

static ocsd_err_t destroy_taker(const void *handle)
{
	return OCSD_OK;
}

static ocsd_err_t id_of_taker(const void *config, unsigned char *ret)
{
	*ret = *(const uint8_t *)config;
	return OCSD_OK;
}

static ocsd_err_t no_text(const void *packet, char *ret, const int size)
{
	return OCSD_OK;
}

static int count_run(void *user, const struct deframe_run *run)
{
	if (run->id > 0 && run->id <= DEFRAME_ID_MAX)
		*(uint64_t *)user += run->size;
	return 0;
}

static int bench_frames(const struct trace *t)
{
	static ocsd_extern_dcd_fact_t factory = { create_taker, destroy_taker, id_of_taker, no_text, 0 };
	static struct deframe ours;
	_cleanup_buf_ struct buf frames = { 0 };
	uint8_t *data = NULL;
	size_t size = 0;
	double reference[ROUNDS_MAX], subject[ROUNDS_MAX];
	uint64_t bytes = 0;
	const struct deframe_sink sink = { count_run, &bytes };
	dcd_tree_handle_t tree;
	uint32_t used;
	bool same = true;

	if (trace_frames(t, &data, &size) == 0)
		for (size &= ~(size_t)(DEFRAME_SIZE - 1); size && frames.size < FRAME_BYTES;)
			buf_add(&frames, data, size);
	else
		make_frames(t, &frames);
	free(data);
	ocsd_def_errlog_init(OCSD_ERR_SEV_NONE, 0);
	ocsd_register_custom_decoder("taker", &factory);
	tree = ocsd_create_dcd_tree(OCSD_TRC_SRC_FRAME_FORMATTED,
				    OCSD_DFRMTR_FRAME_MEM_ALIGN | OCSD_DFRMTR_RESET_ON_4X_FSYNC);
	for (unsigned i = 1; i <= DEFRAME_ID_MAX; i++) {
		uint8_t config = (uint8_t)i, id;

		ocsd_dt_create_decoder(tree, "taker", OCSD_CREATE_FLG_FULL_DECODER, &config, &id);
	}
	for (unsigned i = 0; i < rounds; i++) {
		double at = now();

		framed_bytes = bytes = 0;
		ocsd_dt_process_data(tree, OCSD_OP_DATA, 0, (uint32_t)frames.size, frames.data, &used);
		reference[i] = now() - at;
		ocsd_dt_process_data(tree, OCSD_OP_RESET, 0, 0, NULL, &used);
		at = now();
		deframe_init(&ours, &sink);
		deframe_push(&ours, frames.data, frames.size);
		subject[i] = now() - at;
		same = same && bytes == framed_bytes;
	}
	ocsd_destroy_dcd_tree(tree);
	show("frames", "warm", frames.size, 0, reference, subject, same ? "equal" : "DIFFERENT");
	return 0;
}

int main(int argc, char **argv)
{
	const char *option = argc > 1 && argv[1][0] == '-' ? argv[1] : NULL;
	char **args = argv + (option ? 2 : 1);
	struct trace t;
	int rc;

	if (args[0] == NULL || args[1] == NULL) {
		fprintf(stderr, "usage: bench-engine [--packets | --frames] NAME INPUT [ID]\n");
		return 2;
	}
	if (getenv("ROUNDS"))
		rounds = MIN((unsigned)strtoul(getenv("ROUNDS"), NULL, 0), (unsigned)ROUNDS_MAX);
	name = args[0];
	rc = trace_load(args[1], args[2] ? (int)strtol(args[2], NULL, 0) : -1, &t);
	if (rc < 0)
		return 1;
	if (getenv("BYTES"))
		t.size = MIN(t.size, (size_t)strtoull(getenv("BYTES"), NULL, 0));
	if (option && strcmp(option, "--packets") == 0)
		rc = bench_packets(&t);
	else
		rc = option ? bench_frames(&t) : bench_trace(&t);
	if (rc < 0)
		fprintf(stderr, "bench-engine: %s: %s\n", name, strerror(-rc));
	trace_done(&t);
	return rc < 0;
}
