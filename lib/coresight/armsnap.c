/* SPDX-License-Identifier: MIT */
#include "lib/coresight/armsnap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/base/ini.h"
#include "lib/base/parse.h"

enum { DEVICES_MAX = 1024, DUMPS_MAX = 65536, BUFFERS_MAX = 1024, LINKS_MAX = 4096, TEXTS_MAX = 1 << 18 };

struct armsnap_reading {
	const struct armsnap_files *files;
	struct armsnap_problem *problem;
	struct armsnap *snapshot;
	struct buf devices, dumps, buffers, sources, cores, device_files;
	const char *trace_file;     /* NULL: none */
	char section[INI_LINE_MAX]; /* of the last dump or buffer in the current file */
};

static int problem(struct armsnap_reading *r, const char *cause)
{
	r->problem->cause = cause;
	return -EBADMSG;
}

/* Returns a copy of the text that lives as long as the snapshot, or NULL. */
static const char *keep(struct armsnap_reading *r, const char *text)
{
	struct buf *texts = &r->snapshot->texts;
	char *copy = texts->size / sizeof(copy) < TEXTS_MAX ? strdup(text) : NULL;

	if (!copy)
		return NULL;
	buf_add(texts, &copy, sizeof(copy));
	if (!buf_error(texts))
		return copy;
	free(copy);
	return NULL;
}

static int keep_to(struct armsnap_reading *r, const char *text, const char **ret)
{
	*ret = keep(r, text);
	return *ret ? 0 : -ENOMEM;
}

static int add(struct armsnap_reading *r, struct buf *list, const void *item, size_t size, size_t most)
{
	if (list->size / size >= most)
		return problem(r, "too many entries");
	buf_add(list, item, size);
	return buf_error(list);
}

static int read_ini(struct armsnap_reading *r, const char *name, ini_visit *visit)
{
	char *text = NULL;
	size_t size = 0, length = strlen(name);
	int rc;

	*r->problem = (struct armsnap_problem){ 0 };
	if (length >= sizeof(r->problem->file))
		length = sizeof(r->problem->file) - 1;
	memcpy(r->problem->file, name, length);
	r->section[0] = 0;
	rc = r->files->read(r->files->user, name, &text, &size);
	if (rc < 0)
		return rc;
	rc = ini_read(text, size, INI_COMMENTS_ANYWHERE, visit, r, &r->problem->line);
	free(text);
	if (rc == -EFBIG)
		return problem(r, "the line is too long");
	if (rc == -EBADMSG && !r->problem->cause)
		return problem(r, "neither a section nor a key and its value");
	return rc;
}

/* True for the first key of a section, which begins a new dump. */
static bool is_new_section(struct armsnap_reading *r, const struct ini_entry *e)
{
	if (strcmp(r->section, e->section) == 0)
		return false;
	strcpy(r->section, e->section);
	return true;
}

static int on_snapshot(void *user, const struct ini_entry *e)
{
	struct armsnap_reading *r = user;
	const char *text;
	int rc = 0;

	if (strcasecmp(e->section, "device_list") == 0) {
		rc = keep_to(r, e->value, &text);
		return rc < 0 ? rc : add(r, &r->device_files, &text, sizeof(text), DEVICES_MAX);
	}
	if (strcasecmp(e->section, "trace") == 0 && strcasecmp(e->key, "metadata") == 0)
		rc = keep_to(r, e->value, &r->trace_file);
	return rc;
}

const char *armsnap_reg_str(enum armsnap_reg reg)
{
	static const char *const names[ARMSNAP_REGS] = {
		"TRCCONFIGR", "TRCTRACEIDR", "TRCIDR0", "TRCIDR1",     "TRCIDR2", "TRCIDR8", "TRCDEVARCH",
		"ETMCR",      "ETMIDR",      "ETMCCER", "ETMTRACEIDR", "STMTCSR", "ITMTCR",
	};

	return names[reg];
}

/* The number or size of a register may follow its name in parentheses. */
static int read_reg(struct armsnap_reading *r, struct armsnap_device *d, const struct ini_entry *e)
{
	size_t n = strcspn(e->key, " \t(");
	uint64_t v;

	for (size_t i = 0; i < ARMSNAP_REGS; i++) {
		const char *name = armsnap_reg_str((enum armsnap_reg)i);

		if (strlen(name) != n || strncasecmp(name, e->key, n) != 0)
			continue;
		if (parse_u64(e->value, UINT32_MAX, &v) < 0)
			return problem(r, "not a 32-bit register value");
		d->regs[i] = (uint32_t)v;
		d->has |= 1u << i;
	}
	return 0;
}

