/* SPDX-License-Identifier: MIT */
/*
 * csightd as a whole, with a csight-decode that is hostile: this harness. Each input is what the child of one job
 * sends: the job is the decode of a snapshot, or the first job that reads build-ids. The first byte has bits of enum
 * kind, the second one is the exit status of the child. Then come messages: a byte of flags, a byte and the next for
 * the length, the text. In a text, $P stands for the path of this program. Other decodes fail; other jobs that read
 * build-ids find none. After each input csightd still replies.
 */
#include "config.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/buf.h"
#include "lib/base/io.h"
#include "lib/base/json.h"
#include "lib/base/util.h"
#include "lib/decoder/decoder.h"
#include "tests/fuzz/csightd.h"
#include "tests/fuzz/fuzz.h"

enum kind {
	KIND_BUILD_IDS = 1, /* the job reads build-ids */
	KIND_LOST = 2,      /* the server ends in place of the child, or does not obey */
	KIND_HELD = 4,      /* the child does not end before csightd kills it */
	KIND_MAX = 8,
};

enum {
	FLAG_FD = 1,   /* the message has a descriptor */
	FLAG_READ = 2, /* a reply is awaited */
	FLAG_LOG = 4,  /* the text goes to the standard error instead */
	FLAG_GROW = 8, /* before that the outputs grow, by MiB in the first byte of the text */
};

enum {
	SMALL = 64 << 10,
	FDS = 256,
	TICK_MS = 150,    /* csightd has looked at the outputs */
	CTIME_MS = 1100,  /* build-ids of files that were changed are cached after it */
	RARE_MS = 1200000 /* between two inputs of a kind that takes seconds: csightd then connects again at once */
};

static struct {
	pthread_mutex_t lock;
	const uint8_t *data; /* the input that no job has had yet; or NULL */
	size_t size;
	int listener;
	int log, output; /* of the job, or -1 */
	char program[PATH_MAX], library[64];
	char message[DECODER_MESSAGE_MAX + 1]; /* of csightd */
	size_t n_fds;                          /* of the message */
	atomic_bool connected, playing;        /* playing: a job reads the input */
	bool ending;                           /* csightd is about to end */
} the = { .lock = PTHREAD_MUTEX_INITIALIZER, .log = -1, .output = -1 };

/* Receives a message with descriptors, which are closed but for the last one if ret_fd is not NULL. */
static ssize_t receive(int socket, int *ret_fd, int flags)
{
	int fds[FDS];
	size_t n_fds = FDS;
	ssize_t n = io_receive_fds(socket, the.message, sizeof(the.message) - 1, fds, &n_fds, flags);

	if (n < 0)
		return n;
	the.message[n] = 0;
	the.n_fds = n_fds;
	if (ret_fd && n_fds)
		*ret_fd = fds[--n_fds];
	while (n_fds > 0)
		close(fds[--n_fds]);
	return n;
}

/* Takes the input if it is for this job. */
static bool take_input(bool build_ids, const uint8_t **ret, size_t *ret_size)
{
	bool is;

	pthread_mutex_lock(&the.lock);
	is = the.data && (the.data[0] & KIND_BUILD_IDS) == build_ids;
	*ret = the.data;
	*ret_size = the.size;
	if (is) {
		the.data = NULL;
		atomic_store(&the.playing, true);
	}
	pthread_mutex_unlock(&the.lock);
	return is;
}

static void send_text(int socket, const uint8_t *text, size_t size, int fd)
{
	_cleanup_buf_ struct buf b = { 0 };

	for (size_t i = 0; i < size; i++) {
		bool path = i + 1 < size && text[i] == '$' && text[i + 1] == 'P';

		buf_add(&b, path ? the.program : (const char *)text + i, path ? strlen(the.program) : 1);
		i += path;
	}
	io_send_fds(socket, b.data, b.size, &fd, fd >= 0);
}

/* Returns false for what takes long, if it was done within this time. */
static bool is_rare(uint64_t *last_ns, uint64_t ms)
{
	uint64_t now = now_ns(CLOCK_MONOTONIC);

	if (*last_ns && now - *last_ns < ms * 1000000u)
		return false;
	*last_ns = now;
	return true;
}

/* The outputs have grown, as far as csightd knows: the file is sparse. */
static void grow_output(uint8_t mib)
{
	static uint64_t last_ns[UINT8_MAX + 1];

	if (the.output >= 0 && ftruncate(the.output, (off_t)mib << 20) == 0 && is_rare(&last_ns[mib], 2 * TICK_MS))
		poll(NULL, 0, TICK_MS);
}

