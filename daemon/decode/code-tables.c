/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "daemon/decode/code-tables.h"
#include "daemon/decode/memory-files.h"
#include "lib/base/array.h"
#include "lib/code/inlines.h"
#include "lib/code/symbols.h"
#include "lib/code/unwind.h"

enum { KEEP_SYMBOLS_MIN = 1000 };

/* Sends a large symbol table to the owner, for other jobs. Failure only means that they read the image again. */
static void keep_symbols(struct decode_job *job, const char *key, const struct symbols *symbols)
{
	_cleanup_close_ int fd = -1;

	if (symbols_count(symbols) < KEEP_SYMBOLS_MIN)
		return;
	fd = memory_files_take_table();
	if (fd >= 0 && symbols_write(symbols, fd) == 0 && ftruncate(fd, lseek(fd, 0, SEEK_CUR)) == 0)
		job_keep(job, key, fd);
}

static int find_symbols(struct code_tables *t, int image, int debug, struct symbols **ret)
{
	struct decode_job *job = t->input->job;
	_cleanup_close_ int fd = -1;
	char key[SYMBOLS_KEY_SIZE];
	int rc;

	if (!job->tables || symbols_key(image, debug, key) < 0)
		return symbols_load_with(image, debug, ret);
	rc = job_table(job, key, &fd);
	if (rc < 0)
		return rc;
	rc = fd >= 0 ? symbols_read(fd, ret) : -ENOENT;
	if (rc == 0)
		t->cached++;
	if (rc == 0 || rc == -ENOMEM)
		return rc;
	rc = symbols_load_with(image, debug, ret);
	if (rc == 0)
		keep_symbols(job, key, *ret);
	return rc;
}

static int load_table(struct code_tables *t, uint32_t file, struct code_table *to)
{
	int fd = image_file(t->input->images, file)->fd;
	bool of_names = file == t->input->names;
	_cleanup_close_ int debug = -1;
	int rc = 0;

	if (fd < 0)
		return 0;
	if (!of_names)
		rc = input_request_debug_file(t->input, file, &debug);
	if (rc < 0)
		return rc;
	rc = of_names ? symbols_load_perf_map(fd, &to->symbols) : find_symbols(t, fd, debug, &to->symbols);
	if (rc == -ENOMEM || unwind_open(fd, &to->unwind) == -ENOMEM)
		return -ENOMEM;
	if (!of_names)
		inlines_open_lazily(fd, debug, &to->inlines);
	return 0;
}

int code_tables_load(struct code_tables *t)
{
	int rc = 0;

	while (rc == 0 && t->n < image_file_count(t->input->images)) {
		rc = array_reserve(t->list, t->n, &t->room);
		if (rc < 0)
			return rc;
		t->list[t->n++] = (struct code_table){ 0 };
		rc = load_table(t, (uint32_t)t->n - 1, &t->list[t->n - 1]);
	}
	return rc;
}

struct region_mapping code_tables_mapping(const struct code_tables *t, uint32_t file, const struct image_mapping *m,
					  const char *path, char id[2 * IMAGE_BUILD_ID_MAX + 1])
{
	struct code_table table = file < t->n ? t->list[file] : (struct code_table){ 0 };

	return (struct region_mapping){
		.addr = m->addr,
		.len = m->len,
		.offset = m->offset,
		.time = m->time,
		.path = path,
		.build_id = file == IMAGE_NONE ? NULL : input_build_id(image_file(t->input->images, file), id),
		.symbols = table.symbols,
		.inlines = table.inlines,
		.unwind = table.unwind,
	};
}

void code_tables_report(const struct code_tables *t)
{
	for (size_t i = 0; i < t->n; i++) {
		int error = t->list[i].inlines ? inlines_error(t->list[i].inlines) : 0;

		if (error)
			input_warn(t->input, "%s: inlined calls and lines are unknown, its debug information is %s",
				   image_file(t->input->images, (uint32_t)i)->path,
				   error == -EFBIG ? "too large: 512 MiB in a section, or 1 GiB" : "damaged");
	}
}

void code_tables_done(struct code_tables *t)
{
	for (size_t i = 0; i < t->n; i++) {
		symbols_free(t->list[i].symbols);
		inlines_free(t->list[i].inlines);
		unwind_free(t->list[i].unwind);
	}
	free(t->list);
}
