/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdarg.h>
#include <string.h>
#include <sys/utsname.h>

#include "lib/coresight/kernel-config.h"
#include "lib/doctor/doctor.h"

struct doctor_finding *doctor_find(struct doctor *d, enum doctor_level level, const char *topic, const char *fmt, ...)
{
	/* DOCTOR_FINDINGS_MAX is more than the checks produce; otherwise the last finding is overwritten. */
	struct doctor_finding *f = &d->findings[MIN(d->n_findings, (size_t)DOCTOR_FINDINGS_MAX - 1)];
	va_list args;

	*f = (struct doctor_finding){ .level = level, .topic = topic };
	va_start(args, fmt);
	vsnprintf(f->text, sizeof(f->text), fmt, args);
	va_end(args);
	if (d->n_findings < DOCTOR_FINDINGS_MAX)
		d->n_findings++;
	return f;
}

void doctor_remedy(struct doctor_finding *f, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(f->remedy, sizeof(f->remedy), fmt, args);
	va_end(args);
}

static void read_architecture(struct doctor *d)
{
	struct utsname u;

	if (sysroot_text(d->root, "proc/sys/kernel/arch", d->arch, sizeof(d->arch)) < 0) {
		*d->arch = 0;
		/* Kernels before 6.1 do not have this file. */
		if (d->here && uname(&u) == 0)
			snprintf(d->arch, sizeof(d->arch), "%s", u.machine);
		else if (kernel_config_is(d->config, "ARM64", 'y'))
			strcpy(d->arch, "aarch64");
		else if (kernel_config_is(d->config, "ARM", 'y'))
			strcpy(d->arch, "arm");
	}
	d->arm = !*d->arch || strncmp(d->arch, "arm", 3) == 0 || strncmp(d->arch, "aarch64", 7) == 0;
}

static void read_capabilities(struct doctor *d)
{
	char text[SYSROOT_TEXT_MAX];
	const char *at;

	if (sysroot_text(d->root, "proc/self/status", text, sizeof(text)) < 0)
		return;
	at = strstr(text, "\nCapEff:");
	if (at)
		d->capabilities = strtoull(at + 8, NULL, 16);
}

int doctor_begin(struct doctor *d, const char *root)
{
	int rc;

	d->here = !root;
	rc = sysroot_open(root ? root : "/", &d->root);
	if (rc == 0)
		rc = topology_read(root ? root : "/", &d->topology);
	if (rc < 0)
		return rc;
	if (sysroot_text(d->root, "proc/sys/kernel/osrelease", d->release, sizeof(d->release)) < 0)
		*d->release = 0;
	d->config = kernel_config_read(d->root, d->release);
	read_architecture(d);
	read_capabilities(d);
	doctor_read_firmware(d);
	return 0;
}

void doctor_done(struct doctor *d)
{
	free(d->config);
	topology_free(d->topology);
	closep(&d->root);
}

const char *doctor_level_str(enum doctor_level level)
{
	static const char *const names[] = {
		[DOCTOR_OK] = "ok",
		[DOCTOR_NOTE] = "note",
		[DOCTOR_WARNING] = "warning",
		[DOCTOR_ERROR] = "error",
	};

	return names[level];
}

const char *doctor_plural(char text[DOCTOR_TEXT_SIZE], uint64_t n, const char *noun)
{
	snprintf(text, DOCTOR_TEXT_SIZE, "%ju %s%s", (uintmax_t)n, noun, n == 1 ? "" : "s");
	return text;
}

const char *doctor_size(char text[DOCTOR_TEXT_SIZE], uint64_t bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double v = (double)bytes;
	size_t unit = 0;

	for (; v >= 1024 && unit + 1 < ELEMENTS(units); unit++)
		v /= 1024;
	snprintf(text, DOCTOR_TEXT_SIZE, unit ? "%.1f %s" : "%.0f %s", v, units[unit]);
	return text;
}

size_t doctor_check(struct doctor *d)
{
	static void (*const checks[])(struct doctor * d) = {
		doctor_kernel, doctor_firmware, doctor_hardware,        doctor_rights,
		doctor_use,    doctor_programs, doctor_report_features,
	};
	size_t errors = 0;

	for (size_t i = 0; i < ELEMENTS(checks); i++)
		checks[i](d);
	for (size_t i = 0; i < d->n_findings; i++)
		errors += d->findings[i].level == DOCTOR_ERROR;
	return errors;
}

enum doctor_driver doctor_driver(const struct doctor *d, const char *option, const char *modules)
{
	char path[80];

	snprintf(path, sizeof(path), "sys/module/%.*s", (int)strcspn(modules, " "), modules);
	if (sysroot_has(d->root, path))
		return DRIVER_THERE;
	if (!d->config)
		return DRIVER_UNKNOWN;
	if (kernel_config_is(d->config, option, 'y'))
		return DRIVER_THERE;
	return kernel_config_is(d->config, option, 'm') ? DRIVER_NOT_LOADED : DRIVER_NOT_BUILT;
}

static void add_range(char *ret, size_t size, uint32_t first, uint32_t last)
{
	size_t n = strlen(ret);

	/* Keeps room for ",..." if the next range does not fit. */
	if (n + sizeof(",1023-1023,...") > size) {
		if (ret[n - 1] != '.')
			strcpy(ret + n, ",...");
		return;
	}
	snprintf(ret + n, size - n, first == last ? "%s%u" : "%s%u-%u", n ? "," : "", first, last);
}

size_t doctor_cpus(const struct doctor *d, bool (*which)(const struct doctor *d, const struct topology_cpu *cpu),
		   char *ret, size_t size)
{
	const struct topology *t = d->topology;
	char ranges[160] = "";
	uint32_t first = 0, last = 0;
	size_t n = 0;

	for (size_t i = 0; i < t->n_cpus; i++) {
		const struct topology_cpu *cpu = &t->cpus[i];

		if (!which(d, cpu))
			continue;
		if (n && cpu->cpu != last + 1)
			add_range(ranges, sizeof(ranges), first, last);
		if (!n++ || cpu->cpu != last + 1)
			first = cpu->cpu;
		last = cpu->cpu;
	}
	if (n)
		add_range(ranges, sizeof(ranges), first, last);
	*ret = 0;
	if (n)
		snprintf(ret, size, "CPU%s %s", n == 1 ? "" : "s", ranges);
	return n;
}
