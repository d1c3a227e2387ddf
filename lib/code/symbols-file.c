/* SPDX-License-Identifier: MIT */
/* A table of functions as a file of its own, so that it is made once, and the key that such a file is known by. */
#include <string.h>
#include <sys/stat.h>

#include "lib/base/io.h"
#include "lib/base/reader.h"
#include "lib/code/elf.h"
#include "lib/code/symtab.h"

enum { MAGIC_SIZE = 8 };

/* Ends with the version: of the format, and of the way in which tables are made. */
static const char magic[MAGIC_SIZE] = "symbols2";

/* The start of a file; n struct stored_piece and the bytes of the names follow. */
struct table_header {
	char magic[MAGIC_SIZE];
	uint64_t n, names;
};

/* struct piece in a file. */
struct stored_piece {
	uint64_t start, end, function, function_end;
	uint32_t name, plt;
};

/*
 * Two sums with unrelated multipliers, updated a word at a time. They are not cryptographic: a user who makes two files
 * of one key affects only the tables of these two files.
 */
static void mix_word(uint64_t sum[2], uint64_t word)
{
	sum[0] = (sum[0] ^ word) * 0x9e3779b97f4a7c15ull;
	sum[0] ^= sum[0] >> 32;
	sum[1] = (sum[1] + word) * 0xff51afd7ed558ccdull;
	sum[1] ^= sum[1] >> 29;
}

static void mix_bytes(uint64_t sum[2], struct reader r)
{
	uint64_t word;

	mix_word(sum, rd_left(&r));
	while (rd_u64(&r, &word) == 0)
		mix_word(sum, word);
	word = 0;
	if (rd_left(&r))
		memcpy(&word, r.at, rd_left(&r));
	mix_word(sum, word);
}

static void mix_segment(uint64_t sum[2], const struct elf_segment *s)
{
	mix_word(sum, s->type);
	mix_word(sum, s->address);
	mix_word(sum, s->offset);
	mix_word(sum, s->size);
}

static void mix_section(uint64_t sum[2], const struct elf_section *s)
{
	mix_word(sum, (uint64_t)s->type << 32 | s->link);
	mix_word(sum, (uint64_t)s->allocated << 1 | s->compressed);
	mix_word(sum, s->address);
	mix_word(sum, s->offset);
	mix_word(sum, s->size);
	mix_word(sum, s->entry_size);
	mix_bytes(sum, reader_of(s->name, strlen(s->name)));
}

/* True of the sections whose contents symbols_load_with() parses. */
static bool is_parsed(const struct elf_section *s)
{
	switch (s->type) {
	case ELF_SECTION_SYMBOLS:
	case ELF_SECTION_DYNAMIC_SYMBOLS:
	case ELF_SECTION_STRINGS:
		return true;
	case ELF_SECTION_RELA:
		return strcmp(s->name, ".rela.plt") == 0;
	case ELF_SECTION_REL:
		return strcmp(s->name, ".rel.plt") == 0;
	case ELF_SECTION_PROGRAM:
		if (s->allocated)
			return strcmp(s->name, ".plt") == 0 || strcmp(s->name, ".iplt") == 0;
		return strcmp(s->name, ".gnu_debugdata") == 0;
	}
	return false;
}

static int mix_segments(uint64_t sum[2], struct elf *e)
{
	static const uint32_t tables[] = { ELF_SEGMENT_UNWIND, ELF_SEGMENT_ARM_UNWIND };
	const struct elf_segment *segments, *table;
	struct reader r;
	int rc = 0;
	size_t n;

	segments = elf_segments(e, &n);
	for (size_t i = 0; i < n; i++)
		mix_segment(sum, &segments[i]);
	for (size_t i = 0; rc == 0 && i < ELEMENTS(tables); i++) {
		table = elf_segment(e, tables[i]);
		if (!table)
			continue;
		rc = elf_bytes(e, table->offset, table->size, &r);
		if (rc == 0)
			mix_bytes(sum, r);
	}
	return rc;
}

/* Mixes everything that symbols_load_with() reads of a file. */
static int mix_file(uint64_t sum[2], int fd)
{
	_cleanup_(elf_freep) struct elf *e = NULL;
	const struct elf_section *sections;
	struct reader r;
	int rc = elf_open(fd, &e);
	size_t n = 0;

	if (rc == 0)
		rc = elf_sections(e, &sections, &n);
	if (rc < 0)
		return rc;
	mix_word(sum, (uint64_t)elf_identity(e)->machine << 8 | elf_identity(e)->bits);
	rc = mix_segments(sum, e);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		mix_section(sum, &sections[i]);
		if (!is_parsed(&sections[i]))
			continue;
		rc = elf_contents(e, &sections[i], &r);
		if (rc == 0)
			mix_bytes(sum, r);
	}
	return rc;
}

