/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/fuzz/csightd.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/util.h"
#include "tests/fuzz/fuzz.h"

/* daemon/main.c, which is built for harnesses with another name of main(). */
int csightd_main(int argc, char **argv);

struct fuzz_csightd fuzz_csightd;

int fuzz_connect(const char *path, int type)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	fuzz_require(fd >= 0);
	strcpy(a.sun_path, path);
	/* csightd may be starting. */
	for (unsigned n = 0; connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0; n++) {
		fuzz_require(n < FUZZ_HANG_MS / FUZZ_QUIET_MS);
		poll(NULL, 0, FUZZ_QUIET_MS);
	}
	return fd;
}

int fuzz_make_rings(void)
{
	int fd = memfd_create("rings", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	uint8_t *map;

	fuzz_require(fd >= 0 && ftruncate(fd, FUZZ_RINGS) == 0);
	map = mmap(NULL, FUZZ_RINGS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	fuzz_require(map != MAP_FAILED && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
	fuzz_rings(map, FUZZ_RINGS)[0] = (struct emu_slot){ .state = EMU_IDLE, .tid = 1, .serial = 1, .head = 1000 };
	fuzz_csightd.rings = map;
	return fd;
}

void fuzz_send_message(int socket, uint32_t type, uint32_t value, int fd)
{
	struct emu_message m = { .magic = EMU_MAGIC, .version = EMU_VERSION, .type = type, .value = value };

	io_send_fds(socket, &m, sizeof(m), &fd, fd >= 0);
}

/* Makes this process a target. Returns the connection. */
static int become_target(void)
{
	int socket = fuzz_connect(fuzz_csightd.emu, SOCK_SEQPACKET), rings = fuzz_make_rings();

	fuzz_send_message(socket, EMU_HELLO, 0, rings);
	close(rings);
	return socket;
}

static void start_child(pid_t *ret)
{
	*ret = fork();
	fuzz_require(*ret >= 0);
	if (*ret)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	become_target();
	for (;;)
		pause();
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void remove_dir(void)
{
	nftw(fuzz_csightd.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void *run_csightd(void *unused)
{
	char spool[64], decoder[80], runner[64], opener[64], config[64];
	/* Nothing outside of this process is started, and no other program is affected. */
	const char *argv[] = { "csightd",
			       "--socket",
			       fuzz_csightd.control,
			       "--spool",
			       spool,
			       "--capture",
			       "emu",
			       "--set",
			       decoder,
			       "--set",
			       runner,
			       "--set",
			       opener,
			       "--set",
			       "restore=no",
			       "--set",
			       "history-targets=4",
			       "--set",
			       "spool-max=64M",
			       "--config",
			       config,
			       NULL };
	int fd;

	snprintf(spool, sizeof(spool), "%s/spool", fuzz_csightd.dir);
	snprintf(decoder, sizeof(decoder), "decoder=%s", fuzz_csightd.decoder);
	snprintf(runner, sizeof(runner), "runner=%s/none", fuzz_csightd.dir);
	snprintf(opener, sizeof(opener), "opener=%s/none", fuzz_csightd.dir);
	snprintf(config, sizeof(config), "%s/config", fuzz_csightd.dir);
	fd = open(config, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	fuzz_require(fd >= 0);
	close(fd);
	csightd_main(ELEMENTS(argv) - 1, (char **)argv);
	abort();
}

/* libFuzzer's alarm interrupts poll(). */
bool fuzz_wait_readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n;

	while ((n = poll(&p, 1, ms)) < 0 && errno == EINTR)
		;
	return n == 1;
}

void fuzz_check_alive(void)
{
	static const char call[] = "{\"method\":\"org.varlink.service.GetInfo\"}";
	char reply[1024];

	fuzz_require(write(fuzz_csightd.other, call, sizeof(call)) == sizeof(call));
	fuzz_require(fuzz_wait_readable(fuzz_csightd.other, FUZZ_HANG_MS) &&
		     read(fuzz_csightd.other, reply, sizeof(reply)) > 0);
}

void fuzz_csightd_begin(void (*begin_decoder)(void))
{
	struct sigaction actions[NSIG];
	pthread_t thread;

	if (fuzz_csightd.dir[0])
		return;
	strcpy(fuzz_csightd.dir, "/dev/shm/csight-fuzz-XXXXXX");
	fuzz_require(mkdtemp(fuzz_csightd.dir) != NULL);
	snprintf(fuzz_csightd.control, sizeof(fuzz_csightd.control), "%s/control", fuzz_csightd.dir);
	snprintf(fuzz_csightd.emu, sizeof(fuzz_csightd.emu), "%s.emu", fuzz_csightd.control);
	snprintf(fuzz_csightd.decoder, sizeof(fuzz_csightd.decoder), "%s/decode", fuzz_csightd.dir);
	fuzz_csightd.pids[0] = getpid();
	for (size_t i = 1; i < FUZZ_TARGETS; i++)
		start_child(&fuzz_csightd.pids[i]);
	atexit(remove_dir);
	if (begin_decoder)
		begin_decoder();
	/* csightd takes signals that libFuzzer needs. */
	for (int n = 1; n < NSIG; n++)
		sigaction(n, NULL, &actions[n]);
	fuzz_require(pthread_create(&thread, NULL, run_csightd, NULL) == 0);
	fuzz_csightd.other = fuzz_connect(fuzz_csightd.control, SOCK_STREAM);
	fuzz_check_alive();
	for (int n = 1; n < NSIG; n++)
		sigaction(n, &actions[n], NULL);
	log_setup("fuzz", LOG_EMERG);
	signal(SIGPIPE, SIG_IGN);
	fuzz_csightd.target = become_target();
	fuzz_check_alive();
}

static void expand(const char *text, size_t size, struct buf *ret)
{
	char pid[16];

	for (size_t i = 0; i < size; i++) {
		unsigned n = i + 1 < size && text[i] == '$' ? (unsigned)text[i + 1] - '1' : FUZZ_TARGETS + 1;

		if (n < FUZZ_TARGETS) {
			snprintf(pid, sizeof(pid), "%d", (int)fuzz_csightd.pids[n]);
			buf_add(ret, pid, strlen(pid));
		} else if (n == FUZZ_TARGETS) {
			buf_add(ret, fuzz_csightd.id, strlen(fuzz_csightd.id));
		} else {
			buf_add(ret, text + i, 1);
			continue;
		}
		i++;
	}
}

static void note_id(char *reply)
{
	static const char key[] = "\"id\":\"";
	const char *at = strstr(reply, key);

	if (at && strlen(at) > strlen(key) + FUZZ_ID_SIZE) {
		memcpy(fuzz_csightd.id, at + strlen(key), FUZZ_ID_SIZE - 1);
		fuzz_csightd.id[strcspn(fuzz_csightd.id, "\"")] = 0;
	}
}

/* Reads until csightd closes the connection, or has nothing to say. Descriptors that come are closed by the kernel. */
static void read_replies(int fd, int ms)
{
	static char reply[64 << 10];
	ssize_t n;

	while (fuzz_wait_readable(fd, ms) && (n = read(fd, reply, sizeof(reply) - 1)) > 0) {
		reply[n] = 0;
		note_id(reply);
	}
}

void fuzz_call(const void *text, size_t size, int ms)
{
	_cleanup_buf_ struct buf b = { 0 };
	int fd = fuzz_connect(fuzz_csightd.control, SOCK_STREAM);

	expand(text, size, &b);
	fuzz_require(buf_error(&b) == 0);
	send(fd, b.data, b.size, MSG_DONTWAIT | MSG_NOSIGNAL);
	shutdown(fd, SHUT_WR);
	read_replies(fd, ms);
	close(fd);
}
