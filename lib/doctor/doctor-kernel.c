/* SPDX-License-Identifier: MIT */
/* Checks: the machine, and its kernel's configuration and modules. */
#include <string.h>

#include "lib/doctor/doctor.h"

static bool has_device_kind(const struct doctor *d, enum topology_kind kind)
{
	for (size_t i = 0; i < d->topology->n_devices; i++)
		if (d->topology->devices[i].kind == kind)
			return true;
	return false;
}

static bool has_buffer(const struct doctor *d)
{
	return has_device_kind(d, TOPOLOGY_ETR) || has_device_kind(d, TOPOLOGY_ETF) || has_device_kind(d, TOPOLOGY_ETB);
}

static bool has_trace_source(const struct doctor *d)
{
	for (size_t i = 0; i < d->topology->n_devices; i++)
		if (topology_is_cpu_source(d->topology->devices[i].kind))
			return true;
	return false;
}

bool doctor_kernel_before(const struct doctor *d, unsigned major, unsigned minor)
{
	unsigned a, b;

	return sscanf(d->release, "%3u.%3u", &a, &b) == 2 && (a < major || (a == major && b < minor));
}

static void check_machine(struct doctor *d)
{
	struct doctor_finding *f;

	if (d->arm) {
		doctor_find(d, DOCTOR_OK, "machine", "Linux %s, %s, %s",
			    *d->release ? d->release : "of an unknown version",
			    *d->arch ? d->arch : "an unknown machine", DOCTOR_PLURAL(d->topology->n_cpus, "CPU"));
		return;
	}
	f = doctor_find(d, DOCTOR_ERROR, "machine", "this is %s: only Arm machines have CoreSight", d->arch);
	doctor_remedy(f, "use the emulated trace unit: csight run --emu -- PROGRAM");
}

struct driver {
	const char *option, *modules, *what;
	bool there;              /* a device that it drives exists */
	enum doctor_level level; /* severity if it is missing */
};

static void check_driver(struct doctor *d, const struct driver *w)
{
	struct doctor_finding *f;

	switch (w->there ? DRIVER_THERE : doctor_driver(d, w->option, w->modules)) {
	case DRIVER_NOT_BUILT:
		f = doctor_find(d, w->level, "kernel", "CONFIG_%s is not set: there is no driver for %s", w->option,
				w->what);
		doctor_remedy(f, "boot a kernel with this option");
		break;
	case DRIVER_NOT_LOADED:
		f = doctor_find(d, w->level, "kernel", "the driver for %s is a module that is not loaded", w->what);
		doctor_remedy(f, "modprobe -a %s", w->modules);
		break;
	default:
		break;
	}
}

/* False if firmware is known not to describe a device of this kind. */
static bool may_have_device(const struct doctor *d, unsigned described)
{
	return !d->firmware.source || described;
}

static void check_drivers(struct doctor *d)
{
	const struct doctor_firmware *fw = &d->firmware;
	bool arm32 = strncmp(d->arch, "arm", 3) == 0, private = has_device_kind(d, TOPOLOGY_TRBE);
	bool buffers = has_buffer(d), units = has_trace_source(d);
	enum doctor_level of_sink = private || buffers ? DOCTOR_NOTE : DOCTOR_ERROR;
	const struct driver drivers[] = {
		{ arm32 ? "CORESIGHT_SOURCE_ETM3X" : "CORESIGHT_SOURCE_ETM4X",
		  arm32 ? "coresight_etm3x" : "coresight_etm4x", "trace units",
		  units || !may_have_device(d, fw->sources), DOCTOR_ERROR },
		/* Only shared sinks are connected through funnels and replicators. */
		{ "CORESIGHT_LINKS_AND_SINKS", "coresight_funnel coresight_replicator", "funnels and replicators",
		  has_device_kind(d, TOPOLOGY_FUNNEL) || !may_have_device(d, fw->buffers), of_sink },
		{ "CORESIGHT_LINK_AND_SINK_TMC", "coresight_tmc", "ETR, ETF and ETB sinks",
		  buffers || !may_have_device(d, fw->buffers), of_sink },
		{ "CORESIGHT_TRBE", "coresight_trbe", "TRBE, the private sink of a CPU",
		  private || !(fw->private || has_device_kind(d, TOPOLOGY_ETE)), of_sink },
	};

	for (size_t i = 0; i < ELEMENTS(drivers); i++)
		check_driver(d, &drivers[i]);
	if (d->config && doctor_driver(d, "PID_IN_CONTEXTIDR", "none") == DRIVER_NOT_BUILT)
		doctor_remedy(
		    doctor_find(d, DOCTOR_WARNING, "kernel",
				"CONFIG_PID_IN_CONTEXTIDR is not set: trace on shared sinks has no process IDs"),
		    "boot a kernel with this option");
}

void doctor_kernel(struct doctor *d)
{
	const struct driver perf = { "PERF_EVENTS", "none", "perf events",
				     sysroot_has(d->root, "proc/sys/kernel/perf_event_paranoid"), DOCTOR_ERROR };
	const struct driver bus = { "CORESIGHT", "coresight", "CoreSight", d->topology->n_devices > 0, DOCTOR_ERROR };
	size_t before;

	check_machine(d);
	if (!d->arm)
		return;
	before = d->n_findings;
	check_driver(d, &perf);
	check_driver(d, &bus);
	/* All other drivers depend on the bus. */
	if (bus.there || doctor_driver(d, bus.option, bus.modules) != DRIVER_NOT_BUILT)
		check_drivers(d);
	if (!d->config)
		doctor_find(d, DOCTOR_NOTE, "kernel",
			    "its configuration is unavailable: there is neither /proc/config.gz nor /boot/config-%s",
			    d->release);
	else if (d->n_findings == before)
		doctor_find(d, DOCTOR_OK, "kernel", "it has the drivers for this machine");
}
