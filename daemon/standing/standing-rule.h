/* SPDX-License-Identifier: MIT */
/* The rule of a standing target: which processes it selects. A process must fulfil everything that the rule has. */
#ifndef CSIGHT_DAEMON_STANDING_RULE_H
#define CSIGHT_DAEMON_STANDING_RULE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/capture/capture.h"
#include "lib/base/reason.h"

enum { STANDING_RULE_TEXT_SIZE = 512, STANDING_RULE_PART_SIZE = 1024 };

struct standing_rule {
	char *name;   /* a shell pattern of the process's name, or NULL */
	char *exe;    /* the path of its program, or NULL */
	char *unit;   /* of systemd, or NULL */
	char *cgroup; /* the path of a control group, or NULL */
	bool has_user;
	uid_t user;
	pid_t tree;          /* this process and its descendants; 0: none */
	uint64_t tree_start; /* proc_file_start() of it */
};

/* The properties of a process that rules compare. */
struct standing_process {
	pid_t pid, parent;
	uid_t uid;
	const char *name, *exe;
};

void standing_rule_done(struct standing_rule *r);
int standing_rule_copy(const struct standing_rule *r, struct standing_rule *ret);
bool standing_rule_equal(const struct standing_rule *a, const struct standing_rule *b);

/* -EINVAL: it selects nothing, or cannot be one, for the reason in why. */
int standing_rule_check(const struct standing_rule *r, struct reason *why);

/* Returns whether the process fulfils the rule, apart from tree. requester: the rule's user. May read /proc. */
bool standing_rule_matches(const struct standing_rule *r, uid_t requester, const struct standing_process *p);

/* True if the rule depends on the program that a process executes. */
bool standing_rule_names_program(const struct standing_rule *r);

/* Formats the rule for messages, as name=nginx user=33; not escaped. */
void standing_rule_text(const struct standing_rule *r, char ret[STANDING_RULE_TEXT_SIZE]);

bool standing_options_equal(const struct capture_options *a, const struct capture_options *b);

#endif
