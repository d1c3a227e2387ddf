/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "lib/base/util.h"
#include "lib/etm/packet.h"

/*
 * A packet's bytes, read one after another. Reads behind the end return 0, which ends every field of variable length,
 * and set cut.
 */
struct packet_bytes {
	const uint8_t *at, *end;
	bool cut;
};

struct packet_row {
	uint8_t kind;
	uint8_t shift; /* of addresses: log2 of the instruction alignment */
	uint8_t whole; /* of addresses: the packet has all 64 bits */
	/* Parses the fields behind the header, which is in ret; NULL: there are none. */
	void (*parse)(struct packet_reader *s, struct packet_bytes *b, const struct packet_row *row,
		      struct packet *ret);
};

/* Formats 1 to 6 (IHI0064, "Atom instruction trace packets"). */
#define ATOMS(n, pattern) ((uint32_t)(n) << 24 | (pattern))
#define MANY(n) ATOMS((n) + 1, (2u << (n)) - 1)   /* all are taken */
#define MANY_N(n) ATOMS((n) + 1, (1u << (n)) - 1) /* all but the newest are taken */
#define MANY_ROW(first, of)                                                                                          \
	[(first)] = of(3), of(4), of(5), of(6), of(7), of(8), of(9), of(10), of(11), of(12), of(13), of(14), of(15), \
	of(16), of(17), of(18), of(19), of(20), of(21), of(22), of(23)

const uint32_t packet_atoms[256] = {
	MANY_ROW(0xc0, MANY),
	[0xd5] = ATOMS(5, 0x00),
	[0xd6] = ATOMS(5, 0x0a),
	[0xd7] = ATOMS(5, 0x15),
	[0xd8] = ATOMS(2, 0),
	ATOMS(2, 1),
	ATOMS(2, 2),
	ATOMS(2, 3),
	[0xdc] = ATOMS(4, 0xe),
	ATOMS(4, 0x0),
	ATOMS(4, 0xa),
	ATOMS(4, 0x5),
	MANY_ROW(0xe0, MANY_N),
	[0xf5] = ATOMS(5, 0x1e),
	[0xf6] = ATOMS(1, 0),
	ATOMS(1, 1),
	[0xf8] = ATOMS(3, 0),
	ATOMS(3, 1),
	ATOMS(3, 2),
	ATOMS(3, 3),
	ATOMS(3, 4),
	ATOMS(3, 5),
	ATOMS(3, 6),
	ATOMS(3, 7),
};

static uint8_t next_byte(struct packet_bytes *b)
{
	if (b->at == b->end) {
		b->cut = true;
		return 0;
	}
	return *b->at++;
}

/* Seven bits per byte, the lowest first, up to a byte without the eighth bit; bytes behind the first most are ignored.
 */
static uint32_t next_field(struct packet_bytes *b, unsigned most)
{
	uint64_t value = 0;
	uint8_t byte;

	for (unsigned i = 0;; i++) {
		byte = next_byte(b);
		if (i < most)
			value |= (uint64_t)(byte & 0x7f) << (7 * i);
		if (!(byte & 0x80))
			return (uint32_t)value;
	}
}

static uint32_t next_number(struct packet_bytes *b, unsigned size)
{
	uint32_t value = 0;

	for (unsigned i = 0; i < size; i++)
		value |= (uint32_t)next_byte(b) << (8 * i);
	return value;
}

/* A cut packet is parsed again when more bytes are there, so it must not change the state. */
static void update_address(struct packet_reader *s, const struct packet_bytes *b, uint64_t address, struct packet *ret)
{
	ret->address = address;
	if (!b->cut)
		packet_push_address(s, address);
}

static uint64_t next_short(struct packet_reader *s, struct packet_bytes *b, unsigned shift)
{
	uint64_t low = next_byte(b), mask = 0x7f;

	if (low & 0x80) {
		low = (low & 0x7f) | (uint64_t)next_byte(b) << 7;
		mask = 0x7fff;
	}
	mask = (mask << shift) | ((1u << shift) - 1);
	return (s->state.history[0] & ~mask) | (low << shift & mask);
}

