/* SPDX-License-Identifier: MIT */
/* The checksum of one packet covers far more bytes. The compiler inlines the function that computes it. */
#include "planted.h"

static uint8_t data[8192];

static inline __attribute__((always_inline)) uint32_t checksum(const uint8_t *at, unsigned size)
{
	uint32_t sum = 0;

	for (unsigned i = 0; i < size; i++)
		sum = used(sum) * 31 + at[i];
	return sum;
}

static apart uint32_t read_header(unsigned n)
{
	return compute(n, 60);
}

static apart uint32_t receive_packet(unsigned n, unsigned size)
{
	uint32_t header = read_header(n);

	return header ^ checksum(data, size);
}

int main(void)
{
	planted("receive_packet", "checksum");
	for (unsigned i = 0; i < 100; i++)
		used(receive_packet(i, i == 33 ? sizeof(data) : 64));
	return 0;
}
