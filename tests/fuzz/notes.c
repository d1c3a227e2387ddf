/* SPDX-License-Identifier: MIT */
/* lib/notes and lib/store/notes.c: the notes of a program, and the store that has them. */
#include "config.h"

#include <string.h>

#include "lib/base/util.h"
#include "lib/notes/notes.h"
#include "lib/store/store.h"
#include "tests/fuzz/fuzz.h"

static void check_store(const struct note *notes, size_t n)
{
	_cleanup_(store_writer_freep) struct store_writer *w = NULL;
	_cleanup_(store_closep) struct store *s = NULL;
	_cleanup_close_ int fd = fuzz_fd("", 0);

	fuzz_require(store_create(fd, &(struct store_meta){ .pid = 1 }, &w) == 0);
	fuzz_require(store_put_notes(w, notes, n) == 0 && store_finish(w) == 0);
	fuzz_require(store_open(fd, &s) == 0 && store_notes(s) <= n);
	for (size_t i = 0; i < store_notes(s); i++) {
		const struct store_note *note = store_note(s, i);

		fuzz_require(strlen(note->label) <= NOTES_LABEL_MAX && note->until >= note->time);
		fuzz_require(i == 0 || note->tid >= store_note(s, i - 1)->tid);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ struct note *notes = NULL;
	size_t n;

	fuzz_require(notes_parse(data, size, &notes, &n) == 0 && n <= NOTES_ENTRIES);
	for (size_t i = 0; i < n; i++)
		fuzz_require((const uint8_t *)notes[i].label >= data &&
			     (const uint8_t *)notes[i].label + notes[i].label_size <= data + size);
	check_store(notes, n);
	return 0;
}

void fuzz_seeds(void)
{
	static struct notes_entry list[12];

	for (uint64_t i = 0; i < ELEMENTS(list); i++) {
		struct notes_entry *e = &list[i];

		*e = (struct notes_entry){ .time = 1000 * i,
					   .value = (int64_t)i,
					   .begin = i - 1,
					   .begin_time = 1000 * i - 1000,
					   .tid = 7 + i / 6,
					   .kind = i % 3,
					   .label_size = (uint16_t)(5 * i) };
		atomic_store(&e->sequence, 2 * i + 2);
		memset(e->label, 'a' + (int)i, sizeof(e->label));
	}
	fuzz_seed(list, sizeof(list));
	fuzz_seed(list, sizeof(list[0]) * 2);
}
