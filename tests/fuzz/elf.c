/* SPDX-License-Identifier: MIT */
/* lib/code, ELF files: all parts of the module; build-ids, symbols, names, and the regions that are made of them. */
#include <lzma.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"
#include "lib/code/image.h"
#include "lib/code/region-map.h"
#include "lib/code/debug-file.h"
#include "lib/code/demangle.h"
#include "lib/code/elf.h"
#include "lib/code/symbols.h"
#include "lib/code/unwind.h"
#include "tests/code/elfgen.h"
#include "tests/fuzz/fuzz.h"

enum { LOOKUPS_MAX = 2000, MAPPED = 0x7000000 };

static void look_up(const struct symbols *s)
{
	uint64_t offset = 0;
	struct symbols_at at;

	for (int i = 0; i < LOOKUPS_MAX; i++) {
		symbols_find(s, offset, &at);
		fuzz_require(at.start <= offset && offset < at.end);
		if (at.name) {
			char *name = demangle_symbol(at.name);

			fuzz_require(name && strlen(name) < 100000);
			free(name);
		}
		if (at.end == UINT64_MAX)
			break;
		offset = at.end;
	}
	symbols_find(s, UINT64_MAX, &at);
}

static void make_regions(const struct symbols *s)
{
	const struct region_mapping mapping = { MAPPED, 0x10000, 0x1000, 5, "/bin/prog", s };
	_cleanup_(region_map_freep) struct region_map *map = NULL;
	struct region_hit hit;

	fuzz_require(region_map_new(&map) == 0 && region_map_add(map, &mapping) == 0);
	for (uint64_t a = MAPPED - 64; a < MAPPED + 0x10040; a += 60)
		fuzz_require(region_map_find(map, a, 7, &hit) == 0 && region_hit_holds(&hit, a, 7) && hit.region->name);
}

static void unwind(int fd, size_t size)
{
	struct unwind *u;
	uint64_t to;

	if (unwind_open(fd, &u) < 0)
		return;
	for (uint64_t at = 0; at < size && at < 0x8000; at += 84) {
		unsigned use = unwind_stack_use(u, at, at + 400);

		fuzz_require(use <= (UNWIND_SAVES_STACK | UNWIND_SETS_STACK | UNWIND_LOADS_STACK));
		unwind_moves_stack(u, at, at + 200);
		unwind_handler(u, at, at + 4096, at + 80, &to);
	}
	unwind_free(u);
}

/* A table that was written is read again as it was. */
static void keep(int fd, const struct symbols *s)
{
	_cleanup_close_ int kept = fuzz_fd("", 0);
	_cleanup_(symbols_freep) struct symbols *again = NULL;
	char key[SYMBOLS_KEY_SIZE];

	symbols_key(fd, fd, key);
	fuzz_require(symbols_write(s, kept) == 0 && symbols_read(kept, &again) == 0 &&
		     symbols_count(again) == symbols_count(s));
}

/* Touches every byte, for the sanitizers. */
static void sum_of(const struct reader *r)
{
	volatile uint8_t sum = 0;

	for (const uint8_t *at = r->at; at < r->end; at++)
		sum = (uint8_t)(sum + *at);
}

/* Reads each part of a file, both from its descriptor and from memory. */
static void read_parts(struct elf *e)
{
	const struct elf_section *sections;
	const struct elf_segment *segments;
	uint64_t value, left;
	size_t n;

	segments = elf_segments(e, &n);
	for (size_t i = 0; i < n && i < 64; i++) {
		struct reader r;

		if (elf_bytes(e, segments[i].offset, segments[i].size, &r) == 0)
			fuzz_require(rd_left(&r) == segments[i].size);
		elf_offset(e, segments[i].address, &value, &left);
		elf_address(e, segments[i].offset, &value);
	}
	elf_only_symbols(e);
	if (elf_sections(e, &sections, &n) < 0)
		return;
	for (size_t i = 0; i < n && i < 64; i++) {
		struct elf_relocation relocation;
		struct elf_symbol symbol;
		struct elf_table t;
		struct reader r;

		if (elf_contents(e, &sections[i], &r) == 0)
			sum_of(&r);
		if (elf_symbols(e, &sections[i], &t) == 0)
			fuzz_require(!t.n || elf_table_symbol(&t, t.n - 1, &symbol));
		if (elf_relocations(e, &sections[i], &t) == 0)
			fuzz_require(!t.n || elf_table_relocation(&t, t.n - 1, &relocation));
	}
	elf_symbol_value(e, "main", &value);
}

