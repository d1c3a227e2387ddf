/* SPDX-License-Identifier: MIT */
/* Opens and closes the native engine, and finds packets and synchronization in its bytes. */
#include "lib/etm/native.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"
#include "lib/etm/native-chunk.h"

enum { BATCH = 4096 };

int native_flush(struct native *e)
{
	struct native_batch_builder *o = &e->batch;
	struct native_batch batch = { 0 };
	int rc = e->fold ? native_fold_edges(e) : 0;

	batch.blocks = e->blocks.list;
	batch.n_blocks = e->blocks.n;
	batch.numbering = e->blocks.numbering;
	batch.edges = o->edges;
	batch.n = o->committed.edges;
	batch.calls = o->calls;
	batch.n_calls = o->n_calls;
	batch.events = o->events;
	batch.successors = o->successors;
	batch.ranges = o->ranges;
	batch.n_events = o->committed.events;
	batch.offsets = o->offsets;
	if (e->fold) {
		batch.executed = e->fold->instructions;
		batch.executed_blocks = e->fold->ranges;
	}
	if (rc == 0 && (o->committed.edges || o->n_calls || e->sink.outlet == NATIVE_SUMS))
		rc = e->sink.batch(e->sink.user, &batch);
	if (e->fold)
		e->fold->events = 0;
	return rc < 0 ? rc : native_batch_drop_committed(e);
}

/* Loses synchronization: nothing is decoded before the next synchronization point. */
static void lose_sync(struct native *e, enum element_reason why)
{
	native_batch_cancel(e);
	native_queue_reset(e);
	native_flow_forget(e);
	e->sync = (struct native_sync){ .state = SYNC_LOST, .reason = (uint8_t)why };
}

/* Emits the element that reports the loss of synchronization. */
static int emit_lost(struct native *e, uint64_t offset)
{
	struct element lost = { .kind = ELEM_NO_SYNC, .isa = e->control.isa, .reason = e->sync.reason };
	int rc = native_batch_add_event(e, &lost, offset);

	e->sync.state = SYNC_WAIT;
	e->sync.counted = e->sync.counted && e->sync.reason == REASON_INIT;
	native_batch_commit(e);
	return rc;
}

/* Decodes a packet behind a synchronization point. NATIVE_BAD. */
static int decode_synced(struct native *e, const struct packet *p)
{
	switch (p->kind) {
	case PACKET_RESERVED:
	case PACKET_INVALID:
	case PACKET_BROKEN:
		return NATIVE_BAD;
	default:
		return native_queue_packet(e, p);
	}
}

/* Decodes a packet as the state of synchronization demands. NATIVE_BAD. */
static int decode_by_state(struct native *e, const struct packet *p)
{
	int rc = 0;

	switch ((enum native_sync_state)e->sync.state) {
	case SYNC_LOST:
		rc = emit_lost(e, e->offset);
		if (rc < 0)
			return rc;
		/* fall through */
	case SYNC_WAIT:
		if (p->kind == PACKET_ASYNC) {
			e->sync.state = SYNC_WAIT_INFO;
			native_flow_forget(e);
		}
		return 0;
	case SYNC_WAIT_INFO:
		if (p->kind == PACKET_TRACE_INFO) {
			e->sync.state = SYNC_DONE;
			return native_queue_info(e, p);
		}
		/* An event packet may precede trace info. */
		return e->ete && p->kind == PACKET_EVENT ? native_queue_packet(e, p) : 0;
	case SYNC_DONE:
		rc = e->chunk && e->chunk->awaits_info && p->kind == PACKET_TRACE_INFO ? native_chunk_info(e, p)
										       : decode_synced(e, p);
		if (rc == 0 && e->sync.state == SYNC_LOST)
			rc = emit_lost(e, e->offset);
	}
	return rc;
}

/* Flushes a batch that is large, and clears blocks that are too many. */
static int limit_sizes(struct native *e)
{
	int rc = 0;

	if (e->batch.committed.edges >= BATCH || e->batch.n_calls >= BATCH || blocks_full(&e->blocks))
		rc = native_flush(e);
	if (rc < 0 || !blocks_full(&e->blocks))
		return rc;
	/* Batches of a chunk refer to blocks until they are stitched. */
	return e->chunk ? -ENOBUFS : native_flow_renew(e);
}

