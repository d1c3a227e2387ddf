/* SPDX-License-Identifier: MIT */
/*
 * csightd as a whole, in a thread of this process: its control socket, and the socket at which programs register. Bit 0
 * of the first byte chooses the socket; bit 1, hits of watch points, which are written to the rings of a target
 * instead. Three targets exist: this process and two children. In a message of the control socket, $1 to $3 stand for
 * their process IDs, and $4 for the ID of the latest snapshot. After each input csightd still replies to another
 * client.
 */
#include "config.h"

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
#include "lib/notes/notes.h"
#include "tests/fuzz/fuzz.h"

/* daemon/main.c, which is built for this harness with another name of main(). */
int csightd_main(int argc, char **argv);

enum { SMALL = 16 << 10, RINGS = 512 << 10, TARGETS = 3, ID_SIZE = 23, QUIET_MS = 10, HANG_MS = 120000, MESSAGES = 32 };

static struct {
	char dir[40], control[64], emu[72];
	pid_t pids[TARGETS];
	uint8_t *rings; /* of this process */
	int target;     /* the connection of this process as a target */
	int other;      /* the connection of another client */
	char id[ID_SIZE];
} the;

static int connect_to(const char *path, int type)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	fuzz_require(fd >= 0);
	strcpy(a.sun_path, path);
	/* csightd may be starting. */
	for (unsigned n = 0; connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0; n++) {
		fuzz_require(n < HANG_MS / QUIET_MS);
		poll(NULL, 0, QUIET_MS);
	}
	return fd;
}

