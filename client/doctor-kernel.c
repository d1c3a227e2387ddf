/* The machine, its kernel's configuration and modules, and what firmware describes. */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>

#include "client/doctor.h"
#include "client/format.h"
#include "lib/base/io.h"

static bool any_kind(const struct doctor *d, enum topology_kind kind)
{
	for (size_t i = 0; i < d->topology->n_devices; i++)
		if (d->topology->devices[i].kind == kind)
			return true;
	return false;
}

static bool any_buffer(const struct doctor *d)
{
	return any_kind(d, TOPOLOGY_ETR) || any_kind(d, TOPOLOGY_ETF) || any_kind(d, TOPOLOGY_ETB);
}

static bool any_source(const struct doctor *d)
{
	return any_kind(d, TOPOLOGY_ETMV3) || any_kind(d, TOPOLOGY_PTM) || any_kind(d, TOPOLOGY_ETMV4) ||
	       any_kind(d, TOPOLOGY_ETE);
}

static void tell_machine(struct doctor *d)
{
	struct doctor_finding *f;

	if (d->arm) {
		doctor_find(d, DOCTOR_OK, "machine", "Linux %s, %s, %s",
			    *d->release ? d->release : "of an unknown version",
			    *d->arch ? d->arch : "an unknown machine", format_plural(d->topology->n_cpus, "CPU"));
		return;
	}
	f = doctor_find(d, DOCTOR_ERROR, "machine", "this is %s: only Arm machines have CoreSight", d->arch);
	doctor_remedy(f, "trace under the emulated trace unit: csight run --emu -- PROGRAM");
}

struct driver {
	const char *option, *module, *what;
	bool there;              /* something that it drives shows that it works */
	enum doctor_level level; /* of its lack */
};

static void tell_driver(struct doctor *d, const struct driver *w)
{
	struct doctor_finding *f;

	switch (w->there ? DRIVER_THERE : doctor_driver(d, w->option, w->module)) {
	case DRIVER_NOT_BUILT:
		f = doctor_find(d, w->level, "kernel", "CONFIG_%s is not set: there is no driver for %s", w->option,
				w->what);
		doctor_remedy(f, "boot a kernel that has it");
		break;
	case DRIVER_NOT_LOADED:
		f = doctor_find(d, w->level, "kernel", "the driver for %s is a module that is not loaded", w->what);
		doctor_remedy(f, "modprobe %s", w->module);
		break;
	default:
		break;
	}
}

void doctor_kernel(struct doctor *d)
{
	bool arm32 = strncmp(d->arch, "arm", 3) == 0, private = any_kind(d, TOPOLOGY_TRBE),
	     sink = private || any_buffer(d);
	size_t before;
	const struct driver drivers[] = {
		{ "PERF_EVENTS", "", "perf events", sysroot_has(d->root, "proc/sys/kernel/perf_event_paranoid"),
		  DOCTOR_ERROR },
		{ "CORESIGHT", "coresight", "CoreSight", d->topology->n_devices > 0, DOCTOR_ERROR },
		{ arm32 ? "CORESIGHT_SOURCE_ETM3X" : "CORESIGHT_SOURCE_ETM4X",
		  arm32 ? "coresight_etm3x" : "coresight_etm4x", "trace units", any_source(d), DOCTOR_ERROR },
		/* Without links no shared sink is reached, but a CPU's own is. */
		{ "CORESIGHT_LINKS_AND_SINKS", "coresight_funnel", "funnels and replicators",
		  any_kind(d, TOPOLOGY_FUNNEL), sink ? DOCTOR_NOTE : DOCTOR_ERROR },
		{ "CORESIGHT_LINK_AND_SINK_TMC", "coresight_tmc", "ETR, ETF and ETB sinks", any_buffer(d),
		  sink ? DOCTOR_NOTE : DOCTOR_ERROR },
		{ "CORESIGHT_TRBE", "coresight_trbe", "TRBE, a CPU's own sink", private || !any_kind(d, TOPOLOGY_ETE),
		  sink ? DOCTOR_NOTE : DOCTOR_ERROR },
	};

	tell_machine(d);
	if (!d->arm)
		return;
	before = d->n_findings;
	for (size_t i = 0; i < ELEMENTS(drivers); i++)
		tell_driver(d, &drivers[i]);
	if (d->config && doctor_driver(d, "PID_IN_CONTEXTIDR", "") == DRIVER_NOT_BUILT)
		doctor_remedy(
		    doctor_find(d, DOCTOR_WARNING, "kernel",
				"CONFIG_PID_IN_CONTEXTIDR is not set: trace of shared sinks does not say whose it is"),
		    "boot a kernel that has it");
	if (!d->config)
		doctor_find(d, DOCTOR_NOTE, "kernel",
			    "its configuration is not shown: there is no /proc/config.gz and no /boot/config-%s",
			    d->release);
	else if (d->n_findings == before)
		doctor_find(d, DOCTOR_OK, "kernel", "it has the drivers that this machine needs");
}

