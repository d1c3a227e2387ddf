/* SPDX-License-Identifier: MIT */
/*
 * The files that a decode requested besides its input (images, debug files, the files of bare trace), with what was
 * found: as JSON, so that a later lookup can check whether another decode would find the same.
 */
#ifndef CSIGHT_CLIENT_SERVED_FILES_H
#define CSIGHT_CLIENT_SERVED_FILES_H

#include <stdbool.h>
#include <sys/stat.h>

#include "lib/base/digest.h"
#include "lib/local/finder.h"

/* Room for the identity of a file: device, inode, size, and times of the last changes of contents and inode. */
enum { SERVED_FILES_IDENTITY = 112 };

/* Writes the identity of a file; that of another file or content differs. */
void served_files_identity(const struct stat *st, char ret[SERVED_FILES_IDENTITY]);

/*
 * Adds a request to an array: for an image, what the finder has opened (fd -1: nothing), or a file beneath the
 * directory of the input.
 */
void served_files_add(json_object *array, const struct finder *f, const struct decoder_event *request, int fd);

/* True if all requests would be answered with the same files again. debuginfod is not asked. */
bool served_files_unchanged(json_object *array, struct finder *f);

/* True if files were requested that were not found. */
bool served_files_any_missing(json_object *array);

#endif
