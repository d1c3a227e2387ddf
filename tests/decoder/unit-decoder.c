/* SPDX-License-Identifier: MIT */
/* lib/decoder and csight-decode: a job from start to result, invalid messages, crashes and exits of either side. */
#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "daemon/decode/cage.h"
#include "daemon/decode/job.h"
#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "lib/code/captured-code.h"
#include "lib/perfdata/sums.h"
#include "lib/perfdata/write.h"
#include "lib/decoder/decoder.h"
#include "tests/unit.h"

enum { PID = 4000, BASE = 0x400000 };

static const char wanted[] = "# thread 4000\n"
			     "10 no-sync init\n"
			     "10 trace-on begin\n"
			     "10 context A64 EL0 N 64\n"
			     "10 range 400000 40000c 3 A64 E br\n"
			     "10 range 400008 40000c 1 A64 E br\n"
			     "10 timestamp 5\n"
			     "10 range 400008 40000c 1 A64 N br\n"
			     "10 no-image 500000\n"
			     "10 end end\n";

/* Writes a perf.data with these bytes of trace of one thread, and a mapping of its code. */
static int write_input(const uint8_t *trace, size_t size)
{
	struct pd_cpu cpu = { PD_MAGIC_ETMV4, 0, 7, { 0x801, 0x10, 0x28000ea1, 0x4100f403, 0x488, 0, 0xcc } };
	struct pd_session session = { .pmu_type = 8, .cpus = &cpu, .n_cpus = 1 };
	struct pd_map map = {
		.pid = PID, .tid = PID, .addr = BASE, .len = 0x1000, .prot = 5, .path = "/no/such/program"
	};
	struct pd_aux aux = { 0, size, PD_AUX_RAW, PID, PID, UINT32_MAX, 10 };
	struct pd_buffer buffer = { .size = size, .reference = 1, .tid = PID, .cpu = UINT32_MAX };
	int fd = memfd_create("input", MFD_CLOEXEC);
	struct pd_writer *w;

	if (fd < 0 || pd_write_begin(fd, &session, &w) < 0)
		return -1;
	pd_write_comm(w, PID, PID, "prog", true, 1);
	pd_write_map(w, &map);
	pd_write_aux(w, &aux);
	pd_write_buffer(w, &buffer);
	pd_write_bytes(w, trace, size);
	if (pd_write_end(w) < 0)
		closep(&fd);
	pd_writer_free(w);
	return fd;
}

#define START_OF_TRACE                                             \
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80,    /* A-sync */     \
	    0x01, 0x00,                           /* trace info */ \
	    0x04,                                 /* trace on */   \
	    0x85, 0, 0, 0x40, 0, 0, 0, 0, 0, 0x30 /* address 0x400000, context */

/* A program of two instructions and a branch to itself. */
static int program_input(void)
{
	static const uint8_t trace[] = {
		START_OF_TRACE, 0xf7, 0xf7,                            /* E, E */
		0x02,           0x05,                                  /* timestamp */
		0xf6,                                                  /* N */
		0x9d,           0,    0,    0x50, 0, 0, 0, 0, 0, 0xf7, /* an address without code */
	};

	return write_input(trace, sizeof(trace));
}

static int write_code(void)
{
	static const uint32_t code[] = { 0xd503201f, 0xd503201f, 0x14000000 };
	int fd = memfd_create("code", MFD_CLOEXEC);

	return fd >= 0 && io_write(fd, code, sizeof(code)) == 0 ? fd : -1;
}

static int begin(int server, uint64_t id, int input, const char *format, int output)
{
	struct decoder_start start = { "perf.data", input, -1, -1, &format, &output, 1, NULL, NULL };
	int job = -1;

	CHECK_EQ(decoder_submit(server, id, &job), 0);
	CHECK_EQ(decoder_start(job, &start), 0);
	return job;
}

