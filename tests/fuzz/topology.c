/* SPDX-License-Identifier: MIT */
/*
 * lib/coresight/topology.c: the tree of a small machine. Each piece of the input changes a file: its number, the kind
 * of change, a size, and that many bytes. References in the result must be valid.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/reader.h"
#include "lib/base/util.h"
#include "lib/coresight/topology.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/machine.h"

/* In the build directory's fuzz/, which make clean removes. */
static char root[] = "fuzz/topology-XXXXXX";
static int root_fd = -1;

static void make_tree(void)
{
	fuzz_require((mkdir("fuzz", 0755) == 0 || errno == EEXIST) && mkdtemp(root));
	root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fuzz_require(root_fd >= 0);
	machine_make(root_fd);
}

static void change(size_t i, uint8_t how, const uint8_t *data, size_t size)
{
	char target[256];

	unlinkat(root_fd, machine_entries[i].path, 0);
	memcpy(target, data, size);
	target[size] = 0;
	/* The target of a link is not empty and holds no NUL. */
	if (how % 4 == 1 && strlen(target))
		fuzz_require(symlinkat(target, root_fd, machine_entries[i].path) == 0);
	else if (how % 4 != 2)
		machine_write(root_fd, machine_entries[i].path, data, size);
}

static void touch(const struct topology *t)
{
	fuzz_require(t->n_cpus <= TOPOLOGY_CPUS_MAX && t->n_devices <= TOPOLOGY_DEVICES_MAX &&
		     t->n_sinks <= t->n_devices);
	for (size_t i = 0; i < t->n_devices; i++)
		for (size_t j = 0; j < t->devices[i].n_outs; j++)
			fuzz_require(t->devices[i].outs[j] < t->n_devices);
	for (size_t i = 0; i < t->n_sinks; i++)
		fuzz_require(t->sinks[i].device < t->n_devices);
	for (size_t i = 0; i < t->n_cpus; i++) {
		const struct topology_cpu *cpu = &t->cpus[i];

		fuzz_require(topology_find_cpu(t, cpu->cpu) == cpu && cpu->source < (int)t->n_devices);
		fuzz_require(cpu->regs.n_params <= PD_PARAMS_MAX && cpu->registers == (cpu->regs.n_params != 0));
		for (size_t j = 0; j < cpu->n_sinks; j++)
			fuzz_require(cpu->sinks[j] < t->n_sinks);
	}
	for (size_t i = 0; i < TOPOLOGY_FORMATS; i++) {
		uint64_t words[5] = { 0 };

		if (t->pmu.formats[i].there)
			fuzz_require(topology_set_field(&t->pmu, (enum topology_format)i, 1, words) == 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
	struct reader r = reader_of(input, size);
	bool changed[MACHINE_ENTRIES] = { 0 };
	struct topology *t;
	uint8_t i, how, n;
	const uint8_t *data;

	if (root_fd < 0)
		make_tree();
	while (rd_u8(&r, &i) == 0 && rd_u8(&r, &how) == 0 && rd_u8(&r, &n) == 0 && rd_bytes(&r, n, &data) == 0) {
		change(i % MACHINE_ENTRIES, how, data, n);
		changed[i % MACHINE_ENTRIES] = true;
	}
	fuzz_require(topology_read(root, &t) == 0);
	touch(t);
	topology_free(t);
	for (size_t e = 0; e < MACHINE_ENTRIES; e++)
		if (changed[e]) {
			unlinkat(root_fd, machine_entries[e].path, 0);
			machine_put(root_fd, e);
		}
	return 0;
}

void fuzz_seeds(void)
{
	static const char format[] = "\4\0\x0c"
				     "config:4-7\n\n";
	static const char circle[] = "\x24\1\x0f"
				     "../../../../sys";
	static const char cpus[] = "\0\0\x08"
				   "0-3,1023"
				   "\1\0\2"
				   "5\n";
	static const char number[] = "\x15\0\x0a"
				     "0xffffffff";

	fuzz_seed("", 0);
	fuzz_seed(format, sizeof(format) - 1);
	fuzz_seed(circle, sizeof(circle) - 1);
	fuzz_seed(cpus, sizeof(cpus) - 1);
	fuzz_seed(number, sizeof(number) - 1);
}