static void read_file(const uint8_t *data, size_t size, int fd)
{
	_cleanup_(elf_freep) struct elf *file = NULL, *memory = NULL;
	int rc = elf_open(fd, &file);
	uint8_t id[IMAGE_BUILD_ID_MAX];

	fuzz_require((elf_open_memory(data, size, &memory) == 0) == (rc == 0));
	if (rc < 0)
		return;
	read_parts(file);
	read_parts(memory);
	fuzz_require(elf_build_id(file, id) <= sizeof(id) && elf_build_id(memory, id) <= sizeof(id));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_close_ int fd = fuzz_fd(data, size);
	_cleanup_(symbols_freep) struct symbols *s = NULL;
	uint8_t id[IMAGE_BUILD_ID_MAX];
	struct debug_wanted wanted;
	uint64_t used = 0;

	fuzz_require(image_build_id(fd, id) <= sizeof(id));
	if (debug_file_wanted(fd, &wanted)) {
		fuzz_require(!strchr(wanted.link, '/') && wanted.id_size <= sizeof(wanted.id));
		debug_file_is(fd, &wanted, &used);
	}
	read_file(data, size, fd);
	unwind(fd, size);
	if (symbols_read(fd, &s) == 0) {
		look_up(s);
		return 0;
	}
	if (symbols_load(fd, &s) < 0)
		return 0;
	look_up(s);
	make_regions(s);
	keep(fd, s);
	return 0;
}

/* A file with a note of its build-id. */
static void seed_note(void)
{
	struct {
		Elf64_Ehdr h;
		Elf64_Phdr p;
		Elf64_Nhdr n;
		char name[4], id[20];
	} f = { .h = { .e_type = ET_DYN,
		       .e_machine = EM_AARCH64,
		       .e_version = 1,
		       .e_phoff = sizeof(f.h),
		       .e_phentsize = sizeof(f.p),
		       .e_phnum = 1,
		       .e_ehsize = sizeof(f.h) },
		.p = { .p_type = PT_NOTE, .p_offset = sizeof(f.h) + sizeof(f.p), .p_filesz = 36, .p_align = 4 },
		.n = { 4, 20, NT_GNU_BUILD_ID },
		.name = "GNU",
		.id = "a build-id of twenty" };

	memcpy(f.h.e_ident, ELFMAG, SELFMAG);
	f.h.e_ident[EI_CLASS] = ELFCLASS64;
	f.h.e_ident[EI_DATA] = ELFDATA2LSB;
	f.h.e_ident[EI_VERSION] = EV_CURRENT;
	fuzz_seed(&f, sizeof(f));
}

/* A file that has another one packed within it, and names a debug file. */
static void seed_packed(const struct buf *inner)
{
	static const char names[] = "\0.gnu_debugdata\0.gnu_debuglink";
	static const uint8_t link[] = { 'a', '.', 'd', 'e', 'b', 'u', 'g', 0, 1, 2, 3, 4 };
	_cleanup_buf_ struct buf b = { 0 };
	uint8_t packed[4096];
	size_t n = 0;
	Elf64_Shdr s[4] = { 0 };
	Elf64_Phdr load = { .p_type = PT_LOAD, .p_offset = TEXT_OFFSET, .p_vaddr = TEXT, .p_filesz = 0x900 };
	Elf64_Ehdr h = { .e_type = ET_EXEC,
			 .e_machine = EM_AARCH64,
			 .e_phoff = sizeof(h),
			 .e_phentsize = sizeof(load),
			 .e_phnum = 1,
			 .e_shentsize = sizeof(*s),
			 .e_shnum = 4,
			 .e_shstrndx = 3 };
	uint64_t at = sizeof(h) + sizeof(load);

	if (lzma_easy_buffer_encode(6, LZMA_CHECK_CRC32, NULL, inner->data, inner->size, packed, &n, sizeof(packed)) !=
	    LZMA_OK)
		return;
	s[1] = section(1, SHT_PROGBITS, 0, at, n, 0, 0);
	s[2] = section(16, SHT_PROGBITS, 0, at + n, sizeof(link), 0, 0);
	s[3] = section(0, SHT_STRTAB, 0, at + n + sizeof(link), sizeof(names), 0, 0);
	h.e_shoff = at + n + sizeof(link) + sizeof(names);
	memcpy(h.e_ident, ELFMAG, SELFMAG);
	h.e_ident[EI_CLASS] = ELFCLASS64;
	h.e_ident[EI_DATA] = ELFDATA2LSB;
	h.e_ident[EI_VERSION] = EV_CURRENT;
	buf_add(&b, &h, sizeof(h));
	buf_add(&b, &load, sizeof(load));
	buf_add(&b, packed, n);
	buf_add(&b, link, sizeof(link));
	buf_add(&b, names, sizeof(names));
	buf_add(&b, s, sizeof(s));
	fuzz_seed(b.data, b.size);
}

static void seed_kept(const struct buf *elf)
{
	_cleanup_(symbols_freep) struct symbols *s = NULL;
	_cleanup_close_ int fd = fuzz_fd(elf->data, elf->size), kept = fuzz_fd("", 0);

	if (symbols_load(fd, &s) == 0 && symbols_write(s, kept) == 0)
		fuzz_seed_fd(kept);
}

void fuzz_seeds(void)
{
	_cleanup_buf_ struct buf b = { 0 };

	make_elf32(&b);
	fuzz_seed(b.data, b.size);
	buf_clear(&b);
	make_elf(&b);
	fuzz_seed(b.data, b.size);
	seed_kept(&b);
	seed_packed(&b);
	seed_note();
}