/* Receives the next event other than progress. */
static int next(int job, struct decoder_event *e)
{
	int rc;

	while ((rc = decoder_receive(job, 0, e)) == 0 && e->type == DECODER_PROGRESS)
		decoder_event_done(e);
	return rc;
}

static void test_job(int server)
{
	_cleanup_close_ int input = program_input(), code = write_code(), output = memfd_create("output", MFD_CLOEXEC);
	_cleanup_close_ int job = begin(server, 41, input, "elements", output);
	struct decoder_event e = { 0 };
	char text[1024] = "";
	uint64_t n = 0, id = 0;
	int status = -1;

	CHECK_EQ(next(job, &e), 0);
	CHECK_EQ(e.type, DECODER_IMAGE);
	CHECK_STR(e.path, "/no/such/program");
	CHECK(e.build_id == NULL);
	CHECK_EQ(decoder_reply_image(job, e.index, code, NULL), 0);
	decoder_event_done(&e);
	CHECK_EQ(next(job, &e), 0);
	CHECK_EQ(e.type, DECODER_RESULT);
	CHECK(json_get_u64(e.body, "instructions", &n) == 0 && n == 5);
	CHECK(json_get_u64(e.body, "ranges", &n) == 0 && n == 3);
	decoder_event_done(&e);
	CHECK_EQ(next(job, &e), -EPIPE);
	CHECK(decoder_receive_end(server, 0, &id, &status) == 0 && id == 41 && status == 0);
	CHECK(pread(output, text, sizeof(text) - 1, 0) > 0);
	CHECK_STR(text, wanted);
}

enum jitdump_kind { JITDUMP_NONE, JITDUMP_GOOD, JITDUMP_CUT, JITDUMP_DAMAGED };

/* A jitdump of a program that generates code at BASE + 8 at time 4; the shift of its clock is 2. */
static int write_jitdump(const void *code, size_t size)
{
	static const uint32_t header[10] = { 0x4a695444, 1, sizeof(header) };
	_cleanup_buf_ struct buf b = { 0 };
	int fd = memfd_create("jitdump", MFD_CLOEXEC);

	buf_add(&b, header, sizeof(header));
	buf_u32(&b, 0);
	buf_u32(&b, (uint32_t)(16 + 40 + 2 + size));
	buf_u64(&b, 4);
	buf_u64(&b, PID);
	buf_u64(&b, BASE + 8);
	buf_u64(&b, BASE + 8);
	buf_u64(&b, size);
	buf_u64(&b, 1);
	buf_add(&b, "f", 2);
	buf_add(&b, code, size);
	CHECK_EQ(io_write(fd, b.data, b.size), 0);
	return fd;
}

/* The snapshot.json for a jitdump. */
static json_object *snapshot_of_jitdump(int fd, enum jitdump_kind kind)
{
	json_object *o = json_object_new_object(), *jitdump = json_object_new_object();
	uint32_t crc = 0;

	CHECK_EQ(sums_file(fd, UINT64_MAX, &crc), 0);
	json_add_u64(o, "pid", PID);
	json_add_i64(jitdump, "clock_shift", 2);
	json_add_u64(jitdump, "crc32", kind == JITDUMP_DAMAGED ? crc ^ 1 : crc);
	if (kind == JITDUMP_CUT)
		json_add_bool(jitdump, "cut", true);
	json_object_object_add(o, "jitdump", jitdump);
	return o;
}

/*
 * Code that changes at time 6, in a stream with timestamps: the engine must not use code that it read before. OpenCSD
 * caches pages; both versions of the code are in one page.
 */
