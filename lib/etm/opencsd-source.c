/* SPDX-License-Identifier: MIT */
/* Converts the registers of a trace source to OpenCSD's configuration structs. */
#include "config.h"

#include <errno.h>

#include "lib/base/util.h"
#include "lib/etm/opencsd.h"

static void configure_etmv4(const struct engine_config *c, ocsd_etmv4_cfg *to)
{
	bool has_return_stack = c->idr0 & 1 << 9;
	unsigned architecture = c->idr1 >> 4 & 15;

	to->reg_idr0 = c->idr0;
	to->reg_idr1 = c->idr1;
	to->reg_idr2 = c->idr2;
	to->reg_idr8 = c->idr8;
	/* The kernel does not enable a return stack that the trace unit lacks, but perf's metadata has the bit set. */
	to->reg_configr = has_return_stack ? c->configr : c->configr & ~(1u << 12);
	to->reg_traceidr = c->traceidr;
	to->arch_ver = architecture >= 4 || c->core_aa64 ? ARCH_AA64 : ARCH_V8;
	to->core_prof = profile_CortexA;
}

static void configure_ete(const struct engine_config *c, ocsd_ete_cfg *to)
{
	to->reg_idr0 = c->idr0;
	to->reg_idr1 = c->idr1;
	to->reg_idr2 = c->idr2;
	to->reg_idr8 = c->idr8;
	to->reg_devarch = c->devarch;
	to->reg_configr = c->configr;
	to->reg_traceidr = c->traceidr;
	to->arch_ver = ARCH_AA64;
	to->core_prof = profile_CortexA;
}

int opencsd_source(const struct engine_config *c, struct opencsd_source *ret)
{
	*ret = (struct opencsd_source){ 0 };
	switch (c->protocol) {
	case PROTOCOL_ETMV3:
		ret->decoder = OCSD_BUILTIN_DCD_ETMV3;
		ret->sync_packet = ETM3_PKT_A_SYNC;
		ret->config.etmv3 =
		    (ocsd_etmv3_cfg){ c->idr0, c->control, c->ccer, c->traceidr, ARCH_V7, profile_CortexA };
		return 0;
	case PROTOCOL_PTM:
		ret->decoder = OCSD_BUILTIN_DCD_PTM;
		ret->sync_packet = PTM_PKT_A_SYNC;
		ret->config.ptm = (ocsd_ptm_cfg){ c->idr0, c->control, c->ccer, c->traceidr, ARCH_V7, profile_CortexA };
		return 0;
	case PROTOCOL_ETMV4:
		ret->decoder = OCSD_BUILTIN_DCD_ETMV4I;
		ret->sync_packet = ETM4_PKT_I_ASYNC;
		configure_etmv4(c, &ret->config.etmv4);
		return 0;
	case PROTOCOL_ETE:
		ret->decoder = OCSD_BUILTIN_DCD_ETE;
		ret->sync_packet = ETM4_PKT_I_ASYNC;
		configure_ete(c, &ret->config.ete);
		return 0;
	case PROTOCOL_STM:
		ret->decoder = OCSD_BUILTIN_DCD_STM;
		ret->sync_packet = STM_PKT_ASYNC;
		ret->config.stm.reg_tcsr = c->control;
		/* Defaults for snapshots without these registers: 128 masters with 256 channels each. */
		ret->config.stm.reg_devid = 0xff;
		ret->config.stm.reg_feat3r = 0x7f;
		return 0;
	case PROTOCOL_ITM:
	case PROTOCOLS:
		break;
	}
	return -EOPNOTSUPP;
}
