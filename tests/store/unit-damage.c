/* SPDX-License-Identifier: MIT */
/* lib/store: truncated and damaged files are errors, and what is read of them is what was written. */
#include <endian.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/store/format.h"
#include "lib/store/store.h"
#include "tests/store/storegen.h"
#include "tests/unit.h"

/* True if a cut thread ends with this event: its frames are left by a gap. */
static bool ends_with_gap(struct store_iter *it, struct store_event e)
{
	while (e.type == STORE_LEAVE && e.kind == LEAVE_GAP)
		if (store_iter_next(it, &e) != 1)
			return false;
	return e.type == STORE_GAP && e.kind == GAP_TRUNCATED && store_iter_next(it, &e) == 0;
}

/*
 * Counts the events of a thread that equal those written; SIZE_MAX if there are others. Roots are not compared, since
 * they are known at the end of a segment only. cut: the thread may end at any event.
 */
static size_t count_true(const struct store *s, struct store_iter *it, const struct thread *t, bool cut)
{
	struct store_event e = { 0 };
	size_t i = 0, n = 0;
	int rc;

	while ((rc = store_iter_next(it, &e)) == 1) {
		if (e.type == STORE_ENTER && e.kind == CALL_INFERRED)
			continue;
		while (i < t->n && t->events[i].type == STORE_ENTER && t->events[i].kind == CALL_INFERRED)
			i++;
		if (i < t->n) {
			struct expected want = t->events[i++];

			want.depth = e.depth;
			if (same(s, &e, &want) ||
			    (cut && e.type == STORE_GAP && e.time == want.time && e.kind == want.kind)) {
				n++;
				continue;
			}
		}
		return cut && ends_with_gap(it, e) ? n : SIZE_MAX;
	}
	return rc < 0 || (cut && e.type != STORE_GAP) ? SIZE_MAX : n;
}

/*
 * Reads a store that may be damaged: each event must be one that was written, or the store is refused. Returns the
 * number of events of all threads, or SIZE_MAX if any is wrong.
 */
static size_t read_damaged(int fd, const struct thread *threads, bool *ret_refused)
{
	_cleanup_close_ int to = memfd_create("recovered", MFD_CLOEXEC);
	_cleanup_(store_closep) struct store *s = NULL;
	uint64_t end = 0;
	size_t sum = 0;
	int rc = store_open(fd, &s);
	bool cut = rc == -ENODATA;

	*ret_refused = false;
	if (cut) {
		rc = store_recover(fd, to, &end);
		if (rc < 0 && rc != -ENODATA && rc != -EBADMSG)
			return SIZE_MAX;
		rc = rc == 0 ? store_open(to, &s) : rc;
	}
	*ret_refused = rc < 0;
	for (size_t i = 0; rc == 0 && i < store_threads(s); i++) {
		_cleanup_(store_iter_freep) struct store_iter *it = NULL;
		struct store_event e;
		size_t n;

		rc = store_iter_new(s, i, &it);
		/* Damage within a block is detected when it is read. */
		while (rc == 0 && (rc = store_iter_next(it, &e)) == 1)
			rc = 0;
		*ret_refused = *ret_refused || rc < 0;
		if (rc < 0 || store_iter_seek(it, 0) < 0)
			break;
		n = count_true(s, it, &threads[i], cut);
		if (n == SIZE_MAX)
			return SIZE_MAX;
		sum += n;
	}
	return sum;
}

static int copy_of(const uint8_t *bytes, size_t size)
{
	int fd = memfd_create("copy", MFD_CLOEXEC);

	io_write(fd, bytes, size);
	return fd;
}

/* Truncated at a thousand places, a store has its whole chunks, and more of them the later it was truncated. */
static void test_cut(void)
{
	struct thread *threads = calloc(2, sizeof(*threads));
	_cleanup_close_ int fd = make_store(threads, 2, 60000);
	size_t size = (size_t)lseek(fd, 0, SEEK_END), last = 0, most = 0, all, wrong = 0, grew = 0, refused = 0;
	_cleanup_free_ uint8_t *bytes = malloc(size);
	bool is_refused;

	CHECK_EQ(pread(fd, bytes, size, 0), size);
	all = read_damaged(fd, threads, &is_refused);
	CHECK(!is_refused && all != SIZE_MAX && all > 60000);
	for (size_t i = 0; i < 1000; i++) {
		size_t cut = size * i / 1000 + (size_t)rand() % (size / 1000);
		_cleanup_close_ int cut_fd = copy_of(bytes, cut);
		size_t n = read_damaged(cut_fd, threads, &is_refused);

		wrong += n == SIZE_MAX || n < last;
		grew += n > last;
		refused += is_refused;
		last = n;
		most = MAX(most, n);
	}
	CHECK_EQ(wrong, 0);
	CHECK(grew > 4);
	CHECK(refused < 3);
	CHECK_EQ(most, all);
	printf("# %zu bytes, %zu events; %zu cuts refused\n", size, all, refused);
	free(threads[0].events);
	free(threads[1].events);
	free(threads);
}

