/* SPDX-License-Identifier: MIT */
/*
 * decode-print INPUT [OPTION=VALUE|FORMAT=FILE]...: decodes by libcsight, and prints the result, or the error and its
 * message. Options are images, regs, engine, tid, limit, no_inlines, and cancel: "before" the decode, "during" it, or
 * by "progress".
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/csight/csight.h"

static const char *value_of(char **args, const char *name)
{
	size_t size = strlen(name);

	for (; *args; args++)
		if (strncmp(*args, name, size) == 0 && (*args)[size] == '=')
			return *args + size + 1;
	return NULL;
}

static unsigned long number_of(char **args, const char *name)
{
	const char *value = value_of(args, name);

	return value ? strtoul(value, NULL, 10) : 0;
}

static int add_outputs(struct csight_decode *d, char **args)
{
	static const char options[] = " images regs engine tid limit no_inlines cancel ";
	int rc = 0;

	for (; rc == 0 && *args; args++) {
		char *name = strdup(*args), *file = name ? strchr(name, '=') : NULL, sought[64];
		int fd;

		if (!file)
			return -EINVAL;
		*file++ = 0;
		snprintf(sought, sizeof(sought), " %s ", name);
		if (!strstr(options, sought)) {
			fd = open(file, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
			rc = csight_decode_output(d, name, fd);
			close(fd);
		}
		free(name);
	}
	return rc;
}

struct cancellation {
	const char *how; /* or NULL */
	struct csight_decode *decode;
};

static int on_progress(void *userdata, const char *phase, uint64_t done, uint64_t total)
{
	const struct cancellation *c = userdata;

	if (!c->how || strcmp(phase, "decoding") != 0 || done > total)
		return 0;
	if (strcmp(c->how, "during") == 0)
		csight_decode_cancel(c->decode);
	return strcmp(c->how, "progress") == 0;
}

int main(int argc, char **argv)
{
	char **args = argv + (argc > 1 ? 2 : 1);
	const char *images = value_of(args, "images");
	struct cancellation cancel = { .how = value_of(args, "cancel") };
	const struct csight_decode_options o = { .size = sizeof(o),
						 .images = &images,
						 .n_images = images ? 1 : 0,
						 .regs = value_of(args, "regs"),
						 .engine = value_of(args, "engine"),
						 .limit = number_of(args, "limit"),
						 .tid = (uint32_t)number_of(args, "tid"),
						 .no_inlines = (uint32_t)number_of(args, "no_inlines") };
	struct csight_object *result = NULL;
	struct csight_decode *d = NULL;
	struct csight *c = NULL;
	int rc = csight_open(NULL, &c);

	if (rc == 0)
		rc = csight_decode_open(c, argc > 1 ? argv[1] : "", &o, &d);
	if (rc == 0)
		rc = add_outputs(d, args);
	cancel.decode = d;
	if (rc == 0 && cancel.how && strcmp(cancel.how, "before") == 0)
		rc = csight_decode_cancel(d);
	if (rc == 0)
		rc = csight_decode_run(d, on_progress, &cancel, &result);
	csight_decode_close(d);
	if (rc < 0)
		printf("%s: %s\n", strerrorname_np(-rc), csight_error(c));
	else
		printf("%s\n", csight_json(result));
	csight_object_free(result);
	csight_close(c);
	return rc < 0;
}
