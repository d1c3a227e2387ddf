/* SPDX-License-Identifier: MIT */
/* daemon/decode/live.c: follows a recording from start to result, as a child of csight-decode does for csight tail. */
#include "config.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "daemon/decode/live.h"
#include "lib/base/io.h"
#include "lib/base/util.h"
#include "lib/perfdata/format.h"
#include "lib/perfdata/write.h"
#include "tests/fuzz/fuzz.h"

/* By the first byte of an input. OpenCSD crashes on hostile trace, which lib/etm/guard.h is for. */
static const char *const start_texts[] = {
	"{\"type\":\"start\",\"input\":\"live\",\"outputs\":[\"live\"],\"options\":{\"engine\":\"native\"}}",
	"{\"type\":\"start\",\"input\":\"live\",\"outputs\":[\"live-json\"],\"options\":{\"inlines\":false,\"engine\":"
	"\"native\"}}",
	"{\"type\":\"start\",\"input\":\"live\",\"outputs\":[\"live\"],"
	"\"options\":{\"longer\":5,\"depth\":3,\"function\":\"*a*\",\"full_names\":true,\"engine\":\"native\"}}",
};

/* The owner's side: the only image is the program, as a file that is no ELF file. */
static void *owner(void *data)
{
	_cleanup_close_ int image = fuzz_fd(fuzz_code, sizeof(fuzz_code));
	struct decoder_event e = { 0 };
	int fd = *(int *)data;

	while (decoder_receive(fd, 0, &e) == 0) {
		if (e.type == DECODER_IMAGE)
			decoder_reply_image(fd, e.index, e.attempt || e.debug ? -1 : image, "not here");
		decoder_event_done(&e);
	}
	return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int pair[2], fds[2], rc;
	struct decode_job job;
	pthread_t thread;
	const char *text;

	if (!size)
		return 0;
	text = start_texts[data[0] % ELEMENTS(start_texts)];
	fuzz_require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	fds[0] = fuzz_fd(data + 1, size - 1);
	fds[1] = memfd_create("output", MFD_CLOEXEC);
	fuzz_require(io_send_fds(pair[1], text, strlen(text), fds, 2) == 0);
	fuzz_require(job_receive(pair[0], &job) == 0);
	fuzz_require(pthread_create(&thread, NULL, owner, &pair[1]) == 0);
	lseek(job.input, 0, SEEK_SET);
	rc = live_run(&job);
	fuzz_require(rc == 0 || job.reason.text[0]);
	close(pair[0]);
	pthread_join(thread, NULL);
	close(pair[1]);
	close(job.input);
	close(job.outputs[0].fd);
	close(fds[0]);
	close(fds[1]);
	json_object_put(job.start);
	return 0;
}

static void add_slice(struct pd_writer *w, uint32_t tid, uint64_t offset, const void *bytes, size_t size)
{
	struct pd_aux aux = {
		offset, size, PD_AUX_RAW | (offset ? PD_AUX_CONTINUES : 0), FUZZ_PID, tid, UINT32_MAX, 500
	};

	pd_write_aux(w, &aux);
	pd_write_buffer(w,
			&(struct pd_buffer){
			    .size = size, .offset = offset, .index = tid - FUZZ_PID, .tid = tid, .cpu = UINT32_MAX });
	pd_write_bytes(w, bytes, size);
}

static const struct pd_map program = { .pid = FUZZ_PID,
				       .tid = FUZZ_PID,
				       .addr = FUZZ_BASE,
				       .len = 0x1000,
				       .prot = 5,
				       .inode = 7,
				       .path = "/bin/prog",
				       .time = 10 };

/* Begins a recording of one trace unit, with a clock. */
static struct pd_writer *begin_recording(const struct pd_session *clock)
{
	struct engine_config c = fuzz_etmv4();
	struct pd_cpu cpu = { PD_MAGIC_ETMV4, 0, 7, { c.configr, c.traceidr, c.idr0, c.idr1, c.idr2, c.idr8, 0xcc } };
	struct pd_session session = *clock;
	struct pd_writer *w;

