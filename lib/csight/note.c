/* SPDX-License-Identifier: MIT */
/* csight_note() and spans: the writer of lib/notes/notes.h. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "lib/base/io.h"
#include "lib/base/path.h"
#include "lib/csight/csight-internal.h"
#include "lib/notes/notes.h"

enum { PAGE = 4096, RETRY_SECONDS = 1, RETRY_SECONDS_MAX = 64, ONLY_ARMED = NOTES_ARMED | NOTES_FROZEN };

static const uint64_t second_ns = 1000000000;

struct notes {
	struct notes_memory *memory;
	_Atomic uint32_t *parent; /* 1; in a child of fork(), the kernel makes it 0 */
	bool wiped; /* the kernel sets *parent to 0 in a child; otherwise owner is compared with getpid() */
	pid_t owner;
	uint64_t id; /* of these notes; not 0 */
	int fd;      /* of the memory */
	_Atomic uint64_t check_ns;
	pthread_mutex_t lock; /* guards what follows */
	int socket;
	uint64_t retry_ns;
};

/*
 * The thread's ID, kept for the notes with the ID `of`, so that gettid() does not enter the kernel for each note. The
 * model initial-exec would keep the dynamic linker from allocating it, but puts all variables of threads of the library
 * into the static block, where those of esc() leave dlopen() no room.
 */
static __thread struct {
	uint64_t of;
	uint32_t tid;
} self;

/* What becomes an entry. */
struct draft {
	enum notes_kind kind;
	const char *label;
	int64_t value;
	uint64_t begin, begin_time;
};

/* Executes two instructions for each step, beside those of a call without any. */
__attribute__((noinline)) void csight_note_mark(unsigned steps)
{
#ifdef __aarch64__
	__asm__ volatile("cbz %w0, 2f\n1:\tsub %w0, %w0, #1\n\tcbnz %w0, 1b\n2:" : "+r"(steps));
#else
	__asm__ volatile("" : "+r"(steps));
#endif
}

/* QEMU ignores MADV_WIPEONFORK. */
static bool in_child(const struct notes *n, uint32_t state)
{
	return !n->wiped || state & NOTES_MARKED ? n->owner != getpid()
						 : !atomic_load_explicit(n->parent, memory_order_relaxed);
}

/* Connects to csightd without waiting, and sends it the memory of notes. Returns the socket. *ret_uid: its
 * server's user. */
static int announce(struct csight *c, const struct notes *n, uid_t *ret_uid)
{
	const struct notes_message hello = { .magic = NOTES_MAGIC, .version = NOTES_VERSION };
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = -1;
	int rc;

	rc = path_emu_socket(c->socket, to.sun_path, sizeof(to.sun_path));
	if (rc < 0)
		return rc;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		return -errno;
	rc = csight_check_peer(c, fd, ret_uid);
	if (rc == 0)
		rc = io_send_fds(fd, &hello, sizeof(hello), &n->fd, 1);
	return rc < 0 ? rc : TAKE_FD(fd);
}

/* Connects again if csightd has gone. The caller holds the lock. */
static int stay_connected(struct csight *c, struct notes *n, uid_t *ret_uid)
{
	struct notes_message m;
	ssize_t got = n->socket >= 0 ? recv(n->socket, &m, sizeof(m), MSG_DONTWAIT) : 0;
	int rc = 0;

	if (got == (ssize_t)sizeof(m))
		n->retry_ns = RETRY_SECONDS * second_ns;
	if (got > 0 || (got < 0 && errno == EAGAIN))
		return 0;
	closep(&n->socket);
	rc = announce(c, n, ret_uid);
	if (rc >= 0)
		n->socket = rc;
	/* A csightd that refuses the notes is not asked all the time. */
	n->retry_ns = MIN(2 * n->retry_ns, RETRY_SECONDS_MAX * second_ns);
	return MIN(rc, 0);
}