static uint64_t next_long(struct packet_reader *s, struct packet_bytes *b, unsigned shift, bool whole)
{
	uint64_t address = (uint64_t)(next_byte(b) & 0x7f) << shift;

	/* Of T32 the second byte has eight bits. */
	address |= (uint64_t)(next_byte(b) & (shift == 2 ? 0x7f : 0xff)) << (7 + shift);
	address |= (uint64_t)next_number(b, 2) << 16;
	if (whole)
		return address | (uint64_t)next_number(b, 4) << 32;
	return address | (s->state.wide ? s->state.history[0] & ~(uint64_t)UINT32_MAX : 0);
}

static void next_context(struct packet_reader *s, struct packet_bytes *b, struct packet *ret)
{
	uint8_t info = next_byte(b);
	struct packet_context *c = &ret->context;

	c->updated = true;
	c->level = info & 3;
	c->nse = info & 0x08;
	c->wide = info & 0x10;
	c->nonsecure = info & 0x20;
	if (info & 0x40 && s->vmid_bytes) {
		c->has_vmid = true;
		c->vmid = next_number(b, s->vmid_bytes);
	}
	if (info & 0x80 && s->ctxid_bytes) {
		c->has_ctxid = true;
		c->ctxid = next_number(b, s->ctxid_bytes);
	}
	if (!b->cut)
		s->state.wide = c->wide;
}

/* A-sync, overflow and discard, which begin with a zero byte. */
static void parse_extension(struct packet_reader *s, struct packet_bytes *b, const struct packet_row *row,
			    struct packet *ret)
{
	uint8_t byte = next_byte(b);
	unsigned zeros = 2;

	ret->kind = PACKET_BROKEN;
	if (byte == 3)
		ret->kind = PACKET_DISCARD;
	else if (byte == 5)
		ret->kind = PACKET_OVERFLOW;
	else if (byte == 0) {
		while (zeros < 12 && !b->cut) {
			byte = next_byte(b);
			if (byte)
				break;
			zeros++;
		}
		if (byte == 0x80 && zeros == 11)
			ret->kind = PACKET_ASYNC;
	}
}

static void parse_trace_info(struct packet_reader *s, struct packet_bytes *b, const struct packet_row *row,
			     struct packet *ret)
{
	enum { INFO = 1, KEY = 2, SPEC = 4, CYCT = 8, WINDOW = 16, IN_TRANSACTION = 1 << 6 };
	uint8_t first = next_byte(b);
	uint32_t info = 0, threshold = 0;

	if (first & 0x80)
		next_field(b, 0);
	if (first & INFO)
		info = next_field(b, 5);
	if (first & KEY)
		next_field(b, 0);
	if (first & SPEC)
		ret->number = next_field(b, 5);
	if (first & CYCT)
		threshold = next_field(b, 5);
	if (first & WINDOW)
		next_field(b, 0);
	ret->in_transaction = info & IN_TRANSACTION;
	if (b->cut)
		return;
	s->state.threshold = threshold;
	s->state.timed = false;
	s->state.informed = true;
	memset(s->state.history, 0, sizeof(s->state.history));
	memset(s->blocks, 0, sizeof(s->blocks));
}

static void parse_timestamp(struct packet_reader *s, struct packet_bytes *b, const struct packet_row *row,
			    struct packet *ret)
{
	uint64_t value = 0, mask;
	unsigned bits = 0;
	uint8_t byte;

	do {
		byte = next_byte(b);
		/* The ninth byte has eight bits. */
		if (bits < 56)
			value |= (uint64_t)(byte & 0x7f) << bits;
		else
			value |= (uint64_t)byte << 56;
		bits += bits < 56 ? 7 : 8;
	} while (byte & 0x80 && bits < 64);
	if (ret->header & 1)
		ret->cycles = next_field(b, 3) & ((1u << s->cycle_bits) - 1);
	/* The bits that the first timestamp after trace info omits are zero. */
	mask = bits >= 64 || (!s->state.timed && s->state.informed) ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
	ret->value = (s->state.timestamp & ~mask) | (value & mask);
	if (b->cut)
		return;
	s->state.timestamp = ret->value;
	s->state.timed = true;
}

