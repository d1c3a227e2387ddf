/* SPDX-License-Identifier: MIT */
/*
 * A chunk: a part of a stream from an A-sync packet on, decoded speculatively, without the engine's state before it.
 * State that the chunk itself does not establish is left open. At some packet boundaries the whole state is kept as a
 * checkpoint. An engine that comes to such a checkpoint in the same state, what is open aside, would emit what the
 * chunk emitted from there on; so it takes that over, and continues behind it. The run of packets from a checkpoint up
 * to where the chunk's state stops being complete is a stretch; nothing else of a chunk is used.
 *
 * Also open is what a return pops off a return stack that was filled before the chunk. Control is lost there up to the
 * next address, and the stretch ends at the packet that needed the entry.
 */
#ifndef CSIGHT_ETM_NATIVE_CHUNK_H
#define CSIGHT_ETM_NATIVE_CHUNK_H

#include "lib/base/buf.h"
#include "lib/etm/native-state.h"

enum { CHECKPOINT_QUEUE = 32 };

/*
 * The whole state of an engine at a packet boundary, without numbers of blocks, which differ from engine to engine. The
 * groups are those of struct native, and are copied and compared as units.
 */
struct native_checkpoint {
	struct packet_state packets;
	struct native_sync sync;
	struct native_control control; /* block: 0 */
	struct engine_context context;
	struct {
		uint8_t n;
		struct {
			uint64_t address;
			uint8_t
			    open; /* 1: the top of the stack before the chunk; 2: the entry below; ...; 0: not open */
		} entries[RETURN_STACK]; /* the newest first */
	} stack;
	struct {
		struct basic_block last;
		bool has_last, last_taken, fresh;
		uint64_t successor;
		uint64_t instructions, ranges; /* not compared */
	} fold;
	struct {
		uint64_t offset, bytes, decoded;
	} position; /* not compared */
	struct native_queue_state queue;
	uint32_t n_queued;
	struct p0 queued[CHECKPOINT_QUEUE];
};

/* Returns false if the state cannot be a checkpoint: something emitted is not committed, or the queue is too long. */
bool native_checkpoint_take(struct native *e, struct native_checkpoint *ret);

/* Returns whether an engine in the state `here` is at a chunk's checkpoint `there`, apart from what is open there. */
bool native_checkpoint_same(const struct native_checkpoint *here, const struct native_checkpoint *there);

/* Sets the state of an engine of the same source; its batch is empty then. -ENOMEM. */
int native_checkpoint_restore(struct native *e, const struct native_checkpoint *checkpoint);

/* Memory that a chunk's batches point into: calls, events, edges. */
struct native_buffer {
	struct native_buffer *next;
	size_t edges, calls, events; /* capacities */
	size_t size;                 /* bytes */
	uint64_t memory[];
};

struct chunk_checkpoint {
	size_t at;    /* in the chunk */
	size_t batch; /* the first of the batches that follow it */
	bool ends;    /* ends a stretch; else one may begin here */
	struct native_checkpoint state;
};

struct native_chunk {
	struct buf checkpoints, batches; /* struct chunk_checkpoint, struct native_batch */
	struct native_buffer *buffers;   /* that batches point into, but for blocks */
	struct native_buffer *spare;     /* to be used as such */
	size_t buffered;                 /* bytes of buffers */
	uint64_t begin;                  /* in the stream */
	bool awaits_info;                /* there was no trace info yet */
	bool stepwise;                   /* each packet is decoded by itself */
	bool in_stretch;
	bool broken; /* control was lost */
	unsigned n;  /* checkpoints of the stretch */
	uint64_t next_checkpoint;
	struct {
		bool valid;
		struct native_checkpoint state;
		size_t edges, events, batches; /* emitted before */
	} before;                              /* the current packet */
};

/*
 * Decodes a chunk, which begins at an offset of the stream. The engine holds no reference to it afterwards. A malformed
 * stream ends the chunk. -ENOMEM.
 */
int native_chunk_decode(struct native *e, struct native_chunk *p, const uint8_t *bytes, size_t size, uint64_t begin);
void native_chunk_done(struct native_chunk *p);

/* Called by the engine, if it decodes a chunk, before and after each packet that is decoded by itself. */
int native_chunk_before(struct native *e, uint64_t at);
int native_chunk_after(struct native *e, uint64_t next);

/* Handles the chunk's first trace info. */
int native_chunk_info(struct native *e, const struct packet *p);

/* Sink of an engine that decodes chunks; user: struct native_chunk **. Keeps the batch if it is in a stretch. */
int native_chunk_batch(void *user, const struct native_batch *batch);

/* native-batch.c: continues the batch in the chunk's next buffer. -ENOMEM. */
int native_batch_next_buffer(struct native *e);

/* Clears the batch, which points into no buffer then; the chunk keeps its buffers. */
void native_batch_leave(struct native *e);
void native_batch_buffers_free(struct native_buffer *r);

#endif
