/* SPDX-License-Identifier: MIT */
/* lib/coresight/topology, sysroot: a small tree, and the parts of a topology that a plan and a perf.data file need. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "lib/base/util.h"
#include "lib/coresight/sysroot.h"
#include "lib/coresight/topology.h"
#include "tests/unit.h"

static char root[] = "/tmp/csight-test-topology-XXXXXX";
static int root_fd;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void clean_up(void)
{
	nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void make_parents(const char *path)
{
	char at[512];

	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(at, sizeof(at), "%.*s", (int)(slash - path), path);
		mkdirat(root_fd, at, 0755);
	}
}

static void put(const char *path, const char *text)
{
	int fd;

	make_parents(path);
	fd = openat(root_fd, path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		printf("# cannot write %s\n", path);
	closep(&fd);
}

static void link_as(const char *path, const char *target)
{
	make_parents(path);
	unlinkat(root_fd, path, 0);
	if (symlinkat(target, root_fd, path) < 0)
		printf("# cannot link %s\n", path);
}

static void test_sysroot(void)
{
	char at[SYSROOT_PATH_MAX], text[8];
	_cleanup_names_ struct sysroot_names names = { 0 };
	uint64_t v;

	put("d/file10", "123456\n");
	put("d/file9", "1234567\n");
	put("d/hex", "0x1f\n");
	put("d/twice", "1 2\n");
	put("d/negative", "-1");
	link_as("absolute", "/d/hex");
	link_as("d/up", "../../../../d/./hex");
	link_as("a", "b");
	link_as("b", "a");
	link_as("d/dangling", "nowhere");
	CHECK(sysroot_resolve(root_fd, "absolute", at) == 0);
	CHECK_STR(at, "d/hex");
	CHECK(sysroot_resolve(root_fd, "/d//up", at) == 0);
	CHECK_STR(at, "d/hex");
	CHECK(sysroot_resolve(root_fd, "d/..", at) == 0);
	CHECK_STR(at, ".");
	CHECK_EQ(sysroot_resolve(root_fd, "a", at), -ELOOP);
	CHECK_EQ(sysroot_resolve(root_fd, "d/dangling", at), -ENOENT);
	CHECK_EQ(sysroot_resolve(root_fd, "d/hex/deeper", at), -ENOTDIR);
	CHECK(sysroot_text(root_fd, "d/file10", text, sizeof(text)) == 0);
	CHECK_STR(text, "123456");
	CHECK_EQ(sysroot_text(root_fd, "d/file9", text, sizeof(text)), -EFBIG);
	CHECK_EQ(sysroot_text(root_fd, "d", text, sizeof(text)), -EINVAL);
	CHECK(sysroot_number(root_fd, "d/up", &v) == 0 && v == 31);
	CHECK_EQ(sysroot_number(root_fd, "d/twice", &v), -EBADMSG);
	CHECK_EQ(sysroot_number(root_fd, "d/negative", &v), -EBADMSG);
	CHECK(sysroot_list(root_fd, "d", &names) == 0);
	CHECK_EQ(names.n, 7);
	CHECK(names.n == 7 && strcmp(names.list[1], "file9") == 0 && strcmp(names.list[2], "file10") == 0);
}

/* Writes a register in the format of the driver. */
static void reg(const char *device, const char *name, unsigned value)
{
	char path[128], text[16];

	snprintf(path, sizeof(path), "sys/devices/%s/%s", device, name);
	snprintf(text, sizeof(text), "%#x\n", value);
	put(path, text);
}

static void on_bus(const char *device)
{
	char path[128], target[128];

	snprintf(path, sizeof(path), "sys/devices/%s/connections/nr_links", device);
	put(path, "0\n");
	snprintf(path, sizeof(path), "sys/bus/coresight/devices/%s", device);
	snprintf(target, sizeof(target), "../../../devices/%s", device);
	link_as(path, target);
}

static void in_pmu(unsigned cpu, const char *device)
{
	char path[128], target[128];

	snprintf(path, sizeof(path), "sys/devices/cs_etm/cpu%u", cpu);
	snprintf(target, sizeof(target), "../%s", device);
	link_as(path, target);
}

static void etmv4(const char *device)
{
	on_bus(device);
	reg(device, "trcidr/trcidr0", 0x28000ea1);
	reg(device, "trcidr/trcidr1", 0x4100f403);
	reg(device, "trcidr/trcidr2", 0x20001088);
	reg(device, "trcidr/trcidr4", 0x11170004);
	reg(device, "trcidr/trcidr5", 0x28c7082f);
	reg(device, "trcidr/trcidr8", 0x8);
	reg(device, "mgmt/trcauthstatus", 0xcc);
	reg(device, "mgmt/trcdevarch", 0x47724a13);
}

