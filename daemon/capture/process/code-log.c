/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "daemon/capture/process/code-log.h"
#include "lib/base/array.h"
#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/reader.h"
#include "lib/base/util.h"
#include "lib/code/captured-code.h"

enum {
	MAPS_MAX = 64 << 10,
	IMAGES_MAX = 1024,
	NAMED_MAX = 1 << 20,   /* bytes of the paths of all images */
	MAPPED_MAX = 16 << 20, /* bytes of the paths of all mappings: perf.data repeats the path for each */
	NAMES_MAX = 16 << 10,
	SAME_HASH_MAX = 8,
};

/* The state of code_log_read(). */
struct log_reader {
	struct code_log log;
	struct hash images; /* indices in log.images, by the hash of what identifies one */
	size_t named;       /* bytes of the images' paths */
	size_t mapped;      /* bytes of the mappings' paths */
	bool full;          /* a mapping was left out */
};

static bool same_image(const struct code_image *i, const struct emu_record_map *m, const char *path)
{
	return i->inode == m->inode && i->major == m->major && i->minor == m->minor && i->file == m->file &&
	       strcmp(i->path, path) == 0;
}

static uint64_t hash_image(const struct emu_record_map *m, const char *path, size_t size)
{
	const uint64_t key[] = { hash_bytes(path, size), m->inode, (uint64_t)m->major << 32 | m->minor, m->file };

	return hash_bytes(key, sizeof(key));
}

/* Returns 0 with the index of an image that is known, 1 if it is new, with where to put its index, -ENOSPC, -ENOMEM. */
static int look_up_image(struct log_reader *l, const struct emu_record_map *m, const char *path, uint32_t **ret)
{
	uint64_t hash = hash_image(m, path, strlen(path));

	/* Programs choose what is hashed. Files with equal hashes are made up, and would take quadratic time. */
	for (uint64_t n = 0; n < SAME_HASH_MAX; n++) {
		int rc = hash_find(&l->images, hash, n, ret);

		if (rc != 0)
			return rc;
		/* UINT32_MAX: an image beyond the limits. */
		if (**ret == UINT32_MAX || same_image(&l->log.images[**ret], m, path))
			return 0;
	}
	return -ENOSPC;
}

static int add_image(struct log_reader *l, const struct emu_record_map *m, const char *path, uint32_t *index)
{
	struct code_log *log = &l->log;

	*index = UINT32_MAX;
	if (log->n_images >= IMAGES_MAX || l->named + strlen(path) > NAMED_MAX) {
		log->crowded = true;
		return 0;
	}
	if (array_reserve(log->images, log->n_images, &log->room_images) < 0)
		return -ENOMEM;
	log->images[log->n_images] = (struct code_image){ .path = path,
							  .file = m->file,
							  .major = m->major,
							  .minor = m->minor,
							  .inode = m->inode,
							  .build_id_size = m->build_id_size };
	memcpy(log->images[log->n_images].build_id, m->build_id, sizeof(m->build_id));
	l->named += strlen(path);
	*index = (uint32_t)log->n_images++;
	return 0;
}

/* *ret: UINT32_MAX for anonymous memory, and beyond the limits. */
static int find_image(struct log_reader *l, const struct emu_record_map *m, const char *path, uint32_t *ret)
{
	uint32_t *index;
	int rc;

	*ret = UINT32_MAX;
	/* Names of anonymous memory begin with two slashes or a bracket. */
	if (path[0] != '/' || path[1] == '/')
		return 0;
	rc = look_up_image(l, m, path, &index);
	if (rc == 1)
		rc = add_image(l, m, path, index);
	if (rc == -ENOSPC)
		l->log.crowded = true;
	else if (rc == 0)
		*ret = *index;
	return rc == -ENOSPC ? 0 : rc;
}

static int read_map(struct log_reader *l, struct reader *r)
{
	struct code_log *log = &l->log;
	struct code_map m;
	int rc;

	if (rd_copy(r, &m.record, sizeof(m.record)) < 0 || rd_str(r, &m.path) < 0 || strlen(m.path) >= EMU_PATH_SIZE ||
	    m.record.build_id_size > EMU_BUILD_ID_MAX)
		return -EBADMSG;
	/* The first mapping beyond a limit makes all addresses unknown; this and all later ones are left out. */
	if (l->full)
		return 0;
	if (log->n_maps >= MAPS_MAX || l->mapped + strlen(m.path) > MAPPED_MAX) {
		log->crowded = l->full = true;
		m.path = "//unknown";
		m.record = (struct emu_record_map){ .head = m.record.head, .len = INT64_MAX, .prot = m.record.prot };
	}
	l->mapped += strlen(m.path);
	rc = find_image(l, &m.record, m.path, &m.image);
	if (rc == 0)
		rc = array_reserve(log->maps, log->n_maps, &log->room_maps);
	if (rc == 0)
		log->maps[log->n_maps++] = m;
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
	struct log_reader l = { 0 };
	struct emu_record head;
	int rc;

	while ((rc = next_record(&r, &head, &record)) == 0) {
		struct emu_record_code code;
		const uint8_t *bytes;

		if (head.type == EMU_REC_MAP)
			rc = read_map(&l, &record);
		else if (head.type == EMU_REC_COMM)
			rc = read_name(&l.log, &record);
		else if (head.type == EMU_REC_CODE && (rc = read_code(&record, &code, &bytes)) == 0) {
			l.log.pieces++;
			l.log.bytes += code.len;
		}
		if (rc < 0)
			break;
	}
	hash_done(&l.images);
	if (rc == -ENOMEM) {
		code_log_done(&l.log);
		return rc;
	}
	l.log.broken = rc != -ENODATA;
	*ret = l.log;
	return 0;
}

size_t code_log_cut(uint8_t *log, size_t size, uint64_t time)
{
	struct reader r = reader_of(log, size), record;
	struct emu_record head;
	size_t at = 0, kept = 0;

	for (; next_record(&r, &head, &record) == 0; at += head.size) {
		if (head.time_ns > time)
			continue;
		memmove(log + kept, log + at, head.size);
		kept += head.size;
	}
	return kept;
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
