/* SPDX-License-Identifier: MIT */
/*
 * Counts how often, and for how long, the trace of running processes was stopped without a context switch, according to
 * the truth log of the virtual machine (tests/rig/shared.h).
 *
 *   stops [-s] LOG PID... <WINDOWS
 *
 * -s: the trace units were on for all threads. Otherwise a stop right after a context switch belongs to the previous
 * thread. WINDOWS: lines "FROM:TO PID" in ticks of the virtual counter: when a snapshot of that process was taken. For
 * each line and each process of the command line, a line "self|other COUNT TICKS" is printed; TICKS: the longest time
 * until tracing was restarted or the thread left its CPU. The last stop of a thread is its end.
 */
#include "config.h"

#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"
#include "tests/rig/shared.h"

enum { STOPS_MAX = 1 << 20, TID_MAX = 1 << 24 };

struct stop {
	uint64_t time, ticks;
	uint32_t pid, tid;
	bool last; /* it left its CPU before tracing was restarted: it may have ended */
};

static struct stop *stops;
static size_t n_stops;
/* start of a thread's trace; an ending thread is scheduled once more after it */
static uint64_t last_start[TID_MAX];

static void read_log(const char *path, bool shared)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	struct rig_truth record;
	struct stop *open = NULL;
	uint32_t pid = 0, tid = 0;
	bool own = false; /* a stop belongs to this thread, not to the previous one */

	if (!f)
		abort();
	setvbuf(f, NULL, _IOFBF, 1 << 20);
	while (fread(&record, sizeof(record), 1, f) == 1) {
		unsigned type = RIG_MARK_TYPE(record.start);

		if (!RIG_IS_MARK(record.start)) {
			own = true;
			continue;
		}
		if (type == RIG_MARK_UNTRACED)
			continue;
		if (type == RIG_MARK_STOP && own && n_stops < STOPS_MAX) {
			open = &stops[n_stops++];
			*open = (struct stop){ .time = record.count, .pid = pid, .tid = tid };
			continue;
		}
		if (open) {
			open->ticks = record.count - open->time;
			open->last = type == RIG_MARK_SWITCH && !shared;
			open = NULL;
		}
		own = shared || type == RIG_MARK_START;
		if (type == RIG_MARK_START)
			last_start[tid] = MAX(last_start[tid], record.count);
		if (type != RIG_MARK_SWITCH)
			continue;
		pid = (uint32_t)(record.start >> 24 & 0xffffff);
		tid = (uint32_t)(record.start & 0xffffff);
	}
}

static void print_stops(uint32_t pid, uint32_t of, uint64_t from, uint64_t to)
{
	uint64_t longest = 0, n = 0;

	for (size_t i = 0; i < n_stops; i++) {
		const struct stop *s = &stops[i];

		if (s->pid != pid || s->time < from || s->time > to || (s->last && last_start[s->tid] < s->time))
			continue;
		longest = MAX(longest, s->ticks);
		n++;
	}
	printf("%s %" PRIu64 " %" PRIu64 "\n", pid == of ? "self" : "other", n, longest);
}

int main(int argc, char **argv)
{
	_cleanup_free_ char *pattern = NULL;
	bool shared = argc > 1 && strcmp(argv[1], "-s") == 0;
	uint64_t from, to;
	glob_t found = { 0 };
	uint32_t of;

	argv += shared;
	argc -= shared;
	if (argc < 3) {
		fprintf(stderr, "usage: stops [-s] LOG PID... <WINDOWS\n");
		return 2;
	}
	stops = calloc(STOPS_MAX, sizeof(*stops));
	if (!stops || asprintf(&pattern, "%s/truth.*", argv[1]) < 0 || glob(pattern, 0, NULL, &found) != 0)
		return 1;
	for (size_t i = 0; i < found.gl_pathc; i++)
		read_log(found.gl_pathv[i], shared);
	globfree(&found);
	while (scanf("%" SCNu64 ":%" SCNu64 " %" SCNu32, &from, &to, &of) == 3)
		for (int i = 2; i < argc; i++)
			print_stops((uint32_t)strtoul(argv[i], NULL, 10), of, from, to);
	free(stops);
	return n_stops == STOPS_MAX;
}
