/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "daemon/target-file.h"
#include "lib/base/util.h"

static void run_close(struct user_work *w)
{
	closep(&container_of(w, struct target_file, work)->fd);
}

static void close_ran(struct user_work *w)
{
	struct target_file *f = container_of(w, struct target_file, work);

	ledger_return(&f->charge);
	ledger_return(&f->memory);
	free(f);
}

struct target_file *target_file_new(struct user_queues *closer, uid_t uid, uint32_t id, int fd)
{
	struct target_file *f = malloc(sizeof(*f));

	if (!f) {
		close(fd);
		return NULL;
	}
	*f = (struct target_file){ .work = { .run = run_close, .done = close_ran },
				   .closer = closer,
				   .uid = uid,
				   .refs = 1,
				   .id = id,
				   .fd = fd };
	return f;
}

struct target_file *target_file_ref(struct target_file *f)
{
	f->refs++;
	return f;
}

struct target_file *target_file_unref(struct target_file *f)
{
	if (f && --f->refs == 0)
		user_queues_submit(f->closer, f->uid, &f->work);
	return NULL;
}