static void make_machine(void)
{
	put("sys/devices/system/cpu/present", "0-3,60\n");
	put("sys/devices/system/cpu/online", "0-2,60\n");
	link_as("sys/bus/event_source/devices/cs_etm", "../../../devices/cs_etm");
	put("sys/devices/cs_etm/type", "8\n");
	put("sys/devices/cs_etm/nr_addr_filters", "8\n");
	put("sys/devices/cs_etm/format/timestamp", "config:4-7\n");
	put("sys/devices/cs_etm/format/cycacc", "config:12\n");
	put("sys/devices/cs_etm/format/sinkid", "config2:0-31\n");
	put("sys/devices/cs_etm/format/cc_threshold", "config3:0-11\n");
	put("sys/devices/cs_etm/format/preset", "config:0-63\n");
	put("sys/devices/cs_etm/sinks/tmc_etr0", "0xabcdef01\n");
	put("sys/devices/cs_etm/sinks/trbe1", "0x12\n");
	etmv4("etm0");
	put("sys/devices/etm0/ts_source", "-1\n");
	etmv4("ete1");
	reg("ete1", "mgmt/trcdevarch", 0x47705a13);
	put("sys/devices/ete1/ts_source", "1\n");
	on_bus("etm2");
	reg("etm2", "mgmt/etmidr", 0x411cf312);
	reg("etm2", "mgmt/etmccr", 0x8d294004);
	reg("etm2", "mgmt/etmccer", 0x34c01ac2);
	etmv4("etm3");
	etmv4("etm60");
	on_bus("trbe1");
	on_bus("tmc_etr0");
	put("sys/devices/tmc_etr0/buffer_size", "0x400000\n");
	put("sys/devices/tmc_etr0/mgmt/ctl", "0x1\n");
	on_bus("tpiu0");
	on_bus("tmc_etf0");
	in_pmu(0, "etm0");
	in_pmu(1, "ete1");
	in_pmu(2, "etm2");
	in_pmu(3, "etm3");
	link_as("sys/devices/etm0/connections/out:0", "../../tmc_etr0");
	link_as("sys/devices/ete1/connections/out:0", "../../tmc_etr0");
	link_as("sys/devices/etm60/connections/out:0", "../../tpiu0");
}

static void test_pmu(const struct topology *t)
{
	uint64_t words[5] = { UINT64_MAX, 0, UINT64_MAX, 0, 0 };

	CHECK(t->pmu.there && t->pmu.type == 8 && t->pmu.n_filters == 8 && t->pmu.n_sources == 4);
	CHECK(topology_set_field(&t->pmu, TOPOLOGY_TIMESTAMP, 3, words) == 0);
	CHECK_EQ(words[0], (int64_t)0xffffffffffffff3f);
	CHECK(topology_set_field(&t->pmu, TOPOLOGY_SINKID, 0xabcdef01, words) == 0);
	CHECK_EQ(words[2], (int64_t)0xffffffffabcdef01);
	CHECK(topology_set_field(&t->pmu, TOPOLOGY_CC_THRESHOLD, 0xfff, words) == 0 && words[3] == 0xfff);
	CHECK_EQ(topology_set_field(&t->pmu, TOPOLOGY_CC_THRESHOLD, 0x1000, words), -ERANGE);
	CHECK(topology_set_field(&t->pmu, TOPOLOGY_PRESET, UINT64_MAX, words) == 0 && words[0] == UINT64_MAX);
	CHECK_EQ(topology_set_field(&t->pmu, TOPOLOGY_RETSTACK, 1, words), -ENOTSUP);
}

static bool has_params(const struct topology_cpu *cpu, uint64_t magic, const uint64_t *params, size_t n)
{
	return cpu->registers && cpu->regs.magic == magic && cpu->regs.cpu == cpu->cpu && cpu->regs.n_params == n &&
	       memcmp(cpu->regs.params, params, n * sizeof(*params)) == 0;
}

