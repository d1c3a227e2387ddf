/* SPDX-License-Identifier: MIT */
#include "lib/etm/branches.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"
#include "lib/etm/packet.h"

/* The headers of packets with one atom. */
enum { ATOM_N = 0xf6, ATOM_E = 0xf7 };

enum { BATCH = 2048, LOOKAHEAD = 16 };

enum sync { SYNC_NONE, SYNC_LOST, SYNC_INFO, SYNC_DONE };

struct branches {
	struct branches_sink sink;
	struct packet_reader packets;
	enum sync sync; /* SYNC_NONE: packet boundaries are unknown */
	unsigned zeros; /* consecutive zero bytes, while searching for a sync point */
	bool taken;     /* the last atom since the last address packet */
	bool exception; /* the next address packet belongs to an exception */
	uint32_t number;
	uint64_t cycles;
	uint8_t carry[PACKET_MAX];
	size_t n_carry;
	struct branch list[BATCH];
	size_t n;
	int error;
};

static int flush(struct branches *b)
{
	if (b->n)
		b->error = MIN(b->sink.batch(b->sink.user, b->list, b->n), 0);
	b->n = 0;
	return b->error;
}

static inline void append(struct branches *b, enum branch_type type, uint64_t value, uint32_t number)
{
	b->list[b->n++] = (struct branch){ value, b->cycles << 16 | (number & 0xfff) << 4 | type };
}

static void append_address(struct branches *b, uint64_t address)
{
	append(b,
	       b->exception ? BRANCH_EXCEPTION
	       : b->taken   ? BRANCH_TAKEN
			    : BRANCH_AT,
	       address, b->exception ? b->number : 0);
	b->taken = b->exception = false;
}

static void append_context(struct branches *b, const struct packet_context *c)
{
	if (c->updated)
		append(b, BRANCH_CONTEXT, (uint64_t)c->vmid << 32 | c->ctxid,
		       (c->level & 3u) | (c->wide ? BRANCH_CONTEXT_WIDE : 0) |
			   (c->nonsecure ? BRANCH_CONTEXT_NONSECURE : 0) | (c->nse ? BRANCH_CONTEXT_NSE : 0) |
			   (c->has_ctxid ? BRANCH_CONTEXT_HAS_ID : 0) | (c->has_vmid ? BRANCH_CONTEXT_HAS_VMID : 0));
}

static void append_gap(struct branches *b)
{
	b->sync = SYNC_LOST;
	b->taken = b->exception = false;
	append(b, BRANCH_LOST, 0, 0);
}

static void process_synced_packet(struct branches *b, const struct packet *p)
{
	switch (p->kind) {
	case PACKET_RESERVED:
	case PACKET_INVALID:
	case PACKET_BROKEN:
	case PACKET_OVERFLOW:
	case PACKET_DISCARD:
	case PACKET_CANCEL:
		append_gap(b);
		break;
	case PACKET_TRACE_ON:
		append(b, BRANCH_TRACE_ON, 0, 0);
		b->taken = false;
		break;
	case PACKET_ATOMS:
		b->taken = p->atoms >> (p->n_atoms - 1) & 1;
		break;
	case PACKET_CONTEXT:
		append_context(b, &p->context);
		break;
	case PACKET_ADDRESS_CONTEXT:
		append_context(b, &p->context);
		append_address(b, p->address);
		break;
	case PACKET_ADDRESS:
		append_address(b, p->address);
		break;
	case PACKET_EXCEPTION:
		b->exception = true;
		b->number = p->number;
		break;
	case PACKET_EXCEPTION_RETURN:
		append(b, BRANCH_EXCEPTION_RETURN, 0, 0);
		break;
	case PACKET_CYCLES:
		b->cycles += p->cycles;
		append(b, BRANCH_CYCLES, p->cycles, 0);
		break;
	case PACKET_TIMESTAMP:
		append(b, BRANCH_TIME, p->value, 0);
		break;
	case PACKET_EVENT:
		append(b, BRANCH_EVENT, 0, (uint32_t)p->value);
		break;
	default:
		break;
	}
}

static int process_packet(struct branches *b, const struct packet *p)
{
	if (b->sync == SYNC_DONE)
		process_synced_packet(b, p);
	else if (p->kind == PACKET_ASYNC)
		b->sync = SYNC_INFO;
	else if (b->sync == SYNC_INFO && p->kind == PACKET_TRACE_INFO)
		b->sync = SYNC_DONE;
	return b->n > BATCH - 4 ? flush(b) : 0;
}

