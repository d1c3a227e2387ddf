/* SPDX-License-Identifier: MIT */
/*
 * The shared memory between csight-etm.so (inside QEMU, the writer) and csightd, and how a program registers.
 *
 * Each process has one sealed memfd, which holds, in this order: the header, the watches, the slots (one per thread),
 * the log of mappings and code, the rings. The plugin writes all fields except `control`, those of the watches that
 * say so, and those for the next daemon. The daemon trusts none of them: it copies a field once, checks the copy
 * against the sealed size, and uses only the copy.
 *
 * Registration: the plugin connects to the SOCK_SEQPACKET socket beside the control socket and sends EMU_HELLO with the
 * memfd. The daemon identifies the process by SO_PEERCRED and answers EMU_WELCOME. Later the plugin sends EMU_FILE with
 * the descriptor of each file that is mapped with code, so that the daemon never opens a path named by the traced
 * process. The connection stays open for the life of the process; the daemon treats its end as the end of the
 * process. When the daemon ends, the plugin keeps the memory: it connects to the next daemon at the same path,
 * and sends EMU_HELLO with the same memfd, whose rings hold the history, and all files again.
 *
 * Freeze: the daemon sets `control` to a new odd value and waits until every slot has obeyed: `seen == control`, or the
 * state is not EMU_RUNNING. A thread that enters a system call flushes its stream and stores EMU_IDLE; on return it
 * first stores EMU_RUNNING and then reads `control`, all sequentially consistent, so that either the daemon or the
 * thread sees the other's store. Thaw: the daemon sets `control` to a new even value; the thread's stream continues
 * with a sync point. A frozen thread continues to run, untraced.
 *
 * Watches: the daemon writes the list, then `epoch`, then a new control word of the same parity, by which the threads
 * notice it; the plugin stores `applied` when code that runs from then on obeys the list. A hit is counted, then
 * recorded in a ring of hits that overwrites its oldest, and the daemon is woken by EMU_HITS if `wanted` was set: once
 * until it sets that again. The thread never waits. If `hold` of the watch allows it, the hit clears it and freezes the
 * rings itself, by the word that the daemon's own freeze would store next, so that they keep what led to the hit; the
 * daemon then copies them or thaws them. A hit of a watch that belongs to an EMU_WATCH_JOIN is counted; it is recorded,
 * and counted for the join, only if it is one of the join, whose `hold` applies (lib/emu/watch-join.h).
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
	EMU_VERSION = 5,
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
	EMU_WATCHES_MAX = 64,
	EMU_HITS_MAX = 2048,
	EMU_EVENTS_MAX = 4,    /* of one EMU_WATCH_JOIN */
	EMU_FILL_MARGIN = 256, /* bytes at the end of a ring that may stay unused in the mode fill */
};

/* The registers that a decoder needs, as in the metadata of perf.data. */
struct emu_regs {
	uint32_t configr, traceidr, idr0, idr1, idr2, idr8, authstatus;
	uint32_t mode; /* enum emu_mode */
};

/*
 * EMU_MODE_FILL: a thread stops when its ring is full, for which EMU_FILL_MARGIN bytes may be left, since packets are
 * written whole; it overwrites nothing. A disarm drops the contents: the thread then fills the ring again from `skip`.
 */
enum emu_mode { EMU_MODE_RING, EMU_MODE_FILL };

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
	/* Written only by the daemon, for the next one: where the history of the thread with this serial begins. */
	uint64_t skip;
	uint32_t skip_serial;
	uint32_t reserved;
	_Atomic uint64_t stopped_ns; /* the thread's clock when it last obeyed a freeze; 0: unknown */
	_Atomic uint64_t earlier;    /* bytes ever written by earlier threads of this slot; changes before `serial` */
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
	_Atomic uint32_t control;      /* odd: frozen, even: armed; the daemon writes it, and a hit (above) */
	_Atomic uint32_t ended;        /* 0, or EMU_ENDED | the status as waitpid() returns it */
	uint32_t ended_tid;            /* the thread in which the program ended */
	_Atomic uint64_t log_head;     /* bytes of complete records in the log */
	_Atomic uint64_t log_lost;     /* records that did not fit in the log */
	_Atomic uint64_t lost_threads; /* threads without a slot, which run untraced */
	uint32_t clock;                /* enum emu_clock */
	_Atomic uint32_t disarmed;     /* written by the daemon for the next daemon; 1: the program is not recorded */
	uint64_t watching_offset;      /* of struct emu_watching */
	uint64_t ended_ns;             /* CLOCK_MONOTONIC, when `ended` was set */
};

