/* SPDX-License-Identifier: MIT */
/* client/function-name.c: what patterns match, and which names are suggested for one that no function has. */
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include "client/client.h"
#include "client/function-name.h"
#include "lib/base/util.h"
#include "tests/unit.h"

/* Functions, of which the last did not run. */
static const struct region functions[] = {
	{ .name = "main", .image = "" },
	{ .name = "handle_request", .image = "" },
	{ .name = "handle_reply", .image = "" },
	{ .name = "parse", .image = "" },
	{ .name = "acme::OrderBook<int>::add(acme::Order const&) const", .image = "" },
	{ .name = "acme::Engine::submit(double, acme::Order)", .image = "" },
	{ .name = "core::ptr::drop_in_place", .image = "" },
	{ .name = "visit.isra.0", .image = "" },
	{ .name = "[libc.so.6+0x1234]", .image = "" },
	{ .name = "idle_function", .image = "" },
};

static char error[4096];

/* In place of the terminal. */
void client_error(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(error, sizeof(error), fmt, args);
	va_end(args);
}

static int write_event(struct store_writer *w, enum call_event_type type, const struct region *function)
{
	const struct call_event e = { .type = type, .function = function, .time = 1 };

	return store_event(w, 0, &e);
}

static int make_store(struct store **ret)
{
	const struct store_meta meta = { .pid = 1 };
	_cleanup_(store_writer_freep) struct store_writer *w = NULL;
	int fd = memfd_create("names", MFD_CLOEXEC), rc = store_create(fd, &meta, &w);
	uint32_t thread;

	if (rc == 0)
		rc = store_thread_add(w, 1, "t", &thread);
	if (rc == 0)
		rc = write_event(w, CALL_EVENT_SEGMENT, NULL);
	for (size_t i = 0; rc == 0 && i + 1 < ELEMENTS(functions); i++) {
		rc = write_event(w, CALL_EVENT_ENTER, &functions[i]);
		if (rc == 0)
			rc = write_event(w, CALL_EVENT_LEAVE, NULL);
	}
	if (rc == 0)
		rc = store_finish(w);
	if (rc == 0)
		rc = store_open(fd, ret);
	return rc < 0 ? rc : fd;
}

static bool matches(const char *name, const char *pattern)
{
	return store_name_matches(name, pattern);
}

static void test_matches(void)
{
	const char *method = "a::Book<int>::add(a::Order const&) const";

	CHECK(matches("main", "main") && matches("main", "m*") && !matches("main", "mai"));
	CHECK(matches(method, method) && matches(method, "a::Book<int>::add") && matches(method, "*::add"));
	CHECK(!matches(method, "add"));
	CHECK(matches("a::S::operator()(int) const", "a::S::operator()"));
	CHECK(matches("(anonymous namespace)::f(int)", "(anonymous namespace)::f"));
	CHECK(matches("f(int)::{lambda()#1}::operator()() const", "f(int)::{lambda()#1}::operator()"));
	CHECK(matches("visit.isra.0", "visit") && matches("visit.isra.0", "visit.isra.0"));
	CHECK(matches("f(int) [clone .part.0]", "f") && matches("f(int) [clone .part.0]", "f(int)"));
	/* Merged clones have the name of the function; the name of a clone still finds it, unless clones are apart. */
	CHECK(matches("visit", "visit.isra.0"));
	CHECK(!matches("visit.part.0", "visit.isra.0"));
	CHECK(!matches("visitor", "visit.isra.0"));
}

static void suggests(const struct store *s, const char *pattern, const char *text)
{
	function_name_suggest(pattern, &s, 1);
	if (!unit_check(strstr(error, text), __FILE__, __LINE__, "%s: %s", pattern, text))
		printf("# got %s\n", error);
}

static void test_suggestions(void)
{
	_cleanup_(store_closep) struct store *s = NULL;
	_cleanup_close_ int fd = make_store(&s);
	const struct store *both[] = { s, s };
	char longest[5000];

	if (!CHECK(fd >= 0))
		return;
	suggests(s, "handle_reqest", "no function 'handle_reqest' ran in this trace; did you mean 'handle_request'");
	suggests(s, "hadnle_request", "did you mean 'handle_request'?");
	suggests(s, "HANDLE", "did you mean 'handle_request' or 'handle_reply'?");
	suggests(s, "add", "did you mean 'acme::OrderBook<int>::add'?");
	suggests(s, "Engine::submt", "did you mean 'acme::Engine::submit'?");
	suggests(s, "drop_in_plac", "did you mean 'core::ptr::drop_in_place'?");
	suggests(s, "vsiit", "did you mean 'visit'?");
	suggests(s, "*reqest*", "did you mean 'handle_request'?");
	suggests(s, "*request_*", "did you mean 'handle_request'?");
	suggests(s, "libc", "lists the functions");
	suggests(s, "", "lists the functions");
	suggests(s, "***", "lists the functions");
	suggests(s, "idle_functin", "lists the functions");
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	suggests(s, longest, "lists the functions");
	function_name_suggest("handle_reqest", both, 2);
	CHECK_STR(error, "no function 'handle_reqest' ran in either snapshot; did you mean 'handle_request'?");
}

int main(void)
{
	test_matches();
	test_suggestions();
	return unit_end();
}
