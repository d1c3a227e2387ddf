/*
 * Compares a decode with the truth, instruction by instruction.
 *
 *   exact TRUTH END [LEAST] <ELEMENTS
 *
 * ELEMENTS: one thread's, as `csight decode --to elements` prints them. The instructions of its ranges must be the piece
 * of the truth log that ends with its instruction number END (how many the log held when the ring was frozen). LEAST:
 * the decode must have at least this many. Prints one line, exits with 0 when all is equal.
 */
#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "lib/base/util.h"
#include "tests/truth.h"

struct runs {
	struct truth_run *all;
	size_t n, room;
	uint64_t count;
};

static int add(struct runs *r, uint64_t start, uint64_t count)
{
	struct truth_run *last = r->n ? &r->all[r->n - 1] : NULL;

	r->count += count;
	if (last && last->start + 4 * last->count == start) {
		last->count += count;
		return 0;
	}
	if (r->n == r->room) {
		size_t room = r->room ? r->room * 2 : 4096;
		struct truth_run *all = reallocarray(r->all, room, sizeof(*all));

		if (!all)
			return -ENOMEM;
		r->all = all;
		r->room = room;
	}
	r->all[r->n++] = (struct truth_run){ start, count };
	return 0;
}

static int read_elements(FILE *f, struct runs *ret, unsigned *ret_gaps)
{
	char line[512];

	while (fgets(line, sizeof(line), f)) {
		uint64_t start, end;
		uint32_t count;
		int rc;

		if (sscanf(line, "%*x range %" SCNx64 " %" SCNx64 " %" SCNu32, &start, &end, &count) == 3) {
			if (end != start + 4ull * count)
				return -EBADMSG;
			rc = add(ret, start, count);
			if (rc < 0)
				return rc;
		} else if (strstr(line, " no-image ") || strstr(line, " range-nopath ") || strstr(line, " unknown-address")) {
			fprintf(stderr, "exact: in the decode: %s", line);
			(*ret_gaps)++;
		}
	}
	return 0;
}

static void show(const char *name, const struct truth_run *run, uint64_t at)
{
	if (run)
		printf("  %s: %" PRIx64 " (%" PRIu64 " into a run of %" PRIu64 " from %" PRIx64 ")\n", name, run->start + 4 * at, at,
		       run->count, run->start);
	else
		printf("  %s: ended\n", name);
}

/* The next run; one that was taken back whole is empty, and passed over. count is 0 at the end. */
static void next_run(FILE *truth, struct truth_run *ret)
{
	do {
		if (fread(ret, sizeof(*ret), 1, truth) != 1)
			*ret = (struct truth_run){ 0 };
	} while (ret->start && !ret->count);
}

/* Walks both from instruction `from` of the truth; the number that agree. */
static uint64_t compare(const struct runs *decode, FILE *truth, uint64_t from, bool *ret_equal)
{
	struct truth_run run = { 0 };
	uint64_t seen = 0, at = 0, same = 0;

	for (;;) {
		next_run(truth, &run);
		if (!run.count || seen + run.count > from)
			break;
		seen += run.count;
	}
	at = from - seen;
	for (size_t i = 0; i < decode->n; i++) {
		const struct truth_run *d = &decode->all[i];

		for (uint64_t k = 0; k < d->count;) {
			uint64_t n;

			if (at == run.count) {
				at = 0;
				next_run(truth, &run);
			}
			n = MIN(d->count - k, run.count - at);
			if (n == 0 || d->start + 4 * k != run.start + 4 * at) {
				printf("the first difference is at instruction %" PRIu64 ":\n", from + same);
				for (size_t p = i > 3 ? i - 3 : 0; p < i; p++)
					show("before ", &decode->all[p], 0);
				show("decoded", d, k);
				show("truth  ", run.count ? &run : NULL, at);
				*ret_equal = false;
				return same;
			}
			k += n;
			at += n;
			same += n;
		}
	}
	*ret_equal = true;
	return same;
}

int main(int argc, char **argv)
{
	_cleanup_fclose_ FILE *truth = NULL;
	struct runs decode = { 0 };
	uint64_t end, least, same;
	unsigned gaps = 0;
	bool equal;
	int rc;

	if (argc < 3 || argc > 4) {
		fprintf(stderr, "usage: exact TRUTH END [LEAST] <ELEMENTS\n");
		return 2;
	}
	end = strtoull(argv[2], NULL, 0);
	least = argc > 3 ? strtoull(argv[3], NULL, 0) : 1;
	truth = fopen(argv[1], "re");
	if (!truth) {
		fprintf(stderr, "exact: %s: %s\n", argv[1], strerror(errno));
		return 2;
	}
	rc = read_elements(stdin, &decode, &gaps);
	if (rc < 0) {
		fprintf(stderr, "exact: the elements: %s\n", strerror(-rc));
		return 2;
	}
	if (decode.count > end) {
		printf("decoded %" PRIu64 " instructions, the truth has %" PRIu64 "\n", decode.count, end);
		return 1;
	}
	same = compare(&decode, truth, end - decode.count, &equal);
	printf("%" PRIu64 " of %" PRIu64 " equal, truth %" PRIu64 ", gaps %u\n", same, decode.count, end, gaps);
	free(decode.all);
	return !equal || gaps || same < least;
}
