/* SPDX-License-Identifier: MIT */
/* A list of samples grows and is copied while a sample is appended. */
#include <stdlib.h>
#include <string.h>

#include "planted.h"

static uint32_t *samples;
static size_t n_samples, capacity;

static apart void grow(void)
{
	uint32_t *larger = malloc(2 * capacity * sizeof(*larger));

	for (size_t i = 0; i < n_samples; i++)
		larger[i] = used(samples[i]);
	free(samples);
	samples = larger;
	capacity *= 2;
}

static apart void append(uint32_t sample)
{
	if (n_samples == capacity)
		grow();
	samples[n_samples++] = sample;
}

static apart void take_sample(uint32_t n)
{
	append(compute(n, 60));
}

int main(void)
{
	planted("take_sample", "grow");
	capacity = 1024;
	samples = calloc(capacity, sizeof(*samples));
	for (uint32_t i = 0; i < 1200; i++)
		take_sample(i);
	return samples[5] == 1;
}