static int read_device_key(struct armsnap_reading *r, struct armsnap_device *d, const struct ini_entry *e)
{
	if (strcasecmp(e->key, "name") == 0)
		return keep_to(r, e->value, &d->name);
	if (strcasecmp(e->key, "class") == 0)
		return keep_to(r, e->value, &d->class);
	if (strcasecmp(e->key, "type") == 0)
		return keep_to(r, e->value, &d->type);
	if (strcasecmp(e->key, "format") == 0)
		d->formatted = strcasecmp(e->value, "coresight") == 0;
	return 0;
}

static int read_space(struct armsnap_reading *r, const char *value, uint8_t *ret)
{
	/* The bits of enum engine_space. */
	static const struct {
		const char *name;
		uint8_t spaces;
	} known[] = {
		{ "EL1S", 0x01 }, { "EL1N", 0x02 }, { "EL2", 0x04 },  { "EL2N", 0x04 },
		{ "EL3", 0x08 },  { "EL2S", 0x10 }, { "EL1R", 0x20 }, { "EL2R", 0x40 },
		{ "ROOT", 0x80 }, { "S", 0x19 },    { "N", 0x06 },    { "H", 0x04 },
		{ "P", 0xff },    { "R", 0x60 },    { "ANY", 0xff },  { "", 0xff },
	};

	for (size_t i = 0; i < ELEMENTS(known); i++)
		if (strcasecmp(known[i].name, value) == 0) {
			*ret = known[i].spaces;
			return 0;
		}
	return problem(r, "unknown memory space");
}

static int read_dump(struct armsnap_reading *r, const struct ini_entry *e)
{
	struct armsnap_dump *d;
	int rc = 0;

	if (is_new_section(r, e)) {
		const struct armsnap_dump fresh = {
			.device = (uint32_t)(r->devices.size / sizeof(struct armsnap_device) - 1),
			.file = "",
			.length = UINT64_MAX,
			.spaces = 0xff,
		};

		rc = add(r, &r->dumps, &fresh, sizeof(fresh), DUMPS_MAX);
		if (rc < 0)
			return rc;
	}
	d = (struct armsnap_dump *)(r->dumps.data + r->dumps.size) - 1;
	if (strcasecmp(e->key, "file") == 0)
		return keep_to(r, e->value, &d->file);
	if (strcasecmp(e->key, "space") == 0)
		return read_space(r, e->value, &d->spaces);
	if (strcasecmp(e->key, "address") == 0)
		rc = parse_u64(e->value, UINT64_MAX, &d->address);
	else if (strcasecmp(e->key, "length") == 0)
		rc = parse_u64(e->value, UINT64_MAX, &d->length);
	else if (strcasecmp(e->key, "offset") == 0)
		rc = parse_u64(e->value, UINT64_MAX, &d->offset);
	return rc < 0 ? problem(r, "not a number") : 0;
}

static int on_device(void *user, const struct ini_entry *e)
{
	struct armsnap_reading *r = user;
	struct armsnap_device *d = (struct armsnap_device *)(r->devices.data + r->devices.size) - 1;
	int rc = 0;

	if (strncasecmp(e->section, "dump", 4) == 0)
		return read_dump(r, e);
	if (!*e->section || strcasecmp(e->section, "device") == 0)
		rc = read_device_key(r, d, e);
	if (rc == 0 && (!*e->section || strcasecmp(e->section, "regs") == 0))
		rc = read_reg(r, d, e);
	return rc;
}

static int read_device(struct armsnap_reading *r, const char *name)
{
	const struct armsnap_device fresh = { .name = "", .class = "", .type = "" };
	int rc = add(r, &r->devices, &fresh, sizeof(fresh), DEVICES_MAX);

	return rc < 0 ? rc : read_ini(r, name, on_device);
}

