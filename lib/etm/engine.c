/* SPDX-License-Identifier: MIT */
#include "lib/base/util.h"
#include "lib/etm/engine.h"

const char *engine_protocol_str(enum engine_protocol protocol)
{
	static const char *const names[] = {
		[PROTOCOL_ETMV3] = "ETMv3", [PROTOCOL_PTM] = "PTM", [PROTOCOL_ETMV4] = "ETMv4",
		[PROTOCOL_ETE] = "ETE",     [PROTOCOL_STM] = "STM", [PROTOCOL_ITM] = "ITM",
	};

	return (size_t)protocol < ELEMENTS(names) ? names[protocol] : "unknown";
}
