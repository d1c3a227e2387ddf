/* A table of functions as a file of its own, for whoever makes the same one again; and what it is known by. */
#include <string.h>
#include <sys/stat.h>

#include "lib/base/io.h"
#include "lib/base/reader.h"
#include "lib/code/elf-file.h"
#include "lib/code/symtab.h"

enum { STEP = 64 << 10, MAGIC_SIZE = 8 };

/* The number at its end tells forms apart. */
static const char magic[MAGIC_SIZE] = "symbols1";

/* A file begins with this; then come its pieces, and then the names. */
struct header {
	char magic[MAGIC_SIZE];
	uint64_t n, names;
};

struct kept {
	uint64_t start, end, function, function_end;
	uint32_t name, plt;
};

/* Two sums that have nothing in common; whoever makes two files of one key fools nobody but the owner of both. */
static void mix_word(uint64_t sum[2], uint64_t word)
{
	sum[0] = (sum[0] ^ word) * 0x9e3779b97f4a7c15ull;
	sum[0] ^= sum[0] >> 32;
	sum[1] = (sum[1] + word) * 0xff51afd7ed558ccdull;
	sum[1] ^= sum[1] >> 29;
}

static void mix(uint64_t sum[2], const void *bytes, size_t size)
{
	size_t rest = size % sizeof(uint64_t);
	uint64_t word;

	if (!size)
		return;
	for (size_t i = 0; i < size - rest; i += sizeof(word)) {
		memcpy(&word, (const uint8_t *)bytes + i, sizeof(word));
		mix_word(sum, word);
	}
	word = 0;
	memcpy(&word, (const uint8_t *)bytes + size - rest, rest);
	mix_word(sum, word);
}

static int mix_part(uint64_t sum[2], struct elf_file *e, uint64_t offset, uint64_t size)
{
	uint8_t bytes[STEP];

	if (size > e->left)
		return -EFBIG;
	e->left -= size;
	while (size) {
		ssize_t n = io_pread(e->fd, bytes, MIN(size, sizeof(bytes)), offset);

		if (n <= 0)
			return n < 0 ? (int)n : -EBADMSG;
		mix(sum, bytes, (size_t)n);
		offset += (uint64_t)n;
		size -= (uint64_t)n;
	}
	return 0;
}

static bool is_used(const struct elf_file *e, const Elf64_Shdr *section)
{
	switch (section->sh_type) {
	case SHT_SYMTAB:
	case SHT_DYNSYM:
	case SHT_STRTAB:
		return true;
	case SHT_RELA:
		return elf_file_section_is(e, section, ".rela.plt");
	case SHT_PROGBITS:
		return !(section->sh_flags & SHF_ALLOC) && elf_file_section_is(e, section, ".gnu_debugdata");
	}
	return false;
}

/* All that symbols_load_with() looks at. */
static int mix_file(uint64_t sum[2], int fd)
{
	_cleanup_(elf_file_done) struct elf_file e;
	Elf64_Shdr section;
	int rc = elf_file_open(fd, &e);

	if (rc < 0)
		return rc;
	mix(sum, &e.header, sizeof(e.header));
	mix(sum, e.loads, e.n_loads * sizeof(*e.loads));
	mix(sum, e.sections.data, e.sections.size);
	mix(sum, &e.unwind, sizeof(e.unwind));
	if (e.unwind.p_type)
		rc = mix_part(sum, &e, e.unwind.p_offset, e.unwind.p_filesz);
	for (size_t i = 0; rc == 0 && elf_file_section(&e, i, &section) == 0; i++)
		if (is_used(&e, &section))
			rc = mix_part(sum, &e, section.sh_offset, section.sh_size);
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
	struct header h = { .n = s->n, .names = s->names.size };
	_cleanup_buf_ struct buf b = { 0 };
	int rc;

	memcpy(h.magic, magic, sizeof(magic));
	buf_add(&b, &h, sizeof(h));
	for (size_t i = 0; i < s->n; i++) {
		const struct piece *p = &s->pieces[i];
		struct kept k = { p->start, p->end, p->function, p->function_end, p->name, p->plt };

		buf_add(&b, &k, sizeof(k));
	}
	rc = buf_error(&b);
	if (rc == 0)
		rc = io_write(fd, b.data, b.size);
	return rc < 0 ? rc : io_write(fd, s->names.data, s->names.size);
}

/* What symbols_find() relies on. */
static bool is_sound(const struct symbols *s, const struct kept *k)
{
	return k->start < k->end && (!s->n || s->pieces[s->n - 1].end <= k->start) && k->function < k->function_end &&
	       (k->name == NO_NAME || k->name < s->names.size);
}

static int read_pieces(struct reader *r, uint64_t n, struct symbols *s)
{
	struct kept k;

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
	struct header h;
	struct reader r;
	struct stat st;
	int rc;

	if (!s)
		return -ENOMEM;
	/* Memory follows what the file has, not what it says it has. */
	if (fstat(fd, &st) < 0 || io_pread(fd, &h, sizeof(h), 0) != sizeof(h) ||
	    memcmp(h.magic, magic, sizeof(magic)) != 0 || h.n > 2 * (uint64_t)SYMBOLS_MAX || h.names > UINT32_MAX ||
	    (uint64_t)st.st_size != sizeof(h) + h.n * sizeof(struct kept) + h.names)
		return -EBADMSG;
	rc = read_bytes(fd, sizeof(h), h.n * sizeof(struct kept), &pieces);
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
