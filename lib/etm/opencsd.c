/* The engine that is OpenCSD: a decode tree a source, made anew where OpenCSD gives up. */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <opencsd/c_api/opencsd_c_api.h>

#include "lib/base/util.h"
#include "lib/etm/engine.h"

enum {
	BLOCK_MAX = 1 << 20,
	GOOD_VERSION = 0x10601, /* as OCSD_VER_NUM has it */
};

struct engine {
	struct engine_config config;
	struct engine_memory memory;
	struct element_sink sink;
	struct engine_stats stats;
	struct engine_context context;
	uint64_t code_version;
	dcd_tree_handle_t tree;
	uint8_t trace_id;
	uint64_t block_at;   /* where the block that is being decoded begins; indexes are relative to it */
	uint64_t packet_end; /* of the last packet seen */
	uint32_t packet_size;
	bool synced, restarted;
	int error; /* of the sink */
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

static uint32_t on_read(const void *user, const ocsd_vaddr_t address, const ocsd_mem_space_acc_t space,
			const uint32_t size, uint8_t *ret)
{
	const struct engine *e = user;

	return (uint32_t)e->memory.read(e->memory.user, &e->context, address, ret, size);
}

static ocsd_err_t add_memory(struct engine *e)
{
	return ocsd_dt_add_callback_mem_acc(e->tree, 0, UINT64_MAX, OCSD_MEM_SPACE_ANY, on_read, e);
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
	ocsd_dt_remove_mem_acc(e->tree, 0, OCSD_MEM_SPACE_ANY);
	add_memory(e);
	pthread_mutex_unlock(&opencsd_lock);
}

/*
 * Packets are watched besides the elements: what follows a timestamp is walked before its element comes out, and needs
 * the code as of that timestamp.
 */
static void on_packet(const void *user, const ocsd_datapath_op_t op, const ocsd_trc_index_t index, const void *packet,
		      const uint32_t size, const uint8_t *bytes)
{
	struct engine *e = (struct engine *)user;
	const ocsd_etmv4_i_pkt *p = packet;

	if (op != OCSD_OP_DATA || !p)
		return;
	e->packet_size = size;
	e->packet_end = position(e, index) + size;
	switch (p->type) {
	case ETM4_PKT_I_ASYNC:
		e->synced = true;
		if (e->stats.first_sync == UINT64_MAX)
			e->stats.first_sync = position(e, index);
		break;
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
			check_code_version(e);
		}
		break;
	default:
		break;
	}
	if (e->synced)
		e->stats.decoded += size;
}

static enum element_reason reason_of(unsync_info_t info)
{
	switch (info) {
	case UNSYNC_INIT_DECODER:
		return REASON_INIT;
	case UNSYNC_RESET_DECODER:
		return REASON_RESET;
	case UNSYNC_OVERFLOW:
		return REASON_OVERFLOW;
	case UNSYNC_DISCARD:
		return REASON_DISCARD;
	case UNSYNC_BAD_PACKET:
		return REASON_BAD_PACKET;
	case UNSYNC_EOT:
		return REASON_END_OF_TRACE;
	default:
		return REASON_UNDEFINED;
	}
}

static void convert_range(const ocsd_generic_trace_elem *from, struct element *to)
{
	static const uint8_t instrs[] = {
		[OCSD_INSTR_OTHER] = INSTR_OTHER,     [OCSD_INSTR_BR] = INSTR_BR,
		[OCSD_INSTR_BR_INDIRECT] = INSTR_IBR, [OCSD_INSTR_ISB] = INSTR_ISB,
		[OCSD_INSTR_DSB_DMB] = INSTR_DSB,     [OCSD_INSTR_WFI_WFE] = INSTR_WFI,
		[OCSD_INSTR_TSTART] = INSTR_TSTART,
	};
	static const uint8_t subs[] = {
		[OCSD_S_INSTR_NONE] = SUB_NONE,
		[OCSD_S_INSTR_BR_LINK] = SUB_LINK,
		[OCSD_S_INSTR_V8_RET] = SUB_RET,
		[OCSD_S_INSTR_V8_ERET] = SUB_ERET,
		[OCSD_S_INSTR_V7_IMPLIED_RET] = SUB_IMPLRET,
	};

	to->kind = ELEM_RANGE;
	to->range.start = from->st_addr;
	to->range.end = from->en_addr;
	to->range.count = from->num_instr_range;
	to->range.last_size = from->last_instr_sz;
	if ((size_t)from->last_i_type < ELEMENTS(instrs))
		to->instr = instrs[from->last_i_type];
	if ((size_t)from->last_i_subtype < ELEMENTS(subs))
		to->sub = subs[from->last_i_subtype];
	to->taken = from->last_instr_exec;
	to->conditional = from->last_instr_cond;
}