static void test_code_in_time(int server, enum jitdump_kind kind)
{
	static const uint8_t trace[] = {
		START_OF_TRACE, 0x02, 0x05, 0xf7, 0xf7, 0x02, 0x06, 0xf7, 0xf7,
	};
	static const uint32_t old[] = { 0xd503201f, 0xd503201f, 0x14000000 }, new[] = { 0xd503201f, 0x17ffffff };
	const struct {
		struct captured_code_header header;
		struct captured_code_piece first;
		uint32_t old[4];
		struct captured_code_piece second;
		uint32_t new[2];
	} blob = { { CAPTURED_CODE_MAGIC, 0 },
		   { 0, BASE, sizeof(old) },
		   { old[0], old[1], old[2] },
		   { 6, BASE + 8, sizeof(new) },
		   { new[0], new[1] } };
	_cleanup_close_ int input = write_input(trace, sizeof(trace)), code = memfd_create("code", MFD_CLOEXEC),
			    output = memfd_create("output", MFD_CLOEXEC), jitdump = -1, job = -1;
	const char *format = "pcs";
	struct decoder_start start = { "perf.data", input, code, -1, &format, &output, 1, NULL, NULL };
	struct decoder_event e = { 0 };
	char text[1024] = "";
	uint64_t id;
	int status;

	CHECK_EQ(io_write(code, &blob, kind == JITDUMP_NONE ? sizeof(blob) : offsetof(typeof(blob), second)), 0);
	if (kind != JITDUMP_NONE) {
		jitdump = write_jitdump(new, sizeof(new));
		start.jitdump_fd = jitdump;
		start.snapshot = snapshot_of_jitdump(jitdump, kind);
	}
	CHECK_EQ(decoder_submit(server, 43, &job), 0);
	CHECK_EQ(decoder_start(job, &start), 0);
	if (kind != JITDUMP_DAMAGED) {
		CHECK(next(job, &e) == 0 && e.type == DECODER_IMAGE);
		/* A reason may have the name of a file, which is no valid UTF-8. */
		decoder_reply_image(job, e.index, -1, "no file \xff");
		decoder_event_done(&e);
	}
	CHECK_EQ(next(job, &e), 0);
	if (kind == JITDUMP_DAMAGED) {
		CHECK(e.type == DECODER_FAILED && strstr(e.reason, "captured code is damaged"));
		decoder_event_done(&e);
		CHECK(decoder_receive_end(server, 0, &id, &status) == 0 && status != 0);
		return;
	}
	CHECK_EQ(e.type, DECODER_RESULT);
	CHECK_EQ(strstr(json_object_to_json_string(e.body), "jitdump is cut") != NULL, kind == JITDUMP_CUT);
	decoder_event_done(&e);
	CHECK(decoder_receive_end(server, 0, &id, &status) == 0 && status == 0);
	CHECK(pread(output, text, sizeof(text) - 1, 0) > 0);
	CHECK_STR(text, "# thread 4000\n400000\n400004\n400008\n400008\n400008\n40000c\n400008\n40000c\n");
}

/* The start message has those members of snapshot.json that csight-decode uses. */
static void test_snapshot_members(void)
{
	_cleanup_json_ json_object *snapshot = json_object_new_object();
	_cleanup_close_ int input = memfd_create("input", MFD_CLOEXEC);
	const struct decoder_start start = {
		.input = "perf.data", .input_fd = input, .code_fd = -1, .jitdump_fd = -1, .snapshot = snapshot
	};
	_cleanup_json_ json_object *o = NULL;
	json_object *sent = NULL;
	char text[1024];
	int pair[2];
	int64_t shift = 0;
	ssize_t n;

	json_add_str(snapshot, "clock", "perf");
	json_add_i64(snapshot, "clock_shift", -5);
	json_add_str(snapshot, "images", "");
	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	CHECK_EQ(decoder_start(pair[0], &start), 0);
	n = recv(pair[1], text, sizeof(text), 0);
	CHECK(n > 0 && json_parse(text, (size_t)n, &o) == 0 && json_get(o, "snapshot", json_type_object, &sent) == 0);
	CHECK(sent && json_get_i64(sent, "clock_shift", &shift) == 0 && shift == -5);
	CHECK(sent && !json_object_object_get_ex(sent, "images", NULL));
	close(pair[0]);
	close(pair[1]);
}

