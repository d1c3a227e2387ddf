/* SPDX-License-Identifier: MIT */
/* A table of functions that replaced each other: an address belongs to the last one that covers it. */
#include "lib/code/address-space.h"
#include "lib/code/symtab.h"

enum { LAYERS_MAX = 2 << 20 };

struct layer {
	struct piece piece;
	uint64_t order;
};

static int compare_layers(const void *left, const void *right)
{
	const struct layer *a = left, *b = right;

	return (a->piece.start > b->piece.start) - (a->piece.start < b->piece.start);
}

/* Each covers earlier ones, as a later mapping does. One without an end ends where the next function begins. */
static int cover(struct layer *list, size_t n, struct address_space *space)
{
	uint64_t next = UINT64_MAX;
	int rc = 0;

	for (size_t i = n; i-- > 0 && rc == 0;) {
		struct piece *p = &list[i].piece;

		if (i + 1 < n && list[i + 1].piece.start > p->start)
			next = list[i + 1].piece.start;
		if (p->open)
			p->end = next;
		rc = address_space_add(
		    space, &(struct space_mapping){
			       .start = p->start, .end = p->end, .time = list[i].order, .source = (uint32_t)i });
	}
	return rc == 0 ? address_space_seal(space) : rc;
}

/* Adds what is left of a layer. Its parts are one function, which begins at the first one. */
static int add_part(struct piece *layer, uint64_t start, uint64_t end, struct pieces *ret)
{
	struct piece *last = ret->n ? &ret->items[ret->n - 1] : NULL;

	if (last && last->end == start && layer->function_end && last->function == layer->function) {
		last->end = end;
		return 0;
	}
	if (!layer->function_end)
		layer->function = start;
	layer->function_end = layer->end;
	return symbols_pieces_add(ret, &(struct piece){ .start = start,
							.end = end,
							.function = layer->function,
							.function_end = layer->function_end,
							.name = layer->name });
}

static int add_parts(struct layer *list, size_t n, const struct address_space *space, struct pieces *ret)
{
	uint64_t addr = 0, end;
	size_t i = 0;
	int rc = 0;

	while (rc == 0) {
		const struct space_mapping *m = address_space_find(space, addr, UINT64_MAX, &end);

		if (m) {
			rc = add_part(&list[m->source].piece, addr, end, ret);
			addr = end;
			continue;
		}
		while (i < n && list[i].piece.start <= addr)
			i++;
		if (i == n)
			break;
		addr = list[i].piece.start;
	}
	return rc;
}

static int make_parts(struct layer *list, size_t n, struct pieces *ret)
{
	_cleanup_(address_space_freep) struct address_space *space = NULL;
	int rc = address_space_new(&space);

	if (rc < 0)
		return rc;
	if (n)
		qsort(list, n, sizeof(*list), compare_layers);
	rc = cover(list, n, space);
	return rc == 0 ? add_parts(list, n, space, ret) : rc;
}

int symbols_from_layers(const struct symbol_layer *layers, size_t n, struct buf *names, struct symbols **ret)
{
	_cleanup_(symbols_freep) struct symbols *s = calloc(1, sizeof(*s));
	_cleanup_(symbols_pieces_done) struct pieces parts = { 0 };
	_cleanup_free_ struct layer *list = n <= LAYERS_MAX ? calloc(n + 1, sizeof(*list)) : NULL;
	int rc;

	if (n > LAYERS_MAX)
		return -EFBIG;
	if (!s || !list)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		list[i] = (struct layer){ { .start = layers[i].start,
					    .end = layers[i].end,
					    .name = layers[i].name,
					    .open = !layers[i].end },
					  i };
	rc = make_parts(list, n, &parts);
	if (rc < 0)
		return rc;
	s->pieces = TAKE_PTR(parts.items);
	s->n = parts.n;
	s->names = *names;
	*names = (struct buf){ 0 };
	*ret = TAKE_PTR(s);
	return 0;
}
