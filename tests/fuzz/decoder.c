/* SPDX-License-Identifier: MIT */
/*
 * csightd as a whole, with a csight-decode that is hostile: this harness. Each input is what the child of one job
 * sends: the job is the decode of a snapshot, or with bit 0 of the first byte the first job that reads build-ids. The
 * second byte is the exit status of the child. Then come messages: a byte of flags, a byte and the next for the length,
 * the text. In a text, $P stands for the path of this program. Other jobs fail. After each input csightd still replies.
 */
#include "config.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
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

enum { SMALL = 32 << 10, FDS = 256, FLAG_FD = 1, FLAG_READ = 2 };

static struct {
	pthread_mutex_t lock;
	const uint8_t *data; /* the input that no job has had yet; or NULL */
	size_t size;
	int listener;
	char program[PATH_MAX], library[64];
	char message[DECODER_MESSAGE_MAX + 1]; /* of csightd */
} the = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Receives a message with descriptors, which are closed but for the first one if ret_fd is not NULL. */
static ssize_t receive(int socket, int *ret_fd, int flags)
{
	int fds[FDS];
	size_t n_fds = FDS, first = 0;
	ssize_t n = io_receive_fds(socket, the.message, sizeof(the.message) - 1, fds, &n_fds, flags);

	if (n < 0)
		return n;
	the.message[n] = 0;
	if (ret_fd && n_fds)
		*ret_fd = fds[first++];
	while (first < n_fds)
		close(fds[first++]);
	return n;
}

/* Takes the input if it is for this job. */
static bool take_input(bool build_ids, const uint8_t **ret, size_t *ret_size)
{
	bool is;

	pthread_mutex_lock(&the.lock);
	is = the.data && (the.data[0] & 1) == build_ids;
	*ret = the.data;
	*ret_size = the.size;
	if (is)
		the.data = NULL;
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

/* Sends the messages of the input as the child of a job. */
static void play(int socket, const uint8_t *data, size_t size)
{
	while (size >= 3) {
		size_t length = MIN((size_t)data[1] << 8 | data[2], size - 3);
		_cleanup_close_ int fd = data[0] & FLAG_FD ? fuzz_fd(data, size) : -1;

		send_text(socket, data + 3, length, fd);
		if (data[0] & FLAG_READ && fuzz_wait_readable(socket, FUZZ_QUIET_MS))
			receive(socket, NULL, MSG_DONTWAIT);
		data += 3 + length;
		size -= 3 + length;
	}
}

/* A job: its child sends the input, or that it failed. */
static void run_job(int server, int socket, uint64_t job)
{
	static const char failed[] = "{\"type\":\"failed\",\"reason\":\"no input\"}";
	const uint8_t *data;
	char text[64];
	int status = 0;
	size_t size;

	/* The start message, of which the type of input is of interest. */
	if (receive(socket, NULL, 0) <= 0)
		return;
	if (take_input(strstr(the.message, "\"" DECODER_BUILD_IDS "\"") != NULL, &data, &size)) {
		status = data[1];
		play(socket, data + 2, size - 2);
	} else {
		io_send_fds(socket, failed, strlen(failed), NULL, 0);
	}
	shutdown(socket, SHUT_WR);
	snprintf(text, sizeof(text), "{\"job\":%ju,\"status\":%d}", (uintmax_t)job, status);
	io_send_fds(server, text, strlen(text), NULL, 0);
}

/* Serves a connection of csightd. */
static void serve(int server)
{
	for (;;) {
		_cleanup_close_ int fd = -1;
		_cleanup_json_ json_object *o = NULL;
		uint64_t job;

		if (receive(server, &fd, 0) <= 0)
			return;
		if (json_parse(the.message, strlen(the.message), &o) == 0 && json_get_u64(o, "job", &job) == 0)
			run_job(server, fd, job);
	}
}

static void *run_decoder(void *unused)
{
	for (;;) {
		_cleanup_close_ int server = accept4(the.listener, NULL, NULL, SOCK_CLOEXEC);

		fuzz_require(server >= 0);
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

/* This process has mapped a file, as its log says. */
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
	struct stat st;

	fuzz_require(fd >= 0 && fstat(fd, &st) == 0 && at + m.head.size <= h->log_size);
	m.inode = st.st_ino;
	m.major = major(st.st_dev);
	m.minor = minor(st.st_dev);
	memcpy(to, &m, sizeof(m));
	memcpy(to + sizeof(m), path, length);
	atomic_store(&h->log_head, at + m.head.size);
	fuzz_send_message(fuzz_csightd.target, EMU_FILE, id, fd);
}

/* Its program, and a file of which csightd requests the build-id again and again, since it has just changed. */
static void map_files(void)
{
	_cleanup_close_ int program = open(the.program, O_RDONLY | O_CLOEXEC), library;

	snprintf(the.library, sizeof(the.library), "%s/library", fuzz_csightd.dir);
	close(open(the.library, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	library = open(the.library, O_RDONLY | O_CLOEXEC);
	map_file(1, the.program, program);
	map_file(2, the.library, library);
	close(library);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char snapshot[] = "{\"method\":\"org.csight.Snapshot\",\"parameters\":{\"pid\":$1},\"more\":true}",
			  removal[] = "{\"method\":\"org.csight.Remove\",\"parameters\":{\"id\":\"$4\"}}";
	static bool begun;

	if (size < 2 || size > SMALL)
		return 0;
	fuzz_csightd_begin(begin_decoder);
	if (!begun)
		map_files();
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
	for (size_t i = 0; i < n; i++) {
		size_t length = strlen(messages[i].text);

		buf_u8(&b, messages[i].flags);
		buf_u8(&b, (uint8_t)(length >> 8));
		buf_u8(&b, (uint8_t)length);
		buf_add(&b, messages[i].text, length);
	}
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
		{ 0, "{\"type\":\"result\",\"build_ids\":[\"0123456789abcdef0123\",null]}" },
		{ 0, "{\"type\":\"result\",\"build_ids\":[\"0123456789abcdef0123\"]}" },
	};
	static const struct seed_message odd[] = {
		{ FLAG_FD, "{\"type\":\"result\"}" },
		{ 0, "[]" },
	};

	seed(0, 0, decode, ELEMENTS(decode));
	seed(0, 0, failures, ELEMENTS(failures));
	seed(0, 0, failures + 1, 1);
	seed(0, 11, failures, 1);
	seed(0, 1, odd, 1);
	seed(0, 0, odd + 1, 1);
	seed(1, 0, ids, 1);
	seed(1, 0, ids + 1, 1);
	seed(1, 0, failures + 1, 1);
	seed(1, 9, odd, ELEMENTS(odd));
}
