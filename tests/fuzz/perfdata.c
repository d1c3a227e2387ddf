/* SPDX-License-Identifier: MIT */
/* lib/perfdata: contents and trace of a file; daemon/decode/stream.c: its streams. */
#include <string.h>

#include "daemon/decode/stream.h"
#include "lib/base/util.h"
#include "lib/perfdata/read.h"
#include "tests/fuzz/fuzz.h"

enum { TRACE_MAX = 1 << 20 };

static size_t touch(const char *text)
{
	return text ? strlen(text) : 0;
}

static void read_pieces(struct pd_file *f, const struct pd_contents *c)
{
	uint8_t chunk[4096];
	uint64_t total = 0;

	for (size_t i = 0; i < c->n_pieces && total < TRACE_MAX; i++) {
		uint64_t at = 0;
		ssize_t n;

		while (total < TRACE_MAX && (n = pd_read(f, &c->pieces[i], at, chunk, sizeof(chunk))) > 0) {
			fuzz_require(at + (uint64_t)n <= c->pieces[i].size);
			at += (uint64_t)n;
			total += (uint64_t)n;
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_close_ int fd = fuzz_fd(data, size);
	_cleanup_(pd_closep) struct pd_file *f = NULL;
	const struct pd_contents *c;
	struct pd_problem problem = { 0 };
	struct stream_list s;
	size_t sum = 0;

	if (pd_open(fd, &f, &c, &problem) < 0)
		return 0;
	for (size_t i = 0; i < c->n_comms; i++)
		sum += touch(c->comms[i].name);
	for (size_t i = 0; i < c->n_maps; i++)
		sum += touch(c->maps[i].path) + c->maps[i].build_id[c->maps[i].build_id_size ? 0 : 1];
	for (size_t i = 0; i < c->n_cpus; i++)
		fuzz_require(c->cpus[i].n_params <= PD_PARAMS_MAX);
	for (size_t i = 0; i < c->n_counters; i++)
		sum += touch(c->counters[i].name);
	for (size_t i = 0; i < c->n_samples; i++)
		fuzz_require(c->samples[i].counter < c->n_counters);
	sum += touch(c->version) + touch(c->release) + touch(c->arch) + touch(c->damage.cause);
	read_pieces(f, c);
	for (unsigned slices = PD_SLICES_UNKNOWN; slices <= PD_SLICES_OF_CPUS; slices++) {
		if (stream_list_find(c, -1, slices, &s) < 0)
			continue;
		for (size_t i = 0; i < s.n; i++)
			sum += touch(s.list[i].name) + stream_list_pid(&s, s.list[i].tid);
		stream_list_done(&s);
	}
	return sum == SIZE_MAX;
}

void fuzz_seeds(void)
{
	_cleanup_close_ int fd = fuzz_perfdata();

	fuzz_seed_fd(fd);
}
