/* SPDX-License-Identifier: MIT */
/* client/spread.c: the noise of means of batches; how often equal samples seem different, and different ones equal. */
#include <math.h>

#include "client/spread.h"
#include "tests/unit.h"

static uint64_t state = 1;

/* Returns a number from 0 to 1, excluding both. */
static double draw(void)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return ((double)(state >> 12) + 0.5) / (double)((uint64_t)1 << 52);
}

static double draw_normal(void)
{
	return sqrt(-2 * log(draw())) * cos(2 * M_PI * draw());
}

/* 20 batches around a mean; outliers: how many of them are far above. */
static struct spread draw_spread(double mean, double deviation, unsigned outliers)
{
	double values[SPREAD_BATCHES];
	struct spread s;

	for (unsigned i = 0; i < SPREAD_BATCHES; i++)
		values[i] = mean + deviation * draw_normal() + (i < outliers ? 50 * deviation : 0);
	spread_of(values, SPREAD_BATCHES, &s);
	return s;
}

/* Returns how many of 10,000 comparisons find a difference. */
static unsigned differences(double change, double deviation_b, unsigned outliers, double comparisons)
{
	unsigned found = 0;

	for (int i = 0; i < 10000; i++) {
		struct spread a = draw_spread(100, 1, 0), b = draw_spread(100 + change, deviation_b, outliers);

		found += fabs(b.mean - a.mean) > spread_noise(&a, &b, comparisons);
	}
	return found;
}

static void test_rates(void)
{
	unsigned found = differences(0, 1, 0, 1);

	/* One in a hundred; the standard deviation of the count is 10. */
	printf("# %u of 10,000\n", found);
	CHECK(found > 50 && found < 150);
	found = differences(0, 5, 0, 1);
	printf("# %u of 10,000 where one side is noisier\n", found);
	CHECK(found < 150);
	CHECK(differences(0, 1, 0, 1000) <= 2);
	CHECK(differences(0, 1, 2, 1000) <= 2);
	CHECK_EQ(differences(4, 1, 0, 1000), 10000);
	CHECK(differences(4, 1, 3, 1000) > 9900);
}

static void test_exact(void)
{
	double values[] = { 3, 9, 1, 7, 6, 5, 4, 8, 2, 100 }, few[] = { 7, 3, 5 }, one[] = { 4 };
	struct spread s, t;

	spread_of(values, 10, &s);
	CHECK(s.n == 10 && s.mean == 5.5 && s.range == 99 && s.freedom == 5);
	/* Winsorized: 3 3 3 4 5 6 7 8 8 8 with the mean 5.5 and squares of 42.5; Yuen divides by 6 * 5. */
	CHECK(fabs(s.error - 42.5 / 30) < 1e-9);
	spread_of(few, 3, &t);
	CHECK(t.mean == 5 && t.range == 4);
	CHECK(spread_noise(&s, &t, 1) == 99);
	spread_of(one, 1, &s);
	CHECK(s.mean == 4 && spread_noise(&s, &s, 1) == 0);
	spread_of(one, 0, &s);
	CHECK(s.n == 0 && s.mean == 0);
	/* Equal values have no noise. */
	s = (struct spread){ .n = 20, .mean = 5, .freedom = 11 };
	CHECK(spread_noise(&s, &s, 1e6) == 0);
}

int main(void)
{
	test_exact();
	test_rates();
	return unit_end();
}