static bool fd_name(int fd, char ret[64])
{
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, ret, 63);
	if (n >= 0)
		ret[n] = 0;
	return n >= 0;
}

/* The description of a snapshot that is too long for a message is in a file: nothing of it is left out. */
static void test_many_threads(bool described)
{
	_cleanup_close_ int description = -1;
	_cleanup_json_ json_object *snapshot = json_object_new_object();
	_cleanup_close_ int input = memfd_create("input", MFD_CLOEXEC), output = memfd_create("output", MFD_CLOEXEC);
	const char *const format = "none";
	struct decoder_start start = { .input = "perf.data",
				       .input_fd = input,
				       .code_fd = input,
				       .jitdump_fd = -1,
				       .outputs = &format,
				       .output_fds = &output,
				       .n_outputs = 1,
				       .snapshot = snapshot };
	json_object *threads = json_object_new_array(), *intervals = json_object_new_array();
	struct decode_job j = { 0 };
	char name[64], input_name[64];
	int64_t tid = 0;
	int pair[2];

	for (int i = 0; i < DECODER_MESSAGE_MAX / 16; i++) {
		json_object *thread = json_object_new_object(), *interval = json_object_new_object();

		json_add_i64(thread, "tid", 100000 + i);
		json_add_str(thread, "name", "worker");
		json_array_add(threads, thread);
		json_add_i64(interval, "tid", 100000 + i);
		json_add_i64(interval, "from", 1000 + i);
		json_array_add(intervals, interval);
	}
	json_add(snapshot, "threads", threads);
	json_add(snapshot, "intervals", intervals);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	if (described) {
		CHECK_EQ(decoder_write_description(snapshot, &description), 0);
		start.snapshot = NULL;
		start.description = &description;
	}
	CHECK_EQ(decoder_start(pair[0], &start), 0);
	CHECK_EQ(job_receive(pair[1], &j), 0);
	CHECK(json_get(j.snapshot, "threads", json_type_array, &threads) == 0);
	CHECK(json_get(j.snapshot, "intervals", json_type_array, &intervals) == 0);
	CHECK_EQ(json_array_size(threads), DECODER_MESSAGE_MAX / 16);
	CHECK_EQ(json_array_size(intervals), DECODER_MESSAGE_MAX / 16);
	CHECK(json_get_i64(json_object_array_get_idx(intervals, 0), "tid", &tid) == 0 && tid == 100000);
	/* The descriptors beside it are where they belong. */
	CHECK(fd_name(j.input, input_name) && strstr(input_name, "input"));
	CHECK(fd_name(j.code, name) && strcmp(name, input_name) == 0);
	CHECK(j.n_outputs == 1 && fd_name(j.outputs[0].fd, name) && strstr(name, "output"));
	json_object_put(j.start);
	close(j.input);
	close(j.code);
	close(j.outputs[0].fd);
	close(pair[0]);
	close(pair[1]);
}

