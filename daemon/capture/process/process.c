#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/capture/process/code-history.h"
#include "daemon/capture/process/jitdump.h"
#include "daemon/capture/process/process.h"
#include "daemon/capture/process/process-internal.h"
#include "lib/base/array.h"
#include "lib/base/util.h"

enum {
	IMAGES_MAX = 1024, /* limit of the log's reader */
	PATHS_MAX = 256,   /* names of memory */
	NAMES_MAX = 8 << 10,
	LOG_MAX = 160 << 20,
	WATCH_SHARE = 20, /* scans take at most one part in this many of the time */
};

static const char anonymous[] = "//anon", unknown[] = "//unknown";

static uint64_t clock_ns(void)
{
	return now_ns(CLOCK_MONOTONIC);
}

int process_new(pid_t pid, int pidfd, bool data, uint64_t now_ns, struct process **ret)
{
	struct process *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return -ENOMEM;
	p->proc.dir = -1;
	rc = proc_dir_open(pid, pidfd, &p->proc);
	if (rc == 0)
		rc = code_history_new(data, &p->history);
	if (rc == 0)
		rc = process_scan_now(p, now_ns);
	if (rc < 0) {
		process_free(p);
		return rc;
	}
	*ret = p;
	return 0;
}

struct process *process_free(struct process *p)
{
	if (!p)
		return NULL;
	for (size_t i = 0; i < p->n_images; i++) {
		closep(&p->images[i].fd);
		free(p->images[i].path);
	}
	for (size_t i = 0; i < p->n_paths; i++)
		free(p->paths[i]);
	free(p->images);
	free(p->paths);
	free(p->names);
	jitdump_free(p->jit);
	code_history_free(p->history);
	proc_dir_done(&p->proc);
	free(p);
	return NULL;
}

struct process_image *process_find_image(struct process *p, uint32_t id)
{
	for (size_t i = p->n_images; i-- > 0;)
		if (p->images[i].id == id)
			return &p->images[i];
	return NULL;
}

/* Drops the oldest image that no record names. Returns false if there is none. */
static bool drop_image(struct process *p)
{
	for (size_t i = 0; i < p->n_images; i++)
		if (code_history_image_time(p->history, p->images[i].id) == UINT64_MAX) {
			closep(&p->images[i].fd);
			free(p->images[i].path);
			p->n_images--;
			memmove(&p->images[i], &p->images[i + 1], (p->n_images - i) * sizeof(*p->images));
			return true;
		}
	return false;
}

static bool same_image(const struct process_image *i, const struct process_map *m)
{
	if (strcmp(i->path, m->path) != 0)
		return false;
	/* Inode numbers are reused; /proc does not show the generation. */
	if (m->inode)
		return i->inode == m->inode && i->major == m->major && i->minor == m->minor &&
		       (!i->generation || !m->generation || i->generation == m->generation);
	return m->build_id_size && i->build_id_size == m->build_id_size &&
	       memcmp(i->build_id, m->build_id, m->build_id_size) == 0;
}

static uint32_t find_image(struct process *p, const struct process_map *m)
{
	struct process_image i = { .fd = -1,
				   .inode = m->inode,
				   .generation = m->generation,
				   .major = m->major,
				   .minor = m->minor,
				   .build_id_size = MIN(m->build_id_size, (uint8_t)EMU_BUILD_ID_MAX) };

	for (size_t n = p->n_images; n-- > 0;)
		if (same_image(&p->images[n], m))
			return p->images[n].id;
	if (p->n_images >= IMAGES_MAX && !drop_image(p)) {
		p->crowded = true;
		return CODE_NO_IMAGE;
	}
	if (array_reserve(p->images, p->n_images, &p->room_images) < 0)
		return CODE_NO_IMAGE;
	i.path = strdup(m->path);
	if (!i.path)
		return CODE_NO_IMAGE;
	memcpy(i.build_id, m->build_id, i.build_id_size);
	i.id = ++p->last_image;
	p->images[p->n_images++] = i;
	return i.id;
}

/* Returns the name of a memory; equal names have equal pointers. */
static const char *memory_path(struct process *p, const char *path)
{
	if (path[0] != '[')
		return anonymous;
	for (size_t i = 0; i < p->n_paths; i++)
		if (strcmp(p->paths[i], path) == 0)
			return p->paths[i];
	if (p->n_paths >= PATHS_MAX || array_reserve(p->paths, p->n_paths, &p->room_paths) < 0)
		return anonymous;
	p->paths[p->n_paths] = strdup(path);
	return p->paths[p->n_paths] ? p->paths[p->n_paths++] : anonymous;
}