/* Adds a link from key to each name in value, a list "a, b". */
static int add_links(struct armsnap_reading *r, struct buf *list, const char *key, const char *value)
{
	char to[INI_LINE_MAX], *rest = to;

	strcpy(to, value);
	for (char *word = strtok_r(to, ", \t", &rest); word; word = strtok_r(NULL, ", \t", &rest)) {
		struct armsnap_link link;
		int rc = keep_to(r, key, &link.from);

		if (rc == 0)
			rc = keep_to(r, word, &link.to);
		if (rc == 0)
			rc = add(r, list, &link, sizeof(link), LINKS_MAX);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int list_buffers(struct armsnap_reading *r, const char *value)
{
	char names[INI_LINE_MAX], *rest = names;

	strcpy(names, value);
	for (char *word = strtok_r(names, ", \t", &rest); word; word = strtok_r(NULL, ", \t", &rest)) {
		struct armsnap_buffer b = { .name = "", .file = "" };
		int rc = keep_to(r, word, &b.key);

		if (rc == 0)
			rc = add(r, &r->buffers, &b, sizeof(b), BUFFERS_MAX);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int on_trace(void *user, const struct ini_entry *e)
{
	struct armsnap_reading *r = user;
	struct armsnap_buffer *b = (struct armsnap_buffer *)r->buffers.data;

	if (strcasecmp(e->section, "trace_buffers") == 0)
		return strcasecmp(e->key, "buffers") == 0 ? list_buffers(r, e->value) : 0;
	if (strcasecmp(e->section, "source_buffers") == 0)
		return add_links(r, &r->sources, e->key, e->value);
	if (strcasecmp(e->section, "core_trace_sources") == 0)
		return add_links(r, &r->cores, e->key, e->value);
	for (size_t i = 0; i < r->buffers.size / sizeof(*b); i++) {
		if (strcmp(b[i].key, e->section) != 0)
			continue;
		if (strcasecmp(e->key, "name") == 0)
			return keep_to(r, e->value, &b[i].name);
		if (strcasecmp(e->key, "file") == 0)
			return keep_to(r, e->value, &b[i].file);
		if (strcasecmp(e->key, "format") == 0)
			b[i].formatted = strcasecmp(e->value, "coresight") == 0;
	}
	return 0;
}

static int read_files(struct armsnap_reading *r)
{
	int rc = read_ini(r, "snapshot.ini", on_snapshot);
	const char *const *devices = (const char *const *)r->device_files.data;

	for (size_t i = 0; rc == 0 && i < r->device_files.size / sizeof(*devices); i++)
		rc = read_device(r, devices[i]);
	if (rc == 0 && !r->trace_file) {
		*r->problem = (struct armsnap_problem){ .file = "snapshot.ini" };
		return problem(r, "no trace metadata file is named");
	}
	return rc < 0 ? rc : read_ini(r, r->trace_file, on_trace);
}

#define TAKE_LIST(list, to, n_to)                     \
	do {                                          \
		(n_to) = (list).size / sizeof(*(to)); \
		(to) = (void *)TAKE_PTR((list).data); \
	} while (0)

/* Reads one device file, or the whole snapshot if device is NULL. */
static int read_all(const struct armsnap_files *files, const char *device, struct armsnap **ret,
		    struct armsnap_problem *ret_problem)
{
	struct armsnap *s = calloc(1, sizeof(*s));
	struct armsnap_reading r = { .files = files, .problem = ret_problem, .snapshot = s };
	int rc;

	*ret_problem = (struct armsnap_problem){ 0 };
	if (!s)
		return -ENOMEM;
	rc = device ? read_device(&r, device) : read_files(&r);
	TAKE_LIST(r.devices, s->devices, s->n_devices);
	TAKE_LIST(r.dumps, s->dumps, s->n_dumps);
	TAKE_LIST(r.buffers, s->buffers, s->n_buffers);
	TAKE_LIST(r.sources, s->sources, s->n_sources);
	TAKE_LIST(r.cores, s->cores, s->n_cores);
	buf_done(&r.device_files);
	if (rc < 0)
		armsnap_free(s);
	else
		*ret = s;
	return rc;
}

int armsnap_read(const struct armsnap_files *files, struct armsnap **ret, struct armsnap_problem *ret_problem)
{
	return read_all(files, NULL, ret, ret_problem);
}

int armsnap_read_device(const struct armsnap_files *files, const char *name, struct armsnap **ret,
			struct armsnap_problem *ret_problem)
{
	return read_all(files, name, ret, ret_problem);
}

struct armsnap *armsnap_free(struct armsnap *s)
{
	if (!s)
		return NULL;
	for (size_t i = 0; i < s->texts.size / sizeof(char *); i++)
		free(((char **)s->texts.data)[i]);
	buf_done(&s->texts);
	free(s->devices);
	free(s->dumps);
	free(s->buffers);
	free(s->sources);
	free(s->cores);
	free(s);
	return NULL;
}

int armsnap_device(const struct armsnap *s, const char *name, uint32_t *ret)
{
	for (size_t i = 0; i < s->n_devices; i++)
		if (strcmp(s->devices[i].name, name) == 0) {
			*ret = (uint32_t)i;
			return 0;
		}
	return -ENOENT;
}

int armsnap_buffer(const struct armsnap *s, const char *name, uint32_t *ret)
{
	for (size_t i = 0; i < s->n_buffers; i++)
		if (!name || strcmp(s->buffers[i].name, name) == 0 || strcmp(s->buffers[i].key, name) == 0) {
			*ret = (uint32_t)i;
			return 0;
		}
	return -ENOENT;
}
