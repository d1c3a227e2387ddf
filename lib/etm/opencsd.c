/* The engine that is OpenCSD: a decode tree a source, made anew where OpenCSD gives up. */
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
	/* Code in one piece that one packet may be walked through, as far as it is seen: OpenCSD keeps some of it. */
	WALK_MAX = 512 << 10,
	GOOD_VERSION = 0x10601, /* as OCSD_VER_NUM has it */
	PACKET_TEXT_MAX = 1024,
};

struct engine;

/* OpenCSD is given one accessor for each kind of memory, so that its cache keeps them apart. */
struct accessor {
	struct engine *engine;
	ocsd_mem_space_acc_t spaces;
};

struct engine {
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
	uint64_t block_at;   /* where the block that is being decoded begins; indexes are relative to it */
	uint64_t packet_end; /* of the last packet seen */
	uint32_t packet_size;
	struct continuity continuity;
	uint64_t walked, walked_to; /* bytes of code read in one piece since the last packet or element; its end */
	struct instr_set set;
	bool wide;    /* it is A64, as told last */
	bool watched; /* packets are seen */
	bool synced, restarted;
	bool crashed;                /* it takes bytes, and does nothing with them */
	int error;                   /* of the sink */
	char text[OPENCSD_TEXT_MAX]; /* of the element that is on its way */
};

/*
 * Trees share maps and a registry of decoders inside OpenCSD: their making and unmaking takes turns. The error logger
 * is one for all, and quiet.
 */
static pthread_mutex_t opencsd_lock = PTHREAD_MUTEX_INITIALIZER;
static bool opencsd_quiet;

static uint64_t position(const struct engine *e, ocsd_trc_index_t index)
{
	/* Indexes may have 32 bits; a packet begins in this block or shortly before it. */
	return e->block_at + (uint64_t)(int64_t)(int32_t)((uint32_t)index - (uint32_t)e->block_at);
}

/* How much of it there may be, from an address on. */
static uint32_t without_filler(struct engine *e, const struct engine_context *context, uint64_t address, uint32_t size)
{
	uint64_t next = (address + FILLER_SIZE - 1) & ~(uint64_t)(FILLER_SIZE - 1);

	if (e->wide && next - address < size && filler_before(&e->set, &e->memory, context, next))
		return (uint32_t)(next - address);
	return size;
}

static uint32_t on_read(const void *user, const ocsd_vaddr_t address, const ocsd_mem_space_acc_t space,
			const uint32_t size, uint8_t *ret)
{
	const struct accessor *a = user;
	struct engine *e = a->engine;
	struct engine_context context = e->context;
	sigjmp_buf *guard = guard_set(NULL);
	uint32_t may;
	size_t n = 0;

	context.spaces = (uint8_t)((unsigned)space & (unsigned)a->spaces);
	may = without_filler(e, &context, address, size);
	if (address != e->walked_to)
		e->walked = 0;
	if (may && e->walked < WALK_MAX)
		n = e->memory.read(e->memory.user, &context, address, ret, may);
	e->walked += n;
	e->walked_to = address + n;
	guard_set(guard);
	return (uint32_t)n;
}

static bool add_memory(struct engine *e)
{
	bool good = true;

	for (size_t i = 0; i < e->n_accessors; i++)
		good = ocsd_dt_add_callback_mem_acc(e->tree, 0, UINT64_MAX, e->accessors[i].spaces, on_read,
						    &e->accessors[i]) == OCSD_OK &&
		       good;
	return good;
}

static void remove_memory(struct engine *e)
{
	for (size_t i = 0; i < e->n_accessors; i++)
		ocsd_dt_remove_mem_acc(e->tree, 0, e->accessors[i].spaces);
}

/*
 * OpenCSD keeps what it read in pages of its own and knows of no time. Taking its accessor away and giving it back is
 * the one way to empty them.
 */
static void check_code_version(struct engine *e)
{
	uint64_t version = e->memory.version ? e->memory.version(e->memory.user, &e->context) : 0;

	if (version == e->code_version)
		return;
	e->code_version = version;
	pthread_mutex_lock(&opencsd_lock);
	remove_memory(e);
	add_memory(e);
	pthread_mutex_unlock(&opencsd_lock);
}

/*
 * Packets are watched besides the elements: what follows a timestamp is walked before its element comes out, and needs
 * the code as of that timestamp.
 */
static void watch_etmv4(struct engine *e, const ocsd_etmv4_i_pkt *p)
{
	switch (p->type) {
	case ETM4_PKT_I_TIMESTAMP:
		e->context.has_time = true;
		e->context.time = p->ts.timestamp;
		check_code_version(e);
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
			check_code_version(e);
		break;
	default:
		break;
	}
}

/* The older protocols do not speculate, so what their elements say holds for what follows them. */
static void watch_element(struct engine *e, const struct element *to)
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
	check_code_version(e);
}

static bool is_etmv4(const struct engine *e)
{
	return e->config.protocol == PROTOCOL_ETMV4 || e->config.protocol == PROTOCOL_ETE;
}