/* Drops what a malformed packet makes invalid. */
static int resync(struct native *e, enum packet_kind kind)
{
	lose_sync(e, REASON_BAD_PACKET);
	/* At an invalid packet, the loss is reported with the offset of the next packet. */
	return kind > PACKET_BROKEN ? emit_lost(e, e->offset) : 0;
}

static int decode_packet(struct native *e, const struct packet *p)
{
	int rc;

	if (p->kind == PACKET_ASYNC) {
		e->sync.counted = true;
		e->stats.first_sync = MIN(e->stats.first_sync, e->offset);
	}
	e->stats.decoded += e->sync.counted ? p->size : 0;
	rc = decode_by_state(e, p);
	if (rc == NATIVE_BAD) {
		e->stats.decoded -= e->sync.counted ? p->size : 0;
		rc = resync(e, p->kind);
	}
	return rc == 0 ? limit_sizes(e) : rc;
}

/* Searches for an A-sync packet: at least eleven zeros, and 0x80. Returns how many bytes were consumed. */
static size_t find_sync(struct native *e, const uint8_t *bytes, size_t n)
{
	size_t i;

	for (i = 0; i < n && !e->framing.framed; i++) {
		if (bytes[i] == 0x80 && e->framing.zeros >= 11)
			e->framing.framed = true;
		e->framing.zeros = bytes[i] == 0 ? e->framing.zeros + 1 : 0;
	}
	return i;
}

/* Bytes up to the first A-sync packet, at which packet boundaries become known. */
static int push_unframed(struct native *e, const uint8_t *bytes, size_t n, size_t *ret_used)
{
	const struct packet sync = { .kind = PACKET_ASYNC, .size = 12 };
	uint64_t begin = e->stats.bytes - e->framing.zeros;
	int rc = 0;

	*ret_used = find_sync(e, bytes, n);
	/* Bytes that are no packet are reported at the first of them. */
	if (e->sync.state == SYNC_LOST &&
	    (e->framing.framed ? e->stats.bytes + *ret_used - begin > 12 : *ret_used > e->framing.zeros))
		rc = emit_lost(e, begin);
	e->stats.bytes += *ret_used;
	e->offset = e->stats.bytes - 12;
	return rc == 0 && e->framing.framed ? decode_packet(e, &sync) : rc;
}

/* Decodes the packet whose head is in framing.carry, or appends to it. */
static int push_carried(struct native *e, const uint8_t *bytes, size_t n, size_t *ret_used)
{
	size_t more = MIN(MIN(n, sizeof(e->framing.carry) - e->framing.n_carry), (size_t)32);
	struct packet p;

	memcpy(e->framing.carry + e->framing.n_carry, bytes, more);
	if (!packet_next(&e->packets, e->framing.carry, e->framing.n_carry + more, &p)) {
		*ret_used = more;
		e->framing.n_carry += more;
		return 0;
	}
	*ret_used = p.size - e->framing.n_carry;
	e->offset = e->stats.bytes - e->framing.n_carry;
	e->framing.n_carry = 0;
	return decode_packet(e, &p);
}

/* Decodes whole packets, and keeps the head of the last one. */
static int push_packets(struct native *e, const uint8_t *bytes, size_t n, size_t *ret_used)
{
	const uint8_t *from = bytes, *end = bytes + n;
	struct packet p;
	size_t used;
	int rc = 0;

	while (rc == 0 && from < end) {
		rc = native_fast_packets(e, from, (size_t)(end - from), e->stats.bytes + (uint64_t)(from - bytes),
					 &used);
		from += used;
		if (rc == NATIVE_BAD)
			rc = resync(e, PACKET_ATOMS);
		if (rc == 0)
			rc = limit_sizes(e);
		if (rc == 0 && e->chunk)
			rc = native_chunk_before(e, e->stats.bytes + (uint64_t)(from - bytes));
		if (rc != 0 || from == end || !packet_next(&e->packets, from, (size_t)(end - from), &p))
			break;
		e->offset = e->stats.bytes + (uint64_t)(from - bytes);
		from += p.size;
		rc = decode_packet(e, &p);
		if (rc == 0 && e->chunk)
			rc = native_chunk_after(e, e->stats.bytes + (uint64_t)(from - bytes));
	}
	if (rc == 0 && from < end) {
		e->framing.n_carry = (size_t)(end - from);
		memcpy(e->framing.carry, from, e->framing.n_carry);
		from = end;
	}
	*ret_used = (size_t)(from - bytes);
	return rc;
}