/* Sends the messages of the input as the child of a job. */
static void play(int socket, const uint8_t *data, size_t size)
{
	while (size >= 3) {
		size_t length = MIN((size_t)data[1] << 8 | data[2], size - 3);
		_cleanup_close_ int fd = data[0] & FLAG_FD ? fuzz_fd(data, size) : -1;

		if (data[0] & FLAG_GROW && length)
			grow_output(data[3]);
		if (data[0] & FLAG_LOG && the.log >= 0) {
			/* csightd reads only so much. */
			if (write(the.log, data + 3, length) < 0)
				closep(&the.log);
		} else {
			send_text(socket, data + 3, length, fd);
		}
		if (data[0] & FLAG_READ && fuzz_wait_readable(socket, FUZZ_QUIET_MS))
			receive(socket, NULL, MSG_DONTWAIT);
		data += 3 + length;
		size -= 3 + length;
	}
}

/* Sends that none of the files of this job has a build-id. */
static void send_no_build_ids(int socket)
{
	_cleanup_json_ json_object *o = json_object_new_object();
	json_object *list = json_object_new_array();
	const char *text;

	for (size_t i = 0; i < the.n_fds; i++)
		json_array_add_null(list);
	json_add_str(o, "type", "result");
	json_add(o, "build_ids", list);
	text = json_object_to_json_string(o);
	io_send_fds(socket, text, strlen(text), NULL, 0);
}

static void send_end(int server, uint64_t job, int status)
{
	char text[64];

	snprintf(text, sizeof(text), "{\"job\":%ju,\"status\":%d}", (uintmax_t)job, status);
	io_send_fds(server, text, strlen(text), NULL, 0);
}

/*
 * Waits until csightd kills a child that goes on, or, if the server does not obey, the server; or ends the job. Jobs
 * that it begins meanwhile fail.
 */
static void hold(int server, int socket, bool obey)
{
	struct pollfd p[] = { { .fd = server, .events = POLLIN }, { .fd = socket } };

	for (;;) {
		_cleanup_json_ json_object *o = NULL;
		uint64_t job;

		if (poll(p, ELEMENTS(p), -1) < 0)
			continue;
		if (p[1].revents)
			return;
		if (receive(server, NULL, 0) <= 0 || (obey && strstr(the.message, "\"kill\"")))
			return;
		if (json_parse(the.message, strlen(the.message), &o) == 0 && json_get_u64(o, "job", &job) == 0)
			send_end(server, job, 1);
	}
}

/* Returns the kind of the job that is run now, without what takes seconds, unless that is rare. */
static unsigned choose_kind(unsigned kind)
{
	static uint64_t last_ns[KIND_MAX];

	kind &= KIND_MAX - 1;
	if (the.ending)
		return kind;
	if (kind & (KIND_LOST | KIND_HELD) && !is_rare(&last_ns[kind], RARE_MS))
		kind &= KIND_BUILD_IDS;
	return kind;
}

/* A job: its child sends the input, or that it failed. Returns false if the server has ended. */
static bool run_job(int server, int socket, uint64_t job)
{
	static const char failed[] = "{\"type\":\"failed\",\"reason\":\"no input\"}";
	const uint8_t *data;
	unsigned kind = 0;
	bool build_ids;
	int status = 0;
	size_t size;

	/* The start message, of which the type of input is of interest, and the last descriptor, which is an output. */
	if (receive(socket, &the.output, 0) <= 0)
		return true;
	build_ids = strstr(the.message, "\"" DECODER_BUILD_IDS "\"") != NULL;
	if (build_ids)
		closep(&the.output);
	if (take_input(build_ids, &data, &size)) {
		kind = choose_kind(data[0]);
		status = data[1];
		play(socket, data + 2, size - 2);
		/* The other thread does not end the input before csightd has connected again. */
		if (kind & KIND_LOST)
			atomic_store(&the.connected, false);
		atomic_store(&the.playing, false);
	} else if (build_ids) {
		send_no_build_ids(socket);
	} else {
		io_send_fds(socket, failed, strlen(failed), NULL, 0);
	}
	if (kind & KIND_HELD)
		hold(server, socket, !(kind & KIND_LOST) || kind & KIND_BUILD_IDS);
	if (kind & KIND_LOST)
		return false;
	shutdown(socket, SHUT_WR);
	send_end(server, job, status);
	return true;
}

