/* SPDX-License-Identifier: MIT */
/*
 * What a trigger waits for, and its rules. One grammar serves the options of csight watch, the keys of a section of
 * csightd.conf, and the text in org.csight: a list of keys, most with a value. A condition is one event:
 *
 *	function NAME [longer-than TIME|p99]
 *	address ADDRESS
 *	line FILE:LINE
 *	syscall NAME longer-than TIME|p99
 *	off-cpu-longer-than TIME|p99
 *	signal NAME
 *	crash
 *	exit
 *	exit-status N
 *	oom
 *	period TIME
 *
 * The key "or" or "and" joins conditions, not both. With "or", each hit of a condition is a hit of the trigger. "and"
 * needs "within TIME": a hit of a condition is a hit of the trigger if each other condition has been hit in this time
 * before it, since the last hit of the trigger. "longer-than" belongs to its condition, "within" and the rules to the
 * trigger: once; max N; every TIME; after TIME; min-history TIME; keep N; group tree, cgroup or unit; exec COMMAND. As
 * text, keys and values are words with a blank between them; a value with blanks or quotes is in double quotes, within
 * which a backslash escapes one character. TIME is a number with a unit: ns, us, ms, s, m, h.
 */
#ifndef CSIGHT_TRIGGER_SPEC_H
#define CSIGHT_TRIGGER_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/reason.h"

enum { TRIGGER_VALUE_SIZE = 1024, TRIGGER_TEXT_MAX = 4096, TRIGGER_KEEP_MAX = 100, TRIGGER_CONDITIONS_MAX = 4 };

#define TRIGGER_P99 UINT64_MAX

enum trigger_event {
	TRIGGER_NONE,
	TRIGGER_FUNCTION,
	TRIGGER_ADDRESS,
	TRIGGER_LINE,
	TRIGGER_SYSCALL,
	TRIGGER_OFF_CPU,
	TRIGGER_SIGNAL,
	TRIGGER_CRASH,
	TRIGGER_EXIT,
	TRIGGER_EXIT_STATUS,
	TRIGGER_OOM,
	TRIGGER_PERIOD,
};

/* Of which processes besides its own a trigger takes snapshots: those of the same tree, control group or unit. */
enum trigger_group { TRIGGER_ALONE, TRIGGER_TREE, TRIGGER_CGROUP, TRIGGER_UNIT };

struct trigger_condition {
	enum trigger_event event;
	char value[TRIGGER_VALUE_SIZE]; /* of the event, as text; "": it has none */
	uint64_t number;                /* the address, signal, status or time (ns) that value is */
	bool timed;                     /* longer_than is set, as it is for TRIGGER_OFF_CPU */
	uint64_t longer_than;           /* ns, or TRIGGER_P99: the 99th percentile of the last minute */
};

struct trigger_spec {
	struct trigger_condition conditions[TRIGGER_CONDITIONS_MAX];
	unsigned joins;  /* the number of or, or of and: there is one condition more */
	bool all;        /* they are and */
	uint64_t within; /* of and, in ns; 0: none */
	/* Rules. Zeros: none; max has a meaning only if limited. */
	bool limited;
	uint64_t max, every, after, min_history; /* the last three in ns */
	unsigned keep;                           /* so many snapshots, of the longest durations */
	enum trigger_group group;
	char exec[TRIGGER_VALUE_SIZE]; /* command that is run for each snapshot; "": none */
};

/* Sets the event or rule of a key, or begins the next condition. value: NULL for none. -EINVAL, with the reason. */
int trigger_spec_set(struct trigger_spec *s, const char *key, const char *value, struct reason *why);

/* Checks the whole. -EINVAL. */
int trigger_spec_check(const struct trigger_spec *s, struct reason *why);

/* Parses and checks a text. -EINVAL. */
int trigger_spec_parse(const char *text, struct trigger_spec *ret, struct reason *why);

/* Append the text of all conditions, and of the rules, each followed by a NUL. Parsed, they give the same spec. */
void trigger_spec_append_text(const struct trigger_spec *s, struct buf *ret);
void trigger_spec_rules(const struct trigger_spec *s, struct buf *ret);

/* Appends the text of one condition, followed by a NUL. */
void trigger_condition_text(const struct trigger_condition *c, struct buf *ret);

/* True if a value belongs to the key. */
bool trigger_key_has_value(const char *key);

static inline unsigned trigger_spec_count(const struct trigger_spec *s)
{
	return s->joins + 1;
}

/* True if a condition has a limit: its hits have a duration. */
static inline bool trigger_spec_timed(const struct trigger_spec *s)
{
	for (unsigned i = 0; i < trigger_spec_count(s); i++)
		if (s->conditions[i].timed)
			return true;
	return false;
}

/* True for the events whose place in the code is found by symbols: function and line. */
static inline bool trigger_condition_needs_symbols(const struct trigger_condition *c)
{
	return c->event == TRIGGER_FUNCTION || c->event == TRIGGER_LINE;
}

/* True for the events that are the end of the process. */
static inline bool trigger_condition_of_end(const struct trigger_condition *c)
{
	return c->event == TRIGGER_CRASH || c->event == TRIGGER_EXIT || c->event == TRIGGER_EXIT_STATUS ||
	       c->event == TRIGGER_OOM;
}

#endif
