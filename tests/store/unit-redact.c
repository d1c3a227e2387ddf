/* SPDX-License-Identifier: MIT */
/* lib/store/redact.c: names of functions without directories; stores whose blocks are not where they should be. */
#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/store/storegen.h"
#include "tests/unit.h"

static void test_names(void)
{
	static const struct {
		const char *name, *want;
	} cases[] = {
		{ "", "" },
		{ "main", "main" },
		{ "operator/(A const&, B)", "operator/(A const&, B)" },
		{ "ns::operator/=(X)", "ns::operator/=(X)" },
		{ "Vec<operator/, /home/ivy/x.h>", "Vec<operator/, x.h>" },
		{ "<core::ops::Div as T>::div", "<core::ops::Div as T>::div" },
		{ "JS:~run /home/ivy/app/server.js:10:5", "JS:~run server.js:10:5" },
		{ "JS:~run /home/ivy poison/app/server.js:10:5", "JS:~run server.js:10:5" },
		{ "JS:*f file:///home/ivy/x.js:1:2", "JS:*f x.js:1:2" },
		{ "py::load:/srv/ivy/tool.py", "tool.py" },
		{ "github.com/ivy/pkg.Func", "pkg.Func" },
		{ "f[github.com/ivy/pkg.T] g", "f[pkg.T] g" },
		{ "[/srv/ivy/lib.so+0x10]", "[lib.so+0x10]" },
		{ "/", "" },
		{ "a/", "" },
		{ "//anon", "anon" },
	};

	for (size_t i = 0; i < ELEMENTS(cases); i++) {
		char *name = store_redact_name(cases[i].name);

		CHECK_STR(name, cases[i].want);
		free(name);
	}
}

static int write_store(void)
{
	const struct store_meta meta = { .pid = 1, .program = "ivy", .source = "emu", .id = "i" };
	struct store_writer *w;
	struct thread t = { 0 };
	int fd = memfd_create("store", MFD_CLOEXEC);

	make_functions();
	CHECK_EQ(store_create(fd, &meta, &w), 0);
	store_set_ending(
	    w,
	    "exited with status 2 in github.com/ivy/private/pkg.f at x.go:7 (github.com/ivy/pkg.exit), called by "
	    "github.com/ivy/app.main at main.go:3",
	    5);
	t.writer = w;
	store_thread_add(w, 5, "ivy", &t.index);
	segment(&t);
	t.time = t.instructions = 10;
	enter(&t, CALL_PLAIN, 0);
	t.time = t.instructions = 20;
	leave(&t, LEAVE_END);
	CHECK_EQ(store_thread_end(w, t.index, NULL), 0);
	CHECK_EQ(store_finish(w), 0);
	store_writer_free(w);
	free(t.events);
	return fd;
}

static bool has_text(int fd, const char *text)
{
	static char bytes[1 << 16];
	ssize_t n = pread(fd, bytes, sizeof(bytes), 0);

	return n > 0 && memmem(bytes, (size_t)n, text, strlen(text));
}

static void test_store(void)
{
	_cleanup_close_ int fd = write_store(), to = memfd_create("redacted", MFD_CLOEXEC);
	struct store *s = NULL, *redacted = NULL;

	CHECK(has_text(fd, "ivy"));
	CHECK_EQ(store_open(fd, &s), 0);
	CHECK_EQ(store_redact(s, to), 0);
	CHECK(!has_text(to, "ivy"));
	CHECK_EQ(store_open(to, &redacted), 0);
	CHECK_STR(store_meta(redacted, "program"), "program");
	CHECK_STR(store_meta(redacted, "id"), "i");
	CHECK_STR(store_meta(redacted, "ended"),
		  "exited with status 2 in pkg.f at x.go:7 (pkg.exit), called by app.main at main.go:3");
	CHECK_STR(store_thread(redacted, 0)->name, "thread");
	CHECK_EQ(store_thread(redacted, 0)->events, store_thread(s, 0)->events);
	store_close(redacted);
	store_close(s);
}

int main(void)
{
	test_names();
	test_store();
	return unit_end();
}
