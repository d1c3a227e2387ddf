/* SPDX-License-Identifier: MIT */
#include "lib/export/out.h"

#include "lib/base/io.h"

enum { OUT_PIECE = 256 << 10 };

static void out_flush(struct out *o)
{
	if (!o->error)
		o->error = buf_error(&o->buf);
	if (!o->error && o->pack && o->buf.size) {
		_cleanup_buf_ struct buf packed = { 0 };

		o->error = o->pack(&o->buf, &packed);
		if (!o->error)
			o->error = io_write(o->fd, packed.data, packed.size);
	} else if (!o->error) {
		o->error = io_write(o->fd, o->buf.data, o->buf.size);
	}
	buf_clear(&o->buf);
}

void out_flush_if_full(struct out *o)
{
	if (o->buf.size >= OUT_PIECE || buf_error(&o->buf))
		out_flush(o);
}

int out_finish(struct out *o)
{
	out_flush(o);
	return o->error;
}

void out_done(struct out *o)
{
	buf_done(&o->buf);
}
