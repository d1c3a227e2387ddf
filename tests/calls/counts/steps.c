// SPDX-License-Identifier: MIT
/* A reader of bytes, as parsers have it: small inlined functions in the conditions and steps of loops. */
#include <string.h>

#include "count.h"

COUNTED(left)
COUNTED(peek)
COUNTED(advance)
COUNTED(skip_spaces)
COUNTED(word)
COUNTED(hash)

struct input {
	const char *at, *end;
};

static ALWAYS size_t left(const struct input *in)
{
	COUNT(left);
	return (size_t)(in->end - in->at);
}

static ALWAYS char peek(const struct input *in)
{
	COUNT(peek);
	return *in->at;
}

static ALWAYS void advance(struct input *in)
{
	COUNT(advance);
	in->at++;
}

static ALWAYS void skip_spaces(struct input *in)
{
	COUNT(skip_spaces);
	while (left(in) && peek(in) == ' ')
		advance(in);
}

static inline unsigned hash(unsigned h, char c)
{
	COUNT(hash);
	return (h ^ (unsigned char)c) * 16777619u;
}

static ALWAYS unsigned word(struct input *in)
{
	unsigned h = 2166136261u;

	COUNT(word);
	for (; left(in) && peek(in) != ' '; advance(in))
		h = hash(h, peek(in));
	return h;
}

APART unsigned words(const char *text)
{
	struct input in = { text, text + strlen(text) };
	unsigned sum = 0;

	for (skip_spaces(&in); left(&in); skip_spaces(&in))
		sum += word(&in);
	return sum;
}

int main(void)
{
	static const char *const texts[] = {
		"one two  three", "", "   ", "a", " the quick brown fox   jumps ", "x y z"
	};

	for (unsigned i = 0; i < 60; i++)
		sink = words(texts[i % 6]);
	SHOW(left);
	SHOW(peek);
	SHOW(advance);
	SHOW(skip_spaces);
	SHOW(word);
	SHOW(hash);
	return 0;
}
