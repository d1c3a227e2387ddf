/* What --to and -o ask for, each of which may be given several times: the n-th -o is of the n-th --to. */
#ifndef CSIGHT_CLIENT_OUTPUT_FILES_H
#define CSIGHT_CLIENT_OUTPUT_FILES_H

#include "client/client.h"
#include "lib/decoder/decoder.h"

struct output_file {
	const char *format, *path; /* path NULL: standard output */
};

struct output_files {
	struct output_file files[DECODER_OUTPUTS_MAX];
	size_t n; /* after output_files_finish() */
	size_t n_formats, n_paths;
};

/* Another one of either; 0 or STATUS_USAGE. */
int output_files_add_format(struct client *c, struct output_files *a, const char *format);
int output_files_add_path(struct client *c, struct output_files *a, const char *path);

/* All have been given; format: where none was. 0 or STATUS_USAGE, where files and formats do not match. */
int output_files_finish(struct client *c, struct output_files *a, const char *format);

#endif
