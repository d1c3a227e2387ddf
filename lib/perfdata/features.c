/* SPDX-License-Identifier: MIT */
/* Feature sections, which follow the data section: the writer of the file, and the build-ids of mapped files. */
#include <stdlib.h>
#include <string.h>

#include "lib/perfdata/file.h"

enum { STRING_SIZE_MAX = 4096, BUILD_IDS_MAX = 64 << 20, NOTES_SIZE_MAX = 1 << 20, EVENT_DESC_MAX = 1 << 20 };

#define PERF_FREQUENCY_NAME "power:cpu_frequency" /* the kernel's tracepoint */

static bool has_feature(const struct pd_file *f, unsigned feature)
{
	return f->features[feature / 8] & 1 << feature % 8;
}

/* Finds the section of a feature. -ENODATA: the file has none. */
static int find_section(struct pd_file *f, unsigned feature, uint64_t *ret_offset, uint64_t *ret_size)
{
	uint64_t at = f->data_end;
	struct reader r;
	int rc;

	if (!has_feature(f, feature))
		return -ENODATA;
	for (unsigned i = 0; i < feature; i++)
		at += has_feature(f, i) ? 16 : 0;
	rc = pd_view(f, at, 16, &r);
	if (rc < 0)
		return rc;
	return rd_u64(&r, ret_offset) < 0 || rd_u64(&r, ret_size) < 0 ? -ENODATA : 0;
}

static int read_text(struct pd_file *f, unsigned feature, const char **ret)
{
	uint64_t offset, size;
	uint32_t length;
	struct reader r;
	int rc = find_section(f, feature, &offset, &size);

	if (rc == 0)
		rc = pd_view(f, offset, (size_t)MIN(size, (uint64_t)STRING_SIZE_MAX), &r);
	if (rc < 0)
		return rc == -ENODATA ? 0 : rc;
	if (rd_u32(&r, &length) == 0 && rd_sub(&r, length, &r) == 0)
		*ret = pd_keep_name(f, &r);
	return 0;
}

struct build_id {
	uint8_t id[PD_BUILD_ID_FIELD];
	uint8_t size;
	const char *path; /* the offset of its name until all are read */
};

static int compare_paths(const void *left, const void *right)
{
	const struct build_id *a = left, *b = right;

	return strcmp(a->path, b->path);
}

/* Reads one entry: a record header, a process ID, the build-id, and the path. */
static int read_build_id(struct pd_file *f, uint64_t *at, uint64_t end, struct build_id *ret)
{
	uint32_t type, pid;
	uint16_t misc, size;
	struct reader r, body;
	int rc = pd_view(f, *at, (size_t)MIN(end - *at, (uint64_t)UINT16_MAX), &r);

	if (rc < 0)
		return rc;
	if (rd_u32(&r, &type) < 0 || rd_u16(&r, &misc) < 0 || rd_u16(&r, &size) < 0 || size < 8 ||
	    rd_sub(&r, size - 8, &body) < 0 || rd_u32(&body, &pid) < 0 || rd_copy(&body, ret->id, sizeof(ret->id)) < 0)
		return -ENODATA;
	*at += size;
	ret->size = misc & PD_MISC_BUILD_ID_SIZE ? MIN(ret->id[PD_BUILD_ID_MAX], PD_BUILD_ID_MAX) : PD_BUILD_ID_MAX;
	/* An entry without a size pads a shorter build-id with zeros. */
	while (!(misc & PD_MISC_BUILD_ID_SIZE) && ret->size > 8 && !ret->id[ret->size - 1])
		ret->size--;
	ret->path = pd_keep_name(f, &body);
	return 0;
}

static void assign_build_ids(struct pd_file *f, const struct buf *list)
{
	struct pd_map *maps = (struct pd_map *)f->lists[MAPS].data;
	const char *names = (const char *)f->lists[NAMES].data;
	struct build_id *ids = (struct build_id *)list->data;
	size_t n = list->size / sizeof(*ids), n_maps = f->lists[MAPS].size / sizeof(*maps);

	/*
	 * If any record has a build-id, the kernel recorded them all, except for files that it could not read; these
	 * must not get one by their name.
	 */
	for (size_t i = 0; i < n_maps; i++)
		if (maps[i].build_id_size)
			return;
	for (size_t i = 0; i < n; i++)
		ids[i].path = names + (uintptr_t)ids[i].path;
	qsort(ids, n, sizeof(*ids), compare_paths);
	for (size_t i = 0; i < n_maps; i++) {
		struct build_id key = { .path = names + (uintptr_t)maps[i].path }, *found;

		found = bsearch(&key, ids, n, sizeof(key), compare_paths);
		if (!found)
			continue;
		maps[i].build_id_size = found->size;
		memcpy(maps[i].build_id, found->id, found->size);
	}
}

