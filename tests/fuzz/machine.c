/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/util.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/machine.h"

const struct machine_entry machine_entries[] = {
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

_Static_assert(ELEMENTS(machine_entries) == MACHINE_ENTRIES, "each entry has a number");

void machine_write(int root, const char *path, const void *data, size_t size)
{
	int fd = openat(root, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	fuzz_require(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	close(fd);
}

void machine_put(int root, size_t i)
{
	const struct machine_entry *e = &machine_entries[i];

	if (e->link)
		fuzz_require(symlinkat(e->link, root, e->path) == 0);
	else
		machine_write(root, e->path, e->text, strlen(e->text));
}

void machine_make(int root)
{
	char at[256];

	for (size_t i = 0; i < MACHINE_ENTRIES; i++) {
		const char *path = machine_entries[i].path;

		for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
			snprintf(at, sizeof(at), "%.*s", (int)(slash - path), path);
			mkdirat(root, at, 0755);
		}
		machine_put(root, i);
	}
}