/* Makes sure that csightd has the memory, at most once a second, and without waiting for another thread. */
static void check_connection(struct csight *c, struct notes *n, uint64_t now)
{
	int error = errno;
	uid_t uid;

	if (now < atomic_load_explicit(&n->check_ns, memory_order_relaxed) || pthread_mutex_trylock(&n->lock) != 0)
		return;
	/* Notes are made anywhere, also between a call and the use of its errno. */
	stay_connected(c, n, &uid);
	errno = error;
	atomic_store_explicit(&n->check_ns, now + n->retry_ns, memory_order_relaxed);
	pthread_mutex_unlock(&n->lock);
}

static uint32_t own_tid(const struct notes *n)
{
	if (self.of != n->id) {
		self.tid = (uint32_t)gettid();
		self.of = n->id;
	}
	return self.tid;
}

/* Claims the place of a note. NULL: another thread is still writing there, or a newer note has it. */
static struct notes_entry *claim(struct notes_memory *m, uint64_t index)
{
	struct notes_entry *e = &m->entries[index % NOTES_ENTRIES];
	uint64_t before = atomic_load_explicit(&e->sequence, memory_order_relaxed);

	if (before % 2 || before > 2 * index ||
	    !atomic_compare_exchange_strong_explicit(&e->sequence, &before, 2 * index + 1, memory_order_acquire,
						     memory_order_relaxed)) {
		atomic_fetch_add_explicit(&m->dropped, 1, memory_order_relaxed);
		return NULL;
	}
	/* A reader that sees what follows sees the claim. */
	atomic_thread_fence(memory_order_release);
	return e;
}

static void fill(struct notes_entry *e, const struct draft *d, uint64_t time, uint32_t tid)
{
	size_t size = d->label ? strnlen(d->label, NOTES_LABEL_MAX) : 0;

	e->time = time;
	e->value = d->value;
	e->begin = d->begin;
	e->begin_time = d->begin_time;
	e->tid = tid;
	e->kind = (uint16_t)d->kind;
	e->label_size = (uint16_t)size;
	if (size)
		memcpy(e->label, d->label, size);
}

/* Returns 1 if the note was recorded. */
__attribute__((noinline)) static int record(struct csight *c, struct notes *n, const struct draft *d,
					    struct csight_span *span)
{
	struct notes_memory *m = n->memory;
	struct notes_entry *e;
	uint64_t index, now;
	uint32_t state;

	state = atomic_load_explicit(&m->state, memory_order_acquire);
	if (in_child(n, state))
		return -ECHILD;
	if ((state & ONLY_ARMED) != NOTES_ARMED) {
		check_connection(c, n, now_ns(CLOCK_MONOTONIC));
		return 0;
	}
	index = atomic_fetch_add_explicit(&m->head, 1, memory_order_relaxed);
	e = claim(m, index);
	if (!e)
		return -EAGAIN;
	for (unsigned i = 0; state & NOTES_MARKED && i < NOTES_MARKS; i++)
		csight_note_mark(notes_steps(index, i));
	now = now_ns(CLOCK_MONOTONIC);
	fill(e, d, now, own_tid(n));
	/* A note that is made while the rings are frozen has no place in the trace: its entry becomes invalid. */
	atomic_thread_fence(memory_order_seq_cst);
	state = atomic_load_explicit(&m->state, memory_order_relaxed);
	if ((state & ONLY_ARMED) != NOTES_ARMED)
		e->kind = UINT16_MAX;
	atomic_store_explicit(&e->sequence, 2 * index + 2, memory_order_release);
	if (span)
		*span = (struct csight_span){ .label = d->label, .begin = now, .index = index, .recorded = 1 };
	check_connection(c, n, now);
	return (state & ONLY_ARMED) == NOTES_ARMED;
}

/* Returns the notes of a handle, or NULL if none are recorded at present. */
static struct notes *active(struct csight *c)
{
	struct notes *n = c ? atomic_load_explicit(&c->notes, memory_order_acquire) : NULL;

	return n && atomic_load_explicit(&n->memory->state, memory_order_relaxed) ? n : NULL;
}

