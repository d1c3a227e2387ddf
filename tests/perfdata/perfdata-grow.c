/* SPDX-License-Identifier: MIT */
/*
 * Writes a perf.data file that repeats the trace of another one, each time as separate pieces, until it has more than
 * BYTES bytes of trace; prints the number of repetitions. With BYTES 0 the trace is written once.
 *
 * usage: perfdata-grow IN OUT BYTES
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/util.h"
#include "lib/perfdata/read.h"

static int fail(const char *what, int rc)
{
	fprintf(stderr, "perfdata-grow: %s: %s\n", what, strerror(-rc));
	return EXIT_FAILURE;
}

/* True if the piece is the first of its buffer. */
static bool begins(const struct pd_contents *c, size_t i)
{
	const struct pd_piece *p = &c->pieces[i];

	return i == 0 || p[-1].tid != p->tid || p[-1].cpu != p->cpu || p[-1].index != p->index;
}

static void describe(struct pd_writer *w, const struct pd_contents *c, uint64_t times)
{
	for (size_t i = 0; i < c->n_comms; i++)
		pd_write_comm(w, c->comms[i].pid, c->comms[i].tid, c->comms[i].name, c->comms[i].exec,
			      c->comms[i].time);
	for (size_t i = 0; i < c->n_maps; i++)
		pd_write_map(w, &c->maps[i]);
	uint64_t at = 0;

	for (size_t i = 0; i < c->n_pieces; i++) {
		const struct pd_piece *p = &c->pieces[i];

		at = begins(c, i) ? 0 : at;
		for (uint64_t k = 0; k < times; k++, at += p->size) {
			struct pd_aux aux = { .offset = at,
					      .size = p->size,
					      .flags = p->flags & PD_AUX_RAW,
					      .pid = p->origin.pid,
					      .tid = p->origin.tid,
					      .cpu = p->cpu,
					      .time = p->origin.time };

			pd_write_aux(w, &aux);
		}
	}
}

static int copy(struct pd_writer *w, struct pd_file *f, const struct pd_contents *c, uint64_t times)
{
	for (size_t i = 0; i < c->n_pieces; i++) {
		const struct pd_piece *p = &c->pieces[i];
		struct pd_buffer buffer = { .index = p->index, .tid = p->tid, .cpu = p->cpu };
		_cleanup_free_ uint8_t *data = malloc(p->size);

		if (!data || pd_read(f, p, 0, data, p->size) != (ssize_t)p->size)
			return -EIO;
		for (size_t k = i; k < c->n_pieces && (k == i || !begins(c, k)); k++)
			buffer.size += times * c->pieces[k].size;
		if (begins(c, i))
			pd_write_buffer(w, &buffer);
		for (uint64_t k = 0; k < times; k++)
			pd_write_bytes(w, data, p->size);
	}
	return 0;
}

int main(int argc, char **argv)
{
	_cleanup_close_ int in = argc == 4 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
	_cleanup_close_ int out = argc == 4 ? open(argv[2], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;
	_cleanup_(pd_closep) struct pd_file *f = NULL;
	struct pd_session session = { .arch = "aarch64" };
	const struct pd_contents *c;
	struct pd_problem problem;
	struct pd_writer *w;
	uint64_t size = 0, times;
	int rc, end;

	if (in < 0 || out < 0)
		return fail("usage: perfdata-grow IN OUT BYTES", -EINVAL);
	rc = pd_open(in, &f, &c, &problem);
	for (size_t i = 0; rc == 0 && i < c->n_pieces; i++)
		size += c->pieces[i].size;
	if (rc < 0 || !size)
		return fail(argv[1], rc < 0 ? rc : -EINVAL);
	times = strtoull(argv[3], NULL, 10) / size + 1;
	session.pmu_type = c->pmu_type;
	session.cpus = c->cpus;
	session.n_cpus = (uint32_t)c->n_cpus;
	rc = pd_write_begin(out, &session, &w);
	if (rc < 0)
		return fail(argv[2], rc);
	describe(w, c, times);
	rc = copy(w, f, c, times);
	end = pd_write_end(w);
	pd_writer_free(w);
	if (rc < 0 || end < 0)
		return fail(argv[2], rc < 0 ? rc : end);
	printf("%llu\n", (unsigned long long)times);
	return EXIT_SUCCESS;
}
