#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/decode/job.h"
#include "lib/base/io.h"

enum { PROGRESS_NS = 100000000, FDS_MAX = DECODER_OUTPUTS_MAX + 2 };

int job_why(struct decode_job *j, int error, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(j->reason, sizeof(j->reason), fmt, args);
	va_end(args);
	return error;
}

static int receive(int socket, int *fds, size_t *n_fds, json_object **ret)
{
	_cleanup_free_ char *text = malloc(DECODER_MESSAGE_MAX);
	_cleanup_json_ json_object *o = NULL;
	ssize_t n;
	int rc;

	if (!text)
		return -ENOMEM;
	n = fdmsg_recv(socket, text, DECODER_MESSAGE_MAX, fds, n_fds, 0);
	if (n <= 0)
		return n == 0 ? -EPIPE : (int)n;
	rc = json_parse(text, (size_t)n, &o);
	if (rc == 0 && !json_object_is_type(o, json_type_object))
		rc = -EBADMSG;
	if (rc == 0)
		*ret = TAKE_PTR(o);
	else
		for (size_t i = 0; i < *n_fds; i++)
			close(fds[i]);
	return rc;
}

static int read_outputs(struct decode_job *j, const int *fds, size_t n_fds)
{
	json_object *list;
	int rc = json_get(j->start, "outputs", json_type_array, &list);

	if (rc < 0)
		return rc == -ENOENT ? -EBADMSG : rc;
	if (json_object_array_length(list) != n_fds || n_fds > DECODER_OUTPUTS_MAX)
		return -EBADMSG;
	for (size_t i = 0; i < n_fds; i++) {
		json_object *name = json_object_array_get_idx(list, i);

		if (!json_object_is_type(name, json_type_string))
			return -EBADMSG;
		j->outputs[i] = (struct decode_output_fd){ json_object_get_string(name), fds[i] };
	}
	j->n_outputs = n_fds;
	j->info = n_fds == 1 && strncmp(j->outputs[0].format, "info", 4) == 0;
	return 0;
}

static int read_start(struct decode_job *j, const int *fds, size_t n_fds)
{
	const char *type;
	bool code = false;
	uint64_t tid, workers = 0;
	int rc;

	if (json_get_str(j->start, "type", &type) < 0 || strcmp(type, "start") != 0)
		return -EBADMSG;
	if (json_get_str(j->start, "input", &j->type) < 0)
		return -EBADMSG;
	if (json_get_bool(j->start, "code", &code) == -EINVAL || n_fds < 1u + code)
		return -EBADMSG;
	if (json_get(j->start, "options", json_type_object, &j->options) == -EINVAL ||
	    json_get(j->start, "snapshot", json_type_object, &j->snapshot) == -EINVAL ||
	    json_get_bool(j->start, "tables", &j->tables) == -EINVAL)
		return -EBADMSG;
	j->input = fds[0];
	j->code = code ? fds[1] : -1;
	j->only_thread = -1;
	j->inlines = true;
	if (j->options) {
		rc = json_get_u64(j->options, "thread", &tid);
		if (rc == -EINVAL || (rc == 0 && tid > UINT32_MAX))
			return -EBADMSG;
		if (rc == 0)
			j->only_thread = (int64_t)tid;
		if (json_get_str(j->options, "buffer", &j->buffer) == -EINVAL ||
		    json_get_str(j->options, "regs", &j->regs) == -EINVAL ||
		    json_get_str(j->options, "engine", &j->engine) == -EINVAL ||
		    json_get_bool(j->options, "verify", &j->verify) == -EINVAL ||
		    json_get_bool(j->options, "inlines", &j->inlines) == -EINVAL ||
		    json_get_u64(j->options, "workers", &workers) == -EINVAL || workers > UINT32_MAX)
			return -EBADMSG;
		j->workers = (uint32_t)workers;
	}
	return read_outputs(j, fds + 1 + code, n_fds - 1 - code);
}

int job_receive(int socket, struct decode_job *ret)
{
	struct decode_job j = { .socket = socket, .input = -1, .code = -1 };
	int fds[FDS_MAX], rc;
	size_t n_fds = FDS_MAX;

	rc = receive(socket, fds, &n_fds, &j.start);
	if (rc < 0)
		return rc;
	rc = read_start(&j, fds, n_fds);
	if (rc < 0) {
		json_object_put(j.start);
		return rc;
	}
	*ret = j;
	return 0;
}

static int send_json(int socket, json_object *o, int fd)
{
	size_t size = 0;
	const char *text = o ? json_object_to_json_string_length(o, JSON_C_TO_STRING_PLAIN, &size) : NULL;

	if (!text)
		return -ENOMEM;
	if (size > DECODER_MESSAGE_MAX)
		return -EMSGSIZE;
	return fdmsg_send(socket, text, size, &fd, fd >= 0);
}

