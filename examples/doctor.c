/* SPDX-License-Identifier: MIT */
/*
 * Prints what keeps programs from being traced on this machine, or on that of a directory, and what to do about it.
 *
 *	cc -o doctor doctor.c $(pkg-config --cflags --libs libcsight)
 *	./doctor [ROOT]
 */
#include <csight.h>
#include <stdio.h>
#include <string.h>

static void print_findings(const struct csight_doctor *d)
{
	struct csight_finding f = { .size = sizeof(f) };

	for (size_t i = 0; csight_doctor_finding(d, i, &f) == 0; i++) {
		if (strcmp(f.level, "ok") == 0)
			continue;
		printf("%s: %s: %s\n", f.level, f.topic, f.text);
		if (*f.remedy)
			printf("    %s\n", f.remedy);
	}
}

int main(int argc, char **argv)
{
	const struct csight_doctor_options o = { .size = sizeof(o), .root = argc > 1 ? argv[1] : NULL };
	struct csight_doctor *d = NULL;
	int rc = csight_doctor_run(&o, &d);
	unsigned ways;

	if (rc < 0) {
		fprintf(stderr, "cannot examine %s: %s\n", o.root ? o.root : "this machine", strerror(-rc));
		return 2;
	}
	print_findings(d);
	ways = csight_doctor_ways(d);
	printf("programs can%s be traced%s%s\n", ways ? "" : "not", ways & CSIGHT_BY_HARDWARE ? " by hardware" : "",
	       ways & CSIGHT_BY_EMULATOR ? " in the emulator" : "");
	csight_doctor_free(d);
	return ways ? 0 : 1;
}
