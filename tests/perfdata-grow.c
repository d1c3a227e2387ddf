/*
 * Writes a perf.data with the trace of another one again and again, each time as pieces of their own, until there are so
 * many bytes; prints how many times that was.
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

static void describe(struct pd_writer *w, const struct pd_contents *c, const struct pd_piece *p, uint64_t times)
{
	for (size_t i = 0; i < c->n_comms; i++)
		pd_write_comm(w, c->comms[i].pid, c->comms[i].tid, c->comms[i].name, c->comms[i].exec, c->comms[i].time);
	for (size_t i = 0; i < c->n_maps; i++)
		pd_write_map(w, &c->maps[i]);
	for (uint64_t i = 0; i < times; i++) {
		struct pd_aux aux = {
			.offset = i * p->size, .size = p->size, .flags = PD_AUX_RAW, .pid = p->origin.pid, .tid = p->tid,
			.cpu = UINT32_MAX, .time = p->origin.time
		};

		pd_write_aux(w, &aux);
	}
}

int main(int argc, char **argv)
{
	_cleanup_close_ int in = argc == 4 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
	_cleanup_close_ int out = argc == 4 ? open(argv[2], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;
	struct pd_session session = { .pmu_type = 8, .arch = "aarch64" };
	const struct pd_contents *c;
	struct pd_problem problem;
	struct pd_buffer buffer;
	struct pd_writer *w;
	struct pd_file *f;
	uint64_t times;
	uint8_t *data;
	int rc;

	if (in < 0 || out < 0)
		return fail("usage: perfdata-grow IN OUT BYTES", -EINVAL);
	rc = pd_open(in, &f, &c, &problem);
	if (rc < 0 || c->n_pieces != 1)
		return fail(argv[1], rc < 0 ? rc : -EINVAL);
	data = malloc(c->pieces[0].size);
	times = strtoull(argv[3], NULL, 10) / c->pieces[0].size + 1;
	if (!data || pd_read(f, &c->pieces[0], 0, data, c->pieces[0].size) != (ssize_t)c->pieces[0].size)
		return fail(argv[1], -EIO);
	session.cpus = c->cpus;
	session.n_cpus = (uint32_t)c->n_cpus;
	rc = pd_write_begin(out, &session, &w);
	if (rc < 0)
		return fail(argv[2], rc);
	describe(w, c, &c->pieces[0], times);
	buffer = (struct pd_buffer){ .size = times * c->pieces[0].size, .tid = c->pieces[0].tid, .cpu = UINT32_MAX };
	pd_write_buffer(w, &buffer);
	for (uint64_t i = 0; i < times; i++)
		pd_write_bytes(w, data, c->pieces[0].size);
	rc = pd_write_end(w);
	pd_writer_free(w);
	pd_close(f);
	free(data);
	if (rc < 0)
		return fail(argv[2], rc);
	printf("%llu\n", (unsigned long long)times);
	return EXIT_SUCCESS;
}
