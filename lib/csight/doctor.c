/* SPDX-License-Identifier: MIT */
/* Gives programs the check of the environment of lib/doctor. */
#include "config.h"

#include <errno.h>

#include "lib/csight/csight-internal.h"
#include "lib/doctor/doctor.h"

struct csight_doctor {
	struct doctor doctor;
	size_t errors;
};

int csight_doctor_run(const struct csight_doctor_options *options, struct csight_doctor **ret)
{
	struct csight_doctor_options o;
	struct csight_doctor *d;
	int rc = csight_options_read(&o, sizeof(o), options);

	if (rc < 0)
		return rc;
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	d->doctor.root = -1;
	rc = doctor_begin(&d->doctor, o.root);
	if (rc < 0) {
		csight_doctor_free(d);
		return rc;
	}
	d->errors = doctor_check(&d->doctor);
	*ret = d;
	return 0;
}

struct csight_doctor *csight_doctor_free(struct csight_doctor *d)
{
	if (d)
		doctor_done(&d->doctor);
	free(d);
	return NULL;
}

unsigned csight_doctor_ways(const struct csight_doctor *d)
{
	return (d->errors ? 0 : CSIGHT_BY_HARDWARE) | (d->doctor.emulator ? CSIGHT_BY_EMULATOR : 0);
}

size_t csight_doctor_findings(const struct csight_doctor *d)
{
	return d->doctor.n_findings;
}

int csight_doctor_finding(const struct csight_doctor *d, size_t index, struct csight_finding *ret)
{
	const struct doctor_finding *f;
	struct csight_finding out;

	if (index >= d->doctor.n_findings)
		return -ENOENT;
	f = &d->doctor.findings[index];
	out = (struct csight_finding){
		.level = doctor_level_str(f->level), .topic = f->topic, .text = f->text, .remedy = f->remedy
	};
	return csight_options_write(ret, sizeof(out), &out);
}
