/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <string.h>

#include "daemon/decode-images.h"
#include "daemon/opener.h"
#include "lib/base/escape.h"
#include "lib/base/log.h"

enum { SOCKET_MAX = 108 }; /* as of sun_path */

struct decode_images {
	unsigned refs; /* the owner's, and one for each file that is being opened */
	struct decode_images_options o;
	char opener[SOCKET_MAX]; /* a copy for other threads */
	bool asked;              /* without an answer so far: a decoder sends one request at a time */
	bool ended;
};

int decode_images_new(const struct decode_images_options *options, struct decode_images **ret)
{
	struct decode_images *i = malloc(sizeof(*i));

	if (!i)
		return -ENOMEM;
	*i = (struct decode_images){ .refs = 1, .o = *options };
	snprintf(i->opener, sizeof(i->opener), "%s", options->opener ? options->opener : "");
	snapshot_ref(i->o.snapshot);
	json_object_get(i->o.info);
	*ret = i;
	return 0;
}

static void answer(struct decode_images *i, uint32_t index, int fd, const char *reason)
{
	i->asked = false;
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

/* An open() by path, on the thread of the owner, since the path may lead into a file system that never answers. */
struct opening {
	struct user_work work;
	struct decode_images *images;
	struct event *timer;
	bool answered; /* the time limit has passed */
	uint32_t index;
	char *path;
	struct file_identity want;
	/* A debug file: what identifies it, and the number of files that were not the right one. */
	bool debug;
	char *build_id, *link, *program;
	uint64_t skip;
	uid_t uid;
	gid_t gid;
	int fd;
	struct reason reason;
};

static void run_opening(struct user_work *w)
{
	struct opening *o = container_of(w, struct opening, work);
	const struct opener_file f = { .uid = o->uid,
				       .gid = o->gid,
				       .debug = o->debug,
				       .want = o->want,
				       .skip = o->skip,
				       .path = o->path,
				       .build_id = o->build_id,
				       .link = o->link,
				       .program = o->program };

	o->fd = opener_open_file(o->images->opener, &f, &o->reason);
}

static void opening_free(struct opening *o)
{
	if (o->timer)
		event_free(o->timer);
	free(o->path);
	free(o->build_id);
	free(o->link);
	free(o->program);
	free(o);
}

static const char too_slow[] = "its file system does not answer";

static void opening_ran(struct user_work *w)
{
	struct opening *o = container_of(w, struct opening, work);
	struct decode_images *i = o->images;

	if (!o->answered)
		answer(i, o->index, MAX(o->fd, -1), o->reason.text[0] ? o->reason.text : "it cannot be opened");
	if (o->fd >= 0)
		target_file_unref(target_file_new(i->o.queues, o->uid, 0, o->fd));
	decode_images_unref(i);
	opening_free(o);
}

/*
 * The time limit of an open() has passed: the decode continues without the file. The open() ends when its file system
 * answers, if ever.
 */
static void on_late(evutil_socket_t fd, short what, void *data)
{
	struct opening *o = data;

	log_debug("%s of uid %u was not opened in %d s", esc(o->path), o->uid, USER_QUEUE_SECONDS);
	o->answered = true;
	answer(o->images, o->index, -1, too_slow);
}

static void opening_submit(struct decode_images *i, uint32_t index, struct opening *o)
{
	const struct timeval limit = { USER_QUEUE_SECONDS, 0 };

	o->uid = i->o.snapshot->uid;
	o->gid = i->o.snapshot->gid;
	o->index = index;
	o->fd = -1;
	o->timer = evtimer_new(i->o.base, on_late, o);
	/* A request that is queued behind an open() without an answer would get no answer either. */
	if (!o->timer || event_add(o->timer, &limit) < 0 || user_queues_stuck(i->o.queues, o->uid)) {
		answer(i, index, -1, too_slow);
		opening_free(o);
		return;
	}
	o->work = (struct user_work){ .run = run_opening, .done = opening_ran };
	o->images = i;
	i->refs++;
	user_queues_submit(i->o.queues, o->uid, &o->work);
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

static bool ask_debug(struct decode_images *i, const struct decoder_event *e)
{
	const char *program = "";
	struct opening *o;
	size_t number;

	/* The decoder chooses among the images of this snapshot alone. */
	if (!decoder_find_image(i->o.info, e, &number))
		return false;
	o = calloc(1, sizeof(*o));
	if (!o)
		return false;
	json_get_str(i->o.info, "exe", &program);
	o->debug = true;
	o->skip = e->attempt;
	o->path = strdup(e->path);
	o->program = strdup(program);
	o->build_id = strdup(e->build_id ? e->build_id : "");
	o->link = strdup(e->debug);
	if (!o->path || !o->program || !o->build_id || !o->link) {
		opening_free(o);
		return false;
	}
	opening_submit(i, e->index, o);
	return true;
}

int decode_images_ask(struct decode_images *i, const struct decoder_event *e)
{
	const struct snapshot *s = i->o.snapshot;
	const char *text;
	json_object *image;
	size_t n = 0;

	if (i->asked)
		return -EBADMSG;
	i->asked = true;
	if (e->path && e->debug) {
		if (!ask_debug(i, e))
			answer(i, e->index, -1, "there is no such file");
		return 0;
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
	return 0;
}