/* What firmware describes, by the names that drivers look for. */
struct described {
	unsigned sources, sinks, disabled, nodes;
};

enum { NODES_MAX = 50000, DEPTH_MAX = 16 };

static bool is_source_node(const char *compatible)
{
	return strncmp(compatible, "arm,coresight-etm", 17) == 0 ||
	       strcmp(compatible, "arm,embedded-trace-extension") == 0;
}

static bool is_sink_node(const char *compatible)
{
	return strcmp(compatible, "arm,coresight-tmc") == 0 || strcmp(compatible, "arm,coresight-etb10") == 0 ||
	       strcmp(compatible, "arm,trace-buffer-extension") == 0;
}

/* A property of a node: texts, each ended by NUL. Returns their size. */
static size_t read_property(int node, const char *name, char *ret, size_t size)
{
	_cleanup_close_ int fd = openat(node, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	ssize_t n = fd < 0 ? 0 : read_full(fd, ret, size - 1);

	n = MAX(n, 0);
	ret[n] = 0;
	return (size_t)n;
}

static void look_at_node(int node, struct described *ret)
{
	char texts[512], status[16];
	size_t n = read_property(node, "compatible", texts, sizeof(texts));
	bool source = false, sink = false;

	for (size_t at = 0; at < n; at += strlen(texts + at) + 1) {
		source |= is_source_node(texts + at);
		sink |= is_sink_node(texts + at);
	}
	if (!source && !sink)
		return;
	read_property(node, "status", status, sizeof(status));
	if (*status && strcmp(status, "okay") != 0 && strcmp(status, "ok") != 0)
		ret->disabled++;
	else
		(source ? &ret->sources : &ret->sinks)[0]++;
}

/* Links are not followed: a device tree has none. */
static void walk_nodes(int parent, const char *name, unsigned depth, struct described *ret)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_closedir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!dir) {
		closep(&fd);
		return;
	}
	look_at_node(fd, ret);
	while (depth < DEPTH_MAX && ret->nodes < NODES_MAX && (e = readdir(dir)))
		if (e->d_type == DT_DIR && e->d_name[0] != '.') {
			ret->nodes++;
			walk_nodes(fd, e->d_name, depth + 1, ret);
		}
}

static bool read_tree(struct doctor *d, struct described *ret)
{
	char path[SYSROOT_PATH_MAX];

	if (sysroot_resolve(d->root, "sys/firmware/devicetree/base", path) < 0)
		return false;
	walk_nodes(d->root, path, 0, ret);
	return true;
}

/* Hardware IDs: ARMHC500 is a trace unit, ARMHC97C and ARMHC501 are TMCs. TRBEs are told elsewhere. */
static bool read_acpi(struct doctor *d, struct described *ret)
{
	_cleanup_names_ struct sysroot_names names = { 0 };

	if (sysroot_list(d->root, "sys/bus/acpi/devices", &names) < 0)
		return false;
	for (size_t i = 0; i < names.n; i++) {
		ret->sources += strncmp(names.list[i], "ARMHC500:", 9) == 0;
		ret->sinks +=
		    strncmp(names.list[i], "ARMHC97C:", 9) == 0 || strncmp(names.list[i], "ARMHC501:", 9) == 0;
	}
	return true;
}

void doctor_firmware(struct doctor *d)
{
	struct described told = { 0 };
	struct doctor_finding *f;
	const char *teller;
	size_t sources = 0;

	if (!d->arm)
		return;
	/* A machine of ACPI may have an empty device tree. */
	teller = read_acpi(d, &told) ? "ACPI" : NULL;
	if (!told.sources && read_tree(d, &told))
		teller = "the device tree";
	for (size_t i = 0; i < d->topology->n_devices; i++) {
		enum topology_kind kind = d->topology->devices[i].kind;

		sources +=
		    kind == TOPOLOGY_ETMV3 || kind == TOPOLOGY_PTM || kind == TOPOLOGY_ETMV4 || kind == TOPOLOGY_ETE;
	}
	if (!teller) {
		doctor_find(d, DOCTOR_NOTE, "firmware", "neither ACPI nor a device tree is shown");
	} else if (!told.sources && !sources) {
		f = doctor_find(d, DOCTOR_ERROR, "firmware", "%s describes no trace unit%s", teller,
				told.disabled ? " that is not disabled" : "");
		doctor_remedy(
		    f, told.disabled
			   ? "set the status of its CoreSight nodes to \"okay\", in the device tree or an overlay"
			   : "ask who makes the board for firmware that describes its CoreSight; virtual machines have "
			     "none");
	} else if (told.sources > sources) {
		f = doctor_find(d, sources ? DOCTOR_WARNING : DOCTOR_ERROR, "firmware",
				"%s describes %s, and the kernel shows %zu", teller,
				format_plural(told.sources, "trace unit"), sources);
		doctor_remedy(f, "look what dmesg says of them: dmesg | grep -iE 'coresight|etm|amba'");
	} else {
		doctor_find(d, DOCTOR_OK, "firmware", "%s describes %s", teller,
			    format_plural(told.sources, "trace unit"));
	}
}
