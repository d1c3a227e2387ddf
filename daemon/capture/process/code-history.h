/* SPDX-License-Identifier: MIT */
/*
 * History of a process's code. Input: records (a mapping exists from a time on) and observations (bytes were read at an
 * address in an interval of time). Output: changes, that is, what was at which address from which time on. The module
 * reads nothing itself and never blocks.
 *
 * Observed bytes hold from the record that made their memory executable, provided that it was not writable from then
 * until the observation. An observation counts only if no record for its memory falls into its interval.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_CODE_HISTORY_H
#define CSIGHT_DAEMON_CAPTURE_CODE_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CODE_NO_IMAGE UINT32_MAX

enum code_kind {
	CODE_FILE,   /* a private mapping of a file */
	CODE_MEMORY, /* anonymous, or a file that others may write */
	CODE_NONE,   /* not executable at present */
	CODE_EXECED, /* removed by an exec */
	CODE_LOST,   /* unknown */
};

struct code_record {
	uint64_t time, start, end;
	uint64_t offset; /* of start, in the file, bytes */
	enum code_kind kind;
	bool writable; /* the memory may be written at any time while it is executed */
	bool found;    /* seen in /proc at this time without a record: it may be older */
	/* seen in place of something else: revoked by a later record until code_history_confirm() */
	bool instead;
	uint32_t image;
	const char *path; /* name of memory; must exist as long as the history */
};

enum code_observation {
	CODE_CLEAN, /* as in the file */
	CODE_BYTES, /* these bytes */
	CODE_DIRTY, /* not as in the file, since an unknown time */
};

/* An address interval and its state at the end of the history. */
struct code_span {
	uint64_t start, end, offset;
	uint64_t since;
	uint64_t
	    /* for files: start of an interval before `since` in which the code was writable; 0: none */
	    open_since;
	enum code_kind kind;
	bool writable;
	bool known;  /* an observation counts for it */
	bool closed; /* memory that is not executable at present */
	uint32_t image, observation;
	const char *path;
};

/* A change of what is mapped. Ordered by time; later changes override earlier ones. */
enum code_change_kind { CHANGE_FILE, CHANGE_MEMORY, CHANGE_NONE, CHANGE_UNKNOWN, CHANGE_CODE };

struct code_change {
	uint64_t time, start, end, offset;
	enum code_change_kind kind;
	uint32_t image;
	const char *path;
	const uint8_t *bytes; /* valid until the next observation or forget */
	uint32_t order;
};

struct code_history;

/*
 * data: records also cover memory that is not executable; then memory that stayed executable between two records was
 * not written.
 */
int code_history_new(bool data, struct code_history **ret);
struct code_history *code_history_free(struct code_history *h);
void code_history_clear(struct code_history *h);

/*
 * The program describes its own code in a jitdump: then that description of a memory outlives changes of its
 * protection.
 */
void code_history_set_described(struct code_history *h, bool described);

/* Records may be added in any order of time. -ENOSPC: limit reached; -ENOMEM. */
int code_history_record(struct code_history *h, const struct code_record *r);

/*
 * Adds bytes read at some time ≥ from. Until code_history_confirm() sets the upper bound, a later record for this range
 * invalidates them. Owns bytes from now on, also on failure.
 */
int code_history_observe(struct code_history *h, enum code_observation kind, uint64_t start, uint64_t end,
			 uint64_t from, uint8_t *bytes);

/* All observations were made before now, and all records before now have been added. */
void code_history_confirm(struct code_history *h, uint64_t now);

/*
 * Return what is mapped in the end, by address, and all changes, by time. The caller frees the lists. -E2BIG: the
 * mappings are so many parts, and have been replaced so often, that this would take too long; code_history_clear() ends
 * that.
 */
int code_history_spans(const struct code_history *h, struct code_span **ret, size_t *ret_n);
int code_history_changes(const struct code_history *h, struct code_change **ret, size_t *ret_n);

/* Replaces everything before this time by the state at this time. On failure all records are dropped, or some. */
int code_history_forget(struct code_history *h, uint64_t before);

/* Drops records before this time for memory that was never executable. */
void code_history_prune(struct code_history *h, uint64_t before);

/* Returns the time of the first record that names an image; UINT64_MAX: none does. */
uint64_t code_history_image_time(const struct code_history *h, uint32_t image);

/* Calls fn for the image of each record that has one. */
void code_history_each_image(const struct code_history *h, void (*fn)(void *data, uint32_t image), void *data);

/* Returns the time of the middle record. */
uint64_t code_history_middle(const struct code_history *h);

/* True if there is room for few more records. */
bool code_history_crowded(const struct code_history *h);

/* Memory of the observed bytes, and of the whole history. */
uint64_t code_history_bytes(const struct code_history *h);
uint64_t code_history_memory(const struct code_history *h);

#endif
