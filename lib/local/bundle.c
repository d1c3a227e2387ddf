/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/array.h"
#include "lib/base/io.h"
#include "lib/local/bundle.h"

enum { BLOCK = 512, PIECE = 256 << 10, NAME_SIZE = 100, INDEX_MAX = 16 << 20 };

/* A header of tar, as POSIX.1-1988 has it. Numbers are octal texts. */
struct header {
	char name[NAME_SIZE], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[NAME_SIZE];
	char magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], padding[12];
};

struct bundle_file {
	char *key;
	int fd; /* -1: none was found */
};

/* Returns the key of a request in the index, which the caller frees. It lacks the index of the request: that may depend
 * on the output. */
static char *key_of(const struct decoder_event *q)
{
	char *key;

	return asprintf(&key, "%s %s %s", q->build_id ? q->build_id : "", q->debug ? q->debug : "", q->path) < 0 ? NULL
														 : key;
}

void bundle_keep(struct bundle_files *files, const struct decoder_event *q, int fd)
{
	_cleanup_free_ char *key = key_of(q);
	struct bundle_file *f = NULL;
	int copy = -1;

	if (fd >= 0)
		copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (!key || (fd >= 0 && copy < 0)) {
		files->error = key ? -errno : -ENOMEM;
		return;
	}
	for (size_t i = 0; i < files->n && !f; i++)
		if (strcmp(files->list[i].key, key) == 0)
			f = &files->list[i];
	if (!f && array_reserve(files->list, files->n, &files->capacity) < 0) {
		files->error = -ENOMEM;
		closep(&copy);
		return;
	}
	if (!f) {
		f = &files->list[files->n++];
		*f = (struct bundle_file){ TAKE_PTR(key), -1 };
	}
	closep(&f->fd);
	f->fd = copy;
}

void bundle_files_done(struct bundle_files *files)
{
	for (size_t i = 0; i < files->n; i++) {
		free(files->list[i].key);
		closep(&files->list[i].fd);
	}
	free(files->list);
}

/* Adds a header, with no time, user or mode of this machine. */
static int add_header(int fd, const char *name, uint64_t size)
{
	struct header h = { .mode = "0000644",
			    .uid = "0000000",
			    .gid = "0000000",
			    .mtime = "00000000000",
			    .type = '0',
			    .magic = "ustar",
			    .version = { '0', '0' } };
	unsigned sum = 0;

	static_assert(sizeof(h) == BLOCK, "a header is a block");
	if (strlen(name) >= NAME_SIZE || size >> 33)
		return -EFBIG;
	strcpy(h.name, name);
	snprintf(h.size, sizeof(h.size), "%011llo", (unsigned long long)size);
	memset(h.sum, ' ', sizeof(h.sum));
	for (size_t i = 0; i < sizeof(h); i++)
		sum += ((const unsigned char *)&h)[i];
	snprintf(h.sum, sizeof(h.sum), "%06o", sum);
	return io_write(fd, &h, sizeof(h));
}

static int add_padding(int fd, uint64_t size)
{
	static const char zeros[2 * BLOCK];

	return io_write(fd, zeros, (size_t)(-size % BLOCK));
}

static int add_text(int fd, const char *name, const char *text)
{
	int rc = add_header(fd, name, strlen(text));

	if (rc == 0)
		rc = io_write(fd, text, strlen(text));
	return rc < 0 ? rc : add_padding(fd, strlen(text));
}

/* Copies size bytes from a position on. -EBADMSG: the file is shorter. */
static int copy_bytes(int from, uint64_t at, uint64_t size, int to)
{
	_cleanup_free_ char *data = malloc(PIECE);

	if (!data)
		return -ENOMEM;
	while (size) {
		ssize_t n = io_pread(from, data, (size_t)MIN(size, (uint64_t)PIECE), at);
		int rc = n < 0 ? (int)n : n == 0 ? -EBADMSG : io_write(to, data, (size_t)n);

		if (rc < 0)
			return rc;
		at += (uint64_t)n;
		size -= (uint64_t)n;
	}
	return 0;
}

static int add_part(int fd, const char *name, int from, uint64_t at, uint64_t size)
{
	int rc = add_header(fd, name, size);

	if (rc == 0)
		rc = copy_bytes(from, at, size, fd);
	return rc < 0 ? rc : add_padding(fd, size);
}

static int add_file(int fd, const char *name, int from)
{
	struct stat st;
	int rc;

	if (from < 0)
		return 0;
	if (fstat(from, &st) < 0)
		return -errno;
	rc = add_part(fd, name, from, 0, (uint64_t)st.st_size);
	return rc == -EBADMSG ? -ESTALE : rc;
}

