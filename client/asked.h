/* What --to and -o ask for, each of which may be given several times: the n-th -o is of the n-th --to. */
#ifndef CSIGHT_CLIENT_ASKED_H
#define CSIGHT_CLIENT_ASKED_H

#include "client/client.h"
#include "lib/decoder/decoder.h"

struct asked_file {
	const char *format, *path; /* path NULL: standard output */
};

struct asked {
	struct asked_file files[DECODER_OUTPUTS_MAX];
	size_t n; /* after asked_settle() */
	size_t n_formats, n_paths;
};

/* Another one of either; 0 or STATUS_USAGE. */
int asked_format(struct client *c, struct asked *a, const char *format);
int asked_path(struct client *c, struct asked *a, const char *path);

/* All have been given; format: where none was. 0 or STATUS_USAGE, where files and formats do not match. */
int asked_settle(struct client *c, struct asked *a, const char *format);

#endif
