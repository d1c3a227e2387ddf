/* SPDX-License-Identifier: MIT */
/*
 * Noise of a mean. Values are means over batches of consecutive calls, so that calls which resemble their neighbours do
 * not seem more certain than they are. Outlying batches, such as the first one, are trimmed (Yuen, 1974).
 */
#ifndef CSIGHT_CLIENT_SPREAD_H
#define CSIGHT_CLIENT_SPREAD_H

/* With fewer batches their full range is the noise. */
enum { SPREAD_BATCHES = 20, SPREAD_BATCHES_LEAST = 8 };

struct spread {
	unsigned n;     /* number of batches */
	double mean;    /* of the batches without the lowest and the highest fifth */
	double error;   /* variance of the mean */
	double freedom; /* degrees of freedom of that */
	double range;   /* of all batches */
};

/* Sorts the values. n: at most SPREAD_BATCHES. */
void spread_of(double *values, unsigned n, struct spread *ret);

/*
 * Returns the least difference of both means that is not noise: one comparison of a hundred series of this many
 * comparisons exceeds it by chance.
 */
double spread_noise(const struct spread *a, const struct spread *b, double comparisons);

#endif
