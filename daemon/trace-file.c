/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>

#include "daemon/capture/process/code-log.h"
#include "daemon/snapshot-space.h"
#include "daemon/snapshot.h"
#include "daemon/trace-file.h"
#include "lib/base/array.h"
#include "lib/base/hash.h"
#include "lib/base/reader.h"
#include "lib/base/util.h"
#include "lib/perfdata/write.h"

/* What a recording takes in memory until its end is bounded: 32 bytes for each slice, in the index and the sums. */
enum { THREADS_MAX = 1 << 16, SLICES_MAX = 1 << 20, SLICE_MEMORY = 32, RECORDS_MAX = 1 << 22 };

/* Beside the thread of a recording. */
struct thread_mark {
	uint32_t index; /* of its buffers */
	bool exited;    /* the file has its PERF_RECORD_EXIT */
};

struct trace_file {
	int fd;
	struct pd_writer *pd;
	uint32_t pid;
	/* Of a recording: all threads in their order, and for each ring 1 + the number of the one that had it last. */
	struct capture_thread *threads;
	size_t n_threads, room;
	uint32_t *of_slot;
	size_t n_slots;
	size_t n_slices;
	size_t n_records; /* of slices in rings, and of the kernel: the decoder has them in memory */
	struct trace_file_counts counts;
	bool of_rings;             /* a recording of rings, and not of the streams of threads */
	bool live;                 /* the next thread of a ring replaces the one before in threads */
	struct thread_mark *marks; /* of threads */
	size_t marks_room;
	uint32_t n_indices;
	struct hash written; /* of a live one of rings: mappings that it has, by the hash of their records */
};

static void write_records(struct pd_writer *w, const struct capture_copy *c)
{
	struct reader all = reader_of(c->records.data, c->records.size);
	struct capture_record head;
	const uint8_t *body;

	while (rd_copy(&all, &head, sizeof(head)) == 0 && rd_bytes(&all, ALIGN8(head.size), &body) == 0)
		pd_write_record(w, head.type, head.misc, body, head.size, &head.origin);
}

static void write_samples(struct pd_writer *w, const struct capture_copy *c)
{
	const struct pd_sample *samples = (const struct pd_sample *)c->samples.data;

	for (size_t n = 0; n < c->samples.size / sizeof(*samples); n++)
		pd_write_sample(w, &samples[n]);
}

static void write_kernel_map(struct pd_writer *w, const struct snapshot_writer *sw)
{
	const struct capture_kernel *k = &sw->copy->kernel;
	char path[64];

	if (!snapshot_space_has_kernel(sw))
		return;
	snprintf(path, sizeof(path), "%s_stext", TRACE_FILE_KERNEL);
	pd_write_map(w, &(struct pd_map){ .pid = UINT32_MAX,
					  .addr = k->start,
					  .len = k->length,
					  .offset = k->start,
					  .prot = PROT_READ | PROT_EXEC,
					  .flags = 2, /* MAP_PRIVATE */
					  .path = path });
}

/* Writes the names and mappings of a log. */
static void write_log(struct pd_writer *w, uint32_t pid, const struct code_log *log)
{
	for (size_t n = 0; n < log->n_names; n++)
		pd_write_comm(w, pid, log->names[n].tid, log->names[n].name, false, log->names[n].time_ns);
	for (size_t n = 0; n < log->n_maps; n++) {
		const struct emu_record_map *m = &log->maps[n].record;
		struct pd_map map = {
			.pid = pid,
			.tid = pid,
			.addr = m->addr,
			.len = m->len,
			.offset = m->offset,
			.major = m->major,
			.minor = m->minor,
			.inode = m->inode,
			.prot = m->prot,
			.flags = 2, /* MAP_PRIVATE */
			.build_id_size = m->build_id_size,
			.path = log->maps[n].path,
			.time = m->head.time_ns,
		};

		memcpy(map.build_id, m->build_id, sizeof(m->build_id));
		pd_write_map(w, &map);
	}
}

