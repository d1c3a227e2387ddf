/* SPDX-License-Identifier: MIT */
/* Writing the events of one store to another. */
#include "lib/store/reader.h"

static int make_functions(struct store_rewriter *r, const struct store *s)
{
	r->functions = calloc(s->n_functions + 1, sizeof(*r->functions));
	r->sites = calloc(s->n_sites + 1, sizeof(*r->sites));
	if (!r->functions || !r->sites)
		return -ENOMEM;
	for (size_t i = 0; i < s->n_functions; i++) {
		const struct store_function *f = &s->functions[i];

		r->functions[i] = (struct region){ .id = (uint32_t)i,
						   .kind = f->kind,
						   .start = f->address,
						   .name = f->name,
						   .image = f->image,
						   .build_id = f->build_id,
						   .offset = f->offset,
						   .file = f->file,
						   .line = f->line };
	}
	for (size_t i = 0; i < s->n_sites; i++)
		r->sites[i] = (struct inlined){ .function = &r->functions[s->sites[i].function],
						.call_file = s->sites[i].file,
						.call_line = s->sites[i].line,
						.depth = 1,
						.uncertain = s->functions[s->sites[i].function].calls_uncertain };
	return 0;
}

int store_rewriter_init(struct store_rewriter *r, const struct store *s, const struct store_meta *meta, int to)
{
	int rc = make_functions(r, s);

	return rc < 0 ? rc : store_create(to, meta, &r->writer);
}

int store_rewriter_share(struct store_rewriter *r, const struct store *s, struct store_writer *writer)
{
	r->writer = writer;
	return make_functions(r, s);
}

void store_rewriter_done(struct store_rewriter *r)
{
	store_writer_free(r->writer);
	free(r->functions);
	free(r->sites);
}

static int put_ending(void *user, const char *text, uint32_t tid)
{
	store_set_ending(user, text, tid);
	return 0;
}

int store_rewriter_put_endings(const struct store_rewriter *r, const struct store *s)
{
	return store_endings(s, put_ending, r->writer);
}

static int put_process(void *user, const struct store_process *p)
{
	store_set_process(user, p);
	return 0;
}

void store_rewriter_put_processes(const struct store_rewriter *r, const struct store *s)
{
	store_processes(s, put_process, r->writer);
}

int store_rewriter_put(const struct store_rewriter *r, uint32_t thread, enum call_event_type type,
		       const struct store_event *at, const struct store_frame *f)
{
	struct call_event e = {
		.type = type, .kind = at->kind, .time = at->time, .instructions = at->instructions, .bound = at->bound
	};

	if (f) {
		e.function = &r->functions[f->function];
		e.inlined = f->site == STORE_NO_SITE ? NULL : &r->sites[f->site];
	}
	return store_event(r->writer, thread, &e);
}