static int make_rings(void)
{
	int fd = memfd_create("rings", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	uint8_t *map;

	fuzz_require(fd >= 0 && ftruncate(fd, RINGS) == 0);
	map = mmap(NULL, RINGS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	fuzz_require(map != MAP_FAILED && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
	fuzz_rings(map, RINGS)[0] = (struct emu_slot){ .state = EMU_IDLE, .tid = 1, .serial = 1, .head = 1000 };
	the.rings = map;
	return fd;
}

static void send_message(int socket, uint32_t type, int fd)
{
	struct emu_message m = { .magic = EMU_MAGIC, .version = EMU_VERSION, .type = type };

	io_send_fds(socket, &m, sizeof(m), &fd, fd >= 0);
}

/* Makes this process a target. Returns the connection. */
static int become_target(void)
{
	int socket = connect_to(the.emu, SOCK_SEQPACKET), rings = make_rings();

	send_message(socket, EMU_HELLO, rings);
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
	nftw(the.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void *run_csightd(void *unused)
{
	char spool[64], decoder[64], runner[64], opener[64], config[64];
	/* Nothing outside of this process is started, and no other program is affected. */
	const char *argv[] = { "csightd",
			       "--socket",
			       the.control,
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

	snprintf(spool, sizeof(spool), "%s/spool", the.dir);
	snprintf(decoder, sizeof(decoder), "decoder=%s/none", the.dir);
	snprintf(runner, sizeof(runner), "runner=%s/none", the.dir);
	snprintf(opener, sizeof(opener), "opener=%s/none", the.dir);
	snprintf(config, sizeof(config), "%s/config", the.dir);
	fd = open(config, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	fuzz_require(fd >= 0);
	close(fd);
	csightd_main(ELEMENTS(argv) - 1, (char **)argv);
	abort();
}

/* True if fd becomes readable. libFuzzer's alarm interrupts poll(). */
static bool wait_readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n;

	while ((n = poll(&p, 1, ms)) < 0 && errno == EINTR)
		;
	return n == 1;
}

/* The other client calls a method, and gets its reply. */
static void check_alive(void)
{
	static const char call[] = "{\"method\":\"org.varlink.service.GetInfo\"}";
	char reply[1024];

	fuzz_require(write(the.other, call, sizeof(call)) == sizeof(call));
	fuzz_require(wait_readable(the.other, HANG_MS) && read(the.other, reply, sizeof(reply)) > 0);
}

static void begin(void)
{
	struct sigaction actions[NSIG];
	pthread_t thread;

	if (the.dir[0])
		return;
	strcpy(the.dir, "/dev/shm/csight-fuzz-XXXXXX");
	fuzz_require(mkdtemp(the.dir) != NULL);
	snprintf(the.control, sizeof(the.control), "%s/control", the.dir);
	snprintf(the.emu, sizeof(the.emu), "%s.emu", the.control);
	the.pids[0] = getpid();
	for (size_t i = 1; i < TARGETS; i++)
		start_child(&the.pids[i]);
	atexit(remove_dir);
	/* csightd takes signals that libFuzzer needs. */
	for (int n = 1; n < NSIG; n++)
		sigaction(n, NULL, &actions[n]);
	fuzz_require(pthread_create(&thread, NULL, run_csightd, NULL) == 0);
	the.other = connect_to(the.control, SOCK_STREAM);
	check_alive();
	for (int n = 1; n < NSIG; n++)
		sigaction(n, &actions[n], NULL);
	log_setup("fuzz", LOG_EMERG);
	signal(SIGPIPE, SIG_IGN);
	the.target = become_target();
	check_alive();
}

/* Replaces $1 to $4. */
static void expand(const char *text, size_t size, struct buf *ret)
{
	char pid[16];

	for (size_t i = 0; i < size; i++) {
		unsigned n = i + 1 < size && text[i] == '$' ? (unsigned)text[i + 1] - '1' : TARGETS + 1;

		if (n < TARGETS) {
			snprintf(pid, sizeof(pid), "%d", (int)the.pids[n]);
			buf_add(ret, pid, strlen(pid));
		} else if (n == TARGETS) {
			buf_add(ret, the.id, strlen(the.id));
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

	if (at && strlen(at) > strlen(key) + ID_SIZE) {
		memcpy(the.id, at + strlen(key), ID_SIZE - 1);
		the.id[strcspn(the.id, "\"")] = 0;
	}
}

/* Reads until csightd closes the connection, or has nothing to say. Descriptors that come are closed by the kernel. */
static void read_replies(int fd)
{
	static char reply[64 << 10];
	ssize_t n;

	while (wait_readable(fd, QUIET_MS) && (n = read(fd, reply, sizeof(reply) - 1)) > 0) {
		reply[n] = 0;
		note_id(reply);
	}
}

static void call(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct buf b = { 0 };
	int fd = connect_to(the.control, SOCK_STREAM);

	expand((const char *)data, size, &b);
	fuzz_require(buf_error(&b) == 0);
	send(fd, b.data, b.size, MSG_DONTWAIT | MSG_NOSIGNAL);
	shutdown(fd, SHUT_WR);
	read_replies(fd);
	close(fd);
}

/* The descriptor that a message has: chosen by its first byte. */
static int make_file(uint8_t kind, const uint8_t *data, size_t size)
{
	uint8_t *rings = the.rings;
	int fd;

	switch (kind) {
	case 1:
		fd = make_rings();
		munmap(the.rings, RINGS);
		the.rings = rings;
		return fd;
	case 2:
	case 3:
		fd = memfd_create("notes", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		fuzz_require(fd >= 0 && io_pwrite(fd, data, size, 0) == 0);
		fuzz_require(ftruncate(fd, kind == 2 ? sizeof(struct notes_memory) : RINGS) == 0);
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
		return fd;
	case 4:
		return open("/dev/null", O_RDONLY | O_CLOEXEC);
	case 5:
		return open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	case 6:
		return fuzz_fd(data, size);
	default:
		return -1;
	}
}

static void enter(const uint8_t *data, size_t size)
{
	int fd = connect_to(the.emu, SOCK_SEQPACKET);
	char reply[64];

	for (size_t n = 0; size > 1 && n < MESSAGES; n++) {
		size_t length = MIN(size - 1, sizeof(struct emu_message));
		int files[2] = { make_file(data[0] & 7, data + 1, size - 1), the.other };

		io_send_fds(fd, data + 1, length, files, files[0] < 0 ? 0 : 1 + (data[0] >> 7));
		closep(&files[0]);
		data += 1 + length;
		size -= 1 + length;
	}
	shutdown(fd, SHUT_WR);
	while (wait_readable(fd, QUIET_MS) && read(fd, reply, sizeof(reply)) > 0)
		;
	close(fd);
}

/* Hits, and their counts, in the rings of this process. */
static void hit(const uint8_t *data, size_t size)
{
	const struct emu_header *h = (const struct emu_header *)the.rings;
	size_t at = offsetof(struct emu_watching, held_ns);

	memcpy(the.rings + h->watching_offset + at, data, MIN(size, sizeof(struct emu_watching) - at));
	send_message(the.target, EMU_HITS, -1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2 || size > SMALL)
		return 0;
	begin();
	if (data[0] & 2)
		hit(data + 1, size - 1);
	else if (data[0] & 1)
		enter(data + 1, size - 1);
	else
		call(data + 1, size - 1);
	check_alive();
	return 0;
}

static void seed_call(const char *method, const char *parameters)
{
	char text[1024];
	int n = snprintf(text, sizeof(text), "0{\"method\":\"org.%s\",\"parameters\":%s,\"more\":true}", method,
			 parameters);

	fuzz_seed(text, (size_t)n + 1);
}

static void seed_calls(void)
{
	static const char *const calls[][2] = {
		{ "csight.Status", "{}" },
		{ "csight.ListTargets", "{\"first\":0}" },
		{ "csight.Arm", "{\"pid\":$1,\"options\":{\"kernel\":true,\"filter\":\"f\",\"mode\":\"ring\"}}" },
		{ "csight.Arm", "{\"pid\":$2}" },
		{ "csight.Disarm", "{\"pid\":$3}" },
		{ "csight.ArmStanding", "{\"rule\":{\"name\":\"p*\",\"user\":7},\"options\":{\"ringSize\":65536}}" },
		{ "csight.ArmStanding", "{\"rule\":{\"exe\":\"/bin/x\",\"unit\":\"a.service\",\"cgroup\":\"/a\"}}" },
		{ "csight.ArmStanding", "{\"rule\":{\"tree\":$2}}" },
		{ "csight.DisarmStanding", "{\"id\":1}" },
		{ "csight.ListStanding", "{\"first\":0}" },
		{ "csight.Snapshot", "{\"pid\":$1,\"noWait\":true}" },
		{ "csight.Snapshot", "{\"pid\":$1,\"with\":[$2,$3],\"noWait\":true,\"why\":\"w\",\"last\":5,"
				     "\"labels\":[{\"name\":\"group\",\"value\":\"v\"}]}" },
		{ "csight.Snapshot", "{\"pid\":$2,\"with\":[$2,$2,$1],\"noArm\":true}" },
		{ "csight.Snapshot", "{\"pid\":$1,\"with\":[1]}" },
		{ "csight.Wait", "{\"id\":\"$4\"}" },
		{ "csight.ListSnapshots", "{\"first\":1}" },
		{ "csight.GetSnapshot", "{\"id\":\"$4\"}" },
		{ "csight.Open", "{\"id\":\"$4\",\"file\":\"perfdata\"}" },
		{ "csight.Open", "{\"id\":\"$4\",\"file\":\"store\"}" },
		{ "csight.Keep", "{\"id\":\"$4\",\"keep\":true}" },
		{ "csight.Remove", "{\"id\":\"$4\"}" },
		{ "csight.Watch", "{\"pid\":$1,\"trigger\":\"function work longer-than 5ms every 10s group tree\","
				  "\"places\":[{\"address\":\"0x1000\",\"size\":16,\"inode\":7,\"device\":\"8:1\","
				  "\"ends\":[\"0x1010\"],\"loops\":true}]}" },
		{ "csight.Watch", "{\"pid\":$1,\"trigger\":\"signal SEGV once group cgroup keep 3 min-history 1ms\"}" },
		{ "csight.Watch",
		  "{\"pid\":$2,\"trigger\":\"syscall read longer-than p99 max 5 exec \\\"echo x\\\"\"}" },
		{ "csight.Watch", "{\"pid\":$3,\"trigger\":\"address 0x400000 after 1s group unit\"}" },
		{ "csight.Watch", "{\"pid\":$3,\"trigger\":\"exit-status 3\"}" },
		{ "csight.Watch", "{\"pid\":$1,\"trigger\":\"crash or address 0x400000 or function f\","
				  "\"places\":[{\"address\":\"0x1000\",\"condition\":2}]}" },
		{ "csight.Watch",
		  "{\"pid\":$3,\"trigger\":\"signal 10 and address 0x400000 and function f within 5ms max 0\","
		  "\"places\":[{\"address\":\"0x1000\",\"condition\":2}]}" },
		{ "csight.ListTriggers", "{}" },
		{ "csight.SetTrigger", "{\"id\":1,\"enabled\":false}" },
		{ "csight.RemoveTrigger", "{\"id\":1}" },
		{ "csight.Subscribe", "{}" },
		{ "csight.Pause", "{\"pause\":false}" },
		{ "csight.Reload", "{}" },
		{ "varlink.service.GetInfo", "{}" },
		{ "varlink.service.GetInterfaceDescription", "{\"interface\":\"org.csight\"}" },
	};
	static const char two[] =
	    "0{\"method\":\"org.csight.Watch\",\"parameters\":{\"pid\":$1,\"trigger\":\"crash\"}}\0"
	    "{\"method\":\"org.csight.Subscribe\",\"more\":true,\"oneway\":true}\0"
	    "{\"method\":\"org.csight.Nothing\",\"upgrade\":true}";

	for (size_t i = 0; i < ELEMENTS(calls); i++)
		seed_call(calls[i][0], calls[i][1]);
	fuzz_seed(two, sizeof(two));
}

static void seed_entry(const uint8_t *kinds, const struct emu_message *messages, size_t n)
{
	_cleanup_buf_ struct buf b = { 0 };

	buf_add(&b, "1", 1);
	for (size_t i = 0; i < n; i++) {
		buf_add(&b, &kinds[i], 1);
		buf_add(&b, &messages[i], sizeof(messages[i]));
	}
	fuzz_require(buf_error(&b) == 0);
	fuzz_seed(b.data, b.size);
}

void fuzz_seeds(void)
{
	static const struct emu_message messages[] = {
		{ .magic = EMU_MAGIC, .version = EMU_VERSION, .type = EMU_HELLO },
		{ .magic = EMU_MAGIC, .version = EMU_VERSION, .type = EMU_FILE, .value = 1 },
		{ .magic = EMU_MAGIC, .version = EMU_VERSION, .type = EMU_HITS },
	};
	static const struct emu_message notes = { .magic = NOTES_MAGIC, .version = NOTES_VERSION };
	static uint8_t hits[4096] = { 2 };
	struct emu_hit h = { .number = 1, .trigger = 1, .tid = 1, .time_ns = 7, .value = 9 };
	uint64_t one = 1;

	seed_calls();
	seed_entry((const uint8_t[]){ 1, 5, 0 }, messages, ELEMENTS(messages));
	seed_entry((const uint8_t[]){ 1, 4, 6 | 0x80 }, messages, ELEMENTS(messages));
	seed_entry((const uint8_t[]){ 3, 0, 0 }, messages, ELEMENTS(messages));
	seed_entry((const uint8_t[]){ 2 }, &notes, 1);
	seed_entry((const uint8_t[]){ 6 }, &notes, 1);
	memcpy(hits + 1 + offsetof(struct emu_watching, n_hits) - offsetof(struct emu_watching, held_ns), &one, 8);
	memcpy(hits + 1 + offsetof(struct emu_watching, hits) - offsetof(struct emu_watching, held_ns), &h, sizeof(h));
	fuzz_seed(hits, sizeof(hits));
}
