/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/code/a64.h"
#include "lib/code/inlines-private.h"

enum { NESTING_MAX = 512, ORIGINS_MAX = 8, SPANS_MAX = 8 << 20 };

struct inlines *inlines_free(struct inlines *s)
{
	if (!s)
		return NULL;
	for (size_t i = 0; s->read && i < s->dwarf.n_units; i++) {
		free(s->read[i].flat.items);
		free(s->read[i].nodes);
		free(s->read[i].entries);
	}
	free(s->read);
	free(s->units.items);
	dwarf_done(&s->dwarf);
	elf_free(s->elf);
	elf_free(s->debug_elf);
	if (s->deferred) {
		closep(&s->fd);
		closep(&s->debug);
	}
	pthread_mutex_destroy(&s->lock);
	free(s);
	return NULL;
}

static int compare_spans(const void *a, const void *b)
{
	const struct inline_span *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->depth != y->depth)
		return x->depth < y->depth ? -1 : 1;
	return (x->of > y->of) - (x->of < y->of);
}

static void put_span(struct spans *to, const struct inline_span *from, uint64_t start, uint64_t end)
{
	if (start < end)
		to->items[to->n++] = (struct inline_span){ start, end, from->of, from->depth };
}

/*
 * Cuts overlapping spans so that each address is in one: of those that contain it, the one that starts last, which is
 * the deepest one if they nest. A span contributes one piece, and one more for each other span that ends within it.
 */
static int flatten_spans(struct buf *from, struct spans *ret)
{
	struct inline_span *in = (struct inline_span *)from->data;
	size_t n = from->size / sizeof(*in), depth = 0;
	_cleanup_free_ uint32_t *stack = malloc((n + 1) * sizeof(*stack));
	struct spans flat = { malloc((2 * n + 1) * sizeof(*flat.items)) };
	uint64_t at = 0;

	if (!stack || !flat.items) {
		free(flat.items);
		return -ENOMEM;
	}
	if (n)
		qsort(in, n, sizeof(*in), compare_spans);
	for (size_t i = 0; i <= n; i++) {
		uint64_t start = i < n ? in[i].start : UINT64_MAX;

		while (depth) {
			const struct inline_span *top = &in[stack[depth - 1]];
			uint64_t end = MIN(top->end, start);

			put_span(&flat, top, at, end);
			at = MAX(at, end);
			if (top->end > start)
				break;
			depth--;
		}
		at = start;
		if (i < n)
			stack[depth++] = (uint32_t)i;
	}
	*ret = flat;
	return 0;
}

