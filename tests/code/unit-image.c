/* SPDX-License-Identifier: MIT */
/* lib/code/image.c, address-space.c: mappings over time, captured code, files that shrink, build-ids, kernels. */
#include "config.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "lib/code/address-space.h"
#include "lib/code/captured-code.h"
#include "lib/code/image.h"
#include "tests/unit.h"

enum { PID = 7, PAGE = 4096 };

static int memfd_of(const void *data, size_t size)
{
	int fd = memfd_create("image", MFD_CLOEXEC);

	if (fd >= 0 && io_pwrite(fd, data, size, 0) < 0)
		closep(&fd);
	return fd;
}

/* Makes a file whose bytes are base plus the number of their page. */
static int pages_of(uint8_t base, size_t pages)
{
	_cleanup_buf_ struct buf b = { 0 };

	for (size_t i = 0; i < pages; i++)
		memset(buf_reserve(&b, PAGE), base + (int)i, PAGE), buf_grew(&b, PAGE);
	return memfd_of(b.data, b.size);
}

static void put_piece(struct buf *b, uint64_t time, uint64_t addr, const void *data, size_t size)
{
	buf_u64(b, time);
	buf_u64(b, addr);
	buf_u64(b, size);
	buf_add(b, data, size);
	buf_zero(b, ALIGN8(size) - size);
}

static int byte_at(struct image_set *s, uint64_t addr, uint64_t time)
{
	uint8_t v;

	return image_read(s, PID, addr, time, &v, 1) ? v : -1;
}

static int map(struct image_set *s, uint32_t pid, uint64_t addr, uint64_t len, uint64_t offset, uint32_t file,
	       uint64_t time)
{
	return image_map(s, pid, &(struct image_mapping){ addr, len, offset, time, file });
}

static void test_layers(void)
{
	_cleanup_(image_set_freep) struct image_set *s = NULL;
	_cleanup_buf_ struct buf blob = { 0 };
	_cleanup_close_ int code = -1;
	uint8_t bytes[3 * PAGE];
	uint32_t a = 0, b = 0, again = 0, replaced = 0;

	CHECK_EQ(image_set_new(&s), 0);
	CHECK(image_file_add(s, "/a", NULL, 0, 0, &a) == 0 && image_file_add(s, "/b", NULL, 0, 0, &b) == 0);
	CHECK(image_file_add(s, "/a", NULL, 0, 0, &again) == 0 && again == a && b != a);
	CHECK(image_file_add(s, "/a", "xy", 2, 0, &again) == 0 && again != a);
	CHECK(image_file_add(s, "/b", NULL, 0, 5, &replaced) == 0 && replaced != b);
	image_file_attach(s, a, pages_of(0x10, 4), NULL);
	image_file_attach(s, b, pages_of(0x20, 1), NULL);
	image_file_attach(s, again, -1, "gone");
	CHECK_STR(image_file(s, again)->reason, "gone");

	CHECK_EQ(map(s, PID, 0x1000, 3 * PAGE, PAGE, a, 100), 0);
	CHECK_EQ(map(s, PID, 0x2000, PAGE, 0, b, 200), 0);
	CHECK_EQ(map(s, PID, 0x2000, PAGE, 0, IMAGE_NONE, 300), 0);
	CHECK_EQ(map(s, PID + 1, 0x1000, PAGE, 0, a, 100), 0);
	buf_u64(&blob, CAPTURED_CODE_MAGIC);
	buf_u64(&blob, 0);
	put_piece(&blob, 250, 0x1ffc, "JJJJJ", 5);
	put_piece(&blob, 400, 0x2010, "KKKK", 4);
	code = memfd_of(blob.data, blob.size);
	CHECK_EQ(image_add_code(s, PID, code), 0);
	CHECK_EQ(image_seal(s), 0);

	CHECK_EQ(byte_at(s, 0x1000, 100), 0x11);
	CHECK_EQ(byte_at(s, 0x2000, 199), 0x12);
	CHECK_EQ(byte_at(s, 0x2000, 200), 0x20);
	CHECK_EQ(byte_at(s, 0x1fff, 249), 0x11);
	CHECK_EQ(byte_at(s, 0x1fff, 250), 'J');
	CHECK_EQ(byte_at(s, 0x2000, 299), 'J');
	CHECK_EQ(byte_at(s, 0x2000, 300), -1);  /* unmapped, and no later mapping */
	CHECK_EQ(byte_at(s, 0x2010, 300), 'K'); /* unmapped, and later captured code */
	CHECK_EQ(byte_at(s, 0x1fff, UINT64_MAX), 'J');
	CHECK_EQ(byte_at(s, 0x2014, 399), -1);
	CHECK_EQ(byte_at(s, 0x2013, 400), 'K');
	CHECK_EQ(byte_at(s, 0x3fff, 1), 0x13); /* before the first mapping: the first */
	CHECK_EQ(byte_at(s, 0x4000, 500), -1);
	CHECK_EQ(byte_at(s, 0xfff, 500), -1);
	CHECK_EQ(byte_at(s, UINT64_MAX, 500), -1);
	/* A read across several mappings ends at the first hole. */
	CHECK_EQ(image_read(s, PID, 0x1000, 250, bytes, sizeof(bytes)), 3 * PAGE);
	CHECK(bytes[0] == 0x11 && bytes[0xffb] == 0x11 && bytes[0xffc] == 'J' && bytes[0x1000] == 'J' &&
	      bytes[0x1001] == 0x20 && bytes[0x2000] == 0x13);
	CHECK_EQ(image_read(s, PID, 0x1000, 300, bytes, sizeof(bytes)), PAGE);
	CHECK_EQ(image_read(s, PID + 1, 0x1000, 300, bytes, 8), 8);
	CHECK_EQ(bytes[0], 0x10);
	CHECK_EQ(image_read(s, PID + 2, 0x1000, 300, bytes, 8), 0);
	CHECK(image_version(s, PID, 199) != image_version(s, PID, 200));
	CHECK(image_version(s, PID, 200) == image_version(s, PID, 249));
	CHECK(image_version(s, PID, 500) != image_version(s, PID + 1, 500));
}

