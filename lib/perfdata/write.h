/* SPDX-License-Identifier: MIT */
/*
 * Writes a perf.data file that perf can read. The caller writes all other records first, in any order, and then each
 * AUX buffer with pd_write_buffer() and pd_write_bytes(); of a session that is mixed, in any order. Memory use does not
 * grow with the trace. The caller keeps the descriptor, which must be seekable. Errors stick: pd_write_end() returns
 * the first one.
 *
 * A live session is for a pipe: the header comes first, as of a file that was not finished, and all records follow in
 * the order of the calls. It has no descriptor; pd_write_take() moves what has been written to the caller, and
 * pd_write_end() is not called.
 *
 * Each buffer becomes one AUXTRACE record; buffers of a thread have cpu -1.
 */
#ifndef CSIGHT_PERFDATA_WRITE_H
#define CSIGHT_PERFDATA_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PD_MAGIC_ETMV3 0x3030303030303030ull
#define PD_MAGIC_ETMV4 0x4040404040404040ull
#define PD_MAGIC_ETE 0x5050505050505050ull

enum { PD_PARAMS_MAX = 16, PD_BUILD_ID_MAX = 20 };

/* AUX flags, as the kernel has them. */
enum {
	PD_AUX_TRUNCATED = 0x1,
	PD_AUX_OVERWRITE = 0x2,
	PD_AUX_PARTIAL = 0x4,
	PD_AUX_COLLISION = 0x8,
	PD_AUX_RAW = 0x100, /* unframed: the bytes of one trace source */
};

/*
 * Flags of csightd's own, of a thread's buffer that is written while the program runs. CONTINUES: the slice goes on
 * where the one before it ends. GAP: the slice was overwritten before it could be copied, and the file has no bytes of
 * it; bits 32 to 61 of the flags are the buffer's index.
 */
#define PD_AUX_CONTINUES (1ull << 62)
#define PD_AUX_GAP (1ull << 63)
enum { PD_AUX_INDEX_SHIFT = 32, PD_AUX_INDEX_MASK = (1 << 30) - 1 };

/* The trace unit of a CPU, or of a process for the emulated ETM. */
struct pd_cpu {
	uint64_t magic;
	uint64_t cpu;
	uint32_t n_params;
	uint64_t params[PD_PARAMS_MAX]; /* in the order of the metadata of this magic */
};

/* Converts timestamps in the trace to the time of records: zero + (counter * mult >> shift). */
struct pd_clock {
	bool known;
	uint64_t shift, mult, zero;
};

static inline uint64_t pd_clock_time(const struct pd_clock *c, uint64_t counter)
{
	/* The sum is modulo 2^64: zero may be negative. */
	return c->zero + (uint64_t)((unsigned __int128)counter * c->mult >> c->shift);
}

/* The origin of a record, from its sample_id: UINT32_MAX and time 0 for fields that it lacks. */
struct pd_origin {
	uint32_t pid, tid, cpu;
	uint64_t time;
};

/* A sample of an event that counts, or of a CPU's frequency. */
struct pd_sample {
	uint32_t counter;        /* its index */
	struct pd_origin origin; /* of a frequency: the CPU that has it */
	uint64_t value;          /* events since the sample before it, of the same thread; or kHz from then on */
};

struct pd_task {
	uint32_t pid, ppid, tid, ptid;
	bool exit; /* else a fork */
	uint64_t time;
};

/* An event that counts. */
struct pd_event {
	const char *name; /* of a frequency: PD_FREQUENCY_NAME */
	uint32_t type;
	uint64_t config;
	uint64_t period; /* events from one sample to the next; 0: it varies, and there are: */
	uint64_t rate;   /* samples a second */
};

struct pd_session {
	const char *hostname, *release, *arch, *cmdline; /* NULL: omitted */
	uint32_t pmu_type;                               /* type of the cs_etm PMU; 8 if the machine has none */
	uint64_t pmu_config;                             /* attr.config of its event */
	bool snapshot;                                   /* recorded in snapshot (overwrite) mode */
	const struct pd_cpu *cpus;
	uint32_t n_cpus;
	const struct pd_event *counters;
	uint32_t n_counters;
	/* If known, it is written to the file, and records have times of perf's clock; else of CLOCK_MONOTONIC. */
	struct pd_clock clock;
	/* The times are not those of CLOCK_MONOTONIC, but of a clock of the recorder's own. */
	bool own_clock;
	bool mixed; /* other records may follow AUX buffers */
	bool live;  /* no descriptor, no sections behind the records, no sums; implies mixed */
};

struct pd_map {
	uint32_t pid, tid;
	uint64_t addr, len, offset;
	uint32_t major, minor;
	uint64_t inode;
	uint32_t prot, flags;
	uint8_t build_id[PD_BUILD_ID_MAX];
	uint8_t build_id_size; /* 0: unknown; major, minor and inode are written instead */
	const char *path;
	uint64_t time;
};

/* One slice of an AUX buffer: PERF_RECORD_AUX. offset is its beginning, also with PD_AUX_OVERWRITE. */
struct pd_aux {
	uint64_t offset, size, flags;
	uint32_t pid, tid, cpu; /* cpu: UINT32_MAX if none */
	uint64_t time;
};

/* One AUX buffer: PERF_RECORD_AUXTRACE; size bytes follow. */
struct pd_buffer {
	uint64_t size, offset;
	uint64_t reference; /* different for each buffer; 0: the writer chooses it */
	uint32_t index, tid, cpu;
};

struct buf;
struct pd_writer;

int pd_write_begin(int fd, const struct pd_session *session, struct pd_writer **ret);
void pd_write_comm(struct pd_writer *w, uint32_t pid, uint32_t tid, const char *comm, bool exec, uint64_t time);
void pd_write_task(struct pd_writer *w, const struct pd_task *t);
/* pid UINT32_MAX: a mapping of the kernel. */
void pd_write_map(struct pd_writer *w, const struct pd_map *map);
void pd_write_itrace_start(struct pd_writer *w, uint32_t pid, uint32_t tid, uint32_t cpu, uint64_t time);

/* Writes a sample of a counter of the session. */
void pd_write_sample(struct pd_writer *w, const struct pd_sample *sample);

/* Writes a record of the kernel unchanged; body is the part between its header and its sample_id. */
void pd_write_record(struct pd_writer *w, uint32_t type, uint16_t misc, const void *body, size_t size,
		     const struct pd_origin *origin);
void pd_write_aux(struct pd_writer *w, const struct pd_aux *aux);
void pd_write_buffer(struct pd_writer *w, const struct pd_buffer *buffer);
void pd_write_bytes(struct pd_writer *w, const void *data, size_t size);

/* Marks that all trace up to this time has been written, of all buffers; 0: no such time. */
void pd_write_round(struct pd_writer *w, uint64_t time);

/* Adds the notes of the program, which only csight reads, if size is not 0. */
void pd_write_notes(struct pd_writer *w, const void *notes, size_t size);

/* Of a live session: appends what has been written since the last call to *ret. Returns 0 or the first error so far. */
int pd_write_take(struct pd_writer *w, struct buf *ret);

/* Returns the size of the file so far. */
uint64_t pd_write_size(const struct pd_writer *w);

/* Returns 0 or the first error so far. */
int pd_write_error(const struct pd_writer *w);

/* Writes the header, the feature sections and the checksums. Returns 0 or the first error. */
int pd_write_end(struct pd_writer *w);
struct pd_writer *pd_writer_free(struct pd_writer *w);

#endif
