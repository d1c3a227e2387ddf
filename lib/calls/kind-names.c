/* SPDX-License-Identifier: MIT */
/* A file of its own, so that programs that only read stores do not link the rest of lib/calls and the symbol tables. */
#include "lib/base/util.h"
#include "lib/calls/calls.h"

const char *calls_kind_str(enum call_kind kind)
{
	static const char *const names[] = { "call", "tail",    "signal",  "kernel",      "syscall",     "inferred",
					     "odd",  "resumed", "inlined", "folded tail", "resumed tail" };

	return (size_t)kind < ELEMENTS(names) ? names[kind] : "?";
}

const char *calls_leave_str(enum leave_kind kind)
{
	static const char *const names[] = {
		"return", "tail", "unwound", "gap", "end", "switch", "folded", "jump back"
	};

	return (size_t)kind < ELEMENTS(names) ? names[kind] : "?";
}

const char *calls_gap_str(enum gap_kind kind)
{
	static const char *const names[] = { "no sync",  "overflow",  "no code", "wrong code",  "paused",
					     "too deep", "truncated", "lost",    "overwritten", "untraced CPU" };

	return (size_t)kind < ELEMENTS(names) ? names[kind] : "?";
}

const char *calls_mark_str(enum mark_kind kind)
{
	static const char *const names[] = {
		"depth uncertain", "depth certain", "depth was uncertain", "trace event 0",
		"trace event 1",   "trace event 2", "trace event 3",       "trace trigger"
	};

	return (size_t)kind < ELEMENTS(names) ? names[kind] : "?";
}
