/*
 * Compares a decode with the truth log of the virtual machine (tests/rig/shared.h), instruction by instruction.
 *
 *   compare [-x START:END]... LOG TID <PCS
 *
 * PCS: of one thread, as `csight decode --to pcs` prints them, hexadecimal, one a line; lines that begin with # are passed
 * over. They must be the instructions that TID executed while it was traced, in order and on whatever CPU: all of them, or the last
 * of them where a ring went round. -x: addresses that have no image, left out of the truth. Prints what is equal and the
 * first difference with its surroundings; exits with 0 when all is.
 */
#include "config.h"

#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"
#include "tests/rig/shared.h"

enum { EXCLUDED = 16, AROUND = 5 };

struct list {
	uint64_t *all;
	size_t n, room;
};

/* What a thread executed on one CPU from a switch to the next. */
struct piece {
	uint64_t time;
	unsigned cpu;
	size_t from, to;
};

static uint64_t excluded[EXCLUDED][2];
static unsigned n_excluded;

static void add(struct list *l, uint64_t v)
{
	if (l->n == l->room) {
		l->room = l->room ? l->room * 2 : 1 << 16;
		l->all = reallocarray(l->all, l->room, sizeof(*l->all));
		if (!l->all)
			abort();
	}
	l->all[l->n++] = v;
}

static bool is_excluded(uint64_t pc)
{
	for (unsigned i = 0; i < n_excluded; i++)
		if (pc >= excluded[i][0] && pc < excluded[i][1])
			return true;
	return false;
}

static struct piece *pieces;
static size_t n_pieces, pieces_room;

static void add_piece(struct piece piece)
{
	if (n_pieces == pieces_room) {
		pieces_room = pieces_room ? pieces_room * 2 : 1024;
		pieces = reallocarray(pieces, pieces_room, sizeof(*pieces));
		if (!pieces)
			abort();
	}
	pieces[n_pieces++] = piece;
}

static void read_log(const char *path, unsigned cpu, uint32_t tid, struct list *pcs)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	struct rig_truth record;
	struct piece piece = { .cpu = cpu, .from = pcs->n };
	bool runs = false;

	if (!f)
		abort();
	while (fread(&record, sizeof(record), 1, f) == 1) {
		if (!(record.start & RIG_MARK)) {
			for (uint64_t i = 0; runs && i < record.count; i++)
				if (!is_excluded(record.start + 4 * i))
					add(pcs, record.start + 4 * i);
			continue;
		}
		if (RIG_MARK_TYPE(record.start) != RIG_MARK_SWITCH)
			continue;
		piece.to = pcs->n;
		if (runs && piece.to > piece.from)
			add_piece(piece);
		runs = (record.start & 0xffffff) == tid;
		piece = (struct piece){ .time = record.count, .cpu = cpu, .from = pcs->n };
	}
	piece.to = pcs->n;
	if (runs && piece.to > piece.from)
		add_piece(piece);
}

static int by_time(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	return x->time < y->time ? -1 : x->time > y->time;
}

/* The instructions of one thread, in the order that they ran. */
static void read_truth(const char *dir, uint32_t tid, struct list *ret)
{
	_cleanup_free_ char *pattern = NULL;
	struct list pcs = { 0 };
	glob_t found = { 0 };

	if (asprintf(&pattern, "%s/truth.*", dir) < 0 || glob(pattern, 0, NULL, &found) != 0)
		return;
	for (size_t i = 0; i < found.gl_pathc; i++)
		read_log(found.gl_pathv[i], (unsigned)strtoul(strrchr(found.gl_pathv[i], '.') + 1, NULL, 10), tid, &pcs);
	globfree(&found);
	if (n_pieces)
		qsort(pieces, n_pieces, sizeof(*pieces), by_time);
	for (size_t i = 0; i < n_pieces; i++)
		for (size_t k = pieces[i].from; k < pieces[i].to; k++)
			add(ret, pcs.all[k]);
	free(pcs.all);
}

static void show(const char *what, const struct list *l, size_t at)
{
	printf("  %s:", what);
	for (size_t i = at > AROUND ? at - AROUND : 0; i < MIN(l->n, at + AROUND); i++)
		printf(i == at ? " [%" PRIx64 "]" : " %" PRIx64, l->all[i]);
	printf("%s\n", at >= l->n ? " end" : "");
}

static void differ(const char *from, const struct list *decode, const struct list *truth, size_t d, size_t t)
{
	printf("%s, they differ at instruction %zu of the truth:\n", from, t);
	show("decoded", decode, d);
	show("truth  ", truth, t);
}

int main(int argc, char **argv)
{
	struct list truth = { 0 }, decode = { 0 };
	size_t same = 0, last = 0;
	char line[64];

	for (; argc > 2 && strcmp(argv[1], "-x") == 0 && n_excluded < EXCLUDED; argc -= 2, argv += 2)
		if (sscanf(argv[2], "%" SCNx64 ":%" SCNx64, &excluded[n_excluded][0], &excluded[n_excluded][1]) == 2)
			n_excluded++;
	if (argc != 3) {
		fprintf(stderr, "usage: compare [-x START:END]... LOG TID <PCS\n");
		return 2;
	}
	read_truth(argv[1], (uint32_t)strtoul(argv[2], NULL, 10), &truth);
	while (fgets(line, sizeof(line), stdin))
		if (line[0] != '#' && !is_excluded(strtoull(line, NULL, 16)))
			add(&decode, strtoull(line, NULL, 16));

	while (last < MIN(decode.n, truth.n) && decode.all[decode.n - 1 - last] == truth.all[truth.n - 1 - last])
		last++;
	if (last == decode.n && decode.n) {
		printf("%zu equal of %zu, the truth has %zu in %zu pieces\n", last, decode.n, truth.n, n_pieces);
		return 0;
	}
	while (same < MIN(decode.n, truth.n) && decode.all[same] == truth.all[same])
		same++;
	printf("decoded %zu, the truth has %zu in %zu pieces: DIFFERENT\n", decode.n, truth.n, n_pieces);
	differ("from the start", &decode, &truth, same, same);
	if (decode.n && truth.n && last < truth.n)
		differ("from the end", &decode, &truth, decode.n - 1 - last, truth.n - 1 - last);
	return 1;
}
