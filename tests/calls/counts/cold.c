// SPDX-License-Identifier: MIT
/* Inlined functions whose slow path the compiler moves away, to NAME.cold. */
#include "count.h"

COUNTED(put)
COUNTED(grow)
COUNTED(verify)
COUNTED(report)

struct list {
	unsigned *items;
	size_t n, capacity;
};

static __attribute__((noinline, cold)) void complain(unsigned x)
{
	sink = x + 1;
}

static ALWAYS void report(unsigned x)
{
	COUNT(report);
	complain(x);
	complain(x * 2);
}

static inline int grow(struct list *l)
{
	size_t more = l->capacity ? 2 * l->capacity : 4;
	unsigned *items;

	COUNT(grow);
	items = (unsigned *)realloc(l->items, more * sizeof(*items));
	if (UNLIKELY(!items))
		return -1;
	l->items = items;
	l->capacity = more;
	return 0;
}

static ALWAYS int put(struct list *l, unsigned x)
{
	COUNT(put);
	if (UNLIKELY(l->n == l->capacity) && grow(l) < 0)
		return -1;
	l->items[l->n++] = x;
	return 0;
}

static ALWAYS unsigned verify(unsigned x)
{
	COUNT(verify);
	if (UNLIKELY(x % 61 == 0)) {
		report(x);
		x++;
	}
	return x * 3;
}

APART int fill(struct list *l, unsigned n)
{
	int rc = 0;

	for (unsigned i = 0; i < n; i++)
		rc |= put(l, verify(i));
	rc |= put(l, verify(n));
	if (UNLIKELY(rc))
		report(n);
	return rc;
}

int main(void)
{
	for (unsigned i = 0; i < 40; i++) {
		struct list l = { NULL, 0, 0 };

		sink = (unsigned)fill(&l, i * 3);
		free(l.items);
	}
	SHOW(put);
	SHOW(grow);
	SHOW(verify);
	SHOW(report);
	return 0;
}