static void write_sideband(struct pd_writer *w, const struct snapshot_writer *sw)
{
	const struct target *t = sw->target;
	const struct capture_copy *c = sw->copy;
	uint32_t pid = (uint32_t)t->pid;

	for (size_t n = 0; n < c->n_threads; n++)
		if (c->threads[n].name[0])
			pd_write_comm(w, pid, c->threads[n].tid, c->threads[n].name, false, c->threads[n].start_ns);
	write_log(w, pid, &sw->log);
	write_kernel_map(w, sw);
	for (size_t n = 0; n < c->n_threads; n++) {
		const struct capture_thread *thread = &c->threads[n];
		struct pd_aux aux = { .size = thread->size + thread->end_size,
				      .flags = PD_AUX_RAW | (thread->wrapped ? PD_AUX_OVERWRITE : 0),
				      .pid = pid,
				      .tid = thread->tid,
				      .cpu = UINT32_MAX,
				      .time = c->monotonic };

		if (thread->data)
			pd_write_aux(w, &aux);
	}
	write_records(w, c);
	write_samples(w, c);
	for (size_t n = 0; n < c->n_rings; n++)
		for (size_t i = 0; i < c->rings[n].n_slices; i++)
			pd_write_aux(w, &c->rings[n].slices[i]);
}

static void write_threads(struct pd_writer *w, const struct capture_copy *c)
{
	for (size_t n = 0; n < c->n_threads; n++) {
		const struct capture_thread *t = &c->threads[n];
		struct pd_buffer buffer = {
			.size = t->size + t->end_size, .index = (uint32_t)n, .tid = t->tid, .cpu = UINT32_MAX
		};
		const uint8_t *piece;
		size_t size;

		if (!t->data)
			continue;
		pd_write_buffer(w, &buffer);
		for (unsigned i = 0; capture_piece(t, i, &piece, &size); i++)
			pd_write_bytes(w, piece, size);
	}
}

static void write_rings(struct pd_writer *w, const struct capture_copy *c)
{
	for (size_t n = 0; n < c->n_rings; n++) {
		const struct capture_ring *ring = &c->rings[n];
		struct pd_buffer buffer = { .size = ring->size,
					    .offset = ring->from,
					    .index = (uint32_t)n,
					    .tid = UINT32_MAX,
					    .cpu = ring->cpu };

		pd_write_buffer(w, &buffer);
		pd_write_bytes(w, ring->data, ring->size);
	}
}

static int begin(int fd, const struct target *t, const struct capture_copy *c, struct pd_session session,
		 struct trace_file **ret)
{
	struct trace_file *f = calloc(1, sizeof(*f));
	struct utsname host = { 0 };
	int rc;

	if (!f) {
		closep(&fd);
		return -ENOMEM;
	}
	uname(&host);
	session.hostname = host.nodename;
	session.release = host.release;
	session.arch = "aarch64";
	session.pmu_type = c->pmu_type;
	session.pmu_config = c->pmu_config;
	session.cpus = c->cpus;
	session.n_cpus = (uint32_t)c->n_cpus;
	session.clock = c->clock;
	session.counters = c->counters;
	session.n_counters = (uint32_t)c->n_counters;
	f->pid = (uint32_t)t->pid;
	f->fd = fd;
	f->live = session.live;
	f->of_rings = c->rings;
	rc = pd_write_begin(f->fd, &session, &f->pd);
	if (rc < 0)
		trace_file_free(f);
	else
		*ret = f;
	return rc;
}

