#include "lib/etm/native.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"
#include "lib/etm/native-chunk.h"

enum { BATCH = 4096 };

int native_flush(struct native *e)
{
	struct native_batch_builder *o = &e->out;
	struct native_batch batch = { 0 };
	int rc = e->fold ? native_fold_edges(e) : 0;

	batch.blocks = e->blocks.list;
	batch.edges = o->edges;
	batch.n = e->mark;
	batch.calls = o->calls;
	batch.n_calls = o->n_calls;
	batch.events = o->events;
	batch.successors = o->successors;
	batch.ranges = o->ranges;
	batch.n_events = e->mark_events;
	batch.offsets = o->offsets;
	if (rc == 0 && (e->mark || o->n_calls))
		rc = e->sink.batch(e->sink.user, &batch);
	if (e->fold)
		e->fold->events = e->fold->kept = 0;
	return rc < 0 ? rc : native_batch_drop_committed(e);
}

/* What comes is not to be understood before the next synchronisation. */
static void lose(struct native *e, enum element_reason why)
{
	e->out.n = e->mark;
	e->out.n_events = e->mark_events;
	native_queue_clear(e);
	native_flow_lost(e);
	e->overflow = false;
	e->timestamps = !e->packets.has_marker;
	e->sync = SYNC_LOST;
	e->lost = why;
	e->counted = false;
}

static int tell_lost(struct native *e, uint64_t offset)
{
	struct element lost = { .kind = ELEM_NO_SYNC, .isa = e->told.isa, .reason = (uint8_t)e->lost };
	int rc = native_batch_add_event(e, &lost, offset);

	e->sync = SYNC_WAIT;
	e->counted = e->counted && e->lost == REASON_INIT;
	native_batch_commit(e);
	return rc;
}

static int decode(struct native *e, const struct packet *p)
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

static int decode_by_state(struct native *e, const struct packet *p)
{
	int rc = 0;

	switch (e->sync) {
	case SYNC_LOST:
		rc = tell_lost(e, e->offset);
		if (rc < 0)
			return rc;
		/* fall through */
	case SYNC_WAIT:
		if (p->kind == PACKET_ASYNC) {
			e->sync = SYNC_WAIT_INFO;
			native_flow_lost(e);
		}
		return 0;
	case SYNC_WAIT_INFO:
		if (p->kind == PACKET_TRACE_INFO) {
			e->sync = SYNC_DONE;
			return native_queue_info(e, p);
		}
		/* An event may come before it. */
		return e->ete && p->kind == PACKET_EVENT ? native_queue_packet(e, p) : 0;
	case SYNC_DONE:
		rc = e->part && e->part->cold && p->kind == PACKET_TRACE_INFO ? native_chunk_info(e, p) : decode(e, p);
		if (rc == 0 && e->sync == SYNC_LOST)
			rc = tell_lost(e, e->offset);
	}
	return rc;
}

static int native_reserve_batch(struct native *e)
{
	int rc = 0;

	if (e->mark >= BATCH || e->out.n_calls >= BATCH || blocks_full(&e->blocks))
		rc = native_flush(e);
	if (rc < 0 || !blocks_full(&e->blocks))
		return rc;
	/* What a part gave still names them. */
	return e->part && !e->part->again ? -ENOBUFS : native_flow_renew(e);
}

static int take_mistake(struct native *e, enum packet_kind kind)
{
	lose(e, REASON_BAD_PACKET);
	/* A packet that is none shows only when the next one comes. */
	return kind > PACKET_BROKEN ? tell_lost(e, e->offset) : 0;
}

static int take_packet(struct native *e, const struct packet *p)
{
	int rc;

	if (p->kind == PACKET_ASYNC) {
		e->counted = true;
		e->stats.first_sync = MIN(e->stats.first_sync, e->offset);
	}
	e->stats.decoded += e->counted ? p->size : 0;
	rc = decode_by_state(e, p);
	if (rc == NATIVE_BAD) {
		e->stats.decoded -= e->counted ? p->size : 0;
		rc = take_mistake(e, p->kind);
	}
	return rc == 0 ? native_reserve_batch(e) : rc;
}

/* Before packets follow each other: at least eleven zeros, and 0x80. Returns how many bytes are done with. */
static size_t find_sync(struct native *e, const uint8_t *bytes, size_t n)
{
	size_t i;

	for (i = 0; i < n && !e->framed; i++) {
		if (bytes[i] == 0x80 && e->zeros >= 11)
			e->framed = true;
		e->zeros = bytes[i] == 0 ? e->zeros + 1 : 0;
	}
	return i;
}

