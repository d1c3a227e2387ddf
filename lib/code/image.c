#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/code/blob.h"
#include "lib/code/bytes.h"
#include "lib/code/elf.h"
#include "lib/code/image.h"
#include "lib/code/space.h"

enum { HASH_SIZE = 1 << 16, SPACES_MAX = 65536 };

struct file {
	struct image_file public;
	struct bytes *bytes;
	uint32_t next; /* of the same hash; UINT32_MAX: none */
};

struct process {
	uint32_t pid;
	struct space *space;
	struct bytes *code; /* pieces of it are places whose source is SOURCE_CODE */
};

enum { SOURCE_CODE = UINT32_MAX };

struct image_set {
	struct buf files; /* struct file */
	uint32_t *heads;
	struct buf processes; /* struct process */
	size_t last;          /* the process asked for last */
	size_t n_places;
};

static struct file *files_of(const struct image_set *s)
{
	return (struct file *)s->files.data;
}

static struct process *processes_of(const struct image_set *s)
{
	return (struct process *)s->processes.data;
}

int image_set_new(struct image_set **ret)
{
	_cleanup_(image_set_freep) struct image_set *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->heads = malloc(HASH_SIZE * sizeof(*s->heads));
	if (!s->heads)
		return -ENOMEM;
	memset(s->heads, 0xff, HASH_SIZE * sizeof(*s->heads));
	*ret = TAKE_PTR(s);
	return 0;
}

struct image_set *image_set_free(struct image_set *s)
{
	if (!s)
		return NULL;
	for (size_t i = 0; i < image_files(s); i++) {
		struct file *f = &files_of(s)[i];

		free((char *)f->public.path);
		free((char *)f->public.reason);
		bytes_free(f->bytes);
		closep(&f->public.fd);
	}
	for (size_t i = 0; i < s->processes.size / sizeof(struct process); i++) {
		space_free(processes_of(s)[i].space);
		bytes_free(processes_of(s)[i].code);
	}
	buf_done(&s->files);
	buf_done(&s->processes);
	free(s->heads);
	free(s);
	return NULL;
}

size_t image_files(const struct image_set *s)
{
	return s->files.size / sizeof(struct file);
}

const struct image_file *image_file(const struct image_set *s, uint32_t file)
{
	return &files_of(s)[file].public;
}

static uint32_t hash_of(const char *path, const uint8_t *id, size_t id_size, uint64_t inode)
{
	uint32_t h = 2166136261u ^ (uint32_t)inode;

	for (; *path; path++)
		h = (h ^ (uint8_t)*path) * 16777619u;
	for (size_t i = 0; i < id_size; i++)
		h = (h ^ id[i]) * 16777619u;
	return h % HASH_SIZE;
}

int image_file_add(struct image_set *s, const char *path, const void *build_id, size_t build_id_size, uint64_t inode,
		   uint32_t *ret)
{
	struct file f = { .public = { .fd = -1, .inode = inode } };
	uint32_t n = (uint32_t)image_files(s), hash;

	build_id_size = MIN(build_id_size, (size_t)IMAGE_BUILD_ID_MAX);
	hash = hash_of(path, build_id, build_id_size, inode);
	for (uint32_t i = s->heads[hash]; i != UINT32_MAX; i = files_of(s)[i].next) {
		const struct image_file *known = image_file(s, i);

		if (strcmp(known->path, path) == 0 && known->inode == inode && known->build_id_size == build_id_size &&
		    (!build_id_size || memcmp(known->build_id, build_id, build_id_size) == 0)) {
			*ret = i;
			return 0;
		}
	}
	if (n == IMAGE_FILES_MAX)
		return -E2BIG;
	f.public.path = strdup(path);
	if (!f.public.path)
		return -ENOMEM;
	if (build_id_size)
		memcpy(f.public.build_id, build_id, build_id_size);
	f.public.build_id_size = (uint8_t)build_id_size;
	f.next = s->heads[hash];
	buf_add(&s->files, &f, sizeof(f));
	if (buf_error(&s->files)) {
		free((char *)f.public.path);
		return buf_error(&s->files);
	}
	s->heads[hash] = n;
	*ret = n;
	return 0;
}

