/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/code/captured-code.h"
#include "lib/code/bytes.h"
#include "lib/code/elf.h"
#include "lib/code/image.h"
#include "lib/code/address-space.h"

enum { HASH_SIZE = 1 << 16, SPACES_MAX = 65536 };

struct file {
	struct image_file public;
	struct bytes *bytes;
	uint32_t next; /* in the chain of the same hash; UINT32_MAX: the last */
};

struct image_process {
	uint32_t pid;
	struct address_space *address_space;
	struct bytes *code;      /* captured code; its mappings have the source SOURCE_CODE */
	struct bytes *generated; /* generated code; its mappings have the source SOURCE_GENERATED */
};

#define SOURCE_CODE UINT32_MAX
#define SOURCE_GENERATED (UINT32_MAX - 3)

struct image_set {
	struct buf files; /* struct file */
	uint32_t *heads;
	struct buf processes; /* struct image_process */
	size_t last;          /* index of the process looked up last */
	size_t n_mappings;
};

static struct file *image_entries(const struct image_set *s)
{
	return (struct file *)s->files.data;
}

static struct image_process *processes_of(const struct image_set *s)
{
	return (struct image_process *)s->processes.data;
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
	for (size_t i = 0; i < image_file_count(s); i++) {
		struct file *f = &image_entries(s)[i];

		free((char *)f->public.path);
		free((char *)f->public.reason);
		bytes_free(f->bytes);
		closep(&f->public.fd);
	}
	for (size_t i = 0; i < s->processes.size / sizeof(struct image_process); i++) {
		address_space_free(processes_of(s)[i].address_space);
		bytes_free(processes_of(s)[i].code);
		bytes_free(processes_of(s)[i].generated);
	}
	buf_done(&s->files);
	buf_done(&s->processes);
	free(s->heads);
	free(s);
	return NULL;
}

size_t image_file_count(const struct image_set *s)
{
	return s->files.size / sizeof(struct file);
}

const struct image_file *image_file(const struct image_set *s, uint32_t file)
{
	return &image_entries(s)[file].public;
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
	uint32_t n = (uint32_t)image_file_count(s), hash;

	build_id_size = MIN(build_id_size, (size_t)IMAGE_BUILD_ID_MAX);
	hash = hash_of(path, build_id, build_id_size, inode);
	for (uint32_t i = s->heads[hash]; i != UINT32_MAX; i = image_entries(s)[i].next) {
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

	/* Core files of kernels before Linux 5.9 have no build-id. */
	if (!size && e && elf_identity(e)->type == ELF_TYPE_CORE)
		return true;
	return size == wanted->build_id_size && memcmp(id, wanted->build_id, size) == 0;
}

static void file_refuse(struct file *f, int fd, const char *reason)
{
	closep(&fd);
	free((char *)f->public.reason);
	f->public.reason = strdup(reason);
}

static int process_of(struct image_set *s, uint32_t pid, struct image_process **ret)
{
	struct image_process p = { .pid = pid };
	size_t n = s->processes.size / sizeof(p);
	int rc;

	for (size_t i = 0; i < n; i++)
		if (processes_of(s)[i].pid == pid) {
			*ret = &processes_of(s)[i];
			return 0;
		}
	if (n == SPACES_MAX)
		return -E2BIG;
	rc = address_space_new(&p.address_space);
	if (rc < 0)
		return rc;
	buf_add(&s->processes, &p, sizeof(p));
	if (buf_error(&s->processes)) {
		address_space_free(p.address_space);
		return buf_error(&s->processes);
	}
	*ret = &processes_of(s)[n];
	return 0;
}

static int add_mapping(struct image_set *s, struct image_process *p, const struct space_mapping *mapping)
{
	if (s->n_mappings++ == IMAGE_MAPPINGS_MAX)
		return -E2BIG;
	return address_space_add(p->address_space, mapping);
}

int image_map(struct image_set *s, uint32_t pid, const struct image_mapping *mapping)
{
	struct space_mapping new = {
		.start = mapping->addr,
		.end = mapping->addr + MIN(mapping->len, UINT64_MAX - mapping->addr),
		.time = mapping->time,
		.offset = mapping->offset,
		.source = mapping->file,
		.empty = mapping->file == IMAGE_NONE,
		.unknown = mapping->file == IMAGE_UNKNOWN,
	};
	struct image_process *p;
	int rc = process_of(s, pid, &p);

	return rc < 0 ? rc : add_mapping(s, p, &new);
}

int image_add_code(struct image_set *s, uint32_t pid, int fd)
{
	struct captured_code_header header;
	struct captured_code_piece piece;
	uint64_t at = sizeof(header);
	struct image_process *p;
	int rc = process_of(s, pid, &p);

	if (rc == 0 && !p->code)
		rc = bytes_new(fd, &p->code);
	if (rc < 0)
		return rc;
	if (bytes_read(p->code, 0, &header, sizeof(header)) != sizeof(header) ||
	    le64toh(header.magic) != CAPTURED_CODE_MAGIC)
		return -EBADMSG;
	while (at < bytes_size(p->code)) {
		struct space_mapping mapping = { .source = SOURCE_CODE, .offset = at + sizeof(piece) };
		uint64_t len;

		if (bytes_read(p->code, at, &piece, sizeof(piece)) != sizeof(piece))
			return -EBADMSG;
		len = le64toh(piece.len);
		mapping.start = le64toh(piece.addr);
		mapping.time = le64toh(piece.time_ns);
		if (len > bytes_size(p->code) - mapping.offset || len > UINT64_MAX - mapping.start)
			return -EBADMSG;
		mapping.end = mapping.start + len;
		rc = add_mapping(s, p, &mapping);
		if (rc < 0)
			return rc;
		at = mapping.offset + ALIGN8(len);
	}
	return 0;
}

int image_add_generated(struct image_set *s, uint32_t pid, int fd, const struct image_mapping *pieces, size_t n)
{
	struct image_process *p;
	int rc = process_of(s, pid, &p);

	if (rc == 0)
		rc = p->generated ? -EEXIST : bytes_new(fd, &p->generated);
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = add_mapping(
		    s, p,
		    &(struct space_mapping){ .start = pieces[i].addr,
					     .end = pieces[i].addr + MIN(pieces[i].len, UINT64_MAX - pieces[i].addr),
					     .time = pieces[i].time,
					     .offset = pieces[i].offset,
					     .source = SOURCE_GENERATED });
	return rc;
}

int image_seal(struct image_set *s)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < s->processes.size / sizeof(struct image_process); i++)
		rc = address_space_seal(processes_of(s)[i].address_space);
	return rc;
}

