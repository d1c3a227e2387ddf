/* SPDX-License-Identifier: MIT */
/* Records of a ring, as csightd parses them. */
#ifndef CSIGHT_TESTS_PERF_RECORD_H
#define CSIGHT_TESTS_PERF_RECORD_H

#include "daemon/capture/perf/perf-event.h"

static inline struct perf_record record(uint32_t type, uint16_t misc, const void *body, size_t size, uint32_t tid,
					uint64_t time)
{
	return (struct perf_record){
		.type = type, .misc = misc, .body = body, .size = size, .origin = { 100, tid, 2, time }
	};
}

#endif
