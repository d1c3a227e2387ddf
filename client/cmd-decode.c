/* csight decode: a perf.data or a snapshot's directory through csight-decode, without the daemon. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "client/client.h"
#include "client/format.h"
#include "lib/base/escape.h"
#include "lib/base/io.h"
#include "lib/base/json.h"
#include "lib/worker/worker.h"

enum { OPTION_TO, OPTION_OUTPUT, OPTION_THREAD };

static const struct verb_option options[] = {
	[OPTION_TO] = { "to", 't', "FORMAT", "elements (the default), pcs, calls, perfetto, store or none" },
	[OPTION_OUTPUT] = { "output", 'o', "FILE", "write there, not to standard output" },
	[OPTION_THREAD] = { "thread", 0, "TID", "only this thread, by its number" },
	{ 0 },
};

static const char *const formats[] = { "elements", "pcs", "calls", "perfetto", "store", "none" };

enum { SNAPSHOT_JSON_MAX = 64 << 20, NOBODY = 65534, JOB = 1 };

struct decode {
	struct client *client;
	const char *format, *path; /* path NULL: standard output */
	int64_t thread;            /* -1: all */
	int dir;                   /* of a snapshot, or -1 */
	json_object *snapshot;     /* or NULL */
	int input, code, output;
	bool made; /* the output file */
	int server, job;
	pid_t pid;
};

static void decode_done(struct decode *d)
{
	closep(&d->dir);
	closep(&d->input);
	closep(&d->code);
	if (d->path)
		closep(&d->output);
	closep(&d->job);
	/* The server ends with this, and its child with it. */
	closep(&d->server);
	if (d->pid > 0)
		while (waitpid(d->pid, NULL, 0) < 0 && errno == EINTR)
			;
	json_object_put(d->snapshot);
}

static int cannot(const char *what, const char *name, int rc)
{
	client_error("cannot %s %s: %s", what, esc(name), strerror(-rc));
	return STATUS_FAILED;
}

static int open_snapshot(struct decode *d, const char *name)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	int rc = read_file(d->dir, "snapshot.json", SNAPSHOT_JSON_MAX, &text, &size);

	if (rc < 0)
		return cannot("read snapshot.json of", name, rc);
	rc = json_parse(text, size, &d->snapshot);
	if (rc < 0 || !json_object_is_type(d->snapshot, json_type_object))
		return cannot("read snapshot.json of", name, rc < 0 ? rc : -EBADMSG);
	d->input = openat(d->dir, "trace.perf.data", O_RDONLY | O_CLOEXEC);
	if (d->input < 0)
		return cannot("open trace.perf.data of", name, -errno);
	d->code = openat(d->dir, "code/bytes", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (d->code < 0 && errno != ENOENT)
		return cannot("open code/bytes of", name, -errno);
	return STATUS_OK;
}

static int open_input(struct decode *d, const char *name)
{
	struct stat st;

	d->input = open(name, O_RDONLY | O_CLOEXEC);
	if (d->input < 0 || fstat(d->input, &st) < 0)
		return cannot("open", name, -errno);
	if (!S_ISDIR(st.st_mode))
		return STATUS_OK;
	d->dir = d->input;
	d->input = -1;
	return open_snapshot(d, name);
}

static int open_output(struct decode *d)
{
	if (strcmp(d->format, "none") == 0 && !d->path)
		d->path = "/dev/null";
	if (!d->path) {
		d->output = STDOUT_FILENO;
		return STATUS_OK;
	}
	/* A store is written here and there, and read again. */
	d->output = open(d->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (d->output < 0 && errno != ENOENT)
		d->output = open(d->path, O_WRONLY | O_CLOEXEC);
	if (d->output < 0)
		return cannot("write", d->path, -errno);
	d->made = true;
	return STATUS_OK;
}

/* What the snapshot knows of a mapped file: of this build-id and inode, where both sides know them. */
static json_object *find_image(const struct decode *d, const char *path, const char *build_id, uint64_t wanted)
{
	json_object *list;

	if (!d->snapshot || json_get(d->snapshot, "images", json_type_array, &list) < 0)
		return NULL;
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		json_object *o = json_object_array_get_idx(list, i);
		const char *text, *id;
		uint64_t inode;

		if (!json_object_is_type(o, json_type_object) || json_get_str(o, "path", &text) < 0 ||
		    strcmp(text, path) != 0)
			continue;
		/* A file that was replaced stands there twice. */
		if (build_id && json_get_str(o, "build_id", &id) == 0 && strcmp(id, build_id) != 0)
			continue;
		if (!wanted || json_get_u64(o, "inode", &inode) < 0 || inode == wanted)
			return o;
	}
	return NULL;
}

