/* SPDX-License-Identifier: MIT */
/* Endings and triggers of a group of processes, in one store and in what is made of it. */
#include "config.h"

#include <stdio.h>
#include <sys/mman.h>

#include "lib/base/util.h"
#include "lib/store/store.h"
#include "tests/unit.h"

/* A process of one thread, whose ID is its own. The file stays open. */
static struct store *make(uint32_t pid, const char *condition, const char *ended)
{
	const struct store_meta meta = {
		.pid = pid, .program = "p", .clock = "monotonic", .trigger.condition = condition
	};
	struct store_writer *w;
	struct store *s = NULL;
	uint32_t thread;
	int fd = memfd_create("store", MFD_CLOEXEC);

	CHECK_EQ(store_create(fd, &meta, &w), 0);
	CHECK_EQ(store_thread_add(w, pid, "main", &thread), 0);
	if (ended)
		store_set_ending(w, ended, 0);
	CHECK_EQ(store_finish(w), 0);
	store_writer_free(w);
	CHECK_EQ(store_open(fd, &s), 0);
	return s;
}

static int add_ending(void *user, const char *text, uint32_t tid)
{
	char *to = user;

	sprintf(to + strlen(to), "%u %s; ", (unsigned)tid, text);
	return 0;
}

static const char *endings_of(const struct store *s)
{
	static char text[256];

	text[0] = 0;
	CHECK_EQ(store_endings(s, add_ending, text), 0);
	return text;
}

/* The threads of each process are its own, in what is made of the group, too. */
static void check_processes(const struct store *s, const char *program)
{
	for (size_t i = 0; i < store_threads(s); i++) {
		const struct store_process p = store_process_of(s, i);

		CHECK_EQ(p.pid, store_thread(s, i)->tid);
		CHECK_STR(p.program, program);
	}
	CHECK_EQ(store_process_of(s, SIZE_MAX).pid, 0);
}

static void check_view(const struct store *s, int (*make_view)(const struct store *s, int to), const char *want)
{
	_cleanup_(store_closep) struct store *view = NULL;
	_cleanup_close_ int to = memfd_create("view", MFD_CLOEXEC);

	CHECK_EQ(make_view(s, to), 0);
	CHECK_EQ(store_open(to, &view), 0);
	CHECK_STR(endings_of(view), want);
	check_processes(view, make_view == store_redact ? "program" : "p");
}

int main(void)
{
	struct store *parts[] = { make(100, NULL, NULL), make(200, NULL, "exited with status 0"),
				  make(300, "crashed", "died of SIGSEGV") };
	static const char want[] = "200 exited with status 0; 300 died of SIGSEGV; ";
	_cleanup_(store_closep) struct store *s = NULL;
	_cleanup_close_ int to = memfd_create("group", MFD_CLOEXEC);
	struct store_trigger trigger;

	CHECK_EQ(store_merge(parts, ELEMENTS(parts), "group", to), 0);
	CHECK_EQ(store_open(to, &s), 0);
	CHECK_STR(endings_of(s), want);
	check_processes(s, "p");
	CHECK_EQ(store_process_of(parts[1], SIZE_MAX).pid, 200);
	CHECK(store_trigger(s, &trigger));
	CHECK_STR(trigger.condition, "crashed");
	CHECK_EQ(trigger.tid, 300);
	check_view(s, store_physical, want);
	check_view(s, store_redact, want);
	for (size_t i = 0; i < ELEMENTS(parts); i++)
		store_close(parts[i]);
	return unit_end();
}
