/* SPDX-License-Identifier: MIT */
/*
 * The BLAKE2b hash of RFC 7693, without a key, with 32 bytes of result: what b2sum -l 256 prints. It is infeasible to
 * make two inputs of one digest, so that it stands for the input's contents.
 */
#ifndef CSIGHT_DIGEST_H
#define CSIGHT_DIGEST_H

#include <stddef.h>
#include <stdint.h>

enum { DIGEST_SIZE = 32, DIGEST_BLOCK = 128, DIGEST_TEXT = 2 * DIGEST_SIZE + 1 };

struct digest {
	uint64_t state[8];
	uint64_t bytes; /* before the block */
	uint8_t block[DIGEST_BLOCK];
	size_t filled;
};

void digest_begin(struct digest *d);
void digest_add(struct digest *d, const void *data, size_t size);

/* Adds a text with its NUL, so that two texts differ from one text with the bytes of both. */
void digest_add_text(struct digest *d, const char *text);

/* Writes the digest in hexadecimal and a NUL. The digest takes no more bytes. */
void digest_end(struct digest *d, char ret[DIGEST_TEXT]);

#endif