static void test_flips(void)
{
	struct thread *t = calloc(2, sizeof(*t));
	_cleanup_close_ int fd = make_store(t, 2, 120);
	size_t size = (size_t)lseek(fd, 0, SEEK_END), refused = 0, wrong = 0, less = 0, all;
	_cleanup_free_ uint8_t *bytes = malloc(size);
	bool is_refused;

	all = read_damaged(fd, t, &is_refused);
	CHECK(!is_refused && all != SIZE_MAX);
	CHECK_EQ(pread(fd, bytes, size, 0), size);
	for (size_t at = 0; at < size; at++) {
		static const uint8_t masks[] = { 0x01, 0x80, 0xff };

		for (size_t k = 0; k < ELEMENTS(masks); k++) {
			uint8_t byte = bytes[at] ^ masks[k];
			size_t n;

			io_pwrite(fd, &byte, 1, (off_t)at);
			n = read_damaged(fd, t, &is_refused);
			wrong += n == SIZE_MAX;
			refused += is_refused;
			less += !is_refused && n < all;
		}
		io_pwrite(fd, &bytes[at], 1, (off_t)at);
	}
	CHECK_EQ(wrong, 0);
	CHECK(refused > 0);
	printf("# %zu bytes; of %zu flips %zu refused, %zu left less\n", size, 3 * size, refused, less);
	/* Another version and files of other formats have errors of their own. */
	bytes[8] = STORE_VERSION + 1;
	io_pwrite(fd, bytes, STORE_HEADER_SIZE, 0);
	{
		struct store *s = NULL;

		CHECK_EQ(store_open(fd, &s), -EPROTONOSUPPORT);
		memset(bytes, 0, STORE_HEADER_SIZE);
		io_pwrite(fd, bytes, STORE_HEADER_SIZE, 0);
		CHECK_EQ(store_open(fd, &s), -EBADMSG);
		CHECK(!s);
	}
	for (int i = 0; i < 2; i++)
		free(t[i].events);
	free(t);
}

static uint64_t word_at(int fd, uint64_t at)
{
	uint64_t word = 0;

	CHECK_EQ(pread(fd, &word, sizeof(word), (off_t)at), sizeof(word));
	return word;
}

/* Returns true if the events are consistent: no frame is left that was not entered. */
static bool followed(int fd, bool *ret_whole)
{
	_cleanup_(store_iter_freep) struct store_iter *it = NULL;
	_cleanup_(store_closep) struct store *s = NULL;
	struct store_event e;
	uint32_t depth = 0;
	int rc;

	*ret_whole = false;
	if (store_open(fd, &s) < 0 || store_iter_new(s, 0, &it) < 0)
		return true;
	while ((rc = store_iter_next(it, &e)) == 1) {
		if (e.type == STORE_ENTER && e.depth != depth++)
			return false;
		if (e.type == STORE_LEAVE && (!depth || e.depth != --depth))
			return false;
	}
	*ret_whole = rc == 0;
	return true;
}

/* Recomputes the checksums of a section, of the section table and of the header. */
static void sign(int fd, uint64_t entry)
{
	uint64_t table = word_at(fd, 24), size = word_at(fd, entry + 16), n = word_at(fd, 32) & UINT32_MAX;
	_cleanup_free_ uint8_t *bytes = malloc(size + n * STORE_SECTION_SIZE);
	uint8_t header[STORE_HEADER_SIZE];
	uint32_t sum;

	CHECK_EQ(pread(fd, bytes, size, (off_t)word_at(fd, entry + 8)), size);
	sum = htole32(store_checksum(bytes, size));
	io_pwrite(fd, &sum, sizeof(sum), (off_t)entry + 24);
	CHECK_EQ(pread(fd, bytes, n * STORE_SECTION_SIZE, (off_t)table), n * STORE_SECTION_SIZE);
	sum = htole32(store_checksum(bytes, n * STORE_SECTION_SIZE));
	io_pwrite(fd, &sum, sizeof(sum), 36);
	CHECK_EQ(pread(fd, header, sizeof(header), 0), sizeof(header));
	sum = htole32(store_checksum(header, sizeof(header) - sizeof(sum)));
	io_pwrite(fd, &sum, sizeof(sum), STORE_HEADER_SIZE - sizeof(sum));
}

/* A block whose initial stack differs from the end of the block before is refused. */
static void test_joints(void)
{
	struct thread *t = calloc(1, sizeof(*t));
	_cleanup_close_ int fd = make_store(t, 1, 200000);
	uint64_t table = word_at(fd, 24), blocks = 0, size = 0, entry = 0, wrong = 0, refused = 0, n;
	bool whole;

	for (uint64_t at = table; !blocks && at < table + SECTION_TYPES * STORE_SECTION_SIZE; at += STORE_SECTION_SIZE)
		if ((uint32_t)word_at(fd, at) == SECTION_BLOCKS) {
			entry = at;
			blocks = word_at(fd, at + 8);
			size = word_at(fd, at + 16);
		}
	n = size / BLOCK_SIZE;
	CHECK(n > 4);
	CHECK(followed(fd, &whole) && whole);
	for (uint64_t i = 1; i + 1 < n; i++) {
		uint64_t here = blocks + i * BLOCK_SIZE, next = here + BLOCK_SIZE;
		uint64_t mine[2] = { word_at(fd, here), word_at(fd, here + 8) };
		uint64_t other[2] = { word_at(fd, next), word_at(fd, next + 8) };
		uint64_t sums = word_at(fd, here + 64), other_sums = word_at(fd, next + 64);

		io_pwrite(fd, other, sizeof(other), (off_t)here);
		io_pwrite(fd, &other_sums, sizeof(other_sums), (off_t)here + 64);
		sign(fd, entry);
		wrong += !followed(fd, &whole);
		refused += !whole;
		io_pwrite(fd, mine, sizeof(mine), (off_t)here);
		io_pwrite(fd, &sums, sizeof(sums), (off_t)here + 64);
	}
	CHECK_EQ(wrong, 0);
	CHECK(refused > 0);
	printf("# %ju blocks, %ju of another's place refused\n", (uintmax_t)n, (uintmax_t)refused);
	free(t->events);
	free(t);
}

int main(void)
{
	test_cut();
	test_flips();
	test_joints();
	return unit_end();
}