static bool is_file(const struct process_map *m)
{
	static const char huge[] = "/anon_hugepage";

	/* Shared memory may be written through another mapping at any time, as some JIT compilers do. */
	return m->path[0] == '/' && m->path[1] != '/' && (m->inode || m->build_id_size) && !(m->flags & MAP_SHARED) &&
	       strncmp(m->path, huge, strlen(huge)) != 0;
}

/* When the history is full, its older half is replaced by the state at its end. */
static void add_record(struct process *p, const struct code_record *r)
{
	int rc = code_history_record(p->history, r);

	if (rc == -ENOSPC) {
		p->cut = MAX(p->cut, code_history_middle(p->history));
		rc = code_history_forget(p->history, p->cut);
		if (rc == 0)
			rc = code_history_record(p->history, r);
	}
	if (rc < 0)
		p->crowded = true;
}

void process_add(struct process *p, const struct process_map *m, enum process_source how)
{
	struct code_record r = { .time = m->time,
				 .start = m->addr,
				 .end = m->addr + m->len,
				 .offset = m->offset,
				 .image = CODE_NO_IMAGE,
				 .found = how != PROCESS_RECORDED,
				 .instead = how == PROCESS_FOUND_OTHER };

	if (m->addr >> 63 || m->len > INT64_MAX - m->addr)
		return;
	if (!(m->prot & PROT_EXEC)) {
		r.kind = CODE_NONE;
	} else if (is_file(m) && (r.image = find_image(p, m)) != CODE_NO_IMAGE) {
		r.kind = CODE_FILE;
		r.writable = m->prot & PROT_WRITE;
	} else {
		r.kind = CODE_MEMORY;
		r.writable = m->prot & PROT_WRITE || m->flags & MAP_SHARED || is_file(m);
		r.path = memory_path(p, m->path);
	}
	p->pending |= r.kind != CODE_NONE;
	add_record(p, &r);
}

void process_map(struct process *p, const struct process_map *m)
{
	process_add(p, m, PROCESS_RECORDED);
}

void process_exec(struct process *p, uint64_t time)
{
	struct code_record r = { .time = time, .end = INT64_MAX, .kind = CODE_EXECED, .image = CODE_NO_IMAGE };

	/* The jitdump described the previous program. */
	p->jit = jitdump_free(p->jit);
	code_history_set_described(p->history, false);
	p->pending = true;
	add_record(p, &r);
}

void process_lost(struct process *p, uint64_t since_ns, uint64_t now_ns)
{
	struct code_record r = { .time = since_ns + 1, .end = INT64_MAX, .kind = CODE_LOST, .image = CODE_NO_IMAGE };

	p->pending = true;
	p->lost = true;
	add_record(p, &r);
	/* Later records may have been lost, too, up to now. */
	r.time = MAX(now_ns, r.time + 1) - 1;
	add_record(p, &r);
}

void process_name(struct process *p, uint64_t time, uint32_t tid, const char *name, bool exec)
{
	struct process_comm n = { .time = time, .tid = tid };

	if (exec)
		process_exec(p, time);
	if (p->n_names >= NAMES_MAX || array_reserve(p->names, p->n_names, &p->room_names) < 0)
		return;
	memcpy(n.name, name, strnlen(name, sizeof(n.name)));
	p->names[p->n_names++] = n;
}

void process_set_shift(struct process *p, int64_t shift_ns)
{
	p->shift = shift_ns;
	p->shift_known = true;
}

bool process_scan(struct process *p, uint64_t now_ns)
{
	return process_scan_now(p, now_ns) > 0;
}

bool process_watch(struct process *p, uint64_t now_ns)
{
	uint64_t begun = clock_ns();
	bool read;

	if (begun < p->rest_until) {
		/* Earlier observations are confirmed in any case. */
		if (now_ns > p->scan_ns)
			code_history_confirm(p->history, now_ns);
		return false;
	}
	read = process_scan(p, now_ns);
	p->rest_until = clock_ns() + WATCH_SHARE * (clock_ns() - begun);
	return read;
}

/* Drops old names of threads that have ended, and all but the last old name of live threads. */
static void forget_names(struct process *p, uint64_t before)
{
	size_t kept = 0;

	for (size_t i = 0; i < p->n_names; i++) {
		bool old = p->names[i].time < before, later = false;
		char task[32];

		for (size_t k = i + 1; old && !later && k < p->n_names; k++)
			later = p->names[k].tid == p->names[i].tid && p->names[k].time < before;
		snprintf(task, sizeof(task), "task/%u", p->names[i].tid);
		if (!old || (!later && faccessat(p->proc.dir, task, F_OK, 0) == 0))
			p->names[kept++] = p->names[i];
	}
	p->n_names = kept;
}