/* Serves a connection of csightd. */
static void serve(int server)
{
	bool open = true;

	while (open) {
		_cleanup_close_ int fd = -1;
		_cleanup_json_ json_object *o = NULL;
		uint64_t job;

		if (receive(server, &fd, 0) <= 0)
			return;
		if (json_parse(the.message, strlen(the.message), &o) < 0)
			continue;
		if (json_get_u64(o, "log", &job) == 0) {
			closep(&the.log);
			the.log = TAKE_FD(fd);
		} else if (json_get_u64(o, "job", &job) == 0) {
			open = run_job(server, fd, job);
			closep(&the.log);
			closep(&the.output);
		}
	}
}

static void *run_decoder(void *unused)
{
	for (;;) {
		_cleanup_close_ int server = accept4(the.listener, NULL, NULL, SOCK_CLOEXEC);

		fuzz_require(server >= 0);
		atomic_store(&the.connected, true);
		serve(server);
	}
	return NULL;
}

static void begin_decoder(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	ssize_t n = readlink("/proc/self/exe", the.program, sizeof(the.program) - 1);
	pthread_t thread;

	fuzz_require(n > 0);
	strcpy(a.sun_path, fuzz_csightd.decoder);
	the.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	fuzz_require(the.listener >= 0 && bind(the.listener, (struct sockaddr *)&a, sizeof(a)) == 0);
	fuzz_require(listen(the.listener, 8) == 0 && pthread_create(&thread, NULL, run_decoder, NULL) == 0);
}

/* This process has mapped a file, as its log says. fd -1: it does not pass a descriptor of it. */
static void map_file(uint32_t id, const char *path, int fd)
{
	struct emu_header *h = (struct emu_header *)fuzz_csightd.rings;
	size_t length = strlen(path) + 1;
	struct emu_record_map m = { .head = { EMU_REC_MAP, (uint32_t)(sizeof(m) + ALIGN8(length)), 5 },
				    .addr = id * FUZZ_BASE,
				    .len = 4096,
				    .prot = 5,
				    .file = id };
	uint64_t at = atomic_load(&h->log_head);
	uint8_t *to = fuzz_csightd.rings + h->log_offset + at;
	struct stat st = { 0 };

	fuzz_require((fd < 0 || fstat(fd, &st) == 0) && at + m.head.size <= h->log_size);
	m.inode = st.st_ino;
	m.major = major(st.st_dev);
	m.minor = minor(st.st_dev);
	memcpy(to, &m, sizeof(m));
	memcpy(to + sizeof(m), path, length);
	atomic_store(&h->log_head, at + m.head.size);
	if (fd >= 0)
		fuzz_send_message(fuzz_csightd.target, EMU_FILE, id, fd);
}

/*
 * Its program, a file of which csightd requests the build-id again and again, since it has just changed, one that is
 * deleted, of which csightd makes a copy, and one that csightd does not get.
 */
