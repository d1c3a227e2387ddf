/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "daemon/decode/job.h"
#include "lib/base/io.h"

enum { PROGRESS_NS = 100000000, FDS_MAX = DECODER_FILES_MAX };

static void close_all(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
}

static int receive_json(int socket, int *fds, size_t *n_fds, json_object **ret)
{
	_cleanup_free_ char *text = malloc(DECODER_MESSAGE_MAX);
	_cleanup_json_ json_object *o = NULL;
	ssize_t n;
	int rc;

	if (!text)
		return -ENOMEM;
	n = io_receive_fds(socket, text, DECODER_MESSAGE_MAX, fds, n_fds, 0);
	if (n < 0)
		return (int)n;
	rc = n ? json_parse(text, (size_t)n, &o) : -EPIPE;
	if (rc == 0 && !json_object_is_type(o, json_type_object))
		rc = -EBADMSG;
	if (rc == 0)
		*ret = TAKE_PTR(o);
	else
		close_all(fds, *n_fds);
	return rc;
}

static int parse_outputs(struct decode_job *j, const int *fds, size_t n_fds)
{
	json_object *list;
	int rc = json_get(j->start, "outputs", json_type_array, &list);

	if (rc < 0)
		return rc == -ENOENT ? -EBADMSG : rc;
	if (json_array_size(list) != n_fds || n_fds > DECODER_OUTPUTS_MAX)
		return -EBADMSG;
	for (size_t i = 0; i < n_fds; i++) {
		json_object *name = json_object_array_get_idx(list, i);
		const struct decode_format *format;

		if (!json_object_is_type(name, json_type_string))
			return -EBADMSG;
		format = decode_format_find(json_object_get_string(name));
		if (!format)
			return reason_set(&j->reason, -EBADMSG, "unknown output format %s",
					  json_object_get_string(name));
		if (format->basis == DECODE_FORMAT_FROM_INPUT && n_fds > 1)
			return reason_set(&j->reason, -EBADMSG, "%s must be the only output", format->name);
		j->outputs[i] = (struct job_output){ format, fds[i] };
	}
	/* A recording that is followed is decoded to lines, and nothing else is. */
	for (size_t i = 0; i < n_fds; i++)
		if ((j->outputs[i].format->basis == DECODE_FORMAT_FROM_LIVE) != (strcmp(j->type, DECODER_LIVE) == 0))
			return reason_set(&j->reason, -EBADMSG, "%s cannot be made of the input type %s",
					  j->outputs[i].format->name, j->type);
	if (strcmp(j->type, DECODER_LIVE) == 0 && n_fds != 1)
		return reason_set(&j->reason, -EBADMSG, "the input type live requires one output");
	j->n_outputs = n_fds;
	j->info = n_fds && j->outputs[0].format->basis == DECODE_FORMAT_FROM_INPUT;
	return 0;
}

/* Reads the description of the snapshot from a file, and puts it into the start message. */
static int read_snapshot(struct decode_job *j, int fd)
{
	_cleanup_free_ char *text = NULL;
	json_object *o = NULL;
	struct stat st;
	ssize_t n;
	int rc;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size <= 0 || st.st_size > DECODER_SNAPSHOT_MAX)
		return -EBADMSG;
	text = malloc((size_t)st.st_size);
	if (!text)
		return -ENOMEM;
	n = io_pread(fd, text, (size_t)st.st_size, 0);
	if (n < 0)
		return (int)n;
	rc = json_parse(text, (size_t)n, &o);
	if (rc == 0)
		json_add(j->start, "snapshot", o);
	return rc;
}

/* Parses the member "options" of the start message, if there is one. Options that it lacks keep their defaults. */
static int parse_options(struct decode_job *j)
{
	uint64_t tid, workers = 0;
	int rc;

	if (!j->options)
		return 0;
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
	return 0;
}

static int parse_start(struct decode_job *j, const int *fds, size_t n_fds)
{
	const char *type;
	bool code = false, jitdump = false, described = false;
	size_t inputs;
	int rc;

	if (json_get_str(j->start, "type", &type) < 0 || strcmp(type, "start") != 0)
		return -EBADMSG;
	if (json_get_str(j->start, "input", &j->type) < 0)
		return -EBADMSG;
	if (strcmp(j->type, DECODER_BUILD_IDS) == 0) {
		memcpy(j->files, fds, n_fds * sizeof(*fds));
		j->n_files = n_fds;
		return n_fds ? 0 : -EBADMSG;
	}
	json_get_bool(j->start, "snapshot", &described);
	if (json_get_bool(j->start, "code", &code) == -EINVAL ||
	    json_get_bool(j->start, "jitdump", &jitdump) == -EINVAL)
		return -EBADMSG;
	inputs = 1u + code + jitdump + described;
	if (n_fds < inputs)
		return -EBADMSG;
	if (described) {
		rc = read_snapshot(j, fds[inputs - 1]);
		if (rc < 0)
			return rc;
	}
	if (json_get(j->start, "options", json_type_object, &j->options) == -EINVAL ||
	    json_get(j->start, "snapshot", json_type_object, &j->snapshot) == -EINVAL ||
	    json_get_bool(j->start, "tables", &j->tables) == -EINVAL)
		return -EBADMSG;
	j->input = fds[0];
	j->code = code ? fds[1] : -1;
	j->jitdump = jitdump ? fds[1 + code] : -1;
	j->only_thread = -1;
	j->inlines = true;
	rc = parse_options(j);
	if (rc == 0)
		rc = parse_outputs(j, fds + inputs, n_fds - inputs);
	if (rc == 0 && described)
		close(fds[inputs - 1]);
	return rc;
}

