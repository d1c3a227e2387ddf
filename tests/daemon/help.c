/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "lib/base/io.h"
#include "lib/base/util.h"
#include "tests/daemon/help.h"

static void bail(const char *what)
{
	printf("Bail out! %s: %s\n", what, strerror(errno));
	exit(99);
}

void tested_start_again(struct tested *t, const char *const *options)
{
	char program[4096], socket[128], spool[128];
	const char *arguments[16] = { program, socket, spool };
	const char *build = getenv("top_builddir");
	size_t n = 3;
	int ready = -1;

	snprintf(program, sizeof(program), "%s/csightd", build ? build : ".");
	snprintf(socket, sizeof(socket), "--socket=%s", t->socket);
	snprintf(spool, sizeof(spool), "--spool=%s", t->spool);
	while (options && *options)
		arguments[n++] = *options++;
	t->pid = fork();
	if (t->pid < 0)
		bail("fork");
	if (t->pid == 0) {
		int log = open(t->log, O_WRONLY | O_CREAT | O_APPEND, 0600);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(log, STDOUT_FILENO);
		dup2(log, STDERR_FILENO);
		close(log);
		execv(program, (char **)arguments);
		_exit(127);
	}
	for (int i = 0; i < 1000 && ready < 0; i++) {
		ready = tested_connect(t->socket, SOCK_STREAM);
		if (waitpid(t->pid, NULL, WNOHANG) == t->pid)
			break;
		usleep(20000);
	}
	if (ready < 0)
		bail("csightd did not start");
	close(ready);
}

void tested_start(struct tested *t, const char *const *options)
{
	const char *tmp = getenv("TMPDIR");

	/* The path of a socket is limited to 107 bytes. */
	snprintf(t->dir, sizeof(t->dir), "%s/csight-test-XXXXXX", tmp && strlen(tmp) < 32 ? tmp : "/tmp");
	if (!mkdtemp(t->dir))
		bail("mkdtemp");
	snprintf(t->socket, sizeof(t->socket), "%s/s.sock", t->dir);
	snprintf(t->spool, sizeof(t->spool), "%s/spool", t->dir);
	snprintf(t->log, sizeof(t->log), "%s/log", t->dir);
	tested_start_again(t, options);
}

int tested_end(struct tested *t)
{
	int status = 0;

	kill(t->pid, SIGTERM);
	waitpid(t->pid, &status, 0);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void tested_clean(struct tested *t)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", t->dir);
	if (getenv("KEEP"))
		printf("# kept: %s\n", t->dir);
	else if (system(command) != 0)
		printf("# %s remains\n", t->dir);
}

int tested_descriptors(const struct tested *t)
{
	_cleanup_closedir_ DIR *dir = NULL;
	char path[64];
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)t->pid);
	dir = opendir(path);
	while (dir && readdir(dir))
		n++;
	return n;
}

long tested_memory(const struct tested *t)
{
	_cleanup_fclose_ FILE *f = NULL;
	char path[64], line[256];
	long kib = -1;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)t->pid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "VmRSS: %ld", &kib);
	return kib;
}

int tested_connect(const char *path, int type)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		closep(&fd);
	return fd;
}

const char *tested_call(const struct tested *t, const char *name, const char *parameters, struct varlink_reply *ret)
{
	struct varlink_stream *s;
	json_object *o = NULL;
	char method[128];

	snprintf(method, sizeof(method), "org.csight.%s", name);
	if (parameters && json_parse(parameters, strlen(parameters), &o) < 0)
		bail("invalid JSON in the test");
	if (varlink_connect(t->socket, -1, &s) < 0)
		return "no connection";
	*ret = (struct varlink_reply){ 0 };
	if (varlink_send_call(s, method, o, false) < 0 || varlink_receive(s, 60000, ret, NULL) < 0) {
		varlink_stream_free(s);
		json_object_put(o);
		return "no reply";
	}
	varlink_stream_free(s);
	json_object_put(o);
	return ret->error ? ret->error : "";
}

const char *tested_error(const struct tested *t, const char *name, const char *parameters)
{
	static char error[256];
	struct varlink_reply reply;

	snprintf(error, sizeof(error), "%s", tested_call(t, name, parameters, &reply));
	varlink_reply_done(&reply);
	return error;
}

struct emu_slot *fake_slot(const struct fake *f, unsigned n)
{
	return (struct emu_slot *)(f->map + f->header->slots_offset) + n;
}

