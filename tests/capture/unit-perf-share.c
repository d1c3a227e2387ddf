/* SPDX-License-Identifier: MIT */
/* daemon/capture/perf/perf-share.c: what an account causes on the capture thread is bounded, for all its targets
 * together. */
#include "config.h"

#include "daemon/capture/perf/perf-internal.h"
#include "lib/base/util.h"
#include "tests/unit.h"

enum { MOST = 32768 };

static const uint64_t second = 1000000000;

static unsigned followed(struct perf_target *s, unsigned n)
{
	unsigned followed = 0;

	while (n--)
		followed += perf_share_count_record(s);
	return followed;
}

int main(void)
{
	struct perf_machine m = { .reading = 100 * second };
	struct perf_target anna = { .base.share = { .account = 1000, .divided = true }, .m = &m }, too = anna,
			   bert = { .base.share = { .account = 1001, .divided = true }, .m = &m },
			   root = { .base.share = { .account = 0 }, .m = &m };

	/* Records, of two targets of one account. */
	CHECK_EQ(followed(&anna, MOST / 2), MOST / 2);
	CHECK_EQ(followed(&too, MOST), MOST / 2);
	CHECK_EQ(followed(&anna, 1), 0);
	CHECK_EQ(followed(&bert, 1), 1);
	CHECK_EQ(followed(&root, 2 * MOST), 2 * MOST);
	m.reading += second / 10;
	CHECK_EQ(followed(&anna, 1), 0);
	m.reading += second;
	CHECK_EQ(followed(&anna, 2 * MOST), MOST);
	/* Time. */
	CHECK(!perf_share_rests(&anna));
	perf_share_worked(&anna, now_ns(CLOCK_MONOTONIC) - 10 * second);
	CHECK(perf_share_rests(&anna) && perf_share_rests(&too) && !perf_share_rests(&bert));
	perf_share_worked(&root, now_ns(CLOCK_MONOTONIC) - 10 * second);
	CHECK(!perf_share_rests(&root));
	perf_share_worked(&bert, now_ns(CLOCK_MONOTONIC));
	usleep(10000);
	CHECK(!perf_share_rests(&bert));
	free(m.accounts);
	return unit_end();
}
