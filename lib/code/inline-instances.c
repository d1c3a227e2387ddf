/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "lib/base/array.h"
#include "lib/code/demangle.h"
#include "lib/code/inline-instances.h"

enum { ENTERED_MAX = 16 /* calls that begin at one address */ };

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
				 .uncertain = frame->uncertain,
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

static int add_entered(struct inline_instances *s, const char *image, struct inlines *from, const struct inlines_at *at,
		       uint32_t *ret)
{
	size_t n = 0, all = MIN(at->n_entries, (size_t)ENTERED_MAX);
	const struct inlined **list = calloc(all + 1, sizeof(*list));
	int rc = list ? array_reserve(s->entered_list, s->n_entered, &s->cap_entered) : -ENOMEM;

	if (rc < 0) {
		free(list);
		return rc;
	}
	*ret = (uint32_t)s->n_entered;
	s->entered_list[s->n_entered++] = list;
	for (size_t i = 0; rc == 0 && i < all; i++) {
		struct inlines_at one;

		inlines_entry(from, at->start, i, &one);
		rc = inline_instances_find(s, image, from, &one, &list[n]);
		/* Instances that are nested too deeply are left out: the last frame is of one around them. */
		n += rc == 0 && one.n < INLINES_MAX && list[n];
	}
	list[n] = NULL;
	return rc;
}

int inline_instances_entered(struct inline_instances *s, const char *image, struct inlines *from,
			     const struct inlines_at *at, const struct inlined *const **ret)
{
	uint32_t *number;
	int rc = at->n_entries ? hash_find(&s->entered, (uintptr_t)from, at->start, &number) : 0;

	*ret = NULL;
	if (rc == 1)
		rc = add_entered(s, image, from, at, number);
	if (rc == 0 && at->n_entries)
		*ret = s->entered_list[*number];
	return rc;
}

void inline_instances_done(struct inline_instances *s)
{
	for (size_t i = 0; i < s->n_entered; i++)
		free(s->entered_list[i]);
	free(s->entered_list);
	hash_done(&s->entered);
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
