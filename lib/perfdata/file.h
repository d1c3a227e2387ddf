/* SPDX-License-Identifier: MIT */
/* Shared by the parts of the reader: read.c (header, events, record loop), records.c (each record), features.c. */
#ifndef CSIGHT_PERFDATA_FILE_H
#define CSIGHT_PERFDATA_FILE_H

#include "lib/base/buf.h"
#include "lib/base/reader.h"
#include "lib/perfdata/format.h"
#include "lib/perfdata/pieces.h"
#include "lib/perfdata/read.h"

/* What the samples of an event are: nothing that is kept, events that it counted, or a CPU's frequency. */
enum counter_kind { NO_COUNTER, COUNTER, FREQUENCY, FREQUENCY_RAW };

struct event {
	uint32_t type;
	uint64_t config, period; /* period 0: it varies */
	uint64_t sample_type, read_format;
	bool sample_id_all;
	bool of_threads, of_cpus; /* from ID_INDEX records */
	enum counter_kind counter;
};

struct event_id {
	uint64_t id;
	uint32_t event;
};

/*
 * Lists kept while reading. NAMES holds NUL-terminated texts; pointers to a name hold its offset there until all are
 * read, since the list may move.
 */
enum list {
	IDS,
	CPUS,
	COMMS,
	TASKS,
	MAPS,
	TASKS_BEFORE, /* by mapping: how many TASKS precede it in the file */
	HW_IDS,
	RUNS,
	RECORDS,
	BUFFERS,
	NAMES,
	NOTES,
	COUNTERS,
	SAMPLES,
	LISTS
};

struct pd_file {
	int fd;
	uint64_t size;
	struct pd_contents contents;
	bool has_metadata;
	uint8_t features[PD_FEAT_MAX / 8];
	uint64_t data, data_end;
	bool has_sums;
	bool data_cut; /* the file ends within the data section */
	struct event *events;
	size_t n_events;
	struct buf lists[LISTS];
	size_t last_record; /* 1 + the index in RECORDS of the record that has just been read; 0: it was another one */
	struct pd_pieces pieces;
	struct pd_inflate *inflate; /* NULL: no record was compressed yet */
	bool inflate_broken;
	/* A part of the file, read ahead. */
	uint8_t *window;
	uint64_t window_at;
	size_t window_size;
};

/* Orders struct event_id by id, for qsort() and bsearch(). */
int pd_compare_ids(const void *left, const void *right);

/* Records damage in contents.damage, which keeps the first. */
void pd_damage(struct pd_file *f, uint64_t offset, const char *cause);

/* Reads the header and the events. -EBADMSG, with *p: they are invalid. */
int pd_read_events(struct pd_file *f, struct pd_problem *p);

/* Reads the names of the events, and determines what their samples are. */
int pd_read_event_names(struct pd_file *f);

/* Reads at most 1 MiB of the file; *ret is valid until the next call, and shorter at the end of the file. */
int pd_view(struct pd_file *f, uint64_t offset, size_t size, struct reader *ret);

/*
 * Keeps the text at r, which may fill its record without a NUL. Returns its offset in NAMES, as a pointer. Offset 0 is
 * "", and NULL is returned if the list is full.
 */
const char *pd_keep_name(struct pd_file *f, struct reader *r);

/* Parses a record; r is its body. -EBADMSG: too short for its type; -EOPNOTSUPP: AUX trace other than CoreSight. */
int pd_on_record(struct pd_file *f, uint32_t type, uint16_t misc, struct reader *r);

/* Returns the event with this ID; the first one, if there is none. */
struct event *pd_event_of(const struct pd_file *f, uint64_t id);

/* Keeps a sample of an event that counts. -EBADMSG: it is too short for its event. */
int pd_on_sample(struct pd_file *f, struct reader *r);

/* Parses an AUXTRACE record; *ret_size is the number of bytes of trace that follow it. */
int pd_on_auxtrace(struct pd_file *f, struct reader *r, uint64_t file_offset, uint64_t *ret_size);

/* Reads the writer's version and the build-ids of mappings whose records have none. Invalid sections are ignored. */
int pd_read_features(struct pd_file *f);

/*
 * Compressed records form one zstd stream, which is cut at arbitrary bytes. Passes whole records to on_record in order,
 * and keeps an incomplete one until the next call. -EBADMSG: invalid stream; -EFBIG: implausibly large; otherwise the
 * return value of on_record.
 */
struct pd_inflate;
typedef int (*pd_record_fn)(struct pd_file *f, uint32_t type, uint16_t misc, struct reader *body);
int pd_inflate(struct pd_file *f, const struct reader *compressed, pd_record_fn on_record);

/* False if the stream ended within a record. */
bool pd_inflate_whole(const struct pd_inflate *i);
struct pd_inflate *pd_inflate_free(struct pd_inflate *i);

/* inherit.c: after all records. Gives forked processes the code mappings of their parents. -ENOMEM. */
int pd_inherit_maps(struct pd_file *f);

#endif
