/* SPDX-License-Identifier: MIT */
/*
 * The OpenCSD engine: one decode tree for each trace source. After a fatal error the tree is destroyed, and a new one
 * continues behind the packet that caused the error.
 */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"
#include "lib/etm/continuity.h"
#include "lib/etm/guard.h"
#include "lib/etm/opencsd.h"
#include "lib/etm/filler.h"

enum {
	BLOCK_MAX = 1 << 20,
	/*
	 * The most contiguous code that OpenCSD may read for one packet, so that a bad address does not make it walk
	 * through a whole image. Only reads that miss OpenCSD's own cache are counted.
	 */
	WALK_MAX = 512 << 10,
	GOOD_VERSION = 0x10601, /* in the form of OCSD_VER_NUM */
	PACKET_TEXT_MAX = 1024,
};

struct opencsd_engine;

/* One memory accessor is registered for each memory space, so that OpenCSD's cache does not mix the spaces. */
struct accessor {
	struct opencsd_engine *engine;
	ocsd_mem_space_acc_t spaces;
};

struct opencsd_engine {
	struct engine_config config;
	struct opencsd_source source;
	struct engine_memory memory;
	struct element_sink sink;
	struct engine_stats stats;
	struct engine_context context;
	uint64_t code_version;
	dcd_tree_handle_t tree;
	struct accessor accessors[SPACES];
	size_t n_accessors;
	uint8_t trace_id;
	uint64_t block_at;   /* offset of the block that is being decoded; OpenCSD's indexes are relative to it */
	uint64_t packet_end; /* offset behind the last packet */
	uint32_t packet_size;
	struct continuity continuity;
	/* Contiguous bytes of code read since the last packet or element, and the address behind them. */
	uint64_t walked, walked_to;
	struct instr_set set;
	bool is_a64;  /* of the last context element */
	bool watched; /* the packet callback is attached */
	bool synced, restarted;
	bool crashed;                /* OpenCSD crashed: further bytes are counted and dropped */
	int error;                   /* returned by the sink */
	char text[OPENCSD_TEXT_MAX]; /* text of the element that is being emitted */
};

/*
 * Serialises the creation and destruction of trees, which share maps and a registry of decoders inside OpenCSD. The
 * error logger is shared by all trees as well; it is set to print nothing.
 */
static pthread_mutex_t opencsd_lock = PTHREAD_MUTEX_INITIALIZER;
static bool opencsd_quiet;

/* Returns the offset of an OpenCSD index, which may have 32 bits only: a packet begins in this block or shortly before
 * it. */
static uint64_t offset_of(const struct opencsd_engine *e, ocsd_trc_index_t index)
{
	return e->block_at + (uint64_t)(int64_t)(int32_t)((uint32_t)index - (uint32_t)e->block_at);
}

/* How many of size bytes may be read from address on: reads end at the next filler (filler.h), where walks must end. */
static uint32_t limit_to_filler(struct opencsd_engine *e, const struct engine_context *context, uint64_t address,
				uint32_t size)
{
	uint64_t next = (address + FILLER_SIZE - 1) & ~(uint64_t)(FILLER_SIZE - 1);

	if (e->is_a64 && next - address < size && filler_before(&e->set, &e->memory, context, next))
		return (uint32_t)(next - address);
	return size;
}

static uint32_t on_read(const void *user, const ocsd_vaddr_t address, const ocsd_mem_space_acc_t space,
			const uint32_t size, uint8_t *ret)
{
	const struct accessor *a = user;
	struct opencsd_engine *e = a->engine;
	struct engine_context context = e->context;
	sigjmp_buf *guard = guard_set(NULL);
	uint32_t limit;
	size_t n = 0;

	context.spaces = (uint8_t)((unsigned)space & (unsigned)a->spaces);
	limit = limit_to_filler(e, &context, address, size);
	if (address != e->walked_to)
		e->walked = 0;
	if (limit && e->walked < WALK_MAX)
		n = e->memory.read(e->memory.user, &context, address, ret, limit);
	e->walked += n;
	e->walked_to = address + n;
	guard_set(guard);
	return (uint32_t)n;
}

static bool add_accessors(struct opencsd_engine *e)
{
	bool good = true;

	for (size_t i = 0; i < e->n_accessors; i++)
		good = ocsd_dt_add_callback_mem_acc(e->tree, 0, UINT64_MAX, e->accessors[i].spaces, on_read,
						    &e->accessors[i]) == OCSD_OK &&
		       good;
	return good;
}

