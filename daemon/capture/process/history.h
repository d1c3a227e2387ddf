/*
 * What is known of a process's code over time, and what follows from it. Two kinds of facts come in: records (from this
 * time on this is mapped there) and looks (these bytes were read there between these times). What comes out is what
 * stood where from when on. It knows nothing of where the facts are from, and waits for nothing.
 *
 * Bytes hold from the record that made their memory code, where it could not be written from then until they were read:
 * a look counts only if no record of its memory came while it was taken.
 */
#ifndef CSIGHT_DAEMON_CAPTURE_HISTORY_H
#define CSIGHT_DAEMON_CAPTURE_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HISTORY_NO_IMAGE UINT32_MAX

enum history_kind {
	HISTORY_FILE,   /* a private mapping of a file */
	HISTORY_MEMORY, /* of no file; or of one that others may write */
	HISTORY_NONE,   /* no code, for now */
	HISTORY_GONE,   /* another program is there */
	HISTORY_LOST,   /* nobody knows what */
};

struct history_record {
	uint64_t time, start, end;
	uint64_t offset; /* of start, in the file */
	enum history_kind kind;
	bool writable; /* what runs there may have been written at any time */
	bool found;    /* seen at this time, and not told: it may have been so before */
	bool instead;  /* and something else was told: until history_close() a record that comes takes it back */
	uint32_t image;
	const char *path; /* of memory; lives as long as the history */
};

enum history_look {
	HISTORY_CLEAN, /* as in the file */
	HISTORY_BYTES, /* these bytes */
	HISTORY_DIRTY, /* not as in the file, and not known since when */
};

/* What is there in the end. */
struct history_segment {
	uint64_t start, end, offset;
	uint64_t since;
	uint64_t
	    open_since; /* a file's: before `since` it could be written and executed at once, from here on; 0: not */
	enum history_kind kind;
	bool writable;
	bool known;  /* a look counts for it */
	bool closed; /* memory that is no code just now */
	uint32_t image, look;
	const char *path;
};

/* What stood there: ordered by time, later ones over earlier ones. */
enum history_out_kind { OUT_FILE, OUT_MEMORY, OUT_NONE, OUT_UNKNOWN, OUT_CODE };

struct history_out {
	uint64_t time, start, end, offset;
	enum history_out_kind kind;
	uint32_t image;
	const char *path;
	const uint8_t *bytes; /* lives until the next look or forget */
	uint32_t order;
};

struct history;

/*
 * data: records tell of memory that is no code, too, so that what stayed code between two records was not written.
 */
int history_new(bool data, struct history **ret);
struct history *history_free(struct history *h);

/* The program describes its own code (a jitdump): memory keeps what it says when it is opened and closed for writing.
 */
void history_described(struct history *h, bool described);

/* In any order of time. -ENOSPC: there are too many; -ENOMEM. */
int history_record(struct history *h, const struct history_record *r);

/*
 * Read at or after from; until history_close() nobody knows how late, and records that come take it back. bytes is
 * taken, also on failure.
 */
int history_look(struct history *h, enum history_look kind, uint64_t start, uint64_t end, uint64_t from,
		 uint8_t *bytes);

/* All that was read was read by now, and all records from before are here. */
void history_close(struct history *h, uint64_t now);

/* The caller frees. */
int history_segments(const struct history *h, struct history_segment **ret, size_t *ret_n);
int history_outs(const struct history *h, struct history_out **ret, size_t *ret_n);

/* Nobody asks for a time before this one any more. */
int history_forget(struct history *h, uint64_t before);

/* Passes over what was told before this time of memory that never was code. */
void history_prune(struct history *h, uint64_t before);

/* The time of the first record that names an image; UINT64_MAX: none does. */
uint64_t history_image_time(const struct history *h, uint32_t image);

/* The time of the record in the middle. */
uint64_t history_middle(const struct history *h);

/* Bytes of looks, and all memory. */
uint64_t history_bytes(const struct history *h);
uint64_t history_memory(const struct history *h);

#endif
