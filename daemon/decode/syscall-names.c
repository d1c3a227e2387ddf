/* SPDX-License-Identifier: MIT */
#include "daemon/decode/syscall-names.h"
#include "lib/code/syscall-number.h"

enum { FUNCTION_MAX = 4096, KEPT_MAX = 1 << 16 };

static int64_t read_number(struct syscall_names *s, const struct syscall_place *p)
{
	uint32_t code[FUNCTION_MAX];
	struct region_hit hit;
	size_t n;

	if (region_map_find(p->regions, p->address, p->time, &hit) < 0 || hit.region->kind != REGION_FUNCTION ||
	    hit.region->end - hit.region->start > sizeof(code))
		return -1;
	n = input_code(s->input, p->stream, p->context, hit.region->start, code,
		       (size_t)(hit.region->end - hit.region->start));
	return syscall_number(code, n / sizeof(*code), (size_t)(p->address - hit.region->start) / sizeof(*code));
}

int64_t syscall_names_find(struct syscall_names *s, const struct syscall_place *p)
{
	uint32_t *kept = NULL;
	int rc;

	if (s->numbers.n >= KEPT_MAX)
		hash_clear(&s->numbers);
	rc = hash_find(&s->numbers, p->address, p->stream->pid, &kept);
	if (rc < 0)
		return -1;
	/* The hash holds numbers plus one; 0: no system call */
	if (rc == 1)
		*kept = (uint32_t)(read_number(s, p) + 1);
	return (int64_t)*kept - 1;
}