/*
 * Compares look-ups in random mappings with the rule: the last mapping up to that time, unless it is empty; else the
 * next one with bytes; none if its bytes are unknown.
 */
static void test_random_mappings(void)
{
	enum { N = 300, ADDRESSES = 64, TIMES = 50 };
	struct space_mapping mappings[N];
	struct address_space *s = NULL;
	uint32_t seed = 7;
	unsigned wrong = 0, beyond = 0;

	CHECK_EQ(address_space_new(&s), 0);
	for (unsigned i = 0; i < N; i++) {
		uint32_t v[4];

		for (unsigned k = 0; k < 4; k++)
			v[k] = seed = seed * 1103515245 + 12345, v[k] >>= 8;
		mappings[i] = (struct space_mapping){ v[0] % ADDRESSES,         0, v[2] % TIMES, 0, i, i, v[3] % 3 == 0,
						      v[3] % 5 == 1 && v[3] % 3 };
		mappings[i].end = mappings[i].start + 1 + v[1] % 9;
		wrong += address_space_add(s, &mappings[i]) != 0;
		/* Mappings may follow, of earlier times, too. */
		wrong += i % 100 == 50 && address_space_seal(s) != 0;
	}
	CHECK_EQ(address_space_seal(s), 0);
	for (uint64_t addr = 0; addr < ADDRESSES + 12; addr++)
		for (uint64_t time = 0; time < TIMES + 1; time++) {
			const struct space_mapping *want = NULL, *first = NULL, *got;
			uint64_t end = 0;

			for (unsigned i = 0; i < N; i++) {
				const struct space_mapping *p = &mappings[i];

				if (addr < p->start || addr >= p->end)
					continue;
				if (p->time <= time && (!want || p->time >= want->time))
					want = p;
				if (p->time > time && !p->empty && (!first || p->time < first->time))
					first = p;
			}
			want = want && !want->empty ? want : first;
			want = want && want->unknown ? NULL : want;
			got = address_space_find(s, addr, time, &end);
			wrong += !want != !got || (want && got->source != want->source);
			beyond += got && (end <= addr || end > got->end);
		}
	CHECK_EQ(wrong, 0);
	CHECK_EQ(beyond, 0);
	address_space_free(s);
}

