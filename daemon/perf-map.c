/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <fcntl.h>

#include "daemon/capture/process/address-space.h"
#include "daemon/capture/process/proc-dir.h"
#include "daemon/perf-map.h"
#include "lib/base/util.h"

/* It owns what it has, since it may be given up. */
struct perf_map_opening {
	pid_t pid;
	uid_t uid;
	int pidfd, fd, rc;
	uint64_t size;
};

static void run_opening(void *data)
{
	struct perf_map_opening *o = data;

	o->rc = proc_dir_open_perf_map(o->pid, o->pidfd, o->uid, &o->fd, &o->size);
}

static void opening_free(void *data)
{
	struct perf_map_opening *o = data;

	closep(&o->pidfd);
	closep(&o->fd);
	free(o);
}

int perf_map_open(const struct target *t, uid_t account, int *ret_fd, uint64_t *ret_size)
{
	struct perf_map_opening *o = malloc(sizeof(*o));
	int rc;

	if (!o)
		return -ENOMEM;
	*o = (struct perf_map_opening){
		.pid = t->pid, .uid = t->uid, .pidfd = fcntl(t->pidfd, F_DUPFD_CLOEXEC, 0), .fd = -1
	};
	rc = address_space_call((struct address_space_of){ account, t->pid },
				&(struct address_space_call){ run_opening, opening_free, o, true });
	if (rc == -ETIMEDOUT)
		return rc;
	if (rc == 0)
		rc = o->rc;
	if (rc == 0) {
		*ret_fd = TAKE_FD(o->fd);
		*ret_size = o->size;
	}
	opening_free(o);
	return rc;
}