static void remove_accessors(struct opencsd_engine *e)
{
	for (size_t i = 0; i < e->n_accessors; i++)
		ocsd_dt_remove_mem_acc(e->tree, 0, e->accessors[i].spaces);
}

/*
 * Drops OpenCSD's cache of code where the code may have changed. OpenCSD has no notion of code that changes over time;
 * removing and adding the accessors is the only way to empty its cache.
 */
static void refresh_code(struct opencsd_engine *e)
{
	uint64_t version = e->memory.version ? e->memory.version(e->memory.user, &e->context) : 0;

	if (version == e->code_version)
		return;
	e->code_version = version;
	pthread_mutex_lock(&opencsd_lock);
	remove_accessors(e);
	add_accessors(e);
	pthread_mutex_unlock(&opencsd_lock);
}

/*
 * Takes time and context from packets instead of elements: OpenCSD walks the code behind a timestamp before it emits
 * the timestamp's element, and that walk needs the code as of that time.
 */
static void update_context_from_packet(struct opencsd_engine *e, const ocsd_etmv4_i_pkt *p)
{
	switch (p->type) {
	case ETM4_PKT_I_TIMESTAMP:
		e->context.has_time = true;
		e->context.time = p->ts.timestamp;
		refresh_code(e);
		break;
	case ETM4_PKT_I_CTXT:
	case ETM4_PKT_I_ADDR_CTXT_L_32IS0:
	case ETM4_PKT_I_ADDR_CTXT_L_32IS1:
	case ETM4_PKT_I_ADDR_CTXT_L_64IS0:
	case ETM4_PKT_I_ADDR_CTXT_L_64IS1:
		if (p->context.updated_c) {
			e->context.has_ctxid = true;
			e->context.ctxid = p->context.ctxtID;
		}
		if (p->context.updated_v) {
			e->context.has_vmid = true;
			e->context.vmid = p->context.VMID;
		}
		if (p->context.updated_c || p->context.updated_v)
			refresh_code(e);
		break;
	default:
		break;
	}
}

/* Takes time and context from an element: in the protocols without speculation it precedes the code that it governs. */
static void update_context_from_element(struct opencsd_engine *e, const struct element *to)
{
	if (to->kind == ELEM_TIMESTAMP) {
		e->context.has_time = true;
		e->context.time = to->value;
	} else if (to->kind == ELEM_CONTEXT && to->context.has_ctxid) {
		e->context.has_ctxid = true;
		e->context.ctxid = to->context.ctxid;
		e->context.has_vmid = to->context.has_vmid;
		e->context.vmid = to->context.vmid;
	} else {
		return;
	}
	refresh_code(e);
}

static bool is_etmv4(const struct opencsd_engine *e)
{
	return e->config.protocol == PROTOCOL_ETMV4 || e->config.protocol == PROTOCOL_ETE;
}

/* Formats an atom packet, as nearly all are, as OpenCSD does: its own text takes a microsecond. */
static bool format_atoms(const ocsd_etmv4_i_pkt *p, char *ret)
{
	static const struct {
		ocsd_etmv4_i_pkt_type type;
		char digit;
	} formats[] = { { ETM4_PKT_I_ATOM_F6, '6' }, { ETM4_PKT_I_ATOM_F3, '3' }, { ETM4_PKT_I_ATOM_F5, '5' },
			{ ETM4_PKT_I_ATOM_F2, '2' }, { ETM4_PKT_I_ATOM_F1, '1' }, { ETM4_PKT_I_ATOM_F4, '4' } };
	static const char begin[] = "I_ATOM_F? : ; ";
	size_t i = 0, at = sizeof(begin) - 1;

	while (i < ELEMENTS(formats) && formats[i].type != p->type)
		i++;
	if (i == ELEMENTS(formats) || p->atom.num > 32)
		return false;
	memcpy(ret, begin, at);
	ret[8] = formats[i].digit;
	for (unsigned k = 0; k < p->atom.num; k++)
		ret[at++] = p->atom.En_bits >> k & 1 ? 'E' : 'N';
	ret[at] = 0;
	return true;
}

