/* Between the files of the OpenCSD engine. */
#ifndef CSIGHT_ETM_OPENCSD_H
#define CSIGHT_ETM_OPENCSD_H

#include <opencsd/c_api/opencsd_c_api.h>

#include "lib/etm/engine.h"

enum { OPENCSD_TEXT_MAX = 256 };

/* A source's decoder: its name in OpenCSD's registry and what it is configured with. */
struct opencsd_source {
	const char *decoder;
	uint32_t sync_packet; /* the type of its alignment synchronisation packet */
	union {
		ocsd_etmv3_cfg etmv3;
		ocsd_ptm_cfg ptm;
		ocsd_etmv4_cfg etmv4;
		ocsd_ete_cfg ete;
		ocsd_stm_cfg stm;
	} config;
};

/* -EOPNOTSUPP: OpenCSD as it is here does not know the protocol. */
int opencsd_source(const struct engine_config *c, struct opencsd_source *ret);

/*
 * Converts an element of OpenCSD's, and returns false where struct element has no equivalent. The element may point
 * into text.
 */
bool opencsd_convert(const ocsd_generic_trace_elem *from, enum engine_protocol protocol, struct element *to,
		     char text[OPENCSD_TEXT_MAX]);

#endif
