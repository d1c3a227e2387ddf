/* SPDX-License-Identifier: MIT */
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "lib/store/histogram.h"
#include "lib/store/reader.h"

enum { SECTIONS_MAX = 256 };

/* Bounds the memory that a forged table can request; real tables are far smaller. */
#define TABLE_MAX ((uint64_t)256 << 20)

int store_read_at(const struct store *s, uint64_t offset, void *ret, size_t size)
{
	uint8_t *to = ret;

	if (offset > s->size || size > s->size - offset)
		return -EBADMSG;
	while (size) {
		ssize_t n = pread(s->fd, to, size, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ESTALE;
		to += n;
		offset += (uint64_t)n;
		size -= (size_t)n;
	}
	return 0;
}

uint32_t store_checksum_more(uint32_t sum, const void *data, size_t size)
{
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
	return 0;
#else
	return size ? (uint32_t)crc32_z(sum, data, size) : sum;
#endif
}

int store_read_checked(const struct store *s, uint64_t offset, void *ret, size_t size, uint32_t checksum)
{
	int rc = store_read_at(s, offset, ret, size);

	return rc == 0 && store_checksum(ret, size) != checksum ? -EBADMSG : rc;
}

const struct store_layout *store_layout(uint32_t version)
{
	static const struct store_layout layouts[] = {
		{ .totals_size = 72, .segment_size = 32, .kind_bits = 3, .move_shift = MOVE_BITS },
		{ TOTALS_SIZE, SEGMENT_SIZE_LEAST, KIND_BITS, MOVE_SHIFT, .waits = true, .nested = true,
		  .resumed = true },
	};

	return version < STORE_OLDEST || version > STORE_VERSION ? NULL : &layouts[version - STORE_OLDEST];
}

int store_read_header(struct store *s, struct reader *ret_rest, uint8_t bytes[STORE_HEADER_SIZE])
{
	uint64_t magic = 0;
	uint32_t size = 0;
	struct stat st;
	int rc;

	if (fstat(s->fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	s->size = (uint64_t)st.st_size;
	rc = store_read_at(s, 0, bytes, STORE_HEADER_SIZE);
	if (rc < 0)
		return rc;
	*ret_rest = reader_of(bytes, STORE_HEADER_SIZE);
	rd_u64(ret_rest, &magic);
	rd_u32(ret_rest, &s->version);
	rd_u32(ret_rest, &size);
	if (magic != STORE_MAGIC)
		return -EBADMSG;
	s->layout = store_layout(s->version);
	return s->layout ? 0 : -EPROTONOSUPPORT;
}

int store_read_version(int fd, uint32_t *ret)
{
	struct store s = { .fd = fd };
	uint8_t bytes[STORE_HEADER_SIZE];
	struct reader rest;
	int rc = store_read_header(&s, &rest, bytes);

	if (rc < 0 && rc != -EPROTONOSUPPORT)
		return rc;
	*ret = s.version;
	return 0;
}

/* Reads the section table. bytes: the whole header; r: its fields after the header size. */
static int read_sections(struct store *s, const uint8_t *bytes, struct reader r)
{
	_cleanup_free_ uint8_t *entries = NULL;
	uint64_t size = 0, table = 0;
	uint32_t n = 0, checksum = 0, mine = 0;
	int rc;

	rd_u64(&r, &size);
	rd_u64(&r, &table);
	rd_u32(&r, &n);
	rd_u32(&r, &checksum);
	r = reader_of(bytes + STORE_HEADER_SIZE - sizeof(mine), sizeof(mine));
	rd_u32(&r, &mine);
	if (mine != store_checksum(bytes, STORE_HEADER_SIZE - sizeof(mine)) || size != s->size || n > SECTIONS_MAX)
		return -EBADMSG;
	entries = malloc((size_t)n * STORE_SECTION_SIZE + 1);
	if (!entries)
		return -ENOMEM;
	rc = store_read_checked(s, table, entries, (size_t)n * STORE_SECTION_SIZE, checksum);
	if (rc < 0)
		return rc;
	r = reader_of(entries, (size_t)n * STORE_SECTION_SIZE);
	while (rd_left(&r)) {
		struct stored_section section = { 0 };
		uint32_t type = 0, zero;

		rd_u32(&r, &type);
		rd_u32(&r, &section.record);
		rd_u64(&r, &section.offset);
		rd_u64(&r, &section.size);
		rd_u32(&r, &section.checksum);
		rd_u32(&r, &zero);
		if (section.offset > s->size || section.size > s->size - section.offset)
			return -EBADMSG;
		if (type < SECTION_TYPES)
			s->sections[type] = section;
	}
	return 0;
}

/* Reads a whole section and adds a NUL. */
static int read_section(const struct store *s, const struct stored_section *section, char **ret)
{
	_cleanup_free_ char *bytes = NULL;
	int rc;

	if (section->size > TABLE_MAX)
		return -EBADMSG;
	bytes = malloc(section->size + 1);
	if (!bytes)
		return -ENOMEM;
	rc = store_read_checked(s, section->offset, bytes, section->size, section->checksum);
	if (rc < 0)
		return rc;
	bytes[section->size] = 0;
	*ret = TAKE_PTR(bytes);
	return 0;
}

/* Returns the size of a section's records; records may be longer, by fields that this program does not know. */
static uint32_t record_size(const struct store *s, enum store_section_type type)
{
	static const uint32_t sizes[SECTION_TYPES] = {
		[SECTION_FUNCTIONS] = FUNCTION_SIZE, [SECTION_SITES] = SITE_SIZE,   [SECTION_THREADS] = THREAD_SIZE,
		[SECTION_GAPS] = GAP_SIZE,           [SECTION_BLOCKS] = BLOCK_SIZE, [SECTION_ROOTS] = ROOT_SIZE,
		[SECTION_NOTES] = NOTE_SIZE,
	};

	return type == SECTION_TOTALS     ? s->layout->totals_size
	       : type == SECTION_SEGMENTS ? s->layout->segment_size
					  : sizes[type];
}

/* Decodes all records of a section into a new array of items of item_size bytes, which the caller owns. */
static int read_records(struct store *s, enum store_section_type type, size_t item_size, void *ret_items, size_t *ret_n,
			int (*decode)(struct store *s, struct reader *r, void *item))
{
	const struct stored_section *section = &s->sections[type];
	_cleanup_free_ char *bytes = NULL;
	_cleanup_free_ char *items = NULL;
	uint64_t n;
	int rc;

	if (section->record < record_size(s, type) || section->size % section->record)
		return -EBADMSG;
	n = section->size / section->record;
	rc = read_section(s, section, &bytes);
	if (rc < 0)
		return rc;
	items = calloc(n + 1, item_size);
	if (!items)
		return -ENOMEM;
	for (uint64_t i = 0; rc == 0 && i < n; i++) {
		struct reader r = reader_of(bytes + i * section->record, section->record);

		rc = decode(s, &r, items + i * item_size);
	}
	if (rc < 0)
		return rc;
	memcpy(ret_items, &items, sizeof(items));
	items = NULL;
	*ret_n = n;
	return 0;
}

static int decode_string(const struct store *s, struct reader *r, const char **ret)
{
	uint32_t at = 0;

	if (rd_u32(r, &at) < 0 || at > s->strings_size)
		return -EBADMSG;
	*ret = s->strings + at;
	return 0;
}

static int decode_function(struct store *s, struct reader *r, void *item)
{
	struct store_function *f = item;
	uint32_t kind = 0;

	if (decode_string(s, r, &f->name) < 0 || decode_string(s, r, &f->image) < 0 || rd_u64(r, &f->address) < 0 ||
	    rd_u32(r, &kind) < 0 || rd_u32(r, &f->line) < 0 || decode_string(s, r, &f->file) < 0 ||
	    decode_string(s, r, &f->build_id) < 0 || rd_u64(r, &f->offset) < 0)
		return -EBADMSG;
	f->kind = kind;
	return 0;
}

static int decode_site(struct store *s, struct reader *r, void *item)
{
	struct store_site *site = item;

	if (rd_u32(r, &site->function) < 0 || decode_string(s, r, &site->file) < 0 || rd_u32(r, &site->line) < 0)
		return -EBADMSG;
	if (site->function >= s->n_functions)
		return -EBADMSG;
	/* Where pieces are calls, the number of calls is too high. */
	if (!s->layout->resumed)
		s->functions[site->function].calls_uncertain = true;
	return 0;
}

static int decode_totals(struct store *s, struct reader *r, void *item)
{
	struct store_function *f = item;
	uint32_t flags;

	if (rd_u64(r, &f->calls) < 0 || rd_u64(r, &f->total_ns) < 0 || rd_u64(r, &f->self_ns) < 0 ||
	    rd_u64(r, &f->total_instructions) < 0 || rd_u64(r, &f->self_instructions) < 0 ||
	    rd_u64(r, &f->longest_ns) < 0 || rd_u64(r, &f->longest_enter) < 0 || rd_u64(r, &f->shortest_ns) < 0 ||
	    rd_u32(r, &f->longest_thread) < 0 || rd_u32(r, &flags) < 0 ||
	    (s->layout->waits && rd_u64(r, &f->wait_ns) < 0))
		return -EBADMSG;
	f->calls_uncertain = flags & TOTALS_CALLS_UNCERTAIN;
	return 0;
}

/* Returns the longest duration of the `calls` shortest calls; r is at the classes of a function in TIMES. */
static uint64_t time_of(struct reader r, uint64_t classes, uint64_t calls)
{
	uint64_t class = 0, sum = 0, step = 0, n = 0;

	while (classes-- > 0 && sum < calls) {
		rd_varint(&r, &step);
		rd_varint(&r, &n);
		class += step;
		sum += n;
	}
	return histogram_time((unsigned)class);
}

static int decode_times(struct store_function *f, struct reader *r)
{
	uint64_t classes, class = 0, step, n;
	struct reader all;

	if (rd_varint(r, &classes) < 0 || classes > HISTOGRAM_CLASSES)
		return -EBADMSG;
	all = *r;
	for (uint64_t i = 0; i < classes; i++) {
		if (rd_varint(r, &step) < 0 || rd_varint(r, &n) < 0 || step >= HISTOGRAM_CLASSES - class ||
		    n > f->calls - f->whole)
			return -EBADMSG;
		class += step;
		f->whole += n;
	}
	if (!f->whole)
		return 0;
	f->median_ns = MIN(MAX(time_of(all, classes, f->whole - f->whole / 2), f->shortest_ns), f->longest_ns);
	f->p99_ns = MIN(MAX(time_of(all, classes, f->whole - f->whole / 100), f->median_ns), f->longest_ns);
	return 0;
}

static int read_times(struct store *s, const struct stored_section *section)
{
	_cleanup_free_ char *bytes = NULL;
	struct reader r;
	int rc = section->size ? read_section(s, section, &bytes) : 0;

	r = reader_of(bytes, section->size);
	for (size_t i = 0; section->size && rc == 0 && i < s->n_functions; i++)
		rc = decode_times(&s->functions[i], &r);
	return rc;
}

static int decode_thread(struct store *s, struct reader *r, void *item)
{
	struct stored_thread *t = item;
	struct store_thread *o = &t->shown;
	uint32_t zero;

	if (rd_u32(r, &o->tid) < 0 || decode_string(s, r, &o->name) < 0 || rd_u64(r, &o->first) < 0 ||
	    rd_u64(r, &o->last) < 0 || rd_u64(r, &o->events) < 0 || rd_u64(r, &o->slices) < 0 ||
	    rd_u64(r, &o->gaps) < 0 || rd_u64(r, &o->instructions) < 0 || rd_u64(r, &o->unexplained) < 0 ||
	    rd_u64(r, &o->bound) < 0 || rd_u32(r, &o->deepest) < 0 || rd_u32(r, &zero) < 0 ||
	    rd_u64(r, &t->first_block) < 0 || rd_u64(r, &t->n_blocks) < 0 || rd_u64(r, &t->first_segment) < 0 ||
	    rd_u64(r, &t->n_segments) < 0)
		return -EBADMSG;
	return 0;
}

static int decode_block(struct store *s, struct reader *r, void *item)
{
	struct stored_block *b = item;

	if (rd_u64(r, &b->offset) < 0 || rd_u32(r, &b->size) < 0 || rd_u32(r, &b->events) < 0 ||
	    rd_u64(r, &b->first) < 0 || rd_u64(r, &b->last) < 0 || rd_u64(r, &b->slices) < 0 ||
	    rd_u64(r, &b->bound) < 0 || rd_u64(r, &b->segments) < 0 || rd_u32(r, &b->roots) < 0 ||
	    rd_u32(r, &b->leaves_size) < 0 || rd_u32(r, &b->checksum) < 0 || rd_u32(r, &b->leaves_checksum) < 0)
		return -EBADMSG;
	return b->last < b->first || b->offset > s->size || (uint64_t)b->size + b->leaves_size > s->size - b->offset
		   ? -EBADMSG
		   : 0;
}

static int decode_segment(struct store *s, struct reader *r, void *item)
{
	struct stored_segment *g = item;

	if (rd_u64(r, &g->time) < 0 || rd_u64(r, &g->instructions) < 0 || rd_u64(r, &g->first_root) < 0 ||
	    rd_u32(r, &g->n_roots) < 0 || rd_u32(r, &g->uncertain) < 0 ||
	    (s->layout->waits && rd_u64(r, &g->waited) < 0))
		return -EBADMSG;
	rd_u32(r, &g->flags);
	return 0;
}

static int decode_root(struct store *s, struct reader *r, void *item)
{
	uint32_t *root = item;

	if (rd_u32(r, root) < 0)
		return -EBADMSG;
	return *root & ROOT_INLINED ? ((*root & ~ROOT_INLINED) >= s->n_sites ? -EBADMSG : 0)
				    : (*root >= s->n_functions ? -EBADMSG : 0);
}

struct gaps {
	uint32_t thread, kind;
	struct store_gaps shown;
};

static int decode_gaps(struct store *s, struct reader *r, void *item)
{
	struct gaps *g = item;

	if (rd_u32(r, &g->thread) < 0 || rd_u32(r, &g->kind) < 0 || rd_u64(r, &g->shown.n) < 0 ||
	    rd_u64(r, &g->shown.ns) < 0)
		return -EBADMSG;
	return g->thread >= s->n_threads || g->kind >= STORE_GAP_KINDS ? -EBADMSG : 0;
}

static int read_gaps(struct store *s)
{
	_cleanup_free_ struct gaps *list = NULL;
	size_t n = 0;
	int rc = read_records(s, SECTION_GAPS, sizeof(*list), &list, &n, decode_gaps);

	for (size_t i = 0; i < n; i++)
		s->threads[list[i].thread].shown.gaps_of[list[i].kind] = list[i].shown;
	return rc;
}

static bool within(uint64_t first, uint64_t n, uint64_t all)
{
	return first <= all && n <= all - first;
}

/* Checks references between tables: each thread has its blocks and segments, one thread after another. */
static int check_tables(const struct store *s)
{
	uint64_t block = 0, segment = 0;

	for (size_t i = 0; i < s->n_threads; i++) {
		const struct stored_thread *t = &s->threads[i];

		if (t->first_block != block || !within(block, t->n_blocks, s->n_blocks) ||
		    t->first_segment != segment || !within(segment, t->n_segments, s->n_segments) ||
		    t->shown.last < t->shown.first)
			return -EBADMSG;
		block += t->n_blocks;
		segment += t->n_segments;
		for (uint64_t b = t->first_block; b < t->first_block + t->n_blocks; b++) {
			if (s->blocks[b].segments > t->n_segments)
				return -EBADMSG;
			if (b > t->first_block && s->blocks[b].first < s->blocks[b - 1].last)
				return -EBADMSG;
		}
	}
	for (size_t i = 0; i < s->n_functions; i++) {
		if (s->functions[i].calls && s->functions[i].longest_thread >= s->n_threads)
			return -EBADMSG;
	}
	for (size_t i = 0; i < s->n_segments; i++) {
		if (!within(s->segments[i].first_root, s->segments[i].n_roots, s->n_roots) ||
		    s->segments[i].n_roots > STORE_DEPTH_MAX)
			return -EBADMSG;
	}
	return 0;
}

static int decode_note(struct store *s, struct reader *r, void *item)
{
	struct store_note *n = item;
	uint32_t kind, zero;
	uint64_t value;

	if (rd_u32(r, &n->tid) < 0 || decode_string(s, r, &n->label) < 0 || rd_u32(r, &kind) < 0 ||
	    rd_u32(r, &zero) < 0 || rd_u64(r, &n->time) < 0 || rd_u64(r, &n->until) < 0 || rd_u64(r, &value) < 0 ||
	    kind >= STORE_NOTE_KINDS || n->until < n->time)
		return -EBADMSG;
	n->value = (int64_t)value;
	n->kind = (enum store_note_kind)kind;
	return 0;
}

static int read_notes(struct store *s)
{
	if (!s->sections[SECTION_NOTES].size)
		return 0;
	return read_records(s, SECTION_NOTES, sizeof(*s->notes), &s->notes, &s->n_notes, decode_note);
}

static int read_functions(struct store *s)
{
	_cleanup_free_ struct store_function *totals = NULL;
	size_t n = 0;
	int rc =
	    read_records(s, SECTION_FUNCTIONS, sizeof(*s->functions), &s->functions, &s->n_functions, decode_function);

	if (rc == 0)
		rc = read_records(s, SECTION_TOTALS, sizeof(*totals), &totals, &n, decode_totals);
	if (rc < 0)
		return rc;
	if (n != s->n_functions)
		return -EBADMSG;
	for (size_t i = 0; i < n; i++) {
		struct store_function *f = &s->functions[i];

		totals[i].name = f->name;
		totals[i].image = f->image;
		totals[i].file = f->file;
		totals[i].line = f->line;
		totals[i].build_id = f->build_id;
		totals[i].offset = f->offset;
		totals[i].address = f->address;
		totals[i].kind = f->kind;
		*f = totals[i];
	}
	return 0;
}

static int read_tables(struct store *s, const uint8_t *header, struct reader rest)
{
	const struct stored_section *sections = s->sections;
	int rc = read_sections(s, header, rest);

	if (rc == 0)
		rc = read_section(s, &sections[SECTION_META], &s->meta);
	if (rc == 0)
		rc = read_section(s, &sections[SECTION_STRINGS], &s->strings);
	if (rc < 0)
		return rc;
	s->meta_size = sections[SECTION_META].size;
	s->strings_size = sections[SECTION_STRINGS].size;
	rc = read_functions(s);
	if (rc == 0)
		rc = read_records(s, SECTION_SITES, sizeof(*s->sites), &s->sites, &s->n_sites, decode_site);
	if (rc == 0)
		rc = read_records(s, SECTION_THREADS, sizeof(*s->threads), &s->threads, &s->n_threads, decode_thread);
	if (rc == 0)
		rc = read_gaps(s);
	if (rc == 0)
		rc = read_records(s, SECTION_BLOCKS, sizeof(*s->blocks), &s->blocks, &s->n_blocks, decode_block);
	if (rc == 0)
		rc = read_records(s, SECTION_SEGMENTS, sizeof(*s->segments), &s->segments, &s->n_segments,
				  decode_segment);
	if (rc == 0)
		rc = read_records(s, SECTION_ROOTS, sizeof(*s->roots), &s->roots, &s->n_roots, decode_root);
	if (rc == 0)
		rc = read_times(s, &sections[SECTION_TIMES]);
	if (rc == 0)
		rc = read_notes(s);
	return rc == 0 ? check_tables(s) : rc;
}

int store_open(int fd, struct store **ret)
{
	_cleanup_(store_closep) struct store *s = calloc(1, sizeof(*s));
	uint8_t header[STORE_HEADER_SIZE];
	struct reader rest;
	int rc;

	if (!s)
		return -ENOMEM;
	s->fd = fd;
	rc = store_read_header(s, &rest, header);
	if (rc < 0)
		return rc;
	rc = read_tables(s, header, rest);
	if (rc < 0)
		return rc == -EBADMSG ? -ENODATA : rc;
	*ret = TAKE_PTR(s);
	return 0;
}

struct store *store_close(struct store *s)
{
	if (!s)
		return NULL;
	free(s->meta);
	free(s->strings);
	free(s->functions);
	free(s->sites);
	free(s->threads);
	free(s->blocks);
	free(s->segments);
	free(s->roots);
	free(s->notes);
	free(s->merged);
	free(s);
	return NULL;
}

size_t store_threads(const struct store *s)
{
	return s->n_threads;
}

const struct store_thread *store_thread(const struct store *s, size_t index)
{
	return index < s->n_threads ? &s->threads[index].shown : NULL;
}

size_t store_notes(const struct store *s)
{
	return s->n_notes;
}

const struct store_note *store_note(const struct store *s, size_t index)
{
	return index < s->n_notes ? &s->notes[index] : NULL;
}

size_t store_functions(const struct store *s)
{
	return s->n_functions;
}

const struct store_function *store_function(const struct store *s, size_t index)
{
	return index < s->n_functions ? &s->functions[index] : NULL;
}

const struct store_site *store_site(const struct store *s, size_t index)
{
	return index < s->n_sites ? &s->sites[index] : NULL;
}

/* Returns the time of a thread that is known, in ns, less the share of unexplained jumps; *ret_all: all its time. */
static double known_time(const struct store_thread *t, double *ret_all)
{
	double all = (double)(t->last - t->first), known = all;

	for (size_t i = 0; i < STORE_GAP_KINDS; i++)
		known -= (double)t->gaps_of[i].ns;
	/* A thread whose events have all one time still has a weight. */
	*ret_all = all + 1;
	known = (known < 0 ? 0 : known) + (t->slices != 0);
	return known * (double)(t->slices + 1) / ((double)t->slices + 1 + (double)t->unexplained);
}

unsigned store_quality(const struct store *s, size_t thread)
{
	double known = 0, all = 0, of_all;

	for (size_t i = 0; i < s->n_threads; i++) {
		if (thread != SIZE_MAX && thread != i)
			continue;
		known += known_time(&s->threads[i].shown, &of_all);
		all += of_all;
	}
	return all > 0 ? (unsigned)(10000 * known / all) : 0;
}

/* Estimates how many slices begin at or after time, with those of a block spread evenly over its time. */
static uint64_t slices_since(const struct store *s, int64_t tid, uint64_t time)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < s->n_threads; i++) {
		const struct stored_thread *t = &s->threads[i];

		for (uint64_t k = 0; (tid < 0 || t->shown.tid == (uint64_t)tid) && k < t->n_blocks; k++) {
			const struct stored_block *b = &s->blocks[t->first_block + k];

			if (time <= b->first)
				sum += b->slices;
			else if (time <= b->last)
				sum +=
				    (uint64_t)((unsigned __int128)b->slices * (b->last - time) / (b->last - b->first));
		}
	}
	return sum;
}

uint64_t store_last_slices(const struct store *s, int64_t tid, uint64_t until, uint64_t slices)
{
	uint64_t low = UINT64_MAX, high = 0, after;

	for (size_t i = 0; i < s->n_threads; i++) {
		const struct store_thread *t = &s->threads[i].shown;

		if (!t->events || (tid >= 0 && t->tid != (uint64_t)tid))
			continue;
		low = MIN(low, t->first);
		high = MAX(high, t->last);
	}
	if (low > high)
		return 0;
	after = until < high ? slices_since(s, tid, until) : 0;
	if (slices_since(s, tid, low) - after <= slices)
		return low;
	while (low < high) {
		uint64_t middle = low + (high - low) / 2, n = slices_since(s, tid, middle);

		if (n <= after || n - after <= slices)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}
