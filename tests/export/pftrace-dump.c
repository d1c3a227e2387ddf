/* SPDX-License-Identifier: MIT */
/*
 * pftrace-dump FILE: prints the slices of a Perfetto trace, one per line: tid depth ts dur name; instants have dur "-".
 * Samples of counters are "counter ts value name".
 * With --notes: after the name the annotations, as key=value. With --threads: pid tid thread-name process-name; with
 * --attributes: key value. Fails, with a reason, on a file that Perfetto would not read completely.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "lib/base/io.h"
#include "lib/base/util.h"
#include "tests/export/pftrace.h"

static void print_slices(const struct pf_trace *t, bool notes)
{
	for (size_t i = 0; i < t->n_slices; i++) {
		const struct pf_slice *s = &t->slices[i];

		if (s->counted) {
			printf("counter %" PRIu64 " %" PRId64 " %s\n", s->ts, s->value, t->threads[s->thread].name);
			continue;
		}
		printf("%" PRIu64 " %u %" PRIu64 " ", t->threads[s->thread].tid, s->depth, s->ts);
		if (s->instant)
			printf("- %s", s->name);
		else
			printf("%" PRIu64 " %s", s->dur, s->name);
		if (notes && s->notes)
			printf(" %s", s->notes);
		putchar('\n');
	}
}

int main(int argc, char **argv)
{
	const char *path = argc > 1 ? argv[argc - 1] : NULL;
	_cleanup_free_ char *data = NULL;
	struct pf_trace t;
	size_t size = 0;
	int rc;

	if (!path) {
		fprintf(stderr, "usage: pftrace-dump [--notes|--threads|--attributes] FILE\n");
		return 2;
	}
	rc = io_read_file(AT_FDCWD, path, (size_t)2 << 30, &data, &size);
	if (rc < 0) {
		fprintf(stderr, "%s: %s\n", path, strerror(-rc));
		return 1;
	}
	rc = pf_read(data, size, &t);
	if (rc < 0)
		fprintf(stderr, "%s: %s\n", path, t.error);
	else if (argc > 2 && strcmp(argv[1], "--threads") == 0)
		for (size_t i = 0; i < t.n_threads; i++)
			printf("%" PRIu64 " %" PRIu64 " %s %s\n", t.threads[i].pid, t.threads[i].tid, t.threads[i].name,
			       t.threads[i].process ? t.threads[i].process : "-");
	else if (argc > 2 && strcmp(argv[1], "--attributes") == 0)
		for (size_t i = 0; i < t.n_attributes; i++)
			if (t.attributes[i].text)
				printf("%s %s\n", t.attributes[i].key, t.attributes[i].text);
			else
				printf("%s %" PRIu64 "\n", t.attributes[i].key, t.attributes[i].number);
	else
		print_slices(&t, argc > 2 && strcmp(argv[1], "--notes") == 0);
	pf_done(&t);
	return rc < 0;
}
