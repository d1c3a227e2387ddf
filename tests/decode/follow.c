/* SPDX-License-Identifier: MIT */
/*
 * Decodes a recording of CPUs that is followed (daemon/decode/live-rounds.c) to elements by thread.
 *
 * usage: follow FILE STEP [DIR...]
 *
 * STEP: bytes that arrive at once. DIR: with the programs and libraries, by their paths, or as they are named.
 */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/decode/decode-stats.h"
#include "daemon/decode/live-rounds.h"
#include "lib/base/io.h"
#include "lib/base/util.h"

struct follow {
	struct decode_job job;
	struct input live;
	struct outputs outputs;
	struct decode_stats stats;
	struct live_rounds *rounds;
	uint32_t pid;
	char **dirs;
};

/* Opens a mapped file in one of the directories, or at its path. */
static int open_image(const struct follow *f, const char *path)
{
	int fd = -1;

	for (char **dir = f->dirs; *dir && fd < 0; dir++) {
		const char *slash = strrchr(path, '/');
		const char *const names[] = { path, slash ? slash : path };

		for (size_t i = 0; i < ELEMENTS(names) && fd < 0; i++) {
			_cleanup_free_ char *name = NULL;

			if (asprintf(&name, "%s%s", *dir, names[i]) >= 0)
				fd = open(name, O_RDONLY | O_CLOEXEC);
		}
	}
	return fd < 0 && !*f->dirs ? open(path, O_RDONLY | O_CLOEXEC) : fd;
}

static int on_map(void *user, const struct pd_map *m)
{
	struct follow *f = user;
	uint32_t file;
	int rc = input_map(&f->live, m, m->time, &file);

	f->pid = m->pid;
	if (rc == 0 && file != IMAGE_NONE && image_file(f->live.images, file)->fd < 0)
		image_file_attach(f->live.images, file, open_image(f, m->path), "not there");
	return rc;
}

static int on_task(void *user, const struct pd_task *t)
{
	return live_rounds_add_exit(((struct follow *)user)->rounds, t);
}

static int on_raw(void *user, const struct pd_live_raw *raw)
{
	return live_rounds_add(((struct follow *)user)->rounds, raw);
}

static int on_round(void *user, uint64_t time)
{
	struct follow *f = user;
	int rc = image_seal(f->live.images);

	return rc < 0 ? rc : live_rounds_end(f->rounds, time, f->pid);
}

static int on_slice(void *user, const struct pd_piece *p)
{
	return -EBADMSG;
}

static int read_all(struct follow *f, int fd, size_t step)
{
	const struct pd_live_sink to = {
		.map = on_map, .exit = on_task, .raw = on_raw, .round = on_round, .slice = on_slice, .user = f
	};
	struct pd_live *reader = NULL;
	uint8_t *chunk = malloc(step);
	int rc = pd_live_new(&to, &reader);
	ssize_t n;

	while (rc == 0 && (n = io_read(fd, chunk, step)) > 0)
		rc = pd_live_push(reader, chunk, (size_t)n);
	if (rc == -EBADMSG && pd_live_problem(reader).cause)
		fprintf(stderr, "follow: %s\n", pd_live_problem(reader).cause);
	if (rc == 0)
		rc = live_rounds_finish(f->rounds);
	free(chunk);
	pd_live_free(reader);
	return rc;
}

int main(int argc, char **argv)
{
	struct follow f = { .job = { .only_thread = -1, .code = -1, .jitdump = -1 } };
	const struct live_rounds_options o = { .live = &f.live, .outputs = &f.outputs, .stats = &f.stats };
	int fd = argc >= 3 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1, rc;

	if (fd < 0)
		return 2;
	f.dirs = argv + 3;
	f.live.job = f.outputs.job = &f.job;
	f.live.warnings = json_object_new_array();
	f.outputs.n = 1;
	rc = output_text_new(DECODE_FORMAT_ELEMENTS, STDOUT_FILENO, &f.outputs.list[0]);
	if (rc == 0)
		rc = image_set_new(&f.live.images);
	if (rc == 0)
		rc = live_rounds_new(&o, &f.rounds);
	if (rc == 0)
		rc = read_all(&f, fd, (size_t)atoi(argv[2]));
	if (rc == 0)
		rc = outputs_finish(&f.outputs);
	if (rc < 0)
		fprintf(stderr, "follow: %s: %s\n", strerror(-rc), f.job.reason.text);
	live_rounds_free(f.rounds);
	outputs_done(&f.outputs);
	image_set_free(f.live.images);
	json_object_put(f.live.warnings);
	close(fd);
	return rc < 0;
}
