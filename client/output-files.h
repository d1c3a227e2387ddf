/* SPDX-License-Identifier: MIT */
/* The options --to and -o, which may be repeated: the n-th -o names the file of the n-th --to. */
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

/* Adds a format, or a file name. Returns 0 or STATUS_USAGE. */
int output_files_add_format(struct client *c, struct output_files *a, const char *format);
int output_files_add_path(struct client *c, struct output_files *a, const char *path);

/* Call after the last option. format: the default. Returns 0, or STATUS_USAGE if files and formats do not match. */
int output_files_finish(struct client *c, struct output_files *a, const char *format);

/* Adds an input that no output may be, up to OUTPUT_FILES_INPUTS_MAX. */
enum { OUTPUT_FILES_INPUTS_MAX = 4 };
void output_files_protect(const char *input);

/*
 * Opens an output, and truncates it, unless it is another output, or an input: one of output_files_protect(), input_fd,
 * or the file of that name, or a part of the snapshot of that name. mode: O_WRONLY; or O_RDWR, if path can be read,
 * too. Prints an error; returns 0 or STATUS_FAILED. Before the caller closes the output, it passes it to
 * output_files_end().
 */
int output_files_open(const char *path, int mode, const char *input, int input_fd, int *ret);

/*
 * rc: the result of writing the file. Returns it, or the error that the file system reports only at the end. An
 * incomplete file must not be mistaken for a complete one: removes it, also if a signal ends csight before this call. A
 * file of which path is not the name, but a symbolic link, as /dev/stdout, becomes empty.
 */
int output_files_end(int fd, int rc);

#endif
