/* SPDX-License-Identifier: MIT */
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/base/util.h"
#include "lib/emu/codelog.h"
#include "lib/emu/maps.h"

enum { PAGE = 4096, WORDS = PAGE / 4, BUCKETS = 1024 };

/* The words of code records in a page. */
struct page {
	struct page *next;
	uint64_t address;
	uint32_t words[WORDS];
	uint8_t valid[WORDS / 8];
};

struct codelog {
	struct shared *shared;
	uint64_t (*time)(bool replaces);
	struct page *pages[BUCKETS];
};

_Atomic uint32_t codelog_records;

struct codelog *codelog_new(struct shared *s, uint64_t (*time)(bool replaces))
{
	struct codelog *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->shared = s;
	c->time = time;
	return c;
}

/* Begins a record of size bytes; returns NULL if the log is full. append_done() makes it visible to the daemon. */
static void *append(struct codelog *c, uint32_t type, uint64_t size, uint64_t time)
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
	*r = (struct emu_record){ type, (uint32_t)size, time };
	return r;
}

static void append_done(struct codelog *c, const struct emu_record *r)
{
	atomic_fetch_add_explicit(&c->shared->header->log_head, r->size, memory_order_release);
	atomic_fetch_add_explicit(&codelog_records, 1, memory_order_release);
}

void codelog_name(struct codelog *c, uint32_t tid, const char name[EMU_NAME_SIZE], uint64_t time)
{
	struct emu_record_comm *r = append(c, EMU_REC_COMM, sizeof(*r), time);

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

/* Drops the words of code records in a range whose contents were replaced. */
static void drop_pages(struct codelog *c, uint64_t start, uint64_t end)
{
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

static void placed(void *data, const struct maps_region *part, bool replaced, bool instead_of_file)
{
	struct codelog *c = data;
	const struct mapped_file *f = part->file;
	const char *path = f ? f->path : "//anon";
	struct emu_record_map *r;

	if (replaced)
		drop_pages(c, part->start, part->end);
	/* Anonymous memory needs a record only if it replaces a file: code records hold its code. */
	if (!f && !instead_of_file)
		return;
	r = append(c, EMU_REC_MAP, sizeof(*r) + strlen(path) + 1, c->time(replaced));
	if (!r)
		return;
	r->addr = part->start;
	r->len = part->end - part->start;
	r->offset = part->offset;
	/* QEMU maps code without the right to execute it. */
	r->prot = PROT_READ | PROT_EXEC;
	if (f) {
		r->file = f->id;
		r->major = f->major;
		r->minor = f->minor;
		r->inode = f->inode;
		r->build_id_size = f->build_id_size;
		memcpy(r->build_id, f->build_id, sizeof(r->build_id));
	}
	strcpy((char *)(r + 1), path);
	append_done(c, &r->head);
}

/* Finds the word at addr in code records; returns false if they have none. */
static bool logged_word(struct codelog *c, uint64_t addr, uint32_t *ret)
{
	const struct page *p = *page_at(c, addr);
	unsigned i = (unsigned)(addr % PAGE / 4);

	if (!p || !(p->valid[i / 8] >> (i % 8) & 1))
		return false;
	*ret = p->words[i];
	return true;
}

/* What a reader of the log would find instead of some bytes. */
enum logged { LOGGED_SAME, LOGGED_NOTHING, LOGGED_OTHER };

/* Compares bytes, which lie in one page, with those that a reader of the log would find. */
static enum logged log_compare(struct codelog *c, const struct maps_region *at, uint64_t addr, const uint8_t *bytes,
			       uint32_t len)
{
	uint32_t in_file[WORDS], word, have;
	enum logged found = LOGGED_SAME;
	bool file = at && at->file && addr + len <= at->end &&
		    files_read(at->file, in_file, len, at->offset + (addr - at->start));

	for (uint32_t i = 0; i + 4 <= len; i += 4) {
		memcpy(&word, bytes + i, 4);
		if (!logged_word(c, addr + i, &have)) {
			have = file ? in_file[i / 4] : ~word;
			if (!file && at && !at->file && !at->replaces) {
				found = LOGGED_NOTHING;
				continue;
			}
		}
		if (have != word)
			return LOGGED_OTHER;
	}
	return found;
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
	const struct maps_region *at = maps_find(c->shared, addr, base, placed, c);
	struct emu_record_code *r;
	enum logged logged = log_compare(c, at, addr, bytes, len);
	uint32_t word;

	if (logged == LOGGED_SAME)
		return;
	r = append(c, EMU_REC_CODE, sizeof(*r) + len, c->time(logged == LOGGED_OTHER));
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
	files_send(c->shared);
}
