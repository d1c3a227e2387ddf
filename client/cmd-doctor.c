/* SPDX-License-Identifier: MIT */
/* csight doctor. */
#include "config.h"

#include <string.h>

#include "client/client.h"
#include "client/format.h"
#include "lib/base/escape.h"
#include "lib/base/json.h"
#include "lib/doctor/doctor.h"

static const struct verb_option options[] = {
	{ "sysroot", 0, "DIR", "examine the files below DIR instead of this machine" },
	{ 0 },
};

static void print_report(const struct doctor *d, size_t errors)
{
	for (size_t i = 0; i < d->n_findings; i++) {
		const struct doctor_finding *f = &d->findings[i];
		enum format_style style = f->level == DOCTOR_OK     ? STYLE_GOOD
					  : f->level == DOCTOR_NOTE ? STYLE_PLAIN
								    : STYLE_BAD;
		char text[4 * sizeof(f->text)], remedy[4 * sizeof(f->remedy)];

		printf("%s%-7s%s  %-8s  %s\n", format_style(stdout, style), doctor_level_str(f->level),
		       format_style(stdout, STYLE_PLAIN), f->topic, escape_text(f->text, text, sizeof(text)));
		if (*f->remedy)
			printf("%-7s  %-8s  -> %s\n", "", "", escape_text(f->remedy, remedy, sizeof(remedy)));
	}
	if (errors)
		printf("\nHardware tracing does not work on this machine: %s%s.\n", format_plural(errors, "error"),
		       d->emulator ? "; csight run --emu works" : "");
	else
		printf("\nNothing prevents hardware tracing on this machine.\n");
}

static json_object *offers_json(const struct topology_offers *o)
{
	json_object *j = json_object_new_object();

	json_add_bool(j, "returnStack", o->retstack);
	json_add_bool(j, "cycleCounts", o->cycacc);
	json_add_bool(j, "timestamps", o->timestamp);
	json_add_bool(j, "contextIds", o->contextid);
	json_add_bool(j, "virtualContextIds", o->vmid);
	json_add_bool(j, "branchBroadcast", o->branch_broadcast);
	json_add_u64(j, "addressRanges", o->address_pairs);
	json_add_u64(j, "counters", o->counters);
	json_add_u64(j, "contextIdComparators", o->contextid_comparators);
	return j;
}

static json_object *cpus_json(const struct topology *t)
{
	json_object *all = json_object_new_array();

	for (size_t i = 0; i < t->n_cpus; i++) {
		const struct topology_cpu *cpu = &t->cpus[i];
		json_object *o = json_object_new_object(), *sinks = json_object_new_array();

		json_add_u64(o, "cpu", cpu->cpu);
		json_add_bool(o, "online", cpu->online);
		if (cpu->source >= 0) {
			json_add_bytes(o, "source", t->devices[cpu->source].name);
			json_add_str(o, "kind", topology_kind_str(cpu->kind));
		}
		for (size_t j = 0; j < cpu->n_sinks; j++)
			json_array_add(sinks, json_object_new_int64(cpu->sinks[j]));
		json_add(o, "sinks", sinks);
		if (cpu->registers)
			json_add(o, "offers", offers_json(&cpu->offers));
		json_array_add(all, o);
	}
	return all;
}

static json_object *sinks_json(const struct topology *t)
{
	json_object *all = json_object_new_array();

	for (size_t i = 0; i < t->n_sinks; i++) {
		const struct topology_device *d = &t->devices[t->sinks[i].device];
		json_object *o = json_object_new_object();

		json_add_bytes(o, "name", d->name);
		json_add_str(o, "kind", topology_kind_str(d->kind));
		json_add_bool(o, "private", t->sinks[i].per_cpu);
		if (t->sinks[i].id)
			json_add_u64(o, "id", t->sinks[i].id);
		if (t->sinks[i].buffer)
			json_add_u64(o, "buffer", t->sinks[i].buffer);
		json_array_add(all, o);
	}
	return all;
}

static void print_report_json(const struct doctor *d, size_t errors)
{
	_cleanup_json_ json_object *o = json_object_new_object();
	json_object *findings = json_object_new_array();

	json_add_bytes(o, "release", d->release);
	json_add_bytes(o, "architecture", d->arch);
	json_add_bool(o, "hardware", !errors);
	json_add_bool(o, "emulator", d->emulator);
	for (size_t i = 0; i < d->n_findings; i++) {
		json_object *f = json_object_new_object();

		json_add_str(f, "level", doctor_level_str(d->findings[i].level));
		json_add_str(f, "topic", d->findings[i].topic);
		json_add_bytes(f, "text", d->findings[i].text);
		if (*d->findings[i].remedy)
			json_add_bytes(f, "remedy", d->findings[i].remedy);
		json_array_add(findings, f);
	}
	json_add(o, "findings", findings);
	json_add(o, "cpus", cpus_json(d->topology));
	json_add(o, "sinks", sinks_json(d->topology));
	client_print_json(o);
}

static int doctor_run(struct client *c)
{
	_cleanup_doctor_ struct doctor d = DOCTOR_EMPTY;
	const char *value, *root = NULL;
	size_t errors;
	int o, rc;

	while ((o = client_option(c, &value)) >= 0)
		root = value;
	if (o == CLIENT_STOP)
		return c->status;
	if (c->argc)
		return client_usage(c, "unexpected argument '%s'", esc(c->argv[0]));
	rc = doctor_begin(&d, root);
	if (rc < 0) {
		client_error("cannot examine %s: %s", root ? esc(root) : "/", strerror(-rc));
		return STATUS_FAILED;
	}
	errors = doctor_check(&d);
	if (c->json)
		print_report_json(&d, errors);
	else
		print_report(&d, errors);
	return errors ? STATUS_FAILED : STATUS_OK;
}

const struct verb cmd_doctor = {
	.name = "doctor",
	.arguments = "",
	.summary = "check whether this machine can trace, and print what to do if not",
	.flags = VERB_JSON,
	.options = options,
	.run = doctor_run,
};
