/* SPDX-License-Identifier: MIT */
/* daemon: registration, freezes and copies of programs that obey lib/emu/ring.h, and of programs that do not. */
#include "config.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "lib/base/io.h"
#include "lib/perfdata/read.h"
#include "tests/daemon/help.h"
#include "tests/unit.h"

static struct tested tested;

/* Makes a snapshot of this process. Returns its id, or "". */
static const char *snapshot(struct varlink_reply *reply)
{
	char parameters[64];
	const char *error, *id = "";
	json_object *o;

	snprintf(parameters, sizeof(parameters), "{\"pid\": %d, \"noWait\": true}", (int)getpid());
	error = tested_call(&tested, "Snapshot", parameters, reply);
	if (error[0])
		printf("# %s %s\n", error, json_object_to_json_string(reply->parameters));
	else if (json_get(reply->parameters, "snapshot", json_type_object, &o) == 0)
		json_get_str(o, "id", &id);
	return id;
}

/* Returns whether every stream of a snapshot counts up without a gap. *ret_words: words in all streams. */
static bool counts_up(const char *id, size_t *ret_pieces, uint64_t *ret_words)
{
	const struct pd_contents *contents;
	struct pd_problem problem;
	struct pd_file *file;
	char path[256];
	bool good = true;
	int fd;

	*ret_pieces = *ret_words = 0;
	snprintf(path, sizeof(path), "%s/%s/trace.perf.data", tested.spool, id);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || pd_open(fd, &file, &contents, &problem) < 0)
		return false;
	for (size_t n = 0; n < contents->n_pieces; n++) {
		const struct pd_piece *piece = &contents->pieces[n];
		uint64_t *words = malloc(piece->size);

		/* A size that is no multiple of 8 would be a cut within a word. */
		good =
		    good && piece->size % 8 == 0 && pd_read(file, piece, 0, words, piece->size) == (ssize_t)piece->size;
		for (uint64_t i = 1; good && i < piece->size / 8; i++)
			if (words[i] != words[i - 1] + 1) {
				printf("# thread %u: %" PRIu64 " follows %" PRIu64 "\n", piece->tid, words[i],
				       words[i - 1]);
				good = false;
			}
		*ret_words += piece->size / 8;
		free(words);
	}
	*ret_pieces = contents->n_pieces;
	pd_close(file);
	close(fd);
	return good;
}

static void test_freezes(void)
{
	struct varlink_reply reply;
	uint64_t words, all = 0;
	size_t pieces;
	struct fake f;
	int good = 0, n;

	fake_make(&f);
	CHECK_EQ(fake_hello(&f, &tested), 0);
	fake_run(&f, FAKE_RINGS, true);
	for (n = 0; n < FAKE_RINGS; n++)
		while (atomic_load(&fake_slot(&f, (unsigned)n)->head) == 0)
			usleep(1000);
	for (n = 0; n < 200; n++) {
		const char *id = snapshot(&reply);

		if (!id[0] || !counts_up(id, &pieces, &words) || pieces != FAKE_RINGS)
			break;
		all += words;
		good++;
		varlink_reply_done(&reply);
	}
	CHECK_EQ(good, 200);
	CHECK(all > 200);
	fake_done(&f);
}

static void test_disobedient(void)
{
	struct varlink_reply reply;
	json_object *o = NULL, *missing = NULL;
	uint64_t words;
	size_t pieces;
	struct fake f;
	const char *id;

	fake_make(&f);
	CHECK_EQ(fake_hello(&f, &tested), 0);
	fake_run(&f, 2, false);
	while (atomic_load(&fake_slot(&f, 0)->head) == 0 || atomic_load(&fake_slot(&f, 1)->head) == 0)
		usleep(1000);
	id = snapshot(&reply);
	CHECK(id[0] && counts_up(id, &pieces, &words));
	CHECK(json_get(reply.parameters, "snapshot", json_type_object, &o) == 0 &&
	      json_get(o, "missing", json_type_array, &missing) == 0 && json_object_array_length(missing) == 2);
	varlink_reply_done(&reply);
	fake_done(&f);
}

