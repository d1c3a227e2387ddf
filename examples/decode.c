/* SPDX-License-Identifier: MIT */
/*
 * Decodes a file of trace, and prints what ran; an interrupt (Ctrl-C) cancels the decode.
 *
 *	cc -o decode decode.c $(pkg-config --cflags --libs libcsight)
 *	./decode FILE [DIRECTORY OF IMAGES]...
 */
#include <csight.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct csight_decode *volatile running;

static void on_interrupt(int number)
{
	(void)number;
	if (running)
		csight_decode_cancel(running);
}

static int on_progress(void *userdata, const char *phase, uint64_t done, uint64_t total)
{
	(void)userdata;
	if (isatty(2))
		fprintf(stderr, "\r%s: %" PRIu64 " of %" PRIu64 " bytes", phase, done, total);
	return 0;
}

static void print_store(const struct csight_store *s, const struct csight_object *result)
{
	struct csight_function f = { .size = sizeof(f) };
	const struct csight_object *image;
	uint64_t calls = 0;

	for (size_t i = 0; csight_store_function(s, i, &f) == 0; i++)
		calls += f.calls;
	printf("%" PRId64 " instructions, %" PRIu64 " calls in %zu threads\n", csight_number(result, "instructions", 0),
	       calls, csight_store_threads(s));
	for (size_t i = 0; (image = csight_item(result, "images", i)); i++)
		if (!csight_flag(image, "found"))
			printf("not found: %s\n", csight_text(image, "path"));
}

static int decode(struct csight_decode *d, FILE *file, struct csight_store **ret, struct csight_object **ret_result)
{
	int rc = csight_decode_output(d, "store", fileno(file));

	if (rc < 0)
		return rc;
	running = d;
	rc = csight_decode_run(d, on_progress, NULL, ret_result);
	running = NULL;
	return rc < 0 ? rc : csight_store_open(dup(fileno(file)), 0, ret);
}

int main(int argc, char **argv)
{
	struct csight_decode_options o = { .size = sizeof(o) };
	struct csight_object *result = NULL;
	struct csight_decode *d = NULL;
	struct csight_store *s = NULL;
	struct csight *c = NULL;
	FILE *file = tmpfile();
	int rc;

	if (argc < 2 || !file || csight_open(NULL, &c) < 0)
		return 2;
	o.images = (const char *const *)argv + 2;
	o.n_images = (size_t)argc - 2;
	signal(SIGINT, on_interrupt);
	rc = csight_decode_open(c, argv[1], &o, &d);
	if (rc == 0)
		rc = decode(d, file, &s, &result);
	if (rc == 0)
		print_store(s, result);
	else
		fprintf(stderr, "%s\n", *csight_error(c) ? csight_error(c) : strerror(-rc));
	csight_object_free(result);
	csight_store_close(s);
	csight_decode_close(d);
	csight_close(c);
	fclose(file);
	return rc < 0;
}
