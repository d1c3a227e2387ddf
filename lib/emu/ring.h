/*
 * The shared memory between csight-etm.so (inside QEMU, the writer) and csightd, and how a program registers.
 *
 * One sealed memfd a process holds, in this order: the header, the slots (one a thread), the log of mappings and code,
 * the rings. The plugin writes everything but `control`. The daemon believes none of it: it copies a field once, checks
 * the copy against the sealed size, and uses the copy only.
 *
 * Registration: the plugin connects to the SOCK_SEQPACKET socket beside the control socket and sends EMU_HELLO with the
 * memfd. The daemon takes the process from SO_PEERCRED and answers EMU_WELCOME. Later the plugin sends EMU_FILE with a
 * descriptor for each file that it sees mapped with code, so that nobody has to open a path named by the traced
 * process. The connection stays open for the life of the process: its end is how the daemon learns of the end.
 *
 * Freeze: the daemon sets `control` odd and waits until every slot is obeyed: `seen == control`, or state is not
 * EMU_RUNNING. A thread that enters a system call flushes, stores EMU_IDLE; on its way out it stores EMU_RUNNING first
 * and reads `control` afterwards, all sequentially consistent, so one of the two sides sees the other. Thaw: `control`
 * even again, a new value each time; a thread's stream then begins with a synchronisation point. A thread that is
 * frozen runs on, untraced.
 */
#ifndef CSIGHT_EMU_RING_H
#define CSIGHT_EMU_RING_H

#include <stdatomic.h>
#include <stdint.h>

#define EMU_MAGIC 0x00314d4554455343ull /* "CSETEM1" */

enum {
	EMU_VERSION = 1,
	EMU_RINGS_MAX = 4096,
	EMU_RING_SIZE_MIN = 64 << 10,
	EMU_RING_SIZE_MAX = 1 << 30,
	EMU_LOG_SIZE_MAX = 256 << 20,
	EMU_NAME_SIZE = 16,
	EMU_CMDLINE_SIZE = 4096,
	EMU_PATH_SIZE = 4096,
	EMU_BUILD_ID_MAX = 20,
	EMU_PENDING_MAX = 64, /* bytes that etm_finish() may add to a stream */
};

/* The registers a decoder needs, as perf.data's metadata wants them. */
struct emu_regs {
	uint32_t configr, traceidr, idr0, idr1, idr2, idr8, authstatus, reserved;
};

enum emu_state { EMU_FREE, EMU_RUNNING, EMU_IDLE, EMU_EXITED };

struct emu_slot {
	_Atomic uint32_t state;
	_Atomic uint32_t seen; /* the control word last obeyed */
	uint32_t tid;
	uint32_t serial;           /* counts the threads that used this slot */
	char name[EMU_NAME_SIZE];  /* the thread's comm */
	uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC; end is 0 while it lives */
	_Atomic uint64_t head;     /* bytes ever written by this thread; the last min(head, ring_size) are there */
	_Atomic uint64_t stopped_ns, resumed_ns; /* when the last freeze was obeyed, when the last thaw was */
	_Atomic uint64_t instructions;           /* retired and traced */
	_Atomic uint64_t truth; /* instructions that the truth log held when the stream was last flushed; 0: no log */
	/* What the encoder holds back, so that etm_finish() can end the stream of a thread that died in mid-flight. */
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
	uint32_t pid, parent; /* parent: the pid this one was forked from, or 0 */
	uint64_t start_ns;
	char name[EMU_NAME_SIZE];       /* the program's name, not qemu's */
	char exe[EMU_PATH_SIZE];        /* the program's file */
	char cmdline[EMU_CMDLINE_SIZE]; /* its arguments, each ended by NUL; cmdline_size bytes of them */
	uint32_t cmdline_size;
	_Atomic uint32_t control;      /* written by the daemon alone: odd frozen, even armed */
	_Atomic uint64_t log_head;     /* bytes of complete records in the log */
	_Atomic uint64_t log_lost;     /* records for which the log had no room */
	_Atomic uint64_t lost_threads; /* threads that found no slot; they run untraced */
};

/* The log: records end to end, each a multiple of 8 bytes; only appended to. */
enum emu_record_type { EMU_REC_MAP = 1, EMU_REC_CODE = 2, EMU_REC_COMM = 3 };

struct emu_record {
	uint32_t type, size; /* size: of the whole record */
	uint64_t time_ns;
};

/* A file (or anonymous memory) is mapped at addr from now on; it replaces what was there. */
struct emu_record_map {
	struct emu_record head;
	uint64_t addr, len, offset;
	uint32_t prot, file; /* file: the id sent with EMU_FILE; 0 for none */
	uint32_t major, minor;
	uint64_t inode;
	uint8_t build_id_size, build_id[EMU_BUILD_ID_MAX], reserved[3];
	/* then the path, NUL-terminated, padded to 8; "//anon" for anonymous memory */
};

/* These bytes were translated at addr, and neither the maps nor earlier code records give them back. */
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
	EMU_WELCOME = 2, /* daemon → plugin; value: 0, or a negative errno why it is refused */
	EMU_FILE = 3,    /* plugin → daemon, with a read-only descriptor; value: the file's id */
};

struct emu_message {
	uint64_t magic;
	uint32_t version, type;
	int64_t value;
};

/*
 * Packets that complete a stream whose writer is gone, from a copy of its slot; returns how many bytes went to ret,
 * at most EMU_PENDING_MAX. Any values are safe.
 */
unsigned etm_finish(uint64_t head, uint64_t pending, uint8_t ret[EMU_PENDING_MAX]);

#endif
