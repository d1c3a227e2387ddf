/* SPDX-License-Identifier: MIT */
/* One report has far more lines, each formatted by the C library. */
#include "planted.h"

static char text[64];

static apart uint32_t collect(uint32_t n)
{
	return compute(n, 300);
}

static apart uint32_t write_table(uint32_t n, unsigned lines)
{
	for (unsigned i = 0; i < lines; i++)
		n += (uint32_t)snprintf(text, sizeof(text), "%-8u %8.3f", n, i * 0.1);
	return n;
}

static apart uint32_t make_report(uint32_t n)
{
	return write_table(collect(n), n == 30 ? 100 : 2);
}

int main(void)
{
	planted("make_report", "write_table");
	for (uint32_t i = 0; i < 60; i++)
		used(make_report(i));
	return 0;
}
