/* SPDX-License-Identifier: MIT */
/* Chunks: the parts of a store that are appended during the decode. Each can be read without what follows it. */
#include <string.h>

#include "lib/base/io.h"
#include "lib/store/writer.h"

void chunk_put_text(struct buf *b, const char *text)
{
	buf_add(b, text, strlen(text) + 1);
}

int store_append(struct store_writer *w, const void *data, size_t size)
{
	int rc = io_pwrite(w->fd, data, size, (off_t)w->offset);

	if (rc == 0)
		w->offset += size;
	return rc;
}

int chunk_append(struct store_writer *w, enum store_chunk_type type, const struct buf *chunk, uint32_t leaves_size,
		 const struct writer_thread *t, struct chunk_sums *ret)
{
	_cleanup_buf_ struct buf head = { 0 };
	uint32_t size = (uint32_t)chunk->size - leaves_size;
	const struct chunk_sums sums = { store_checksum(chunk->data, size),
					 store_checksum(chunk->data + size, leaves_size) };
	int rc = buf_error(chunk);

	buf_u32(&head, CHUNK_MAGIC);
	buf_u32(&head, type);
	buf_u32(&head, size);
	buf_u32(&head, leaves_size);
	buf_u32(&head, sums.events);
	buf_u32(&head, sums.leaves);
	buf_u32(&head, t ? t->index : 0);
	buf_u32(&head, 0);
	buf_u64(&head, t ? t->block_time : 0);
	buf_u32(&head, 0);
	buf_u32(&head, store_checksum(head.data, head.size));
	rc = rc < 0 ? rc : buf_error(&head);
	if (ret)
		*ret = sums;
	if (rc == 0)
		rc = store_append(w, head.data, head.size);
	return rc == 0 ? store_append(w, chunk->data, chunk->size) : rc;
}

static void put_string(struct store_writer *w, struct buf *b, uint32_t string)
{
	chunk_put_text(b, (const char *)w->strings.bytes.data + string);
}

int chunk_append_names(struct store_writer *w)
{
	_cleanup_buf_ struct buf b = { .limit = UINT32_MAX / 2 };

	if (w->named_threads == w->n_threads && w->named_functions == w->n_functions && w->named_sites == w->n_sites)
		return 0;
	buf_varint(&b, w->n_threads - w->named_threads);
	for (; w->named_threads < w->n_threads; w->named_threads++) {
		const struct writer_thread *t = w->threads[w->named_threads];

		buf_varint(&b, t->tid);
		put_string(w, &b, t->name);
	}
	buf_varint(&b, w->n_functions - w->named_functions);
	for (; w->named_functions < w->n_functions; w->named_functions++) {
		const struct writer_function *f = &w->functions[w->named_functions];

		buf_varint(&b, f->address);
		buf_varint(&b, f->kind);
		buf_varint(&b, f->line);
		buf_varint(&b, f->offset);
		put_string(w, &b, f->name);
		put_string(w, &b, f->image);
		put_string(w, &b, f->file);
		put_string(w, &b, f->build_id);
	}
	buf_varint(&b, w->n_sites - w->named_sites);
	for (; w->named_sites < w->n_sites; w->named_sites++) {
		const struct writer_site *s = &w->sites[w->named_sites];

		buf_varint(&b, s->function);
		buf_varint(&b, s->line);
		put_string(w, &b, s->file);
	}
	return chunk_append(w, CHUNK_NAMES, &b, 0, NULL, NULL);
}

int store_write_header(int fd, const struct store_header *h)
{
	_cleanup_buf_ struct buf b = { 0 };

	buf_u64(&b, STORE_MAGIC);
	buf_u32(&b, h->version);
	buf_u32(&b, STORE_HEADER_SIZE);
	buf_u64(&b, h->size);
	buf_u64(&b, h->table);
	buf_u32(&b, h->sections);
	buf_u32(&b, h->checksum);
	buf_zero(&b, STORE_HEADER_SIZE - 4 - b.size);
	buf_u32(&b, store_checksum(b.data, b.size));
	return buf_error(&b) ? buf_error(&b) : io_pwrite(fd, b.data, b.size, 0);
}
