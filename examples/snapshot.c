/* SPDX-License-Identifier: MIT */
/*
 * Takes a snapshot of this process, or of another process of the same user, and saves it as a Perfetto trace.
 *
 *	cc -o snapshot snapshot.c $(pkg-config --cflags --libs libcsight)
 *	./snapshot FILE.pftrace [PID]
 */
#include <csight.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Called at the beginning of each phase of the snapshot, and while it is decoded. Returns 0 to continue to wait. */
static int show_progress(void *userdata, const char *phase, uint64_t done, uint64_t total)
{
	(void)userdata;
	if (total)
		fprintf(stderr, "%s: %d %%\n", phase, (int)(100.0 * (double)done / (double)total));
	else
		fprintf(stderr, "%s\n", phase);
	return 0;
}

/* The recorded work, where the process records itself. */
static unsigned fibonacci(unsigned n)
{
	return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

static int save(int from, const char *path)
{
	static char data[65536];
	FILE *to = fopen(path, "wb");
	ssize_t n = 0;

	while (to && (n = read(from, data, sizeof(data))) > 0)
		if (fwrite(data, 1, (size_t)n, to) != (size_t)n)
			break;
	if (!to || n != 0 || fclose(to) != 0) {
		perror(path);
		return -1;
	}
	return 0;
}

/* Returns 0, or a negative errno with a message in csight_error(). */
static int record(struct csight *c, pid_t pid, struct csight_object **ret)
{
	int rc = csight_arm(c, pid, NULL, NULL);

	if (rc < 0)
		return rc;
	if (pid == getpid())
		printf("fibonacci(20) is %u\n", fibonacci(20));
	return csight_snapshot(c, pid, CSIGHT_NO_ARM, show_progress, NULL, ret);
}

int main(int argc, char **argv)
{
	pid_t pid = argc > 2 ? (pid_t)atoi(argv[2]) : getpid();
	struct csight_object *snapshot = NULL;
	struct csight *c = NULL;
	int fd = -1, rc;

	if (argc < 2 || csight_open(NULL, &c) < 0) {
		fprintf(stderr, "usage: snapshot FILE [PID]\n");
		return 2;
	}
	rc = record(c, pid, &snapshot);
	if (rc == 0) {
		printf("snapshot %s is %s\n", csight_text(snapshot, "id"), csight_text(snapshot, "state"));
		rc = csight_open_file(c, csight_text(snapshot, "id"), "perfetto", &fd);
	}
	if (rc < 0)
		fprintf(stderr, "%s\n", csight_error(c));
	else
		rc = save(fd, argv[1]);
	if (fd >= 0)
		close(fd);
	csight_object_free(snapshot);
	csight_close(c);
	return rc < 0;
}
