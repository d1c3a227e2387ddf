/*
 * Where a decode's trace and code come from: each kind of input is a struct input.
 *
 *   perf.data   input-perf.c: streams by thread or CPU, code from the files that were mapped
 *   snapshot    input-snapshot.c: one buffer of an Arm trace snapshot, code from its memory dumps
 *   bytes       the same, of one buffer and one source that a file of registers describes
 *   store       input-store.c: no trace, but functions whose names are looked for once more
 */
#ifndef CSIGHT_DECODE_INPUT_H
#define CSIGHT_DECODE_INPUT_H

#include <pthread.h>

#include "daemon/decode/job.h"
#include "daemon/decode/intervals.h"
#include "daemon/decode/schedule.h"
#include "daemon/decode/stream.h"
#include "lib/code/image.h"

struct inlines;
struct input;
struct store;
struct symbols;

struct input_ops {
	/* Bytes of a piece from at on; fewer than size at its end, 0 where there are no more. */
	ssize_t (*read)(struct input *in, const struct pd_piece *piece, uint64_t at, void *ret, size_t size);
	/* As struct engine_memory has them, of a stream. */
	size_t (*code)(struct input *in, const struct stream *stream, const struct engine_context *context,
		       uint64_t address, void *ret, size_t size);
	uint64_t (*version)(struct input *in, const struct stream *stream, const struct engine_context *context);
	/* Which file stands there, and at which offset; NULL where code is of no files. */
	bool (*where)(struct input *in, const struct stream *stream, const struct engine_context *context,
		      uint64_t address, uint32_t *ret_file, uint64_t *ret_offset);
	void (*close)(struct input *in);
	/* What the input is, as text or as one JSON document. */
	int (*info)(struct input *in, bool json, int fd);
};

/* Each kind has this at its head. */
struct input {
	const struct input_ops *ops;
	struct decode_job *job;
	struct stream_list streams;
	const struct pd_contents *contents; /* of a perf.data; of others no more than mappings */
	bool by_core;                       /* the processes of the contents are cores */
	struct image_set *images;
	uint32_t names;                        /* the image that is a perf map, or IMAGE_NONE */
	uint32_t *map_files;                   /* which image each mapping of the contents shows */
	const struct pd_clock *clock;          /* what makes times of timestamps; NULL: nothing is to be done */
	bool has_clock;                        /* the times that come of it are on the clock of the records */
	bool one_process;                      /* it has code of one alone */
	struct schedule *schedule;             /* or NULL */
	struct intervals *shown;               /* NULL: all of it may be */
	const struct element_regions *regions; /* NULL: every range is wanted */
	bool by_space;                         /* as struct engine_memory has it */
	struct pool *pool;                     /* threads that decode; NULL: none */
	pthread_mutex_t asking;                /* what code there is is asked by one at a time */
	bool opencsd[PROTOCOLS];               /* it decoded some of these */
	const struct store
	    *store; /* this is all that there is, and whose functions get other names; NULL: trace is decoded */
	uint64_t alike, differences; /* elements by both engines, and pieces in which one was not; of jobs that ask */
	json_object *warnings;
};

/* A negative errno with a reason in the job. warnings: an array, borrowed. */
int input_perf_open(struct decode_job *job, json_object *warnings, struct input **ret);
int input_snapshot_open(struct decode_job *job, json_object *warnings, struct input **ret);
int input_bytes_open(struct decode_job *job, json_object *warnings, struct input **ret);
int input_store_open(struct decode_job *job, json_object *warnings, struct input **ret);

struct input *input_close(struct input *in);

/*
 * Threads to decode with, where it is worth while: as many as the job says, else as there are CPUs. Without them it is
 * slower and the same.
 */
void input_start_workers(struct input *in);
void input_stop_workers(struct input *in);

/* The number of threads that were started besides the calling one. */
unsigned input_workers(const struct input *in);

/* The operations of these names, from any thread. */
size_t input_code(struct input *in, const struct stream *stream, const struct engine_context *context, uint64_t address,
		  void *ret, size_t size);
uint64_t input_code_version(struct input *in, const struct stream *stream, const struct engine_context *context);
bool input_where(struct input *in, const struct stream *stream, const struct engine_context *context, uint64_t address,
		 uint32_t *ret_file, uint64_t *ret_offset);

/* A timestamp as time. */
uint64_t input_time(const struct input *in, uint64_t stamp);

void input_warn(struct input *in, const char *fmt, ...) _printf_(2, 3);

/* In hexadecimal; NULL where it is not known. */
const char *input_build_id(const struct image_file *f, char ret[2 * IMAGE_BUILD_ID_MAX + 1]);

/* Asks the owner for the images, each until one is the traced file or there are no more. */
int input_request_images(struct input *in);

/* The debug file of an image, asked of the owner; *ret_fd -1: there is none, or none is needed. */
int input_debug_file(const struct input *in, uint32_t file, int *ret_fd);

#endif
