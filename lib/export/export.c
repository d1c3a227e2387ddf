#include <string.h>

#include "lib/export/export.h"

const struct export_ops *const export_formats[] = { &export_perfetto, &export_fxt,   &export_tree, &export_speedscope,
						    &export_folded,   &export_pprof, NULL };

const struct export_ops *export_find(const char *name)
{
	for (size_t i = 0; export_formats[i]; i++) {
		if (strcmp(export_formats[i]->name, name) == 0)
			return export_formats[i];
	}
	return NULL;
}