int csight_note(struct csight *c, const char *label, int64_t value)
{
	struct notes *n = active(c);

	return n ? record(c, n, &(struct draft){ .kind = NOTES_NOTE, .label = label, .value = value }, NULL) : 0;
}

void csight_span_begin(struct csight *c, struct csight_span *span, const char *label)
{
	struct notes *n = active(c);

	*span = (struct csight_span){ .label = label };
	if (n)
		record(c, n, &(struct draft){ .kind = NOTES_BEGIN, .label = label }, span);
}

int csight_span_end(struct csight *c, struct csight_span *span, int64_t value)
{
	struct notes *n = span->recorded ? active(c) : NULL;

	span->recorded = 0;
	return n ? record(c, n,
			  &(struct draft){ .kind = NOTES_END,
					   .label = span->label,
					   .value = value,
					   .begin = span->index,
					   .begin_time = span->begin },
			  NULL)
		 : 0;
}

static int make_memory(struct notes *n)
{
	n->fd = memfd_create("csight-notes", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (n->fd < 0 || ftruncate(n->fd, sizeof(*n->memory)) < 0 ||
	    fcntl(n->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	n->memory = mmap(NULL, sizeof(*n->memory), PROT_READ | PROT_WRITE, MAP_SHARED, n->fd, 0);
	if (n->memory == MAP_FAILED) {
		n->memory = NULL;
		return -errno;
	}
	n->memory->magic = NOTES_MAGIC;
	n->memory->version = NOTES_VERSION;
	n->memory->entry_size = sizeof(struct notes_entry);
	n->parent = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (n->parent == MAP_FAILED) {
		n->parent = NULL;
		return -errno;
	}
	n->wiped = madvise(n->parent, PAGE, MADV_WIPEONFORK) == 0;
	n->owner = getpid();
	atomic_store(n->parent, 1);
	return 0;
}

static struct notes *notes_free(struct notes *n)
{
	if (!n)
		return NULL;
	if (n->memory)
		munmap(n->memory, sizeof(*n->memory));
	if (n->parent)
		munmap((void *)n->parent, PAGE);
	closep(&n->fd);
	/* csightd sees the end although a child of fork() has the socket, too. */
	if (n->socket >= 0 && n->owner == getpid())
		shutdown(n->socket, SHUT_RDWR);
	closep(&n->socket);
	pthread_mutex_destroy(&n->lock);
	free(n);
	return NULL;
}

static int notes_new(struct notes **ret)
{
	struct notes *n = calloc(1, sizeof(*n));
	int rc;

	if (!n)
		return -ENOMEM;
	n->fd = n->socket = -1;
	n->retry_ns = RETRY_SECONDS * second_ns;
	n->id = now_ns(CLOCK_MONOTONIC) | 1;
	pthread_mutex_init(&n->lock, NULL);
	rc = make_memory(n);
	if (rc < 0)
		notes_free(n);
	else
		*ret = n;
	return rc;
}

int csight_notes_enable(struct csight *c)
{
	struct notes *n = atomic_load(&c->notes);
	uid_t uid = (uid_t)-1;
	int rc = 0;

	csight_begin_call(c, "record notes");
	if (c->owner != getpid())
		return csight_set_error(c, -ECHILD, "another process opened the handle");
	if (!n) {
		rc = notes_new(&n);
		if (rc < 0)
			return csight_set_error(c, rc, "%s", strerror(-rc));
		atomic_store_explicit(&c->notes, n, memory_order_release);
	}
	pthread_mutex_lock(&n->lock);
	rc = stay_connected(c, n, &uid);
	pthread_mutex_unlock(&n->lock);
	return rc < 0 ? csight_set_connect_error(c, rc, uid) : 0;
}

void csight_notes_check(struct csight *c)
{
	struct notes *n = atomic_load(&c->notes);

	if (n && n->owner == getpid())
		check_connection(c, n, now_ns(CLOCK_MONOTONIC));
}

void csight_notes_close(struct csight *c)
{
	notes_free(atomic_exchange(&c->notes, NULL));
}
