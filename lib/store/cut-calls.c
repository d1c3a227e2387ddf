/* SPDX-License-Identifier: MIT */
/* Calls that gaps ended, to count those that go on behind a gap once. */
#include "lib/base/array.h"
#include "lib/store/writer.h"

#define NO_FUNCTION UINT32_MAX

enum { CUT_CALLS_MAX = 1 << 20 };

static void drop_cut_call(struct writer_thread *t)
{
	uint32_t function = t->cut_calls[--t->n_cut_calls];

	if (function != NO_FUNCTION)
		t->uses[function].cut--;
}

int store_cut_call(struct writer_thread *t, uint32_t function)
{
	if (!t->cutting) {
		while (t->n_cut_calls && t->n_cut_calls + t->depth >= CUT_CALLS_MAX)
			drop_cut_call(t);
		t->cut_base = t->n_cut_calls;
		while (t->n_cut_calls <= t->cut_base + t->depth) {
			int rc = array_reserve(t->cut_calls, t->n_cut_calls, &t->cap_cut_calls);

			if (rc < 0)
				return rc;
			t->cut_calls[t->n_cut_calls++] = NO_FUNCTION;
		}
	}
	t->cut_calls[t->cut_base + t->depth] = function;
	t->uses[function].cut++;
	t->cutting = t->depth > 0;
	return 0;
}

bool store_join_cut_call(struct writer_thread *t, uint32_t function)
{
	size_t k = t->joined;

	if (k) {
		while (k < t->n_cut_calls && t->cut_calls[k] != function)
			k++;
		if (k == t->n_cut_calls)
			return false;
	} else {
		for (k = t->n_cut_calls - 1; t->cut_calls[k] != function;)
			k--;
		t->joined_first = k;
	}
	t->joined = k + 1;
	return true;
}

void store_end_joined(struct writer_thread *t)
{
	while (t->n_cut_calls > t->joined_first)
		drop_cut_call(t);
	t->joined = 0;
}