static void emit_packet(struct opencsd_engine *e, uint64_t offset, const void *packet, const uint8_t *bytes,
			uint32_t size)
{
	static const ocsd_trace_protocol_t protocols[PROTOCOLS] = {
		[PROTOCOL_ETMV3] = OCSD_PROTOCOL_ETMV3,  [PROTOCOL_PTM] = OCSD_PROTOCOL_PTM,
		[PROTOCOL_ETMV4] = OCSD_PROTOCOL_ETMV4I, [PROTOCOL_ETE] = OCSD_PROTOCOL_ETE,
		[PROTOCOL_STM] = OCSD_PROTOCOL_STM,
	};
	char text[PACKET_TEXT_MAX];
	struct engine_packet p = { offset, bytes, size, text };

	if (e->error < 0)
		return;
	*text = 0;
	if (!is_etmv4(e) || !format_atoms(packet, text)) {
		/* OpenCSD formats numbers in static buffers that all trees share. */
		pthread_mutex_lock(&opencsd_lock);
		ocsd_pkt_str(protocols[e->config.protocol], packet, text, sizeof(text));
		pthread_mutex_unlock(&opencsd_lock);
	}
	e->error = MIN(e->sink.packet(e->sink.user, &p), 0);
}

static void process_packet(struct opencsd_engine *e, const ocsd_trc_index_t index, const void *packet,
			   const uint32_t size, const uint8_t *bytes)
{
	uint32_t type;

	e->walked = 0;
	e->packet_size = size;
	e->packet_end = offset_of(e, index) + size;
	/* In each protocol's packet struct the type is the first field. */
	memcpy(&type, packet, sizeof(type));
	if (type == e->source.sync_packet) {
		e->synced = true;
		if (e->stats.first_sync == UINT64_MAX)
			e->stats.first_sync = offset_of(e, index);
	}
	if (is_etmv4(e))
		update_context_from_packet(e, packet);
	if (e->sink.packet)
		emit_packet(e, offset_of(e, index), packet, bytes, size);
	if (e->synced)
		e->stats.decoded += size;
}

static void on_packet(const void *user, const ocsd_datapath_op_t op, const ocsd_trc_index_t index, const void *packet,
		      const uint32_t size, const uint8_t *bytes)
{
	sigjmp_buf *guard = guard_set(NULL);

	if (op == OCSD_OP_DATA && packet)
		process_packet((struct opencsd_engine *)user, index, packet, size, bytes);
	guard_set(guard);
}

static ocsd_datapath_resp_t emit_element(struct opencsd_engine *e, const ocsd_trc_index_t index,
					 const ocsd_generic_trace_elem *from)
{
	struct element to = { .offset = offset_of(e, index) };

	e->walked = 0;
	if (e->error || !opencsd_convert(from, e->config.protocol, &to, e->text))
		return OCSD_RESP_CONT;
	if (to.kind == ELEM_CONTEXT)
		e->is_a64 = to.context.bits == 64;
	if (to.kind == ELEM_NO_SYNC && to.reason == REASON_INIT && e->restarted) {
		/* The new tree reports its start; for the reader of elements it is a gap after bad bytes. */
		e->restarted = false;
		to.reason = REASON_BAD_PACKET;
	} else if (to.kind == ELEM_NO_SYNC && to.reason != REASON_INIT) {
		e->synced = false;
		if (to.reason == REASON_BAD_PACKET)
			e->stats.decoded -= MIN(e->stats.decoded, (uint64_t)e->packet_size);
	}
	if (!e->watched && e->stats.first_sync == UINT64_MAX && to.kind != ELEM_NO_SYNC && to.kind != ELEM_END)
		e->stats.first_sync = to.offset;
	if (!e->watched || !is_etmv4(e))
		update_context_from_element(e, &to);
	to.torn = !continuity_holds(&e->continuity, &to, &e->memory, &e->context);
	e->error = e->sink.element(e->sink.user, &to);
	return e->error < 0 ? OCSD_RESP_FATAL_SYS_ERR : OCSD_RESP_CONT;
}

static ocsd_datapath_resp_t on_element(const void *user, const ocsd_trc_index_t index, const uint8_t id,
				       const ocsd_generic_trace_elem *from)
{
	sigjmp_buf *guard = guard_set(NULL);
	ocsd_datapath_resp_t response = emit_element((struct opencsd_engine *)user, index, from);

	guard_set(guard);
	return response;
}

static void destroy_tree(struct opencsd_engine *e)
{
	if (!e->tree)
		return;
	pthread_mutex_lock(&opencsd_lock);
	ocsd_destroy_dcd_tree(e->tree);
	pthread_mutex_unlock(&opencsd_lock);
	e->tree = 0;
}