static void test_refused(int server)
{
	static const char *const starts[] = {
		"garbage",
		"[]",
		"{}",
		"{\"type\":\"start\"}",
		"{\"type\":\"start\",\"input\":\"perf.data\",\"outputs\":[\"none\",\"none\"]}",
		"{\"type\":\"start\",\"input\":\"perf.data\",\"outputs\":\"none\"}",
		"{\"type\":\"start\",\"input\":\"perf.data\",\"outputs\":[7]}",
		"{\"type\":\"start\",\"input\":\"perf.data\",\"outputs\":[\"none\"],\"options\":3}",
		"{\"type\":\"start\",\"input\":\"perf.data\",\"outputs\":[],\"snapshot\":true}",
		"{\"type\":\"start\",\"input\":\"perf.data\",\"outputs\":[\"nonsense\"]}",
	};

	for (size_t i = 0; i < ELEMENTS(starts); i++) {
		_cleanup_close_ int input = program_input(), job = -1;
		int fds[2] = { input, input }, status = 0;
		struct decoder_event e = { 0 };
		uint64_t id = 0;

		CHECK_EQ(decoder_submit(server, 100 + i, &job), 0);
		CHECK_EQ(io_send_fds(job, starts[i], strlen(starts[i]), fds, 2), 0);
		while (next(job, &e) == 0 && e.type == DECODER_IMAGE) {
			decoder_reply_image(job, e.index, -1, "not now");
			decoder_event_done(&e);
		}
		CHECK(e.type == DECODER_FAILED && e.reason && *e.reason);
		decoder_event_done(&e);
		CHECK(decoder_receive_end(server, 0, &id, &status) == 0 && id == 100 + i && WIFEXITED(status) &&
		      WEXITSTATUS(status) == 1);
	}
}

/* Build-ids of files of which one is an ELF file. */
static void test_build_ids(int server)
{
	_cleanup_close_ int text = write_code(), program = open(unit_built("csight-decode"), O_RDONLY | O_CLOEXEC),
			    job = -1;
	int fds[DECODER_FILES_MAX + 1], status = -1;
	struct decoder_event e = { 0 };
	json_object *list = NULL;
	uint64_t id = 0;

	for (size_t i = 0; i < ELEMENTS(fds); i++)
		fds[i] = i == 7 ? program : text;
	CHECK_EQ(decoder_submit(server, 70, &job), 0);
	CHECK_EQ(decoder_start_build_ids(job, fds, ELEMENTS(fds)), -EINVAL);
	CHECK_EQ(decoder_start_build_ids(job, fds, 0), -EINVAL);
	CHECK_EQ(decoder_start_build_ids(job, fds, DECODER_FILES_MAX), 0);
	CHECK(next(job, &e) == 0 && e.type == DECODER_RESULT);
	if (CHECK(json_get(e.body, "build_ids", json_type_array, &list) == 0 &&
		  json_object_array_length(list) == DECODER_FILES_MAX)) {
		CHECK(json_object_is_type(json_object_array_get_idx(list, 7), json_type_string));
		CHECK(json_object_array_get_idx(list, 6) == NULL && json_object_array_get_idx(list, 199) == NULL);
	}
	decoder_event_done(&e);
	CHECK_EQ(next(job, &e), -EPIPE);
	CHECK(decoder_receive_end(server, 0, &id, &status) == 0 && id == 70 && status == 0);
}

/* The server keeps the standard error for the job that it is meant for, and gives it to its child alone. */
static void test_log(int server)
{
	_cleanup_close_ int input = program_input(), output = memfd_create("output", MFD_CLOEXEC), mine = -1, job = -1;
	struct decoder_event e = { 0 };
	int fds[2], status = 0;
	struct pollfd p;
	uint64_t id = 0;

	if (!CHECK(pipe2(fds, O_CLOEXEC) == 0))
		return;
	mine = fds[0];
	p = (struct pollfd){ .fd = mine, .events = POLLIN };
	CHECK_EQ(decoder_give_log(server, 72, fds[1]), 0);
	close(fds[1]);
	job = begin(server, 72, input, "none", output);
	CHECK(next(job, &e) == 0 && e.type == DECODER_IMAGE);
	decoder_event_done(&e);
	CHECK(UNDER_SANITIZER || poll(&p, 1, 0) == 0);
	CHECK_EQ(decoder_extend(server, 72, 1 << 20), 0);
	CHECK_EQ(decoder_kill(server, 72), 0);
	CHECK_EQ(next(job, &e), -EPIPE);
	CHECK(decoder_receive_end(server, 0, &id, &status) == 0 && id == 72 && WIFSIGNALED(status));
	CHECK(poll(&p, 1, 20000) == 1 && (p.revents & POLLHUP));
}

