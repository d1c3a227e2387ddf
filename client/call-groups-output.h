/* SPDX-License-Identifier: MIT */
/* Prints groups of calls. */
#ifndef CSIGHT_CLIENT_CALL_GROUPS_OUTPUT_H
#define CSIGHT_CLIENT_CALL_GROUPS_OUTPUT_H

#include "client/call-groups.h"
#include "lib/base/json.h"
#include "lib/export/names.h"

/* Prints the first n groups as a table, with these names; bound: the largest error of a duration. */
void call_groups_output_text(const struct call_groups *g, size_t n, uint64_t bound, const struct names *names,
			     FILE *to);

/* Returns the first n groups as an array. */
json_object *call_groups_output_json(const struct call_groups *g, size_t n);

#endif
