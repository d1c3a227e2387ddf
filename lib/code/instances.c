#include <string.h>

#include "lib/base/array.h"
#include "lib/code/instances.h"

static int add_function(struct instances *s, const char *image, const struct inlines_frame *frame, uint32_t *ret)
{
	struct region *r;
	int rc = array_reserve(s->function_list, s->n_functions, &s->room_functions);

	if (rc < 0)
		return rc;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	*r = (struct region){ .kind = REGION_INLINED, .image = image, .file = frame->file, .line = frame->line };
	r->name = symbol_demangle(frame->name ? frame->name : "[inlined]");
	if (!r->name) {
		free(r);
		return -ENOMEM;
	}
	*ret = (uint32_t)s->n_functions;
	s->function_list[s->n_functions++] = r;
	return 0;
}

static int add(struct instances *s, const char *image, const struct inlines *from, const struct inlines_frame *frame,
	       const struct inlined *around, uint32_t *ret)
{
	struct inlined *new;
	uint32_t *function;
	int rc = array_reserve(s->list, s->n, &s->room);

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
				 .around = around,
				 .call_file = frame->call_file,
				 .call_line = frame->call_line,
				 .depth = around ? around->depth + 1 : 1 };
	*ret = (uint32_t)s->n;
	s->list[s->n++] = new;
	return 0;
}

int instances_find(struct instances *s, const char *image, const struct inlines *from, const struct inlines_at *at,
		   const struct inlined **ret)
{
	const struct inlined *found = NULL;

	for (size_t i = 1; i < at->n; i++) {
		uint32_t *number;
		int rc = hash_find(&s->known, (uintptr_t)from, at->frames[i].instance, &number);

		if (rc == 1)
			rc = add(s, image, from, &at->frames[i], found, number);
		if (rc < 0)
			return rc;
		found = s->list[*number];
	}
	*ret = found;
	return 0;
}

void instances_done(struct instances *s)
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
