#include "config.h"

#include <string.h>

#include "daemon/capture/process/jitdump.h"
#include "lib/base/array.h"
#include "lib/base/reader.h"
#include "lib/base/util.h"

enum {
	PIECES_MAX = 16 << 10,
	BYTES_MAX = 64 << 20,
	READ_MAX = 32 << 20,   /* limit for one call, bytes of the file */
	RECORD_MAX = 16 << 20, /* longer records are skipped */
	MAGIC = 0x4a695444,
	RECORD_LOAD = 0,
	RECORD_MOVE = 1,
	ARCH_TIME = 1, /* flag: its times are of an unknown clock */
};

struct jitdump {
	int fd;
	uint64_t at; /* offset of the next record */
	bool broken, full;
	struct jitdump_piece *pieces;
	size_t n, room;
	uint64_t bytes;
};

bool jitdump_name(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *end = strrchr(name, '.');

	return strncmp(name, "jit-", 4) == 0 && end && strncmp(end, ".dump", 5) == 0;
}

int jitdump_new(int fd, struct jitdump **ret)
{
	struct jitdump *j = calloc(1, sizeof(*j));

	if (!j) {
		closep(&fd);
		return -ENOMEM;
	}
	j->fd = fd;
	*ret = j;
	return 0;
}

struct jitdump *jitdump_free(struct jitdump *j)
{
	if (!j)
		return NULL;
	for (size_t i = 0; i < j->n; i++)
		free(j->pieces[i].bytes);
	free(j->pieces);
	closep(&j->fd);
	free(j);
	return NULL;
}

static bool add_piece(struct jitdump *j, const struct jitdump_piece *piece, const uint8_t *bytes)
{
	struct jitdump_piece p = *piece;
	size_t at = j->n;

	if (j->n >= PIECES_MAX || p.size > BYTES_MAX - j->bytes) {
		j->full = true;
		return false;
	}
	if (array_reserve(j->pieces, j->n, &j->room) < 0)
		return false;
	p.bytes = malloc(p.size + 1);
	if (!p.bytes)
		return false;
	memcpy(p.bytes, bytes, p.size);
	while (at && j->pieces[at - 1].time > p.time)
		at--;
	memmove(&j->pieces[at + 1], &j->pieces[at], (j->n - at) * sizeof(*j->pieces));
	j->pieces[at] = p;
	j->n++;
	j->bytes += p.size;
	return true;
}

/* JIT_CODE_LOAD: u32 pid, u32 tid, virtual address, address, size, index; then the name and the code. */
static int read_load(struct jitdump *j, struct reader *r, uint64_t time)
{
	struct jitdump_piece p = { .time = time };
	const uint8_t *bytes;
	const char *name;

	if (rd_skip(r, 16) < 0 || rd_u64(r, &p.start) < 0 || rd_u64(r, &p.size) < 0 || rd_u64(r, &p.index) < 0 ||
	    rd_str(r, &name) < 0 || p.size > rd_left(r) || rd_bytes(r, p.size, &bytes) < 0 ||
	    p.size > INT64_MAX - p.start)
		return -EBADMSG;
	return add_piece(j, &p, bytes) ? 0 : -ENOSPC;
}

/* JIT_CODE_MOVE: u32 pid, u32 tid, virtual address, old address, new address, size, index. */
static int read_move(struct jitdump *j, struct reader *r, uint64_t time)
{
	struct jitdump_piece p = { .time = time };

	if (rd_skip(r, 24) < 0 || rd_u64(r, &p.start) < 0 || rd_u64(r, &p.size) < 0 || rd_u64(r, &p.index) < 0 ||
	    p.start > INT64_MAX)
		return -EBADMSG;
	for (size_t i = j->n; i-- > 0;)
		if (j->pieces[i].index == p.index) {
			p.size = MIN(p.size, j->pieces[i].size);
			return add_piece(j, &p, j->pieces[i].bytes) ? 0 : -ENOSPC;
		}
	return 0;
}

/* Sets j->at to the first record. */
static int read_header(struct jitdump *j)
{
	uint8_t header[40];
	ssize_t got = pread(j->fd, header, sizeof(header), 0);
	struct reader r = reader_of(header, got > 0 ? (size_t)got : 0);
	uint32_t magic, version, size;
	uint64_t flags;

	/* The program has not written all of it yet. */
	if (got < (ssize_t)sizeof(header))
		return -EAGAIN;
	if (rd_u32(&r, &magic) < 0 || rd_u32(&r, &version) < 0 || rd_u32(&r, &size) < 0 || rd_skip(&r, 20) < 0 ||
	    rd_u64(&r, &flags) < 0)
		return -EBADMSG;
	if (magic != MAGIC || version != 1 || size < sizeof(header) || size > RECORD_MAX || flags & ARCH_TIME)
		return -EBADMSG;
	j->at = size;
	return 0;
}

/* Parses the record at j->at. -EAGAIN: the file does not contain all of it yet. */
static int read_record(struct jitdump *j, int64_t shift)
{
	_cleanup_free_ uint8_t *body = NULL;
	uint8_t head[16];
	ssize_t got = pread(j->fd, head, sizeof(head), (off_t)j->at);
	struct reader r = reader_of(head, got > 0 ? (size_t)got : 0);
	uint32_t type, size;
	uint64_t time;
	int rc = 0;

	if (got < (ssize_t)sizeof(head))
		return -EAGAIN;
	if (rd_u32(&r, &type) < 0 || rd_u32(&r, &size) < 0 || rd_u64(&r, &time) < 0 || size < sizeof(head))
		return -EBADMSG;
	if ((type == RECORD_LOAD || type == RECORD_MOVE) && size <= RECORD_MAX) {
		body = malloc(size);
		if (!body)
			return -ENOMEM;
		got = pread(j->fd, body, size - sizeof(head), (off_t)(j->at + sizeof(head)));
		if (got != (ssize_t)(size - sizeof(head)))
			return -EAGAIN;
		r = reader_of(body, size - sizeof(head));
		time += (uint64_t)shift;
		rc = type == RECORD_LOAD ? read_load(j, &r, time) : read_move(j, &r, time);
	}
	if (rc == 0)
		j->at += size;
	return rc;
}

bool jitdump_read(struct jitdump *j, int64_t shift)
{
	uint64_t end;
	int rc = 0;

	if (j->broken)
		return false;
	if (!j->at)
		rc = read_header(j);
	end = j->at + READ_MAX;
	while (rc == 0 && j->at < end)
		rc = read_record(j, shift);
	j->broken = rc == -EBADMSG;
	return rc == 0 || rc == -EAGAIN;
}

void jitdump_forget(struct jitdump *j, uint64_t before)
{
	size_t kept = 0, old = 0;

	while (old < j->n && j->pieces[old].time <= before)
		old++;
	for (size_t i = 0; i < j->n; i++) {
		struct jitdump_piece *p = &j->pieces[i];
		bool gone = false;

		for (size_t k = i + 1; k < old && !gone; k++)
			gone = j->pieces[k].start <= p->start &&
			       j->pieces[k].start + j->pieces[k].size >= p->start + p->size;
		if (gone) {
			j->bytes -= p->size;
			free(p->bytes);
		} else {
			j->pieces[kept++] = *p;
		}
	}
	j->n = kept;
	j->full = false;
}

const struct jitdump_piece *jitdump_pieces(const struct jitdump *j, size_t *ret_n)
{
	*ret_n = j->n;
	return j->pieces;
}

uint64_t jitdump_memory(const struct jitdump *j)
{
	return j->bytes + j->room * sizeof(*j->pieces);
}