/* At a time that is not known, the bytes are those that were there at all times, or the first that became known. */
static void test_any_time(void)
{
	enum { ROUNDS = 500, N = 6, ADDRESSES = 12 };
	unsigned wrong = 0, found = 0;
	uint32_t seed = 7;

	for (unsigned round = 0; round < ROUNDS; round++) {
		struct space_mapping mappings[N];
		struct address_space *s = NULL;

		CHECK_EQ(address_space_new(&s), 0);
		for (unsigned i = 0; i < N; i++) {
			uint32_t v[4];

			for (unsigned k = 0; k < 4; k++)
				v[k] = seed = seed * 1103515245 + 12345, v[k] >>= 8;
			mappings[i] = (struct space_mapping){ .start = v[0] % ADDRESSES,
							      .time = i,
							      .source = v[2] % 2,
							      .empty = v[3] % 3 == 0,
							      .unknown = v[3] % 5 == 1 && v[3] % 3 };
			mappings[i].end = mappings[i].start + 1 + v[1] % 5;
			mappings[i].offset = mappings[i].start + 100;
			wrong += address_space_add(s, &mappings[i]) != 0;
		}
		wrong += address_space_seal(s) != 0;
		for (uint64_t addr = 0; addr < ADDRESSES + 6; addr++) {
			const struct space_mapping *want = NULL, *got;
			bool several = false;
			uint64_t end = 0;

			for (unsigned i = 0; i < N; i++) {
				const struct space_mapping *p = &mappings[i];

				if (addr < p->start || addr >= p->end || p->empty)
					continue;
				several |= want && (p->unknown || p->source != want->source);
				want = want || p->unknown ? want : p;
			}
			got = address_space_find_only(s, addr, &end);
			want = several ? NULL : want;
			wrong += !want != !got || (want && got->source != want->source) || (got && end <= addr);
			found += got != NULL;
		}
		address_space_free(s);
	}
	CHECK_EQ(wrong, 0);
	CHECK(found > ROUNDS);
}

static void test_file_cut_short(void)
{
	_cleanup_(image_set_freep) struct image_set *s = NULL;
	enum { BIG = 64 };
	int fd = pages_of(1, BIG), keep = dup(fd);
	uint8_t bytes[2 * PAGE];
	uint32_t a = 0;

	CHECK(image_set_new(&s) == 0 && image_file_add(s, "/a", NULL, 0, 0, &a) == 0);
	image_file_attach(s, a, fd, NULL);
	CHECK_EQ(map(s, PID, 0, BIG * PAGE, 0, a, 0), 0);
	/* A mapping that extends beyond the end of its file. */
	CHECK_EQ(map(s, PID, 0x100000, 4 * PAGE, (BIG - 1) * PAGE, a, 0), 0);
	CHECK_EQ(image_seal(s), 0);
	CHECK_EQ(image_read(s, PID, 0x100000, 0, bytes, sizeof(bytes)), PAGE);
	CHECK_EQ(byte_at(s, 0, 0), 1);
	CHECK_EQ(ftruncate(keep, 20 * PAGE + 1), 0);
	CHECK_EQ(byte_at(s, 19 * PAGE, 0), 20);
	CHECK_EQ(image_read(s, PID, 20 * PAGE, 0, bytes, sizeof(bytes)), 1);
	CHECK_EQ(byte_at(s, 40 * PAGE, 0), -1);
	close(keep);
}

static void test_bad_code(void)
{
	_cleanup_buf_ struct buf blob = { 0 };
	static const uint64_t lens[] = { 5, 6, UINT64_MAX, UINT64_MAX - 0x2000 };

	for (size_t i = 0; i < ELEMENTS(lens); i++) {
		_cleanup_(image_set_freep) struct image_set *s = NULL;
		_cleanup_close_ int code = -1;

		buf_clear(&blob);
		buf_u64(&blob, CAPTURED_CODE_MAGIC);
		buf_u64(&blob, 0);
		put_piece(&blob, 1, 0x1000, "good", 4);
		buf_u64(&blob, 1);
		buf_u64(&blob, 0x2000);
		buf_u64(&blob, lens[i]);
		buf_add(&blob, "cut!", 4);
		code = memfd_of(blob.data, blob.size);
		CHECK_EQ(image_set_new(&s), 0);
		CHECK_EQ(image_add_code(s, PID, code), -EBADMSG);
		CHECK_EQ(image_seal(s), 0);
		CHECK_EQ(byte_at(s, 0x1003, 1), 'd');
		CHECK_EQ(byte_at(s, 0x2000, 1), -1);
	}
}

static int elf_with_id(const uint8_t *id, uint32_t size)
{
	Elf64_Ehdr h = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1 },
			 .e_phoff = sizeof(h),
			 .e_phentsize = sizeof(Elf64_Phdr),
			 .e_phnum = 2 };
	Elf64_Phdr load = { .p_type = PT_LOAD },
		   note = { .p_type = PT_NOTE, .p_offset = sizeof(h) + 2 * sizeof(note), .p_filesz = 40 + size };
	_cleanup_buf_ struct buf b = { 0 };

	buf_add(&b, &h, sizeof(h));
	buf_add(&b, &load, sizeof(load));
	buf_add(&b, &note, sizeof(note));
	buf_u32(&b, 4), buf_u32(&b, 8), buf_u32(&b, NT_GNU_ABI_TAG), buf_add(&b, "GNU", 4), buf_zero(&b, 8);
	buf_u32(&b, 4), buf_u32(&b, size), buf_u32(&b, NT_GNU_BUILD_ID), buf_add(&b, "GNU", 4), buf_add(&b, id, size);
	return memfd_of(b.data, b.size);
}

