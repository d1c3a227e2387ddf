/* SPDX-License-Identifier: MIT */
/*
 * How a process ended. In JSON: {"text": "died of SIGSEGV", "signal": "SIGSEGV", "tid": 12}, {"text": "died of SIGKILL
 * (out of memory)", "signal": "SIGKILL", "oom": true}, or {"text": "exited with status 3", "status": 3}; csight-decode
 * adds the place.
 */
#ifndef CSIGHT_ENDING_H
#define CSIGHT_ENDING_H

#include "lib/base/json.h"

struct ending {
	bool known;
	int status;   /* as waitpid() returns it */
	uint32_t tid; /* the thread in which it ended; 0: unknown */
	bool oom;     /* the kernel's out-of-memory killer has ended it */
};

enum { ENDING_TEXT_SIZE = 64 };

/* "died of SIGSEGV", "died of SIGKILL (out of memory)", "exited with status 3". The ending must be known. */
void ending_text(const struct ending *e, char ret[ENDING_TEXT_SIZE]);

/* Returns a new object. */
json_object *ending_json(const struct ending *e);

/* -EBADMSG: neither "signal" nor "status" is valid. */
int ending_parse(json_object *o, struct ending *ret);

#endif
