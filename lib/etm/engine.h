/*
 * An engine turns the bytes of one trace source into elements. It knows no files and no frames: code comes from a
 * function of the caller, elements go to a sink.
 *
 * An engine survives bad bytes: it says ELEM_NO_SYNC and goes on at the next synchronisation point.
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

/* The source's registers, as its architecture names them; each protocol has its own. */
struct engine_config {
	enum engine_protocol protocol;
	uint8_t trace_id;
	/* ETMv4 and ETE: TRCCONFIGR and so on; ETMv3 and PTM have ETMIDR in idr0 and ETMTRACEIDR in traceidr. */
	uint32_t configr, traceidr, idr0, idr1, idr2, idr8;
	uint32_t devarch; /* ETE */
	uint32_t ccer;    /* ETMv3, PTM */
	uint32_t control; /* ETMv3, PTM: ETMCR; STM: STMTCSR; ITM: ITMTCR */
	bool core_aa64;   /* ETMv4: the core is known to have more than its TRCIDR1 tells */
};

/* Kinds of memory, by security state and exception level (EL0 is in that of EL1), as bits of a set. */
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

/* Where in the stream code is asked for. */
struct engine_context {
	uint64_t time; /* the last timestamp before it; meaningless without has_time */
	bool has_time;
	bool has_ctxid, has_vmid;
	uint32_t ctxid, vmid; /* vmid: where a kernel runs at EL2, the context ID of EL2 */
	uint8_t spaces;       /* enum engine_space: in which of them the code is; more than one where it is not known */
};

struct engine_memory {
	/* Bytes of code at address; returns how many of size are there in one piece, 0: none. */
	size_t (*read)(void *user, const struct engine_context *context, uint64_t address, void *ret, size_t size);
	/* A number that differs whenever the code may: what was read under another one is asked for again. */
	uint64_t (*version)(void *user, const struct engine_context *context);
	bool by_space; /* what stands at an address depends on the space */
	void *user;
};

struct engine_stats {
	uint64_t bytes;      /* pushed */
	uint64_t decoded;    /* of them, those of packets that were understood */
	uint64_t first_sync; /* offset of the first synchronisation point; UINT64_MAX: none */
	uint64_t restarts;   /* how often the engine gave up and was begun anew */
	uint64_t crashes;    /* of the library behind it: the rest of the bytes was passed over */
};

struct engine;

enum { ENGINE_RESERVE_MAX = 64 << 10 };

struct engine_ops {
	const char *name;
	/* config is copied; memory and sink are too. -EOPNOTSUPP: this source is beyond it; -ENOMEM. */
	int (*open)(const struct engine_config *config, const struct engine_memory *memory,
		    const struct element_sink *sink, struct engine **ret);
	/* May be NULL, as may what it returns: a place for the next bytes, at most ENGINE_RESERVE_MAX, where pushing
	 * them costs less. */
	void *(*reserve)(struct engine *e, size_t size);
	/* Any chunking. Returns what the sink returned where that was negative; -ENOMEM. */
	int (*push)(struct engine *e, const void *data, size_t size);
	/* What comes next does not follow what was pushed. */
	int (*reset)(struct engine *e);
	/* The end of the bytes; what was held back comes out. */
	int (*finish)(struct engine *e);
	void (*stats)(const struct engine *e, struct engine_stats *ret);
	struct engine *(*close)(struct engine *e);
};

extern const struct engine_ops engine_opencsd;

/* ETMv4 and ETE of A64. From push() and finish(), -EOPNOTSUPP: the processor went to AArch32, all before that is told.
 */
extern const struct engine_ops native_engine_ops;

/* The version of the OpenCSD that is loaded, as "1.3.3"; what is wrong with it goes to *ret_warning, or NULL. */
const char *opencsd_version(const char **ret_warning);

/* What it is known to get wrong of such sources, or NULL. */
const char *opencsd_known_wrong(enum engine_protocol protocol);

/* As people write it: "ETMv4". */
const char *engine_protocol_str(enum engine_protocol protocol);

#endif