void process_forget(struct process *p, uint64_t before_ns)
{
	if (code_history_forget(p->history, before_ns) < 0)
		process_lost(p, 0, before_ns);
	if (p->jit)
		jitdump_forget(p->jit, before_ns);
	forget_names(p, before_ns);
	if (p->cut <= before_ns)
		p->cut = 0;
	p->full = p->crowded = p->lost = false;
	for (size_t i = 0; i < p->n_images; i++)
		if (code_history_image_time(p->history, p->images[i].id) == UINT64_MAX) {
			/* Open the file again if it is mapped again. */
			closep(&p->images[i].fd);
			p->images[i].tried = p->images[i].handed = false;
		}
}

uint64_t process_memory(const struct process *p)
{
	return sizeof(*p) + code_history_memory(p->history) + (p->jit ? jitdump_memory(p->jit) : 0) +
	       p->n_images * sizeof(*p->images) + p->n_names * sizeof(*p->names);
}

/* A mapping in the log. image: NULL unless it is of a file. */
struct log_map {
	uint64_t time, start, end, offset;
	uint32_t prot;
	const char *path;
	const struct process_image *image;
};

static void log_map(struct buf *log, const struct log_map *l)
{
	const struct process_image *image = l->image;
	size_t path_size = strlen(l->path) + 1;
	struct emu_record_map m = {
		.head = { EMU_REC_MAP, (uint32_t)ALIGN8(sizeof(m) + path_size), l->time },
		.addr = l->start,
		.len = l->end - l->start,
		.prot = l->prot,
	};

	if (image) {
		m.offset = l->offset;
		m.file = image->handed ? image->id : 0;
		m.major = image->major;
		m.minor = image->minor;
		m.inode = image->inode;
		m.build_id_size = image->build_id_size;
		memcpy(m.build_id, image->build_id, sizeof(m.build_id));
	}
	buf_add(log, &m, sizeof(m));
	buf_add(log, l->path, path_size);
	buf_zero(log, m.head.size - sizeof(m) - path_size);
}

static void log_unknown(struct buf *log, uint64_t time, uint64_t start, uint64_t end)
{
	log_map(log, &(struct log_map){ time, start, end, 0, PROT_READ | PROT_EXEC, unknown, NULL });
}

static void log_code(struct buf *log, uint64_t time, uint64_t start, uint64_t size, const uint8_t *bytes)
{
	struct emu_record_code c = { .head = { EMU_REC_CODE, (uint32_t)ALIGN8(sizeof(c) + size), time },
				     .addr = start,
				     .len = size };

	/* Code beyond the limit becomes unknown code. */
	if (log->size > LOG_MAX) {
		log_unknown(log, time, start, start + size);
		return;
	}
	buf_add(log, &c, sizeof(c));
	buf_add(log, bytes, size);
	buf_zero(log, ALIGN8(size) - size);
}

static void log_change(struct process *p, struct buf *log, const struct code_change *c)
{
	struct log_map m = { c->time, c->start, c->end, 0, PROT_READ | PROT_EXEC, anonymous, NULL };

	switch (c->kind) {
	case CHANGE_FILE:
		m.image = process_find_image(p, c->image);
		m.path = m.image ? m.image->path : unknown;
		m.offset = c->offset;
		log_map(log, &m);
		break;
	case CHANGE_MEMORY:
		m.path = c->path ? c->path : anonymous;
		log_map(log, &m);
		break;
	case CHANGE_NONE:
		m.prot = 0;
		log_map(log, &m);
		break;
	case CHANGE_UNKNOWN:
		log_unknown(log, c->time, c->start, c->end);
		break;
	case CHANGE_CODE:
		log_code(log, c->time, c->start, c->end - c->start, c->bytes);
	}
}

/* Marks what changed before the cut as unknown: the changes since then do not describe it. */
static void log_cut(const struct process *p, struct buf *log, const struct code_change *changes, size_t n)
{
	for (size_t i = 0; i < n && p->cut && changes[i].time <= p->cut; i++)
		log_unknown(log, 0, changes[i].start, changes[i].end);
}

/* The unreadable rest of a broken jitdump may have described new code at any of these addresses. */
static void log_broken_jitdump(struct buf *log, const struct jitdump_piece *pieces, size_t n)
{
	for (size_t i = 0; i < n; i++)
		log_unknown(log, pieces[n - 1].time + 1, pieces[i].start, pieces[i].start + pieces[i].size);
}

