/* SPDX-License-Identifier: MIT */
/* A decode that csight itself runs (lib/local/file-decode.h), with its options, outputs and messages. Functions print
 * errors and return an exit status.
 */
#ifndef CSIGHT_CLIENT_LOCAL_DECODE_H
#define CSIGHT_CLIENT_LOCAL_DECODE_H

#include "client/output-files.h"
#include "lib/base/json.h"
#include "lib/local/bundle.h"
#include "lib/local/file-decode.h"

struct local_decode {
	struct client *client;
	struct output_files output_files; /* after output_files_finish() */
	/* NULL: the result is kept in file.result */
	void (*on_result)(struct client *c, json_object *result);
	struct bundle_files *bundled; /* NULL, or the caller's for bundle_keep() */
	json_object *served;          /* NULL, or the caller's array for served_files_add() */
	struct file_decode file;      /* its outputs are those of output_files */
	size_t n_made;                /* private: the first outputs, which are opened */
};

#define LOCAL_DECODE_NONE .file = FILE_DECODE_NONE

/* Sets the options that all verbs accept; before the input is opened. */
void local_decode_set_options(struct local_decode *o, const struct trace_options *options);

/* Adds a directory of images, the value of --images. Prints an error; returns 0 or an exit status. */
int local_decode_add_images(struct local_decode *o, const char *path);

/*
 * Opens the input: a perf.data file, a snapshot directory of csightd or Arm's tools, bare trace (with regs), or a store
 * if all formats are made from calls.
 */
int local_decode_open_input(struct local_decode *o, const char *name);

/* Makes a snapshot of the daemon the input. Takes ownership of the descriptors of its perf.data and snapshot.json. */
int local_decode_open_snapshot(struct local_decode *o, const char *id, int trace, int json);
int local_decode_open_outputs(struct local_decode *o);

/* Writes a copy of a store with new names of its functions; runs the job. The descriptors stay the caller's. */
int local_decode_rename(struct local_decode *o, const char *name, int store, int to);

/* Decodes the input to one format in an empty file. The descriptor stays the caller's. */
int local_decode_to(struct local_decode *o, const char *format, int to);

/* Decodes, and passes the result to on_result. Removes output files if they could not be completed. */
int local_decode_run(struct local_decode *o);
void local_decode_done(struct local_decode *o);

/* Prints the image files that a decode did not find, or its warnings, on standard error. */
void local_decode_print_missing(json_object *result);
void local_decode_print_warnings(json_object *result);

#endif