size_t image_build_id(int fd, uint8_t ret[IMAGE_BUILD_ID_MAX])
{
	_cleanup_(elf_freep) struct elf *e = NULL;

	return elf_open(fd, &e) < 0 ? 0 : elf_build_id(e, ret);
}

/* e is NULL for a file that is not ELF. */
static bool same_build_id(struct elf *e, const struct image_file *wanted)
{
	uint8_t id[IMAGE_BUILD_ID_MAX];
	size_t size = e ? elf_build_id(e, id) : 0;

	/* The memory of a kernel has it since Linux 5.9 only. */
	if (!size && e && elf_identity(e)->type == ELF_TYPE_CORE)
		return true;
	return size == wanted->build_id_size && memcmp(id, wanted->build_id, size) == 0;
}

static void refuse(struct file *f, int fd, const char *reason)
{
	closep(&fd);
	free((char *)f->public.reason);
	f->public.reason = strdup(reason);
}

static int process_of(struct image_set *s, uint32_t pid, struct process **ret)
{
	struct process p = { .pid = pid };
	size_t n = s->processes.size / sizeof(p);
	int rc;

	for (size_t i = 0; i < n; i++)
		if (processes_of(s)[i].pid == pid) {
			*ret = &processes_of(s)[i];
			return 0;
		}
	if (n == SPACES_MAX)
		return -E2BIG;
	rc = space_new(&p.space);
	if (rc < 0)
		return rc;
	buf_add(&s->processes, &p, sizeof(p));
	if (buf_error(&s->processes)) {
		space_free(p.space);
		return buf_error(&s->processes);
	}
	*ret = &processes_of(s)[n];
	return 0;
}

static int add_place(struct image_set *s, struct process *p, const struct place *place)
{
	if (s->n_places++ == IMAGE_PLACES_MAX)
		return -E2BIG;
	return space_add(p->space, place);
}

int image_map(struct image_set *s, uint32_t pid, uint64_t addr, uint64_t len, uint64_t offset, uint32_t file,
	      uint64_t time)
{
	struct place place = { addr,
			       addr + MIN(len, UINT64_MAX - addr),
			       time,
			       offset,
			       file,
			       0,
			       file == IMAGE_NONE,
			       file == IMAGE_UNKNOWN };
	struct process *p;
	int rc = process_of(s, pid, &p);

	return rc < 0 ? rc : add_place(s, p, &place);
}

int image_code(struct image_set *s, uint32_t pid, int fd)
{
	struct code_blob_header header;
	struct code_blob_piece piece;
	uint64_t at = sizeof(header);
	struct process *p;
	int rc = process_of(s, pid, &p);

	if (rc == 0 && !p->code)
		rc = bytes_new(fd, &p->code);
	if (rc < 0)
		return rc;
	if (bytes_read(p->code, 0, &header, sizeof(header)) != sizeof(header) ||
	    le64toh(header.magic) != CODE_BLOB_MAGIC)
		return -EBADMSG;
	while (at < bytes_size(p->code)) {
		struct place place = { .source = SOURCE_CODE, .offset = at + sizeof(piece) };
		uint64_t len;

		if (bytes_read(p->code, at, &piece, sizeof(piece)) != sizeof(piece))
			return -EBADMSG;
		len = le64toh(piece.len);
		place.start = le64toh(piece.addr);
		place.time = le64toh(piece.time_ns);
		if (len > bytes_size(p->code) - place.offset || len > UINT64_MAX - place.start)
			return -EBADMSG;
		place.end = place.start + len;
		rc = add_place(s, p, &place);
		if (rc < 0)
			return rc;
		at = place.offset + ALIGN8(len);
	}
	return 0;
}

int image_seal(struct image_set *s)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < s->processes.size / sizeof(struct process); i++)
		rc = space_seal(processes_of(s)[i].space);
	return rc;
}

static struct process *find_process(struct image_set *s, uint32_t pid)
{
	size_t n = s->processes.size / sizeof(struct process);

