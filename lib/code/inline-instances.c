/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "lib/base/array.h"
#include "lib/code/demangle.h"
#include "lib/code/inline-instances.h"

static int add_function(struct inline_instances *s, const char *image, const struct inlines_frame *frame, uint32_t *ret)
{
	struct region *r;
	int rc = array_reserve(s->function_list, s->n_functions, &s->cap_functions);

	if (rc < 0)
		return rc;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	*r = (struct region){ .kind = REGION_INLINED, .image = image, .file = frame->file, .line = frame->line };
	r->name = demangle_symbol(frame->name ? frame->name : "[inlined]");
	if (!r->name) {
		free(r);
		return -ENOMEM;
	}
	*ret = (uint32_t)s->n_functions;
	s->function_list[s->n_functions++] = r;
	return 0;
}

static int add_instance(struct inline_instances *s, const char *image, const struct inlines *from,
			const struct inlines_frame *frame, const struct inlined *parent, uint32_t *ret)
{
	struct inlined *new;
	uint32_t *function;
	int rc = array_reserve(s->list, s->n, &s->cap);

	if (rc == 0)
		rc = hash_find(&s->functions, (uintptr_t)from, frame->origin, &function);
	if (rc == 1)
		rc = add_function(s, image, frame, function);
	if (rc < 0)
		return rc;
	new = calloc(1, sizeof(*new));
	if (!new)
		return -ENOMEM;
	*new = (struct inlined){ .function = s->function_list[*function],
				 .parent = parent,
				 .call_file = frame->call_file,
				 .call_line = frame->call_line,
				 .depth = parent ? parent->depth + 1 : 1 };
	*ret = (uint32_t)s->n;
	s->list[s->n++] = new;
	return 0;
}

int inline_instances_find(struct inline_instances *s, const char *image, const struct inlines *from,
			  const struct inlines_at *at, const struct inlined **ret)
{
	const struct inlined *found = NULL;

	for (size_t i = 1; i < at->n; i++) {
		uint32_t *number;
		int rc = hash_find(&s->known, (uintptr_t)from, at->frames[i].instance, &number);

		if (rc == 1)
			rc = add_instance(s, image, from, &at->frames[i], found, number);
		if (rc < 0)
			return rc;
		found = s->list[*number];
	}
	*ret = found;
	return 0;
}

void inline_instances_done(struct inline_instances *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->list[i]);
	free(s->list);
	for (size_t i = 0; i < s->n_functions; i++) {
		free((char *)s->function_list[i]->name);
		free(s->function_list[i]);
	}
	free(s->function_list);
	hash_done(&s->known);
	hash_done(&s->functions);
}