static int take_unframed(struct native *e, const uint8_t *bytes, size_t n, size_t *ret_used)
{
	const struct packet sync = { .kind = PACKET_ASYNC, .size = 12 };
	uint64_t begin = e->stats.bytes - e->zeros;
	int rc = 0;

	*ret_used = find_sync(e, bytes, n);
	/* Bytes that are no packet, told where the first of them is. */
	if (e->sync == SYNC_LOST && (e->framed ? e->stats.bytes + *ret_used - begin > 12 : *ret_used > e->zeros))
		rc = tell_lost(e, begin);
	e->stats.bytes += *ret_used;
	e->offset = e->stats.bytes - 12;
	return rc == 0 && e->framed ? take_packet(e, &sync) : rc;
}

/* A packet whose head has been kept. */
static int take_carried(struct native *e, const uint8_t *bytes, size_t n, size_t *ret_used)
{
	size_t more = MIN(MIN(n, sizeof(e->carry) - e->n_carry), (size_t)32);
	struct packet p;

	memcpy(e->carry + e->n_carry, bytes, more);
	if (!packet_next(&e->packets, e->carry, e->n_carry + more, &p)) {
		*ret_used = more;
		e->n_carry += more;
		return 0;
	}
	*ret_used = p.size - e->n_carry;
	e->offset = e->stats.bytes - e->n_carry;
	e->n_carry = 0;
	return take_packet(e, &p);
}

static int take_packets(struct native *e, const uint8_t *bytes, size_t n, size_t *ret_used)
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
			rc = take_mistake(e, PACKET_ATOMS);
		if (rc == 0)
			rc = native_reserve_batch(e);
		if (rc == 0 && e->part)
			rc = native_chunk_before(e, e->stats.bytes + (uint64_t)(from - bytes));
		if (rc != 0 || from == end || !packet_next(&e->packets, from, (size_t)(end - from), &p))
			break;
		e->offset = e->stats.bytes + (uint64_t)(from - bytes);
		from += p.size;
		rc = take_packet(e, &p);
		if (rc == 0 && e->part)
			rc = native_chunk_after(e, e->stats.bytes + (uint64_t)(from - bytes));
	}
	if (rc == 0 && from < end) {
		e->n_carry = (size_t)(end - from);
		memcpy(e->carry, from, e->n_carry);
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

		if (!e->framed) {
			e->error = take_unframed(e, bytes, size, &used);
		} else {
			e->error =
			    e->n_carry ? take_carried(e, bytes, size, &used) : take_packets(e, bytes, size, &used);
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
	lose(e, REASON_RESET);
	packet_reader_reset(&e->packets);
	e->framed = false;
	e->zeros = 0;
	e->n_carry = 0;
	return 0;
}

int native_finish(struct native *e)
{
	struct element end = { .kind = ELEM_END, .isa = e->told.isa };
	bool rest = e->framed ? e->n_carry > 0 : e->zeros > 0;

	if (e->error < 0)
		return e->error;
	/* A packet of which there is only a part. */
	if (e->sync == SYNC_LOST && rest)
		e->error = tell_lost(e, e->stats.bytes - (e->framed ? e->n_carry : e->zeros));
	if (e->error == 0)
		e->error = native_queue_finish(e);
	end.reason = e->overflow ? REASON_OVERFLOW : REASON_END_OF_TRACE;
	if (e->error == 0)
		e->error = native_batch_add_event(e, &end, e->offset);
	native_batch_commit(e);
	if (e->error == 0)
		e->error = native_flush(e);
	if (e->error == 0 && e->fold)
		e->error = native_fold_finish(e);
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
	free(e->queue);
	free(e);
	return NULL;
}

/* Data trace, loads and stores as P0 elements, conditional instructions: TRCCONFIGR of few, and of none for A64. */
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
	/* perf's metadata tell of a return stack where there is none. */
	e->return_stack = config->configr & 1u << 12 && (config->protocol == PROTOCOL_ETE || config->idr0 & 1u << 9);
	e->told.isa = ISA_UNKNOWN;
	e->context.spaces = SPACES_SECURE;
	e->sync = SYNC_LOST;
	e->lost = REASON_INIT;
	native_flow_lost(e);
	e->timestamps = !e->packets.has_marker;
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
