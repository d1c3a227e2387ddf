/* SPDX-License-Identifier: MIT */
/*
 * The store that a verb reads: that of a snapshot, through the daemon, of a file or snapshot directory; or what
 * csight-decode makes of a trace (trace-store.h).
 */
#ifndef CSIGHT_CLIENT_NAMED_STORE_H
#define CSIGHT_CLIENT_NAMED_STORE_H

#include "client/client.h"
#include "lib/base/json.h"
#include "lib/export/names.h"
#include "lib/store/store.h"

struct named_store {
	struct store *store; /* NULL before named_store_read(), unless it is open already */
	int fd;
	uint32_t version;               /* of its format, as it was stored */
	bool suffixes;                  /* set before opening: compiler clones stay apart, under their full names */
	bool redacted;                  /* set before opening: the store is replaced by a redacted copy */
	bool physical;                  /* set before opening: the store is replaced by its physical view */
	struct names *names;            /* short names of its functions; NULL with --json */
	struct csight_object *snapshot; /* the daemon's description; NULL: the input is a file */
};

#define NAMED_STORE_NONE \
	{                \
		.fd = -1 \
	}
#define NAMED_STORE_ARGUMENT "ID|FILE"
#define NAMED_STORE_MISSING "missing snapshot ID or file"
#define NAMED_STORE_PHYSICAL_HELP "let a tail call replace the function that makes it, as the hardware does"
#define NAMED_STORE_TOO_MANY "only one snapshot is accepted"

/* True if name is a file or directory rather than a snapshot ID. */
bool named_store_is_path(const char *name);

/* True if a file begins as one that named_store_open() reads: a store, or trace, which the options may say it is. */
bool named_store_reads(const struct client *c, int fd);

/* Prints an error if options of a decode are given, which a snapshot of the daemon does not need. Returns as below. */
int named_store_check_options(struct client *c, const char *name);

/*
 * Opens the store of a snapshot or file, and names functions whose debug files can be found now. Prints errors. Returns
 * 0 or an exit status.
 */
int named_store_open(struct client *c, const char *name, struct named_store *ret);

/* The same for the descriptor ret->fd, which the caller has opened; name is for messages. */
int named_store_read(struct client *c, const char *name, struct named_store *ret);
void named_store_close(struct named_store *s);

/* Returns false if the store has an older version, in which the time without execution is unknown. */
bool named_store_has_waits(const struct named_store *s);

/* Returns the name of a function as it is printed: without parameters, unless --full-names was given. */
const char *named_store_name(const struct named_store *s, const struct store_function *f);

/* Returns the short names of the functions of both stores, or NULL. */
struct names *named_store_names(const struct client *c, const struct store *a, const struct store *b);

/* True if the trace is of the emulator, whose counts of instructions are exact, unlike its times. */
bool named_store_is_emulated(const struct store *s);

/* Returns the time in ns from the earliest event of any thread to a time. */
uint64_t named_store_since_start(const struct store *s, uint64_t time);

/* Prints a line with the start time, its clock, the duration and the error bound of times; nothing without events. */
void named_store_print_times(FILE *to, const struct store *s);

/* Adds the same to a JSON object. */
void named_store_add_times(const struct store *s, json_object *to);

#endif
