/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "daemon/capture/process/process-internal.h"
#include "lib/base/array.h"
#include "lib/base/util.h"

enum {
	BYTES_MAX = 64 << 20,   /* limit for stored code of memory */
	SCANNED_MAX = 16 << 10, /* intervals in one scan */
	PAGES_MAX = 4 << 20,    /* pages examined in one scan */
	CHUNK_PAGES = 16 << 10,
};

static const uint64_t idle_ns = 1000 * 1000 * 1000; /* interval between scans without new mappings */
static const uint64_t file_step_ns = 20 * 1000 * 1000;

/* Bytes that were read, until the scan is known to be valid. */
struct scanned {
	enum code_observation kind;
	uint64_t start, end;
	uint8_t *bytes;
};

struct scan_state {
	struct process_code *process;
	struct proc_maps maps;
	int memory;
	struct scanned *list;
	size_t n, room;
	uint64_t now, pages, bytes;
};

static void scan_state_done(struct scan_state *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->list[i].bytes);
	free(l->list);
	proc_maps_done(&l->maps);
	closep(&l->memory);
}

static bool add_scanned(struct scan_state *l, enum code_observation kind, uint64_t start, uint64_t end, uint8_t *bytes)
{
	if (array_reserve(l->list, l->n, &l->room) < 0) {
		free(bytes);
		return false;
	}
	l->list[l->n++] = (struct scanned){ kind, start, end, bytes };
	return true;
}

static struct process_map map_part(const struct proc_map *m, uint64_t start, uint64_t end, uint64_t now)
{
	return (struct process_map){ .time = now,
				     .addr = start,
				     .len = end - start,
				     .offset = m->offset + (start - m->start),
				     .prot = m->prot,
				     .flags = m->shared ? MAP_SHARED : MAP_PRIVATE,
				     .major = m->major,
				     .minor = m->minor,
				     .inode = m->inode,
				     .path = m->path };
}

/* True if a mapping agrees with a span within it. */
static bool map_agrees(struct process_code *p, const struct proc_map *m, const struct code_span *s)
{
	const struct process_image *i = s->kind == CODE_FILE ? process_find_image(p, s->image) : NULL;

	if (s->closed)
		return false;
	if (!i)
		return !m->inode || m->shared || s->writable;
	if (m->shared || m->offset - m->start != s->offset - s->start)
		return false;
	return i->inode ? i->inode == m->inode && i->major == m->major && i->minor == m->minor
			: strcmp(i->path, m->path) == 0;
}

/* Adds mappings that no record covers: moved ones, and those whose record has not been read yet. */
static void add_unrecorded(struct scan_state *l, const struct code_span *list, size_t n)
{
	size_t s = 0;

	for (size_t i = 0; i < l->maps.n; i++) {
		const struct proc_map *m = &l->maps.list[i];
		uint64_t at = m->start;

		while (s < n && list[s].end <= m->start)
			s++;
		for (size_t k = s; at < m->end; k++) {
			uint64_t next = k < n ? MIN(list[k].start, m->end) : m->end;
			struct process_map found;

			if (at < next) {
				found = map_part(m, at, next, l->now);
				process_add(l->process, &found, PROCESS_FOUND);
			}
			if (next == m->end)
				break;
			at = MAX(at, list[k].start);
			next = MIN(list[k].end, m->end);
			if (at < next && !map_agrees(l->process, m, &list[k])) {
				found = map_part(m, at, next, l->now);
				process_add(l->process, &found, PROCESS_FOUND_OTHER);
			}
			at = MAX(at, next);
		}
	}
}

/* Removes recorded mappings that no longer exist. */
static void remove_unmapped(struct scan_state *l, const struct code_span *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t at = list[i].start;

		while (at < list[i].end && !list[i].closed) {
			const struct proc_map *m = proc_maps_next(&l->maps, at);
			struct process_map gone = { .time = l->now, .addr = at, .path = "" };

			if (m && m->start <= at) {
				at = m->end;
				continue;
			}
			at = m ? MIN(m->start, list[i].end) : list[i].end;
			gone.len = at - gone.addr;
			process_add(l->process, &gone, PROCESS_FOUND_OTHER);
		}
	}
}

