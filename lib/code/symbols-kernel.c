/* SPDX-License-Identifier: MIT */
/* Functions in a copy of the kernel's memory, by a list as /proc/kallsyms. */
#include "config.h"

#include <string.h>
#include <unistd.h>

#include "lib/code/elf.h"
#include "lib/code/kallsyms.h"
#include "lib/code/symtab.h"

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
