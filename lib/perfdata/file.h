/* What the parts of the reader share: read.c (the file), records.c, features.c (what stands in it). */
#ifndef CSIGHT_PERFDATA_FILE_H
#define CSIGHT_PERFDATA_FILE_H

#include "lib/base/buf.h"
#include "lib/base/reader.h"
#include "lib/perfdata/format.h"
#include "lib/perfdata/pieces.h"
#include "lib/perfdata/read.h"

struct event {
	uint32_t type;
	uint64_t sample_type;
	bool sample_id_all;
	bool of_threads, of_cpus; /* as far as the index of identifiers tells */
};

struct event_id {
	uint64_t id;
	uint32_t event;
};

/* What is kept of the file. Names are text with its NUL, told of by offset until all are read. */
enum list { IDS, CPUS, COMMS, TASKS, MAPS, LINKS, HW_IDS, RUNS, RECORDS, BUFFERS, NAMES, LISTS };

enum { PD_HEADS = 4096 };

struct pd_file {
	int fd;
	uint64_t size;
	struct pd_contents contents;
	bool has_metadata;
	uint8_t features[PD_FEAT_MAX / 8];
	uint64_t data, data_end;
	bool has_sums;
	bool data_cut; /* the file ends before they do */
	struct event *events;
	size_t n_events;
	struct buf lists[LISTS];
	struct pd_pieces pieces;
	/* Each process's mappings of code, from the last one back: by its hash where to begin, by mapping where to go
	   on, plus one. */
	uint32_t heads[PD_HEADS];
	size_t inherited;
	struct pd_inflate *inflate; /* where there was something compressed */
	bool inflate_broken;
	/* A stretch of the file, read ahead. */
	uint8_t *window;
	uint64_t window_at;
	size_t window_size;
};

/* By number. */
int pd_compare_ids(const void *left, const void *right);

/* The first damage is the one that is told. */
void pd_damage(struct pd_file *f, uint64_t offset, const char *cause);

/* A view of at most 1 MiB of the file, good until the next call; shorter at the end of the file. */
int pd_view(struct pd_file *f, uint64_t offset, size_t size, struct reader *ret);

/*
 * Text from a record, kept by its offset until all are known; it may lack its NUL where it fills the record.
 * 0 stands for "", and for what there was no more room for.
 */
const char *pd_keep_name(struct pd_file *f, struct reader *r);

/* r is what stands behind the record's header. -EBADMSG: too short; -EOPNOTSUPP: trace of another kind. */
int pd_on_record(struct pd_file *f, uint32_t type, uint16_t misc, struct reader *r);

/* *ret_size: the bytes of trace that follow the record. */
int pd_on_auxtrace(struct pd_file *f, struct reader *r, uint64_t file_offset, uint64_t *ret_size);

/* Who wrote the file, and the build-ids of mappings that do not say it themselves. What is broken says nothing. */
int pd_read_features(struct pd_file *f);

/*
 * Compressed records are one zstd stream, cut anywhere: whole records go to the function given, in order, and what is
 * left waits for the next part. -EBADMSG: not such a stream; -EFBIG: more than can be believed; else what the function
 * returned.
 */
struct pd_inflate;
typedef int (*pd_record_fn)(struct pd_file *f, uint32_t type, uint16_t misc, struct reader *body);
int pd_inflate(struct pd_file *f, const struct reader *compressed, pd_record_fn on_record);
/* False: the stream ended within a record. */
bool pd_inflate_whole(const struct pd_inflate *i);
struct pd_inflate *pd_inflate_free(struct pd_inflate *i);

#endif
