#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "lib/base/util.h"
#include "lib/emu/buildid.h"
#include "lib/emu/codelog.h"

enum { PAGE = 4096, WORDS = PAGE / 4, BUCKETS = 1024, FD_LEAST = 600 };

/* A line of /proc/self/maps, neighbours of the same file joined; addresses are the guest's. */
struct map {
	uint64_t start, end, offset, inode;
	unsigned major, minor;
	uint32_t prot;
	char path[EMU_PATH_SIZE];
};

struct file {
	struct file *next;
	uint32_t id;
	uint64_t inode;
	unsigned major, minor;
	int fd;
	uint8_t build_id_size, build_id[EMU_BUILD_ID_MAX];
};

/* A mapping that the log holds. */
struct known {
	struct known *next;
	uint64_t start, end, offset, inode;
	unsigned major, minor;
	struct file *file;
};

/* Words of code that the log holds besides the files'. */
struct page {
	struct page *next;
	uint64_t address;
	uint32_t words[WORDS];
	uint8_t valid[WORDS / 8];
};

struct codelog {
	struct shared *shared;
	struct known *known;
	struct file *files;
	struct page *pages[BUCKETS];
	uint32_t n_files;
	_Atomic bool stale;
};

_Atomic uint32_t codelog_records;

struct codelog *codelog_new(struct shared *s)
{
	struct codelog *c = calloc(1, sizeof(*c));

	if (c)
		c->shared = s;
	return c;
}

void codelog_stale(struct codelog *c)
{
	atomic_store(&c->stale, true);
}

/* Room for a record of size bytes, its head filled in; NULL where the log is full. append_done() makes it visible. */
static void *append(struct codelog *c, uint32_t type, uint64_t size)
{
	struct emu_header *h = c->shared->header;
	uint64_t head = atomic_load_explicit(&h->log_head, memory_order_relaxed);
	struct emu_record *r = (struct emu_record *)(c->shared->log + head);

	size = ALIGN8(size);
	if (size > h->log_size - head) {
		atomic_fetch_add(&h->log_lost, 1);
		return NULL;
	}
	memset(r, 0, size);
	*r = (struct emu_record){ type, (uint32_t)size, now_ns(CLOCK_MONOTONIC) };
	return r;
}

static void append_done(struct codelog *c, const struct emu_record *r)
{
	atomic_fetch_add_explicit(&c->shared->header->log_head, r->size, memory_order_release);
	atomic_fetch_add_explicit(&codelog_records, 1, memory_order_release);
}

void codelog_name(struct codelog *c, uint32_t tid, const char name[EMU_NAME_SIZE])
{
	struct emu_record_comm *r = append(c, EMU_REC_COMM, sizeof(*r));

	if (!r)
		return;
	r->tid = tid;
	memcpy(r->name, name, sizeof(r->name));
	atomic_fetch_add_explicit(&c->shared->header->log_head, r->head.size, memory_order_release);
}

static struct page **page_at(struct codelog *c, uint64_t address)
{
	struct page **p = &c->pages[address / PAGE % BUCKETS];

	while (*p && (*p)->address != (address & ~(uint64_t)(PAGE - 1)))
		p = &(*p)->next;
	return p;
}

static bool parse_line(const char *line, uint64_t base, struct map *ret)
{
	char prot[5];
	int path = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &ret->start, &ret->end, prot,
		   &ret->offset, &ret->major, &ret->minor, &ret->inode, &path) < 7)
		return false;
	ret->start -= base;
	ret->end -= base;
	ret->prot = (prot[0] == 'r' ? PROT_READ : 0) | (prot[1] == 'w' ? PROT_WRITE : 0) | PROT_EXEC;
	snprintf(ret->path, sizeof(ret->path), "%s", path ? line + path : "");
	ret->path[strcspn(ret->path, "\n")] = 0;
	return true;
}

