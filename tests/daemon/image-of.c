/* SPDX-License-Identifier: MIT */
/*
 * Asks for the image files of a snapshot as a decode does, one after another.
 *
 * usage: image-of UID [?]PATH...      with ?: without a look at the file, which may block
 *
 * Prints a line for each: opened, or the reason why not. Exits with 1 if a second request is accepted before the answer
 * to the first.
 */
#include "config.h"

#include <fcntl.h>
#include <string.h>

#include "daemon/capture/process/file-identity.h"
#include "daemon/decode-images.h"

static struct event_base *base;
static bool answered;

static void on_answer(void *data, uint32_t index, int fd, const char *reason)
{
	answered = true;
	printf("%s\n", fd >= 0 ? "opened" : reason);
	event_base_loopexit(base, NULL);
}

/* The record of an image in snapshot.json. */
static json_object *describe(const char *path)
{
	_cleanup_close_ int fd = path[0] == '?' ? -1 : open(path, O_PATH | O_CLOEXEC);
	struct file_identity is = { 0 };
	json_object *o = json_object_new_object();
	char device[32];

	if (fd >= 0)
		file_identify(fd, &is);
	snprintf(device, sizeof(device), "%u:%u", is.major, is.minor);
	json_add_str(o, "path", path + (path[0] == '?'));
	json_add_str(o, "device", device);
	json_add_u64(o, "inode", is.inode);
	json_add_u64(o, "size", is.size);
	json_add_u64(o, "mtime", is.mtime);
	return o;
}

int main(int argc, char **argv)
{
	json_object *info = json_object_new_object(), *list = json_object_new_array();
	struct decode_images_options options = { .info = info, .dir = -1, .answer = on_answer };
	struct snapshot *s = snapshot_new();
	struct decode_images *images;
	struct ledger *ledger;

	setvbuf(stdout, NULL, _IOLBF, 0);
	base = options.base = event_base_new();
	options.snapshot = s;
	s->uid = s->gid = argc > 1 ? (uid_t)atoi(argv[1]) : 0;
	json_object_object_add(info, "images", list);
	for (int n = 2; n < argc; n++)
		json_object_array_add(list, describe(argv[n]));
	if (ledger_new(&(struct ledger_options){ 0 }, &ledger) < 0 ||
	    user_queues_new(base, ledger, &options.queues) < 0 || decode_images_new(&options, &images) < 0)
		return 1;
	for (int n = 2; n < argc; n++) {
		struct decoder_event e = { .type = DECODER_IMAGE, .path = argv[n] + (argv[n][0] == '?') };

		answered = false;
		if (decode_images_ask(images, &e) < 0 || (!answered && decode_images_ask(images, &e) != -EBADMSG))
			_exit(1);
		event_base_dispatch(base);
	}
	decode_images_end(images);
	_exit(0); /* a thread may be blocked */
}