static const char *open_error_str(int rc)
{
	return rc == -EINVAL        ? "not a regular file"
	       : rc == -EMEDIUMTYPE ? "its file system is in user space and may not answer"
	       : rc == -ESTALE      ? "it is no longer mapped, and another or changed file has its name"
	       : rc == -ENOENT      ? "it is no longer mapped, and gone"
				    : strerror(-rc);
}

/* True if the owner may read this program, and gains no privileges by running it. */
static bool readable_by_owner(const struct file_identity *id, uid_t uid)
{
	return !(id->mode & (S_ISUID | S_ISGID)) && id->mode & (id->uid == uid ? S_IRUSR : S_IROTH);
}

/*
 * Opens an unmapped file by its name. If the file changed after it was mapped, it may be another file with the same
 * name, and even the same number; timestamps of file systems advance in steps.
 */
static int open_by_path(struct process_code *p, const struct process_image *i, uint64_t mapped, int *ret_fd)
{
	uint64_t then = now_ns(CLOCK_REALTIME) - (p->shift + now_ns(CLOCK_MONOTONIC) - mapped);
	struct file_identity id;
	int fd, rc = proc_dir_open_file(&p->proc, i->path, &fd, &id);

	if (rc < 0)
		return rc;
	/* The process has ended, so it is unknown whether its owner had changed before. */
	if (!proc_dir_alive(&p->proc) && !readable_by_owner(&id, p->proc.uid)) {
		closep(&fd);
		return -EACCES;
	}
	if (!i->inode || id.ctime + file_step_ns > then || id.inode != i->inode || id.major != i->major ||
	    id.minor != i->minor) {
		closep(&fd);
		return -ESTALE;
	}
	*ret_fd = fd;
	return 0;
}

/* True if this is the name of a jitdump, jit-PID.dump. */
static bool is_jitdump(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *end = strrchr(name, '.');

	return strncmp(name, "jit-", 4) == 0 && end && strncmp(end, ".dump", 5) == 0;
}

static void keep_jitdump(struct process_code *p, const struct process_image *i)
{
	if (p->jitdump.fd >= 0)
		return;
	p->jitdump = (struct capture_jitdump){ .fd = fcntl(i->fd, F_DUPFD_CLOEXEC, 0) };
	if (p->jitdump.fd >= 0)
		code_history_set_described(p->history, true);
}

static void note_opened(struct scan_state *l, struct process_image *i, int rc)
{
	i->tried = true;
	i->opened_ns = l->now;
	i->why = rc < 0 ? open_error_str(rc) : NULL;
	if (rc == 0 && is_jitdump(i->path))
		keep_jitdump(l->process, i);
}

/* Opens files that are no longer mapped but may still have their names. */
static void open_unmapped(struct scan_state *l)
{
	struct process_code *p = l->process;

	for (size_t k = 0; k < p->n_images; k++) {
		struct process_image *i = &p->images[k];
		uint64_t time = i->tried ? UINT64_MAX : code_history_image_time(p->history, i->id);

		if (time != UINT64_MAX)
			note_opened(l, i, open_by_path(p, i, time, &i->fd));
	}
}

/* Inode numbers are reused; not every file system reports the generation. */
static bool is_generation(const struct process_image *i)
{
	uint64_t is = 0;

	return !i->generation || ioctl(i->fd, FS_IOC_GETVERSION, &is) < 0 || (uint32_t)is == (uint32_t)i->generation;
}

static void open_images(struct scan_state *l, const struct code_span *list, size_t n)
{
	struct process_code *p = l->process;

	for (size_t k = 0; k < n; k++) {
		const struct proc_map *m = proc_maps_find(&l->maps, list[k].start);
		struct process_image *i = list[k].kind == CODE_FILE ? process_find_image(p, list[k].image) : NULL;
		int rc;

		if (!i || i->tried || !m || !map_agrees(p, m, &list[k]))
			continue;
		rc = proc_dir_open_map(&p->proc, m, &i->fd);
		/* The record of the file that is mapped now has not been read yet. */
		if (rc == 0 && !is_generation(i)) {
			closep(&i->fd);
			continue;
		}
		if (rc != -ENOENT)
			note_opened(l, i, rc);
	}
	open_unmapped(l);
}

