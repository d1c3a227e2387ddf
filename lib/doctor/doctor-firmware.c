/* SPDX-License-Identifier: MIT */
/* Check: the trace devices that firmware describes, by the names to which drivers bind. */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>

#include "lib/base/io.h"
#include "lib/doctor/doctor.h"

enum { NODES_MAX = 50000, DEPTH_MAX = 16 };

static bool is_source_node(const char *compatible)
{
	return strncmp(compatible, "arm,coresight-etm", 17) == 0 ||
	       strcmp(compatible, "arm,embedded-trace-extension") == 0;
}

static bool is_buffer_node(const char *compatible)
{
	return strcmp(compatible, "arm,coresight-tmc") == 0 || strcmp(compatible, "arm,coresight-etb10") == 0;
}

/* Reads a property of a node: strings that each end with NUL. Returns their total size. */
static size_t read_property(int node, const char *name, char *ret, size_t size)
{
	_cleanup_close_ int fd = openat(node, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	ssize_t n = fd < 0 ? 0 : io_read(fd, ret, size - 1);

	n = MAX(n, 0);
	ret[n] = 0;
	return (size_t)n;
}

static void look_at_node(int node, struct doctor_firmware *ret)
{
	char texts[512], status[16];
	size_t n = read_property(node, "compatible", texts, sizeof(texts));
	unsigned *counts = NULL;

	for (size_t at = 0; at < n && !counts; at += strlen(texts + at) + 1)
		counts = is_source_node(texts + at)                              ? &ret->sources
			 : is_buffer_node(texts + at)                            ? &ret->buffers
			 : strcmp(texts + at, "arm,trace-buffer-extension") == 0 ? &ret->private
										 : NULL;
	if (!counts)
		return;
	read_property(node, "status", status, sizeof(status));
	if (*status && strcmp(status, "okay") != 0 && strcmp(status, "ok") != 0)
		counts = &ret->disabled;
	++*counts;
}

/* Does not follow symbolic links: a device tree has none. */
static void walk_nodes(int parent, const char *name, unsigned depth, struct doctor_firmware *ret)
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

static bool read_tree(struct doctor *d, struct doctor_firmware *ret)
{
	char path[SYSROOT_PATH_MAX];

	if (sysroot_resolve(d->root, "sys/firmware/devicetree/base", path) < 0)
		return false;
	walk_nodes(d->root, path, 0, ret);
	return true;
}

/* Hardware IDs: ARMHC500 is a trace unit, ARMHC97C and ARMHC501 are TMCs. TRBEs have none. */
static bool read_acpi(struct doctor *d, struct doctor_firmware *ret)
{
	_cleanup_names_ struct sysroot_names names = { 0 };

	if (sysroot_list(d->root, "sys/bus/acpi/devices", &names) < 0)
		return false;
	for (size_t i = 0; i < names.n; i++) {
		ret->sources += strncmp(names.list[i], "ARMHC500:", 9) == 0;
		ret->buffers +=
		    strncmp(names.list[i], "ARMHC97C:", 9) == 0 || strncmp(names.list[i], "ARMHC501:", 9) == 0;
	}
	return true;
}

void doctor_read_firmware(struct doctor *d)
{
	struct doctor_firmware *fw = &d->firmware;

	fw->source = read_acpi(d, fw) ? "ACPI" : NULL;
	/* A machine with ACPI may have an empty device tree. */
	if (!fw->sources && read_tree(d, fw))
		fw->source = "the device tree";
}

void doctor_firmware(struct doctor *d)
{
	const struct doctor_firmware *fw = &d->firmware;
	struct doctor_finding *f;
	unsigned shown = 0;

	if (!d->arm)
		return;
	for (size_t i = 0; i < d->topology->n_devices; i++)
		shown += topology_is_cpu_source(d->topology->devices[i].kind);
	if (!fw->source) {
		doctor_find(d, DOCTOR_NOTE, "firmware", "the kernel shows neither ACPI nor a device tree");
	} else if (!fw->sources && !shown) {
		f = doctor_find(d, DOCTOR_ERROR, "firmware", "%s describes no trace unit%s", fw->source,
				fw->disabled ? " that is not disabled" : "");
		doctor_remedy(f, fw->disabled ? "set the status of its CoreSight nodes to \"okay\""
					      : "ask the board's vendor for firmware that describes CoreSight; "
						"virtual machines have none");
	} else if (fw->sources > shown) {
		f = doctor_find(d, shown ? DOCTOR_WARNING : DOCTOR_ERROR, "firmware",
				"%s describes %s, but the kernel shows %u", fw->source,
				DOCTOR_PLURAL(fw->sources, "trace unit"), shown);
		if (!shown && strcmp(fw->source, "ACPI") == 0 && doctor_kernel_before(d, 6, 6))
			doctor_remedy(
			    f, "if they are accessed by system registers, as ETE is, boot Linux 6.7 or later: it "
			       "is the first that reads all of them, and TRBE, from ACPI tables");
		else
			doctor_remedy(f, "look for errors of their drivers: dmesg | grep -iE 'coresight|etm|amba'");
	} else {
		doctor_find(d, DOCTOR_OK, "firmware", "%s describes %s", fw->source,
			    DOCTOR_PLURAL(fw->sources, "trace unit"));
	}
}
