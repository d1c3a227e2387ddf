/* SPDX-License-Identifier: MIT */
/*
 * Makes a span for each request, and a note for its size, on the thread's track of the timelines. Where the program is
 * not recorded, they cost some nanoseconds.
 *
 *	cc -o notes notes.c $(pkg-config --cflags --libs libcsight)
 *	./notes [REQUESTS]
 */
#include <csight.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static volatile unsigned sum;

__attribute__((noinline)) static void handle(struct csight *c, unsigned number, unsigned *recorded)
{
	struct csight_span span;

	csight_span_begin(c, &span, "request");
	*recorded += csight_note(c, "size", (int64_t)number % 7) == 1;
	for (unsigned i = 0; i < 1000 * (number % 7 + 1); i++)
		sum += i;
	*recorded += csight_span_end(c, &span, number) == 1;
}

int main(int argc, char **argv)
{
	unsigned requests = argc > 1 ? (unsigned)atoi(argv[1]) : 100, recorded = 0;
	const struct timespec until_next = { 0, 1000000 };
	struct csight *c = NULL;
	int rc = csight_open(NULL, &c);

	if (rc < 0) {
		fprintf(stderr, "%s\n", strerror(-rc));
		return 2;
	}
	/* Without csightd the program goes on; a later note tries to connect again. */
	rc = csight_notes_enable(c);
	if (rc < 0)
		fprintf(stderr, "%s\n", csight_error(c));
	for (unsigned i = 0; i < requests; i++) {
		nanosleep(&until_next, NULL);
		handle(c, i, &recorded);
	}
	printf("%u requests, %u notes and spans recorded\n", requests, recorded);
	csight_close(c);
	return 0;
}
