/* SPDX-License-Identifier: MIT */
/* Checks: OpenCSD, which decodes, and the emulator, which traces without hardware. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/wait.h>

#include "lib/base/io.h"
#include "lib/base/path.h"
#include "lib/doctor/doctor.h"
#include "lib/doctor/emulator.h"

struct version {
	unsigned major, minor, patch;
};

static bool parse_version(const char *text, struct version *ret)
{
	int n = 0;

	return sscanf(text, "%3u.%3u.%3u%n", &ret->major, &ret->minor, &ret->patch, &n) == 3 &&
	       (!text[n] || text[n] == '\n');
}

static bool version_before(const struct version *v, unsigned major, unsigned minor, unsigned patch)
{
	unsigned long has = v->major * 1000000ul + v->minor * 1000ul + v->patch;

	return has < major * 1000000ul + minor * 1000ul + patch;
}

/* For this machine: runs csight-decode --version, and parses the version of OpenCSD that it prints. */
static bool read_linked_version(struct version *ret)
{
	char program[PATH_MAX], command[PATH_MAX + 32], line[256];
	bool found = false;
	FILE *f;

	/* A path with a quote would need escaping in the command; no installation has one. */
	if (path_helper("csight-decode", PKGLIBEXECDIR, program, sizeof(program)) < 0 || strchr(program, '\''))
		return false;
	snprintf(command, sizeof(command), "'%s' --version 2>/dev/null", program);
	f = popen(command, "re");
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, "OpenCSD ", 8) == 0)
			found |= parse_version(line + 8, ret);
	if (f)
		pclose(f);
	return found;
}

/* For a tree of files: finds the version of OpenCSD in the name of its library, in any directory below usr/lib. */
static bool find_library_version(const struct doctor *d, struct version *ret)
{
	static const char prefix[] = "libopencsd.so.";
	_cleanup_names_ struct sysroot_names dirs = { 0 };
	char path[SYSROOT_PATH_MAX];
	bool found = false;

	if (sysroot_list(d->root, "usr/lib", &dirs) < 0)
		return false;
	for (size_t i = 0; i < dirs.n && !found; i++) {
		_cleanup_names_ struct sysroot_names files = { 0 };

		if ((size_t)snprintf(path, sizeof(path), "usr/lib/%s", dirs.list[i]) >= sizeof(path) ||
		    sysroot_list(d->root, path, &files) < 0)
			continue;
		for (size_t j = 0; j < files.n; j++)
			if (strncmp(files.list[j], prefix, strlen(prefix)) == 0)
				found |= parse_version(files.list[j] + strlen(prefix), ret);
	}
	return found;
}

static void check_opencsd(struct doctor *d)
{
	struct doctor_finding *f;
	struct version v;

	if (!(d->here ? read_linked_version(&v) : find_library_version(d, &v))) {
		f = doctor_find(d, DOCTOR_WARNING, "opencsd", "not found: csight-decode cannot decode");
		doctor_remedy(f, "install csight-decode and OpenCSD: apt install libopencsd1");
	} else if (version_before(&v, 1, 3, 3)) {
		f = doctor_find(d, DOCTOR_WARNING, "opencsd",
				"%u.%u.%u is older than any version tested with csight-decode", v.major, v.minor,
				v.patch);
		doctor_remedy(f, "install OpenCSD 1.6.1 or later, at least 1.3.3");
	} else if (version_before(&v, 1, 6, 1)) {
		f = doctor_find(d, DOCTOR_WARNING, "opencsd",
				"%u.%u.%u decodes some traces of speculating processors, ETE and STM wrongly", v.major,
				v.minor, v.patch);
		doctor_remedy(f, "install OpenCSD 1.6.1 or later");
	} else if (!version_before(&v, 1, 8, 1) && version_before(&v, 1, 8, 2)) {
		f = doctor_find(d, DOCTOR_WARNING, "opencsd",
				"%u.%u.%u loses its return stack at consecutive exceptions", v.major, v.minor, v.patch);
		doctor_remedy(f, "install OpenCSD 1.8.3 or later");
	} else {
		doctor_find(d, DOCTOR_OK, "opencsd", "%u.%u.%u", v.major, v.minor, v.patch);
	}
}

static void check_emulator(struct doctor *d)
{
	char plugin[PATH_MAX], emulator[PATH_MAX];
	struct reason why = { "" };

	if (!d->here) {
		if (sysroot_has(d->root, "usr/bin/qemu-aarch64"))
			doctor_find(d, DOCTOR_OK, "emulator",
				    "qemu-aarch64 is installed; its support of plugins was not tested");
		else
			doctor_remedy(doctor_find(d, DOCTOR_NOTE, "emulator",
						  "qemu-aarch64 is not installed: no emulated trace unit"),
				      "apt install qemu-user, to trace programs under emulation");
		return;
	}
	if (path_helper("csight-etm.so", PKGLIBDIR, plugin, sizeof(plugin)) < 0)
		reason_set(&why, 0, "csight-etm.so is neither beside csight nor in " PKGLIBDIR);
	else
		d->emulator = emulator_find(plugin, emulator, sizeof(emulator), &why);
	if (d->emulator)
		doctor_find(d, DOCTOR_OK, "emulator", "%s supports plugins: csight run --emu works", emulator);
	else
		doctor_find(d, DOCTOR_NOTE, "emulator", "no emulated trace unit: %s", why.text);
}

void doctor_programs(struct doctor *d)
{
	check_opencsd(d);
	check_emulator(d);
}