static void test_cpus(const struct topology *t)
{
	static const uint64_t v4[] = { 0, 0, 0x28000ea1, 0x4100f403, 0x20001088, 8, 0xcc, UINT64_MAX };
	static const uint64_t ete[] = { 0, 0, 0x28000ea1, 0x4100f403, 0x20001088, 8, 0xcc, 0x47705a13, 1 };
	static const uint64_t v3[] = { 0, 0, 0x34c01ac2, 0x411cf312 };
	const struct topology_cpu *cpu;

	CHECK_EQ(t->n_cpus, 5);
	cpu = topology_find_cpu(t, 0);
	CHECK(cpu && cpu->kind == TOPOLOGY_ETMV4 && cpu->in_pmu && cpu->online && cpu->trace_id == 0x10);
	CHECK(cpu && has_params(cpu, PD_MAGIC_ETMV4, v4, ELEMENTS(v4)));
	CHECK(cpu && cpu->ts_source == -1);
	CHECK(cpu && cpu->offers.retstack && cpu->offers.contextid && cpu->offers.vmid &&
	      cpu->offers.address_pairs == 4);
	CHECK(cpu && cpu->n_sinks == 1 && !t->sinks[cpu->sinks[0]].per_cpu && t->sinks[cpu->sinks[0]].id == 0xabcdef01);
	cpu = topology_find_cpu(t, 1);
	CHECK(cpu && cpu->kind == TOPOLOGY_ETE && cpu->ts_source == 1 && cpu->trace_id == 0x12);
	CHECK(cpu && has_params(cpu, PD_MAGIC_ETE, ete, ELEMENTS(ete)));
	CHECK(cpu && cpu->n_sinks == 2 && t->sinks[cpu->sinks[0]].per_cpu && !t->sinks[cpu->sinks[1]].per_cpu);
	cpu = topology_find_cpu(t, 2);
	CHECK(cpu && cpu->kind == TOPOLOGY_PTM && has_params(cpu, PD_MAGIC_ETMV3, v3, ELEMENTS(v3)));
	CHECK(cpu && cpu->offers.retstack && !cpu->offers.contextid && cpu->offers.counters == 2 && !cpu->n_sinks);
	cpu = topology_find_cpu(t, 3);
	CHECK(cpu && !cpu->online && cpu->source >= 0 && !cpu->registers && cpu->regs.n_params == 0);
	cpu = topology_find_cpu(t, 60);
	CHECK(cpu && cpu->source >= 0 && !cpu->in_pmu && cpu->trace_id == 0 && cpu->n_sinks == 0);
	CHECK(!topology_find_cpu(t, 4));
}

static void test_sinks(const struct topology *t)
{
	uint32_t n;

	/* The PMU lists sinks, without tmc_etf0. */
	CHECK_EQ(t->n_sinks, 2);
	CHECK(t->connections);
	CHECK(topology_find_sink(t, "tmc_etr0", &n) == 0 && t->sinks[n].buffer == 4 << 20);
	CHECK(t->devices[t->sinks[n].device].running && !t->devices[t->sinks[n].device].sysfs);
	CHECK_EQ(topology_find_sink(t, "tpiu0", &n), -ENOENT);
	CHECK(topology_find_device(t, "tpiu0", &n) == 0 && t->devices[n].kind == TOPOLOGY_TPIU);
	CHECK_EQ(t->n_problems, 0);
	for (size_t i = 0; i < t->n_problems; i++)
		printf("# %s: %s\n", t->problems[i].path, t->problems[i].cause);
}

/* CPU 0 goes offline, and CPU 3 comes online. */
static void test_keep(const struct topology *old)
{
	_cleanup_(topology_freep) struct topology *t = NULL;
	const struct topology_cpu *cpu;

	put("sys/devices/system/cpu/online", "1-3,60\n");
	if (!CHECK(topology_read(root, &t) == 0))
		return;
	cpu = topology_find_cpu(t, 0);
	CHECK(cpu && !cpu->online && !cpu->registers);
	topology_keep_registers(t, old);
	CHECK(cpu && !cpu->online && cpu->registers && cpu->regs.n_params == 8 && cpu->offers.retstack);
	cpu = topology_find_cpu(t, 3);
	CHECK(cpu && cpu->online && cpu->registers);
	/* Registers of another trace unit of the same CPU are not copied. */
	etmv4("etm99");
	in_pmu(0, "etm99");
	t = topology_free(t);
	if (!CHECK(topology_read(root, &t) == 0))
		return;
	topology_keep_registers(t, old);
	cpu = topology_find_cpu(t, 0);
	CHECK(cpu && cpu->source >= 0 && !cpu->registers);
}

int main(void)
{
	struct topology *t = NULL;

	if (!mkdtemp(root) || sysroot_open(root, &root_fd) < 0)
		return 1;
	atexit(clean_up);
	test_sysroot();
	CHECK(topology_read(root, &t) == 0 && t && !t->n_cpus && !t->pmu.there && !t->n_problems);
	t = topology_free(t);
	CHECK_EQ(topology_read("/nonexistent", &t), -ENOENT);
	make_machine();
	if (CHECK(topology_read(root, &t) == 0)) {
		test_pmu(t);
		test_cpus(t);
		test_sinks(t);
		test_keep(t);
	}
	t = topology_free(t);
	closep(&root_fd);
	return unit_end();
}