static void read_bytes(struct scan_state *l, uint64_t start, uint64_t end)
{
	struct process_code *p = l->process;
	uint64_t size = end - start, at = 0;
	uint8_t *bytes;

	if (l->n >= SCANNED_MAX || code_history_bytes(p->history) + l->bytes + size > BYTES_MAX) {
		p->full = true;
		return;
	}
	bytes = malloc(size);
	while (bytes && at < size) {
		ssize_t got = pread(l->memory, bytes + at, size - at, (off_t)(start + at));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		at += (uint64_t)got;
	}
	if (!bytes || at < size) {
		free(bytes);
		return;
	}
	l->bytes += size;
	add_scanned(l, CODE_BYTES, start, end, bytes);
}

/* Reads the pages of a span, within one mapping, that differ from the file. */
static void scan_pages(struct scan_state *l, const struct code_span *s, const struct proc_map *m, uint64_t start,
		       uint64_t end)
{
	uint64_t page = proc_page_size(), n = (end - start) / page;
	_cleanup_free_ uint8_t *pages = malloc(n);
	/* The kernel may not list pages of the vDSO until they are used. */
	bool vdso = s->kind == CODE_MEMORY && strcmp(s->path, "[vdso]") == 0;
	const uint8_t wanted = vdso ? 0 : PROC_PAGE_PRESENT,
		      mask = wanted | (s->kind == CODE_FILE ? PROC_PAGE_FILE : 0);

	l->pages += n;
	if (!pages || proc_dir_read_pages(&l->process->proc, start, end, pages) < 0)
		return;
	/* A page of a private mapping that is no longer backed by the file was written. */
	if (s->kind == CODE_FILE && !(m->prot & PROT_WRITE))
		add_scanned(l, CODE_CLEAN, start, end, NULL);
	for (uint64_t i = 0; i < n; i++) {
		uint64_t first = i;

		while (i < n && (pages[i] & mask) == wanted)
			i++;
		if (i == first)
			continue;
		if (m->prot & PROT_WRITE)
			add_scanned(l, CODE_DIRTY, start + first * page, start + i * page, NULL);
		else
			read_bytes(l, start + first * page, start + i * page);
	}
}

static void scan_span(struct scan_state *l, const struct code_span *s)
{
	uint64_t chunk = CHUNK_PAGES * proc_page_size();

	if (s->known || s->closed || (s->kind == CODE_MEMORY && s->writable))
		return;
	for (uint64_t at = s->start; at < s->end;) {
		const struct proc_map *m = proc_maps_find(&l->maps, at);
		uint64_t end;

		if (!m)
			break;
		end = MIN(MIN(s->end, m->end), at + chunk);
		if (l->pages >= PAGES_MAX) {
			l->process->full = true;
			return;
		}
		if (!m->shared && s->writable == !!(m->prot & PROT_WRITE))
			scan_pages(l, s, m, at, end);
		at = end;
	}
}

/* True if the range that was read is still mapped, and not writable. */
static bool still_there(const struct proc_maps *maps, const struct scanned *t)
{
	for (uint64_t at = t->start; at < t->end;) {
		const struct proc_map *m = proc_maps_find(maps, at);

		if (!m || m->shared || (t->kind != CODE_DIRTY && m->prot & PROT_WRITE))
			return false;
		at = m->end;
	}
	return true;
}

/* Discards files that were opened by the scan at this time. */
static void discard_files(struct process_code *p, uint64_t since)
{
	for (size_t i = 0; i < p->n_images; i++)
		if (p->images[i].opened_ns == since && !p->images[i].handed) {
			closep(&p->images[i].fd);
			p->images[i].tried = false;
		}
}

/* The owner changed during the scan. */
static void stop_reading(struct process_code *p, uint64_t since)
{
	p->closed = true;
	discard_files(p, since);
	closep(&p->jitdump.fd);
	code_history_set_described(p->history, false);
}

