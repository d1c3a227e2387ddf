/* SPDX-License-Identifier: MIT */
/* Converts OpenCSD's generic trace elements to struct element. */
#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "lib/base/util.h"
#include "lib/etm/opencsd.h"
#include "lib/etm/packet.h"

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

/* Formats a software trace element as OpenCSD's own listing does. */
static void convert_sw(const ocsd_generic_trace_elem *from, char text[OPENCSD_TEXT_MAX])
{
	const ocsd_swt_info_t *info = &from->sw_trace_info;
	unsigned bits = info->swt_payload_pkt_bitsize;
	char source[32] = "(Ma:0x\?\?; Ch:0x\?\?)", payload[32] = "", time[40] = "";

	if (info->swt_global_err) {
		snprintf(text, OPENCSD_TEXT_MAX, "{Global Err.}");
		return;
	}
	if (info->swt_id_valid)
		snprintf(source, sizeof(source), "(Ma:0x%02x; Ch:0x%02x)", info->swt_master_id, info->swt_channel_id);
	if (bits && bits <= 64 && from->ptr_extended_data) {
		uint64_t value = 0;

		memcpy(&value, from->ptr_extended_data, (bits + 7) / 8);
		if (bits == 4)
			value &= 15;
		snprintf(payload, sizeof(payload), " 0x%0*" PRIx64 ";", (int)(bits + 3) / 4, value);
	}
	if (info->swt_has_timestamp)
		snprintf(time, sizeof(time), " [ TS=0x%012" PRIx64 "];", from->timestamp);
	snprintf(text, OPENCSD_TEXT_MAX, "%s%s%s%s%s%s%s", source, payload, info->swt_marker_packet ? " +Mrk" : "",
		 info->swt_trigger_event ? " Trig" : "", time, info->swt_frequency ? " Freq" : "",
		 info->swt_master_err ? " {Master Err.}" : "");
}

static bool is_etmv4(enum engine_protocol protocol)
{
	return protocol == PROTOCOL_ETMV4 || protocol == PROTOCOL_ETE;
}

/* ETMv3 and PTM number exceptions alike, 2: SMC, 10: SVC (IHI0035, "Branch address packet"). */
static bool is_syscall(enum engine_protocol protocol, uint32_t number)
{
	return is_etmv4(protocol) ? number == EXCEPTION_CALL : number == 2 || number == 10;
}

static void convert_timestamp(const ocsd_generic_trace_elem *from, enum engine_protocol protocol, struct element *to)
{
	to->kind = ELEM_TIMESTAMP;
	to->value = from->timestamp;
	to->time_unknown = !from->timestamp;
	/* In PTM each count starts at the previous count, whichever packet had it (IHI0035, "Cycle-accurate tracing").
	 */
	to->cycles_repeated = from->has_cc && is_etmv4(protocol);
}

bool opencsd_convert(const ocsd_generic_trace_elem *from, enum engine_protocol protocol, struct element *to,
		     char text[OPENCSD_TEXT_MAX])
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
		to->exception.syscall = is_syscall(protocol, from->exception_number);
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
		convert_timestamp(from, protocol, to);
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
#if OCSD_VER_NUM >= 0x10400
	case OCSD_GEN_TRC_ELEM_INSTRUMENTATION:
		to->kind = ELEM_INSTRUMENTATION;
		to->instrumentation.level = from->sw_ite.el;
		to->instrumentation.value = from->sw_ite.value;
		return true;
#endif
	case OCSD_GEN_TRC_ELEM_SWTRACE:
		to->kind = ELEM_SW;
		convert_sw(from, text);
		to->text = text;
		return true;
	default:
		return false;
	}
}
