/* SPDX-License-Identifier: MIT */
/*
 * Standing targets of the configuration: sections [Target NAME], whose keys are the options of csight arm. They belong
 * to the user that csightd runs as.
 *
 * The functions that read settings may run on another thread than the loop's.
 */
#ifndef CSIGHT_DAEMON_STANDING_SECTIONS_H
#define CSIGHT_DAEMON_STANDING_SECTIONS_H

#include "daemon/standing/standing-rule.h"
#include "lib/base/ini.h"

struct audit;
struct standing_list;

struct standing_section {
	char *name;
	struct standing_rule rule;
	struct capture_options options; /* owns its texts */
};

struct standing_sections {
	struct standing_section *list;
	size_t n, room;
};

/* True if the section is one of a standing target. */
bool standing_sections_have(const char *section);

/* Sets a key of a section; its first key adds the section. -EINVAL, -ESRCH with a reason; -ENOMEM. */
int standing_sections_set(struct standing_sections *s, const struct ini_entry *e, struct reason *why);

/* Checks all sections that have been read. -EINVAL. */
int standing_sections_check(const struct standing_sections *s, struct reason *why);
bool standing_sections_equal(const struct standing_sections *a, const struct standing_sections *b);
void standing_sections_done(struct standing_sections *s);

/* Removes the rules of sections that are not there any more, or have changed, and adds those that are missing. */
void standing_sections_apply(const struct standing_sections *s, struct standing_list *all, struct audit *audit);

#endif