	session.arch = "aarch64";
	session.pmu_type = 8;
	session.cpus = &cpu;
	session.n_cpus = 1;
	session.live = true;
	fuzz_require(pd_write_begin(-1, &session, &w) == 0);
	return w;
}

static void end_recording(struct pd_writer *w, uint8_t options)
{
	_cleanup_buf_ struct buf out = { 0 };

	buf_u8(&out, options);
	fuzz_require(pd_write_take(w, &out) == 0);
	fuzz_seed(out.data, out.size);
	pd_writer_free(w);
}

/* A recording of two threads, of which one loses trace. own_clock: as that of the emulator's virtual clock. */
static void add_recording(uint8_t options, bool own_clock)
{
	struct pd_aux gap = { 0,        90,           PD_AUX_RAW | PD_AUX_GAP | 1ull << PD_AUX_INDEX_SHIFT,
			      FUZZ_PID, FUZZ_PID + 1, UINT32_MAX,
			      600 };
	uint8_t trace[FUZZ_TRACE_MAX];
	size_t size = fuzz_trace(trace);
	struct pd_map map = program;
	struct pd_writer *w = begin_recording(&(struct pd_session){ .own_clock = own_clock });

	pd_write_comm(w, FUZZ_PID, FUZZ_PID, "prog", true, 5);
	pd_write_map(w, &map);
	add_slice(w, FUZZ_PID, 0, trace, size / 2);
	add_slice(w, FUZZ_PID + 1, 0, trace, size);
	map.addr += 0x100000;
	map.time = 300;
	map.path = "/lib/lib.so";
	pd_write_map(w, &map);
	add_slice(w, FUZZ_PID, size / 2, trace + size / 2, size - size / 2);
	gap.offset = size;
	pd_write_aux(w, &gap);
	pd_write_task(w, &(struct pd_task){ FUZZ_PID, FUZZ_PID, FUZZ_PID + 1, FUZZ_PID, true, 700 });
	end_recording(w, options);
}

/* A recording of a CPU, in two rounds, between which the thread leaves the CPU. */
static void add_rounds(uint8_t options)
{
	static const uint32_t others[2] = { UINT32_MAX, UINT32_MAX };
	uint8_t trace[FUZZ_TRACE_MAX];
	size_t size = fuzz_trace(trace);
	struct pd_writer *w = begin_recording(&(struct pd_session){ .clock = { true, 10, 16 << 10, 0 } });

	pd_write_map(w, &program);
	for (uint64_t round = 0; round < 2; round++) {
		uint64_t time = 1000 * round;
		struct pd_origin in = { FUZZ_PID, FUZZ_PID, 0, time + 100 }, out_again = in;

		out_again.time = time + 500;
		pd_write_record(w, PD_REC_SWITCH_CPU_WIDE, 0, others, sizeof(others), &in);
		pd_write_record(w, PD_REC_SWITCH_CPU_WIDE, PD_MISC_SWITCH_OUT, others, sizeof(others), &out_again);
		pd_write_itrace_start(w, FUZZ_PID, FUZZ_PID, 0, time + 100);
		pd_write_aux(w, &(struct pd_aux){ time + 600, 0, PD_AUX_PARTIAL, UINT32_MAX, UINT32_MAX, UINT32_MAX,
						  time + 700 });
		pd_write_aux(w, &(struct pd_aux){ round * size, size, PD_AUX_RAW, FUZZ_PID, FUZZ_PID, 0, time + 500 });
		pd_write_buffer(
		    w, &(struct pd_buffer){ .size = size, .offset = round * size, .tid = UINT32_MAX, .cpu = 0 });
		pd_write_bytes(w, trace, size);
		pd_write_round(w, time + 650);
	}
	pd_write_task(w, &(struct pd_task){ FUZZ_PID, FUZZ_PID, FUZZ_PID + 1, FUZZ_PID, true, 700 });
	end_recording(w, options);
}

void fuzz_seeds(void)
{
	for (uint8_t i = 0; i < ELEMENTS(start_texts); i++)
		add_rounds(i);

	for (uint8_t i = 0; i < 2 * ELEMENTS(start_texts); i++)
		add_recording(i, i % 2);
}