enum emu_watch_kind {
	EMU_WATCH_NONE,
	EMU_WATCH_POINT,   /* control reaches an address: of a function, only as a call or a jump from outside it */
	EMU_WATCH_CALL,    /* a call of a function takes longer than a limit */
	EMU_WATCH_SYSCALL, /* a system call takes longer than a limit */
	EMU_WATCH_SIGNAL,  /* a signal is delivered to a handler, or ends the program */
	EMU_WATCH_JOIN,    /* several other watches have hits within a time */
	EMU_WATCH_GO_CALL, /* the same as EMU_WATCH_CALL, of a function of Go (lib/emu/watch-goroutines.h) */
	EMU_WATCH_OFF_CPU, /* a thread is off the processor for longer than a limit: in the emulator, in a system call
			    */
};

/* Longer than the 99th percentile of the calls of the last minute (lib/base/quantile.h) of this watch and program. */
#define EMU_LONGER_THAN_P99 UINT64_MAX

/* What is watched; written by the daemon. */
struct emu_watch {
	uint32_t kind;
	uint32_t trigger;     /* a number that hits repeat */
	uint64_t longer_than; /* ns, or EMU_LONGER_THAN_P99; of EMU_WATCH_JOIN: the time within which the hits are */
	union {
		struct {
			/* An address; with an inode an offset in that file; or the number of a system call or signal.
			 */
			uint64_t place;
			uint64_t size; /* of the function at place; 0: it is no function */
			uint64_t inode;
			uint32_t major, minor;
		};
		/* EMU_WATCH_JOIN: of each event a set of watches, of which one must have a hit; 0: there is no such
		 * event. */
		uint64_t events[EMU_EVENTS_MAX];
	};
};

struct emu_watch_count {
	_Atomic uint64_t hits;
	_Atomic uint64_t measured; /* calls of known duration */
	/* Calls of unknown duration: the thread was not traced in part of them, or the goroutine ended in them. */
	_Atomic uint64_t unknown;
};

enum emu_hit_how {
	EMU_HIT_REACHED,
	EMU_HIT_RETURNED, /* a call, by a return; or a thread to the processor */
	EMU_HIT_LEFT,     /* a call, by an exception, longjmp(), or a panic of Go that is recovered */
	EMU_HIT_ENDED,    /* a call, by the end of its thread; or a signal that ended the program */
};

struct emu_hit {
	_Atomic uint64_t number; /* counts from 1; 0: it is being written */
	uint32_t watch, trigger, tid, how;
	uint64_t time_ns, value; /* on the thread's clock; value: the duration */
	uint64_t monotonic_ns;   /* CLOCK_MONOTONIC */
	uint32_t held, reserved; /* held: it froze the rings */
};

/*
 * EMU_KNOWS_…: the plugin knows EMU_LONGER_THAN_P99, EMU_WATCH_JOIN, EMU_WATCH_GO_CALL, or EMU_WATCH_OFF_CPU, which
 * older ones do not.
 */
enum {
	EMU_CANNOT_RETRANSLATE = 1,
	EMU_CANNOT_READ_REGISTERS = 2,
	EMU_KNOWS_P99 = 4,
	EMU_CANNOT_P99 = 8,
	EMU_KNOWS_JOINS = 16,
	EMU_CANNOT_JOIN = 32,
	EMU_KNOWS_GO_CALLS = 64,
	EMU_CANNOT_GO_CALLS = 128,
	EMU_KNOWS_OFF_CPU = 256,
	EMU_CANNOT_OFF_CPU = 512,
};

struct emu_watching {
	_Atomic uint32_t epoch;   /* of the list; written by the daemon */
	_Atomic uint32_t applied; /* the last epoch that is in effect */
	_Atomic uint32_t wanted;  /* written by the daemon, cleared by EMU_HITS */
	uint32_t limits;          /* EMU_CANNOT_…, EMU_KNOWS_… */
	/* 1 + the least value of a hit that freezes the rings; 0: none does. The daemon sets it, and such a hit sets it
	 * to 0. */
	_Atomic uint64_t hold[EMU_WATCHES_MAX];
	struct emu_watch watches[EMU_WATCHES_MAX];
	_Atomic uint64_t held_ns; /* CLOCK_MONOTONIC of the last freeze by a hit */
	struct emu_watch_count counts[EMU_WATCHES_MAX];
	_Atomic uint64_t n_hits;
	struct emu_hit hits[EMU_HITS_MAX];
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
	EMU_HITS = 4,    /* plugin → daemon: there are new hits */
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
