/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>

#include "client/spread.h"
#include "lib/base/util.h"

static const double error_rate = 0.01; /* of a series of comparisons */

static int compare_values(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

void spread_of(double *values, unsigned n, struct spread *ret)
{
	unsigned cut = n / 5, kept = n - 2 * cut;
	double sum = 0, squares = 0, winsorized;

	*ret = (struct spread){ .n = n };
	if (!n)
		return;
	qsort(values, n, sizeof(*values), compare_values);
	ret->range = values[n - 1] - values[0];
	for (unsigned i = cut; i < n - cut; i++)
		sum += values[i];
	ret->mean = sum / kept;
	if (n < SPREAD_BATCHES_LEAST)
		return;
	winsorized = (sum + cut * (values[cut] + values[n - cut - 1])) / n;
	for (unsigned i = 0; i < n; i++) {
		double v = values[MIN(MAX(i, cut), n - cut - 1)] - winsorized;

		squares += v * v;
	}
	ret->freedom = kept - 1;
	ret->error = squares / (kept * ret->freedom);
}

/* Returns the quantile of the normal distribution that is exceeded on either side with the probability p. */
static double normal_quantile(double p)
{
	double low = 0, high = 40;

	for (int i = 0; i < 60; i++) {
		double middle = (low + high) / 2;

		if (erfc(middle / sqrt(2)) > p)
			low = middle;
		else
			high = middle;
	}
	return high;
}

/* The same of Student's distribution, by its expansion around the normal one (Abramowitz and Stegun, 26.7.5). */
static double student_quantile(double p, double freedom)
{
	double z = normal_quantile(p), z2 = z * z;

	return z + z * (z2 + 1) / (4 * freedom) + z * ((5 * z2 + 16) * z2 + 3) / (96 * freedom * freedom) +
	       z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / (384 * freedom * freedom * freedom);
}

double spread_noise(const struct spread *a, const struct spread *b, double comparisons)
{
	double error = a->error + b->error, freedom;

	if (a->n < SPREAD_BATCHES_LEAST || b->n < SPREAD_BATCHES_LEAST)
		return MAX(a->range, b->range);
	if (error <= 0)
		return 0;
	/* Welch's degrees of freedom */
	freedom = error * error / (a->error * a->error / a->freedom + b->error * b->error / b->freedom);
	return student_quantile(error_rate / MAX(comparisons, 1.0), freedom) * sqrt(error);
}