/* Returns the newest atom of an atom packet: true for a taken branch. */
static inline bool last_atom_taken(uint8_t header)
{
	return packet_atoms[header] >> ((packet_atoms[header] >> 24) - 1) & 1;
}

/*
 * The fast path for atom, address and cycle count packets. It distinguishes packets by branches, which the processor
 * predicts from the preceding packets; table look-ups, and separate branches for each exact-match address, were slower.
 */
static int process_common(struct branches *b, const uint8_t *bytes, size_t n, size_t *ret_used)
{
	const uint8_t *at = bytes, *limit = bytes + n - LOOKAHEAD;
	uint64_t h0 = b->packets.state.history[0], h1 = b->packets.state.history[1], h2 = b->packets.state.history[2],
		 now = b->cycles, address;
	struct branch *to = b->list + b->n;
	uint8_t atoms = b->taken ? ATOM_E : ATOM_N;
	size_t size;

	*ret_used = 0;
	if (n <= LOOKAHEAD || b->sync != SYNC_DONE || b->exception)
		return 0;
	while (at < limit) {
		if (to > b->list + BATCH - 4) {
			b->n = (size_t)(to - b->list);
			to = b->list;
			if (flush(b) < 0)
				break;
		}
		if (at[0] >= 0xc0) {
			atoms = *at++;
			continue;
		}
		if (at[0] >= 0x90 && at[0] < 0x93) {
			address = at[0] == 0x90 ? h0 : at[0] == 0x91 ? h1 : h2;
			size = 1;
		} else if (at[0] >= 0x95) {
			address = packet_parse_common_address(at, h0, &size);
			if (at[0] == 0x9a && !b->packets.state.wide)
				size = 0;
			if (!size)
				break;
		} else if ((at[0] & 0xf0) == 0x10 && b->packets.commit_option) {
			uint32_t cycles = b->packets.state.threshold + (at[0] & 3);

			now += cycles;
			*to++ = (struct branch){ cycles, now << 16 | BRANCH_CYCLES };
			at++;
			continue;
		} else {
			break;
		}
		*to++ = (struct branch){ address, now << 16 | (last_atom_taken(atoms) ? BRANCH_TAKEN : BRANCH_AT) };
		atoms = ATOM_N;
		h2 = h1;
		h1 = h0;
		h0 = address;
		at += size;
	}
	b->packets.state.history[0] = h0;
	b->packets.state.history[1] = h1;
	b->packets.state.history[2] = h2;
	b->taken = last_atom_taken(atoms);
	b->cycles = now;
	b->n = (size_t)(to - b->list);
	*ret_used = (size_t)(at - bytes);
	return b->error;
}

static size_t find_sync(struct branches *b, const uint8_t *bytes, size_t n)
{
	size_t i;

	for (i = 0; i < n && b->sync == SYNC_NONE; i++) {
		if (bytes[i] == 0x80 && b->zeros >= 11)
			b->sync = SYNC_INFO;
		b->zeros = bytes[i] == 0 ? b->zeros + 1 : 0;
	}
	return i;
}

/* Completes and processes the packet whose first bytes are in carry. */
static int process_carried(struct branches *b, const uint8_t *bytes, size_t n, size_t *ret_used)
{
	size_t more = MIN(MIN(n, sizeof(b->carry) - b->n_carry), (size_t)32);
	struct packet p;

	memcpy(b->carry + b->n_carry, bytes, more);
	*ret_used = more;
	if (!packet_next(&b->packets, b->carry, b->n_carry + more, &p)) {
		b->n_carry += more;
		return 0;
	}
	*ret_used = p.size - b->n_carry;
	b->n_carry = 0;
	return process_packet(b, &p);
}

static int process_packets(struct branches *b, const uint8_t *bytes, size_t n, size_t *ret_used)
{
	size_t at = 0, used;
	struct packet p;
	int rc = 0;

	while (rc == 0 && at < n) {
		rc = process_common(b, bytes + at, n - at, &used);
		at += used;
		if (rc < 0 || at == n || !packet_next(&b->packets, bytes + at, n - at, &p))
			break;
		at += p.size;
		rc = process_packet(b, &p);
	}
	if (rc == 0 && at < n) {
		b->n_carry = n - at;
		memcpy(b->carry, bytes + at, b->n_carry);
		at = n;
	}
	*ret_used = at;
	return rc;
}