int trace_file_begin(int dir, const struct target *t, const char *exe, const struct capture_copy *c, bool recording,
		     struct trace_file **ret)
{
	const struct pd_session session = { .cmdline = exe, .snapshot = !recording, .mixed = recording };
	int fd = openat(dir, SNAPSHOT_TRACE_FILE, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : begin(fd, t, c, session, ret);
}

int trace_file_begin_live(const struct target *t, const struct capture_copy *c, struct trace_file **ret)
{
	const struct pd_session session = { .cmdline = t->exe, .live = true, .own_clock = c->virtual_clock };

	return begin(-1, t, c, session, ret);
}

int trace_file_take(struct trace_file *f, struct buf *ret)
{
	return pd_write_take(f->pd, ret);
}

/* Returns the thread of a ring that has been recorded last, or NULL. */
static struct capture_thread *last_of(const struct trace_file *f, uint32_t slot)
{
	return slot < f->n_slots && f->of_slot[slot] ? &f->threads[f->of_slot[slot] - 1] : NULL;
}

/* Assigns the thread at an index of threads to its ring. */
static int set_slot(struct trace_file *f, uint32_t slot, size_t n)
{
	if (slot >= f->n_slots) {
		size_t room = MAX((size_t)slot + 1, 2 * f->n_slots);
		uint32_t *slots = reallocarray(f->of_slot, room, sizeof(*slots));

		if (!slots)
			return -ENOMEM;
		memset(slots + f->n_slots, 0, (room - f->n_slots) * sizeof(*slots));
		f->of_slot = slots;
		f->n_slots = room;
	}
	f->of_slot[slot] = (uint32_t)n + 1;
	return 0;
}

/* Adds a thread whose recording begins at t->from - t->lost.own. */
static int add_thread(struct trace_file *f, const struct capture_thread *t)
{
	const struct capture_thread *last = f->live ? last_of(f, t->slot) : NULL;
	size_t n = last ? (size_t)(last - f->threads) : f->n_threads;
	struct capture_thread *added;
	int rc;

	if (array_reserve(f->threads, f->n_threads, &f->room) < 0 ||
	    array_reserve(f->marks, f->n_threads, &f->marks_room) < 0)
		return -ENOMEM;
	rc = set_slot(f, t->slot, n);
	if (rc < 0)
		return rc;
	f->n_threads = MAX(f->n_threads, n + 1);
	f->marks[n] = (struct thread_mark){ .index = f->n_indices++ & PD_AUX_INDEX_MASK };
	added = &f->threads[n];
	*added = *t;
	added->from = t->from - t->lost.own;
	added->size = 0;
	added->lost = (struct capture_lost){ 0 };
	added->wrapped = added->from > 0;
	added->data = NULL;
	added->end_size = 0;
	if (f->live)
		pd_write_comm(f->pd, f->pid, t->tid, t->name, false, t->start_ns);
	return 0;
}

static struct pd_aux slice_of(const struct trace_file *f, const struct capture_thread *thread, uint64_t time)
{
	return (
	    struct pd_aux){ .flags = PD_AUX_RAW, .pid = f->pid, .tid = thread->tid, .cpu = UINT32_MAX, .time = time };
}

static struct thread_mark *mark_of(const struct trace_file *f, const struct capture_thread *thread)
{
	return &f->marks[thread - f->threads];
}

/* Ends a thread of a live file, at a time. */
static void write_exit(struct trace_file *f, const struct capture_thread *thread, uint64_t time)
{
	struct pd_task task = {
		.pid = f->pid, .ppid = f->pid, .tid = thread->tid, .ptid = f->pid, .exit = true, .time = time
	};

	if (!f->live || mark_of(f, thread)->exited)
		return;
	pd_write_task(f->pd, &task);
	mark_of(f, thread)->exited = true;
}

/* Records that bytes of a thread, the next ones, are lost. */
static void write_gap(struct trace_file *f, struct capture_thread *thread, uint64_t size, uint64_t time)
{
	struct pd_aux aux = slice_of(f, thread, time);

	if (!size)
		return;
	aux.offset = thread->from + thread->size + thread->lost.own;
	aux.size = size;
	aux.flags |= PD_AUX_GAP | (uint64_t)mark_of(f, thread)->index << PD_AUX_INDEX_SHIFT;
	pd_write_aux(f->pd, &aux);
	thread->lost.own += size;
	f->counts.lost += size;
	f->counts.gaps++;
}

static void write_slice(struct trace_file *f, struct capture_thread *thread, const struct capture_thread *t,
			uint64_t time)
{
	struct pd_aux aux = slice_of(f, thread, time);
	struct pd_buffer buffer = {
		.size = t->size + t->end_size, .index = mark_of(f, thread)->index, .tid = thread->tid, .cpu = UINT32_MAX
	};
	const uint8_t *piece;
	size_t size;

	if (!buffer.size)
		return;
	aux.offset = buffer.offset = thread->from + thread->size + thread->lost.own;
	aux.size = buffer.size;
	if (thread->size && !t->lost.own)
		aux.flags |= PD_AUX_CONTINUES;
	pd_write_aux(f->pd, &aux);
	pd_write_buffer(f->pd, &buffer);
	for (unsigned i = 0; capture_piece(t, i, &piece, &size); i++)
		pd_write_bytes(f->pd, piece, size);
	thread->size += buffer.size;
	f->counts.bytes += buffer.size;
	f->n_slices++;
}

static int append_thread(struct trace_file *f, const struct capture_thread *t, uint64_t time)
{
	struct capture_thread *thread = last_of(f, t->slot);
	uint64_t earlier = t->lost.earlier;
	int rc = 0;

	/* What threads have lost of which nothing is known is a gap of the thread that had the ring before them. */
	if (thread && thread->serial != t->serial) {
		write_gap(f, thread, earlier, time);
		write_exit(f, thread, thread->end_ns ? thread->end_ns : t->start_ns);
		earlier = 0;
		thread = NULL;
	}
	if (!thread) {
		rc = add_thread(f, t);
		thread = rc < 0 ? NULL : last_of(f, t->slot);
	}
	if (!thread)
		return rc;
	thread->end_ns = t->end_ns;
	thread->until_ns = t->until_ns;
	thread->written = t->written + t->end_size;
	thread->instructions = t->instructions;
	thread->truth = t->truth;
	thread->acknowledged = t->acknowledged;
	memcpy(thread->name, t->name, sizeof(thread->name));
	write_gap(f, thread, earlier + t->lost.own, time);
	write_slice(f, thread, t, time);
	if (t->ended)
		write_exit(f, thread, t->end_ns ? t->end_ns : time);
	return 0;
}

/* Removes the mappings that the file has from a log that always has all; those that it no longer has are forgotten. */
static int drop_written(struct trace_file *f, struct code_log *log)
{
	struct hash present = { 0 };
	size_t n = 0;
	int rc = 0;

	for (size_t i = 0; i < log->n_maps && rc >= 0; i++) {
		const struct code_map *m = &log->maps[i];
		uint64_t record = hash_bytes(&m->record, sizeof(m->record)),
			 path = hash_bytes(m->path, strlen(m->path));
		uint32_t *unused;

		rc = hash_find(&present, record, path, &unused);
		if (rc == 1 && !hash_get(&f->written, record, path))
			log->maps[n++] = *m;
	}
	log->n_maps = n;
	hash_done(&f->written);
	f->written = present;
	return rc < 0 ? rc : 0;
}

static int append_log(struct trace_file *f, const struct capture_copy *c)
{
	struct code_log log = { 0 };
	int rc = code_log_read(c->log, c->log_size, &log);

	if (rc == 0 && f->of_rings)
		rc = drop_written(f, &log);
	if (rc == 0)
		write_log(f->pd, f->pid, &log);
	code_log_done(&log);
	return rc;
}

static void append_ring(struct trace_file *f, const struct capture_ring *r)
{
	/* The index of a CPU's ring is the same in all copies. */
	struct pd_buffer buffer = {
		.size = r->size, .offset = r->from, .index = r->cpu, .tid = UINT32_MAX, .cpu = r->cpu
	};

	uint64_t described = 0;

	f->counts.lost += r->lost;
	f->counts.gaps += r->lost > 0;
	if (!r->size)
		return;
	for (size_t i = 0; i < r->n_slices; i++) {
		pd_write_aux(f->pd, &r->slices[i]);
		described += r->slices[i].size;
	}
	pd_write_buffer(f->pd, &buffer);
	pd_write_bytes(f->pd, r->data, r->size);
	/* What no record describes, or is before the first whole frame, is of no use. */
	f->counts.bytes += described;
	f->counts.lost += r->size - described;
	f->counts.gaps += r->size > described;
	f->n_slices++;
	f->n_records += r->n_slices;
}

int trace_file_append(struct trace_file *f, const struct capture_copy *c)
{
	int rc = f->live && c->log ? append_log(f, c) : 0;

	if (f->of_rings) {
		write_records(f->pd, c);
		write_samples(f->pd, c);
		f->n_records +=
		    c->records.size / sizeof(struct capture_record) + c->samples.size / sizeof(struct pd_sample);
	}
	for (size_t n = 0; f->of_rings && n < c->n_rings; n++)
		append_ring(f, &c->rings[n]);

	for (size_t n = 0; n < c->n_threads && rc == 0 && !f->of_rings; n++)
		rc = append_thread(f, &c->threads[n], c->monotonic);
	return rc < 0 ? rc : pd_write_error(f->pd);
}

void trace_file_end_round(struct trace_file *f, uint64_t time)
{
	pd_write_round(f->pd, time);
}

/* Describes threads as they were when their recording ended, which have run on since. */
static void cut_threads(struct trace_file *f)
{
	for (struct capture_thread *t = f->threads; t < f->threads + f->n_threads; t++) {
		uint64_t to = t->from + t->size + t->lost.own;

		if (t->written > to)
			t->end_ns = 0;
		t->until_ns = 0;
		t->written = to;
	}
}

int trace_file_append_last(struct trace_file *f, struct capture_copy *c, bool closed)
{
	int rc;

	if (closed && f->of_rings)
		capture_copy_drop_rings(c);
	rc = closed && !f->of_rings ? pd_write_error(f->pd) : trace_file_append(f, c);
	if (rc < 0)
		return rc;
	/* trace_file_end() is not to write them again. */
	if (f->of_rings) {
		capture_copy_drop_rings(c);
		buf_clear(&c->records);
		buf_clear(&c->samples);
		return 0;
	}
	if (closed)
		cut_threads(f);
	for (size_t n = 0; n < c->n_threads; n++)
		if (c->threads[n].data)
			munmap(c->threads[n].data, c->threads[n].room);
	free(c->threads);
	c->threads = TAKE_PTR(f->threads);
	c->n_threads = f->n_threads;
	f->n_threads = 0;
	return 0;
}

int trace_file_end(struct trace_file *f, const struct snapshot_writer *sw)
{
	const struct capture_copy *c = sw->copy;
	int rc;

	write_sideband(f->pd, sw);
	write_threads(f->pd, c);
	write_rings(f->pd, c);
	pd_write_notes(f->pd, c->notes.data, c->notes.size);
	rc = pd_write_end(f->pd);
	return rc < 0 ? rc : fsync(f->fd) < 0 ? -errno : 0;
}

struct trace_file_counts trace_file_counts(const struct trace_file *f)
{
	struct trace_file_counts counts = f->counts;

	counts.size = pd_write_size(f->pd);
	counts.full = f->n_slices >= SLICES_MAX || f->n_threads >= THREADS_MAX || f->n_records >= RECORDS_MAX;
	counts.memory = f->n_slices * SLICE_MEMORY + f->room * sizeof(*f->threads) + f->marks_room * sizeof(*f->marks);
	return counts;
}

struct trace_file *trace_file_free(struct trace_file *f)
{
	if (!f)
		return NULL;
	pd_writer_free(f->pd);
	closep(&f->fd);
	free(f->threads);
	free(f->marks);
	free(f->of_slot);
	hash_done(&f->written);
	free(f);
	return NULL;
}
