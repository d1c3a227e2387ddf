/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "lib/base/util.h"
#include "lib/emu/buildid.h"
#include "lib/emu/files.h"

enum { PAGE = 4096, OPEN_FLAGS = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY };

static struct mapped_file *files;
static uint32_t n_files;

/* On overlay file systems the device and inode in maps differ from those of stat(): compare the contents then. */
static bool is_mapped(int fd, const struct files_mapping *m)
{
	uint8_t page[PAGE];
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	if (st.st_ino == m->inode && major(st.st_dev) == m->major && minor(st.st_dev) == m->minor)
		return true;
	return pread(fd, page, sizeof(page), (off_t)m->offset) == sizeof(page) &&
	       memcmp(page, (const void *)(uintptr_t)m->start, sizeof(page)) == 0;
}

/*
 * Opens the mapped file through map_files, which also finds a deleted file but needs a capability; else opens it by its
 * path.
 */
static int open_mapped(const struct files_mapping *m)
{
	char link[64];
	int fd;

	snprintf(link, sizeof(link), "/proc/self/map_files/%llx-%llx", (unsigned long long)m->start,
		 (unsigned long long)m->end);
	fd = open(link, OPEN_FLAGS);
	if (fd < 0)
		fd = open(m->path, OPEN_FLAGS);
	if (fd < 0)
		return -1;
	if (is_mapped(fd, m))
		return descriptor_move(fd);
	close(fd);
	return -1;
}

struct mapped_file *files_find(struct shared *s, const struct files_mapping *m)
{
	struct mapped_file *f;
	int fd;

	for (f = files; f; f = f->next)
		if (f->inode == m->inode && f->major == m->major && f->minor == m->minor &&
		    strcmp(f->path, m->path) == 0)
			return f;
	f = calloc(1, sizeof(*f));
	if (!f || !(f->path = strdup(m->path))) {
		free(f);
		return NULL;
	}
	f->inode = m->inode;
	f->major = m->major;
	f->minor = m->minor;
	fd = open_mapped(m);
	f->next = files;
	files = f;
	if (fd < 0)
		return f;
	f->descriptor = descriptor_keep(fd);
	f->id = ++n_files;
	f->build_id_size = buildid_read(fd, f->build_id);
	shared_send_file(s, f->id, fd);
	return f;
}

/* Returns the descriptor of a file, which is opened again if the program has closed it; or a negative errno. */
static int file_descriptor(struct mapped_file *f)
{
	struct descriptor again = f->descriptor;
	int fd = descriptor_fd(&f->descriptor);

	if (fd >= 0 || !f->id)
		return fd;
	again.fd = descriptor_move(open(f->path, OPEN_FLAGS));
	if (again.fd < 0)
		return again.fd;
	fd = descriptor_fd(&again);
	if (fd < 0)
		close(again.fd);
	else
		f->descriptor = again;
	return fd;
}

bool files_read(struct mapped_file *f, void *ret, size_t size, uint64_t offset)
{
	int fd = file_descriptor(f);

	return fd >= 0 && pread(fd, ret, size, (off_t)offset) == (ssize_t)size;
}

void files_send(struct shared *s)
{
	for (struct mapped_file *f = files; f; f = f->next) {
		int fd = file_descriptor(f);

		if (fd >= 0)
			shared_send_file(s, f->id, fd);
	}
}
