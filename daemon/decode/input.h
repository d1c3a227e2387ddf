/* SPDX-License-Identifier: MIT */
/*
 * The input of a decode: where trace and code come from. Each kind of input extends struct input:
 *
 *   perf.data   input-perf.c: streams by thread or CPU; code from the mapped files and from captured code
 *   snapshot    input-snapshot.c: one buffer of an Arm snapshot; code from its memory dumps
 *   bytes       input-snapshot.c: a file of bare trace, whose one trace source a file of registers describes
 *   store       input-store.c: no trace and no code; functions that are to be renamed
 */
#ifndef CSIGHT_DECODE_INPUT_H
#define CSIGHT_DECODE_INPUT_H

#include <pthread.h>

#include "daemon/decode/intervals.h"
#include "daemon/decode/job.h"
#include "daemon/decode/schedule.h"
#include "daemon/decode/stream.h"
#include "lib/code/image.h"

struct input;
struct store;

struct input_ops {
	/* Reads bytes of a piece from offset `at`: fewer than size at its end, 0 beyond. */
	ssize_t (*read)(struct input *in, const struct pd_piece *piece, uint64_t at, void *ret, size_t size);
	/* As in struct engine_memory, for a stream. */
	size_t (*code)(struct input *in, const struct stream *stream, const struct engine_context *context,
		       uint64_t address, void *ret, size_t size);
	uint64_t (*version)(struct input *in, const struct stream *stream, const struct engine_context *context);
	/* The file and the offset mapped at an address. NULL if code does not come from files. */
	bool (*where)(struct input *in, const struct stream *stream, const struct engine_context *context,
		      uint64_t address, uint32_t *ret_file, uint64_t *ret_offset);
	void (*close)(struct input *in);
	/* Writes a description of the input, as text or as one JSON document. */
	int (*info)(struct input *in, bool json, int fd);
};

/* The first member of each kind of input. */
struct input {
	const struct input_ops *ops;
	struct decode_job *job;
	struct stream_list streams;
	const struct pd_contents *contents;    /* of a perf.data; for other kinds, it has at most mappings */
	bool once;                             /* a pipe: it is read in order, and its size is unknown */
	bool by_core;                          /* processes in the contents are cores */
	struct image_set *images;              /* NULL in a job that only describes the input */
	uint32_t names;                        /* number of the image that is a perf map, or IMAGE_NONE */
	struct symbols *described;             /* functions by address, from a jitdump; or NULL */
	uint32_t *map_files;                   /* image of each mapping in the contents */
	struct buf kernel;                     /* of struct image_mapping: the parts of the kernel's image */
	const struct pd_clock *clock;          /* converts timestamps to times; NULL: they are used as they are */
	bool has_clock;                        /* times of timestamps are on the clock of the records */
	uint64_t begins;                       /* all trace is later, if has_clock; 0: unknown */
	bool one_process;                      /* only one process has mappings */
	struct schedule *schedule;             /* NULL: no perf.data */
	struct intervals *shown;               /* of a shared sink: emit only these; NULL: emit everything */
	const struct element_regions *regions; /* engines merge ranges within a region; NULL: emit every range */
	bool by_space;                         /* as in struct engine_memory */
	struct pool *pool;                     /* worker threads; NULL: none */
	bool parallel;                         /* the trace is long enough, and there are CPUs, for several threads */
	pthread_mutex_t code_lock;             /* serializes the operations code, version and where */
	bool opencsd[PROTOCOLS];               /* OpenCSD decoded trace of this protocol */
	const struct store *store;             /* of an input that is a store; else NULL */
	uint64_t alike, differences;           /* of --verify: equal elements; pieces with a difference */
	uint64_t sums_used;                    /* of DEBUG_SUMS_MAX */
	bool sums_refused;                     /* they did not suffice */
	json_object *warnings;
};

/* Open an input; on failure, the job has a reason. warnings is an array of strings, borrowed. */
int input_perf_open(struct decode_job *job, json_object *warnings, struct input **ret);
int input_snapshot_open(struct decode_job *job, json_object *warnings, struct input **ret);
int input_bytes_open(struct decode_job *job, json_object *warnings, struct input **ret);
int input_store_open(struct decode_job *job, json_object *warnings, struct input **ret);

/* A part of a recording that is followed: one process, whose images and mappings are known. */
struct input_part {
	int fd; /* a perf.data that was not finished */
	struct image_set *images;
	uint32_t pid;   /* UINT32_MAX: unknown */
	uint64_t since; /* all trace is later */
};

/* As input_perf_open(). What is in the part is borrowed. */
int input_part_open(struct decode_job *job, const struct input_part *part, json_object *warnings, struct input **ret);

struct input *input_close(struct input *in);

/*
 * Starts worker threads if the trace is long enough: as many as the job requests, else one per CPU. Failure only makes
 * decoding slower; the output does not depend on the number of workers.
 */
void input_start_workers(struct input *in);
void input_stop_workers(struct input *in);

/* Returns the number of threads that were started besides the calling one. */
unsigned input_workers(const struct input *in);

/* Call the operations code, version and where; from any thread. */
size_t input_code(struct input *in, const struct stream *stream, const struct engine_context *context, uint64_t address,
		  void *ret, size_t size);
uint64_t input_code_version(struct input *in, const struct stream *stream, const struct engine_context *context);
bool input_where(struct input *in, const struct stream *stream, const struct engine_context *context, uint64_t address,
		 uint32_t *ret_file, uint64_t *ret_offset);

/* Converts a timestamp to a time. */
uint64_t input_time(const struct input *in, uint64_t stamp);

/* Adds a warning to the result of the job. */
void input_warn(struct input *in, const char *fmt, ...) _printf_(2, 3);

/* Writes the build-id of an image to ret in hexadecimal, and returns it; NULL if it is unknown. */
const char *input_build_id(const struct image_file *f, char ret[2 * IMAGE_BUILD_ID_MAX + 1]);

/* Returns the images, for the result of the job: whether each was found. */
json_object *input_images_json(const struct input *in);

/*
 * Adds a mapping of a perf.data, at its time, to the images; *ret_file is the number of its file, or IMAGE_NONE.
 */
int input_map(struct input *in, const struct pd_map *m, uint64_t time, uint32_t *ret_file);

/* Requests an image from the owner, until a reply is the traced file or the owner has no further one. */
int input_request_image(struct input *in, uint32_t file);

int input_request_images(struct input *in);

/* Requests the debug file of an image. *ret_fd is -1 if there is none, or if the image needs none. */
int input_request_debug_file(struct input *in, uint32_t file, int *ret_fd);

#endif
