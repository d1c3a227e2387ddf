/* SPDX-License-Identifier: MIT */
/*
 * Sets a trigger in a process, waits for a hit, and prints the snapshot that was taken for the hit.
 *
 *	cc -o watch watch.c $(pkg-config --cflags --libs libcsight)
 *	./watch PID 'syscall read longer-than 5ms'
 */
#include <csight.h>
#include <stdio.h>
#include <stdlib.h>

/* Called when the trigger is in effect. Returns 0 to continue to wait. */
static int on_watching(void *userdata, const struct csight_object *trigger)
{
	(void)userdata;
	printf("watching process %d\n", (int)csight_number(trigger, "pid", 0));
	fflush(stdout);
	return 0;
}

int main(int argc, char **argv)
{
	struct csight_watch_options options = { .size = sizeof(options), .watching = on_watching };
	struct csight_object *snapshot = NULL;
	struct csight *c = NULL;
	int rc;

	if (argc != 3) {
		fprintf(stderr, "usage: watch PID TRIGGER\n");
		return 2;
	}
	rc = csight_open(NULL, &c);
	if (rc == 0)
		rc = csight_watch_wait(c, (pid_t)atoi(argv[1]), argv[2], &options, &snapshot);
	if (rc == 0)
		printf("snapshot %s, of thread %d\n", csight_text(snapshot, "id"),
		       (int)csight_number(csight_field(snapshot, "trigger"), "tid", 0));
	else
		fprintf(stderr, "%s\n", csight_error(c));
	csight_object_free(snapshot);
	csight_close(c);
	return rc < 0;
}
