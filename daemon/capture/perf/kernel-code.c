/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/capture/perf/kernel-code.h"
#include "daemon/kernel/protocol.h"
#include "lib/base/digest.h"
#include "lib/base/io.h"

enum { ANSWER_SECONDS = 30, NOTES_MAX = 64 << 10 };

struct kernel_code {
	char *socket;
	struct capture_kernel copy; /* size 0: none yet */
	char key[DIGEST_TEXT];      /* of the kernel and the modules of the copy */
};

struct kernel_code *kernel_code_new(const char *socket)
{
	struct kernel_code *k = calloc(1, sizeof(*k));

	if (k && socket && !(k->socket = strdup(socket))) {
		free(k);
		return NULL;
	}
	return k;
}

static void drop_copy(struct kernel_code *k)
{
	if (k->copy.size)
		closep(&k->copy.fd);
	k->copy.size = 0;
}

struct kernel_code *kernel_code_free(struct kernel_code *k)
{
	if (!k)
		return NULL;
	drop_copy(k);
	free(k->socket);
	free(k);
	return NULL;
}

/* A module that was loaded again has another directory in sysfs, and so another inode. */
static void add_modules(struct digest *d)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/modules", "re");
	char line[1024], name[64], path[96];
	struct stat st;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%63s", name) != 1)
			continue;
		digest_add_text(d, name);
		snprintf(path, sizeof(path), "/sys/module/%s", name);
		if (stat(path, &st) == 0)
			digest_add(d, &st.st_ino, sizeof(st.st_ino));
	}
}

/* Identifies the kernel by its notes, which have its build-id, and the loaded modules. */
static void find_key(char ret[DIGEST_TEXT])
{
	_cleanup_close_ int fd = open("/sys/kernel/notes", O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *notes = malloc(NOTES_MAX);
	ssize_t n = fd < 0 || !notes ? 0 : io_read(fd, notes, NOTES_MAX);
	struct digest d;

	digest_begin(&d);
	if (n > 0)
		digest_add(&d, notes, (size_t)n);
	add_modules(&d);
	digest_end(&d, ret);
}

/* Receives the answer. Its descriptor must be sealed: the copy is written to several snapshots. */
static int receive_copy(int server, struct capture_kernel *ret, struct reason *why)
{
	enum { SEALS = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK };
	struct kernel_response answer;
	_cleanup_close_ int fd = -1;
	size_t n_fds = 1;
	ssize_t n = io_receive_fds(server, &answer, sizeof(answer), &fd, &n_fds, 0);
	struct stat st;

	if (n == -EAGAIN)
		return reason_set(why, -EAGAIN, "csight-kernel did not answer within %d s", ANSWER_SECONDS);
	if (n != sizeof(answer) || answer.version != KERNEL_VERSION)
		return n < 0 ? (int)n : -EPROTO;
	if (answer.rc < 0)
		return reason_set(why, answer.rc, "%.*s", KERNEL_WHY_MAX, answer.why);
	if (fd < 0 || fstat(fd, &st) < 0 || !answer.size || (uint64_t)st.st_size != answer.size ||
	    (fcntl(fd, F_GET_SEALS) & SEALS) != SEALS)
		return -EPROTO;
	*ret = (struct capture_kernel){
		.fd = TAKE_FD(fd), .size = answer.size, .start = answer.start, .length = answer.length
	};
	return 0;
}

int kernel_code_update(struct kernel_code *k, struct reason *why)
{
	const struct kernel_request request = { KERNEL_VERSION, KERNEL_FOR_CODE };
	_cleanup_close_ int server = -1;
	struct capture_kernel copy;
	char key[DIGEST_TEXT];
	int rc;

	find_key(key);
	if (k->copy.size && strcmp(key, k->key) == 0)
		return 0;
	server = k->socket ? io_connect(k->socket, 0, ANSWER_SECONDS) : -ENOENT;
	if (server < 0)
		return reason_set(why, -EOPNOTSUPP, "kernel: csight-kernel.socket cannot be reached: %s",
				  strerror(-server));
	rc = io_send_fds(server, &request, sizeof(request), NULL, 0);
	if (rc == 0) {
		struct reason cause = { "" };

		rc = receive_copy(server, &copy, &cause);
		if (rc < 0)
			reason_set(why, rc, "kernel: %s",
				   *cause.text ? cause.text : "csight-kernel did not answer as it should");
	}
	if (rc < 0)
		return *why->text ? -EOPNOTSUPP : rc;
	drop_copy(k);
	k->copy = copy;
	strcpy(k->key, key);
	return 0;
}

int kernel_code_get(const struct kernel_code *k, struct capture_kernel *ret)
{
	int fd;

	if (!k->copy.size)
		return -ENODATA;
	fd = fcntl(k->copy.fd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return -errno;
	*ret = k->copy;
	ret->fd = fd;
	return 0;
}
