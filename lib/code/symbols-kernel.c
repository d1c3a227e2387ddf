/* SPDX-License-Identifier: MIT */
/* Functions in a copy of the kernel's memory: by a list as /proc/kallsyms; and the stubs of modules, which have no
 * name. */
#include "config.h"

#include <string.h>
#include <unistd.h>

#include "lib/code/elf.h"
#include "lib/code/kallsyms.h"
#include "lib/code/symtab.h"

enum { STUB_SIZE = 12 };

int symbols_add_kernel(struct symbols *s, const struct elf *e, int list, struct pieces *named)
{
	_cleanup_free_ struct elf_core_function *functions = NULL;
	_cleanup_(kallsyms_done) struct kallsyms k = { 0 };
	struct reason why = { "" };
	uint64_t offset, left;
	size_t n = 0;
	int rc = lseek(list, 0, SEEK_SET) < 0 ? -errno : kallsyms_read(list, &k, &why);

	/* The list of a kernel at other addresses names nothing. */
	if (rc == 0 && (elf_offset(e, k.start, &offset, &left) < 0 || left < k.end - k.start))
		rc = -ENODATA;
	if (rc == 0)
		rc = kallsyms_functions(&k, &functions, &n);
	if (rc < 0)
		return rc == -ENOMEM ? rc : 0;
	for (size_t i = 0; i < n && rc == 0; i++) {
		const struct elf_core_function *f = &functions[i];
		struct piece p = { .name = (uint32_t)s->names.size };

		if (elf_offset(e, f->address, &p.start, &left) < 0)
			continue;
		p.end = p.start + MIN(f->size, left);
		p.rank = symbols_name_rank(f->global, f->weak, f->name);
		buf_add(&s->names, f->name, strlen(f->name) + 1);
		rc = symbols_pieces_add(named, &p);
	}
	return rc == 0 ? buf_error(&s->names) : rc;
}

/* adrp x16, PAGE; add x16, x16, #OFFSET; br x16 */
static bool is_stub(const uint8_t *code)
{
	uint32_t op[3];

	memcpy(op, code, sizeof(op));
	return (op[0] & 0x9f00001f) == 0x90000010 && (op[1] & 0xffc003ff) == 0x91000210 && op[2] == 0xd61f0200;
}

static int add_stubs(const struct elf_segment *segment, struct reader code, struct piece stub, struct pieces *found)
{
	int rc = 0;

	for (const uint8_t *at = code.at; rc == 0 && (size_t)(code.end - at) >= STUB_SIZE; at += 4) {
		if (!is_stub(at))
			continue;
		stub.start = segment->offset + (uint64_t)(at - code.at);
		stub.end = stub.start + STUB_SIZE;
		rc = symbols_pieces_add(found, &stub);
	}
	return rc;
}

int symbols_add_kernel_stubs(struct symbols *s, struct elf *e, struct pieces *found)
{
	const struct piece stub = { .plt = true, .name = (uint32_t)s->names.size };
	const struct elf_segment *segments;
	struct reader code;
	size_t n;
	int rc = 0;

	if (elf_identity(e)->type != ELF_TYPE_CORE || elf_identity(e)->machine != ELF_MACHINE_AARCH64)
		return 0;
	segments = elf_segments(e, &n);
	buf_add(&s->names, "[plt]", sizeof("[plt]"));
	for (size_t i = 0; i < n && rc == 0; i++)
		if (segments[i].type == ELF_SEGMENT_LOAD &&
		    elf_bytes(e, segments[i].offset, segments[i].size, &code) == 0)
			rc = add_stubs(&segments[i], code, stub, found);
	return rc < 0 ? rc : buf_error(&s->names);
}
