/* SPDX-License-Identifier: MIT */
/* Internal to the OpenCSD engine: opencsd.c, opencsd-source.c, opencsd-element.c. */
#ifndef CSIGHT_ETM_OPENCSD_H
#define CSIGHT_ETM_OPENCSD_H

#include <opencsd/c_api/opencsd_c_api.h>

#include "lib/etm/engine.h"

enum { OPENCSD_TEXT_MAX = 256 };

/* The decoder of a trace source: its name in OpenCSD's registry, and its configuration. */
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

/* Fills in the decoder for a source. -EOPNOTSUPP: this version of OpenCSD does not decode the protocol. */
int opencsd_source(const struct engine_config *c, struct opencsd_source *ret);

/*
 * Converts an element that OpenCSD emitted; returns false where struct element has no equivalent. The converted element
 * may point into text.
 */
bool opencsd_convert(const ocsd_generic_trace_elem *from, enum engine_protocol protocol, struct element *to,
		     char text[OPENCSD_TEXT_MAX]);

#endif