static void parse_exception(struct packet_reader *s, struct packet_bytes *b, const struct packet_row *row,
			    struct packet *ret)
{
	enum { RESET = 0, TRANSACTION = 0x18 };
	uint8_t first = next_byte(b), second = 0;
	bool alone = s->version >= 0x50 && ((first >> 1 & 31) == RESET || (first >> 1 & 31) == TRANSACTION);

	if (first & 0x80 || alone)
		second = next_byte(b);
	ret->number = first >> 1 & 31;
	if (first & 0x80)
		ret->number |= (second & 31u) << 5;
	ret->target = (first & 0x41) == 0x40;
	if (s->version < 0x50 || (ret->number != RESET && ret->number != TRANSACTION))
		return;
	ret->kind = ret->number == RESET ? PACKET_PE_RESET : PACKET_TRANSACTION_FAIL;
	update_address(s, b, 0, ret);
}

static void parse_instrumentation(struct packet_reader *s, struct packet_bytes *b, const struct packet_row *row,
				  struct packet *ret)
{
	ret->level = next_byte(b);
	ret->value = next_number(b, 4);
	ret->value |= (uint64_t)next_number(b, 4) << 32;
}

static void parse_cycles1(struct packet_reader *s, struct packet_bytes *b, const struct packet_row *row,
			  struct packet *ret)
{
	if (!s->commit_option)
		ret->commit = next_field(b, 5);
	/* A packet without a count means that the count is unknown, which is reported as 0. */
	if (!(ret->header & 1))
		ret->cycles = next_field(b, 3) + s->state.threshold;
}

static void parse_cycles2(struct packet_reader *s, struct packet_bytes *b, const struct packet_row *row,
			  struct packet *ret)
{
	uint8_t byte = next_byte(b);

	ret->cycles = s->state.threshold + (byte & 15);
	if (!s->commit_option)
		ret->commit = (byte >> 4) + (ret->header & 1 ? s->max_depth - 15 : 1);
}

static void parse_cycles3(struct packet_reader *s, struct packet_bytes *b, const struct packet_row *row,
			  struct packet *ret)
{
	ret->cycles = s->state.threshold + (ret->header & 3);
	if (!s->commit_option)
		ret->commit = (ret->header >> 2 & 3) + 1;
}

static void parse_commit(struct packet_reader *s, struct packet_bytes *b, const struct packet_row *row,
			 struct packet *ret)
{
	ret->commit = next_field(b, 5);
}

static void parse_cancel1(struct packet_reader *s, struct packet_bytes *b, const struct packet_row *row,
			  struct packet *ret)
{
	ret->cancel = next_field(b, 5);
	ret->mispredict = ret->header & 1;
}

/* Mispredict and cancel of format 2: no atoms, E, EE, or N. */
static void parse_mispredict(struct packet_reader *s, struct packet_bytes *b, const struct packet_row *row,
			     struct packet *ret)
{
	static const uint8_t atoms[] = { 0, 1, 3, 0 }, counts[] = { 0, 1, 2, 1 };

	ret->atoms = atoms[ret->header & 3];
	ret->n_atoms = counts[ret->header & 3];
	ret->mispredict = true;
	ret->cancel = ret->header >> 2 & 1;
}

static void parse_cancel3(struct packet_reader *s, struct packet_bytes *b, const struct packet_row *row,
			  struct packet *ret)
{
	ret->atoms = ret->n_atoms = ret->header & 1;
	ret->mispredict = true;
	ret->cancel = (ret->header >> 1 & 3) + 2;
}

