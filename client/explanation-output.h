/* SPDX-License-Identifier: MIT */
/* Prints an explanation. */
#ifndef CSIGHT_CLIENT_EXPLANATION_OUTPUT_H
#define CSIGHT_CLIENT_EXPLANATION_OUTPUT_H

#include "client/explanation.h"
#include "lib/base/fit.h"
#include "lib/base/json.h"
#include "lib/export/names.h"

struct explanation_output {
	const struct explanation *explanation;
	const struct names *names; /* how functions are printed as text */
	struct fit *fit;
	uint64_t calls; /* on the slow side: figures are printed per call */
	uint64_t bound; /* largest error of a duration; 0: exact, or by instructions */
	enum measure measure;
	size_t width; /* columns that the text may have */
};

void explanation_output_text(const struct explanation_output *o, FILE *to);

/* Returns the lines as an array. */
json_object *explanation_output_json(const struct explanation_output *o);

/* Formats a value of the measure. */
const char *explanation_output_value(const struct explanation_output *o, uint64_t value);

#endif
