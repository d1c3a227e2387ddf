/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/util.h"
#include "tests/bench/reference.h"

static size_t page_place(const struct pages *p, uint64_t address)
{
	size_t low = 0, high = p->n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (p->list[mid]->address < address)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static struct page *page_of(struct pages *p, uint64_t address)
{
	uint64_t start = address & ~(uint64_t)(PAGE - 1);
	size_t at = page_place(p, start);
	struct page *page;

	if (at < p->n && p->list[at]->address == start)
		return p->list[at];
	page = calloc(1, sizeof(*page));
	p->list = reallocarray(p->list, p->n + 1, sizeof(*p->list));
	if (!page || !p->list)
		abort();
	page->address = start;
	memmove(p->list + at + 1, p->list + at, (p->n++ - at) * sizeof(*p->list));
	p->list[at] = page;
	return page;
}

size_t pages_read(void *user, const struct engine_context *context, uint64_t address, void *ret, size_t size)
{
	struct pages *p = user;
	struct page *page = page_of(p, address);
	const struct engine_memory *memory = &p->trace->memory;
	uint32_t at = (uint32_t)(address - page->address);

	if (page->from == page->to) {
		page->to = (uint32_t)memory->read(memory->user, context, page->address, page->bytes, PAGE);
		if (page->to <= at) {
			page->from = at;
			page->to =
			    at + (uint32_t)memory->read(memory->user, context, address, page->bytes + at, PAGE - at);
		}
	}
	if (at < page->from || at >= page->to)
		return memory->read(memory->user, context, address, ret, size);
	size = MIN(size, (size_t)page->to - at);
	memcpy(ret, page->bytes + at, size);
	return size;
}

uint64_t pages_version(void *user, const struct engine_context *context)
{
	return 0;
}

static int listen(void *user, const struct element *e)
{
	struct said *s = user;
	char text[256];
	size_t n = element_format(e, text, sizeof(text));

	for (size_t i = 0; i < n; i++)
		s->hash = (s->hash ^ (uint8_t)text[i]) * 0x100000001b3;
	s->elements++;
	if (e->kind == ELEM_RANGE) {
		s->ranges++;
		s->instructions += e->range.count;
	}
	return 0;
}

int reference_listen(const struct engine_ops *ops, const struct trace *t, struct pages *p, struct said *ret)
{
	const struct engine_memory memory = { pages_read, pages_version, false, p };
	const struct element_sink sink = { .element = listen, .user = ret };
	struct engine *e = NULL;
	int rc;

	*ret = (struct said){ .hash = 0xcbf29ce484222325 };
	rc = ops->open(&t->config, &memory, &sink, &e);
	if (rc == 0)
		rc = ops->push(e, t->bytes, t->size);
	if (rc == 0)
		rc = ops->finish(e);
	ops->close(e);
	return rc;
}

ocsd_datapath_resp_t reference_ignore(const void *user, const ocsd_trc_index_t index, const uint8_t id,
				      const ocsd_generic_trace_elem *e)
{
	return OCSD_RESP_CONT;
}

static ocsd_datapath_resp_t on_packet(const void *user, const ocsd_datapath_op_t op, const ocsd_trc_index_t index,
				      const void *packet)
{
	return OCSD_RESP_CONT;
}

static bool give_code(dcd_tree_handle_t tree, const struct pages *p, struct buf *code)
{
	bool good = true;

	/* OpenCSD keeps the pointers, so the buffers are complete before the first is registered. */
	for (size_t i = 0; i < p->n; i++)
		buf_add(code, p->list[i]->bytes + p->list[i]->from, p->list[i]->to - p->list[i]->from);
	for (size_t i = 0, at = 0; good && i < p->n;) {
		const struct page *first = p->list[i];
		uint64_t start = first->address + first->from, end = start;

		for (; i < p->n && p->list[i]->address + p->list[i]->from == end; i++)
			end = p->list[i]->address + p->list[i]->to;
		if (end > start)
			good = ocsd_dt_add_buffer_mem_acc(tree, start, OCSD_MEM_SPACE_ANY, code->data + at,
							  (uint32_t)(end - start)) == OCSD_OK;
		at += end - start;
	}
	return good && buf_error(code) == 0;
}

int reference_run(const struct trace *t, const struct pages *p, FnTraceElemIn on, double *ret)
{
	const int flags = on ? OCSD_CREATE_FLG_FULL_DECODER : OCSD_CREATE_FLG_PACKET_PROC;
	struct opencsd_source source;
	_cleanup_buf_ struct buf code = { 0 };
	dcd_tree_handle_t tree;
	uint32_t used = 0;
	uint8_t id;
	bool good;
	double at;

	if (opencsd_source(&t->config, &source) < 0)
		return -EOPNOTSUPP;
	ocsd_def_errlog_init(OCSD_ERR_SEV_NONE, 0);
	at = (double)now_ns(CLOCK_THREAD_CPUTIME_ID);
	tree = ocsd_create_dcd_tree(OCSD_TRC_SRC_SINGLE, 0);
	good = ocsd_dt_create_decoder(tree, source.decoder, flags, &source.config, &id) == OCSD_OK;
	if (on)
		good = good && ocsd_dt_set_gen_elem_outfn(tree, on, NULL) == OCSD_OK && give_code(tree, p, &code);
	else
		good = good && ocsd_dt_attach_packet_callback(tree, id, OCSD_C_API_CB_PKT_SINK, (void *)on_packet,
							      NULL) == OCSD_OK;
	good = good && !OCSD_DATA_RESP_IS_FATAL(
			   ocsd_dt_process_data(tree, OCSD_OP_DATA, 0, (uint32_t)t->size, t->bytes, &used));
	*ret = (double)now_ns(CLOCK_THREAD_CPUTIME_ID) - at;
	ocsd_destroy_dcd_tree(tree);
	return good ? 0 : -EIO;
}
