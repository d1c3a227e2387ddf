#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/offline.h"
#include "lib/base/escape.h"
#include "lib/base/io.h"

enum { SNAPSHOT_JSON_MAX = 64 << 20, NOBODY = 65534, JOB = 1 };

void offline_done(struct offline *o)
{
	finder_done(&o->finder);
	closep(&o->finder.dir);
	closep(&o->input);
	closep(&o->code);
	if (o->path)
		closep(&o->output);
	closep(&o->job);
	/* The server ends with this, and its child with it. */
	closep(&o->server);
	if (o->pid > 0)
		while (waitpid(o->pid, NULL, 0) < 0 && errno == EINTR)
			;
	json_object_put(o->finder.snapshot);
	json_object_put(o->options);
}

static int cannot(const char *what, const char *name, int rc)
{
	client_error("cannot %s %s: %s", what, esc(name), strerror(-rc));
	return STATUS_FAILED;
}

static int open_snapshot(struct offline *d, const char *name)
{
	_cleanup_free_ char *text = NULL;
	size_t size;
	int rc = read_file(d->finder.dir, "snapshot.json", SNAPSHOT_JSON_MAX, &text, &size);

	if (rc < 0)
		return cannot("read snapshot.json of", name, rc);
	rc = json_parse(text, size, &d->finder.snapshot);
	if (rc < 0 || !json_object_is_type(d->finder.snapshot, json_type_object))
		return cannot("read snapshot.json of", name, rc < 0 ? rc : -EBADMSG);
	d->input = openat(d->finder.dir, "trace.perf.data", O_RDONLY | O_CLOEXEC);
	if (d->input < 0)
		return cannot("open trace.perf.data of", name, -errno);
	d->code = openat(d->finder.dir, "code/bytes", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (d->code < 0 && errno != ENOENT)
		return cannot("open code/bytes of", name, -errno);
	return STATUS_OK;
}

/* Ours, or Arm's: what is in it is told by the file that describes it. */
static int open_directory(struct offline *d, const char *name)
{
	int rc = open_beneath(d->finder.dir, "snapshot.ini", &d->input);

	if (rc == -ENOENT)
		return open_snapshot(d, name);
	if (rc < 0)
		return cannot("open snapshot.ini of", name, rc);
	d->type = "snapshot";
	return STATUS_OK;
}

/* The decoder asks for the file of registers, and for what that names, beneath its directory. */
static int open_regs(struct offline *d)
{
	_cleanup_free_ char *dir = strdup(d->regs);
	char *slash = dir ? strrchr(dir, '/') : NULL;

	if (!dir)
		return cannot("open", d->regs, -ENOMEM);
	if (slash)
		slash[slash == dir] = 0;
	d->finder.dir = open(slash ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (d->finder.dir < 0)
		return cannot("open", slash ? dir : ".", -errno);
	json_add_str(d->options, "regs", slash ? strrchr(d->regs, '/') + 1 : d->regs);
	d->type = "bytes";
	return STATUS_OK;
}

int offline_input(struct offline *d, const char *name)
{
	struct stat st;

	d->type = "perf.data";
	d->input = open(name, O_RDONLY | O_CLOEXEC);
	if (d->input < 0 || fstat(d->input, &st) < 0)
		return cannot("open", name, -errno);
	if (!S_ISDIR(st.st_mode))
		return d->regs ? open_regs(d) : STATUS_OK;
	if (d->regs) {
		client_error("--regs is for a file of bare trace; %s is a directory", esc(name));
		return STATUS_FAILED;
	}
	d->finder.dir = d->input;
	d->input = -1;
	return open_directory(d, name);
}

int offline_output(struct offline *d)
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

static int start(struct offline *d)
{
	struct worker_start s = {
		.input = d->type,
		.input_fd = d->input,
		.code_fd = d->code,
		.outputs = &d->format,
		.output_fds = &d->output,
		.n_outputs = 1,
		.options = d->options,
		.snapshot = d->finder.snapshot,
	};
	uid_t uid;
	gid_t gid;
	int rc;

	find_user(&uid, &gid);
	rc = worker_spawn(NULL, uid, gid, &d->pid, &d->server);
	if (rc == 0)
		rc = worker_submit(d->server, JOB, &d->job);
	if (rc == 0)
		rc = worker_start(d->job, &s);
	return rc < 0 ? cannot("start", "csight-decode", rc) : STATUS_OK;
}

static int tell_crash(struct offline *d)
{
	char how[128] = "ended without a result, and so did its server";
	int status = 0;
	uint64_t job;

	if (worker_ended(d->server, 0, &job, &status) == 0)
		worker_death(status, how, sizeof(how));
	client_error("the decoder crashed: %s", how);
	return STATUS_FAILED;
}

/* 0 to go on, else an exit status; STATUS_OK is told by *ret_done. */
static int on_event(struct offline *d, const struct worker_event *e, bool *ret_done)
{
	struct pollfd gone = { STDOUT_FILENO, 0, 0 };
	char reason[256] = "";
	int fd, rc;

	switch (e->type) {
	case WORKER_IMAGE:
		fd = finder_open(&d->finder, e, reason, sizeof(reason));
		rc = worker_image(d->job, e->index, fd, reason);
		closep(&fd);
		/* A decoder that is gone shows when the next message is waited for. */
		return rc < 0 && rc != -EPIPE && rc != -ECONNRESET ? cannot("answer", "csight-decode", rc) : 0;
	case WORKER_FILE:
		fd = -1;
		rc = d->finder.dir < 0 ? -ENOENT : open_beneath(d->finder.dir, e->path, &fd);
		rc = worker_file(d->job, fd, rc == -EINVAL ? "no regular file beneath the directory" : strerror(-rc));
		closep(&fd);
		return rc < 0 && rc != -EPIPE && rc != -ECONNRESET ? cannot("answer", "csight-decode", rc) : 0;
	case WORKER_PROGRESS:
		client_progress(d->client, "decoding", e->done, e->total);
		return 0;
	case WORKER_RESULT:
		client_progress_end(d->client);
		d->on_result(d->client, e->body);
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

static int follow(struct offline *d)
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

int offline_run(struct offline *d)
{
	struct stat st;
	int rc = start(d);

	if (rc == 0)
		rc = follow(d);
	/* Half a file must not be taken for a whole one. */
	if (rc != 0 && d->made && fstat(d->output, &st) == 0 && S_ISREG(st.st_mode))
		unlink(d->path);
	return rc;
}
