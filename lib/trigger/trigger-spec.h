/* SPDX-License-Identifier: MIT */
/*
 * What a trigger waits for, and its rules. One grammar serves the options of csight watch, the keys of a section of
 * csightd.conf, and the text in org.csight: a list of keys, most with a value, of which one names the event.
 *
 *	function NAME [longer-than TIME|p99]
 *	address ADDRESS
 *	line FILE:LINE
 *	syscall NAME longer-than TIME|p99
 *	signal NAME
 *	crash
 *	exit
 *	exit-status N
 *
 * and the rules: once; max N; every TIME; after TIME; min-history TIME; keep N; group tree, cgroup or unit; exec
 * COMMAND. As text, keys and values are words with a blank between them; a value with blanks or quotes is in double
 * quotes, within which a backslash escapes one character. TIME is a number with a unit: ns, us, ms, s, m, h.
 */
#ifndef CSIGHT_TRIGGER_SPEC_H
#define CSIGHT_TRIGGER_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/reason.h"

enum { TRIGGER_VALUE_SIZE = 1024, TRIGGER_TEXT_MAX = 4096, TRIGGER_KEEP_MAX = 100 };

#define TRIGGER_P99 UINT64_MAX

enum trigger_event {
	TRIGGER_NONE,
	TRIGGER_FUNCTION,
	TRIGGER_ADDRESS,
	TRIGGER_LINE,
	TRIGGER_SYSCALL,
	TRIGGER_SIGNAL,
	TRIGGER_CRASH,
	TRIGGER_EXIT,
	TRIGGER_EXIT_STATUS,
};

/* Of which processes besides its own a trigger takes snapshots: those of the same tree, control group or unit. */
enum trigger_group { TRIGGER_ALONE, TRIGGER_TREE, TRIGGER_CGROUP, TRIGGER_UNIT };

struct trigger_spec {
	enum trigger_event event;
	char value[TRIGGER_VALUE_SIZE]; /* of the event, as text; "": it has none */
	uint64_t number;                /* the address, signal or status that value is */
	bool timed;                     /* longer_than is set */
	uint64_t longer_than;           /* ns, or TRIGGER_P99: the 99th percentile of the last minute */
	/* Rules. Zeros: none; max has a meaning only if limited. */
	bool limited;
	uint64_t max, every, after, min_history; /* the last three in ns */
	unsigned keep;                           /* so many snapshots, of the longest durations */
	enum trigger_group group;
	char exec[TRIGGER_VALUE_SIZE]; /* command that is run for each snapshot; "": none */
};

/* Sets the event or rule of a key. value: NULL for none. -EINVAL, with the reason in why. */
int trigger_spec_set(struct trigger_spec *s, const char *key, const char *value, struct reason *why);

/* Checks the whole. -EINVAL. */
int trigger_spec_check(const struct trigger_spec *s, struct reason *why);

/* Parses and checks a text. -EINVAL. */
int trigger_spec_parse(const char *text, struct trigger_spec *ret, struct reason *why);

/* Append the text of the condition, and of the rules, each followed by a NUL. Parsed, they give the same spec. */
void trigger_spec_condition(const struct trigger_spec *s, struct buf *ret);
void trigger_spec_rules(const struct trigger_spec *s, struct buf *ret);

/* True if a value belongs to the key. */
bool trigger_key_has_value(const char *key);

/* True if the hits of this spec have a duration. */
static inline bool trigger_has_duration(const struct trigger_spec *s)
{
	return s->timed;
}

#endif