static void parse_event(struct packet_reader *s, struct packet_bytes *b, const struct packet_row *row,
			struct packet *ret)
{
	ret->value = ret->header & 15;
}

static void parse_context(struct packet_reader *s, struct packet_bytes *b, const struct packet_row *row,
			  struct packet *ret)
{
	if (ret->header & 1)
		next_context(s, b, ret);
}

static void parse_address_context(struct packet_reader *s, struct packet_bytes *b, const struct packet_row *row,
				  struct packet *ret)
{
	uint64_t address = next_long(s, b, row->shift, row->whole);

	next_context(s, b, ret);
	update_address(s, b, address, ret);
}

static void parse_long(struct packet_reader *s, struct packet_bytes *b, const struct packet_row *row,
		       struct packet *ret)
{
	update_address(s, b, next_long(s, b, row->shift, row->whole), ret);
}

static void parse_short(struct packet_reader *s, struct packet_bytes *b, const struct packet_row *row,
			struct packet *ret)
{
	update_address(s, b, next_short(s, b, row->shift), ret);
}

static void parse_match(struct packet_reader *s, struct packet_bytes *b, const struct packet_row *row,
			struct packet *ret)
{
	update_address(s, b, s->state.history[ret->header & 3], ret);
}

/* Parses a Q packet: an optional address, and the number of instructions. */
static void parse_q(struct packet_reader *s, struct packet_bytes *b, const struct packet_row *row, struct packet *ret)
{
	enum { MATCHES = 3, COUNT_ALONE = 0xc, NOTHING = 0xf };
	uint8_t type = ret->header & 15;
	uint64_t address = 0;

	ret->has_address = type != COUNT_ALONE && type != NOTHING;
	if (type < MATCHES)
		address = s->state.history[type];
	else if (ret->has_address)
		address = row->whole ? next_long(s, b, row->shift, false) : next_short(s, b, row->shift);
	if (type != NOTHING)
		ret->number = next_field(b, 5);
	if (ret->has_address)
		update_address(s, b, address, ret);
}

static void parse_atoms(struct packet_reader *s, struct packet_bytes *b, const struct packet_row *row,
			struct packet *ret)
{
	ret->n_atoms = (uint8_t)(packet_atoms[ret->header] >> 24);
	ret->atoms = packet_atoms[ret->header] & 0xffffff;
}