static int count_scanned(struct scan_state *l)
{
	_cleanup_(proc_maps_done) struct proc_maps after = { 0 };
	struct process_code *p = l->process;
	int rc = l->n ? proc_maps_read(&p->proc, &after) : 0;

	if (rc == 0)
		rc = proc_dir_check_owner(&p->proc);
	if (rc == -EPERM) {
		stop_reading(p, l->now);
		return 0;
	}
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < l->n; i++)
		if (still_there(&after, &l->list[i]) &&
		    code_history_observe(p->history, l->list[i].kind, l->list[i].start, l->list[i].end, l->now,
					 TAKE_PTR(l->list[i].bytes)) < 0)
			p->full = true;
	return 0;
}

static int list_spans(struct scan_state *l, struct code_span **ret, size_t *ret_n)
{
	struct process_code *p = l->process;
	int rc = code_history_spans(p->history, ret, ret_n);

	if (rc != -E2BIG)
		return rc;
	process_start_over(p, l->now);
	return code_history_spans(p->history, ret, ret_n);
}

static int scan_all(struct scan_state *l)
{
	struct process_code *p = l->process;
	_cleanup_free_ struct code_span *list = NULL;
	size_t n;
	int rc = proc_maps_read(&p->proc, &l->maps);

	if (rc == 0)
		rc = list_spans(l, &list, &n);
	if (rc < 0)
		return rc;
	p->crowded |= l->maps.crowded;
	add_unrecorded(l, list, n);
	if (!l->maps.crowded)
		remove_unmapped(l, list, n);
	free(TAKE_PTR(list));
	rc = list_spans(l, &list, &n);
	if (rc == 0)
		open_images(l, list, n);
	l->memory = proc_dir_open_memory(&p->proc);
	p->unread = MIN(l->memory, 0);
	for (size_t i = 0; rc == 0 && l->memory >= 0 && i < n; i++)
		scan_span(l, &list[i]);
	return rc;
}

/*
 * The largest difference is the most accurate, since now is always a little late; the allowance covers drift of the
 * clocks.
 */
static void learn_shift(struct process_code *p, uint64_t now)
{
	int64_t shift = (int64_t)(now - now_ns(CLOCK_MONOTONIC)),
		old = p->shift - (int64_t)((now - p->shift_ns) / 16384);

	if (p->shift_known || (p->shift_ns && old > shift))
		return;
	p->shift = shift;
	p->shift_ns = now;
}

/* What is appended to the jitdump after a change of owner does not belong to the copy. */
static void measure_jitdump(struct process_code *p)
{
	struct stat st;

	if (p->jitdump.fd >= 0 && !p->closed && fstat(p->jitdump.fd, &st) == 0)
		p->jitdump.size = (uint64_t)st.st_size;
}

bool process_scan_needed(const struct process_code *p, uint64_t now)
{
	return !p->closed && (p->pending || !p->scan_ns || now >= p->scan_ns + idle_ns);
}

int process_scan_now(struct process_code *p, uint64_t now)
{
	_cleanup_(scan_state_done) struct scan_state l = { .process = p, .memory = -1, .now = now };
	uint64_t last = p->scan_ns;
	int rc;

	if (now > last)
		code_history_confirm(p->history, now);
	learn_shift(p, now);
	/* No kernel record announces new contents. */
	measure_jitdump(p);
	if (!process_scan_needed(p, now))
		return 0;
	rc = proc_dir_check_owner(&p->proc);
	p->closed = rc == -EPERM;
	if (p->closed)
		return 0;
	p->leaderless = rc == -EAGAIN;
	process_note_dropped(p, now);
	if (rc == 0)
		rc = scan_all(&l);
	if (rc == 0)
		rc = count_scanned(&l);
	if (rc == -EAGAIN)
		discard_files(p, now);
	if (rc == -ESRCH) {
		/* The owner during the scan is unknown. Files executed just before may still have their names. */
		discard_files(p, now);
		open_unmapped(&l);
	}
	if (rc < 0)
		return rc;
	/* This scan may have found a jitdump. */
	measure_jitdump(p);
	code_history_prune(p->history, last);
	p->scan_ns = now;
	p->pending = p->dropped_ns > 0;
	return l.n > 0;
}
