/* Things and the numbers that were given to them: by 16 bytes that tell them apart, or by their text. */
#ifndef CSIGHT_NUMBERS_H
#define CSIGHT_NUMBERS_H

#include <stdbool.h>

#include "lib/base/buf.h"

struct number {
	uint64_t key[2];
	uint32_t value;
	bool used;
};

/* Open addressing; the size is a power of two. Zeros are an empty one. */
struct numbers {
	struct number *list;
	size_t size, n;
};

/* 0: *ret is where the number stands, until something is looked for again. 1: where it is to be put now; -ENOMEM. */
int numbers_find(struct numbers *s, uint64_t key, uint64_t more, uint32_t **ret);
void numbers_done(struct numbers *s);

/* Texts with a NUL, one behind another in a buffer, each once; their numbers are their places. */
struct texts {
	struct buf bytes;
	uint32_t *list; /* places plus one */
	size_t size, n;
};

int texts_find(struct texts *s, const char *text, uint32_t *ret);
void texts_done(struct texts *s);

#endif