/* The packets of all versions; packet_reader_init() removes those that the source cannot write. */
static const struct packet_row all_rows[256] = {
	[0x00] = { PACKET_BROKEN, .parse = parse_extension },
	[0x01] = { PACKET_TRACE_INFO, .parse = parse_trace_info },
	[0x02] = { PACKET_TIMESTAMP, .parse = parse_timestamp },
	[0x03] = { PACKET_TIMESTAMP, .parse = parse_timestamp },
	[0x04] = { PACKET_TRACE_ON },
	/* 0x05, function return, exists in the M profile only. */
	[0x06] = { PACKET_EXCEPTION, .parse = parse_exception },
	[0x07] = { PACKET_EXCEPTION_RETURN },
	[0x09] = { PACKET_INSTRUMENTATION, .parse = parse_instrumentation },
	[0x0a] = { PACKET_TRANSACTION_START },
	[0x0b] = { PACKET_TRANSACTION_COMMIT },
	[0x0c ... 0x0d] = { PACKET_CYCLES, .parse = parse_cycles2 },
	[0x0e ... 0x0f] = { PACKET_CYCLES, .parse = parse_cycles1 },
	[0x10 ... 0x1f] = { PACKET_CYCLES, .parse = parse_cycles3 },
	/* Data synchronization markers; sources with data trace are refused at open. */
	[0x20 ... 0x2c] = { PACKET_INVALID },
	[0x2d] = { PACKET_COMMIT, .parse = parse_commit },
	[0x2e ... 0x2f] = { PACKET_CANCEL, .parse = parse_cancel1 },
	[0x30 ... 0x37] = { PACKET_CANCEL, .parse = parse_mispredict },
	[0x38 ... 0x3f] = { PACKET_CANCEL, .parse = parse_cancel3 },
	/* Conditional instructions; refused likewise. */
	[0x40 ... 0x46] = { PACKET_INVALID },
	[0x48 ... 0x4a] = { PACKET_INVALID },
	[0x4c ... 0x4e] = { PACKET_INVALID },
	[0x50 ... 0x5f] = { PACKET_INVALID },
	[0x68 ... 0x6f] = { PACKET_INVALID },
	[0x70] = { PACKET_IGNORE },
	[0x71 ... 0x7f] = { PACKET_EVENT, .parse = parse_event },
	[0x80 ... 0x81] = { PACKET_CONTEXT, .parse = parse_context },
	[0x82] = { PACKET_ADDRESS_CONTEXT, 2, false, parse_address_context },
	[0x83] = { PACKET_ADDRESS_CONTEXT, 1, false, parse_address_context },
	[0x85] = { PACKET_ADDRESS_CONTEXT, 2, true, parse_address_context },
	[0x86] = { PACKET_ADDRESS_CONTEXT, 1, true, parse_address_context },
	[0x88] = { PACKET_MARKER },
	[0x90 ... 0x92] = { PACKET_ADDRESS, .parse = parse_match },
	[0x95] = { PACKET_ADDRESS, 2, false, parse_short },
	[0x96] = { PACKET_ADDRESS, 1, false, parse_short },
	[0x9a] = { PACKET_ADDRESS, 2, false, parse_long },
	[0x9b] = { PACKET_ADDRESS, 1, false, parse_long },
	[0x9d] = { PACKET_ADDRESS, 2, true, parse_long },
	[0x9e] = { PACKET_ADDRESS, 1, true, parse_long },
	[0xa0 ... 0xa2] = { PACKET_Q, .parse = parse_q },
	[0xa5] = { PACKET_Q, 2, false, parse_q },
	[0xa6] = { PACKET_Q, 1, false, parse_q },
	[0xaa] = { PACKET_Q, 2, true, parse_q }, /* 32-bit address */
	[0xab] = { PACKET_Q, 1, true, parse_q },
	[0xac] = { PACKET_Q, .parse = parse_q },
	[0xaf] = { PACKET_Q, .parse = parse_q },
	[0xb0 ... 0xb2] = { PACKET_SOURCE, .parse = parse_match },
	[0xb4] = { PACKET_SOURCE, 2, false, parse_short },
	[0xb5] = { PACKET_SOURCE, 1, false, parse_short },
	[0xb6] = { PACKET_SOURCE, 2, false, parse_long },
	[0xb7] = { PACKET_SOURCE, 1, false, parse_long },
	[0xb8] = { PACKET_SOURCE, 2, true, parse_long },
	[0xb9] = { PACKET_SOURCE, 1, true, parse_long },
	[0xc0 ... 0xff] = { PACKET_ATOMS, .parse = parse_atoms },
};

/* Returns the kind of a header for a source of this version and with these options. */
static enum packet_kind kind_of(const struct packet_reader *s, uint8_t header)
{
	enum packet_kind kind = all_rows[header].kind;
	bool ete = s->version >= 0x50;

	switch (kind) {
	case PACKET_EXCEPTION_RETURN:
		return ete ? PACKET_INVALID : kind;
	case PACKET_INSTRUMENTATION:
		return s->version >= 0x53 ? kind : PACKET_RESERVED;
	case PACKET_TRANSACTION_START:
	case PACKET_TRANSACTION_COMMIT:
	case PACKET_SOURCE:
		return ete ? kind : PACKET_RESERVED;
	case PACKET_IGNORE:
		return s->version >= 0x43 ? kind : PACKET_RESERVED;
	case PACKET_MARKER:
		if (s->version < 0x46)
			return PACKET_RESERVED;
		return s->has_marker ? kind : PACKET_INVALID;
	case PACKET_Q:
		return s->has_q ? kind : PACKET_RESERVED;
	default:
		return kind;
	}
}