static struct image_process *find_process(struct image_set *s, uint32_t pid)
{
	size_t n = s->processes.size / sizeof(struct image_process);

	if (s->last < n && processes_of(s)[s->last].pid == pid)
		return &processes_of(s)[s->last];
	for (size_t i = 0; i < n; i++)
		if (processes_of(s)[i].pid == pid) {
			s->last = i;
			return &processes_of(s)[i];
		}
	return NULL;
}

static const struct space_mapping *find_mapping(const struct image_process *p, uint64_t addr, uint64_t time,
						uint64_t *ret_end)
{
	return time == IMAGE_ANY_TIME ? address_space_find_only(p->address_space, addr, ret_end)
				      : address_space_find(p->address_space, addr, time, ret_end);
}

size_t image_read(struct image_set *s, uint32_t pid, uint64_t addr, uint64_t time, void *ret, size_t size)
{
	struct image_process *p = find_process(s, pid);
	size_t have = 0;

	while (p && have < size) {
		uint64_t end = 0, at = addr + have, want;
		const struct space_mapping *mapping = find_mapping(p, at, time, &end);
		struct bytes *bytes;
		size_t n;

		if (!mapping)
			break;
		bytes = mapping->source == SOURCE_CODE          ? p->code
			: mapping->source == SOURCE_GENERATED   ? p->generated
			: mapping->source < image_file_count(s) ? image_entries(s)[mapping->source].bytes
								: NULL;
		want = MIN(end - at, (uint64_t)(size - have));
		n = bytes ? bytes_read(bytes, mapping->offset + (at - mapping->start), (uint8_t *)ret + have,
				       (size_t)want)
			  : 0;
		have += n;
		if (n < want)
			break;
	}
	return have;
}

bool image_locate(struct image_set *s, uint32_t pid, uint64_t addr, uint64_t time, uint32_t *ret_file,
		  uint64_t *ret_offset)
{
	struct image_process *p = find_process(s, pid);
	const struct space_mapping *mapping;
	uint64_t end;

	mapping = p ? find_mapping(p, addr, time, &end) : NULL;
	if (!mapping || mapping->source >= image_file_count(s))
		return false;
	*ret_file = mapping->source;
	*ret_offset = mapping->offset + (addr - mapping->start);
	return true;
}

uint64_t image_version(const struct image_set *s, uint32_t pid, uint64_t time)
{
	struct image_process *p = find_process((struct image_set *)s, pid);

	return p ? (uint64_t)(p - processes_of(s) + 1) << 40 | address_space_count_until(p->address_space, time) : 0;
}

void image_file_attach(struct image_set *s, uint32_t file, int fd, const char *reason)
{
	_cleanup_(elf_freep) struct elf *e = NULL;
	struct file *f = &image_entries(s)[file];
	struct bytes *b;
	int rc;

	if (f->bytes) {
		closep(&fd);
		return;
	}
	if (fd < 0) {
		file_refuse(f, -1, reason ? reason : "unavailable");
		return;
	}
	rc = bytes_new(fd, &b);
	if (rc < 0) {
		file_refuse(f, fd, rc == -EINVAL ? "not a regular file" : strerror(-rc));
		return;
	}
	elf_open(fd, &e);
	if (f->public.build_id_size && !same_build_id(e, &f->public)) {
		file_refuse(f, fd, "the build-id differs from that of the traced file");
		bytes_free(b);
	} else if (e && elf_only_symbols(e)) {
		file_refuse(f, fd, "the file has symbols and no code");
		bytes_free(b);
	} else {
		f->public.fd = fd;
		f->bytes = b;
	}
}

int image_map_elf(struct image_set *s, uint32_t pid, uint32_t file, const char *symbol, uint64_t address,
		  struct buf *ret)
{
	_cleanup_(elf_freep) struct elf *e = NULL;
	const struct elf_segment *segments;
	uint64_t value = 0;
	bool core;
	size_t n;
	int rc;

	if (!image_entries(s)[file].bytes)
		return -ENOENT;
	rc = elf_open(image_entries(s)[file].public.fd, &e);
	if (rc < 0)
		return rc == -ENOMEM ? rc : -ENODATA;
	/* A core file is mapped at its own addresses. */
	core = elf_identity(e)->type == ELF_TYPE_CORE;
	if (core)
		address = 0;
	else if (elf_symbol_value(e, symbol, &value) < 0)
		return -ENODATA;
	segments = elf_segments(e, &n);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		struct image_mapping mapping = {
			.addr = segments[i].address + (address - value),
			.len = segments[i].size,
			.offset = segments[i].offset,
			.file = file,
		};

		if (segments[i].type != ELF_SEGMENT_LOAD || (!core && !segments[i].code))
			continue;
		rc = image_map(s, pid, &mapping);
		if (ret)
			buf_add(ret, &mapping, sizeof(mapping));
	}
	return rc == 0 && ret ? buf_error(ret) : rc;
}
