/* SPDX-License-Identifier: MIT */
/*
 * ITM: packets that software and the DWT write (Armv7-M Architecture Reference Manual, appendix D4). Each payload is an
 * element, in the text form of OpenCSD, which decodes ITM since 1.6 only.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/util.h"
#include "lib/etm/engine.h"

enum {
	SYNC_ZEROS = 5, /* bytes that a synchronization packet has at least, before the byte SYNC_END */
	SYNC_END = 0x80,
	OVERFLOW = 0x70,
	GLOBAL_LOW = 0x94, /* bits 0 to 25 of a global timestamp; the other packet has those above */
	GLOBAL_HIGH = 0xb4,
	GLOBAL_LOW_BITS = 26,
	GLOBAL_HIGH_BITS_SHORT = 22, /* of 48 bits, where the packet has four bytes */
	GLOBAL_WRAPPED = 1 << 6,     /* in the fourth byte */
	PACKET_BYTES_MAX = 7,
	PORTS = 32,
	TEXT_MAX = 128,
};

struct itm {
	struct element_sink sink;
	struct engine_stats stats;
	unsigned zeros; /* consecutive zero bytes before the current one */
	bool synced, overflowed;
	uint8_t packet[PACKET_BYTES_MAX];
	unsigned n;    /* bytes of the packet so far */
	unsigned page; /* of stimulus ports */
	uint64_t local, global;
	bool global_known; /* also its upper bits */
};

static int emit(struct itm *e, const struct element *with)
{
	struct element to = *with;

	to.isa = ISA_UNKNOWN;
	to.offset = e->stats.bytes - e->n;
	return MIN(e->sink.element(e->sink.user, &to), 0);
}

static int __attribute__((format(printf, 2, 3))) emit_text(struct itm *e, const char *format, ...)
{
	static const char overflow[] = "ITM_OVERFLOW; ";
	char text[TEXT_MAX];
	size_t n = (size_t)snprintf(text, sizeof(text), "%s", e->overflowed ? overflow : "");
	va_list args;

	e->overflowed = false;
	va_start(args, format);
	vsnprintf(text + n, sizeof(text) - n, format, args);
	va_end(args);
	return emit(e, &(struct element){ .kind = ELEM_SW, .text = text });
}

/* Returns the payload of a timestamp packet: seven bits of each byte after the header. */
static uint64_t timestamp_payload(const struct itm *e)
{
	uint64_t value = 0;

	for (unsigned i = 1; i < e->n; i++)
		value |= (uint64_t)(e->packet[i] & 0x7f) << 7 * (i - 1);
	return value;
}

static int emit_local(struct itm *e)
{
	static const char *const relations[] = { "TS Sync", "TS Delay", "Packet Delay", "TS and Packet Delay" };
	uint8_t header = e->packet[0];
	uint64_t delta = header & 0x80 ? timestamp_payload(e) : header >> 4;

	e->local += delta;
	return emit_text(e, "ITM_TS_LOCAL ( TS delta: 0x%08" PRIx64 ", { %s}; TS cumulative: 0x%016" PRIx64 ")", delta,
			 relations[header & 0x80 ? header >> 4 & 3 : 0], e->local);
}

/*
 * Handles a global timestamp packet of the lower bits: replaces as many bits as it has. If they wrapped, a packet of
 * the upper bits follows.
 */
static int emit_global_low(struct itm *e)
{
	unsigned bits = e->n < 5 ? 7 * (e->n - 1) : GLOBAL_LOW_BITS;
	uint64_t mask = (1ull << bits) - 1;

	e->global = (e->global & ~mask) | (timestamp_payload(e) & mask);
	if (e->n == 5 && e->packet[4] & GLOBAL_WRAPPED)
		e->global_known = false;
	return e->global_known ? emit_text(e, "ITM_TS_GLOBAL ( TS: 0x%016" PRIx64 ")", e->global) : 0;
}

static int emit_global_high(struct itm *e)
{
	uint64_t low = e->global & ((1ull << GLOBAL_LOW_BITS) - 1), high = timestamp_payload(e);

	if (e->n == 5)
		high &= (1ull << GLOBAL_HIGH_BITS_SHORT) - 1;
	e->global = high << GLOBAL_LOW_BITS | low;
	e->global_known = true;
	return emit_text(e, "ITM_TS_GLOBAL ( TS: 0x%016" PRIx64 ")", e->global);
}

static int emit_payload(struct itm *e)
{
	uint8_t header = e->packet[0];
	unsigned number = header >> 3;
	uint32_t value = 0;

	for (unsigned i = 1; i < e->n; i++)
		value |= (uint32_t)e->packet[i] << 8 * (i - 1);
	if (header & 4)
		return emit_text(e, "ITM_DWT (desc: 0x%x; Data: 0x%0*" PRIx32 ")", number, 2 * (int)(e->n - 1), value);
	return emit_text(e, "ITM_SWIT (ch: 0x%x; Data: 0x%0*" PRIx32 ")", e->page * PORTS + number, 2 * (int)(e->n - 1),
			 value);
}