static void test_build_id(void)
{
	static const uint8_t id[20] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20 };
	_cleanup_(image_set_freep) struct image_set *s = NULL;
	_cleanup_close_ int fd = elf_with_id(id, sizeof(id));
	uint8_t got[IMAGE_BUILD_ID_MAX];
	uint32_t right = 0, wrong = 0;
	unsigned odd = 0;
	off_t size = lseek(fd, 0, SEEK_END);

	CHECK_EQ(image_build_id(fd, got), 20);
	CHECK(memcmp(got, id, 20) == 0);
	CHECK(image_set_new(&s) == 0 && image_file_add(s, "/x", id, 20, 0, &right) == 0 &&
	      image_file_add(s, "/x", id, 19, 0, &wrong) == 0);
	image_file_attach(s, right, dup(fd), NULL);
	image_file_attach(s, wrong, dup(fd), NULL);
	CHECK(image_file(s, right)->fd >= 0 && !image_file(s, right)->reason);
	CHECK(image_file(s, wrong)->fd < 0 && image_file(s, wrong)->reason);
	/* Each byte inverted, then each truncation: no crash, and no size over the maximum. */
	for (off_t i = 0; i < size; i++) {
		uint8_t byte, flipped;

		odd += pread(fd, &byte, 1, i) != 1;
		flipped = (uint8_t)~byte;
		io_pwrite(fd, &flipped, 1, i);
		odd += image_build_id(fd, got) > IMAGE_BUILD_ID_MAX;
		io_pwrite(fd, &byte, 1, i);
	}
	while (size--)
		odd += ftruncate(fd, size) != 0 || image_build_id(fd, got) > IMAGE_BUILD_ID_MAX;
	CHECK_EQ(odd, 0);
	image_file_attach(s, wrong, open("/dev/null", O_RDONLY | O_CLOEXEC), NULL);
	CHECK(image_file(s, wrong)->fd < 0);
}

enum { CODE_AT = 0x200, SYMBOLS_AT = 0x400, NAMES_AT = 0x480, SECTIONS_AT = 0x500, NOTE_AT = 0x180 };

#define LINKED 0xffff800008000000ull

/*
 * Makes the ELF file of a kernel, or a core file of its memory: one segment of code, one symbol at its start, and in
 * the core file a note with the build-id.
 */
static void make_kernel(struct buf *b, bool core)
{
	static const char note[] = "OSRELEASE=6.1\nBUILD-ID=0102030405060708\nPAGESIZE=4096\n";
	Elf64_Ehdr header = { .e_type = core ? ET_CORE : ET_EXEC,
			      .e_phoff = sizeof(header),
			      .e_phnum = 2,
			      .e_phentsize = sizeof(Elf64_Phdr),
			      .e_shoff = SECTIONS_AT,
			      .e_shnum = 2,
			      .e_shentsize = sizeof(Elf64_Shdr) };
	Elf64_Phdr load = { .p_type = PT_LOAD,
			    .p_flags = core ? 0 : PF_R | PF_X,
			    .p_offset = CODE_AT,
			    .p_vaddr = LINKED + (core ? 0x30000 : 0),
			    .p_filesz = 16,
			    .p_memsz = 16 };
	Elf64_Phdr notes = { .p_type = core ? PT_NOTE : PT_NULL,
			     .p_offset = NOTE_AT,
			     .p_filesz = 12 + 12 + ALIGN8(sizeof(note)) };
	Elf64_Sym symbol = { .st_name = 1, .st_shndx = 1, .st_value = LINKED };
	Elf64_Shdr sections[] = { { .sh_type = SHT_SYMTAB,
				    .sh_offset = SYMBOLS_AT,
				    .sh_size = sizeof(symbol),
				    .sh_link = 1,
				    .sh_entsize = sizeof(symbol) },
				  { .sh_type = SHT_STRTAB, .sh_offset = NAMES_AT, .sh_size = 16 } };
	Elf64_Nhdr head = { 11, sizeof(note), 0 };

	memcpy(header.e_ident, ELFMAG, SELFMAG);
	header.e_ident[EI_CLASS] = ELFCLASS64;
	header.e_ident[EI_DATA] = ELFDATA2LSB;
	header.e_ident[EI_VERSION] = EV_CURRENT;
	buf_zero(b, SECTIONS_AT + sizeof(sections));
	memcpy(b->data, &header, sizeof(header));
	memcpy(b->data + sizeof(header), &load, sizeof(load));
	memcpy(b->data + sizeof(header) + sizeof(load), &notes, sizeof(notes));
	memcpy(b->data + NOTE_AT, &head, sizeof(head));
	memcpy(b->data + NOTE_AT + 12, "VMCOREINFO", 11);
	memcpy(b->data + NOTE_AT + 24, note, sizeof(note));
	memcpy(b->data + CODE_AT, "0123456789abcdef", 16);
	memcpy(b->data + SYMBOLS_AT, &symbol, sizeof(symbol));
	memcpy(b->data + NAMES_AT, "\0_text", 7);
	memcpy(b->data + SECTIONS_AT, sections, sizeof(sections));
}

