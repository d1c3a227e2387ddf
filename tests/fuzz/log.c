/* SPDX-License-Identifier: MIT */
/*
 * daemon/capture/process/code-log.c: the log of a program. What is accepted is within its limits, and the code that is
 * written has as many pieces and bytes as were counted.
 */
#include "config.h"

#include <string.h>
#include <sys/stat.h>

#include "daemon/capture/process/code-log.h"
#include "lib/base/buf.h"
#include "lib/code/captured-code.h"
#include "tests/fuzz/fuzz.h"

static void check_maps(const struct code_log *l, const char *log, size_t size)
{
	for (size_t i = 0; i < l->n_maps; i++) {
		const struct code_map *m = &l->maps[i];

		fuzz_require(m->path >= log && m->path + strlen(m->path) < log + size);
		fuzz_require(strlen(m->path) < EMU_PATH_SIZE && m->record.build_id_size <= EMU_BUILD_ID_MAX);
		fuzz_require(m->image == UINT32_MAX || m->image < l->n_images);
		fuzz_require(m->image == UINT32_MAX || strcmp(l->images[m->image].path, m->path) == 0);
	}
	for (size_t i = 0; i < l->n_images; i++)
		for (size_t j = 0; j < i; j++)
			fuzz_require(
			    l->images[i].inode != l->images[j].inode || l->images[i].file != l->images[j].file ||
			    l->images[i].major != l->images[j].major || l->images[i].minor != l->images[j].minor ||
			    strcmp(l->images[i].path, l->images[j].path) != 0);
	for (size_t i = 0; i < l->n_names; i++)
		fuzz_require(strlen(l->names[i].name) <= EMU_NAME_SIZE);
}

static void check_code(const struct code_log *l, const uint8_t *data, size_t size)
{
	struct captured_code_piece piece;
	uint64_t at = sizeof(struct captured_code_header), pieces = 0, bytes = 0;
	int fd = fuzz_fd("", 0);
	struct stat st;

	fuzz_require(code_log_write_bytes(data, size, fd) == 0 && fstat(fd, &st) == 0);
	for (; at < (uint64_t)st.st_size; at += sizeof(piece) + ALIGN8(piece.len)) {
		fuzz_require(pread(fd, &piece, sizeof(piece), (off_t)at) == sizeof(piece));
		pieces++;
		bytes += piece.len;
	}
	fuzz_require(at == (uint64_t)st.st_size);
	/* After a broken record of another kind, more code is written than is counted. */
	fuzz_require(l->broken ? pieces >= l->pieces : pieces == l->pieces && bytes == l->bytes);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct code_log l;

	if (code_log_read(data, size, &l) < 0)
		return 0;
	check_maps(&l, (const char *)data, size);
	check_code(&l, data, size);
	code_log_done(&l);
	return 0;
}

static void put(struct buf *b, const void *record, size_t size, const void *more, size_t more_size)
{
	buf_add(b, record, size);
	buf_add(b, more, more_size);
	buf_zero(b, ALIGN8(more_size) - more_size);
}

void fuzz_seeds(void)
{
	_cleanup_buf_ struct buf b = { 0 };
	struct emu_record_map m = { .head = { EMU_REC_MAP, sizeof(m) + 16, 5 },
				    .addr = FUZZ_BASE,
				    .len = 4096,
				    .prot = 5,
				    .file = 1,
				    .inode = 7,
				    .build_id_size = 20 };
	struct emu_record_code c = { .head = { EMU_REC_CODE, sizeof(c) + 16, 6 }, .addr = FUZZ_BASE, .len = 12 };
	struct emu_record_comm n = { .head = { EMU_REC_COMM, sizeof(n), 7 }, .tid = FUZZ_PID, .name = "a name" };

	put(&b, &m, sizeof(m), "/bin/prog", 10);
	put(&b, &c, sizeof(c), fuzz_code, 12);
	put(&b, &n, sizeof(n), NULL, 0);
	fuzz_seed(b.data, b.size);
	m.inode++;
	put(&b, &m, sizeof(m), "/bin/prog", 10);
	put(&b, &m, sizeof(m), "/bin/prog", 10);
	m.file = 0;
	put(&b, &m, sizeof(m), "//anon", 7);
	put(&b, &c, sizeof(c), fuzz_code, 12);
	fuzz_seed(b.data, b.size);
	/* A record that is cut. */
	fuzz_seed(b.data, b.size - 20);
}