static void convert_context(const ocsd_pe_context *from, struct element *to)
{
	static const char security[] = { 'S', 'N', 'R', 'r' };

	to->kind = ELEM_CONTEXT;
	to->context.level =
	    from->el_valid && from->exception_level > ocsd_EL_unknown ? (uint8_t)from->exception_level : 0xff;
	to->context.security = (uint8_t)security[from->security_level & 3];
	to->context.bits = from->bits64 ? 64 : 32;
	to->context.has_vmid = from->vmid_valid;
	to->context.vmid = from->vmid;
	to->context.has_ctxid = from->ctxt_id_valid;
	to->context.ctxid = from->context_id;
}

/* False: an element that says nothing here. */
static bool convert(const ocsd_generic_trace_elem *from, struct element *to)
{
	static const uint8_t trace_on[] = { REASON_BEGIN, REASON_OVERFLOW, REASON_DEBUG };
	/* OCSD_MEM_TRANS_TRACE_INIT, START, COMMIT, FAIL */
	static const uint8_t transactions[] = { 3, 0, 1, 2 };

	to->isa = (uint8_t)from->isa;
	to->has_cycles = from->has_cc;
	to->cycles = from->cycle_count;
	switch (from->elem_type) {
	case OCSD_GEN_TRC_ELEM_INSTR_RANGE:
		convert_range(from, to);
		return true;
	case OCSD_GEN_TRC_ELEM_I_RANGE_NOPATH:
		to->kind = ELEM_RANGE_NOPATH;
		to->range.start = from->st_addr;
		to->range.end = from->en_addr;
		to->range.count = from->num_instr_range;
		return true;
	case OCSD_GEN_TRC_ELEM_ADDR_NACC:
		to->kind = ELEM_NO_IMAGE;
		to->address = from->st_addr;
		return true;
	case OCSD_GEN_TRC_ELEM_ADDR_UNKNOWN:
		to->kind = ELEM_UNKNOWN_ADDRESS;
		return true;
	case OCSD_GEN_TRC_ELEM_PE_CONTEXT:
		convert_context(&from->context, to);
		return true;
	case OCSD_GEN_TRC_ELEM_EXCEPTION:
		to->kind = ELEM_EXCEPTION;
		to->exception.number = from->exception_number;
		to->exception.has_ret = from->excep_ret_addr;
		to->exception.ret = from->en_addr;
		to->exception.target = from->excep_ret_addr && from->excep_ret_addr_br_tgt;
		return true;
	case OCSD_GEN_TRC_ELEM_EXCEPTION_RET:
		to->kind = ELEM_EXCEPTION_RETURN;
		return true;
	case OCSD_GEN_TRC_ELEM_TRACE_ON:
		to->kind = ELEM_TRACE_ON;
		to->reason = trace_on[MIN((size_t)from->trace_on_reason, ELEMENTS(trace_on) - 1)];
		return true;
	case OCSD_GEN_TRC_ELEM_NO_SYNC:
		to->kind = ELEM_NO_SYNC;
		to->reason = reason_of(from->unsync_eot_info);
		return true;
	case OCSD_GEN_TRC_ELEM_EO_TRACE:
		to->kind = ELEM_END;
		to->reason = reason_of(from->unsync_eot_info);
		return true;
	case OCSD_GEN_TRC_ELEM_TIMESTAMP:
		to->kind = ELEM_TIMESTAMP;
		to->value = from->timestamp;
		return true;
	case OCSD_GEN_TRC_ELEM_CYCLE_COUNT:
		to->kind = ELEM_CYCLES;
		return true;
	case OCSD_GEN_TRC_ELEM_EVENT:
		to->kind = ELEM_EVENT;
		to->value = from->trace_event.ev_type == EVENT_TRIGGER ? UINT64_MAX : from->trace_event.ev_number;
		return true;
	case OCSD_GEN_TRC_ELEM_SYNC_MARKER:
		to->kind = ELEM_MARKER;
		to->value = from->sync_marker.value;
		return true;
	case OCSD_GEN_TRC_ELEM_MEMTRANS:
		to->kind = ELEM_TRANSACTION;
		to->value = transactions[from->mem_trans & 3];
		return true;
	default:
		return false;
	}
}

