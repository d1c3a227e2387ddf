/* SPDX-License-Identifier: MIT */
/* A table of functions from a list in C, made as those of ELF files are. */
#ifndef CSIGHT_TESTS_SYMBOL_LIST_H
#define CSIGHT_TESTS_SYMBOL_LIST_H

#include "lib/code/symtab.h"

struct symbol {
	uint64_t start, end; /* file offsets; end 0: the start of the next function */
	const char *name;
};

/* In any order. Names are copied. */
static int symbols_from_list(const struct symbol *list, size_t n, struct symbols **ret)
{
	_cleanup_(symbols_freep) struct symbols *s = calloc(1, sizeof(*s));
	_cleanup_(symbols_pieces_done) struct pieces found = { 0 }, nameless = { 0 };
	int rc = s ? 0 : -ENOMEM;

	for (size_t i = 0; rc == 0 && i < n; i++) {
		struct piece p = { .start = list[i].start, .end = list[i].end, .name = (uint32_t)s->names.size };

		p.open = !p.end;
		p.end = p.open ? UINT64_MAX : p.end;
		buf_add(&s->names, list[i].name, strlen(list[i].name) + 1);
		rc = symbols_pieces_add(&found, &p);
	}
	if (rc == 0)
		rc = buf_error(&s->names);
	if (rc == 0)
		rc = symbols_make(s, &found, &nameless);
	if (rc < 0)
		return rc;
	*ret = TAKE_PTR(s);
	return 0;
}

#endif