static int set_up_tree(struct opencsd_engine *e)
{
	int rc = -ENOMEM;

	if (!opencsd_quiet)
		opencsd_quiet = ocsd_def_errlog_init(OCSD_ERR_SEV_NONE, 0) == OCSD_OK;
	e->tree = ocsd_create_dcd_tree(OCSD_TRC_SRC_SINGLE, 0);
	if (e->tree) {
		bool good = ocsd_dt_create_decoder(e->tree, e->source.decoder, OCSD_CREATE_FLG_FULL_DECODER,
						   &e->source.config, &e->trace_id) == OCSD_OK;

		good = good && ocsd_dt_set_gen_elem_outfn(e->tree, on_element, e) == OCSD_OK;
		/* Some versions have no packet callback for ETE: context comes from elements, packets are unknown. */
		e->watched = good && ocsd_dt_attach_packet_callback(e->tree, e->trace_id, OCSD_C_API_CB_PKT_MON,
								    (void *)on_packet, e) == OCSD_OK;
		good = good && add_accessors(e);
		rc = !good ? -EOPNOTSUPP : e->sink.packet && !e->watched ? -ENOSYS : 0;
	}
	return rc;
}

/* Where memory runs out, OpenCSD throws, which ends the process, or uses NULL. */
static int create_tree(struct opencsd_engine *e)
{
	sigjmp_buf here;
	int rc;

	pthread_mutex_lock(&opencsd_lock);
	if (sigsetjmp(here, 1) != 0) {
		e->tree = 0;
		pthread_mutex_unlock(&opencsd_lock);
		return -ENOMEM;
	}
	guard_begin(&here);
	rc = set_up_tree(e);
	guard_set(NULL);
	pthread_mutex_unlock(&opencsd_lock);
	return rc;
}

static void set_up_accessors(struct opencsd_engine *e)
{
	e->n_accessors = e->memory.by_space ? SPACES : 1;
	for (size_t i = 0; i < e->n_accessors; i++)
		/* The cast allows bits for which the headers of an older OpenCSD have no names. */
		e->accessors[i] =
		    (struct accessor){ e, (ocsd_mem_space_acc_t)(e->memory.by_space ? 1u << i : (unsigned)SPACES_ANY) };
}

static struct engine *engine_close(struct engine *engine)
{
	struct opencsd_engine *e = (struct opencsd_engine *)engine;

	if (!e)
		return NULL;
	destroy_tree(e);
	free(e);
	return NULL;
}

/* Minor versions move fields of the structures that OpenCSD passes, and keep its soname. */
static bool is_as_built(void)
{
	return ocsd_get_version() >> 8 == OCSD_VER_NUM >> 8;
}