void fake_make(struct fake *f)
{
	struct emu_header *h;
	size_t watching = sizeof(struct emu_header), slots = watching + sizeof(struct emu_watching),
	       log = slots + FAKE_RINGS * sizeof(struct emu_slot);
	size_t rings = (log + FAKE_LOG_SIZE + 4095) & ~(size_t)4095;

	memset(f, 0, sizeof(*f));
	f->socket = -1;
	f->size = rings + FAKE_RINGS * FAKE_RING_SIZE;
	f->memfd = memfd_create("fake", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (f->memfd < 0 || ftruncate(f->memfd, (off_t)f->size) < 0)
		bail("memfd");
	f->map = mmap(NULL, f->size, PROT_READ | PROT_WRITE, MAP_SHARED, f->memfd, 0);
	if (f->map == MAP_FAILED)
		bail("mmap");
	h = f->header = (struct emu_header *)f->map;
	h->magic = EMU_MAGIC;
	h->version = EMU_VERSION;
	h->header_size = sizeof(*h);
	h->total_size = f->size;
	h->n_rings = FAKE_RINGS;
	h->slot_size = sizeof(struct emu_slot);
	h->watching_offset = watching;
	h->slots_offset = slots;
	h->log_offset = log;
	h->log_size = FAKE_LOG_SIZE;
	h->rings_offset = rings;
	h->ring_size = FAKE_RING_SIZE;
	h->pid = (uint32_t)getpid();
	strcpy(h->name, "fake");
	strcpy(h->exe, "/bin/fake");
	memcpy(h->cmdline, "fake\0--run\0", 11);
	h->cmdline_size = 11;
}

int fake_hello_sealed(struct fake *f, const struct tested *t, int seals)
{
	struct emu_message m = { .magic = EMU_MAGIC, .version = EMU_VERSION, .type = EMU_HELLO };
	char path[128];

	if (seals && fcntl(f->memfd, F_ADD_SEALS, seals) < 0)
		bail("seal");
	snprintf(path, sizeof(path), "%s.emu", t->socket);
	f->socket = tested_connect(path, SOCK_SEQPACKET);
	if (f->socket < 0)
		return -errno;
	if (io_send_fds(f->socket, &m, sizeof(m), &f->memfd, 1) < 0 ||
	    io_receive_fds(f->socket, &m, sizeof(m), NULL, NULL, 0) != (ssize_t)sizeof(m) || m.type != EMU_WELCOME)
		return -EPROTO;
	return (int)m.value;
}

int fake_hello(struct fake *f, const struct tested *t)
{
	return fake_hello_sealed(f, t, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}

struct writer {
	struct fake *fake;
	struct emu_slot *slot;
	uint8_t *ring;
	bool obey;
};

/* Works like the plugin: reads the control word once for each block, and moves the head after the block's bytes. */
static void *write_numbers(void *data)
{
	struct writer *w = data;
	struct fake *f = w->fake;
	uint64_t head = 0;

	while (!atomic_load(&f->stop)) {
		uint32_t control = atomic_load(&f->header->control);

		if (w->obey && atomic_load(&w->slot->seen) != control)
			atomic_store(&w->slot->seen, control);
		if (w->obey && (control & 1)) {
			sched_yield();
			continue;
		}
		for (int n = 0; n < 16; n++) {
			uint64_t number = head / 8;

			memcpy(w->ring + head % FAKE_RING_SIZE, &number, 8);
			head += 8;
		}
		atomic_store(&w->slot->head, head);
	}
	if (w->obey)
		atomic_store(&w->slot->state, EMU_IDLE);
	free(w);
	return NULL;
}

void fake_run(struct fake *f, unsigned n_threads, bool obey)
{
	for (unsigned n = 0; n < n_threads; n++) {
		struct writer *w = malloc(sizeof(*w));
		struct emu_slot *slot = fake_slot(f, n);

		*w = (struct writer){ f, slot, f->map + f->header->rings_offset + n * FAKE_RING_SIZE, obey };
		slot->tid = 1000 + n;
		slot->serial = 1;
		snprintf(slot->name, sizeof(slot->name), "t%u", n % 100);
		slot->start_ns = now_ns(CLOCK_MONOTONIC);
		/* A value that the daemon never stores, so that a disobedient thread does not seem to obey. */
		atomic_store(&slot->seen, obey ? atomic_load(&f->header->control) : 0xdead);
		atomic_store(&slot->state, EMU_RUNNING);
		if (pthread_create(&f->threads[n], NULL, write_numbers, w))
			bail("pthread_create");
		f->n_threads++;
	}
}

void fake_done(struct fake *f)
{
	atomic_store(&f->stop, true);
	for (unsigned n = 0; n < f->n_threads; n++)
		pthread_join(f->threads[n], NULL);
	closep(&f->socket);
	munmap(f->map, f->size);
	closep(&f->memfd);
}
