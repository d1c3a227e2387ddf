/*
 * Where trace bytes come from: a backend is a struct capture_ops. What a source's memory says is hostile, and is copied
 * once and checked before it is used.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_H
#define CSIGHT_DAEMON_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/emu/ring.h"

enum { CAPTURE_NAME_SIZE = 17, CAPTURE_MISSING_MAX = 64 << 10 };

struct capture_source;

struct capture_thread {
	uint32_t tid;
	char name[CAPTURE_NAME_SIZE];
	uint64_t start_ns, end_ns; /* end: 0 while it lives */
	uint64_t size;             /* bytes of trace that are there */
	uint64_t written;          /* ever */
	uint64_t instructions, truth;
	bool wrapped, running;
	/* In a copy: */
	bool acknowledged; /* it obeyed the freeze, or could not have been running */
	uint8_t *data;     /* byte p of the stream is at p % room */
	size_t room;
	uint64_t from;                /* the stream's first byte that is there */
	uint8_t end[EMU_PENDING_MAX]; /* what completes the stream of one that is gone; after size bytes */
	size_t end_size;
};

/* The stream in pieces, in order: n counts from 0; false after the last. */
bool capture_piece(const struct capture_thread *t, unsigned n, const uint8_t **ret, size_t *ret_size);

/* What was in the rings at one moment; private memory. */
struct capture_copy {
	struct emu_regs regs;
	struct capture_thread *threads;
	size_t n_threads;
	uint8_t *log; /* records of lib/emu/ring.h */
	size_t log_size;
	uint64_t time, monotonic; /* of the freeze, ns */
	uint64_t blind;           /* ns until the thaw */
	struct buf missing;       /* texts, each ended by NUL */
};

struct capture_copy *capture_copy_free(struct capture_copy *c);

struct capture_ops {
	const char *name;
	/* On the capture lane. alive: whether the process still runs. limit: bytes of trace, the newest are kept. */
	int (*arm)(struct capture_source *s);
	int (*disarm)(struct capture_source *s);
	int (*copy)(struct capture_source *s, bool alive, size_t limit, struct capture_copy **ret);
	/* From the loop, at any time. threads: what is in the rings now, without data; the caller frees. */
	int (*threads)(struct capture_source *s, struct capture_thread **ret, size_t *ret_n);
	bool (*holds)(struct capture_source *s);
	void (*missing)(struct capture_source *s, struct buf *b);
	uint64_t (*memory)(struct capture_source *s);
	struct capture_source *(*free)(struct capture_source *s);
};

#endif