static void tell_packet(struct engine *e, uint64_t offset, const void *packet, const uint8_t *bytes, uint32_t size)
{
	static const ocsd_trace_protocol_t protocols[PROTOCOLS] = {
		[PROTOCOL_ETMV3] = OCSD_PROTOCOL_ETMV3,  [PROTOCOL_PTM] = OCSD_PROTOCOL_PTM,
		[PROTOCOL_ETMV4] = OCSD_PROTOCOL_ETMV4I, [PROTOCOL_ETE] = OCSD_PROTOCOL_ETE,
		[PROTOCOL_STM] = OCSD_PROTOCOL_STM,
	};
	char text[PACKET_TEXT_MAX] = "";
	struct engine_packet p = { offset, bytes, size, text };

	if (e->error < 0)
		return;
	/* OpenCSD makes numbers into text in buffers that all share. */
	pthread_mutex_lock(&opencsd_lock);
	ocsd_pkt_str(protocols[e->config.protocol], packet, text, sizeof(text));
	pthread_mutex_unlock(&opencsd_lock);
	e->error = MIN(e->sink.packet(e->sink.user, &p), 0);
}

static void take_packet(struct engine *e, const ocsd_trc_index_t index, const void *packet, const uint32_t size,
			const uint8_t *bytes)
{
	uint32_t type;

	e->walked = 0;
	e->packet_size = size;
	e->packet_end = position(e, index) + size;
	/* Each protocol's packet has its type at its head. */
	memcpy(&type, packet, sizeof(type));
	if (type == e->source.sync_packet) {
		e->synced = true;
		if (e->stats.first_sync == UINT64_MAX)
			e->stats.first_sync = position(e, index);
	}
	if (is_etmv4(e))
		watch_etmv4(e, packet);
	if (e->sink.packet)
		tell_packet(e, position(e, index), packet, bytes, size);
	if (e->synced)
		e->stats.decoded += size;
}

static void on_packet(const void *user, const ocsd_datapath_op_t op, const ocsd_trc_index_t index, const void *packet,
		      const uint32_t size, const uint8_t *bytes)
{
	sigjmp_buf *guard = guard_set(NULL);

	if (op == OCSD_OP_DATA && packet)
		take_packet((struct engine *)user, index, packet, size, bytes);
	guard_set(guard);
}