/* The mapping of addr, joined with the lines before and after it that continue the same file or anonymous memory. */
static bool find_map(uint64_t addr, uint64_t base, struct map *ret)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/maps", "re");
	struct map now = { 0 }, run = { 0 };
	char line[EMU_PATH_SIZE + 128];
	bool found = false;

	while (f && fgets(line, sizeof(line), f)) {
		bool joins;

		if (!parse_line(line, base, &now))
			continue;
		joins = now.start == run.end && now.inode == run.inode && now.major == run.major &&
			now.minor == run.minor &&
			(now.inode ? now.offset == run.offset + (run.end - run.start) : strcmp(now.path, run.path) == 0);
		if (joins) {
			run.end = now.end;
		} else if (found) {
			break;
		} else {
			run = now;
		}
		found = found || (addr >= now.start && addr < now.end);
	}
	if (found)
		*ret = run;
	return found;
}

/* The file of a mapping, opened and handed over once; NULL where it is no longer the one that its path names. */
static struct file *file_of(struct codelog *c, const struct map *m)
{
	struct file *f;
	struct stat st;
	int fd;

	if (!m->inode || m->path[0] != '/')
		return NULL;
	for (f = c->files; f; f = f->next)
		if (f->inode == m->inode && f->major == m->major && f->minor == m->minor)
			return f;
	fd = open(m->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_ino != m->inode ||
	    major(st.st_dev) != m->major || minor(st.st_dev) != m->minor) {
		close(fd);
		return NULL;
	}
	f = calloc(1, sizeof(*f));
	if (!f) {
		close(fd);
		return NULL;
	}
	f->fd = fcntl(fd, F_DUPFD_CLOEXEC, FD_LEAST);
	close(fd);
	f->id = ++c->n_files;
	f->inode = m->inode;
	f->major = m->major;
	f->minor = m->minor;
	f->build_id_size = buildid_read(f->fd, f->build_id);
	f->next = c->files;
	c->files = f;
	shared_send_file(c->shared, f->id, f->fd);
	return f;
}

/* A mapping replaces what the log held of its addresses. */
static void forget(struct codelog *c, uint64_t start, uint64_t end)
{
	for (struct known **k = &c->known; *k;) {
		struct known *old = *k;

		if (old->start < end && start < old->end) {
			*k = old->next;
			free(old);
		} else {
			k = &old->next;
		}
	}
	for (unsigned i = 0; i < BUCKETS; i++)
		for (struct page **p = &c->pages[i]; *p;) {
			struct page *old = *p;

			if (old->address >= start && old->address < end) {
				*p = old->next;
				free(old);
			} else {
				p = &old->next;
			}
		}
}

static struct known *add_map(struct codelog *c, const struct map *m)
{
	const char *path = m->path[0] == '/' ? m->path : "//anon";
	struct known *k = calloc(1, sizeof(*k));
	struct emu_record_map *r;

	if (!k)
		return NULL;
	forget(c, m->start, m->end);
	k->start = m->start;
	k->end = m->end;
	k->offset = m->offset;
	k->inode = m->inode;
	k->major = m->major;
	k->minor = m->minor;
	k->file = file_of(c, m);
	k->next = c->known;
	c->known = k;
	r = append(c, EMU_REC_MAP, sizeof(*r) + strlen(path) + 1);
	if (r) {
		r->addr = m->start;
		r->len = m->end - m->start;
		r->offset = m->offset;
		r->prot = m->prot;
		r->file = k->file ? k->file->id : 0;
		r->major = m->major;
		r->minor = m->minor;
		r->inode = m->inode;
		if (k->file) {
			r->build_id_size = k->file->build_id_size;
			memcpy(r->build_id, k->file->build_id, sizeof(r->build_id));
		}
		strcpy((char *)(r + 1), path);
		append_done(c, &r->head);
	}
	return k;
}

static struct known *known_at(struct codelog *c, uint64_t addr)
{
	for (struct known *k = c->known; k; k = k->next)
		if (addr >= k->start && addr < k->end)
			return k;
	return NULL;
}

static bool same_source(const struct known *k, const struct map *m)
{
	return m->inode == k->inode && m->major == k->major && m->minor == k->minor &&
	       (!m->inode || m->offset - m->start == k->offset - k->start);
}