/* The owner has the server kill a child that waits for an image. */
static void test_kill(int server)
{
	_cleanup_close_ int input = program_input(), output = memfd_create("output", MFD_CLOEXEC);
	_cleanup_close_ int job = begin(server, 71, input, "none", output);
	struct decoder_event e = { 0 };
	uint64_t id = 0;
	int status = 0;

	CHECK(next(job, &e) == 0 && e.type == DECODER_IMAGE);
	decoder_event_done(&e);
	CHECK_EQ(decoder_kill(server, 1), 0);
	CHECK_EQ(decoder_kill(server, 71), 0);
	CHECK_EQ(next(job, &e), -EPIPE);
	CHECK(decoder_receive_end(server, 0, &id, &status) == 0 && id == 71 && WIFSIGNALED(status) &&
	      WTERMSIG(status) == 9);
}

static void test_server_garbled(int server)
{
	char large[8192];
	int fds[3] = { 0, 0, 0 };

	memset(large, ' ', sizeof(large));
	CHECK_EQ(io_send_fds(server, "garbage", 7, NULL, 0), 0);
	CHECK_EQ(io_send_fds(server, "{\"job\":1}", 9, NULL, 0), 0);
	CHECK_EQ(io_send_fds(server, "[1]", 3, fds, 1), 0);
	CHECK_EQ(io_send_fds(server, "{\"job\":-1}", 10, fds, 1), 0);
	CHECK_EQ(io_send_fds(server, "{\"job\":1}", 9, fds, 3), 0);
	CHECK_EQ(io_send_fds(server, large, sizeof(large), fds, 1), 0);
	test_job(server);
}

static pid_t child_of(pid_t server)
{
	char path[64], text[64] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)server, (int)server);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		text[0] = 0;
	closep(&fd);
	return (pid_t)atoi(text);
}

static const char *proc_text(pid_t pid, const char *name, char *ret, size_t size)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	memset(ret, 0, size);
	if (fd >= 0 && read(fd, ret, size - 1) < 0)
		ret[0] = 0;
	closep(&fd);
	return ret;
}

/* A child that waits for an image: its process state, and its end by a signal. */
static void test_killed(int server, pid_t pid)
{
	_cleanup_close_ int input = program_input(), output = memfd_create("output", MFD_CLOEXEC);
	_cleanup_close_ int job = begin(server, 7, input, "none", output);
	struct decoder_event e = { 0 };
	char text[4096];
	uint64_t id = 0;
	int status = 0;
	pid_t child;

	CHECK(next(job, &e) == 0 && e.type == DECODER_IMAGE);
	decoder_event_done(&e);
	child = child_of(pid);
	CHECK(child > 1);
	CHECK_STR(proc_text(child, "comm", text, sizeof(text)), "csight-job-7\n");
	CHECK(strstr(proc_text(child, "status", text, sizeof(text)), "NoNewPrivs:\t1") != NULL);
	proc_text(child, "limits", text, sizeof(text));
	CHECK(strstr(text, "Max core file size        0                    0 ") != NULL);
	CHECK(strstr(text, "Max cpu time              3600 ") != NULL);
	CHECK_EQ(decoder_receive(job, MSG_DONTWAIT, &e), -EAGAIN);
	CHECK_EQ(decoder_receive_end(server, MSG_DONTWAIT, &id, &status), -EAGAIN);
	if (child > 1)
		kill(child, SIGKILL);
	CHECK_EQ(next(job, &e), -EPIPE);
	CHECK(decoder_receive_end(server, 0, &id, &status) == 0 && id == 7 && WIFSIGNALED(status) &&
	      WTERMSIG(status) == 9);
	test_job(server);
}

