/* SPDX-License-Identifier: MIT */
/*
 * An engine decodes the bytes of one trace source into elements. It does not read files or formatter frames: a function
 * of the caller returns code, and a sink receives elements.
 *
 * An engine survives damaged bytes: it emits ELEM_NO_SYNC and continues at the next sync point.
 */
#ifndef CSIGHT_ENGINE_H
#define CSIGHT_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/etm/element.h"

enum engine_protocol {
	PROTOCOL_ETMV3,
	PROTOCOL_PTM,
	PROTOCOL_ETMV4,
	PROTOCOL_ETE,
	PROTOCOL_STM,
	PROTOCOL_ITM,
	PROTOCOLS,
};

/* Bits of TRCCONFIGR. */
enum { TRCCONFIGR_CCI = 1 << 4 /* cycle counts */, TRCCONFIGR_TS = 1 << 11 /* timestamps */ };

/* The registers of the trace source, by their architectural names; each protocol uses its own. */
struct engine_config {
	enum engine_protocol protocol;
	uint8_t trace_id;
	/* ETMv4 and ETE: TRCCONFIGR, TRCTRACEIDR, TRCIDRn. ETMv3 and PTM: ETMIDR in idr0, ETMTRACEIDR in traceidr. */
	uint32_t configr, traceidr, idr0, idr1, idr2, idr8;
	uint32_t devarch; /* ETE */
	uint32_t ccer;    /* ETMv3, PTM */
	uint32_t control; /* ETMv3, PTM: ETMCR; STM: STMTCSR; ITM: ITMTCR */
	bool core_aa64;   /* ETMv4: the core has AArch64 although TRCIDR1 does not show it */
};

/* Memory spaces by security state and exception level (EL0 uses the space of EL1), as bits of a set. */
enum engine_space {
	SPACE_EL1_SECURE = 1 << 0,
	SPACE_EL1 = 1 << 1,
	SPACE_EL2 = 1 << 2,
	SPACE_EL3 = 1 << 3,
	SPACE_EL2_SECURE = 1 << 4,
	SPACE_EL1_REALM = 1 << 5,
	SPACE_EL2_REALM = 1 << 6,
	SPACE_ROOT = 1 << 7,
	SPACES_SECURE = SPACE_EL1_SECURE | SPACE_EL2_SECURE | SPACE_EL3,
	SPACES_NORMAL = SPACE_EL1 | SPACE_EL2,
	SPACES_REALM = SPACE_EL1_REALM | SPACE_EL2_REALM,
	SPACES_ANY = 0xff,
	SPACES = 8,
};

/* The state of the stream at which code is requested. */
struct engine_context {
	uint64_t time; /* the last timestamp; valid with has_time */
	bool has_time;
	bool has_ctxid, has_vmid;
	uint32_t ctxid, vmid; /* vmid: with a kernel at EL2, the context ID of EL2 */
	uint8_t spaces;       /* enum engine_space: the spaces that the code may be in; one bit where that is known */
};

static inline bool engine_context_same(const struct engine_context *a, const struct engine_context *b)
{
	return a->has_time == b->has_time && a->time == b->time && a->has_ctxid == b->has_ctxid &&
	       a->ctxid == b->ctxid && a->has_vmid == b->has_vmid && a->vmid == b->vmid && a->spaces == b->spaces;
}
_Static_assert(sizeof(struct engine_context) == 24, "engine_context_same() has all fields");

struct engine_memory {
	/* Reads code at address; returns how many contiguous bytes of size are available. */
	size_t (*read)(void *user, const struct engine_context *context, uint64_t address, void *ret, size_t size);
	/* A number that changes whenever the code may have changed: code that was cached under another one is stale. */
	uint64_t (*version)(void *user, const struct engine_context *context);
	bool by_space; /* different spaces have different code at one address */
	void *user;
};

struct engine_stats {
	uint64_t bytes;      /* pushed */
	uint64_t decoded;    /* bytes in packets that were decoded */
	uint64_t first_sync; /* offset of the first sync point; UINT64_MAX: none */
	uint64_t restarts;   /* how often the engine was restarted after a fatal error */
	uint64_t crashes;    /* crashes of OpenCSD; the bytes behind a crash are not decoded */
};

/* An opaque handle: each engine casts it to its own struct. */
struct engine;

enum { ENGINE_RESERVE_MAX = 64 << 10 };

struct engine_ops {
	const char *name;
	/*
	 * All arguments are copied. -EOPNOTSUPP: the engine does not decode such a source; -ELIBBAD: it is OpenCSD, of
	 * another version than the one that it was compiled for; -ENOMEM.
	 */
	int (*open)(const struct engine_config *config, const struct engine_memory *memory,
		    const struct element_sink *sink, struct engine **ret);
	/*
	 * Returns a buffer for the next bytes, at most ENGINE_RESERVE_MAX; pushing them from there saves a copy. Both
	 * the function and its result may be NULL.
	 */
	void *(*reserve)(struct engine *e, size_t size);
	/* Decodes bytes in pieces of any size. Returns 0, what the sink returned where that was negative, or -ENOMEM.
	 */
	int (*push)(struct engine *e, const void *data, size_t size);
	/*
	 * Emits timestamps, events and the like at once, which are otherwise held until the next instructions, since
	 * the stream pauses here. NULL: the engine holds nothing back. Not with worker threads.
	 */
	int (*settle)(struct engine *e);
	/* The bytes to come do not continue those that were pushed. */
	int (*reset)(struct engine *e);
	/* Ends the source and emits the elements that were held back. */
	int (*finish)(struct engine *e);
	void (*stats)(const struct engine *e, struct engine_stats *ret);
	struct engine *(*close)(struct engine *e);
};

extern const struct engine_ops opencsd_engine_ops;

/*
 * ETMv4 and ETE, A64 only. push() and finish() return -EOPNOTSUPP when the processor enters AArch32; all elements
 * before that are emitted.
 */
extern const struct engine_ops native_engine_ops;

/* ITM only, which OpenCSD decodes since 1.6 only. */
extern const struct engine_ops itm_engine_ops;

/* Returns the version of OpenCSD in use, as "1.3.3". *ret_warning describes its known mistakes, or is NULL. */
const char *opencsd_version(const char **ret_warning);

/* Returns a message about what OpenCSD decodes wrongly in this protocol, or NULL. */
const char *opencsd_known_wrong(enum engine_protocol protocol);

/* Returns the protocol's usual name, as "ETMv4". */
const char *engine_protocol_str(enum engine_protocol protocol);

#endif
