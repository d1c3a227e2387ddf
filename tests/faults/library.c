/* SPDX-License-Identifier: MIT */
/* library PID: a program that uses libcsight as programs do: every call once. Prints the ID of its snapshot. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/csight/csight.h"

static int fail(struct csight *c, const char *what)
{
	fprintf(stderr, "library: %s: %s\n", what, csight_error(c));
	return 1;
}

static int show_progress(void *userdata, const char *phase, uint64_t done, uint64_t total)
{
	(void)userdata, (void)phase, (void)done, (void)total;
	return 0;
}

static int ask(struct csight *c)
{
	struct csight_object *o = NULL;

	if (csight_status(c, &o) < 0)
		return fail(c, "status");
	csight_object_free(o);
	o = NULL;
	if (csight_targets(c, &o) < 0)
		return fail(c, "targets");
	csight_object_free(o);
	o = NULL;
	if (csight_list(c, &o) < 0)
		return fail(c, "list");
	csight_object_free(o);
	return 0;
}

static int use(struct csight *c, const char *id)
{
	struct csight_object *o = NULL;
	char data[4096];
	int fd = -1;

	if (csight_get(c, id, &o) < 0)
		return fail(c, "get");
	csight_object_free(o);
	if (csight_open_file(c, id, "store", &fd) < 0)
		return fail(c, "open");
	if (read(fd, data, sizeof(data)) <= 0) {
		perror("library: read");
		close(fd);
		return 1;
	}
	close(fd);
	return 0;
}

static int record(struct csight *c, pid_t pid)
{
	struct csight_object *o = NULL;
	const char *id;
	int rc;

	if (csight_snapshot(c, pid, 0, show_progress, NULL, &o) < 0)
		return fail(c, "snapshot");
	id = csight_text(o, "id");
	printf("{\"id\": \"%s\", \"state\": \"%s\"}\n", id, csight_text(o, "state"));
	rc = use(c, id);
	csight_object_free(o);
	return rc;
}

int main(int argc, char **argv)
{
	struct csight *c = NULL;
	int rc;

	if (argc < 2 || csight_open(NULL, &c) < 0) {
		fprintf(stderr, "library: cannot make a connection: out of memory\n");
		return 1;
	}
	rc = ask(c);
	if (rc == 0)
		rc = record(c, (pid_t)atoi(argv[1]));
	csight_close(c);
	return rc;
}
