/* SPDX-License-Identifier: MIT */
/* Counts made-up words: many small functions, a hash table and functions of libc. Each process makes other words. */
#include <string.h>
#include <unistd.h>

#include "program.h"

enum { BUCKETS = 256, WORDS_MAX = 4096 };

struct word {
	char text[16];
	uint32_t count;
	struct word *next;
};

static struct word *buckets[BUCKETS], *list[WORDS_MAX];
static size_t n_words;

static apart void make_word(uint32_t *state, char *text)
{
	size_t size = 2 + next_random(state) % 3;

	for (size_t i = 0; i < size; i++)
		text[i] = (char)('a' + next_random(state) % 3);
	text[size] = 0;
}

static apart uint32_t hash_word(const char *text)
{
	uint32_t h = 5381;

	while (*text)
		h = h * 33 + (uint8_t)*text++;
	return h;
}

static apart struct word *find_word(const char *text, uint32_t h)
{
	struct word *w = buckets[h % BUCKETS];

	while (w && strcmp(w->text, text) != 0)
		w = w->next;
	return w;
}

static apart struct word *add_word(const char *text, uint32_t h)
{
	struct word *w = n_words < WORDS_MAX ? calloc(1, sizeof(*w)) : NULL;

	if (!w)
		return NULL;
	strcpy(w->text, text);
	w->next = buckets[h % BUCKETS];
	buckets[h % BUCKETS] = w;
	list[n_words++] = w;
	return w;
}

static apart void count_word(const char *text)
{
	uint32_t h = hash_word(text);
	struct word *w = find_word(text, h);

	if (!w)
		w = add_word(text, h);
	if (w)
		w->count++;
}

static int compare_words(const void *left, const void *right)
{
	const struct word *a = *(struct word *const *)left, *b = *(struct word *const *)right;

	return a->count != b->count ? (a->count < b->count ? 1 : -1) : strcmp(a->text, b->text);
}

static apart uint32_t print_most(void)
{
	char line[64];
	uint32_t sum = 0;

	qsort(list, n_words, sizeof(*list), compare_words);
	for (size_t i = 0; i < 5 && i < n_words; i++)
		sum += (uint32_t)snprintf(line, sizeof(line), "%u %s", list[i]->count, list[i]->text);
	return sum;
}

int main(int argc, char **argv)
{
	unsigned long n = size_of(argc, argv, 20);
	uint32_t state = (uint32_t)getpid() * 2654435761u | 1, sum = 0;

	for (unsigned long i = 0; i < n; i++) {
		for (int k = 0; k < 100; k++) {
			char text[16];

			make_word(&state, text);
			count_word(text);
		}
		for (int k = 0; k < 10; k++)
			sum += planted_work(state + (uint32_t)k);
		sum += print_most();
	}
	return result(sum);
}
