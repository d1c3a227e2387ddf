/*
 * What is known of a process's code over time, and what follows from it. Two kinds of facts come in: records (from this
 * time on this is mapped there) and looks (these bytes were read there between these times). What comes out is what
 * stood where from when on. It knows nothing of where the facts are from, and waits for nothing.
 *
 * Bytes hold from the record that made their memory code, where it could not be written from then until they were read:
 * a look counts only if no record of its memory came while it was taken.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_CODE_HISTORY_H
#define CSIGHT_DAEMON_CAPTURE_CODE_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CODE_NO_IMAGE UINT32_MAX

enum code_kind {
	CODE_FILE,   /* a private mapping of a file */
	CODE_MEMORY, /* of no file; or of one that others may write */
	CODE_NONE,   /* no code, for now */
	CODE_EXECED, /* another program is there */
	CODE_LOST,   /* nobody knows what */
};

struct code_record {
	uint64_t time, start, end;
	uint64_t offset; /* of start, in the file */
	enum code_kind kind;
	bool writable; /* what runs there may have been written at any time */
	bool found;    /* seen at this time, and not told: it may have been so before */
	bool instead;  /* and something else was told: until code_history_confirm() a record that comes takes it back */
	uint32_t image;
	const char *path; /* of memory; lives as long as the history */
};

enum code_observation {
	CODE_CLEAN, /* as in the file */
	CODE_BYTES, /* these bytes */
	CODE_DIRTY, /* not as in the file, and not known since when */
};

/* What is there in the end. */
struct code_span {
	uint64_t start, end, offset;
	uint64_t since;
	uint64_t
	    open_since; /* a file's: before `since` it could be written and executed at once, from here on; 0: not */
	enum code_kind kind;
	bool writable;
	bool known;  /* a look counts for it */
	bool closed; /* memory that is no code just now */
	uint32_t image, observation;
	const char *path;
};

/* What stood there: ordered by time, later ones over earlier ones. */
enum code_change_kind { CHANGE_FILE, CHANGE_MEMORY, CHANGE_NONE, CHANGE_UNKNOWN, CHANGE_CODE };

struct code_change {
	uint64_t time, start, end, offset;
	enum code_change_kind kind;
	uint32_t image;
	const char *path;
	const uint8_t *bytes; /* lives until the next look or forget */
	uint32_t order;
};

struct code_history;

/*
 * data: records tell of memory that is no code, too, so that what stayed code between two records was not written.
 */
int code_history_new(bool data, struct code_history **ret);
struct code_history *code_history_free(struct code_history *h);

/* The program describes its own code (a jitdump): memory keeps what it says when it is opened and closed for writing.
 */
void code_history_set_described(struct code_history *h, bool described);

/* In any order of time. -ENOSPC: there are too many; -ENOMEM. */
int code_history_record(struct code_history *h, const struct code_record *r);

/*
 * Read at or after from; until code_history_confirm() nobody knows how late, and records that come take it back. bytes
 * is taken, also on failure.
 */
int code_history_observe(struct code_history *h, enum code_observation kind, uint64_t start, uint64_t end,
			 uint64_t from, uint8_t *bytes);

/* All that was read was read by now, and all records from before are here. */
void code_history_confirm(struct code_history *h, uint64_t now);

/* The caller frees. */
int code_history_spans(const struct code_history *h, struct code_span **ret, size_t *ret_n);
int code_history_changes(const struct code_history *h, struct code_change **ret, size_t *ret_n);

/* Nobody asks for a time before this one any more. */
int code_history_forget(struct code_history *h, uint64_t before);

/* Passes over what was told before this time of memory that never was code. */
void code_history_prune(struct code_history *h, uint64_t before);

/* The time of the first record that names an image; UINT64_MAX: none does. */
uint64_t code_history_image_time(const struct code_history *h, uint32_t image);

/* The time of the record in the middle. */
uint64_t code_history_middle(const struct code_history *h);

/* Bytes of looks, and all memory. */
uint64_t code_history_bytes(const struct code_history *h);
uint64_t code_history_memory(const struct code_history *h);

#endif
