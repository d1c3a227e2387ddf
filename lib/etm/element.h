/* SPDX-License-Identifier: MIT */
/*
 * Elements: the output of a decode, one for each step of the processor. Both engines emit the same elements in the same
 * order. Tests compare them as text (element_format): one element a line, after the trace ID and a space.
 *
 *   range START END COUNT ISA E|N KIND[+SUB] [cond] [cc=N]     executed instructions; E: the last one is a taken
 *                                                              branch or no branch, N: a branch that was not taken
 *   range-nopath START END COUNT
 *   no-image ADDR
 *   unknown-address
 *   context ISA EL SEC BITS [vmid=X] [ctxid=X] [cc=N]
 *   exception NUM ret=ADDR|- [target] [cc=N]
 *   exception-return
 *   trace-on begin|overflow|debug [cc=N]
 *   no-sync init|reset|overflow|discard|bad-packet|bad-image|undefined|end-of-trace|
 *           paused|truncated|lost|untraced|overwritten [bytes=N]
 *   end TEXT
 *   timestamp HEX [cc=N]
 *   cycles N
 *   event trigger|N
 *   marker HEX
 *   transaction start|commit|fail
 *   instrumentation EL HEX
 *   sw TEXT
 */
#ifndef CSIGHT_ELEMENT_H
#define CSIGHT_ELEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum element_kind {
	ELEM_RANGE,
	ELEM_RANGE_NOPATH,
	ELEM_NO_IMAGE,
	ELEM_UNKNOWN_ADDRESS,
	ELEM_CONTEXT,
	ELEM_EXCEPTION,
	ELEM_EXCEPTION_RETURN,
	ELEM_TRACE_ON,
	ELEM_NO_SYNC,
	ELEM_END,
	ELEM_TIMESTAMP,
	ELEM_CYCLES,
	ELEM_EVENT,
	ELEM_MARKER,
	ELEM_TRANSACTION,
	ELEM_INSTRUMENTATION,
	ELEM_SW,
};

enum element_isa { ISA_A32, ISA_T32, ISA_A64, ISA_TEE, ISA_JZL, ISA_CUSTOM, ISA_UNKNOWN };

/* The type of the last instruction of a range. */
enum element_instr { INSTR_OTHER, INSTR_BR, INSTR_IBR, INSTR_ISB, INSTR_DSB, INSTR_WFI, INSTR_TSTART };
enum element_sub { SUB_NONE, SUB_LINK, SUB_RET, SUB_IMPLRET, SUB_ERET };

/* The cause of trace-on, no-sync and end. */
enum element_reason {
	REASON_BEGIN,
	REASON_OVERFLOW,
	REASON_DEBUG,
	REASON_INIT,
	REASON_RESET,
	REASON_DISCARD,
	REASON_BAD_PACKET,
	REASON_BAD_IMAGE,
	REASON_UNDEFINED,
	REASON_END_OF_TRACE,
	/* By the demultiplexer, between two parts of a thread's trace: */
	REASON_PAUSED,      /* tracing was stopped and started again */
	REASON_TRUNCATED,   /* the sink was full, unavailable, or failed */
	REASON_LOST,        /* trace, or records that locate it, were lost or are damaged */
	REASON_OVERWRITTEN, /* the ring wrapped before the trace was copied */
	REASON_UNTRACED,    /* the thread ran on a CPU that is not traced */
};