static void test_disarm(void)
{
	struct varlink_reply reply;
	char pid[64], no_arm[64];
	uint64_t words = 0, before;
	size_t pieces;
	struct fake f;
	const char *id;

	snprintf(pid, sizeof(pid), "{\"pid\": %d}", (int)getpid());
	snprintf(no_arm, sizeof(no_arm), "{\"pid\": %d, \"noArm\": true}", (int)getpid());
	fake_make(&f);
	CHECK_EQ(fake_hello(&f, &tested), 0);
	fake_run(&f, 1, true);
	while (atomic_load(&fake_slot(&f, 0)->head) < FAKE_RING_SIZE)
		usleep(1000);
	CHECK_STR(tested_error(&tested, "Disarm", pid), "");
	before = atomic_load(&fake_slot(&f, 0)->head);
	usleep(20000);
	CHECK_EQ(atomic_load(&fake_slot(&f, 0)->head), before);
	CHECK_STR(tested_error(&tested, "Disarm", pid), "org.csight.NotArmed");
	CHECK_STR(tested_error(&tested, "Snapshot", no_arm), "org.csight.NotArmed");
	/* The snapshot arms the process, and holds nothing from before. */
	id = snapshot(&reply);
	CHECK(id[0] && counts_up(id, &pieces, &words) && words > 0);
	CHECK(words <= (atomic_load(&fake_slot(&f, 0)->head) - before) / 8);
	varlink_reply_done(&reply);
	CHECK_STR(tested_error(&tested, "Arm", pid), "");
	fake_done(&f);
}

/* The history of a process that was killed is still available. */
static void test_gone(void)
{
	char parameters[64];
	int pipes[2], status;
	char byte;
	pid_t pid;

	CHECK(pipe(pipes) == 0);
	pid = fork();
	if (pid == 0) {
		struct fake f;

		fake_make(&f);
		byte = fake_hello(&f, &tested) == 0 ? 'y' : 'n';
		fake_run(&f, 2, true);
		while (atomic_load(&fake_slot(&f, 1)->head) == 0 || atomic_load(&fake_slot(&f, 0)->head) == 0)
			usleep(1000);
		(void)!write(pipes[1], &byte, 1);
		pause();
		_exit(0);
	}
	CHECK(read(pipes[0], &byte, 1) == 1 && byte == 'y');
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	snprintf(parameters, sizeof(parameters), "{\"pid\": %d, \"noWait\": true}", (int)pid);
	CHECK_STR(tested_error(&tested, "Snapshot", parameters), "");
	CHECK_STR(tested_error(&tested, "Disarm", parameters), "");
	CHECK_STR(tested_error(&tested, "Disarm", parameters), "org.csight.NoSuchProcess");
	close(pipes[0]);
	close(pipes[1]);
}

static pid_t fork_program(void)
{
	int pipes[2];
	pid_t pid;
	char byte;

	CHECK(pipe(pipes) == 0);
	pid = fork();
	if (pid == 0) {
		struct fake f;

		fake_make(&f);
		byte = fake_hello(&f, &tested) == 0 ? 'y' : 'n';
		(void)!write(pipes[1], &byte, 1);
		pause();
		_exit(0);
	}
	CHECK(read(pipes[0], &byte, 1) == 1 && byte == 'y');
	close(pipes[0]);
	close(pipes[1]);
	return pid;
}

/* Returns the number of targets on a page, and the first one's process ID and number of the next page. */
static size_t list_page(uint64_t first, int64_t *ret_pid, uint64_t *ret_next)
{
	struct varlink_reply reply;
	json_object *list = NULL;
	char parameters[64];
	size_t n = 0;

	snprintf(parameters, sizeof(parameters), "{\"first\": %llu}", (unsigned long long)first);
	CHECK_STR(tested_call(&tested, "ListTargets", parameters, &reply), "");
	*ret_pid = 0;
	*ret_next = 0;
	if (CHECK(json_get(reply.parameters, "targets", json_type_array, &list) == 0)) {
		n = json_object_array_length(list);
		json_get_i64(json_object_array_get_idx(list, 0), "pid", ret_pid);
	}
	json_get_u64(reply.parameters, "next", ret_next);
	varlink_reply_done(&reply);
	return n;
}

