/*
 * Writes a perf.data file that perf itself reads. The caller gives events in any order but for the trace: first
 * everything else, then each AUX buffer with pd_write_buffer() and its bytes. Memory does not grow with the trace. The
 * descriptor must be seekable; it stays the caller's. Errors stick: pd_write_end() returns the first one.
 *
 * For a target of several processes or CPUs each buffer is one AUXTRACE event; buffers of a thread carry cpu -1.
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
	PD_AUX_RAW = 0x100, /* no frames: one source's bytes alone */
};

/* One CPU's (or for an emulated ETM: the process's) trace unit. */
struct pd_cpu {
	uint64_t magic;
	uint64_t cpu;
	uint32_t n_params;
	uint64_t params[PD_PARAMS_MAX]; /* in the order that the metadata of this magic has */
};

/* From the trace's timestamps to the time of records: zero + counter * mult >> shift. */
struct pd_clock {
	bool known;
	uint64_t shift, mult, zero;
};

static inline uint64_t pd_clock_time(const struct pd_clock *c, uint64_t counter)
{
	/* What is added may be negative: sums are modulo 2^64. */
	return c->zero + (uint64_t)((unsigned __int128)counter * c->mult >> c->shift);
}

/* Who gave a record, as far as its sample_id tells: UINT32_MAX and time 0 where it does not. */
struct pd_origin {
	uint32_t pid, tid, cpu;
	uint64_t time;
};

struct pd_task {
	uint32_t pid, ppid, tid, ptid;
	bool exit; /* else a fork */
	uint64_t time;
};

struct pd_session {
	const char *hostname, *release, *arch, *cmdline; /* NULL: left out */
	uint32_t pmu_type;                               /* type of the cs_etm PMU; 8 where there is none */
	uint64_t pmu_config;                             /* attr.config of its event */
	bool snapshot;                                   /* recorded in snapshot (overwrite) mode */
	const struct pd_cpu *cpus;
	uint32_t n_cpus;
	/* Known: the records' times are the kernel's own clock's, and this is written down; else CLOCK_MONOTONIC's. */
	struct pd_clock clock;
};

struct pd_map {
	uint32_t pid, tid;
	uint64_t addr, len, offset;
	uint32_t major, minor;
	uint64_t inode;
	uint32_t prot, flags;
	uint8_t build_id[PD_BUILD_ID_MAX];
	uint8_t build_id_size; /* 0: unknown; major, minor and inode are written then */
	const char *path;
	uint64_t time;
};

/* One slice of an AUX buffer: PERF_RECORD_AUX. offset is where it begins, also with PD_AUX_OVERWRITE. */
struct pd_aux {
	uint64_t offset, size, flags;
	uint32_t pid, tid, cpu; /* cpu: UINT32_MAX for none */
	uint64_t time;
};

/* One AUX buffer: PERF_RECORD_AUXTRACE; size bytes follow. */
struct pd_buffer {
	uint64_t size, offset;
	uint64_t reference; /* unlike any other buffer's; 0: one is chosen */
	uint32_t index, tid, cpu;
};

struct pd_writer;

int pd_write_begin(int fd, const struct pd_session *session, struct pd_writer **ret);
void pd_write_comm(struct pd_writer *w, uint32_t pid, uint32_t tid, const char *comm, bool exec, uint64_t time);
void pd_write_task(struct pd_writer *w, const struct pd_task *t);
void pd_write_map(struct pd_writer *w, const struct pd_map *map);
void pd_write_itrace_start(struct pd_writer *w, uint32_t pid, uint32_t tid, uint32_t cpu, uint64_t time);

/* A record as the kernel gave it: what stands between its header and its sample_id. */
void pd_write_record(struct pd_writer *w, uint32_t type, uint16_t misc, const void *body, size_t size,
		     const struct pd_origin *origin);
void pd_write_aux(struct pd_writer *w, const struct pd_aux *aux);
void pd_write_buffer(struct pd_writer *w, const struct pd_buffer *buffer);
void pd_write_bytes(struct pd_writer *w, const void *data, size_t size);

/* Completes headers and feature sections. */
int pd_write_end(struct pd_writer *w);
struct pd_writer *pd_writer_free(struct pd_writer *w);

#endif