int job_receive(int socket, struct decode_job *ret)
{
	struct decode_job j = { .socket = socket, .input = -1, .code = -1, .jitdump = -1 };
	int fds[FDS_MAX], rc;
	size_t n_fds = FDS_MAX;

	rc = receive_json(socket, fds, &n_fds, &j.start);
	if (rc < 0)
		return rc;
	rc = parse_start(&j, fds, n_fds);
	if (rc < 0) {
		close_all(fds, n_fds);
		json_object_put(j.start);
		ret->reason = j.reason;
		return rc;
	}
	*ret = j;
	return 0;
}

/* -EMSGSIZE: the message is longer than most. */
static int send_json(int socket, json_object *o, int fd, size_t most)
{
	_cleanup_free_ char *text = json_text(o, JSON_PLAIN);
	size_t size;

	if (!text)
		return -ENOMEM;
	size = strlen(text);
	if (size > most)
		return -EMSGSIZE;
	return io_send_fds(socket, text, size, &fd, fd >= 0);
}

/*
 * Sends a request and waits for its reply, which is a message of the same type with a descriptor or a reason. The owner
 * must send no other message meanwhile. Sets *ret_fd to -1 and ret_reason where the reply has no descriptor.
 */
static int send_request(struct decode_job *j, json_object *request, json_object **ret_reply, int *ret_fd,
			struct reason *ret_reason)
{
	_cleanup_json_ json_object *reply = NULL;
	const char *type, *expected, *reason = NULL;
	size_t n = 1;
	int fd = -1, rc = send_json(j->socket, request, -1, DECODER_REQUEST_MAX);

	if (rc == 0)
		rc = receive_json(j->socket, &fd, &n, &reply);
	if (rc < 0)
		return rc;
	if (json_get_str(request, "type", &expected) < 0 || json_get_str(reply, "type", &type) < 0 ||
	    strcmp(type, expected) != 0 || json_get_str(reply, "reason", &reason) == -EINVAL) {
		if (n)
			close(fd);
		return -EBADMSG;
	}
	*ret_fd = n ? fd : -1;
	reason_set(ret_reason, 0, "%s", reason ? reason : "not there");
	*ret_reply = TAKE_PTR(reply);
	return 0;
}

int job_image(struct decode_job *j, const struct job_image_request *image, int *ret_fd, struct reason *ret_reason)
{
	_cleanup_json_ json_object *request = json_object_new_object(), *reply = NULL;
	_cleanup_close_ int fd = -1;
	uint64_t index;
	int rc;

	json_add_str(request, "type", "image");
	json_add_u64(request, "index", image->index);
	json_add_bytes(request, "path", image->path);
	json_add_str(request, "build_id", image->build_id);
	if (image->inode)
		json_add_u64(request, "inode", image->inode);
	if (image->debug)
		json_add_bytes(request, "debug", image->debug);
	if (image->attempt)
		json_add_u64(request, "attempt", image->attempt);
	rc = send_request(j, request, &reply, &fd, ret_reason);
	if (rc < 0)
		return rc;
	if (json_get_u64(reply, "index", &index) < 0 || index != image->index)
		return -EBADMSG;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int job_file(struct decode_job *j, const char *name, int *ret_fd, struct reason *ret_reason)
{
	_cleanup_json_ json_object *request = json_object_new_object(), *reply = NULL;

	json_add_str(request, "type", "file");
	json_add_bytes(request, "name", name);
	return send_request(j, request, &reply, ret_fd, ret_reason);
}

int job_table(struct decode_job *j, const char *key, int *ret_fd)
{
	_cleanup_json_ json_object *request = json_object_new_object(), *reply = NULL;

	json_add_str(request, "type", "table");
	json_add_str(request, "key", key);
	return send_request(j, request, &reply, ret_fd, NULL);
}

int job_keep(struct decode_job *j, const char *key, int fd)
{
	_cleanup_json_ json_object *o = json_object_new_object();

	json_add_str(o, "type", "keep");
	json_add_str(o, "key", key);
	return send_json(j->socket, o, fd, DECODER_REQUEST_MAX);
}

void job_progress(struct decode_job *j, uint64_t done, uint64_t total)
{
	_cleanup_json_ json_object *o = NULL;
	uint64_t now = now_ns(CLOCK_MONOTONIC);

	if (j->progress_at && now - j->progress_at < PROGRESS_NS && done != total)
		return;
	j->progress_at = now;
	o = json_object_new_object();
	json_add_str(o, "type", "progress");
	json_add_u64(o, "done", done);
	json_add_u64(o, "total", total);
	send_json(j->socket, o, -1, DECODER_REQUEST_MAX);
}

static void list_truncate(json_object *o, const char *key, size_t most)
{
	json_object *list;
	uint64_t before = 0;
	char omitted[64];
	size_t n;

	if (json_get(o, key, json_type_array, &list) < 0)
		return;
	n = json_array_size(list);
	if (n <= most)
		return;
	json_object_array_del_idx(list, most, n - most);
	snprintf(omitted, sizeof(omitted), "%s_omitted", key);
	json_get_u64(o, omitted, &before);
	json_add_u64(o, omitted, before + n - most);
}

int job_result(struct decode_job *j, json_object *result)
{
	int rc = send_json(j->socket, result, -1, DECODER_MESSAGE_MAX);

	for (size_t most = 512; rc == -EMSGSIZE && most; most /= 2) {
		list_truncate(result, "threads", most);
		list_truncate(result, "images", most);
		rc = send_json(j->socket, result, -1, DECODER_MESSAGE_MAX);
	}
	return rc;
}

int job_failed(struct decode_job *j, const char *reason)
{
	_cleanup_json_ json_object *o = json_object_new_object();

	json_add_str(o, "type", "failed");
	json_add_bytes(o, "reason", reason);
	return send_json(j->socket, o, -1, DECODER_REQUEST_MAX);
}
