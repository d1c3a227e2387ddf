/* SPDX-License-Identifier: MIT */
/*
 * Redacted forms of what csight export does not make of the store; store_redact() makes those of the store. Functions
 * read a file from its current position on, and return negative errno.
 */
#ifndef CSIGHT_CLIENT_REDACTION_H
#define CSIGHT_CLIENT_REDACTION_H

/* Writes what may remain of a snapshot.json: times, numbers, build-ids, base names of images. */
int redaction_description(int from, int to);

/* Copies AutoFDO counts, with the base names of their files. */
int redaction_autofdo(int from, int to);

#endif
