/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/capture/process/address-space.h"
#include "daemon/capture/process/process-internal.h"
#include "lib/base/util.h"

enum { LOG_MAX = 160 << 20 };

static const char anonymous[] = "//anon", unknown[] = "//unknown";

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

/* with_code: code that no file has, which is unknown otherwise. */
static void log_change(struct process_code *p, struct buf *log, const struct code_change *c, bool with_code)
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
		if (with_code)
			log_code(log, c->time, c->start, c->end - c->start, c->bytes);
		else
			log_unknown(log, c->time, c->start, c->end);
	}
}

static int write_log(struct process_code *p, struct buf *log, bool with_code)
{
	_cleanup_free_ struct code_change *changes = NULL;
	uint64_t until = p->dropped_ns ? p->dropped_ns : UINT64_MAX;
	size_t n_changes;
	int rc = code_history_changes(p->history, &changes, &n_changes);

	if (rc == -E2BIG) {
		process_start_over(p, process_clock(p));
		until = UINT64_MAX;
		rc = code_history_changes(p->history, &changes, &n_changes);
	}
	if (rc < 0)
		return rc;
	/* The changes since the cut do not describe what was before: without this, the first code would count for it.
	 */
	if (p->cut)
		log_unknown(log, 0, 0, INT64_MAX);
	for (size_t i = 0; i < n_changes && changes[i].time < until; i++)
		log_change(p, log, &changes[i], with_code);
	/* From the first record on that was dropped, all is unknown. */
	if (p->dropped_ns)
		log_unknown(log, p->dropped_ns, 0, INT64_MAX);
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

static int report_missing(struct process_code *p, struct buf *b)
{
	_cleanup_free_ struct code_span *list = NULL;
	uint64_t open = 0, first = 0;
	size_t n;
	int rc = code_history_spans(p->history, &list, &n);

	for (size_t i = 0; rc == 0 && i < n; i++)
		if (list[i].kind == CODE_MEMORY && list[i].writable && p->jitdump.fd < 0) {
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
	if (p->skipped) {
		buf_printf(b, "its newest code is unknown: %s", address_space_strerror(p->skipped));
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
	for (size_t i = 0; i < p->n_images; i++)
		if (p->images[i].why && code_history_image_time(p->history, p->images[i].id) != UINT64_MAX) {
			buf_printf(b, "%s: %s", p->images[i].path, p->images[i].why);
			buf_u8(b, 0);
		}
	return rc;
}

int process_write_log(struct process_code *p, struct buf *ret_log, struct buf *missing, struct capture_file **ret_files,
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
	rc = write_log(p, ret_log, true);
	if (rc == 0)
		rc = report_missing(p, missing);
	/* The caller owns the descriptors even after an error: the next log will name these files. */
	*ret_files = files;
	*ret_n_files = n;
	return rc;
}

int process_write_mappings(struct process_code *p, struct buf *ret)
{
	return write_log(p, ret, false);
}

int process_copy_jitdump(const struct process_code *p, struct capture_jitdump *ret)
{
	struct capture_jitdump j = p->jitdump;

	j.shift = p->shift;
	if (j.fd >= 0) {
		j.fd = fcntl(j.fd, F_DUPFD_CLOEXEC, 0);
		if (j.fd < 0)
			return -errno;
	}
	*ret = j;
	return 0;
}