	if (s->last < n && processes_of(s)[s->last].pid == pid)
		return &processes_of(s)[s->last];
	for (size_t i = 0; i < n; i++)
		if (processes_of(s)[i].pid == pid) {
			s->last = i;
			return &processes_of(s)[i];
		}
	return NULL;
}

size_t image_read(struct image_set *s, uint32_t pid, uint64_t addr, uint64_t time, void *ret, size_t size)
{
	struct process *p = find_process(s, pid);
	size_t have = 0;

	while (p && have < size) {
		uint64_t end = 0, at = addr + have, want;
		const struct place *place = space_find(p->space, at, time, &end);
		struct bytes *bytes;
		size_t n;

		if (!place)
			break;
		bytes = place->source == SOURCE_CODE     ? p->code
			: place->source < image_files(s) ? files_of(s)[place->source].bytes
							 : NULL;
		want = MIN(end - at, (uint64_t)(size - have));
		n = bytes ? bytes_read(bytes, place->offset + (at - place->start), (uint8_t *)ret + have, (size_t)want)
			  : 0;
		have += n;
		if (n < want)
			break;
	}
	return have;
}

bool image_where(struct image_set *s, uint32_t pid, uint64_t addr, uint64_t time, uint32_t *ret_file,
		 uint64_t *ret_offset)
{
	struct process *p = find_process(s, pid);
	const struct place *place;
	uint64_t end;

	place = p ? space_find(p->space, addr, time, &end) : NULL;
	if (!place || place->source >= image_files(s))
		return false;
	*ret_file = place->source;
	*ret_offset = place->offset + (addr - place->start);
	return true;
}

uint64_t image_version(const struct image_set *s, uint32_t pid, uint64_t time)
{
	struct process *p = find_process((struct image_set *)s, pid);

	return p ? (uint64_t)(p - processes_of(s) + 1) << 40 | space_version(p->space, time) : 0;
}

void image_file_give(struct image_set *s, uint32_t file, int fd, const char *reason)
{
	_cleanup_(elf_freep) struct elf *e = NULL;
	struct file *f = &files_of(s)[file];
	struct bytes *b;
	int rc;

	if (f->bytes) {
		closep(&fd);
		return;
	}
	if (fd < 0) {
		refuse(f, -1, reason ? reason : "not there");
		return;
	}
	rc = bytes_new(fd, &b);
	if (rc < 0) {
		refuse(f, fd, rc == -EINVAL ? "not a regular file" : strerror(-rc));
		return;
	}
	elf_open(fd, &e);
	if (f->public.build_id_size && !same_build_id(e, &f->public)) {
		refuse(f, fd, "another file: its build-id is not that of the traced one");
		bytes_free(b);
	} else if (e && elf_only_symbols(e)) {
		refuse(f, fd, "it has symbols and no code");
		bytes_free(b);
	} else {
		f->public.fd = fd;
		f->bytes = b;
	}
}

int image_map_elf(struct image_set *s, uint32_t pid, uint32_t file, const char *symbol, uint64_t address)
{
	_cleanup_(elf_freep) struct elf *e = NULL;
	const struct elf_segment *segments;
	uint64_t value = 0;
	bool core;
	size_t n;
	int rc;

	if (!files_of(s)[file].bytes)
		return -ENOENT;
	rc = elf_open(files_of(s)[file].public.fd, &e);
	if (rc < 0)
		return rc == -ENOMEM ? rc : -ENODATA;
	/* A core file is mapped at its own addresses. */
	core = elf_identity(e)->type == ELF_TYPE_CORE;
	if (core)
		address = 0;
	else if (elf_symbol_value(e, symbol, &value) < 0)
		return -ENODATA;
	segments = elf_segments(e, &n);
	for (size_t i = 0; rc == 0 && i < n; i++)
		if (segments[i].type == ELF_SEGMENT_LOAD && (core || segments[i].code))
			rc = image_map(s, pid, segments[i].address + (address - value), segments[i].size,
				       segments[i].offset, file, 0);
	return rc;
}
