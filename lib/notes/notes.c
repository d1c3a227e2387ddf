/* SPDX-License-Identifier: MIT */
#include "lib/notes/notes.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/io.h"
#include "lib/base/reader.h"
#include "lib/base/util.h"

enum { ENTRY_SIZE = sizeof(struct notes_entry) };

static_assert(ENTRY_SIZE == 128, "entries are aligned to cache lines");
static_assert(offsetof(struct notes_memory, entries) == 128, "so is the first one");

static int read_memory(int memfd, struct notes_memory *ret)
{
	ssize_t n = io_pread(memfd, ret, sizeof(*ret), 0);

	if (n < 0)
		return (int)n;
	return (size_t)n != sizeof(*ret) || ret->magic != NOTES_MAGIC || ret->version != NOTES_VERSION ||
		       ret->entry_size != ENTRY_SIZE
		   ? -EBADMSG
		   : 0;
}

int notes_copy(int memfd, struct buf *ret)
{
	_cleanup_free_ struct notes_memory *first = malloc(sizeof(*first)), *second = malloc(sizeof(*second));
	int rc = first && second ? read_memory(memfd, first) : -ENOMEM;

	if (rc == 0)
		rc = read_memory(memfd, second);
	for (size_t i = 0; rc == 0 && i < NOTES_ENTRIES; i++) {
		const struct notes_entry *e = &first->entries[i];
		uint64_t sequence = atomic_load_explicit(&e->sequence, memory_order_relaxed);

		if (sequence && sequence % 2 == 0 && memcmp(e, &second->entries[i], ENTRY_SIZE) == 0)
			buf_add(ret, e, ENTRY_SIZE);
	}
	return rc < 0 ? rc : buf_error(ret);
}

static int parse_entry(struct reader *r, struct note *ret)
{
	uint64_t sequence, value;
	uint16_t kind, size;
	const uint8_t *label;

	if (rd_u64(r, &sequence) < 0 || rd_u64(r, &ret->time) < 0 || rd_u64(r, &value) < 0 ||
	    rd_u64(r, &ret->begin) < 0 || rd_u64(r, &ret->begin_time) < 0 || rd_u32(r, &ret->tid) < 0 ||
	    rd_u16(r, &kind) < 0 || rd_u16(r, &size) < 0 || rd_bytes(r, NOTES_LABEL_MAX, &label) < 0)
		return -EBADMSG;
	if (!sequence || sequence % 2 || kind > NOTES_END || size > NOTES_LABEL_MAX)
		return -EBADMSG;
	ret->value = (int64_t)value;
	ret->index = sequence / 2 - 1;
	ret->kind = (enum notes_kind)kind;
	ret->label = (const char *)label;
	ret->label_size = strnlen((const char *)label, size);
	/* A span ends after it began. */
	return kind == NOTES_END && (ret->begin >= ret->index || ret->begin_time > ret->time) ? -EBADMSG : 0;
}

static int compare_notes(const void *left, const void *right)
{
	uint64_t a = ((const struct note *)left)->index, b = ((const struct note *)right)->index;

	return (a > b) - (a < b);
}

int notes_parse(const void *copy, size_t size, struct note **ret, size_t *ret_n)
{
	size_t max = MIN(size / ENTRY_SIZE, (size_t)NOTES_ENTRIES), n = 0, kept = 0;
	struct note *list = calloc(max + 1, sizeof(*list));

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < max; i++) {
		struct reader r = reader_of((const uint8_t *)copy + i * ENTRY_SIZE, ENTRY_SIZE);

		n += parse_entry(&r, &list[n]) == 0;
	}
	qsort(list, n, sizeof(*list), compare_notes);
	for (size_t i = 0; i < n; i++)
		if (!kept || list[kept - 1].index != list[i].index)
			list[kept++] = list[i];
	*ret = list;
	*ret_n = kept;
	return 0;
}
