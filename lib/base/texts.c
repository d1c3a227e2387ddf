/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "lib/base/texts.h"

int texts_find(struct texts *s, const char *text, uint32_t *ret)
{
	size_t size = strlen(text) + 1;
	uint64_t h = hash_bytes(text, size - 1);
	uint32_t at = (uint32_t)s->bytes.size, *offset = NULL;
	int rc = buf_error(&s->bytes);

	for (uint64_t n = 0; rc == 0; n++) {
		rc = hash_find(&s->offsets, h, n, &offset);
		if (rc == 0 && strcmp((const char *)s->bytes.data + *offset, text) == 0)
			break;
	}
	if (rc < 0)
		return rc;
	if (rc == 1) {
		*offset = at;
		buf_add(&s->bytes, text, size);
	}
	*ret = *offset;
	return buf_error(&s->bytes);
}

void texts_done(struct texts *s)
{
	buf_done(&s->bytes);
	hash_done(&s->offsets);
}
