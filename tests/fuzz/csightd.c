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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/util.h"
#include "tests/fuzz/fuzz.h"

/* daemon/main.c, which is built for harnesses with another name of main(). */
int csightd_main(int argc, char **argv);

enum { PARTS_MAX = 32, KINDS = 2 };

struct fuzz_csightd fuzz_csightd;
static int listed; /* the first trigger or standing target of a list */
static pthread_t csightd;
static struct sigaction ending; /* by which csightd takes SIGTERM */
static bool ends;               /* its end was requested */
static bool records, disarms;   /* an input may have begun a recording, or disarmed targets */

/* Changes the effective user of the calling thread alone. */
static void become_user(uid_t uid)
{
	fuzz_require(syscall(SYS_setresuid, -1, uid, -1) == 0);
}

int fuzz_connect_as(const char *path, int type, uid_t uid)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	uid_t self = geteuid();

	fuzz_require(fd >= 0);
	if (uid != self)
		become_user(uid);
	strcpy(a.sun_path, path);
	/* csightd may be starting. */
	for (unsigned n = 0; connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0; n++) {
		fuzz_require(n < FUZZ_HANG_MS / FUZZ_QUIET_MS);
		poll(NULL, 0, FUZZ_QUIET_MS);
	}
	if (uid != self)
		become_user(self);
	return fd;
}

int fuzz_connect(const char *path, int type)
{
	return fuzz_connect_as(path, type, geteuid());
}

struct emu_watching *fuzz_watching(void)
{
	const struct emu_header *h = (const struct emu_header *)fuzz_csightd.rings;

	return (struct emu_watching *)(fuzz_csightd.rings + h->watching_offset);
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
	fuzz_watching()->limits = FUZZ_KNOWS_ALL;
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

/* After an input that has ended the target of this process. */
static void restore_target(void)
{
	struct emu_message m;
	ssize_t n;

	while ((n = recv(fuzz_csightd.target, &m, sizeof(m), MSG_DONTWAIT)) > 0)
		;
	if (n < 0 && errno == EAGAIN)
		return;
	close(fuzz_csightd.target);
	munmap(fuzz_csightd.rings, FUZZ_RINGS);
	fuzz_csightd.target = become_target();
}

static void start_child(pid_t *ret, uid_t uid)
{
	*ret = fork();
	fuzz_require(*ret >= 0);
	if (*ret)
		return;
	fuzz_require(setresuid(uid, uid, uid) == 0);
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
	char spool[64], decoder[80], runner[64], opener[64], config[64], deny[16];
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
			       "targets-max=16",
			       "--set",
			       "spool-max=96M",
			       "--set",
			       "job-timeout=2",
			       "--set",
			       "connections-max=16",
			       "--set",
			       deny,
			       "--config",
			       config,
			       NULL };
	static const char sections[] = "[Target none]\nname = none\n[Trigger ends]\nprogram = prog\nexit = yes\n";
	int fd;