static int read_build_ids(struct pd_file *f)
{
	_cleanup_buf_ struct buf list = { .limit = BUILD_IDS_MAX };
	uint64_t at, size, end;
	int rc = find_section(f, PD_FEAT_BUILD_ID, &at, &size);

	if (rc < 0)
		return rc == -ENODATA ? 0 : rc;
	end = at + MIN(size, UINT64_MAX - at);
	while (at < end && !buf_error(&list)) {
		struct build_id id;

		rc = read_build_id(f, &at, end, &id);
		if (rc < 0)
			break;
		buf_add(&list, &id, sizeof(id));
	}
	if (rc < 0 && rc != -ENODATA)
		return rc;
	if (buf_error(&f->lists[NAMES]) || buf_error(&list) == -ENOMEM)
		return -ENOMEM;
	if (list.size)
		assign_build_ids(f, &list);
	return 0;
}

/* Reads the notes of the program. A section that is too large is ignored. */
static int read_notes(struct pd_file *f)
{
	struct buf *list = &f->lists[NOTES];
	uint64_t at, size;
	struct reader r;
	int rc = find_section(f, PD_FEAT_NOTES, &at, &size);

	if (rc < 0 || size > NOTES_SIZE_MAX)
		return rc == -ENODATA ? 0 : rc;
	rc = pd_view(f, at, (size_t)size, &r);
	if (rc < 0)
		return rc;
	buf_add(list, r.at, rd_left(&r));
	f->contents.notes = list->data;
	f->contents.notes_size = list->size;
	return buf_error(list);
}

/* Checks the bounds of all sections, including those that are not read, in order to detect a file that was cut. */
static int check_sections(struct pd_file *f)
{
	for (unsigned i = 0; i < 8 * sizeof(f->features); i++) {
		uint64_t offset = 0, size = 0;
		int rc = find_section(f, i, &offset, &size);

		if (rc == -ENODATA && !has_feature(f, i))
			continue;
		if (rc < 0 && rc != -ENODATA)
			return rc;
		if (rc == -ENODATA || offset > f->size || size > f->size - offset) {
			pd_damage(f, f->size, "the feature sections are cut short");
			break;
		}
	}
	return 0;
}

/* Determines what the samples of an event are, and keeps its name. */
static void set_event_name(struct pd_file *f, uint32_t n, struct reader *text)
{
	struct event *e = &f->events[n];
	struct pd_counter *counter = (struct pd_counter *)f->lists[COUNTERS].data + n;
	size_t size = strnlen((const char *)text->at, rd_left(text));

	if (size == strlen(PD_FREQUENCY_NAME) && memcmp(text->at, PD_FREQUENCY_NAME, size) == 0)
		e->counter = FREQUENCY;
	else if (size == strlen(PERF_FREQUENCY_NAME) && memcmp(text->at, PERF_FREQUENCY_NAME, size) == 0)
		e->counter = FREQUENCY_RAW;
	else
		e->counter = COUNTER;
	counter->frequency = e->counter != COUNTER;
	counter->name = pd_keep_name(f, text);
}

int pd_read_event_names(struct pd_file *f)
{
	uint64_t at, size, config;
	uint32_t n = 0, attr_size = 0, n_ids, length, type;
	struct reader r, text;
	int rc = f->data_cut ? -ENODATA : find_section(f, PD_FEAT_EVENT_DESC, &at, &size);

	buf_zero(&f->lists[COUNTERS], f->n_events * sizeof(struct pd_counter));
	if (rc == 0)
		rc = buf_error(&f->lists[COUNTERS]);
	if (rc == 0)
		rc = pd_view(f, at, EVENT_DESC_MAX, &r);
	if (rc < 0)
		return rc == -ENODATA ? 0 : rc;
	if (rd_u32(&r, &n) < 0 || rd_u32(&r, &attr_size) < 0 || attr_size < PD_ATTR_SIZE_MIN)
		return 0;
	/* The events are in the order of their attributes. */
	for (uint32_t i = 0; i < MIN((size_t)n, f->n_events); i++) {
		if (rd_u32(&r, &type) < 0 || rd_skip(&r, 4) < 0 || rd_u64(&r, &config) < 0 ||
		    rd_skip(&r, attr_size - 16) < 0 || rd_u32(&r, &n_ids) < 0 || rd_u32(&r, &length) < 0 ||
		    rd_sub(&r, length, &text) < 0 || rd_skip(&r, 8 * (size_t)n_ids) < 0)
			break;
		if (type == f->events[i].type && config == f->events[i].config)
			set_event_name(f, i, &text);
	}
	return 0;
}

int pd_read_features(struct pd_file *f)
{
	struct pd_contents *c = &f->contents;
	int rc;

	/* A file cut within its data section has no feature sections. */
	if (f->data_cut)
		return 0;
	rc = check_sections(f);
	if (rc == 0)
		rc = read_text(f, PD_FEAT_VERSION, &c->version);
	if (rc == 0)
		rc = read_text(f, PD_FEAT_OSRELEASE, &c->release);
	if (rc == 0)
		rc = read_text(f, PD_FEAT_ARCH, &c->arch);
	if (rc == 0)
		rc = read_build_ids(f);
	if (rc == 0)
		rc = read_notes(f);
	return rc < 0 ? rc : buf_error(&f->lists[NAMES]);
}