/* Children die with the server. */
static void test_server_gone(int server, pid_t pid)
{
	_cleanup_close_ int input = program_input(), output = memfd_create("output", MFD_CLOEXEC);
	_cleanup_close_ int job = begin(server, 8, input, "none", output);
	struct decoder_event e = { 0 };
	uint64_t id;
	int status;

	CHECK(next(job, &e) == 0 && e.type == DECODER_IMAGE);
	decoder_event_done(&e);
	kill(pid, SIGKILL);
	CHECK_EQ(decoder_receive_end(server, 0, &id, &status), -EPIPE);
	CHECK_EQ(next(job, &e), -EPIPE);
	CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
}

/* The server exits when its owner closes the socket. */
static void test_owner_gone(void)
{
	int server = -1, status = -1;
	pid_t pid = -1;

	CHECK_EQ(decoder_spawn(unit_built("csight-decode"), (uid_t)-1, (gid_t)-1, &pid, &server), 0);
	close(server);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* As many decodes as csightd may run at a time, and readings of build-ids besides. */
static void test_many_jobs(int server)
{
	enum { JOBS = 64 + 32 };
	int jobs[JOBS], status;
	uint64_t id;

	for (int i = 0; i < JOBS; i++)
		if (decoder_submit(server, 200 + (uint64_t)i, &jobs[i]) < 0)
			jobs[i] = -1;
	/* Messages are in order: the server has handled all of them when this one ends. */
	CHECK_EQ(decoder_kill(server, 200), 0);
	CHECK(decoder_receive_end(server, 0, &id, &status) == 0 && id == 200 && WIFSIGNALED(status));
	for (int i = 0; i < JOBS; i++)
		closep(&jobs[i]);
	for (int i = 1; i < JOBS; i++)
		if (decoder_receive_end(server, 0, &id, &status) < 0)
			break;
}

static void test_hostile_child(void)
{
	static const char *const texts[] = {
		"x",
		"{}",
		"[]",
		"{\"type\":\"start\"}",
		"{\"type\":\"image\",\"index\":-1,\"path\":\"/x\"}",
		"{\"type\":\"image\",\"index\":4294967296,\"path\":\"/x\"}",
		"{\"type\":\"image\",\"index\":1}",
		"{\"type\":\"image\",\"index\":1,\"path\":\"a\\u0000b\"}",
		"{\"type\":\"image\",\"index\":1,\"path\":\"/x\",\"build_id\":3}",
		"{\"type\":\"progress\",\"done\":1}",
		"{\"type\":\"failed\"}",
	};
	struct decoder_event e = { 0 };
	int pair[2], fds[2] = { 0, 0 };
	static char text[DECODER_REQUEST_MAX + 1];
	uint64_t id;
	int status, lowest;

	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	for (size_t i = 0; i < ELEMENTS(texts); i++) {
		CHECK_EQ(io_send_fds(pair[1], texts[i], strlen(texts[i]), NULL, 0), 0);
		CHECK_EQ(decoder_receive(pair[0], 0, &e), -EBADMSG);
	}
	CHECK_EQ(io_send_fds(pair[1], "{\"type\":\"result\"}", 17, fds, 2), 0);
	CHECK_EQ(decoder_receive(pair[0], 0, &e), -EBADMSG);
	/* Only a result may be long. */
	memset(text, ' ', sizeof(text));
	memcpy(text, "{\"type\":\"progress\",\"done\":1,\"total\":2}", 38);
	CHECK_EQ(io_send_fds(pair[1], text, DECODER_REQUEST_MAX, NULL, 0), 0);
	CHECK_EQ(decoder_receive(pair[0], 0, &e), 0);
	decoder_event_done(&e);
	CHECK_EQ(io_send_fds(pair[1], text, DECODER_REQUEST_MAX + 1, NULL, 0), 0);
	CHECK_EQ(decoder_receive(pair[0], 0, &e), -EBADMSG);
	memcpy(text, "{\"type\":\"result\",  \"done\":1,\"total\":2}", 38);
	CHECK_EQ(io_send_fds(pair[1], text, DECODER_REQUEST_MAX + 1, NULL, 0), 0);
	CHECK_EQ(decoder_receive(pair[0], 0, &e), 0);
	decoder_event_done(&e);
	/* An empty message, which looks like the end of the job, may have a descriptor. */
	lowest = dup(0);
	close(lowest);
	CHECK_EQ(io_send_fds(pair[1], "", 0, fds, 1), 0);
	CHECK_EQ(decoder_receive(pair[0], 0, &e), -EPIPE);
	fds[1] = dup(0);
	CHECK_EQ(fds[1], lowest);
	close(fds[1]);
	CHECK_EQ(io_send_fds(pair[1], "{\"job\":1,\"status\":70000}", 24, NULL, 0), 0);
	CHECK_EQ(decoder_receive_end(pair[0], 0, &id, &status), -EBADMSG);
	CHECK_EQ(io_send_fds(pair[1], "{\"job\":1}", 9, NULL, 0), 0);
	CHECK_EQ(decoder_receive_end(pair[0], 0, &id, &status), -EBADMSG);
	close(pair[0]);
	close(pair[1]);
}

/* The server has open descriptors 0 to 2, its socket, and a signalfd; it inherits no others. */
static void test_descriptors(pid_t pid)
{
	char path[64];
	unsigned n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	if (!CHECK(dir != NULL))
		return;
	for (struct dirent *entry; (entry = readdir(dir));)
		n += entry->d_name[0] != '.' && atoi(entry->d_name) > 4;
	closedir(dir);
	CHECK_EQ(n, 0);
}

static void test_other_user(void)
{
	char text[4096];
	int server = -1;
	pid_t pid = -1;

	if (geteuid() != 0) {
		unit_skip("another user", "needs root");
		return;
	}
	CHECK_EQ(decoder_spawn(unit_built("csight-decode"), 65534, 65534, &pid, &server), 0);
	proc_text(pid, "status", text, sizeof(text));
	CHECK(strstr(text, "Uid:\t65534\t65534\t65534\t65534") != NULL);
	CHECK(strstr(text, "Gid:\t65534\t65534\t65534\t65534") != NULL);
	CHECK(strstr(text, "Groups:\t \n") != NULL);
	CHECK(strstr(text, "CapEff:\t0000000000000000") != NULL);
	CHECK(strstr(text, "NoNewPrivs:\t1") != NULL);
	test_job(server);
	close(server);
	waitpid(pid, NULL, 0);
}

int main(void)
{
	/* A descriptor that csight-decode must not inherit. */
	int server = -1, stray = open("/dev/null", O_RDONLY);
	pid_t pid = -1;

	CHECK(fcntl(stray, F_DUPFD, 20) == 20);
	CHECK_EQ(decoder_spawn("/no/such/csight-decode", (uid_t)-1, (gid_t)-1, &pid, &server), -ENOENT);
	CHECK_EQ(decoder_spawn("/etc/passwd", (uid_t)-1, (gid_t)-1, &pid, &server), -EACCES);
	if (!CHECK_EQ(decoder_spawn(unit_built("csight-decode"), (uid_t)-1, (gid_t)-1, &pid, &server), 0))
		return unit_end();
	test_job(server);
	test_code_in_time(server, JITDUMP_NONE);
	test_code_in_time(server, JITDUMP_GOOD);
	test_code_in_time(server, JITDUMP_CUT);
	test_code_in_time(server, JITDUMP_DAMAGED);
	test_descriptors(pid);
	test_refused(server);
	test_build_ids(server);
	test_many_jobs(server);
	test_kill(server);
	test_log(server);
	test_server_garbled(server);
	test_killed(server, pid);
	test_server_gone(server, pid);
	close(server);
	test_owner_gone();
	test_hostile_child();
	test_snapshot_members();
	test_many_threads(false);
	test_many_threads(true);
	test_other_user();
	return unit_end();
}
