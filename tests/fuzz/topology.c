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

/* In the build directory's fuzz/, which make clean removes. */
static char root[] = "fuzz/topology-XXXXXX";
static int root_fd = -1;

static const struct {
	const char *path, *text, *link;
} entries[] = {
	{ "sys/devices/system/cpu/present", "0-2\n" },
	{ "sys/devices/system/cpu/online", "0-1\n" },
	{ "sys/devices/cs_etm/type", "8\n" },
	{ "sys/devices/cs_etm/nr_addr_filters", "8\n" },
	{ "sys/devices/cs_etm/format/timestamp", "config:28\n" },
	{ "sys/devices/cs_etm/format/sinkid", "config2:0-31\n" },
	{ "sys/devices/cs_etm/sinks/tmc_etr0", "0x7c3d2e91\n" },
	{ "sys/devices/cs_etm/sinks/trbe1", "0x21\n" },
	{ "sys/devices/cs_etm/cpu0", .link = "../etm0" },
	{ "sys/devices/cs_etm/cpu1", .link = "../ete1" },
	{ "sys/devices/cs_etm/cpu2", .link = "../etm2" },
	{ "sys/bus/event_source/devices/cs_etm", .link = "../../../devices/cs_etm" },
	{ "sys/bus/coresight/devices/etm0", .link = "../../../devices/etm0" },
	{ "sys/bus/coresight/devices/ete1", .link = "../../../devices/ete1" },
	{ "sys/bus/coresight/devices/etm2", .link = "../../../devices/etm2" },
	{ "sys/bus/coresight/devices/trbe1", .link = "../../../devices/trbe1" },
	{ "sys/bus/coresight/devices/funnel0", .link = "../../../devices/funnel0" },
	{ "sys/bus/coresight/devices/tmc_etr0", .link = "../../../devices/tmc_etr0" },
	{ "sys/devices/etm0/cpu", "0\n" },
	{ "sys/devices/etm0/enable_source", "0\n" },
	{ "sys/devices/etm0/ts_source", "-1\n" },
	{ "sys/devices/etm0/trcidr/trcidr0", "0x28000ea1\n" },
	{ "sys/devices/etm0/trcidr/trcidr1", "0x4100f403\n" },
	{ "sys/devices/etm0/trcidr/trcidr2", "0x488\n" },
	{ "sys/devices/etm0/trcidr/trcidr8", "0x0\n" },
	{ "sys/devices/etm0/mgmt/trcauthstatus", "0xcc\n" },
	{ "sys/devices/ete1/trcidr/trcidr0", "0x28000ea1\n" },
	{ "sys/devices/ete1/mgmt/trcdevarch", "0x47705a13\n" },
	{ "sys/devices/etm2/mgmt/etmidr", "0x411cf312\n" },
	{ "sys/devices/etm2/mgmt/etmccer", "0x34c01ac2\n" },
	{ "sys/devices/etm2/mgmt/etmccr", "0x8d294004\n" },
	{ "sys/devices/trbe1/align", "40\n" },
	{ "sys/devices/tmc_etr0/buffer_size", "0x100000\n" },
	{ "sys/devices/tmc_etr0/mgmt/ctl", "0x1\n" },
	{ "sys/devices/etm0/connections/out:0", .link = "../../funnel0" },
	{ "sys/devices/etm2/connections/out:0", .link = "../../funnel0" },
	{ "sys/devices/funnel0/connections/out:0", .link = "../../tmc_etr0" },
};

static void put(const char *path, const void *data, size_t size)
{
	int fd = openat(root_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	fuzz_require(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	close(fd);
}

static void put_entry(size_t i)
{
	if (entries[i].link)
		fuzz_require(symlinkat(entries[i].link, root_fd, entries[i].path) == 0);
	else
		put(entries[i].path, entries[i].text, strlen(entries[i].text));
}

static void make_tree(void)
{
	char at[256];

	fuzz_require((mkdir("fuzz", 0755) == 0 || errno == EEXIST) && mkdtemp(root));
	root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fuzz_require(root_fd >= 0);
	for (size_t i = 0; i < ELEMENTS(entries); i++) {
		for (const char *slash = strchr(entries[i].path, '/'); slash; slash = strchr(slash + 1, '/')) {
			snprintf(at, sizeof(at), "%.*s", (int)(slash - entries[i].path), entries[i].path);
			mkdirat(root_fd, at, 0755);
		}
		put_entry(i);
	}
}

static void change(size_t i, uint8_t how, const uint8_t *data, size_t size)
{
	char target[256];

	unlinkat(root_fd, entries[i].path, 0);
	memcpy(target, data, size);
	target[size] = 0;
	/* The target of a link is not empty and holds no NUL. */
	if (how % 4 == 1 && strlen(target))
		fuzz_require(symlinkat(target, root_fd, entries[i].path) == 0);
	else if (how % 4 != 2)
		put(entries[i].path, data, size);
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
	bool changed[ELEMENTS(entries)] = { 0 };
	struct topology *t;
	uint8_t i, how, n;
	const uint8_t *data;

	if (root_fd < 0)
		make_tree();
	while (rd_u8(&r, &i) == 0 && rd_u8(&r, &how) == 0 && rd_u8(&r, &n) == 0 && rd_bytes(&r, n, &data) == 0) {
		change(i % ELEMENTS(entries), how, data, n);
		changed[i % ELEMENTS(entries)] = true;
	}
	fuzz_require(topology_read(root, &t) == 0);
	touch(t);
	topology_free(t);
	for (size_t e = 0; e < ELEMENTS(entries); e++)
		if (changed[e]) {
			unlinkat(root_fd, entries[e].path, 0);
			put_entry(e);
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