int branches_push(struct branches *b, const void *data, size_t size)
{
	const uint8_t *bytes = data;

	while (size && b->error == 0) {
		size_t used = 0;

		if (b->sync == SYNC_NONE)
			used = find_sync(b, bytes, size);
		else if (b->n_carry)
			b->error = process_carried(b, bytes, size, &used);
		else
			b->error = process_packets(b, bytes, size, &used);
		bytes += used;
		size -= used;
	}
	return b->error == 0 ? flush(b) : b->error;
}

int branches_finish(struct branches *b)
{
	return b->error == 0 ? flush(b) : b->error;
}

struct branches *branches_close(struct branches *b)
{
	free(b);
	return NULL;
}

int branches_open(const struct engine_config *config, const struct branches_sink *sink, struct branches **ret)
{
	struct branches *b;

	if ((config->protocol != PROTOCOL_ETMV4 && config->protocol != PROTOCOL_ETE) || config->idr8)
		return -EOPNOTSUPP;
	b = calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	b->sink = *sink;
	packet_reader_init(&b->packets, config);
	*ret = b;
	return 0;
}

static size_t put_text(char *to, const char *text)
{
	size_t n = strlen(text);

	memcpy(to, text, n);
	return n;
}

static size_t put_number(char *to, uint64_t v, unsigned base)
{
	char digits[20];
	size_t n = 0, size = 0;

	do {
		digits[n++] = "0123456789abcdef"[v % base];
		v /= base;
	} while (v);
	while (n)
		to[size++] = digits[--n];
	return size;
}

size_t branches_format(const struct branch *branch, char *ret)
{
	static const char *const names[] = { " taken ",           " at ",      " exception ",
					     " exception-return", " cycles ",  " time ",
					     " event ",           " trace-on", " lost" };
	enum branch_type type = branch_type(branch);
	size_t n;

	if (type > BRANCH_LOST)
		return 0;
	n = put_number(ret, branch_cycles(branch), 10);
	n += put_text(ret + n, names[type]);
	if (type == BRANCH_EXCEPTION) {
		n += put_number(ret + n, branch_number(branch), 16);
		ret[n++] = ' ';
	}
	if (type == BRANCH_TAKEN || type == BRANCH_AT || type == BRANCH_TIME || type == BRANCH_EXCEPTION)
		n += put_number(ret + n, branch->value, 16);
	else if (type == BRANCH_CYCLES)
		n += put_number(ret + n, branch->value, 10);
	else if (type == BRANCH_EVENT)
		n += put_number(ret + n, branch_number(branch), 10);
	return n;
}

struct branches_engine {
	struct branches *branches;
	struct engine_stats stats;
};

static struct engine *engine_close(struct engine *engine)
{
	struct branches_engine *e = (struct branches_engine *)engine;

	if (!e)
		return NULL;
	branches_close(e->branches);
	free(e);
	return NULL;
}

static int engine_open(const struct engine_config *config, const struct engine_memory *memory,
		       const struct element_sink *sink, struct engine **ret)
{
	struct branches_engine *e = calloc(1, sizeof(*e));
	int rc;

	if (!e)
		return -ENOMEM;
	e->stats.first_sync = UINT64_MAX;
	rc = branches_open(config, &(struct branches_sink){ sink->branches, sink->user }, &e->branches);
	if (rc < 0) {
		engine_close((struct engine *)e);
		return rc;
	}
	*ret = (struct engine *)e;
	return 0;
}

static int engine_push(struct engine *engine, const void *data, size_t size)
{
	struct branches_engine *e = (struct branches_engine *)engine;

	e->stats.bytes += size;
	e->stats.decoded += size;
	return branches_push(e->branches, data, size);
}

static int engine_reset(struct engine *engine)
{
	struct branches_engine *e = (struct branches_engine *)engine;
	struct branches *b = e->branches;

	append_gap(b);
	b->sync = SYNC_NONE;
	b->zeros = 0;
	b->n_carry = 0;
	packet_reader_reset(&b->packets);
	return flush(b);
}

static int engine_finish(struct engine *engine)
{
	struct branches_engine *e = (struct branches_engine *)engine;

	return branches_finish(e->branches);
}

static void engine_stats(const struct engine *engine, struct engine_stats *ret)
{
	const struct branches_engine *e = (const struct branches_engine *)engine;

	*ret = e->stats;
}

const struct engine_ops branches_engine_ops = {
	.name = "branches",
	.open = engine_open,
	.push = engine_push,
	.reset = engine_reset,
	.finish = engine_finish,
	.stats = engine_stats,
	.close = engine_close,
};
