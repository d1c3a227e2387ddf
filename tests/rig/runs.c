/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "lib/base/array.h"
#include "lib/base/util.h"
#include "tests/rig/runs.h"

/* For the sums of runs_find(): arithmetic modulo a prime. */
#define MODULUS ((1ull << 61) - 1)
#define BASE 0x1b873593cc9e2d51ull % MODULUS

struct cursor {
	const struct runs *of;
	size_t run;
	uint64_t at;
};

void runs_add(struct runs *r, uint64_t start, uint64_t count)
{
	struct run *last = r->n ? &r->all[r->n - 1] : NULL;

	if (!count)
		return;
	if (!last || last->start + 4 * (r->total - last->at) != start) {
		if (array_reserve(r->all, r->n, &r->room) < 0)
			abort();
		r->all[r->n++] = (struct run){ start, r->total };
	}
	r->total += count;
}

void runs_done(struct runs *r)
{
	free(r->all);
	*r = (struct runs){ 0 };
}

static struct cursor cursor_at(const struct runs *r, uint64_t at)
{
	size_t low = 0, high = r->n;

	while (low + 1 < high) {
		size_t middle = low + (high - low) / 2;

		if (r->all[middle].at <= at)
			low = middle;
		else
			high = middle;
	}
	return (struct cursor){ r, low, at };
}

static uint64_t address_at(const struct cursor *c)
{
	const struct run *run = &c->of->all[c->run];

	return run->start + 4 * (c->at - run->at);
}

/* The end of the cursor's run. */
static uint64_t run_end(const struct cursor *c)
{
	return c->run + 1 < c->of->n ? c->of->all[c->run + 1].at : c->of->total;
}

static void advance(struct cursor *c, uint64_t n)
{
	c->at += n;
	if (c->at == run_end(c) && c->run + 1 < c->of->n)
		c->run++;
}

uint64_t runs_address(const struct runs *r, uint64_t at)
{
	struct cursor c = cursor_at(r, at);

	return address_at(&c);
}

uint64_t runs_common_end(const struct runs *a, uint64_t a_end, const struct runs *b, uint64_t b_end, uint64_t max)
{
	uint64_t n = 0;
	struct cursor x, y;

	max = MIN(max, MIN(a_end, b_end));
	if (!max)
		return 0;
	x = cursor_at(a, a_end - 1);
	y = cursor_at(b, b_end - 1);
	while (address_at(&x) == address_at(&y)) {
		uint64_t left = MIN(x.at - a->all[x.run].at, y.at - b->all[y.run].at);

		n += left + 1;
		if (n >= max)
			return max;
		x.at -= left + 1;
		y.at -= left + 1;
		x.run -= x.at < a->all[x.run].at;
		y.run -= y.at < b->all[y.run].at;
	}
	return n;
}

uint64_t runs_common_start(const struct runs *a, uint64_t a_at, const struct runs *b, uint64_t b_at)
{
	struct cursor x, y;
	uint64_t n = 0;

	if (a_at >= a->total || b_at >= b->total)
		return 0;
	x = cursor_at(a, a_at);
	y = cursor_at(b, b_at);
	while (x.at < a->total && y.at < b->total && address_at(&x) == address_at(&y)) {
		uint64_t step = MIN(run_end(&x) - x.at, run_end(&y) - y.at);

		n += step;
		advance(&x, step);
		advance(&y, step);
	}
	return n;
}

static uint64_t times(uint64_t a, uint64_t b)
{
	return (uint64_t)((unsigned __int128)a * b % MODULUS);
}

static uint64_t next_sum(uint64_t sum, struct cursor *c)
{
	sum = (times(sum, BASE) + address_at(c) % MODULUS) % MODULUS;
	advance(c, 1);
	return sum;
}

/* Compares rolling sums (Rabin and Karp), so that a part of many equal iterations takes no longer than others. */
uint64_t runs_find(const struct runs *in, uint64_t at, const struct runs *part, uint64_t from, uint64_t to)
{
	uint64_t wanted = 0, sum = 0, highest = 1, size = to - from;
	struct cursor p, first, last;

	if (!size || at > in->total || size > in->total - at)
		return size ? UINT64_MAX : at;
	p = cursor_at(part, from);
	first = last = cursor_at(in, at);
	for (uint64_t i = 0; i < size; i++) {
		wanted = next_sum(wanted, &p);
		sum = next_sum(sum, &last);
		highest = i ? times(highest, BASE) : 1;
	}
	for (;;) {
		if (sum == wanted && runs_common_end(in, first.at + size, part, to, size) == size)
			return first.at;
		if (last.at == in->total)
			return UINT64_MAX;
		sum = (sum + MODULUS - times(address_at(&first) % MODULUS, highest)) % MODULUS;
		advance(&first, 1);
		sum = next_sum(sum, &last);
	}
}