static ocsd_datapath_resp_t on_element(const void *user, const ocsd_trc_index_t index, const uint8_t id,
				       const ocsd_generic_trace_elem *from)
{
	struct engine *e = (struct engine *)user;
	struct element to = { .offset = position(e, index) };

	if (e->error || !convert(from, &to))
		return OCSD_RESP_CONT;
	if (to.kind == ELEM_NO_SYNC && to.reason == REASON_INIT && e->restarted) {
		/* To whoever reads the elements it is no beginning: the bytes before it were bad. */
		e->restarted = false;
		to.reason = REASON_BAD_PACKET;
	} else if (to.kind == ELEM_NO_SYNC && to.reason != REASON_INIT) {
		e->synced = false;
		if (to.reason == REASON_BAD_PACKET)
			e->stats.decoded -= MIN(e->stats.decoded, (uint64_t)e->packet_size);
	}
	e->error = e->sink.element(e->sink.user, &to);
	return e->error < 0 ? OCSD_RESP_FATAL_SYS_ERR : OCSD_RESP_CONT;
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
	const struct engine_config *c = &e->config;
	bool has_return_stack = c->idr0 & 1 << 9;
	unsigned architecture = c->idr1 >> 4 & 15;
	ocsd_etmv4_cfg config = {
		.reg_idr0 = c->idr0,
		.reg_idr1 = c->idr1,
		.reg_idr2 = c->idr2,
		.reg_idr8 = c->idr8,
		/* The kernel leaves the return stack off where there is none; perf's metadata do not say so. */
		.reg_configr = has_return_stack ? c->configr : c->configr & ~(1u << 12),
		.reg_traceidr = c->traceidr,
		.arch_ver = architecture >= 4 ? ARCH_AA64 : ARCH_V8,
		.core_prof = profile_CortexA,
	};
	int rc = -ENOMEM;

	pthread_mutex_lock(&opencsd_lock);
	if (!opencsd_quiet)
		opencsd_quiet = ocsd_def_errlog_init(OCSD_ERR_SEV_NONE, 0) == OCSD_OK;
	e->tree = c->formatted ? ocsd_create_dcd_tree(OCSD_TRC_SRC_FRAME_FORMATTED,
						      OCSD_DFRMTR_FRAME_MEM_ALIGN | OCSD_DFRMTR_RESET_ON_4X_FSYNC)
			       : ocsd_create_dcd_tree(OCSD_TRC_SRC_SINGLE, 0);
	if (e->tree) {
		bool good = ocsd_dt_create_decoder(e->tree, OCSD_BUILTIN_DCD_ETMV4I, OCSD_CREATE_FLG_FULL_DECODER,
						   &config, &e->trace_id) == OCSD_OK;

		good = good && ocsd_dt_set_gen_elem_outfn(e->tree, on_element, e) == OCSD_OK;
		good = good && ocsd_dt_attach_packet_callback(e->tree, e->trace_id, OCSD_C_API_CB_PKT_MON,
							      (void *)on_packet, e) == OCSD_OK;
		good = good && add_memory(e) == OCSD_OK;
		rc = good ? 0 : -EOPNOTSUPP;
	}
	pthread_mutex_unlock(&opencsd_lock);
	return rc;
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
	struct engine *e;
	int rc;

	if (config->protocol != PROTOCOL_ETMV4)
		return -EOPNOTSUPP;
	e = calloc(1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	e->config = *config;
	e->memory = *memory;
	e->sink = *sink;
	e->stats.first_sync = UINT64_MAX;
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

/* One block, at most BLOCK_MAX; *ret_used: where to go on. */
static int push_block(struct engine *e, const uint8_t *data, uint32_t size, uint32_t *ret_used)
{
	uint32_t used = 0;
	uint64_t end;
	ocsd_datapath_resp_t response;

	e->block_at = e->stats.bytes;
	response = ocsd_dt_process_data(e->tree, OCSD_OP_DATA, (ocsd_trc_index_t)e->block_at, size, data, &used);
	if (e->error < 0)
		return e->error;
	if (!OCSD_DATA_RESP_IS_FATAL(response)) {
		*ret_used = size;
		return 0;
	}
	/* Behind the packet that was too much; frames keep their places. */
	end = MAX(e->block_at + MIN(used, size), e->packet_end);
	end = MAX(end, e->block_at + 1) - e->block_at;
	if (e->config.formatted)
		end = (end + 15) / 16 * 16;
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

static int engine_finish(struct engine *e)
{
	uint32_t used = 0;

	if (e->error < 0)
		return e->error;
	e->block_at = e->stats.bytes;
	ocsd_dt_process_data(e->tree, OCSD_OP_EOT, (ocsd_trc_index_t)e->block_at, 0, NULL, &used);
	return e->error;
}

static void engine_stats(const struct engine *e, struct engine_stats *ret)
{
	*ret = e->stats;
}

const struct engine_ops engine_opencsd = {
	.name = "opencsd",
	.open = engine_open,
	.push = engine_push,
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