static void map_files(void)
{
	static const char reload[] = "{\"method\":\"org.csight.Reload\"}";
	_cleanup_close_ int program = open(the.program, O_RDONLY | O_CLOEXEC), library, deleted;
	char path[64];

	snprintf(the.library, sizeof(the.library), "%s/library", fuzz_csightd.dir);
	close(open(the.library, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	library = open(the.library, O_RDONLY | O_CLOEXEC);
	map_file(1, the.program, program);
	map_file(2, the.library, library);
	close(library);
	snprintf(path, sizeof(path), "%s/deleted", fuzz_csightd.dir);
	close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	deleted = open(path, O_RDONLY | O_CLOEXEC);
	fuzz_require(unlink(path) == 0);
	fuzz_require(program >= 0 && library >= 0 && deleted >= 0);
	map_file(3, "/deleted", deleted);
	map_file(4, "/absent", -1);
	poll(NULL, 0, CTIME_MS);
	fuzz_call(reload, sizeof(reload), FUZZ_QUIET_MS);
}

/* The last decode does not end before csightd does. */
static void hold_last(void)
{
	static const uint8_t held[] = { KIND_HELD, 0 };

	pthread_mutex_lock(&the.lock);
	the.data = held;
	the.size = sizeof(held);
	the.ending = true;
	pthread_mutex_unlock(&the.lock);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char snapshot[] = "{\"method\":\"org.csight.Snapshot\",\"parameters\":{\"pid\":$1},\"more\":true}",
			  status[] = "{\"method\":\"org.csight.Status\"}",
			  removal[] = "{\"method\":\"org.csight.Remove\",\"parameters\":{\"id\":\"$4\"}}";
	static bool begun;

	if (size < 2 || size > SMALL)
		return 0;
	fuzz_csightd_begin(begin_decoder);
	if (!begun) {
		map_files();
		atexit(hold_last);
	}
	begun = true;
	chmod(the.library, 0600);
	pthread_mutex_lock(&the.lock);
	the.data = data;
	the.size = size;
	pthread_mutex_unlock(&the.lock);
	/* Until the connection is closed, after the last reply. */
	fuzz_call(snapshot, sizeof(snapshot), FUZZ_HANG_MS);
	pthread_mutex_lock(&the.lock);
	the.data = NULL;
	pthread_mutex_unlock(&the.lock);
	/* csightd may have ended the job before that. */
	while (atomic_load(&the.playing))
		poll(NULL, 0, 1);
	/* One more, while csightd is not connected. */
	if (!atomic_load(&the.connected)) {
		fuzz_call(removal, sizeof(removal), FUZZ_HANG_MS);
		fuzz_call(snapshot, sizeof(snapshot), FUZZ_HANG_MS);
	}
	while (!atomic_load(&the.connected))
		poll(NULL, 0, FUZZ_QUIET_MS);
	fuzz_call(status, sizeof(status), FUZZ_HANG_MS);
	fuzz_call(removal, sizeof(removal), FUZZ_HANG_MS);
	fuzz_check_alive();
	return 0;
}

struct seed_message {
	uint8_t flags;
	const char *text;
};

static void seed(uint8_t kind, uint8_t status, const struct seed_message *messages, size_t n)
{
	_cleanup_buf_ struct buf b = { 0 };

	buf_u8(&b, kind);
	buf_u8(&b, status);
	for (size_t i = 0; i < n; i++)
		fuzz_add_part(&b, messages[i].flags, messages[i].text, strlen(messages[i].text));
	fuzz_require(buf_error(&b) == 0);
	fuzz_seed(b.data, b.size);
}

void fuzz_seeds(void)
{
	static const struct seed_message decode[] = {
		{ 0, "{\"type\":\"progress\",\"done\":1,\"total\":5}" },
		{ FLAG_READ, "{\"type\":\"image\",\"index\":0,\"path\":\"$P\",\"inode\":7}" },
		{ FLAG_READ, "{\"type\":\"image\",\"index\":1,\"path\":\"$P\",\"build_id\":\"0123456789abcdef\"}" },
		{ FLAG_READ, "{\"type\":\"image\",\"index\":2,\"path\":\"$P\",\"debug\":\"x.debug\",\"attempt\":1}" },
		{ FLAG_READ, "{\"type\":\"image\",\"index\":3,\"path\":\"/nowhere\",\"debug\":\"\"}" },
		{ FLAG_READ, "{\"type\":\"file\",\"name\":\"a/b\"}" },
		{ FLAG_READ, "{\"type\":\"table\",\"key\":\"k\"}" },
		{ FLAG_FD, "{\"type\":\"keep\",\"key\":\"k\"}" },
		{ FLAG_READ, "{\"type\":\"table\",\"key\":\"k\"}" },
		{ 0, "{\"type\":\"result\",\"opencsd\":\"1.3.3\",\"instructions\":7,\"calls\":1,\"gaps\":{},"
		     "\"threads\":[],\"ended\":{\"text\":\"died of SIGSEGV\",\"signal\":11}}" },
	};
	static const struct seed_message failures[] = {
		{ FLAG_READ, "{\"type\":\"table\",\"key\":\"other\"}" },
		{ 0, "{\"type\":\"failed\",\"reason\":\"why\"}" },
		{ 0, "{\"type\":\"result\"}" },
	};
	static const struct seed_message ids[] = {
		{ 0, "{\"type\":\"result\",\"build_ids\":[\"0123456789abcdef0123\",null,null]}" },
		{ 0, "{\"type\":\"result\",\"build_ids\":[\"0123456789abcdef0123\"]}" },
	};
	static const struct seed_message odd[] = {
		{ FLAG_FD, "{\"type\":\"result\"}" },
		{ 0, "[]" },
	};
	/* Each request but the last one gets its reply. */
	static const struct seed_message images[] = {
		{ FLAG_READ, "{\"type\":\"image\",\"index\":0,\"path\":\"/deleted\"}" },
		{ FLAG_READ, "{\"type\":\"image\",\"index\":0,\"path\":\"/absent\"}" },
		{ FLAG_READ, "{\"type\":\"image\",\"index\":1,\"path\":\"$P\",\"debug\":\"x.debug\"}" },
		{ 0, "{\"type\":\"image\",\"index\":2,\"path\":\"$P\",\"debug\":\"\"}" },
		{ 0, "{\"type\":\"image\",\"index\":3,\"path\":\"$P\",\"debug\":\"\"}" },
	};
	static const struct seed_message log[] = {
		{ FLAG_LOG, "first line\nsecond line\n\nbegin of the third" },
		{ FLAG_LOG, " and its end\x1b\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n17\n18\n" },
		{ 0, "{\"type\":\"result\"}" },
	};
	static const struct seed_message line[] = {
		{ FLAG_LOG, "a line that does not end" },
		{ 0, "{\"type\":\"failed\",\"reason\":\"\\u0007\"}" },
	};
	static const struct seed_message large[] = {
		{ FLAG_GROW, "\x1c" },
		{ 0, "{\"type\":\"result\"}" },
	};
	static const struct seed_message full[] = {
		{ FLAG_GROW | FLAG_LOG, "\xff" },
		{ FLAG_GROW | FLAG_LOG, "\xff" },
		{ 0, "{\"type\":\"failed\",\"reason\":\"no space\"}" },
	};
	static const struct seed_message list[] = {
		{ 0, "{\"type\":\"result\",\"build_ids\":[7]}" },
	};
	static const struct seed_message long_id[] = {
		{ 0, "{\"type\":\"result\",\"build_ids\":[\"00000000000000000000000000000000000000000000000000\"]}" },
	};
	static const struct seed_message hex[] = {
		{ 0, "{\"type\":\"result\",\"build_ids\":[\"0g\"]}" },
	};
	static const struct seed_message more[] = {
		{ 0, "{\"type\":\"result\"}" },
		{ 0, "{\"type\":\"progress\",\"done\":1,\"total\":5}" },
	};
	/* csightd ends each of these jobs, but for the first one. */
	static const struct seed_message invalid[] = {
		{ FLAG_READ, "{\"type\":\"image\",\"index\":1,\"path\":\"/none\"}" },
		{ 0, "{}" },
		{ 0, "{\"type\":\"other\"}" },
		{ 0, "no JSON" },
		{ 0, "{\"type\":\"image\",\"index\":-1,\"path\":\"$P\"}" },
		{ 0, "{\"type\":\"image\",\"index\":1,\"path\":\"$P\",\"debug\":\"a/b\"}" },
	};
	struct seed_message replies[2000];
	char text[17 << 10], name[8 << 10] = "{\"type\":\"file\",\"name\":\"";
	const struct seed_message long_line = { FLAG_LOG, text }, long_name = { 0, name };

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	/* A request of more than DECODER_REQUEST_MAX bytes, when the paths are in it. */
	for (size_t i = strlen(name); i + 5 < sizeof(name); i += 2)
		memcpy(name + i, "$P", 3);
	strcat(name, "\"}");
	/* csightd cannot send that many replies, which are not read. */
	for (size_t i = 0; i < ELEMENTS(replies); i++)
		replies[i] = (struct seed_message){ 0, "{\"type\":\"table\",\"key\":\"\"}" };
	replies[ELEMENTS(replies) - 1] = (struct seed_message){ FLAG_GROW, "\x1" };
	seed(0, 0, decode, ELEMENTS(decode));
	seed(0, 0, failures, ELEMENTS(failures));
	seed(0, 0, failures + 1, 1);
	seed(0, 11, failures, 1);
	seed(0, 1, odd, 1);
	seed(0, 0, odd + 1, 1);
	seed(0, 0, images, ELEMENTS(images));
	seed(0, 0, log, ELEMENTS(log));
	seed(0, 0, line, ELEMENTS(line));
	seed(0, 0, &long_line, 1);
	seed(0, 0, &long_name, 1);
	seed(0, 0, large, ELEMENTS(large));
	seed(0, 0, full, ELEMENTS(full));
	seed(0, 0, more, ELEMENTS(more));
	seed(0, 0, replies, ELEMENTS(replies));
	for (size_t i = 0; i < ELEMENTS(invalid); i++)
		seed(0, 0, invalid + i, 1);
	seed(KIND_LOST, 0, decode, 1);
	seed(KIND_HELD, 9, decode, 1);
	seed(KIND_LOST | KIND_HELD, 0, odd + 1, 1);
	seed(KIND_BUILD_IDS, 0, ids, 1);
	seed(KIND_BUILD_IDS, 0, ids + 1, 1);
	seed(KIND_BUILD_IDS, 0, failures + 1, 1);
	seed(KIND_BUILD_IDS, 9, odd, ELEMENTS(odd));
	seed(KIND_BUILD_IDS, 0, list, 1);
	seed(KIND_BUILD_IDS, 0, long_id, 1);
	seed(KIND_BUILD_IDS, 0, hex, 1);
	seed(KIND_BUILD_IDS | KIND_HELD, 9, list, 0);
	seed(KIND_BUILD_IDS | KIND_LOST, 0, list, 0);
	seed(KIND_BUILD_IDS | KIND_LOST | KIND_HELD, 0, list, 0);
}
