#include <string.h>

#include "lib/base/numbers.h"

enum { SIZE_FIRST = 1024 };

static size_t number_slot(const struct number *list, size_t size, uint64_t key, uint64_t more)
{
	uint64_t h = (key ^ more * 0xff51afd7ed558ccdull) * 0x9e3779b97f4a7c15ull;
	size_t i = (size_t)(h >> 32) & (size - 1);

	while (list[i].used && (list[i].key[0] != key || list[i].key[1] != more))
		i = (i + 1) & (size - 1);
	return i;
}

static int grow_numbers(struct numbers *s)
{
	size_t size = s->size ? 2 * s->size : SIZE_FIRST;
	struct number *list = calloc(size, sizeof(*list));

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < s->size; i++)
		if (s->list[i].used)
			list[number_slot(list, size, s->list[i].key[0], s->list[i].key[1])] = s->list[i];
	free(s->list);
	s->list = list;
	s->size = size;
	return 0;
}

int numbers_find(struct numbers *s, uint64_t key, uint64_t more, uint32_t **ret)
{
	struct number *found;

	if (2 * s->n >= s->size && grow_numbers(s) < 0)
		return -ENOMEM;
	found = &s->list[number_slot(s->list, s->size, key, more)];
	*ret = &found->value;
	if (found->used)
		return 0;
	*found = (struct number){ .key = { key, more }, .used = true };
	s->n++;
	return 1;
}

void numbers_done(struct numbers *s)
{
	free(s->list);
}

static size_t text_slot(const struct texts *s, const uint32_t *list, size_t size, const char *text)
{
	uint64_t h = 0xcbf29ce484222325;
	size_t i;

	for (const char *p = text; *p; p++)
		h = (h ^ (uint8_t)*p) * 0x100000001b3;
	i = (size_t)(h ^ h >> 32) & (size - 1);
	while (list[i] && strcmp((const char *)s->bytes.data + list[i] - 1, text) != 0)
		i = (i + 1) & (size - 1);
	return i;
}

static int grow_texts(struct texts *s)
{
	size_t size = s->size ? 2 * s->size : SIZE_FIRST;
	uint32_t *list = calloc(size, sizeof(*list));

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < s->size; i++)
		if (s->list[i])
			list[text_slot(s, list, size, (const char *)s->bytes.data + s->list[i] - 1)] = s->list[i];
	free(s->list);
	s->list = list;
	s->size = size;
	return 0;
}

int texts_find(struct texts *s, const char *text, uint32_t *ret)
{
	uint32_t *found;

	if (2 * s->n >= s->size && grow_texts(s) < 0)
		return -ENOMEM;
	found = &s->list[text_slot(s, s->list, s->size, text)];
	if (!*found) {
		uint32_t at = (uint32_t)s->bytes.size;

		buf_add(&s->bytes, text, strlen(text) + 1);
		if (buf_error(&s->bytes))
			return buf_error(&s->bytes);
		*found = at + 1;
		s->n++;
	}
	*ret = *found - 1;
	return 0;
}

void texts_done(struct texts *s)
{
	buf_done(&s->bytes);
	free(s->list);
}