void packet_reader_init(struct packet_reader *s, const struct engine_config *c)
{
	unsigned ctxid = c->idr2 >> 5 & 31, vmid = c->idr2 >> 10 & 31;

	*s = (struct packet_reader){ 0 };
	s->version = c->protocol == PROTOCOL_ETE ? (uint8_t)((c->devarch >> 8 & 0xf0) | (c->devarch >> 16 & 15))
						 : (uint8_t)(c->idr1 >> 4);
	s->commit_option = c->idr0 & 1u << 29 && c->idr0 & 1u << 7;
	s->has_q = c->idr0 >> 15 & 3;
	s->has_marker = c->idr0 & 1u << 23 && s->version >= 0x46;
	s->ctxid_bytes = ctxid == 4 ? 4 : 0;
	s->vmid_bytes = vmid == 1 ? 1 : s->version > 0x40 && (vmid == 2 || vmid == 4) ? (uint8_t)vmid : 0;
	s->cycle_bits = (uint8_t)((c->idr2 >> 25 & 15) + 12);
	s->max_depth = c->idr8;
	for (unsigned i = 0; i < 256; i++)
		s->kinds[i] = (uint8_t)kind_of(s, (uint8_t)i);
}

void packet_reader_reset(struct packet_reader *s)
{
	s->state = (struct packet_state){ 0 };
	memset(s->blocks, 0, sizeof(s->blocks));
}

bool packet_next(struct packet_reader *s, const uint8_t *bytes, size_t n, struct packet *ret)
{
	struct packet_bytes b = { bytes + 1, bytes + n, false };
	const struct packet_row *row = &all_rows[bytes[0]];

	*ret = (struct packet){ .kind = s->kinds[bytes[0]], .header = bytes[0] };
	/* Of a packet that this source cannot write, the header alone is consumed. */
	if (row->parse && (ret->kind == row->kind))
		row->parse(s, &b, row, ret);
	ret->size = (uint32_t)(b.at - bytes);
	if (!b.cut)
		return true;
	if (n < PACKET_MAX)
		return false;
	ret->kind = PACKET_BROKEN;
	return true;
}

const char *packet_name(enum packet_kind kind)
{
	static const char *const names[PACKETS] = {
		[PACKET_RESERVED] = "reserved",
		[PACKET_INVALID] = "invalid-here",
		[PACKET_BROKEN] = "broken",
		[PACKET_ASYNC] = "async",
		[PACKET_DISCARD] = "discard",
		[PACKET_OVERFLOW] = "overflow",
		[PACKET_TRACE_INFO] = "trace-info",
		[PACKET_TIMESTAMP] = "timestamp",
		[PACKET_MARKER] = "timestamp-marker",
		[PACKET_TRACE_ON] = "trace-on",
		[PACKET_EXCEPTION] = "exception",
		[PACKET_EXCEPTION_RETURN] = "exception-return",
		[PACKET_PE_RESET] = "pe-reset",
		[PACKET_TRANSACTION_START] = "transaction-start",
		[PACKET_TRANSACTION_COMMIT] = "transaction-commit",
		[PACKET_TRANSACTION_FAIL] = "transaction-failure",
		[PACKET_INSTRUMENTATION] = "instrumentation",
		[PACKET_CYCLES] = "cycle-count",
		[PACKET_COMMIT] = "commit",
		[PACKET_CANCEL] = "cancel",
		[PACKET_IGNORE] = "ignore",
		[PACKET_EVENT] = "event",
		[PACKET_CONTEXT] = "context",
		[PACKET_ADDRESS] = "address",
		[PACKET_ADDRESS_CONTEXT] = "address-context",
		[PACKET_SOURCE] = "source-address",
		[PACKET_Q] = "q",
		[PACKET_ATOMS] = "atoms",
	};

	return (size_t)kind < PACKETS && names[kind] ? names[kind] : "unknown";
}