static void test_kernel(bool core)
{
	static const uint8_t id[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, other[8] = { 9 };
	_cleanup_(image_set_freep) struct image_set *s = NULL;
	_cleanup_buf_ struct buf b = { 0 };
	uint32_t file = 0, wrong = 0;
	uint8_t got[16] = { 0 };

	make_kernel(&b, core);
	CHECK(image_set_new(&s) == 0 && image_file_add(s, "[kernel]", id, core ? sizeof(id) : 0, 0, &file) == 0 &&
	      image_file_add(s, "[kernel]", other, sizeof(other), 0, &wrong) == 0);
	CHECK_EQ(image_map_elf(s, UINT32_MAX, file, "_text", LINKED + 0x30000, NULL), -ENOENT);
	image_file_attach(s, file, memfd_of(b.data, b.size), NULL);
	image_file_attach(s, wrong, memfd_of(b.data, b.size), NULL);
	CHECK(image_file(s, file)->fd >= 0);
	CHECK(image_file(s, wrong)->fd < 0);
	if (!core)
		CHECK_EQ(image_map_elf(s, UINT32_MAX, file, "_stext", LINKED + 0x30000, NULL), -ENODATA);
	CHECK_EQ(image_map_elf(s, UINT32_MAX, file, "_text", LINKED + 0x30000, NULL), 0);
	CHECK_EQ(image_seal(s), 0);
	/* The code is at the address where the kernel ran, not where it was linked. */
	CHECK_EQ(image_read(s, UINT32_MAX, LINKED + 0x30004, UINT64_MAX, got, 8), 8);
	CHECK(memcmp(got, "456789ab", 8) == 0);
	CHECK_EQ(image_read(s, UINT32_MAX, LINKED, UINT64_MAX, got, 8), 0);
	CHECK_EQ(image_read(s, UINT32_MAX, LINKED + 0x3000c, UINT64_MAX, got, 8), 4);
}

/* Each byte inverted, and each truncation: no crash. */
static void test_garbled_kernel(void)
{
	_cleanup_buf_ struct buf b = { 0 };
	unsigned odd = 0;

	make_kernel(&b, false);
	for (size_t i = 0; i < 2 * b.size; i++) {
		_cleanup_(image_set_freep) struct image_set *s = NULL;
		uint8_t got[16];
		uint32_t file = 0;
		int rc;

		if (i < b.size)
			b.data[i] = (uint8_t)~b.data[i];
		odd += image_set_new(&s) != 0 || image_file_add(s, "[kernel]", NULL, 0, 0, &file) != 0;
		image_file_attach(s, file, memfd_of(b.data, i < b.size ? b.size : 2 * b.size - i), NULL);
		rc = image_map_elf(s, 1, file, "_text", 0x1000, NULL);
		odd += (rc < 0 && rc != -ENODATA && rc != -ENOENT) || image_seal(s) != 0 ||
		       image_read(s, 1, 0x1000, 0, got, sizeof(got)) > sizeof(got);
		if (i < b.size)
			b.data[i] = (uint8_t)~b.data[i];
	}
	CHECK_EQ(odd, 0);
}

int main(void)
{
	test_kernel(false);
	test_kernel(true);
	test_garbled_kernel();
	test_layers();
	test_random_mappings();
	test_any_time();
	test_file_cut_short();
	test_bad_code();
	test_build_id();
	return unit_end();
}