/* A target that goes while a caller reads a list page by page hides no other. */
static void test_pages(void)
{
	enum { PROGRAMS = 18, PAGE = 16 };
	pid_t pids[PROGRAMS];
	uint64_t next, end;
	int64_t pid;

	for (unsigned i = 0; i < PROGRAMS; i++)
		pids[i] = fork_program();
	CHECK_EQ(list_page(0, &pid, &next), PAGE);
	CHECK(pid == pids[0] && next);
	kill(pids[0], SIGKILL);
	waitpid(pids[0], NULL, 0);
	for (unsigned i = 0; i < 1000 && list_page(0, &pid, &end) == PAGE && pid == pids[0]; i++)
		usleep(1000);
	CHECK_EQ(pid, pids[1]);
	CHECK_EQ(list_page(next, &pid, &end), PROGRAMS - PAGE);
	CHECK(pid == pids[PAGE] && !end);
	for (unsigned i = 1; i < PROGRAMS; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
}

/* A spool at its limit: the oldest snapshots are removed, the newest one stays. */
static void test_quota(void)
{
	struct varlink_reply reply;
	json_object *list = NULL;
	char id[64] = "", parameters[128];
	uint64_t bytes = UINT64_MAX;
	struct fake f;

	fake_make(&f);
	CHECK_EQ(fake_hello(&f, &tested), 0);
	fake_run(&f, FAKE_RINGS, true);
	for (int n = 0; n < 40; n++) {
		while (atomic_load(&fake_slot(&f, 0)->head) < FAKE_RING_SIZE)
			usleep(1000);
		snprintf(id, sizeof(id), "%s", snapshot(&reply));
		varlink_reply_done(&reply);
		snprintf(parameters, sizeof(parameters), "{\"id\": \"%s\"}", id);
		if (!id[0] || tested_error(&tested, "Wait", parameters)[0])
			break;
	}
	fake_done(&f);
	CHECK_STR(tested_call(&tested, "ListSnapshots", NULL, &reply), "");
	if (CHECK(json_get(reply.parameters, "snapshots", json_type_array, &list) == 0)) {
		size_t n = json_object_array_length(list);
		const char *last = NULL;

		CHECK(n > 1 && n < 20);
		CHECK(json_get_str(json_object_array_get_idx(list, n - 1), "id", &last) == 0);
		CHECK_STR(last, id);
	}
	varlink_reply_done(&reply);
	CHECK_STR(tested_call(&tested, "Status", NULL, &reply), "");
	CHECK(json_get_u64(reply.parameters, "spoolBytes", &bytes) == 0 && bytes <= 2 << 20);
	varlink_reply_done(&reply);
}

struct invalid_field {
	const char *what;
	size_t at, size;
	uint64_t value;
	int answer; /* 0: any error */
};

#define INVALID(field, value)                                                                                     \
	{                                                                                                         \
#field " = " #value, offsetof(struct emu_header, field), sizeof(((struct emu_header *)0)->field), \
		    value, 0                                                                                      \
	}

static void test_invalid_headers(void)
{
	static const struct invalid_field fields[] = {
		INVALID(magic, 0),
		INVALID(version, EMU_VERSION - 1),
		INVALID(version, EMU_VERSION + 1),
		INVALID(header_size, 0),
		INVALID(header_size, UINT32_MAX),
		INVALID(total_size, 0),
		INVALID(total_size, UINT64_MAX),
		INVALID(n_rings, 0),
		INVALID(n_rings, FAKE_RINGS + 1),
		INVALID(n_rings, EMU_RINGS_MAX),
		INVALID(n_rings, UINT32_MAX),
		INVALID(slot_size, 0),
		INVALID(slot_size, 8),
		INVALID(slot_size, sizeof(struct emu_slot) + 4),
		INVALID(slot_size, UINT32_MAX),
		INVALID(watching_offset, 0),
		INVALID(watching_offset, sizeof(struct emu_header) + 4),
		INVALID(watching_offset, sizeof(struct emu_header) + 8),
		INVALID(watching_offset, UINT64_MAX - 7),
		INVALID(slots_offset, 0),
		INVALID(slots_offset, 8),
		INVALID(slots_offset, sizeof(struct emu_header) + 4),
		INVALID(slots_offset, UINT64_MAX - 7),
		INVALID(slots_offset, 1ull << 62),
		INVALID(log_offset, 0),
		INVALID(log_offset, UINT64_MAX),
		INVALID(log_size, FAKE_LOG_SIZE * 2),
		INVALID(log_size, UINT64_MAX),
		INVALID(rings_offset, 0),
		INVALID(rings_offset, UINT64_MAX),
		INVALID(rings_offset, 1ull << 63),
		INVALID(ring_size, 0),
		INVALID(ring_size, FAKE_RING_SIZE * 2),
		INVALID(ring_size, FAKE_RING_SIZE - 1),
		INVALID(ring_size, 1ull << 62),
		INVALID(ring_size, UINT64_MAX),
		INVALID(cmdline_size, EMU_CMDLINE_SIZE + 1),
		INVALID(cmdline_size, UINT32_MAX),
	};

	for (size_t n = 0; n < ELEMENTS(fields); n++) {
		struct fake f;
		int answer;

		fake_make(&f);
		memcpy(f.map + fields[n].at, &fields[n].value, fields[n].size);
		answer = fake_hello(&f, &tested);
		unit_check(answer < 0 && answer != -EPROTO, __FILE__, __LINE__, "a header with %s is refused (%d)",
			   fields[n].what, answer);
		fake_done(&f);
	}
}

static void test_wrong_memory(void)
{
	struct emu_message m = { .magic = EMU_MAGIC, .version = EMU_VERSION, .type = EMU_HELLO };
	char path[128];
	struct fake f;
	int fd;

	fake_make(&f);
	CHECK_EQ(fake_hello_sealed(&f, &tested, 0), -EPERM);
	fake_done(&f);
	fake_make(&f);
	CHECK_EQ(fake_hello_sealed(&f, &tested, F_SEAL_SHRINK), -EPERM);
	fake_done(&f);
	fake_make(&f);
	CHECK(ftruncate(f.memfd, 100) == 0);
	f.header = NULL;
	CHECK_EQ(fake_hello(&f, &tested), -EBADMSG);
	fake_done(&f);
	/* Descriptors of other types. */
	for (int n = 0; n < 3; n++) {
		fake_make(&f);
		close(f.memfd);
		f.memfd = n == 0   ? open("/dev/zero", O_RDWR | O_CLOEXEC)
			  : n == 1 ? open("/", O_RDONLY | O_CLOEXEC)
				   : socket(AF_UNIX, SOCK_STREAM, 0);
		CHECK_EQ(fake_hello_sealed(&f, &tested, 0), -EPERM);
		fake_done(&f);
	}
	/* A registration without a descriptor, and one that is too short. */
	snprintf(path, sizeof(path), "%s.emu", tested.socket);
	fd = tested_connect(path, SOCK_SEQPACKET);
	CHECK(send(fd, &m, sizeof(m), 0) == (ssize_t)sizeof(m) && recv(fd, &m, sizeof(m), 0) == (ssize_t)sizeof(m) &&
	      m.value == -EBADMSG);
	close(fd);
	fd = tested_connect(path, SOCK_SEQPACKET);
	CHECK(send(fd, &m, 3, 0) == 3 && recv(fd, &m, sizeof(m), 0) == 0);
	close(fd);
}

/* The daemon survives invalid slots, heads and logs that appear after the registration. */
static void test_invalid_memory(void)
{
	static const uint64_t heads[] = { UINT64_MAX, UINT64_MAX - 7, 1ull << 63, FAKE_RING_SIZE + 1, 1 };
	struct emu_record_map *map;
	struct varlink_reply reply;
	struct fake f;

	fake_make(&f);
	CHECK_EQ(fake_hello(&f, &tested), 0);
	for (size_t n = 0; n < ELEMENTS(heads); n++) {
		struct emu_slot *slot = fake_slot(&f, n % FAKE_RINGS);

		memset(slot->name, 0xff, sizeof(slot->name));
		slot->serial = (uint32_t)n;
		atomic_store(&slot->state, 0xffffffff - (uint32_t)n);
		atomic_store(&slot->head, heads[n]);
		atomic_store(&slot->pending, UINT64_MAX);
		atomic_store(&f.header->control, 0x1234567 + (uint32_t)n);
		unit_check(snapshot(&reply)[0] != 0, __FILE__, __LINE__,
			   "a snapshot with the head %#" PRIx64 " succeeds", heads[n]);
		varlink_reply_done(&reply);
	}
	atomic_store(&f.header->log_head, UINT64_MAX);
	CHECK(snapshot(&reply)[0] != 0);
	varlink_reply_done(&reply);
	/* A log of zeros; a record larger than the log; a path without a NUL; invalid sizes of build-id and code. */
	atomic_store(&f.header->log_head, 4096);
	for (int n = 0; n < 5; n++) {
		map = (struct emu_record_map *)(f.map + f.header->log_offset);
		map->head = (struct emu_record){ .type = EMU_REC_MAP, .size = n == 0 ? 0 : n == 1 ? 0xfffffff8 : 4096 };
		memset(map + 1, n == 2 ? 'a' : 0, 4096 - sizeof(*map));
		map->build_id_size = n == 3 ? 255 : 0;
		if (n == 4) {
			struct emu_record_code *code = (struct emu_record_code *)map;

			code->head.type = EMU_REC_CODE;
			code->len = UINT64_MAX;
		}
		unit_check(snapshot(&reply)[0] != 0, __FILE__, __LINE__, "a snapshot with the invalid log %d succeeds",
			   n);
		varlink_reply_done(&reply);
	}
	/* The daemon drops descriptors of directories, and accepts repeated ids. */
	for (int n = 0; n < 3000; n++) {
		struct emu_message m = { .magic = EMU_MAGIC, .version = EMU_VERSION, .type = EMU_FILE, .value = n % 7 };
		int fd = open(n % 3 ? "/proc/self/exe" : "/", O_RDONLY | O_CLOEXEC);

		io_send_fds(f.socket, &m, sizeof(m), &fd, 1);
		close(fd);
	}
	CHECK(snapshot(&reply)[0] != 0);
	varlink_reply_done(&reply);
	fake_done(&f);
}

static void test_limits(void)
{
	struct fake f[40];
	int accepted = 0, refused = 0, silent[200], n;
	char path[128];

	for (n = 0; n < (int)ELEMENTS(f); n++) {
		fake_make(&f[n]);
		/* A process may register again, as after execve(): this counts connections. */
		if (fake_hello(&f[n], &tested) == 0)
			accepted++;
		else
			refused++;
	}
	CHECK(accepted == (int)ELEMENTS(f) && refused == 0);
	for (n = 0; n < (int)ELEMENTS(f); n++)
		fake_done(&f[n]);
	snprintf(path, sizeof(path), "%s.emu", tested.socket);
	for (n = 0; n < (int)ELEMENTS(silent); n++)
		silent[n] = tested_connect(path, SOCK_SEQPACKET);
	/* The daemon closes the files of ended programs asynchronously. */
	for (n = 0; n < 1000 && tested_descriptors(&tested) >= 150; n++)
		usleep(10000);
	CHECK(tested_descriptors(&tested) < 150);
	for (n = 0; n < (int)ELEMENTS(silent); n++)
		close(silent[n]);
}

/* Waits until the daemon has closed the files of ended targets and of decodes. Returns its open descriptors. */
static int settled_descriptors(int want)
{
	int n = 0;

	for (int i = 0; i < 3000; i++) {
		n = tested_descriptors(&tested);
		if (n <= want)
			break;
		usleep(20000);
	}
	return n;
}

int main(void)
{
	static const char *const options[] = { "--set=history-targets=0", "--set=snapshots-per-user=1000", NULL };
	static const char *const history[] = { "--spool-max=2M", NULL };
	int before, after;
	long memory;

	tested_start(&tested, options);
	/* The first run allocates what the daemon keeps: malloc arenas, event tables. */
	test_invalid_headers();
	test_invalid_memory();
	before = settled_descriptors(0);
	memory = tested_memory(&tested);
	test_invalid_headers();
	test_wrong_memory();
	test_invalid_memory();
	test_limits();
	test_freezes();
	test_disobedient();
	test_disarm();
	test_pages();
	after = settled_descriptors(before);
	if (!CHECK(after <= before))
		printf("# descriptors before %d, after %d\n", before, after);
	printf("# resident before %ld KiB, after %ld KiB\n", memory, tested_memory(&tested));
	if (TESTED_SANITIZED)
		unit_skip("memory has not grown", "a sanitizer keeps freed memory");
	else
		CHECK(tested_memory(&tested) < memory + 8192);
	CHECK_EQ(tested_end(&tested), 0);
	/* A new spool: snapshots in the first one may still wait for their decode, and cannot be removed. */
	snprintf(tested.spool, sizeof(tested.spool), "%s/small", tested.dir);
	tested_start_again(&tested, history);
	test_gone();
	test_quota();
	CHECK_EQ(tested_end(&tested), 0);
	tested_clean(&tested);
	return unit_end();
}