/* A copy within the snapshot; it stays there, whatever its name says. */
static int open_copy(const struct decode *d, const char *file)
{
	if (file[0] == '/' || strstr(file, "..")) {
		errno = EINVAL;
		return -1;
	}
	return openat(d->dir, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

static int open_image(const struct decode *d, const char *path, const char *build_id, uint64_t inode,
		      char *ret_reason, size_t size)
{
	json_object *known = find_image(d, path, build_id, inode);
	const char *file, *missing;
	uint64_t recorded;
	struct stat st;
	int fd;

	if (known && json_get_str(known, "file", &file) == 0) {
		fd = open_copy(d, file);
	} else if (known && json_get_str(known, "missing", &missing) == 0) {
		snprintf(ret_reason, size, "%s", missing);
		return -1;
	} else {
		/* A path out of a file may name anything: what is no file of bytes is not waited for. */
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
		if (fd >= 0 && known && json_get_u64(known, "size", &recorded) == 0 && fstat(fd, &st) == 0 &&
		    (uint64_t)st.st_size != recorded) {
			close(fd);
			snprintf(ret_reason, size, "the file has changed since it was traced");
			return -1;
		}
	}
	if (fd >= 0 && fstat(fd, &st) == 0 && !S_ISREG(st.st_mode)) {
		close(fd);
		snprintf(ret_reason, size, "not a regular file");
		return -1;
	}
	if (fd < 0)
		snprintf(ret_reason, size, "%s", strerror(errno));
	return fd < 0 ? -1 : fd;
}

/* Whoever is root decodes as nobody. */
static void find_user(uid_t *ret_uid, gid_t *ret_gid)
{
	const struct passwd *p = NULL;

	*ret_uid = (uid_t)-1;
	*ret_gid = (gid_t)-1;
	if (geteuid() != 0)
		return;
	p = getpwnam("csight");
	if (!p)
		p = getpwnam("nobody");
	*ret_uid = p && p->pw_uid ? p->pw_uid : NOBODY;
	*ret_gid = p && p->pw_gid ? p->pw_gid : NOBODY;
}

static int start(struct decode *d)
{
	_cleanup_json_ json_object *wanted = json_object_new_object();
	struct worker_start s = {
		.input = "perf.data",
		.input_fd = d->input,
		.code_fd = d->code,
		.outputs = &d->format,
		.output_fds = &d->output,
		.n_outputs = 1,
		.options = wanted,
		.snapshot = d->snapshot,
	};
	uid_t uid;
	gid_t gid;
	int rc;

	find_user(&uid, &gid);
	if (d->thread >= 0)
		json_add_i64(wanted, "thread", d->thread);
	rc = worker_spawn(NULL, uid, gid, &d->pid, &d->server);
	if (rc == 0)
		rc = worker_submit(d->server, JOB, &d->job);
	if (rc == 0)
		rc = worker_start(d->job, &s);
	return rc < 0 ? cannot("start", "csight-decode", rc) : STATUS_OK;
}

static int tell_crash(struct decode *d)
{
	char how[128] = "ended without a result, and so did its server";
	int status = 0;
	uint64_t job;

	if (worker_ended(d->server, 0, &job, &status) == 0)
		worker_death(status, how, sizeof(how));
	client_error("the decoder crashed: %s", how);
	return STATUS_FAILED;
}

static const char *text_of(json_object *o, const char *key)
{
	const char *text;

	return json_get_str(o, key, &text) == 0 ? text : NULL;
}

static uint64_t number_of(json_object *o, const char *key)
{
	uint64_t v = 0;

	json_get_u64(o, key, &v);
	return v;
}

static void tell_images(json_object *result)
{
	json_object *list;

	if (json_get(result, "images", json_type_array, &list) < 0)
		return;
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		json_object *o = json_object_array_get_idx(list, i);
		bool found = true;

		if (!json_object_is_type(o, json_type_object) || json_get_bool(o, "found", &found) < 0 || found)
			continue;
		fprintf(stderr, "  no image %s: %s\n", esc(text_of(o, "path") ? text_of(o, "path") : "?"),
			esc(text_of(o, "reason") ? text_of(o, "reason") : "?"));
	}
}

static void tell_result(json_object *result)
{
	json_object *gaps, *list, *seconds;
	double took = 0;

	if (json_get(result, "seconds", json_type_double, &seconds) == 0)
		took = json_object_get_double(seconds);
	fprintf(stderr, "decoded %s of %s: %s instructions in %s ranges, %s exceptions, %.2f s\n",
		format_size(number_of(result, "decoded")), format_size(number_of(result, "bytes")),
		format_count(number_of(result, "instructions")), format_count(number_of(result, "ranges")),
		format_count(number_of(result, "exceptions")), took);
	if (json_get(result, "gaps", json_type_object, &gaps) == 0 && json_object_object_length(gaps)) {
		fputs("  gaps:", stderr);
		json_object_object_foreach(gaps, name, count)
		    fprintf(stderr, " %s %s", esc(name), format_count((uint64_t)json_object_get_int64(count)));
		fputc('\n', stderr);
	}
	tell_images(result);
	if (json_get(result, "warnings", json_type_array, &list) < 0)
		return;
	for (size_t i = 0; i < json_object_array_length(list); i++)
		fprintf(stderr, "  warning: %s\n", esc(json_object_get_string(json_object_array_get_idx(list, i))));
}

static void on_result(struct client *c, json_object *result)
{
	json_object_object_del(result, "type");
	if (c->json)
		printf("%s\n",
		       json_object_to_json_string_ext(result, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
	else if (!c->quiet)
		tell_result(result);
}

/* 0 to go on, else an exit status; STATUS_OK is told by *ret_done. */
static int on_event(struct decode *d, const struct worker_event *e, bool *ret_done)
{
	struct pollfd gone = { STDOUT_FILENO, 0, 0 };
	char reason[256] = "";
	int fd, rc;

	switch (e->type) {
	case WORKER_IMAGE:
		fd = open_image(d, e->path, e->build_id, e->inode, reason, sizeof(reason));
		rc = worker_image(d->job, e->index, fd, reason);
		closep(&fd);
		/* A decoder that is gone shows when the next message is waited for. */
		return rc < 0 && rc != -EPIPE && rc != -ECONNRESET ? cannot("answer", "csight-decode", rc) : 0;
	case WORKER_PROGRESS:
		client_progress(d->client, "decoding", e->done, e->total);
		return 0;
	case WORKER_RESULT:
		client_progress_end(d->client);
		on_result(d->client, e->body);
		*ret_done = true;
		return 0;
	case WORKER_FAILED:
		client_progress_end(d->client);
		/* Who reads standard output may have seen enough. */
		if (!d->path && poll(&gone, 1, 0) == 1 && gone.revents & POLLERR)
			*ret_done = true;
		else
			client_error("cannot decode: %s", esc(e->reason));
		return *ret_done ? STATUS_OK : STATUS_FAILED;
	}
	return 0;
}

static int follow(struct decode *d)
{
	bool done = false;
	int status = 0;

	while (!done && status == 0) {
		_cleanup_(worker_event_done) struct worker_event e = { 0 };
		int rc = worker_receive(d->job, 0, &e);

		if (rc == -EPIPE) {
			client_progress_end(d->client);
			return tell_crash(d);
		}
		status = rc < 0 ? cannot("understand", "csight-decode", rc) : on_event(d, &e, &done);
	}
	return status;
}

static int parse(struct client *c, struct decode *d)
{
	const char *value;
	int o;

	while ((o = client_option(c, &value)) >= 0)
		switch (o) {
		case OPTION_TO:
			d->format = value;
			break;
		case OPTION_OUTPUT:
			d->path = strcmp(value, "-") == 0 ? NULL : value;
			break;
		case OPTION_THREAD:
			if (parse_number(value, 0, UINT32_MAX, &d->thread) < 0)
				return client_usage(c, "'%s' is not a thread's number", esc(value));
			break;
		}
	if (o == CLIENT_STOP)
		return c->status;
	if (c->argc != 1)
		return client_usage(c, c->argc ? "one input at a time" : "what is to be decoded? its name is missing");
	for (size_t i = 0; i < ELEMENTS(formats); i++)
		if (strcmp(formats[i], d->format) == 0)
			o = 0;
	if (o != 0)
		return client_usage(c, "there is no format '%s'", esc(d->format));
	if (c->json && !d->path && strcmp(d->format, "none") != 0)
		return client_usage(c, "--json tells of the decode; the output itself needs a file (-o)");
	if (!d->path && (strcmp(d->format, "store") == 0 || (strcmp(d->format, "perfetto") == 0 && isatty(1))))
		return client_usage(c, "%s is no text; name a file with -o", d->format);
	return -1;
}

static int run(struct client *c)
{
	_cleanup_(decode_done) struct decode d = {
		.client = c,
		.format = formats[0],
		.thread = -1,
		.dir = -1,
		.input = -1,
		.code = -1,
		.output = -1,
		.server = -1,
		.job = -1,
	};
	struct stat st;
	int rc = parse(c, &d);

	if (rc >= 0)
		return rc;
	rc = open_input(&d, c->argv[0]);
	if (rc == 0)
		rc = open_output(&d);
	if (rc == 0)
		rc = start(&d);
	if (rc == 0)
		rc = follow(&d);
	/* Half a file must not be taken for a whole one. */
	if (rc != 0 && d.made && fstat(d.output, &st) == 0 && S_ISREG(st.st_mode))
		unlink(d.path);
	return rc;
}

const struct verb cmd_decode = {
	.name = "decode",
	.arguments = "INPUT",
	.summary = "decode a perf.data or a snapshot's directory, without the daemon",
	.flags = VERB_JSON | VERB_QUIET,
	.options = options,
	.run = run,
};
