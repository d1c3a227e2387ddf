/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "daemon/capture/process/code-log.h"
#include "lib/base/array.h"
#include "lib/base/io.h"
#include "lib/base/reader.h"
#include "lib/base/util.h"
#include "lib/code/captured-code.h"

enum { MAPS_MAX = 64 << 10, IMAGES_MAX = 1024, NAMES_MAX = 16 << 10 };

static bool same_image(const struct code_image *i, const struct emu_record_map *m, const char *path)
{
	return i->inode == m->inode && i->major == m->major && i->minor == m->minor && i->file == m->file &&
	       strcmp(i->path, path) == 0;
}

static int find_image(struct code_log *l, const struct emu_record_map *m, const char *path, uint32_t *ret)
{
	*ret = UINT32_MAX;
	/* Names of anonymous memory begin with two slashes or a bracket. */
	if (path[0] != '/' || path[1] == '/')
		return 0;
	for (size_t n = l->n_images; n-- > 0;)
		if (same_image(&l->images[n], m, path)) {
			*ret = (uint32_t)n;
			return 0;
		}
	if (l->n_images >= IMAGES_MAX) {
		l->crowded = true;
		return 0;
	}
	if (array_reserve(l->images, l->n_images, &l->room_images) < 0)
		return -ENOMEM;
	l->images[l->n_images] = (struct code_image){ .path = path,
						      .file = m->file,
						      .major = m->major,
						      .minor = m->minor,
						      .inode = m->inode,
						      .build_id_size = m->build_id_size };
	memcpy(l->images[l->n_images].build_id, m->build_id, sizeof(m->build_id));
	*ret = (uint32_t)l->n_images++;
	return 0;
}

static int read_map(struct code_log *l, struct reader *r)
{
	struct code_map m;
	int rc;

	if (rd_copy(r, &m.record, sizeof(m.record)) < 0 || rd_str(r, &m.path) < 0 ||
	    m.record.build_id_size > EMU_BUILD_ID_MAX)
		return -EBADMSG;
	if (l->n_maps >= MAPS_MAX) {
		l->crowded = true;
		return 0;
	}
	rc = find_image(l, &m.record, m.path, &m.image);
	if (rc == 0)
		rc = array_reserve(l->maps, l->n_maps, &l->room_maps);
	if (rc == 0)
		l->maps[l->n_maps++] = m;
	return rc;
}

static int read_code(struct reader *r, struct emu_record_code *ret, const uint8_t **ret_bytes)
{
	struct emu_record_code c;
	int rc = rd_copy(r, &c, sizeof(c));

	if (rc == 0)
		rc = c.len > rd_left(r) ? -EBADMSG : rd_bytes(r, c.len, ret_bytes);
	if (rc == 0)
		*ret = c;
	return rc;
}

static int read_name(struct code_log *l, struct reader *r)
{
	struct emu_record_comm c;

	if (rd_copy(r, &c, sizeof(c)) < 0)
		return -EBADMSG;
	if (l->n_names >= NAMES_MAX) {
		l->crowded = true;
		return 0;
	}
	if (array_reserve(l->names, l->n_names, &l->room_names) < 0)
		return -ENOMEM;
	l->names[l->n_names] = (struct code_name){ .time_ns = c.head.time_ns, .tid = c.tid };
	memcpy(l->names[l->n_names++].name, c.name, EMU_NAME_SIZE);
	return 0;
}

/* Returns a reader of the next record; the head is copied and remains unread in it. -ENODATA at the end. */
static int next_record(struct reader *r, struct emu_record *ret_head, struct reader *ret)
{
	struct reader look = *r;
	int rc;

	if (rd_left(r) == 0)
		return -ENODATA;
	rc = rd_copy(&look, ret_head, sizeof(*ret_head));
	if (rc == 0)
		rc = ret_head->size < sizeof(*ret_head) || ret_head->size % 8 ? -EBADMSG
									      : rd_sub(r, ret_head->size, ret);
	return rc;
}

int code_log_read(const uint8_t *log, size_t size, struct code_log *ret)
{
	struct reader r = reader_of(log, size), record;
	struct code_log l = { 0 };
	struct emu_record head;
	int rc;

	while ((rc = next_record(&r, &head, &record)) == 0) {
		struct emu_record_code code;
		const uint8_t *bytes;

		if (head.type == EMU_REC_MAP)
			rc = read_map(&l, &record);
		else if (head.type == EMU_REC_COMM)
			rc = read_name(&l, &record);
		else if (head.type == EMU_REC_CODE && (rc = read_code(&record, &code, &bytes)) == 0) {
			l.pieces++;
			l.bytes += code.len;
		}
		if (rc < 0)
			break;
	}
	if (rc == -ENOMEM) {
		code_log_done(&l);
		return rc;
	}
	l.broken = rc != -ENODATA;
	*ret = l;
	return 0;
}

void code_log_done(struct code_log *l)
{
	free(l->maps);
	free(l->images);
	free(l->names);
	*l = (struct code_log){ 0 };
}

int code_log_write_bytes(const uint8_t *log, size_t size, int fd)
{
	struct captured_code_header header = { .magic = CAPTURED_CODE_MAGIC };
	struct reader r = reader_of(log, size), record;
	struct emu_record head;
	int rc = io_write(fd, &header, sizeof(header));

	while (rc == 0 && next_record(&r, &head, &record) == 0) {
		static const uint8_t zeros[8];
		struct emu_record_code code;
		struct captured_code_piece piece;
		const uint8_t *bytes;

		if (head.type != EMU_REC_CODE)
			continue;
		if (read_code(&record, &code, &bytes) < 0)
			break;
		piece = (struct captured_code_piece){ .time_ns = head.time_ns, .addr = code.addr, .len = code.len };
		rc = io_write(fd, &piece, sizeof(piece));
		if (rc == 0)
			rc = io_write(fd, bytes, code.len);
		if (rc == 0)
			rc = io_write(fd, zeros, ALIGN8(code.len) - code.len);
	}
	return rc;
}