static ocsd_datapath_resp_t take_element(struct engine *e, const ocsd_trc_index_t index,
					 const ocsd_generic_trace_elem *from)
{
	struct element to = { .offset = position(e, index) };

	e->walked = 0;
	if (e->error || !opencsd_convert(from, e->config.protocol, &to, e->text))
		return OCSD_RESP_CONT;
	if (to.kind == ELEM_CONTEXT)
		e->wide = to.context.bits == 64;
	if (to.kind == ELEM_NO_SYNC && to.reason == REASON_INIT && e->restarted) {
		/* To whoever reads the elements it is no beginning: the bytes before it were bad. */
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
		watch_element(e, &to);
	to.torn = !continuity_holds(&e->continuity, &to, &e->memory, &e->context);
	e->error = e->sink.element(e->sink.user, &to);
	return e->error < 0 ? OCSD_RESP_FATAL_SYS_ERR : OCSD_RESP_CONT;
}

static ocsd_datapath_resp_t on_element(const void *user, const ocsd_trc_index_t index, const uint8_t id,
				       const ocsd_generic_trace_elem *from)
{
	sigjmp_buf *guard = guard_set(NULL);
	ocsd_datapath_resp_t response = take_element((struct engine *)user, index, from);

	guard_set(guard);
	return response;
}

static void drop_tree(struct engine *e)
{
	if (!e->tree)
		return;
	pthread_mutex_lock(&opencsd_lock);
	ocsd_destroy_dcd_tree(e->tree);
	pthread_mutex_unlock(&opencsd_lock);
	e->tree = 0;
}

static int make_tree(struct engine *e)
{
	int rc = -ENOMEM;

	pthread_mutex_lock(&opencsd_lock);
	if (!opencsd_quiet)
		opencsd_quiet = ocsd_def_errlog_init(OCSD_ERR_SEV_NONE, 0) == OCSD_OK;
	e->tree = ocsd_create_dcd_tree(OCSD_TRC_SRC_SINGLE, 0);
	if (e->tree) {
		bool good = ocsd_dt_create_decoder(e->tree, e->source.decoder, OCSD_CREATE_FLG_FULL_DECODER,
						   &e->source.config, &e->trace_id) == OCSD_OK;

		good = good && ocsd_dt_set_gen_elem_outfn(e->tree, on_element, e) == OCSD_OK;
		/* Some versions have none for ETE; the elements have to do then. */
		e->watched = good && ocsd_dt_attach_packet_callback(e->tree, e->trace_id, OCSD_C_API_CB_PKT_MON,
								    (void *)on_packet, e) == OCSD_OK;
		good = good && add_memory(e);
		rc = good ? 0 : -EOPNOTSUPP;
	}
	pthread_mutex_unlock(&opencsd_lock);
	return rc;
}

static void plan_memory(struct engine *e)
{
	e->n_accessors = e->memory.by_space ? SPACES : 1;
	for (size_t i = 0; i < e->n_accessors; i++)
		/* Bits that the headers of an older OpenCSD have no names for. */
		e->accessors[i] =
		    (struct accessor){ e, (ocsd_mem_space_acc_t)(e->memory.by_space ? 1u << i : (unsigned)SPACES_ANY) };
}

static struct engine *engine_close(struct engine *e)
{
	if (!e)
		return NULL;
	drop_tree(e);
	free(e);
	return NULL;
}

static int engine_open(const struct engine_config *config, const struct engine_memory *memory,
		       const struct element_sink *sink, struct engine **ret)
{
	struct opencsd_source source;
	struct engine *e;
	int rc = opencsd_source(config, &source);

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
	plan_memory(e);
	rc = make_tree(e);
	if (rc < 0) {
		engine_close(e);
		return rc;
	}
	*ret = e;
	return 0;
}

static int restart(struct engine *e)
{
	drop_tree(e);
	e->stats.restarts++;
	e->restarted = true;
	e->synced = false;
	return make_tree(e);
}

/* What it was told here is all there is to say, and to be relied on; its tree is left as it lies. */
static void on_crash(struct engine *e)
{
	struct element lost = { .kind = ELEM_NO_SYNC, .reason = REASON_UNDEFINED, .offset = e->packet_end };

	e->tree = 0;
	e->crashed = true;
	e->synced = false;
	e->stats.crashes++;
	e->error = e->sink.element(e->sink.user, &lost);
}

/* OpenCSD at its work. A crash of it reads as if it had taken everything. */
static ocsd_datapath_resp_t feed(struct engine *e, ocsd_datapath_op_t op, const uint8_t *data, uint32_t size,
				 uint32_t *ret_used)
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

/* One block, at most BLOCK_MAX; *ret_used: where to go on. */
static int push_block(struct engine *e, const uint8_t *data, uint32_t size, uint32_t *ret_used)
{
	uint32_t used = 0;
	uint64_t end;
	ocsd_datapath_resp_t response;

	response = feed(e, OCSD_OP_DATA, data, size, &used);
	if (e->error < 0)
		return e->error;
	if (!OCSD_DATA_RESP_IS_FATAL(response)) {
		*ret_used = size;
		return 0;
	}
	/* Behind the packet that was too much. */
	end = MAX(e->block_at + MIN(used, size), e->packet_end);
	end = MAX(end, e->block_at + 1) - e->block_at;
	*ret_used = (uint32_t)MIN(end, (uint64_t)size);
	return restart(e);
}

static int engine_push(struct engine *e, const void *data, size_t size)
{
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

static int engine_reset(struct engine *e)
{
	uint32_t used = 0;

	if (e->error < 0)
		return e->error;
	feed(e, OCSD_OP_RESET, NULL, 0, &used);
	e->synced = false;
	return e->error;
}

static int engine_finish(struct engine *e)
{
	uint32_t used = 0;

	if (e->error < 0)
		return e->error;
	feed(e, OCSD_OP_EOT, NULL, 0, &used);
	if (e->crashed && e->error == 0)
		e->error = e->sink.element(
		    e->sink.user,
		    &(struct element){ .kind = ELEM_END, .reason = REASON_END_OF_TRACE, .offset = e->stats.bytes });
	return e->error;
}

static void engine_stats(const struct engine *e, struct engine_stats *ret)
{
	*ret = e->stats;
	if (!e->watched && e->stats.first_sync != UINT64_MAX)
		ret->decoded = e->stats.bytes - MIN(e->stats.first_sync, e->stats.bytes);
	/* STM's packets are of half bytes, and counted as of whole ones. */
	ret->decoded = MIN(ret->decoded, e->stats.bytes);
}

const struct engine_ops engine_opencsd = {
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
	if (ret_warning)
		*ret_warning = ocsd_get_version() >= GOOD_VERSION
				   ? NULL
				   : "this OpenCSD decodes some traces of speculating processors wrongly; "
				     "1.6.1 or later is preferred";
	return ocsd_get_version_str();
}

const char *opencsd_known_wrong(enum engine_protocol protocol)
{
	/* Seen of 1.3.3, against the listings of 1.8.0. */
	static const char *const wrong[PROTOCOLS] = {
		[PROTOCOL_ETE] = "with ETE this OpenCSD gets Q elements, returns of PAuth_LR, transactions near the "
				 "end of the trace and instrumentation wrong",
		[PROTOCOL_STM] = "with STM this OpenCSD names a wrong master after a version packet",
		[PROTOCOL_ITM] = "this OpenCSD does not know ITM",
	};

	return ocsd_get_version() < GOOD_VERSION && (size_t)protocol < PROTOCOLS ? wrong[protocol] : NULL;
}
