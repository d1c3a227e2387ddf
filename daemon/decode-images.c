/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/fsuid.h>

#include "daemon/capture/process/file-identity.h"
#include "daemon/decode-images.h"

struct decode_images {
	unsigned refs; /* the owner's, and one for each file that is being opened */
	struct decode_images_options o;
	bool ended;
};

int decode_images_new(const struct decode_images_options *options, struct decode_images **ret)
{
	struct decode_images *i = malloc(sizeof(*i));

	if (!i)
		return -ENOMEM;
	*i = (struct decode_images){ 1, *options, false };
	snapshot_ref(i->o.snapshot);
	json_object_get(i->o.info);
	*ret = i;
	return 0;
}

static void answer(struct decode_images *i, uint32_t index, int fd, const char *reason)
{
	if (!i->ended)
		i->o.answer(i->o.data, index, fd, reason);
}

static void decode_images_unref(struct decode_images *i)
{
	if (--i->refs > 0)
		return;
	snapshot_unref(i->o.snapshot);
	json_object_put(i->o.info);
	free(i);
}

void decode_images_end(struct decode_images *i)
{
	if (!i)
		return;
	i->ended = true;
	decode_images_unref(i);
}

/* An open() by path. It has a thread of its own, since the path may lead into a file system that never answers. */
struct opening {
	struct work work;
	struct decode_images *images;
	uint32_t index;
	char *path;
	char *fallback; /* the second path of a debug file */
	bool debug;     /* a debug file: any regular file is accepted */
	struct file_identity want;
	uid_t uid;
	gid_t gid;
	int fd;
	const char *reason;
};

static bool same_file(const struct file_identity *a, const struct file_identity *b)
{
	return a->inode == b->inode && a->size == b->size && a->mtime == b->mtime && a->major == b->major &&
	       a->minor == b->minor;
}

static void run_opening(struct work *w)
{
	struct opening *o = container_of(w, struct opening, work);
	uid_t uid = geteuid();
	gid_t gid = getegid();
	struct file_identity is;

	/* These calls apply to this thread only, and also drop root's rights over files. */
	setfsgid(o->gid);
	setfsuid(o->uid);
	o->fd = o->path ? open(o->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
	if (o->fd < 0 && o->fallback)
		o->fd = open(o->fallback, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	setfsuid(uid);
	setfsgid(gid);
	if (o->fd < 0) {
		o->reason = o->debug ? "there is no such file" : "the file cannot be opened";
		return;
	}
	if (file_identify(o->fd, &is) == 0 && is.regular && (o->debug || same_file(&is, &o->want)))
		return;
	closep(&o->fd);
	o->reason = o->debug ? "not a regular file" : "the file has changed since the snapshot";
}

static void opening_free(struct opening *o)
{
	free(o->path);
	free(o->fallback);
	free(o);
}

static void opening_ran(struct work *w)
{
	struct opening *o = container_of(w, struct opening, work);
	struct decode_images *i = o->images;

	answer(i, o->index, o->fd, o->reason);
	if (o->fd >= 0)
		target_file_unref(target_file_new(i->o.queue, 0, o->fd));
	decode_images_unref(i);
	opening_free(o);
}

static void opening_submit(struct decode_images *i, uint32_t index, struct opening *o)
{
	o->work = (struct work){ run_opening, opening_ran };
	o->images = i;
	i->refs++;
	o->index = index;
	o->uid = i->o.snapshot->uid;
	o->gid = i->o.snapshot->gid;
	workqueue_submit(i->o.queue, &o->work);
}

static bool open_by_path(struct decode_images *i, uint32_t index, json_object *image)
{
	struct opening *o = calloc(1, sizeof(*o));
	const char *path, *device;

	if (!o)
		return false;
	if (json_get_str(image, "path", &path) < 0 || json_get_str(image, "device", &device) < 0 ||
	    sscanf(device, "%u:%u", &o->want.major, &o->want.minor) != 2 ||
	    json_get_u64(image, "inode", &o->want.inode) < 0 || json_get_u64(image, "size", &o->want.size) < 0 ||
	    json_get_u64(image, "mtime", &o->want.mtime) < 0 || !(o->path = strdup(path))) {
		opening_free(o);
		return false;
	}
	opening_submit(i, index, o);
	return true;
}

/* The decoder is not trusted: no build-id or name from it may lead out of /usr/lib/debug. */
static bool open_debug(struct decode_images *i, const struct decoder_event *e)
{
	const char *id = e->build_id ? e->build_id : "", *slash = strrchr(e->path, '/');
	struct opening *o;

	if (strlen(id) < 4 || id[strspn(id, "0123456789abcdef")])
		id = "";
	if (e->path[0] != '/' || strstr(e->path, "/../") || !*e->debug || e->debug[0] == '.' || strchr(e->debug, '/'))
		slash = NULL;
	o = *id || slash ? calloc(1, sizeof(*o)) : NULL;
	if (!o)
		return false;
	o->debug = true;
	if (*id && asprintf(&o->path, "/usr/lib/debug/.build-id/%.2s/%s.debug", id, id + 2) < 0)
		o->path = NULL;
	if (slash && asprintf(&o->fallback, "/usr/lib/debug%.*s/%s", (int)(slash - e->path), e->path, e->debug) < 0)
		o->fallback = NULL;
	opening_submit(i, e->index, o);
	return true;
}

void decode_images_ask(struct decode_images *i, const struct decoder_event *e)
{
	const struct snapshot *s = i->o.snapshot;
	const char *text;
	json_object *image;
	size_t n = 0;

	if (e->path && e->debug) {
		if (e->attempt || !open_debug(i, e))
			answer(i, e->index, -1, "there is no such file");
		return;
	}
	/* The only candidate is the file that was mapped. */
	image = e->attempt ? NULL : decoder_find_image(i->o.info, e, &n);
	if (!image) {
		answer(i, e->index, -1, "the snapshot has no such image");
	} else if (json_get_str(image, "missing", &text) == 0) {
		answer(i, e->index, -1, text);
	} else if (json_get_str(image, "file", &text) == 0) {
		_cleanup_close_ int fd = openat(i->o.dir, text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

		answer(i, e->index, fd, fd < 0 ? strerror(errno) : NULL);
	} else if (n < s->n_files && s->files[n]) {
		answer(i, e->index, s->files[n]->fd, NULL);
	} else if (!open_by_path(i, e->index, image)) {
		answer(i, e->index, -1, "its record in snapshot.json is damaged");
	}
}
