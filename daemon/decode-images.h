/*
 * The images that a decode asks for. Each is answered with the file that the target handed over, with the copy in the
 * snapshot, or, where a restart lost the descriptors, with the file of that path: opened with its owner's rights and
 * compared with what it was. A debug file is looked for below /usr/lib/debug alone, where root puts them, with the
 * owner's rights as well. On the loop's thread.
 */
#ifndef CSIGHT_DAEMON_DECODE_IMAGES_H
#define CSIGHT_DAEMON_DECODE_IMAGES_H

#include "daemon/spool.h"
#include "lib/base/json.h"
#include "lib/decoder/decoder.h"

struct decode_images;
struct workqueue;

/* answer() may come later, from the opener's workqueue; fd -1 with a reason where there is none. It borrows fd. */
typedef void decode_image_answer(void *data, uint32_t index, int fd, const char *reason);

/* info: snapshot.json; dir: the snapshot's directory, borrowed until decode_images_end(). */
int decode_images_new(struct workqueue *opener, struct snapshot *s, int dir, json_object *info,
		      decode_image_answer *answer, void *data, struct decode_images **ret);

/* e: of type DECODER_IMAGE. */
void decode_images_ask(struct decode_images *i, const struct decoder_event *e);

/* No answer comes any more. NULL is allowed. */
void decode_images_end(struct decode_images *i);

#endif
