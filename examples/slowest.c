/* SPDX-License-Identifier: MIT */
/*
 * Prints the 99th percentile of the durations of a function, and its slowest call: slowest FUNCTION STORE
 *	cc -o slowest slowest.c $(pkg-config --cflags --libs libcsight)
 */
#include <csight.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int print_durations(const struct csight_store *s, const char *name)
{
	struct csight_calls_options only = { .size = sizeof(only), .function = name };
	struct csight_call call = { .size = sizeof(call) }, slowest = { .size = sizeof(slowest) };
	struct csight_function f = { .size = sizeof(f) }, caller = { .size = sizeof(caller) };
	struct csight_thread t = { .size = sizeof(t) };
	struct csight_calls *calls = NULL;
	size_t index = 0;
	int rc = csight_store_find(s, name, &index);

	if (rc == 0)
		rc = csight_calls_open(s, &only, &calls);
	if (rc < 0)
		return rc;
	while ((rc = csight_calls_next(calls, &call)) == 1)
		if (call.function == index && call.duration >= slowest.duration)
			slowest = call;
	csight_calls_close(calls);
	csight_store_function(s, index, &f);
	csight_store_function(s, slowest.caller, &caller);
	csight_store_thread(s, slowest.thread, &t);
	printf("%s: %" PRIu64 " calls, p99 %" PRIu64 " ns\n", f.name, f.calls, f.p99);
	printf("slowest: %" PRIu64 " ns, %" PRIu64 " instructions, at %" PRIu64 " in thread %u, called by %s\n",
	       slowest.duration, slowest.instructions, slowest.enter, (unsigned)t.tid, caller.name ? caller.name : "?");
	return rc;
}

int main(int argc, char **argv)
{
	struct csight_store *s = NULL;
	int rc = argc == 3 ? csight_store_open_path(argv[2], 0, &s) : -1;

	if (rc == 0)
		rc = print_durations(s, argv[1]);
	if (rc < 0)
		fprintf(stderr, argc == 3 ? "cannot read %s: %s\n" : "usage: slowest FUNCTION STORE\n", argv[argc - 1],
			strerror(-rc));
	csight_store_close(s);
	return rc < 0;
}
