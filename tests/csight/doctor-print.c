/* SPDX-License-Identifier: MIT */
/* doctor-print [ROOT]: what csight_doctor_run() finds, a line each, as the test makes them of csight doctor --json. */
#include <stdio.h>

#include "lib/csight/csight.h"

int main(int argc, char **argv)
{
	const struct csight_doctor_options o = { .size = sizeof(o), .root = argc > 1 ? argv[1] : NULL };
	struct csight_finding f = { .size = sizeof(f) };
	struct csight_doctor *d = NULL;
	int rc = csight_doctor_run(&o, &d);

	if (rc < 0) {
		printf("%d\n", rc);
		return 1;
	}
	printf("%d %d\n", !!(csight_doctor_ways(d) & CSIGHT_BY_HARDWARE),
	       !!(csight_doctor_ways(d) & CSIGHT_BY_EMULATOR));
	for (size_t i = 0; i < csight_doctor_findings(d); i++)
		if (csight_doctor_finding(d, i, &f) == 0)
			printf("%s|%s|%s|%s\n", f.level, f.topic, f.text, f.remedy);
	rc = csight_doctor_finding(d, csight_doctor_findings(d), &f);
	csight_doctor_free(d);
	return rc < 0 ? 0 : 2;
}