static int engine_open(const struct engine_config *config, const struct engine_memory *memory,
		       const struct element_sink *sink, struct engine **ret)
{
	struct opencsd_source source;
	struct opencsd_engine *e;
	int rc = opencsd_source(config, &source);

	if (rc == 0 && !is_as_built())
		rc = -ELIBBAD;
	if (rc < 0)
		return rc;
	e = calloc(1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	e->config = *config;
	e->source = source;
	e->set = instr_set_of(config);
	e->memory = *memory;
	e->sink = *sink;
	e->stats.first_sync = UINT64_MAX;
	set_up_accessors(e);
	rc = create_tree(e);
	if (rc < 0) {
		engine_close((struct engine *)e);
		return rc;
	}
	*ret = (struct engine *)e;
	return 0;
}

static int restart(struct opencsd_engine *e)
{
	destroy_tree(e);
	e->stats.restarts++;
	e->restarted = true;
	e->synced = false;
	return create_tree(e);
}

/* Reports the rest of the source as a gap. The tree is leaked: after a crash inside it, destroying it is not safe. */
static void on_crash(struct opencsd_engine *e)
{
	struct element lost = { .kind = ELEM_NO_SYNC, .reason = REASON_UNDEFINED, .offset = e->packet_end };

	e->tree = 0;
	e->crashed = true;
	e->synced = false;
	e->stats.crashes++;
	e->error = e->sink.element(e->sink.user, &lost);
}

/* Calls OpenCSD under the guard. A crash returns as if OpenCSD had consumed all bytes. */
static ocsd_datapath_resp_t call_opencsd(struct opencsd_engine *e, ocsd_datapath_op_t op, const uint8_t *data,
					 uint32_t size, uint32_t *ret_used)
{
	ocsd_datapath_resp_t response;
	sigjmp_buf here;

	e->block_at = e->stats.bytes;
	if (e->crashed)
		return OCSD_RESP_CONT;
	if (sigsetjmp(here, 1) != 0) {
		on_crash(e);
		return OCSD_RESP_CONT;
	}
	guard_begin(&here);
	response = ocsd_dt_process_data(e->tree, op, (ocsd_trc_index_t)e->block_at, size, data, ret_used);
	guard_set(NULL);
	return response;
}

/* Decodes at most BLOCK_MAX bytes; *ret_used is how many were consumed. */
static int push_block(struct opencsd_engine *e, const uint8_t *data, uint32_t size, uint32_t *ret_used)
{
	uint32_t used = 0;
	uint64_t end;
	ocsd_datapath_resp_t response;

	response = call_opencsd(e, OCSD_OP_DATA, data, size, &used);
	if (e->error < 0)
		return e->error;
	if (!OCSD_DATA_RESP_IS_FATAL(response)) {
		*ret_used = size;
		return 0;
	}
	/* Continue behind the packet that caused the error. */
	end = MAX(e->block_at + MIN(used, size), e->packet_end);
	end = MAX(end, e->block_at + 1) - e->block_at;
	*ret_used = (uint32_t)MIN(end, (uint64_t)size);
	return restart(e);
}

static int engine_push(struct engine *engine, const void *data, size_t size)
{
	struct opencsd_engine *e = (struct opencsd_engine *)engine;
	const uint8_t *at = data;

	if (e->error < 0)
		return e->error;
	while (size) {
		uint32_t used = 0;
		int rc = push_block(e, at, (uint32_t)MIN(size, (size_t)BLOCK_MAX), &used);

		if (rc < 0)
			return rc;
		e->stats.bytes += used;
		at += used;
		size -= used;
	}
	return 0;
}

static int engine_reset(struct engine *engine)
{
	struct opencsd_engine *e = (struct opencsd_engine *)engine;
	uint32_t used = 0;

	if (e->error < 0)
		return e->error;
	call_opencsd(e, OCSD_OP_RESET, NULL, 0, &used);
	e->synced = false;
	return e->error;
}

static int engine_finish(struct engine *engine)
{
	struct opencsd_engine *e = (struct opencsd_engine *)engine;
	uint32_t used = 0;

	if (e->error < 0)
		return e->error;
	call_opencsd(e, OCSD_OP_EOT, NULL, 0, &used);
	if (e->crashed && e->error == 0)
		e->error = e->sink.element(
		    e->sink.user,
		    &(struct element){ .kind = ELEM_END, .reason = REASON_END_OF_TRACE, .offset = e->stats.bytes });
	return e->error;
}

static void engine_stats(const struct engine *engine, struct engine_stats *ret)
{
	const struct opencsd_engine *e = (const struct opencsd_engine *)engine;

	*ret = e->stats;
	if (!e->watched && e->stats.first_sync != UINT64_MAX)
		ret->decoded = e->stats.bytes - MIN(e->stats.first_sync, e->stats.bytes);
	/* STM packets are multiples of half a byte, and OpenCSD counts them as whole bytes. */
	ret->decoded = MIN(ret->decoded, e->stats.bytes);
}

const struct engine_ops opencsd_engine_ops = {
	.name = "opencsd",
	.open = engine_open,
	.push = engine_push,
	.reset = engine_reset,
	.finish = engine_finish,
	.stats = engine_stats,
	.close = engine_close,
};

const char *opencsd_version(const char **ret_warning)
{
	if (ret_warning && !is_as_built())
		*ret_warning = "csight-decode was built with OpenCSD " OCSD_VER_STRING
			       ", whose structures differ from those of the one that is installed: traces that "
			       "require OpenCSD are refused until csight-decode is built again";
	else if (ret_warning)
		*ret_warning = ocsd_get_version() >= GOOD_VERSION
				   ? NULL
				   : "this OpenCSD decodes some traces of speculating processors wrongly; "
				     "1.6.1 or later is preferred";
	return ocsd_get_version_str();
}

const char *opencsd_known_wrong(enum engine_protocol protocol)
{
	/* Found in 1.3.3 by comparison with the listings of 1.8.0. */
	static const char *const wrong[PROTOCOLS] = {
		[PROTOCOL_ETE] = "this OpenCSD decodes these parts of ETE wrongly: Q elements, returns with PAuth_LR, "
				 "transactions near the end of the trace, instrumentation",
		[PROTOCOL_STM] = "this OpenCSD reports a wrong STM master after a version packet",
	};

	return ocsd_get_version() < GOOD_VERSION && (size_t)protocol < PROTOCOLS ? wrong[protocol] : NULL;
}