/* What comes back is of the same type, with a descriptor or a reason. */
static int ask(struct decode_job *j, json_object *question, json_object **ret_answer, int *ret_fd, char *ret_reason,
	       size_t reason_size)
{
	_cleanup_json_ json_object *answer = NULL;
	const char *type, *wanted, *reason = NULL;
	size_t n = 1;
	int fd = -1, rc = send_json(j->socket, question, -1);

	if (rc == 0)
		rc = receive(j->socket, &fd, &n, &answer);
	if (rc < 0)
		return rc;
	if (json_get_str(question, "type", &wanted) < 0 || json_get_str(answer, "type", &type) < 0 ||
	    strcmp(type, wanted) != 0 || json_get_str(answer, "reason", &reason) == -EINVAL) {
		if (n)
			close(fd);
		return -EBADMSG;
	}
	*ret_fd = n ? fd : -1;
	snprintf(ret_reason, reason_size, "%s", reason ? reason : "not there");
	*ret_answer = TAKE_PTR(answer);
	return 0;
}

int job_image(struct decode_job *j, uint32_t index, const char *path, const char *build_id, uint64_t inode,
	      const char *debug, uint64_t attempt, int *ret_fd, char *ret_reason, size_t reason_size)
{
	_cleanup_json_ json_object *question = json_object_new_object(), *answer = NULL;
	_cleanup_close_ int fd = -1;
	uint64_t got;
	int rc;

	json_add_str(question, "type", "image");
	json_add_u64(question, "index", index);
	json_add_bytes(question, "path", path);
	json_add_str(question, "build_id", build_id);
	if (inode)
		json_add_u64(question, "inode", inode);
	if (debug)
		json_add_bytes(question, "debug", debug);
	if (attempt)
		json_add_u64(question, "attempt", attempt);
	rc = ask(j, question, &answer, &fd, ret_reason, reason_size);
	if (rc < 0)
		return rc;
	if (json_get_u64(answer, "index", &got) < 0 || got != index)
		return -EBADMSG;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int job_file(struct decode_job *j, const char *name, int *ret_fd, char *ret_reason, size_t reason_size)
{
	_cleanup_json_ json_object *question = json_object_new_object(), *answer = NULL;

	json_add_str(question, "type", "file");
	json_add_bytes(question, "name", name);
	return ask(j, question, &answer, ret_fd, ret_reason, reason_size);
}

int job_table(struct decode_job *j, const char *key, int *ret_fd)
{
	_cleanup_json_ json_object *question = json_object_new_object(), *answer = NULL;
	char reason[64];

	json_add_str(question, "type", "table");
	json_add_str(question, "key", key);
	return ask(j, question, &answer, ret_fd, reason, sizeof(reason));
}

int job_keep(struct decode_job *j, const char *key, int fd)
{
	_cleanup_json_ json_object *o = json_object_new_object();

	json_add_str(o, "type", "keep");
	json_add_str(o, "key", key);
	return send_json(j->socket, o, fd);
}

void job_progress(struct decode_job *j, uint64_t done, uint64_t total)
{
	_cleanup_json_ json_object *o = NULL;
	uint64_t now = now_ns(CLOCK_MONOTONIC);

	if (j->told_at && now - j->told_at < PROGRESS_NS && done != total)
		return;
	j->told_at = now;
	o = json_object_new_object();
	json_add_str(o, "type", "progress");
	json_add_u64(o, "done", done);
	json_add_u64(o, "total", total);
	send_json(j->socket, o, -1);
}

static void cut_list(json_object *o, const char *key, size_t most)
{
	json_object *list;
	uint64_t before = 0;
	char omitted[64];
	size_t n;

	if (json_get(o, key, json_type_array, &list) < 0)
		return;
	n = json_object_array_length(list);
	if (n <= most)
		return;
	json_object_array_del_idx(list, most, n - most);
	snprintf(omitted, sizeof(omitted), "%s_omitted", key);
	json_get_u64(o, omitted, &before);
	json_add_u64(o, omitted, before + n - most);
}

int job_result(struct decode_job *j, json_object *result)
{
	int rc = send_json(j->socket, result, -1);

	for (size_t most = 512; rc == -EMSGSIZE && most; most /= 2) {
		cut_list(result, "threads", most);
		cut_list(result, "images", most);
		rc = send_json(j->socket, result, -1);
	}
	return rc;
}

int job_failed(struct decode_job *j, const char *reason)
{
	_cleanup_json_ json_object *o = json_object_new_object();

	json_add_str(o, "type", "failed");
	json_add_bytes(o, "reason", reason);
	return send_json(j->socket, o, -1);
}