static int write_log(struct process *p, struct buf *log)
{
	_cleanup_free_ struct code_change *changes = NULL;
	const struct jitdump_piece *pieces = NULL;
	size_t n_changes, n_pieces = 0, piece = 0;
	int rc = code_history_changes(p->history, &changes, &n_changes);

	if (rc < 0)
		return rc;
	if (p->jit)
		pieces = jitdump_pieces(p->jit, &n_pieces);
	log_cut(p, log, changes, n_changes);
	for (size_t i = 0; i <= n_changes; i++) {
		for (; piece < n_pieces && (i == n_changes || pieces[piece].time < changes[i].time); piece++)
			log_code(log, pieces[piece].time, pieces[piece].start, pieces[piece].size, pieces[piece].bytes);
		if (i < n_changes)
			log_change(p, log, &changes[i]);
	}
	if (p->jit_broken)
		log_broken_jitdump(log, pieces, n_pieces);
	for (size_t i = 0; i < p->n_names; i++) {
		struct emu_record_comm c = { .head = { EMU_REC_COMM, sizeof(c), p->names[i].time },
					     .tid = p->names[i].tid };

		memcpy(c.name, p->names[i].name, sizeof(c.name));
		buf_add(log, &c, sizeof(c));
	}
	return buf_error(log);
}

static void add_missing(struct buf *b, const char *text)
{
	buf_add(b, text, strlen(text) + 1);
}

static int report_missing(struct process *p, struct buf *b)
{
	_cleanup_free_ struct code_span *list = NULL;
	uint64_t open = 0, first = 0;
	size_t n;
	int rc = code_history_spans(p->history, &list, &n);

	for (size_t i = 0; rc == 0 && i < n; i++)
		if (list[i].kind == CODE_MEMORY && list[i].writable && !p->jit) {
			first = open ? first : list[i].start;
			open += list[i].end - list[i].start;
		}
	if (open) {
		buf_printf(b,
			   "%llu KiB of code, the first at 0x%llx, can be written while it runs and is unknown (a "
			   "jitdump of the program would describe it)",
			   (unsigned long long)open >> 10, (unsigned long long)first);
		buf_u8(b, 0);
	}
	if (p->closed)
		add_missing(b, "the process passed to another owner: its later code was not read");
	if (p->leaderless)
		add_missing(b, "its first thread has ended: later mappings are unknown");
	if (p->unread) {
		buf_printf(b, "the memory of the process cannot be read: %s%s", strerror(-p->unread),
			   p->unread == -EACCES || p->unread == -EPERM
			       ? " (CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH are required)"
			       : "");
		buf_u8(b, 0);
	}
	if (p->full)
		add_missing(b, "there was more code in memory than the limit");
	if (p->cut)
		add_missing(b, "mappings changed too often: the first of them are unknown");
	if (p->crowded)
		add_missing(b, "there were more mappings or mapped files than the limit");
	if (p->lost)
		add_missing(b, "records of mappings were lost: mappings of that time are unknown");
	if (p->jit_broken)
		add_missing(b,
			    "the program's jitdump is cut, garbled or too large: code it describes later is unknown");
	for (size_t i = 0; i < p->n_images; i++)
		if (p->images[i].why && code_history_image_time(p->history, p->images[i].id) != UINT64_MAX) {
			buf_printf(b, "%s: %s", p->images[i].path, p->images[i].why);
			buf_u8(b, 0);
		}
	return rc;
}

int process_write_log(struct process *p, struct buf *ret_log, struct buf *missing, struct capture_file **ret_files,
		      size_t *ret_n_files)
{
	struct capture_file *files = calloc(p->n_images + 1, sizeof(*files));
	size_t n = 0;
	int rc;

	if (!files)
		return -ENOMEM;
	for (size_t i = 0; i < p->n_images; i++)
		if ((p->images[i].fd >= 0 || p->images[i].handed) &&
		    code_history_image_time(p->history, p->images[i].id) != UINT64_MAX) {
			files[n++] = (struct capture_file){ p->images[i].id, TAKE_FD(p->images[i].fd) };
			p->images[i].handed = true;
		}
	rc = write_log(p, ret_log);
	if (rc == 0)
		rc = report_missing(p, missing);
	/* The caller owns the descriptors even after an error: the next log will name these files. */
	*ret_files = files;
	*ret_n_files = n;
	return rc;
}
