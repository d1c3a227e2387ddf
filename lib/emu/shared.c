/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/emu/etm-encode.h"
#include "lib/emu/shared.h"

enum { PAGE = 4096 };

static uint64_t page_align(uint64_t n)
{
	return (n + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

static int make_memory(const struct shared_options *o, uint32_t parent, struct shared *s)
{
	uint64_t watching = page_align(sizeof(struct emu_header));
	uint64_t slots = page_align(watching + sizeof(struct emu_watching));
	uint64_t log = page_align(slots + o->rings * sizeof(struct emu_slot));
	uint64_t rings = page_align(log + o->log_size);
	uint64_t total = rings + o->rings * o->ring_size;
	int fd = descriptor_move(memfd_create("csight-rings", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	struct emu_header *h;
	int rc;

	if (fd < 0)
		return fd;
	if (ftruncate(fd, (off_t)total) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
		rc = -errno;
		close(fd);
		return rc;
	}
	/* Unused rings take no memory: the file is sparse, and MAP_NORESERVE reserves none. */
	h = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (h == MAP_FAILED) {
		rc = -errno;
		close(fd);
		return rc;
	}
	h->magic = EMU_MAGIC;
	h->version = EMU_VERSION;
	h->header_size = sizeof(*h);
	h->total_size = total;
	h->n_rings = o->rings;
	h->slot_size = sizeof(struct emu_slot);
	h->watching_offset = watching;
	h->slots_offset = slots;
	h->log_offset = log;
	h->log_size = o->log_size;
	h->rings_offset = rings;
	h->ring_size = o->ring_size;
	h->pid = (uint32_t)getpid();
	h->parent = parent;
	h->clock = o->clock;
	h->start_ns = now_ns(CLOCK_MONOTONIC);
	etm_regs(false, &h->regs);
	h->regs.configr = o->configr;
	h->regs.mode = o->mode;
	s->header = h;
	s->watching = (struct emu_watching *)((uint8_t *)h + watching);
	s->slots = (struct emu_slot *)((uint8_t *)h + slots);
	s->log = (uint8_t *)h + log;
	s->rings = (uint8_t *)h + rings;
	return fd;
}

static int connect_to(const char *path)
{
	const struct timeval limit = { .tv_sec = 5 };
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int fd, rc;

	if (strlen(path) >= sizeof(to.sun_path))
		return -ENAMETOOLONG;
	strcpy(to.sun_path, path);
	fd = descriptor_move(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
	if (fd < 0)
		return fd;
	/* A daemon that hangs must not block the program. */
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0) {
		rc = -errno;
		close(fd);
		return rc;
	}
	return fd;
}

/* *ret_version: that of the daemon's interface, if it has answered. */
static int announce(const char *path, int memory, uint32_t *ret_version, int *ret)
{
	struct emu_message m = { .magic = EMU_MAGIC, .version = EMU_VERSION, .type = EMU_HELLO };
	_cleanup_close_ int fd = connect_to(path);
	ssize_t n;
	int rc;

	if (fd < 0)
		return fd;
	rc = io_send_fds(fd, &m, sizeof(m), &memory, 1);
	if (rc < 0)
		return rc;
	n = io_receive_fds(fd, &m, sizeof(m), NULL, NULL, 0);
	if (n != sizeof(m) || m.magic != EMU_MAGIC || m.type != EMU_WELCOME)
		return n < 0 ? (int)n : -EPROTO;
	*ret_version = m.version;
	if (m.value < 0)
		return (int)m.value;
	*ret = TAKE_FD(fd);
	return 0;
}

/* Sets the program's name, file and arguments, which follow QEMU's own arguments in its command line. */
static void put_name(struct emu_header *h, const char *exe)
{
	_cleanup_close_ int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	const char *slash = strrchr(exe, '/'), *base = slash ? slash + 1 : exe;
	_cleanup_free_ char *line = malloc(EMU_CMDLINE_SIZE * 4), *whole = realpath(exe, NULL);
	ssize_t n = line && fd >= 0 ? io_read(fd, line, EMU_CMDLINE_SIZE * 4) : 0;
	size_t size = n > 0 ? (size_t)n : 0;

	snprintf(h->name, sizeof(h->name), "%s", base);
	snprintf(h->exe, sizeof(h->exe), "%s", whole ? whole : exe);
	for (size_t at = 0, next; at < size; at = next) {
		next = at + strnlen(line + at, size - at) + 1;
		slash = strrchr(line + at, '/');
		if (at == 0 || strcmp(slash ? slash + 1 : line + at, base) != 0)
			continue;
		h->cmdline_size = (uint32_t)MIN(size - at, (size_t)EMU_CMDLINE_SIZE);
		memcpy(h->cmdline, line + at, h->cmdline_size);
		return;
	}
}

static void report_refusal(const char *socket, int rc, uint32_t version)
{
	if (version != EMU_VERSION)
		fprintf(stderr,
			"csight-etm: cannot register with csightd at %s: its rings have version %u, and those of "
			"csight-etm.so version %u; use both of one release; the program runs untraced\n",
			socket, version, EMU_VERSION);
	else
		fprintf(stderr, "csight-etm: cannot register with csightd at %s: %s; the program runs untraced\n",
			socket, strerror(-rc));
}

void shared_disconnect(struct shared *s)
{
	descriptor_close(&s->socket);
}

void shared_close(struct shared *s)
{
	shared_disconnect(s);
	descriptor_close(&s->memory);
}

void shared_connected(struct shared *s, int socket)
{
	s->socket = descriptor_keep(socket);
}

int shared_announce(const struct shared *s, const char *socket)
{
	uint32_t version = EMU_VERSION;
	int memory = descriptor_fd(&s->memory), fd = -1, rc;

	if (memory < 0)
		return memory;
	rc = announce(socket, memory, &version, &fd);
	return rc < 0 ? version != EMU_VERSION ? -EPROTONOSUPPORT : rc : fd;
}

int shared_open(const struct shared_options *o, const char *exe, uint32_t parent, struct shared *ret)
{
	struct shared s = { 0 };
	int memory = make_memory(o, parent, &s), rc = 0, fd = -1;
	uint32_t version = EMU_VERSION;

	if (memory < 0) {
		fprintf(stderr, "csight-etm: cannot make %u rings of %llu bytes: %s; the program runs untraced\n",
			o->rings, (unsigned long long)o->ring_size, strerror(-memory));
		return memory;
	}
	put_name(s.header, exe);
	if (o->socket)
		rc = announce(o->socket, memory, &version, &fd);
	if (rc < 0 || !o->socket)
		close(memory);
	if (rc < 0) {
		report_refusal(o->socket, rc, version);
		munmap(s.header, s.header->total_size);
		return rc;
	}
	if (o->socket) {
		s.memory = descriptor_keep(memory);
		shared_connected(&s, fd);
	}
	*ret = s;
	return 0;
}

uint64_t shared_latest_time(const struct shared *s)
{
	uint64_t latest = 0;

	for (uint32_t i = 0; i < s->header->n_rings; i++) {
		const struct emu_slot *slot = &s->slots[i];

		if (atomic_load(&slot->state) != EMU_FREE)
			latest = MAX(latest, atomic_load(&slot->base_ns) + atomic_load(&slot->instructions));
	}
	return latest;
}

uint64_t shared_begin(const struct emu_slot *slot)
{
	return slot->skip_serial == slot->serial ? slot->skip : 0;
}

/* The mode fill keeps the first part of the trace, also that of threads that have ended, until a disarm drops it. */
static bool is_reusable(const struct shared *s, const struct emu_slot *slot)
{
	return s->header->regs.mode != EMU_MODE_FILL || shared_begin(slot) >= atomic_load(&slot->head);
}

int shared_take(struct shared *s, uint32_t tid, const char name[EMU_NAME_SIZE], uint64_t time, struct emu_slot **ret,
		uint32_t *ret_control)
{
	struct emu_slot *found = NULL;
	uint32_t control, state;

	for (uint32_t i = 0; i < s->header->n_rings; i++) {
		struct emu_slot *slot = &s->slots[i];

		state = atomic_load(&slot->state);

		if (state == EMU_FREE) {
			found = slot;
			break;
		}
		/* If all slots have been used, reuse that of the thread that ended first; its trace is lost. */
		if (state == EMU_EXITED && is_reusable(s, slot) && (!found || slot->end_ns < found->end_ns))
			found = slot;
	}
	if (!found)
		return -EAGAIN;
	/* A freeze after this store waits for the thread; a freeze before it may be reading the slot. */
	state = atomic_exchange(&found->state, EMU_RUNNING);
	control = atomic_load(&s->header->control);
	if (control & 1) {
		atomic_store(&found->state, state);
		return -EBUSY;
	}
	atomic_fetch_add(&found->earlier, atomic_load(&found->head));
	atomic_store(&found->head, 0);
	atomic_store(&found->pending, 0);
	atomic_store(&found->instructions, 0);
	atomic_store(&found->truth, 0);
	found->tid = tid;
	found->start_ns = time;
	atomic_store(&found->base_ns, time);
	atomic_store(&found->lag_ns, now_ns(CLOCK_MONOTONIC) - time);
	atomic_store(&found->stopped_ns, 0);
	found->end_ns = 0;
	memcpy(found->name, name, sizeof(found->name));
	/* A recording reads the slot at any time: one that reads the new serial reads the rest of the new thread. */
	atomic_thread_fence(memory_order_seq_cst);
	found->serial++;
	*ret = found;
	*ret_control = control;
	return 0;
}

void shared_send_file(struct shared *s, uint32_t id, int fd)
{
	struct emu_message m = { .magic = EMU_MAGIC, .version = EMU_VERSION, .type = EMU_FILE, .value = id };

	int socket = descriptor_fd(&s->socket);

	/* After the connection has ended, the file is sent with all others on the next one. */
	if (socket >= 0 && io_send_fds(socket, &m, sizeof(m), &fd, 1) < 0)
		shutdown(socket, SHUT_RDWR);
}

void shared_send_hits(struct shared *s)
{
	const struct emu_message m = { .magic = EMU_MAGIC, .version = EMU_VERSION, .type = EMU_HITS };

	int socket = descriptor_fd(&s->socket);

	/* If the daemon has not read the earlier messages, it reads the hits with them. */
	if (socket >= 0)
		send(socket, &m, sizeof(m), MSG_DONTWAIT | MSG_NOSIGNAL);
}