/*
 * What of a mapping around addr the log does not hold yet: a neighbour that it joined with, as anonymous memory does, may
 * hold code that was logged, and is not replaced.
 */
static void leave_known(const struct codelog *c, uint64_t addr, struct map *m)
{
	for (const struct known *k = c->known; k; k = k->next) {
		if (!same_source(k, m))
			continue;
		if (k->end <= addr && k->end > m->start) {
			m->offset += k->end - m->start;
			m->start = k->end;
		} else if (k->start > addr && k->start < m->end) {
			m->end = k->start;
		}
	}
}

/* The logged mapping of addr, after a look at what is mapped now where that may have changed. */
static struct known *mapping(struct codelog *c, uint64_t addr, uint64_t base)
{
	struct known *k = known_at(c, addr);
	struct map m;

	if (k && !atomic_load(&c->stale))
		return k;
	if (atomic_exchange(&c->stale, false)) {
		/* Every logged mapping is looked at: what was changed must not be taken for unchanged later. */
		for (struct known *old = c->known, *next; old; old = next) {
			next = old->next;
			if (!find_map(old->start, base, &m) || !same_source(old, &m) || m.end < old->end) {
				struct known **p = &c->known;

				while (*p != old)
					p = &(*p)->next;
				*p = old->next;
				/* Its words stay: what comes to lie there replaces them by a mapping of its own. */
				free(old);
			}
		}
		k = known_at(c, addr);
	}
	if (k || !find_map(addr, base, &m))
		return k;
	leave_known(c, addr, &m);
	return add_map(c, &m);
}

/* What the log would give back for a word. */
static bool logged_word(struct codelog *c, const struct known *k, uint64_t addr, uint32_t *ret)
{
	struct page *p = *page_at(c, addr);
	unsigned i = (unsigned)(addr % PAGE / 4);

	if (p && p->valid[i / 8] >> (i % 8) & 1) {
		*ret = p->words[i];
		return true;
	}
	return k && k->file && pread(k->file->fd, ret, 4, (off_t)(k->offset + (addr - k->start))) == 4;
}

static void hold_word(struct codelog *c, uint64_t addr, uint32_t word)
{
	struct page **p = page_at(c, addr);
	unsigned i = (unsigned)(addr % PAGE / 4);

	if (!*p) {
		*p = calloc(1, sizeof(**p));
		if (!*p)
			return;
		(*p)->address = addr & ~(uint64_t)(PAGE - 1);
	}
	(*p)->words[i] = word;
	(*p)->valid[i / 8] |= (uint8_t)(1 << (i % 8));
}

void codelog_check(struct codelog *c, uint64_t addr, const uint8_t *bytes, uint32_t len, uint64_t base)
{
	const struct known *k = mapping(c, addr, base);
	bool differs = false;
	struct emu_record_code *r;
	uint32_t word, have;

	for (uint32_t i = 0; i + 4 <= len; i += 4) {
		bool known = logged_word(c, k, addr + i, &have);

		memcpy(&word, bytes + i, 4);
		differs = differs || !known || have != word;
	}
	if (!differs)
		return;
	r = append(c, EMU_REC_CODE, sizeof(*r) + len);
	if (!r)
		return;
	r->addr = addr;
	r->len = len;
	memcpy(r + 1, bytes, len);
	append_done(c, &r->head);
	for (uint32_t i = 0; i + 4 <= len; i += 4) {
		memcpy(&word, bytes + i, 4);
		hold_word(c, addr + i, word);
	}
}

void codelog_moved(struct codelog *c, const struct shared *from)
{
	uint64_t head = atomic_load(&from->header->log_head);

	memcpy(c->shared->log, from->log, head);
	atomic_store(&c->shared->header->log_head, head);
	atomic_store(&c->shared->header->log_lost, atomic_load(&from->header->log_lost));
	for (struct file *f = c->files; f; f = f->next)
		shared_send_file(c->shared, f->id, f->fd);
}
