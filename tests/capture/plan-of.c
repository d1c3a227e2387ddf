/* SPDX-License-Identifier: MIT */
/*
 * Prints the plan (daemon/capture/perf/plan.h) for a target with default options on a machine whose files are beneath a
 * directory.
 */
#include "config.h"

#include <stdlib.h>
#include <unistd.h>

#include "daemon/capture/perf/plan.h"
#include "lib/base/util.h"
#include "lib/coresight/hazards.h"
#include "lib/coresight/sysroot.h"

static const char *sink_name(const struct topology *t, const struct plan_cpu *c)
{
	return t->devices[t->sinks[c->sink].device].name;
}

static void print_plan(const struct topology *t, const struct plan *p)
{
	size_t n_missing = 0;

	for (size_t at = 0; at < p->missing.size; at++)
		n_missing += p->missing.data[at] == 0;
	printf("%s%s%s: %zu CPUs, config 0x%llx, sinks", p->shared ? "shared" : "private", p->direct ? " direct" : "",
	       p->switches ? " switches" : "", p->n_cpus, (unsigned long long)p->words[0]);
	for (size_t i = 0; i < p->n_cpus; i++)
		if (p->cpus[i].collector && (p->shared || i == 0))
			printf(" %s", sink_name(t, &p->cpus[i]));
	printf(", %zu missing\n", n_missing);
}

int main(int argc, char **argv)
{
	struct plan_settings settings = { .aux_size = 1 << 20, .memory = 1 << 30, .machine = argc > 2 };
	const struct capture_options plain = { 0 };
	const struct plan_target target = { .options = &plain };
	const struct plan_use nothing = { 0 };
	struct topology *t;
	struct plan *p;
	struct reason why = { "" };
	struct hazards hazards;
	int root;

	if (argc < 2 || topology_read(argv[1], &t) < 0 || sysroot_open(argv[1], &root) < 0)
		return 2;
	hazards_find(root, t, &hazards);
	if (hazards_damage(&hazards))
		settings.hazard = hazards_damage(&hazards)->text;
	if (plan_make(t, &settings, &nothing, &target, &p, &why) < 0) {
		printf("none: %s\n", why.text);
	} else {
		print_plan(t, p);
		plan_free(p);
	}
	topology_free(t);
	close(root);
	return 0;
}