/* Adds the code that the snapshot captured. */
static int add_code(int fd, int directory)
{
	_cleanup_closedir_ DIR *dir = NULL;
	int at = directory < 0 ? -1 : openat(directory, "code", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	const struct dirent *e;
	int rc = 0;

	if (at < 0)
		return 0;
	dir = fdopendir(at);
	if (!dir) {
		close(at);
		return -ENOMEM;
	}
	while (rc == 0 && (e = readdir(dir))) {
		_cleanup_close_ int file = openat(at, e->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		char name[NAME_MAX + 8];
		struct stat st;

		if (file < 0 || fstat(file, &st) < 0 || !S_ISREG(st.st_mode))
			continue;
		snprintf(name, sizeof(name), "code/%s", e->d_name);
		rc = add_file(fd, name, file);
	}
	return rc;
}

/* Names come from another machine: a file of the bundle's directory, or of one below it. */
static bool is_name(const char *name)
{
	const char *slash = strchr(name, '/');

	if (slash && strncmp(name, "code/", 5) != 0 && strncmp(name, "files/", 6) != 0)
		return false;
	return name[0] != '.' && name[0] && !(slash && (strchr(slash + 1, '/') || slash[1] == '.' || !slash[1]));
}

/* Reads the header at a position. Returns 1; 0 at the end. -EBADMSG. */
static int read_header(int fd, uint64_t at, char name[NAME_SIZE + 1], uint64_t *ret_size)
{
	struct header h;
	char size[sizeof(h.size) + 1] = "";
	char *end;

	if (io_pread(fd, &h, sizeof(h), at) != sizeof(h))
		return -EBADMSG;
	if (!h.name[0])
		return 0;
	memcpy(name, h.name, NAME_SIZE);
	name[NAME_SIZE] = 0;
	memcpy(size, h.size, sizeof(h.size));
	*ret_size = strtoull(size, &end, 8);
	return memcmp(h.magic, "ustar", 6) != 0 || h.type != '0' || !is_name(name) || (*end && *end != ' ') ? -EBADMSG
													    : 1;
}

static uint64_t next_header(uint64_t at, uint64_t size)
{
	return at + BLOCK + (size + BLOCK - 1) / BLOCK * BLOCK;
}

/* Adds the code that the snapshot of another bundle captured. */
static int add_bundled_code(int fd, int bundle)
{
	char name[NAME_SIZE + 1];
	uint64_t size;
	int rc;

	for (uint64_t at = 0; (rc = read_header(bundle, at, name, &size)) > 0; at = next_header(at, size)) {
		if (strncmp(name, "code/", 5) == 0)
			rc = add_part(fd, name, bundle, at + BLOCK, size);
		if (rc < 0)
			break;
	}
	return rc;
}

static char *index_text(const struct bundle_parts *p)
{
	_cleanup_json_ json_object *o = json_object_new_object();
	json_object *files = json_object_new_array();
	char name[32];

	json_add_u64(o, "version", 1);
	json_add_bool(o, "redacted", p->trace < 0);
	for (size_t i = 0; p->files && i < p->files->n; i++) {
		json_object *file = json_object_new_object();

		snprintf(name, sizeof(name), "files/%zu", i);
		json_add_bytes(file, "request", p->files->list[i].key);
		if (p->files->list[i].fd >= 0)
			json_add_str(file, "file", name);
		json_array_add(files, file);
	}
	json_add(o, "files", files);
	return json_text(o, JSON_PRETTY);
}

int bundle_write(int fd, const struct bundle_parts *p)
{
	static const char end[2 * BLOCK];
	_cleanup_free_ char *index = index_text(p);
	int rc = !index ? -ENOMEM : p->files ? p->files->error : 0;
	char name[32];

	if (rc == 0)
		rc = add_text(fd, BUNDLE_INDEX, index);
	if (rc == 0 && p->snapshot)
		rc = add_text(fd, "snapshot.json", p->snapshot);
	if (rc == 0)
		rc = add_file(fd, "trace.perf.data", p->trace);
	if (rc == 0)
		rc = add_file(fd, "store", p->store);
	if (rc == 0)
		rc = p->bundle < 0 ? add_code(fd, p->directory) : add_bundled_code(fd, p->bundle);
	for (size_t i = 0; rc == 0 && p->files && i < p->files->n; i++) {
		snprintf(name, sizeof(name), "files/%zu", i);
		rc = add_file(fd, name, p->files->list[i].fd);
	}
	if (rc == 0)
		rc = add_file(fd, "core", p->core);
	return rc < 0 ? rc : io_write(fd, end, sizeof(end));
}

bool bundle_is(int fd)
{
	char name[sizeof(BUNDLE_INDEX)];

	return io_pread(fd, name, sizeof(name), 0) == sizeof(name) && memcmp(name, BUNDLE_INDEX, sizeof(name)) == 0;
}

int bundle_open(int fd, const char *wanted)
{
	_cleanup_close_ int to = -1;
	char name[NAME_SIZE + 1];
	uint64_t found = 0, found_size = 0, size;
	int rc;

	for (uint64_t at = 0; (rc = read_header(fd, at, name, &size)) > 0; at = next_header(at, size)) {
		if (strcmp(name, wanted) != 0)
			continue;
		if (found)
			return -EBADMSG;
		found = at + BLOCK;
		found_size = size;
	}
	if (rc < 0 || !found)
		return rc < 0 ? rc : -ENOENT;
	to = io_temporary();
	rc = to < 0 ? to : copy_bytes(fd, found, found_size, to);
	if (rc == 0 && lseek(to, 0, SEEK_SET) < 0)
		rc = -errno;
	return rc < 0 ? rc : TAKE_FD(to);
}

int bundle_find(json_object *index, int fd, const struct decoder_event *q)
{
	_cleanup_free_ char *key = key_of(q);
	json_object *files;

	if (!key || q->attempt || json_get(index, "files", json_type_array, &files) < 0)
		return key ? -ENOENT : -ENOMEM;
	for (size_t i = 0; i < json_array_size(files); i++) {
		json_object *o = json_object_array_get_idx(files, i);
		const char *request, *file;

		if (!json_object_is_type(o, json_type_object) || json_get_str(o, "request", &request) < 0 ||
		    strcmp(request, key) != 0 || json_get_str(o, "file", &file) < 0)
			continue;
		return bundle_open(fd, file);
	}
	return -ENOENT;
}
