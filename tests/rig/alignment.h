/* SPDX-License-Identifier: MIT */
/*
 * Finds which part of the truth a decode shows. The buffers of the CPUs may have wrapped, so that the decode lacks what
 * ran on a CPU before a cut, for each CPU its own; and it ends at the freeze. Everything else must be there, in order.
 *
 * The same instructions may have run on several CPUs, so no single choice is final: all cuts and ends that agree with
 * the decode are followed until something contradicts them, first for each thread and then for all threads together,
 * because a CPU has one cut and one freeze: csightd stops the trace units one after another. The decode is wrong if
 * none remains.
 */
#ifndef CSIGHT_RIG_ALIGNMENT_H
#define CSIGHT_RIG_ALIGNMENT_H

#include "tests/rig/runs.h"
#include "tests/rig/shared.h"

/* What a thread executed on one CPU between two marks. */
struct piece {
	uint64_t begun, ended;
	uint64_t from, n;   /* position in the thread's truth, instructions */
	uint64_t at;        /* position among the instructions of all threads of its CPU */
	uint64_t untraced;  /* instructions executed while the trace unit was off; n is 0 */
	bool passed;        /* it came and went while the trace unit was off */
	uint64_t start, to; /* positions in the log */
	uint32_t tid;
	unsigned cpu;
};

struct thread {
	uint32_t tid;
	bool decoded;
	bool in_kernel; /* the instructions decoded last were there */
	struct runs decode, truth;
	uint64_t *holes; /* number of decoded instructions before each gap, ascending, not 0 */
	size_t n_holes, holes_room;
	struct piece *pieces; /* in order of time */
	size_t n_pieces, pieces_room;
};

struct alignment_options {
	bool wrapped;
	bool windowed;
	bool alone; /* it is the only thread: of the choices that leave the same to explain, one is enough */
	uint64_t frozen_from, frozen_to;
};

struct span {
	uint64_t from, to;
};

/* An explanation of what a thread's decode lacks, by positions on each CPU and by time; each span has both ends. */
struct alignment {
	struct span cuts[RIG_CPUS], frozen[RIG_CPUS];
	uint64_t missing; /* instructions before the cuts */
};

struct alignments {
	struct alignment *all;
	size_t n, room;
	bool too_many;
};

/* True if the decode has a gap there, or nothing on one side. */
bool alignment_is_open(const struct thread *t, uint64_t at);

/* Finds all alignments of one thread, or one of each end if it is alone. Without a window the end of the truth is the
 * end. */
void alignment_find(const struct thread *t, const struct alignment_options *o, struct alignments *ret);

/* Chooses one for each thread so that all agree. Returns false if there is no such choice. */
bool alignment_agree(const struct alignments *of_threads, size_t n, const struct alignment_options *o,
		     const struct alignment **ret);

#endif