int symbols_key(int fd, int debug, char ret[SYMBOLS_KEY_SIZE])
{
	uint64_t sum[2] = { 0 };
	int rc = mix_file(sum, fd);

	if (rc == 0 && debug >= 0)
		rc = mix_file(sum, debug);
	if (rc < 0)
		return rc;
	snprintf(ret, SYMBOLS_KEY_SIZE, "%016jx%016jx", (uintmax_t)sum[0], (uintmax_t)sum[1]);
	return 0;
}

int symbols_write(const struct symbols *s, int fd)
{
	struct table_header h = { .n = s->n, .names = s->names.size };
	_cleanup_buf_ struct buf b = { 0 };
	int rc;

	memcpy(h.magic, magic, sizeof(magic));
	buf_add(&b, &h, sizeof(h));
	for (size_t i = 0; i < s->n; i++) {
		const struct piece *p = &s->pieces[i];
		struct stored_piece k = { p->start, p->end, p->function, p->function_end, p->name, p->plt };

		buf_add(&b, &k, sizeof(k));
	}
	rc = buf_error(&b);
	if (rc == 0)
		rc = io_write(fd, b.data, b.size);
	return rc < 0 ? rc : io_write(fd, s->names.data, s->names.size);
}

/* Checks the order of the pieces, their bounds and the offset of their names: symbols_find() relies on these. */
static bool is_sound(const struct symbols *s, const struct stored_piece *k)
{
	return k->start < k->end && (!s->n || s->pieces[s->n - 1].end <= k->start) && k->function < k->function_end &&
	       (k->name == NO_NAME || k->name < s->names.size);
}

static int read_pieces(struct reader *r, uint64_t n, struct symbols *s)
{
	struct stored_piece k;

	for (; s->n < n; s->n++) {
		if (rd_copy(r, &k, sizeof(k)) < 0 || !is_sound(s, &k))
			return -EBADMSG;
		s->pieces[s->n] = (struct piece){ .start = k.start,
						  .end = k.end,
						  .function = k.function,
						  .function_end = k.function_end,
						  .name = k.name,
						  .plt = k.plt };
	}
	return 0;
}

static int read_bytes(int fd, uint64_t at, uint64_t size, struct buf *to)
{
	uint8_t *room = size ? buf_reserve(to, size) : NULL;
	ssize_t n = room ? io_pread(fd, room, size, at) : buf_error(to);

	if (n < 0)
		return (int)n;
	buf_grew(to, (size_t)n);
	return (uint64_t)n < size ? -EBADMSG : 0;
}

int symbols_read(int fd, struct symbols **ret)
{
	_cleanup_(symbols_freep) struct symbols *s = calloc(1, sizeof(*s));
	_cleanup_buf_ struct buf pieces = { 0 };
	struct table_header h;
	struct reader r;
	struct stat st;
	int rc;

	if (!s)
		return -ENOMEM;
	/* The size of the file bounds the memory, not the counts that the file states. */
	if (fstat(fd, &st) < 0 || io_pread(fd, &h, sizeof(h), 0) != sizeof(h) ||
	    memcmp(h.magic, magic, sizeof(magic)) != 0 || h.n > 2 * (uint64_t)SYMBOLS_MAX || h.names > UINT32_MAX ||
	    (uint64_t)st.st_size != sizeof(h) + h.n * sizeof(struct stored_piece) + h.names)
		return -EBADMSG;
	rc = read_bytes(fd, sizeof(h), h.n * sizeof(struct stored_piece), &pieces);
	if (rc == 0)
		rc = read_bytes(fd, sizeof(h) + pieces.size, h.names, &s->names);
	if (rc == 0 && s->names.size && s->names.data[s->names.size - 1])
		rc = -EBADMSG;
	if (rc == 0 && !(s->pieces = malloc((h.n + 1) * sizeof(*s->pieces))))
		rc = -ENOMEM;
	r = reader_of(pieces.data, pieces.size);
	if (rc == 0)
		rc = read_pieces(&r, h.n, s);
	if (rc == 0)
		*ret = TAKE_PTR(s);
	return rc;
}