int native_push(struct native *e, const void *data, size_t size)
{
	const uint8_t *bytes = data;

	while (size && e->error == 0) {
		size_t used = 0;

		if (!e->framing.framed) {
			e->error = push_unframed(e, bytes, size, &used);
		} else {
			e->error = e->framing.n_carry ? push_carried(e, bytes, size, &used)
						      : push_packets(e, bytes, size, &used);
			e->stats.bytes += used;
		}
		bytes += used;
		size -= used;
	}
	if (e->error == 0 || e->error == -EOPNOTSUPP) {
		int rc = native_flush(e);

		e->error = rc < 0 ? rc : e->error;
	}
	return e->error;
}

int native_reset(struct native *e)
{
	if (e->error < 0)
		return e->error;
	lose_sync(e, REASON_RESET);
	packet_reader_reset(&e->packets);
	e->framing.framed = false;
	e->framing.zeros = 0;
	e->framing.n_carry = 0;
	return 0;
}

int native_settle(struct native *e)
{
	if (e->error == 0)
		e->error = native_queue_settle(e);
	if (e->error == 0)
		e->error = native_flush(e);
	return e->error;
}

int native_finish(struct native *e)
{
	struct element end = { .kind = ELEM_END, .isa = e->control.isa };
	bool rest = e->framing.framed ? e->framing.n_carry > 0 : e->framing.zeros > 0;

	if (e->error < 0)
		return e->error;
	/* An incomplete packet. */
	if (e->sync.state == SYNC_LOST && rest)
		e->error = emit_lost(e, e->stats.bytes - (e->framing.framed ? e->framing.n_carry : e->framing.zeros));
	if (e->error == 0)
		e->error = native_queue_finish(e);
	end.reason = e->queue.state.overflow ? REASON_OVERFLOW : REASON_END_OF_TRACE;
	if (e->error == 0)
		e->error = native_batch_add_event(e, &end, e->offset);
	native_batch_commit(e);
	if (e->error == 0)
		e->error = native_flush(e);
	return e->error;
}

void native_stats(const struct native *e, struct engine_stats *ret)
{
	*ret = e->stats;
}

struct native *native_close(struct native *e)
{
	if (!e)
		return NULL;
	blocks_done(&e->blocks);
	native_memo_free(e->memo);
	native_fold_free(e->fold);
	native_batch_free(e);
	free(e->queue.list);
	free(e);
	return NULL;
}

/*
 * False if TRCCONFIGR enables data trace, loads and stores as P0 elements, or conditional instructions. Few trace units
 * have them, and none for A64.
 */
static bool is_supported(const struct engine_config *c)
{
	unsigned conditional = c->configr >> 8 & 7;

	return (c->protocol == PROTOCOL_ETMV4 || c->protocol == PROTOCOL_ETE) && !(c->configr & 6) &&
	       (conditional == 0 || (conditional > 3 && conditional < 7));
}

int native_open(const struct engine_config *config, const struct engine_memory *memory, const struct native_sink *sink,
		struct native **ret)
{
	struct native *e;
	int rc;

	if (!is_supported(config))
		return -EOPNOTSUPP;
	e = calloc(1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	e->config = *config;
	e->sink = *sink;
	e->stats.first_sync = UINT64_MAX;
	packet_reader_init(&e->packets, config);
	blocks_init(&e->blocks, config, memory);
	e->ete = e->packets.version >= 0x50;
	/* perf's metadata may have the return stack enabled where TRCIDR0 says that there is none. */
	e->stack.enabled = config->configr & 1u << 12 && (config->protocol == PROTOCOL_ETE || config->idr0 & 1u << 9);
	e->control.isa = ISA_UNKNOWN;
	e->context.spaces = SPACES_SECURE;
	e->sync = (struct native_sync){ .state = SYNC_LOST, .reason = REASON_INIT };
	native_queue_reset(e);
	native_flow_forget(e);
	e->memo = native_memo_new();
	if (sink->outlet != NATIVE_EDGES)
		e->fold = native_fold_new();
	if (sink->outlet != NATIVE_EDGES && !e->fold) {
		native_close(e);
		return -ENOMEM;
	}
	rc = e->memo ? blocks_enter(&e->blocks, &e->context) : -ENOMEM;
	if (rc < 0) {
		native_close(e);
		return rc;
	}
	*ret = e;
	return 0;
}
