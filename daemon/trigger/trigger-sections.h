/* SPDX-License-Identifier: MIT */
/*
 * Triggers of the configuration: sections [Trigger NAME], whose keys are those of lib/trigger/trigger-spec.h, and
 * program and user, which select processes. Each process that matches and is armed gets the trigger, which belongs to
 * the process's owner and is charged to him. Events that need the symbols of a process are refused: csightd reads none.
 *
 * The functions that read settings may run on another thread than the loop's.
 */
#ifndef CSIGHT_DAEMON_TRIGGER_SECTIONS_H
#define CSIGHT_DAEMON_TRIGGER_SECTIONS_H

#include <stdbool.h>
#include <sys/types.h>

#include "lib/base/ini.h"
#include "lib/trigger/trigger-spec.h"

struct target;
struct target_list;
struct trigger_list;
struct audit;

struct trigger_section {
	char *name;
	char *program; /* a pattern of the program's path or the process's name; NULL: all */
	bool has_user;
	uid_t user;
	struct trigger_spec spec;
};

struct trigger_sections {
	struct trigger_section *list;
	size_t n, room;
};

/* True if the section is one of a trigger. */
bool trigger_sections_have(const char *section);

/* Sets a key of a section; its first key adds the section. -EINVAL, -ESRCH with a reason; -ENOMEM. */
int trigger_sections_set(struct trigger_sections *s, const struct ini_entry *e, struct reason *why);

/* Checks all sections that have been read. -EINVAL. */
int trigger_sections_check(const struct trigger_sections *s, struct reason *why);
bool trigger_sections_equal(const struct trigger_sections *a, const struct trigger_sections *b);
void trigger_sections_done(struct trigger_sections *s);

/* Adds the triggers that a target lacks. To be called when it is armed. */
void trigger_sections_apply(const struct trigger_sections *s, struct trigger_list *all, struct audit *audit,
			    struct target *t);

/* To be called when the settings have changed: removes the triggers of sections, and adds those of s to all targets. */
void trigger_sections_update(const struct trigger_sections *s, struct trigger_list *all, struct audit *audit,
			     const struct target_list *targets);

#endif
