/* SPDX-License-Identifier: MIT */
/*
 * The shared memory between csight-etm.so (inside QEMU, the writer) and csightd, and how a program registers.
 *
 * Each process has one sealed memfd, which holds, in this order: the header, the slots (one per thread), the log of
 * mappings and code, the rings. The plugin writes all fields except `control`. The daemon trusts none of them: it
 * copies a field once, checks the copy against the sealed size, and uses only the copy.
 *
 * Registration: the plugin connects to the SOCK_SEQPACKET socket beside the control socket and sends EMU_HELLO with the
 * memfd. The daemon identifies the process by SO_PEERCRED and answers EMU_WELCOME. Later the plugin sends EMU_FILE with
 * the descriptor of each file that is mapped with code, so that the daemon never opens a path named by the traced
 * process. The connection stays open for the life of the process; the daemon treats its end as the end of the
 * process. When the daemon ends, the plugin keeps the memory and its connection's place: it connects to the next daemon
 * at the socket, and sends EMU_HELLO with the same memfd, whose rings hold the history, and all files again.
 *
 * Freeze: the daemon sets `control` to a new odd value and waits until every slot has obeyed: `seen == control`, or the
 * state is not EMU_RUNNING. A thread that enters a system call flushes its stream and stores EMU_IDLE; on return it
 * first stores EMU_RUNNING and then reads `control`, all sequentially consistent, so that either the daemon or the
 * thread sees the other's store. Thaw: the daemon sets `control` to a new even value; the thread's stream continues
 * with a sync point. A frozen thread continues to run, untraced.
 *
 * Clock: times are those of the header's clock, which is CLOCK_MONOTONIC or the virtual clock of
 * lib/emu/thread-clock.h. A thread's virtual time is base_ns + instructions. CLOCK_MONOTONIC was lag_ns later when the
 * thread last entered a system call or stopped; it remains so while the thread waits there. Records of the log have a
 * time that orders them against the trace of each thread: no thread has executed older code after it.
 */
#ifndef CSIGHT_EMU_RING_H
#define CSIGHT_EMU_RING_H

#include <stdatomic.h>
#include <stdint.h>

#define EMU_MAGIC 0x00314d4554455343ull /* "CSETEM1" */

enum {
	EMU_VERSION = 2,
	EMU_RINGS_MAX = 4096,
	EMU_RING_SIZE_MIN = 64 << 10,
	EMU_RING_SIZE_MAX = 1 << 30,
	EMU_LOG_SIZE_MAX = 256 << 20,
	EMU_NAME_SIZE = 16,
	EMU_CMDLINE_SIZE = 4096,
	EMU_PATH_SIZE = 4096,
	EMU_BUILD_ID_MAX = 20,
	EMU_PENDING_MAX = 64, /* bytes that etm_finish_stream() may add to a stream */
	EMU_ENDED = 1 << 30,
};

/* The registers that a decoder needs, as in the metadata of perf.data. */
struct emu_regs {
	uint32_t configr, traceidr, idr0, idr1, idr2, idr8, authstatus, reserved;
};

enum emu_clock { EMU_CLOCK_WALL, EMU_CLOCK_VIRTUAL };

enum emu_state { EMU_FREE, EMU_RUNNING, EMU_IDLE, EMU_EXITED };

struct emu_slot {
	_Atomic uint32_t state;
	_Atomic uint32_t seen; /* the last control word that the thread obeyed */
	uint32_t tid;
	uint32_t serial;           /* counts the threads that used this slot */
	char name[EMU_NAME_SIZE];  /* the thread's comm */
	uint64_t start_ns, end_ns; /* on the thread's clock; end is 0 while the thread lives */
	_Atomic uint64_t head;     /* bytes ever written by this thread; the ring has the last min(head, ring_size) */
	_Atomic uint64_t base_ns, lag_ns; /* the thread's clock: see below */
	_Atomic uint64_t instructions;    /* retired and traced */
	_Atomic uint64_t truth; /* instructions in the truth log when the stream was last flushed; 0: no log */
	/* The encoder's pending atoms, with which etm_finish_stream() completes the stream of a thread that died. */
	_Atomic uint64_t pending;
	uint8_t reserved[24];
};

struct emu_header {
	uint64_t magic;
	uint32_t version, header_size;
	uint64_t total_size;
	uint32_t n_rings, slot_size;
	uint64_t slots_offset;
	uint64_t log_offset, log_size;
	uint64_t rings_offset, ring_size; /* ring_size: a power of two; ring i begins at rings_offset + i * ring_size */
	struct emu_regs regs;
	uint32_t pid, parent;           /* parent: the process that forked this one, or 0 */
	uint64_t start_ns;              /* CLOCK_MONOTONIC */
	char name[EMU_NAME_SIZE];       /* the program's name, not qemu's */
	char exe[EMU_PATH_SIZE];        /* the program's file */
	char cmdline[EMU_CMDLINE_SIZE]; /* its arguments, each terminated by NUL; cmdline_size bytes */
	uint32_t cmdline_size;
	_Atomic uint32_t control;      /* written only by the daemon; odd: frozen, even: armed */
	_Atomic uint32_t ended;        /* 0, or EMU_ENDED | the status as waitpid() returns it */
	uint32_t ended_tid;            /* the thread in which the program ended */
	_Atomic uint64_t log_head;     /* bytes of complete records in the log */
	_Atomic uint64_t log_lost;     /* records that did not fit in the log */
	_Atomic uint64_t lost_threads; /* threads without a slot, which run untraced */
	uint32_t clock;                /* enum emu_clock */
	uint32_t reserved;
};

/* The log: adjacent records of multiples of 8 bytes, which never change. */
enum emu_record_type { EMU_REC_MAP = 1, EMU_REC_CODE = 2, EMU_REC_COMM = 3 };

struct emu_record {
	uint32_t type, size; /* size: of the whole record */
	uint64_t time_ns;
};

/* A file or anonymous memory is mapped at addr from this time on, and replaces earlier mappings there. */
struct emu_record_map {
	struct emu_record head;
	uint64_t addr, len, offset;
	uint32_t prot, file; /* file: the id sent with EMU_FILE; 0 for none */
	uint32_t major, minor;
	uint64_t inode;
	uint8_t build_id_size, build_id[EMU_BUILD_ID_MAX], reserved[3];
	/* then the path, NUL-terminated, padded to 8; "//anon" for anonymous memory */
};

/* Code at addr that differs from the mapped file and from earlier code records. */
struct emu_record_code {
	struct emu_record head;
	uint64_t addr, len;
	/* then len bytes, padded to 8 */
};

struct emu_record_comm {
	struct emu_record head;
	uint32_t tid, reserved;
	char name[EMU_NAME_SIZE];
};

/* Messages on the registration socket; each a struct emu_message, some with a descriptor. */
enum emu_message_type {
	EMU_HELLO = 1,   /* plugin → daemon, with the memfd */
	EMU_WELCOME = 2, /* daemon → plugin; value: 0, or a negative errno if the registration is refused */
	EMU_FILE = 3,    /* plugin → daemon, with a read-only descriptor; value: the file's id */
};

struct emu_message {
	uint64_t magic;
	uint32_t version, type;
	int64_t value;
};

/*
 * Completes the stream of a thread that has died, from a copy of its slot: writes the pending packets to ret and
 * returns their size in bytes, at most EMU_PENDING_MAX. Arbitrary values of head and pending are safe.
 */
unsigned etm_finish_stream(uint64_t head, uint64_t pending, uint8_t ret[EMU_PENDING_MAX]);

#endif