static bool is_local(uint8_t header)
{
	return header & 0x80 ? (header & 0xcf) == 0xc0 : !(header & 0x0f) && header != OVERFLOW && header;
}

static bool is_extension(uint8_t header)
{
	return (header & 0x0b) == 0x08;
}

/* Returns whether the packet that begins e->packet ends with its last byte. */
static bool is_whole(const struct itm *e)
{
	uint8_t header = e->packet[0], last = e->packet[e->n - 1];

	if (header & 3)
		return e->n == 1 + (1u << ((header & 3) - 1));
	if (header == GLOBAL_HIGH)
		return e->n > 1 && (!(last & 0x80) || e->n == PACKET_BYTES_MAX);
	if (header == GLOBAL_LOW)
		return e->n > 1 && (!(last & 0x80) || e->n == 5);
	return !(last & 0x80) || e->n == 5;
}

static int lose_sync(struct itm *e)
{
	e->synced = e->overflowed = e->global_known = false;
	return emit(e, &(struct element){ .kind = ELEM_NO_SYNC, .reason = REASON_BAD_PACKET });
}

static int emit_packet(struct itm *e)
{
	uint8_t header = e->packet[0];

	e->stats.decoded += e->n;
	if (header == OVERFLOW) {
		e->overflowed = true;
		e->local = 0;
		return 0;
	}
	if (header & 3)
		return emit_payload(e);
	if (header == GLOBAL_LOW)
		return emit_global_low(e);
	if (header == GLOBAL_HIGH)
		return emit_global_high(e);
	if (is_local(header))
		return emit_local(e);
	/* An extension of the DWT has no meaning yet. */
	if (!(header & 4))
		e->page = header >> 4 & 7;
	return 0;
}

static int found_sync(struct itm *e)
{
	bool first = e->stats.first_sync == UINT64_MAX;

	e->stats.decoded += SYNC_ZEROS + 1;
	e->synced = true;
	e->n = 0;
	if (!first)
		return 0;
	e->stats.first_sync = e->stats.bytes - SYNC_ZEROS - 1;
	return emit(e, &(struct element){ .kind = ELEM_NO_SYNC, .reason = REASON_INIT });
}

static int take_byte(struct itm *e, uint8_t byte)
{
	bool sync = byte == SYNC_END && e->zeros >= SYNC_ZEROS;
	int rc = 0;

	e->stats.bytes++;
	e->zeros = byte ? 0 : e->zeros + 1;
	/* Payloads may have as many zeros: a synchronization packet is one only between packets. */
	if (sync && (!e->synced || !e->n))
		return found_sync(e);
	if (!e->synced || (!e->n && (!byte || e->zeros)))
		return 0;
	e->packet[e->n++] = byte;
	if (!(e->packet[0] & 3 || e->packet[0] == OVERFLOW || e->packet[0] == GLOBAL_LOW ||
	      e->packet[0] == GLOBAL_HIGH || is_local(e->packet[0]) || is_extension(e->packet[0])))
		rc = lose_sync(e);
	else if (is_whole(e))
		rc = emit_packet(e);
	else
		return 0;
	e->n = 0;
	return rc;
}

static int itm_open(const struct engine_config *config, const struct engine_memory *memory,
		    const struct element_sink *sink, struct engine **ret)
{
	struct itm *e;

	(void)memory;
	if (config->protocol != PROTOCOL_ITM)
		return -EOPNOTSUPP;
	e = calloc(1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	e->sink = *sink;
	e->stats.first_sync = UINT64_MAX;
	*ret = (struct engine *)e;
	return 0;
}

static int itm_push(struct engine *engine, const void *data, size_t size)
{
	struct itm *e = (struct itm *)engine;
	int rc = 0;

	for (size_t i = 0; i < size && rc == 0; i++)
		rc = take_byte(e, ((const uint8_t *)data)[i]);
	return rc;
}

static int itm_reset(struct engine *engine)
{
	struct itm *e = (struct itm *)engine;

	*e = (struct itm){ .sink = e->sink, .stats = e->stats };
	return emit(e, &(struct element){ .kind = ELEM_NO_SYNC, .reason = REASON_RESET });
}

static int itm_finish(struct engine *engine)
{
	return emit((struct itm *)engine, &(struct element){ .kind = ELEM_END, .reason = REASON_END_OF_TRACE });
}

static void itm_stats(const struct engine *engine, struct engine_stats *ret)
{
	*ret = ((const struct itm *)engine)->stats;
}

static struct engine *itm_close(struct engine *engine)
{
	free(engine);
	return NULL;
}

const struct engine_ops itm_engine_ops = {
	.name = "itm",
	.open = itm_open,
	.push = itm_push,
	.reset = itm_reset,
	.finish = itm_finish,
	.stats = itm_stats,
	.close = itm_close,
};
