/* SPDX-License-Identifier: MIT */
/* watch-at PID TRIGGER [ADDRESS CONDITION]...: sets a trigger with these places, and prints its ID. */
#include <stdio.h>
#include <stdlib.h>

#include "lib/csight/csight.h"

enum { PLACES = 4 };

int main(int argc, char **argv)
{
	struct csight_watch_options options = { .size = sizeof(options) };
	struct csight_object *trigger = NULL;
	uint64_t places[PLACES];
	unsigned conditions[PLACES];
	struct csight *c = NULL;
	int rc;

	if (argc < 3 || (argc - 3) / 2 > PLACES)
		return 2;
	for (int i = 3; i + 1 < argc; i += 2) {
		places[options.n_places] = strtoull(argv[i], NULL, 0);
		conditions[options.n_places++] = (unsigned)atoi(argv[i + 1]);
	}
	options.places = places;
	options.conditions = conditions;
	rc = csight_open(NULL, &c);
	if (rc == 0)
		rc = csight_watch_set(c, (pid_t)atoi(argv[1]), argv[2], &options, &trigger);
	if (rc == 0)
		printf("%d\n", (int)csight_number(trigger, "id", 0));
	else
		fprintf(stderr, "%s\n", csight_error(c));
	csight_object_free(trigger);
	csight_close(c);
	return rc < 0;
}
