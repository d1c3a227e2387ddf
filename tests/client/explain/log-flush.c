/* SPDX-License-Identifier: MIT */
/* A log is collected in a buffer, and written line by line when that is full. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "planted.h"

enum { LINES = 128 };

static char lines[LINES][64];
static unsigned n_lines;
static int to;

static apart void flush_log(void)
{
	for (unsigned i = 0; i < n_lines; i++) {
		used(compute(i, 60));
		if (write(to, lines[i], strlen(lines[i])) < 0)
			break;
	}
	n_lines = 0;
}

static apart void log_line(unsigned n)
{
	snprintf(lines[n_lines++], sizeof(lines[0]), "request %u\n", n);
	if (n_lines == LINES)
		flush_log();
}

static apart void serve(unsigned n)
{
	used(compute(n, 300));
	log_line(n);
}

int main(void)
{
	planted("serve", "flush_log");
	to = open("/dev/null", O_WRONLY);
	for (unsigned i = 0; i < 200; i++)
		serve(i);
	return 0;
}