struct element {
	uint8_t kind;
	uint8_t isa;
	uint8_t instr, sub; /* range */
	bool taken, conditional;
	/*
	 * Range: it does not begin where the code before it leads, because the trace is damaged or the code is not what
	 * was executed (continuity.h). Not in the text form.
	 */
	bool torn;
	bool has_cycles;
	/*
	 * Range: several ranges of one region in one element, which has the start of the first one, the end and the
	 * last instruction of the last one, the number of instructions of all, and the cycles that were counted between
	 * them.
	 */
	bool several;
	uint8_t reason;
	bool time_unknown;    /* timestamp: the trace unit did not know the time; value is 0 */
	bool cycles_repeated; /* timestamp: the next cycle count includes these cycles, too */
	uint32_t cycles;
	/*
	 * Of the packet that the element is decoded from, in its source's bytes. Of several ranges: how many ranges
	 * there were since the last element that had this number; 0: a later element has it.
	 */
	uint64_t offset;
	union {
		struct {
			uint64_t start, end;
			uint32_t count;
			uint8_t last_size;
		} range;          /* also range-nopath */
		uint64_t address; /* no-image: code that is unavailable */
		struct {
			uint8_t level;    /* exception level 0..3; 0xff: unknown */
			uint8_t security; /* 'S', 'N', 'R' (Root), 'r' (Realm) */
			uint8_t bits;     /* 32, 64 */
			bool has_vmid, has_ctxid;
			uint32_t vmid, ctxid;
		} context;
		struct {
			uint32_t number;
			bool has_ret, target;
			bool syscall; /* an SVC, HVC or SMC instruction caused it */
			uint64_t ret;
		} exception;
		/*
		 * Timestamp, marker, event (UINT64_MAX: trigger), transaction (0 start, 1 commit, 2 fail); no-sync with
		 * REASON_OVERWRITTEN: the lost bytes, 0 if unknown.
		 */
		uint64_t value;
		struct {
			uint8_t level;
			uint64_t value;
		} instrumentation;
		const char *text; /* sw; valid until the sink returns */
	};
};

/* A packet: its offset in the source's bytes, and OpenCSD's description of it: "NAME : words.; fields". */
struct engine_packet {
	uint64_t offset;
	const uint8_t *bytes;
	uint32_t size;
	const char *text;
};

/*
 * Regions of addresses. number() returns the number of an address's region, below 2^30, or ELEMENT_ALONE if it is in
 * none; always the same for an address. It may be called from any thread.
 */
#define ELEMENT_ALONE UINT32_MAX

struct branch;
struct native_batch;
struct pool;

struct element_regions {
	uint32_t (*number)(void *user, uint64_t address);
	void *user;
};

/* The receiver of elements. A negative return value stops the engine, which returns it to its caller. */
struct element_sink {
	int (*element)(void *user, const struct element *e);
	void *user;
	int (*packet)(void *user, const struct engine_packet *p); /* or NULL; called before the packet's elements */
	/*
	 * Or NULL: the engine may merge ranges that follow each other within a region, and cycles between them, to one
	 * element. A call, a return, a torn range, and the first range after another element begin a new one.
	 */
	const struct element_regions *regions;
	/* Or NULL: threads that an engine may use besides the caller's. Code is read by one thread at a time. */
	struct pool *pool;
	unsigned workers;  /* threads of the pool that are used at once, at most */
	size_t chunk_size; /* as struct native_workers_options has it */
	/*
	 * Or NULL: an engine that decodes into batches (native.h) may emit those in place of elements, all of them or
	 * none; with regions, of NATIVE_CALLS.
	 */
	int (*batch)(void *user, const struct native_batch *b);
	bool sums; /* batches of NATIVE_SUMS are enough, which are decoded the fastest */
	/* For branches_engine_ops (branches.h), else NULL. */
	int (*branches)(void *user, const struct branch *list, size_t n);
};

/* True for elements that do not interrupt control flow: the next range still follows the one before the element. */
static inline bool element_is_aside(const struct element *e)
{
	switch (e->kind) {
	case ELEM_CONTEXT:
	case ELEM_TIMESTAMP:
	case ELEM_CYCLES:
	case ELEM_EVENT:
	case ELEM_MARKER:
	case ELEM_INSTRUMENTATION:
		return true;
	default:
		return false;
	}
}

/* Formats an element as a line without ID and newline, truncated to size - 1; returns its length. */
size_t element_format(const struct element *e, char *ret, size_t size);

#endif