	snprintf(spool, sizeof(spool), "%s/spool", fuzz_csightd.dir);
	snprintf(decoder, sizeof(decoder), "decoder=%s", fuzz_csightd.decoder);
	snprintf(runner, sizeof(runner), "runner=%s/none", fuzz_csightd.dir);
	snprintf(opener, sizeof(opener), "opener=%s/none", fuzz_csightd.dir);
	snprintf(config, sizeof(config), "%s/config", fuzz_csightd.dir);
	snprintf(deny, sizeof(deny), "deny=%d", FUZZ_DENIED);
	fd = open(config, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	fuzz_require(fd >= 0 && write(fd, sections, strlen(sections)) == (ssize_t)strlen(sections));
	close(fd);
	fuzz_require(csightd_main(ELEMENTS(argv) - 1, (char **)argv) == 0 && ends);
	return NULL;
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

static void expand(const char *text, size_t size, struct buf *ret)
{
	char number[16];

	for (size_t i = 0; i < size; i++) {
		unsigned n = i + 1 < size && text[i] == '$' ? (unsigned)text[i + 1] - '1' : FUZZ_TARGETS + 2;

		if (n < FUZZ_TARGETS || n == FUZZ_TARGETS + 1) {
			snprintf(number, sizeof(number), "%d",
				 n < FUZZ_TARGETS ? (int)fuzz_csightd.pids[n] : fuzz_csightd.number);
			buf_add(ret, number, strlen(number));
		} else if (n == FUZZ_TARGETS) {
			buf_add(ret, fuzz_csightd.id, strlen(fuzz_csightd.id));
		} else {
			buf_add(ret, text + i, 1);
			continue;
		}
		i++;
	}
}

/* Returns what follows the last occurrence of key; or NULL. */
static const char *find_last(const char *reply, const char *key)
{
	const char *last = NULL;

	while ((reply = strstr(reply, key)))
		last = reply += strlen(key);
	return last;
}

static void note_ids(const char *reply)
{
	static const char *const latest[KINDS] = { "\"trigger\":{\"id\":", "\"standing\":{\"id\":" };
	static const char *const lists[KINDS] = { "\"triggers\":[{\"id\":", "\"standing\":[{\"id\":" };
	const char *id = find_last(reply, "\"snapshot\":{\"id\":\"");

	if (id && strlen(id) >= FUZZ_ID_SIZE) {
		memcpy(fuzz_csightd.id, id, FUZZ_ID_SIZE - 1);
		fuzz_csightd.id[strcspn(fuzz_csightd.id, "\"")] = 0;
	}
	for (size_t i = 0; i < KINDS; i++) {
		if ((id = find_last(reply, latest[i])))
			fuzz_csightd.number = atoi(id);
		if ((id = find_last(reply, lists[i])))
			listed = atoi(id);
	}
}

/*
 * Reads until csightd closes the connection, has nothing to say for ms, or with `one` has replied. Descriptors that
 * come are closed by the kernel.
 */
static void read_replies(int fd, bool one, int ms)
{
	static char reply[64 << 10];
	ssize_t n;
	bool last;

	while (fuzz_wait_readable(fd, ms) && (n = read(fd, reply, sizeof(reply) - 1)) > 0) {
		last = !reply[n - 1];
		for (ssize_t i = 0; i < n; i++)
			reply[i] = reply[i] ? reply[i] : '\n';
		reply[n] = 0;
		note_ids(reply);
		if (one && last && !strstr(reply, "\"continues\":true"))
			return;
	}
}

/* Sends a part of the text, of which *fd is the connection, or -1. */
static void send_part(int *fd, uid_t uid, const char *text, size_t size)
{
	_cleanup_buf_ struct buf b = { 0 };

	if (*fd < 0)
		*fd = fuzz_connect_as(fuzz_csightd.control, SOCK_STREAM, uid);
	expand(text, size, &b);
	fuzz_require(buf_error(&b) == 0);
	send(*fd, b.data, b.size, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void call_all(const char *text, size_t size, int ms)
{
	int fds[2] = { -1, -1 };

	for (unsigned n = 0; size; n++) {
		const char *end = n < PARTS_MAX ? memmem(text, size, "\0\n", 2) : NULL;
		size_t part = end ? (size_t)(end - text) + 1 : size;
		bool user = *text == '~';

		send_part(&fds[user], user ? FUZZ_USER : 0, text + user, part - user);
		text += part + !!end;
		size -= part + !!end;
		if (size)
			read_replies(fds[user], true, ms);
	}
	for (size_t i = 0; i < ELEMENTS(fds); i++) {
		if (fds[i] < 0)
			continue;
		shutdown(fds[i], SHUT_WR);
		read_replies(fds[i], false, ms);
		close(fds[i]);
	}
}

/* Undoes what earlier calls have done that would affect later ones. */
static void tidy(void)
{
	static const char restore[] = "{\"method\":\"org.csight.Pause\",\"parameters\":{\"pause\":false}}\0"
				      "{\"method\":\"org.csight.Arm\",\"parameters\":{\"pid\":$1}}\0"
				      "{\"method\":\"org.csight.Arm\",\"parameters\":{\"pid\":$2}}\0"
				      "{\"method\":\"org.csight.Arm\",\"parameters\":{\"pid\":$3}}";
	/* The first standing target is of the configuration. */
	static const char *const calls[KINDS][2] = {
		{ "{\"method\":\"org.csight.ListTriggers\"}", "RemoveTrigger" },
		{ "{\"method\":\"org.csight.ListStanding\",\"parameters\":{\"first\":1}}", "DisarmStanding" },
	};
	char call[128];
	int n;

	for (size_t i = 0; i < KINDS; i++)
		for (;;) {
			listed = 0;
			call_all(calls[i][0], strlen(calls[i][0]) + 1, FUZZ_HANG_MS);
			if (!listed)
				break;
			n = snprintf(call, sizeof(call), "{\"method\":\"org.csight.%s\",\"parameters\":{\"id\":%d}}",
				     calls[i][1], listed);
			call_all(call, (size_t)n + 1, FUZZ_HANG_MS);
		}
	if (records) {
		static const char end[] = "{\"method\":\"org.csight.EndRecording\",\"parameters\":{\"id\":\"$4\"}}";

		call_all(end, sizeof(end), FUZZ_HANG_MS);
	}
	if (disarms)
		call_all(restore, sizeof(restore), FUZZ_HANG_MS);
	records = disarms = false;
}

void fuzz_call(const void *text, size_t size, int ms)
{
	records |= memmem(text, size, "record", strlen("record")) != NULL;
	disarms |= memmem(text, size, "Pause", strlen("Pause")) || memmem(text, size, "Disarm", strlen("Disarm"));
	call_all(text, size, ms);
}

/* csightd ends in order, whatever the inputs have left, while a snapshot is taken. */
static void end_csightd(void)
{
	static const char snapshot[] = "{\"method\":\"org.csight.Snapshot\",\"parameters\":{\"pid\":$1},\"more\":true}";
	struct timespec until;
	void *unused;
	int fd = -1;

	send_part(&fd, 0, snapshot, sizeof(snapshot));
	poll(NULL, 0, 20 * FUZZ_QUIET_MS);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += FUZZ_HANG_MS / 1000;
	ends = true;
	ending.sa_handler(SIGTERM);
	fuzz_require(pthread_timedjoin_np(csightd, &unused, &until) == 0);
	close(fd);
}

void fuzz_csightd_begin(void (*begin_decoder)(void))
{
	struct sigaction actions[NSIG];

	if (fuzz_csightd.dir[0]) {
		restore_target();
		tidy();
		return;
	}
	strcpy(fuzz_csightd.dir, "/dev/shm/csight-fuzz-XXXXXX");
	fuzz_require(mkdtemp(fuzz_csightd.dir) != NULL && chmod(fuzz_csightd.dir, 0711) == 0);
	snprintf(fuzz_csightd.control, sizeof(fuzz_csightd.control), "%s/control", fuzz_csightd.dir);
	snprintf(fuzz_csightd.emu, sizeof(fuzz_csightd.emu), "%s.emu", fuzz_csightd.control);
	snprintf(fuzz_csightd.decoder, sizeof(fuzz_csightd.decoder), "%s/decode", fuzz_csightd.dir);
	fuzz_csightd.pids[0] = getpid();
	for (size_t i = 1; i < FUZZ_TARGETS; i++)
		start_child(&fuzz_csightd.pids[i], i == FUZZ_TARGETS - 1 ? FUZZ_USER : 0);
	atexit(remove_dir);
	if (begin_decoder)
		begin_decoder();
	/* csightd takes signals that libFuzzer needs. */
	for (int n = 1; n < NSIG; n++)
		sigaction(n, NULL, &actions[n]);
	fuzz_require(pthread_create(&csightd, NULL, run_csightd, NULL) == 0);
	fuzz_csightd.other = fuzz_connect(fuzz_csightd.control, SOCK_STREAM);
	fuzz_check_alive();
	sigaction(SIGTERM, NULL, &ending);
	for (int n = 1; n < NSIG; n++)
		sigaction(n, &actions[n], NULL);
	atexit(end_csightd);
	log_setup("fuzz", LOG_EMERG);
	signal(SIGPIPE, SIG_IGN);
	/* Until then the third target tries to connect. */
	fuzz_require(chmod(fuzz_csightd.control, 0666) == 0 && chmod(fuzz_csightd.emu, 0666) == 0);
	fuzz_csightd.target = become_target();
	fuzz_check_alive();
}