size_t inlines_span_after(const struct spans *s, uint64_t address)
{
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->items[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

uint32_t inlines_node_at(const struct unit *u, uint64_t address)
{
	size_t after = inlines_span_after(&u->flat, address);

	return after && address < u->flat.items[after - 1].end ? u->flat.items[after - 1].of : NODE_NONE;
}

uint32_t inlines_function_of(const struct unit *u, uint32_t node)
{
	while (node != NODE_NONE && u->nodes[node].parent != NODE_NONE)
		node = u->nodes[node].parent;
	return node;
}

bool inlines_instruction(const struct inlines *s, uint64_t address, uint32_t *ret)
{
	for (size_t i = 0; i < s->n_code; i++) {
		struct reader r = s->code[i].bytes;
		uint64_t at = address - s->code[i].address;

		if (at < rd_left(&r) && rd_skip(&r, (size_t)at) == 0 && rd_u32(&r, ret) == 0)
			return true;
	}
	return false;
}

bool inlines_ends_block(uint32_t op)
{
	uint64_t target;
	bool link;
	enum a64_kind kind = a64_classify(op, 0, &link, &target);

	return !link && (kind == A64_BRANCH || kind == A64_CONDITIONAL || kind == A64_INDIRECT);
}

/* Returns the span of an address, or NULL. Narrows *ret_start and *ret_end to the interval of this result. */
static const struct inline_span *find_span(const struct spans *s, uint64_t address, uint64_t *ret_start,
					   uint64_t *ret_end)
{
	const struct inline_span *found = NULL;
	size_t after = inlines_span_after(s, address);
	uint64_t start = 0, end = UINT64_MAX;

	if (after && address < s->items[after - 1].end) {
		found = &s->items[after - 1];
		start = found->start;
		end = found->end;
	} else {
		start = after ? s->items[after - 1].end : 0;
		end = after < s->n ? s->items[after].start : UINT64_MAX;
	}
	*ret_start = MAX(*ret_start, start);
	*ret_end = MIN(*ret_end, end);
	return found;
}

struct adding {
	struct inlines *inlines;
	struct buf *to;
	uint32_t of, depth;
	bool any, scattered;  /* several ranges with code between them */
	uint64_t first, last; /* start of the first range, end of the last one */
};

/* Ignores address 0, where linkers put the ranges of discarded sections. */
static int add_span(void *user, uint64_t start, uint64_t end)
{
	struct adding *a = user;
	struct inline_span span = { start, end, a->of, a->depth };

	if (!start || start >= end)
		return 0;
	if (a->inlines->n_spans++ == SPANS_MAX)
		return -EFBIG;
	a->scattered = a->scattered || (a->any && start != a->last);
	a->first = a->any ? a->first : start;
	a->last = end;
	a->any = true;
	buf_add(a->to, &span, sizeof(span));
	return buf_error(a->to);
}

/* Sets the parts of a node's declaration that are still unknown. */
static void set_declaration(struct node *node, struct dwarf_unit *u, const struct dwarf_entry *e)
{
	/* Number 0 is the unit's own file since DWARF 5. */
	if (!node->decl_unit && e->has_decl_file && (e->decl_file || u->version >= 5)) {
		node->decl_unit = u;
		node->decl_file = e->decl_file;
	}
	node->decl_line = node->decl_line ? node->decl_line : e->decl_line;
	node->decl_column = node->decl_column ? node->decl_column : e->decl_column;
}

/* Sets a node's name and declaration, which may be in the entry of its abstract origin or specification. */
static void name_node(struct dwarf *d, struct dwarf_unit *u, const struct dwarf_entry *entry, struct node *node)
{
	const char *plain = NULL, *linkage = NULL;
	struct dwarf_entry e = *entry;

	for (int i = 0; i < ORIGINS_MAX; i++) {
		struct reader r;

		linkage = linkage ? linkage : dwarf_string(d, u, &e.linkage_name);
		plain = plain ? plain : dwarf_string(d, u, &e.name);
		set_declaration(node, u, &e);
		if (e.origin.class != VALUE_REFERENCE)
			break;
		u = dwarf_unit_of(d, e.origin.number);
		if (!u || dwarf_entries(d, u, e.origin.number, &r) < 0 || dwarf_entry(d, u, &r, &e) < 0 || !e.tag)
			break;
	}
	node->name = linkage && *linkage ? linkage : plain && *plain ? plain : NULL;
}

/* gcc inlines a function in part, and calls the rest from the line of its declaration; that may be inlined as well. */
static bool is_part(const struct node *node, const struct node *parent)
{
	return node->name && parent->name && strcmp(node->name, parent->name) == 0 &&
	       node->decl_line == parent->decl_line && node->decl_column == parent->decl_column &&
	       node->call_line == node->decl_line;
}

/* Sets where the code of a node begins and where it is entered (DWARF 5, 2.18). */
static void set_entry(struct dwarf *d, struct dwarf_unit *u, const struct dwarf_entry *e, const struct adding *added,
		      struct node *node)
{
	node->start = added->first;
	node->scattered = added->scattered;
	node->has_entry = dwarf_address(d, u, &e->entry_pc, &node->entry);
	if (e->entry_pc.class == VALUE_NUMBER) {
		node->has_entry = true;
		node->entry = node->start + e->entry_pc.number;
	}
}

/* State of parsing a unit. */
struct reading {
	struct inlines *inlines;
	struct dwarf_unit *unit;
	struct buf spans, nodes;
	uint32_t parents[NESTING_MAX + 1]; /* by nesting level: the node that contains the entry */
	uint32_t depths[NESTING_MAX + 1];  /* and the depth of that node */
};

static void reading_done(struct reading *r)
{
	buf_done(&r->spans);
	buf_done(&r->nodes);
}

/* Adds a node for an entry if it has code, and sets the node and depth that its children are in. */
static int add_node(struct reading *r, const struct dwarf_entry *e, uint32_t level)
{
	struct dwarf *d = &r->inlines->dwarf;
	struct node node = { .parent = NODE_NONE };
	struct adding add = { .inlines = r->inlines, .to = &r->spans, .of = (uint32_t)(r->nodes.size / sizeof(node)) };
	struct node *added;
	int rc;

	r->parents[level + 1] = r->parents[level];
	r->depths[level + 1] = r->depths[level];
	if (e->tag != TAG_SUBPROGRAM && e->tag != TAG_INLINED_SUBROUTINE)
		return 0;
	if (e->tag == TAG_INLINED_SUBROUTINE) {
		node.parent = r->parents[level];
		node.call_file = e->call_file;
		node.call_line = e->call_line;
		node.origin = e->origin.class == VALUE_REFERENCE ? e->origin.number : 0;
	}
	/* A subprogram without code is an abstract instance: its children have no code, either. */
	r->parents[level + 1] = NODE_NONE;
	if (e->tag == TAG_INLINED_SUBROUTINE && node.parent == NODE_NONE)
		return 0;
	/* Add the node before its spans, so that no span is without a node if memory runs out. */
	buf_add(&r->nodes, &node, sizeof(node));
	if (buf_error(&r->nodes))
		return buf_error(&r->nodes);
	add.depth = r->depths[level] + 1;
	rc = dwarf_ranges(d, r->unit, e, add_span, &add);
	if (!add.any) {
		r->nodes.size -= sizeof(node);
		return rc == -EBADMSG ? 0 : rc;
	}
	added = (struct node *)(r->nodes.data + r->nodes.size) - 1;
	name_node(d, r->unit, e, added);
	set_entry(d, r->unit, e, &add, added);
	added->part = added->parent != NODE_NONE && is_part(added, (struct node *)r->nodes.data + added->parent);
	r->parents[level + 1] = add.of;
	r->depths[level + 1] = add.depth;
	return rc == -EBADMSG ? 0 : rc;
}

static int read_entries(struct reading *read)
{
	struct dwarf *d = &read->inlines->dwarf;
	uint32_t level = 0;
	struct reader r;
	int rc = dwarf_entries(d, read->unit, read->unit->entries, &r);

	read->parents[0] = NODE_NONE;
	while (rc == 0 && rd_left(&r)) {
		struct dwarf_entry e;

		rc = dwarf_entry(d, read->unit, &r, &e);
		if (rc < 0)
			break;
		if (!e.tag) {
			if (level <= 1)
				break;
			level--;
			continue;
		}
		rc = add_node(read, &e, level);
		if (!e.children)
			continue;
		if (level + 1 == NESTING_MAX)
			return -EBADMSG;
		level++;
	}
	return rc;
}

/* Parses a unit. If its DWARF is damaged, the entries before the damage are kept. */
static int read_unit(struct inlines *s, uint32_t number)
{
	_cleanup_(reading_done) struct reading read = { .inlines = s, .unit = &s->dwarf.units[number] };
	struct unit *u = &s->read[number];
	int rc = read_entries(&read);

	if (rc == -ENOMEM)
		return rc;
	rc = flatten_spans(&read.spans, &u->flat);
	if (rc < 0)
		return rc;
	u->n_nodes = read.nodes.size / sizeof(*u->nodes);
	u->nodes = (struct node *)TAKE_PTR(read.nodes.data);
	return inline_entries_find(s, number);
}

static int find_units(struct inlines *s)
{
	_cleanup_buf_ struct buf spans = { 0 };
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < s->dwarf.n_units; i++) {
		struct dwarf_unit *u = &s->dwarf.units[i];
		struct adding add = { .inlines = s, .to = &spans, .of = (uint32_t)i };
		struct dwarf_entry e;
		struct reader r;

		if (dwarf_entries(&s->dwarf, u, u->entries, &r) < 0 || dwarf_entry(&s->dwarf, u, &r, &e) < 0)
			continue;
		rc = dwarf_ranges(&s->dwarf, u, &e, add_span, &add);
		rc = rc == -EBADMSG ? 0 : rc;
	}
	return rc < 0 ? rc : flatten_spans(&spans, &s->units);
}

/* Reads the instructions of the file, as far as they are A64. A file without them has fewer results. */
static void load_code(struct inlines *s)
{
	const struct elf_segment *segments;
	size_t n;

	segments = elf_segments(s->elf, &n);
	if (elf_identity(s->elf)->machine != ELF_MACHINE_AARCH64)
		return;
	for (size_t i = 0; i < n && s->n_code < CODE_SEGMENTS_MAX; i++) {
		struct code_bytes *c = &s->code[s->n_code];

		c->address = segments[i].address;
		if (segments[i].type == ELF_SEGMENT_LOAD && segments[i].code && segments[i].size &&
		    elf_bytes(s->elf, segments[i].offset, segments[i].size, &c->bytes) == 0)
			s->n_code++;
	}
}

static int load_files(struct inlines *s, int fd, int debug)
{
	int rc = elf_open(fd, &s->elf);

	if (rc < 0)
		return rc;
	rc = dwarf_open(s->elf, &s->dwarf);
	if (rc == -ENODATA && debug >= 0) {
		rc = elf_open(debug, &s->debug_elf);
		if (rc == 0)
			rc = dwarf_open(s->debug_elf, &s->dwarf);
	}
	if (rc < 0)
		return rc;
	load_code(s);
	s->read = calloc(s->dwarf.n_units, sizeof(*s->read));
	return s->read ? find_units(s) : -ENOMEM;
}

static struct inlines *inlines_new(void)
{
	struct inlines *s = calloc(1, sizeof(*s));

	if (s)
		pthread_mutex_init(&s->lock, NULL);
	return s;
}

int inlines_load(int fd, int debug, struct inlines **ret)
{
	_cleanup_(inlines_freep) struct inlines *s = inlines_new();
	int rc = s ? load_files(s, fd, debug) : -ENOMEM;

	if (rc < 0)
		return rc;
	*ret = TAKE_PTR(s);
	return 0;
}

int inlines_open_lazily(int fd, int debug, struct inlines **ret)
{
	_cleanup_(inlines_freep) struct inlines *s = inlines_new();

	if (!s)
		return -ENOMEM;
	s->deferred = true;
	s->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	s->debug = debug < 0 || s->fd < 0 ? -1 : fcntl(debug, F_DUPFD_CLOEXEC, 3);
	if (s->fd < 0 || (debug >= 0 && s->debug < 0))
		return -errno;
	*ret = TAKE_PTR(s);
	return 0;
}

static void load_deferred(struct inlines *s)
{
	int rc = load_files(s, s->fd, s->debug);

	if (rc < 0)
		s->units.n = 0;
	if (rc < 0 && rc != -ENODATA && s->elf)
		s->error = rc;
	s->deferred = false;
	closep(&s->fd);
	closep(&s->debug);
}

int inlines_error(const struct inlines *s)
{
	return s->error;
}

/* Sets the frames of a node and of those around it. */
static void set_frames(struct inlines *s, uint32_t unit, uint32_t at, struct inlines_at *ret)
{
	const struct node *nodes = s->read[unit].nodes;
	size_t n = 0, i;

	for (uint32_t k = at; k != NODE_NONE; k = nodes[k].parent)
		n++;
	/* The loops end, since a parent has a smaller number than its child. */
	i = n;
	ret->n = MIN(n, (size_t)INLINES_MAX);
	for (uint32_t k = at; k != NODE_NONE; k = nodes[k].parent) {
		const struct node *node = &nodes[k];
		struct inlines_frame *f;

		if (--i >= INLINES_MAX)
			continue;
		f = &ret->frames[i];
		*f = (struct inlines_frame){ .instance = (uint64_t)unit << 32 | k, .name = node->name };
		f->origin = node->origin ? node->origin : ~f->instance;
		f->uncertain = node->uncertain;
		if (node->decl_unit) {
			f->file = dwarf_file(&s->dwarf, node->decl_unit, node->decl_file);
			f->line = (uint32_t)node->decl_line;
		}
		if (node->parent == NODE_NONE)
			continue;
		f->call_file = dwarf_file(&s->dwarf, &s->dwarf.units[unit], node->call_file);
		f->call_line = (uint32_t)node->call_line;
	}
}

/* Returns the segment of code that contains an offset; NULL: none. */
static const struct elf_segment *find_segment(const struct inlines *s, uint64_t offset)
{
	const struct elf_segment *segments;
	size_t n = 0;

	segments = s->elf ? elf_segments(s->elf, &n) : NULL;
	for (size_t i = 0; i < n; i++) {
		const struct elf_segment *p = &segments[i];

		if (p->type == ELF_SEGMENT_LOAD && p->code && offset >= p->offset && offset - p->offset < p->size)
			return p;
	}
	return NULL;
}

/* Looks up an offset. Returns its unit, or NODE_NONE; *ret_node: the innermost node there, or NODE_NONE. */
static uint32_t find_locked(struct inlines *s, uint64_t offset, struct inlines_at *ret, uint32_t *ret_node,
			    size_t *ret_entry)
{
	const struct elf_segment *segment = find_segment(s, offset);
	const struct inline_span *span;
	uint64_t bias, start, end;
	uint32_t unit;

	ret->start = offset;
	ret->end = offset + 1;
	ret->n = ret->n_entries = 0;
	*ret_node = NODE_NONE;
	if (!segment || segment->size < 2)
		return NODE_NONE;
	bias = segment->address - segment->offset;
	start = segment->address;
	end = segment->address + segment->size;
	if (end < start)
		return NODE_NONE;
	span = find_span(&s->units, offset + bias, &start, &end);
	unit = span ? span->of : NODE_NONE;
	if (span && !s->read[unit].read) {
		s->read[unit].read = true;
		read_unit(s, unit);
	}
	if (span) {
		span = find_span(&s->read[unit].flat, offset + bias, &start, &end);
		*ret_node = span ? span->of : NODE_NONE;
		ret->n_entries = inline_entries_at(&s->read[unit], offset + bias, &start, &end, ret_entry);
	}
	ret->start = start - bias;
	ret->end = end - bias;
	return unit;
}

void inlines_find(struct inlines *s, uint64_t offset, struct inlines_at *ret)
{
	uint32_t unit, node;
	size_t entry;

	pthread_mutex_lock(&s->lock);
	if (s->deferred)
		load_deferred(s);
	unit = find_locked(s, offset, ret, &node, &entry);
	if (node != NODE_NONE)
		set_frames(s, unit, node, ret);
	pthread_mutex_unlock(&s->lock);
}

void inlines_entry(struct inlines *s, uint64_t offset, size_t number, struct inlines_at *ret)
{
	uint32_t unit, node;
	size_t entry;

	pthread_mutex_lock(&s->lock);
	unit = find_locked(s, offset, ret, &node, &entry);
	if (number < ret->n_entries)
		set_frames(s, unit, s->read[unit].entries[entry + number].node, ret);
	pthread_mutex_unlock(&s->lock);
}

bool inlines_line(struct inlines *s, uint64_t offset, const char **ret_file, uint32_t *ret_line)
{
	const struct elf_segment *segment;
	const struct inline_span *span;
	bool found = false;

	pthread_mutex_lock(&s->lock);
	if (s->deferred)
		load_deferred(s);
	segment = find_segment(s, offset);
	if (segment) {
		uint64_t address = offset - segment->offset + segment->address;

		span = find_span(&s->units, address, &(uint64_t){ 0 }, &(uint64_t){ UINT64_MAX });
		found = span && dwarf_line(&s->dwarf, &s->dwarf.units[span->of], address, ret_file, ret_line) == 0;
	}
	pthread_mutex_unlock(&s->lock);
	return found;
}
