/* SPDX-License-Identifier: MIT */
/*
 * Stores with names of a C++ and of a Rust program, which are always the same, so that what csight prints of them can
 * be compared with files. usage: screen-stores c++|rust|hostile 1|2 >STORE; the second program is slower in one
 * function. hostile: the clock, and the build-id of a function without a name, are not UTF-8.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/util.h"
#include "lib/store/store.h"

enum { CALLS = 200, SLOW = 137 /* the slow call */, DEPTH = 64 };

/* What the workload calls; WAITING has no name of its own. */
enum role {
	MAIN,
	LOOP,
	REQUEST,
	OTHER,
	BOOK,
	PUSH,
	GROW,
	NEW,
	MALLOC,
	COPY,
	CLOSURE,
	LOCK,
	FUTEX,
	WAITING,
	WRITE,
	ROLES
};

#define OWN "/srv/trading/engine"
#define LIBC "/usr/lib/aarch64-linux-gnu/libc.so.6"
#define BOOK_OF "acme::trading::matching::OrderBook<acme::trading::Price, std::less<acme::trading::Price> >"

static struct region cxx[ROLES] = {
	[MAIN] = { .name = "main", .image = OWN, .file = "/srv/trading/src/main.cc", .line = 12 },
	[LOOP] = { .name =
		       "acme::trading::matching::MatchingEngine<acme::trading::Price>::run(std::chrono::duration<long, "
		       "std::ratio<1l, 1000l> >)",
		   .image = OWN,
		   .file = "/srv/trading/src/engine.cc",
		   .line = 210 },
	[REQUEST] = { .name = "acme::trading::matching::MatchingEngine<acme::trading::Price>::submit(double, "
			      "acme::trading::Order const&)",
		      .image = OWN,
		      .file = "/srv/trading/src/engine.cc",
		      .line = 41 },
	[OTHER] = { .name = "acme::trading::matching::MatchingEngine<acme::trading::Price>::submit(int)",
		    .image = OWN,
		    .file = "/srv/trading/src/engine.cc",
		    .line = 67 },
	[BOOK] = { .name = BOOK_OF "::add(acme::trading::Order const&)",
		   .image = OWN,
		   .file = "/srv/trading/src/book.h",
		   .line = 118 },
	[PUSH] = { .name = "std::vector<acme::trading::Order, std::allocator<acme::trading::Order> "
			   ">::push_back(acme::trading::Order const&)",
		   .image = OWN,
		   .file = "/usr/include/c++/12/bits/stl_vector.h",
		   .line = 1276,
		   .kind = REGION_INLINED },
	[GROW] = { .name = "void std::vector<acme::trading::Order, std::allocator<acme::trading::Order> "
			   ">::_M_realloc_insert<acme::trading::Order const&>(__gnu_cxx::__normal_iterator<"
			   "acme::trading::Order*, std::vector<acme::trading::Order, "
			   "std::allocator<acme::trading::Order> > >, acme::trading::Order const&)",
		   .image = OWN,
		   .file = "/usr/include/c++/12/bits/vector.tcc",
		   .line = 439 },
	[NEW] = { .name = "operator new(unsigned long)", .image = "/usr/lib/aarch64-linux-gnu/libstdc++.so.6" },
	[MALLOC] = { .name = "malloc", .image = LIBC },
	[COPY] = { .name = "memcpy", .image = LIBC },
	[CLOSURE] = { .name =
			  BOOK_OF "::match(acme::trading::Order&)::{lambda(acme::trading::Level const&)#1}::operator()("
				  "acme::trading::Level const&) const",
		      .image = OWN,
		      .file = "/srv/trading/src/book.h",
		      .line = 160 },
	[LOCK] = { .name = "pthread_mutex_lock", .image = LIBC },
	[FUTEX] = { .name = "futex", .image = "[kernel]", .kind = REGION_SYSCALL },
	[WAITING] = { .name = "waiting", .image = "[kernel]", .kind = REGION_WAITING },
	[WRITE] = { .name = "write", .image = "[kernel]", .kind = REGION_SYSCALL },
};

static struct region rust[ROLES] = {
	[MAIN] = { .name = "engine::main", .image = OWN, .file = "src/main.rs", .line = 9 },
	[LOOP] = { .name = "trading::engine::Engine<trading::price::Tick>::run",
		   .image = OWN,
		   .file = "src/engine.rs",
		   .line = 88 },
	[REQUEST] = { .name = "<trading::engine::Engine<trading::price::Tick> as trading::Submit>::submit",
		      .image = OWN,
		      .file = "src/engine.rs",
		      .line = 31 },
	[OTHER] = { .name = "<trading::engine::Engine<trading::price::Cent> as trading::Submit>::submit",
		    .image = OWN,
		    .file = "src/engine.rs",
		    .line = 31 },
	[BOOK] = { .name =
		       "trading::book::Book<alloc::collections::btree::map::BTreeMap<u64, trading::book::Level>>::add",
		   .image = OWN,
		   .file = "src/book.rs",
		   .line = 54 },
	[PUSH] = { .name =
		       "hashbrown::map::HashMap<alloc::string::String, u64, std::hash::random::RandomState>::insert",
		   .image = OWN,
		   .file = "/cargo/registry/hashbrown-0.14.3/src/map.rs",
		   .line = 1750,
		   .kind = REGION_INLINED },
	[GROW] = { .name = "hashbrown::raw::RawTable<(alloc::string::String, u64)>::reserve_rehash",
		   .image = OWN,
		   .file = "/cargo/registry/hashbrown-0.14.3/src/raw/mod.rs",
		   .line = 670 },
	[NEW] = { .name = "__rustc::__rust_alloc", .image = OWN },
	[MALLOC] = { .name = "malloc", .image = LIBC },
	[COPY] = { .name = "<alloc::string::String as core::clone::Clone>::clone",
		   .image = OWN,
		   .file = "/rustc/library/alloc/src/string.rs",
		   .line = 2212 },
	[CLOSURE] = { .name = "trading::book::Book<T>::matches::{{closure}}",
		      .image = OWN,
		      .file = "src/book.rs",
		      .line = 96 },
	[LOCK] = { .name = "std::sys::sync::mutex::futex::Mutex::lock_contended", .image = OWN },
	[FUTEX] = { .name = "futex", .image = "[kernel]", .kind = REGION_SYSCALL },
	[WAITING] = { .name = "waiting", .image = "[kernel]", .kind = REGION_WAITING },
	[WRITE] = { .name = "write", .image = "[kernel]", .kind = REGION_SYSCALL },
};

static struct region *functions;
static struct inlined site = { .call_line = 122, .depth = 1 };
static struct store_writer *writer;
static uint32_t thread;
static uint64_t now = 1000, instructions;
static enum role stack[DEPTH];
static unsigned depth;

static void put(enum call_event_type type, unsigned kind, enum role function)
{
	struct call_event e = { .type = type, .kind = (uint8_t)kind, .time = now, .instructions = instructions };

	if (type == CALL_EVENT_ENTER) {
		e.function = &functions[function];
		e.inlined = function == PUSH ? &site : NULL;
	}
	if (store_event(writer, thread, &e) < 0)
		exit(1);
}

static void enter(enum role function)
{
	put(CALL_EVENT_ENTER,
	    !depth                                        ? CALL_INFERRED
	    : function == PUSH                            ? CALL_INLINED
	    : function == COPY                            ? CALL_TAIL
	    : functions[function].kind != REGION_FUNCTION ? CALL_SYSCALL
							  : CALL_PLAIN,
	    function);
	stack[depth++] = function;
}

static void run(uint64_t n)
{
	now += n;
	instructions += n;
}

static void leave(void)
{
	depth--;
	put(CALL_EVENT_LEAVE, depth ? LEAVE_RETURN : LEAVE_END, 0);
}

/* Calls a function that takes n instructions. */
static void call(enum role function, uint64_t n)
{
	enter(function);
	run(n);
	leave();
}

static void wait_for(enum role system_call, uint64_t ns)
{
	enter(system_call);
	enter(WAITING);
	now += ns;
	leave();
	leave();
}

static void grow(unsigned elements)
{
	enter(GROW);
	run(20);
	enter(NEW);
	call(MALLOC, 90);
	leave();
	enter(CLOSURE);
	for (unsigned i = 0; i < elements; i++)
		run(14);
	enter(COPY);
	run(elements);
	leave();
	leave();
	leave();
}

static void request(unsigned number, unsigned slower)
{
	enter(number % 10 == 3 ? OTHER : REQUEST);
	run(60 + number % 7);
	enter(LOCK);
	run(12);
	if (number == SLOW)
		wait_for(FUTEX, 1200000);
	leave();
	for (unsigned i = 0; i < 2; i++) {
		enter(BOOK);
		run(80 * slower);
		enter(PUSH);
		run(25);
		if (number % 50 == 49 || number == SLOW)
			grow(number == SLOW ? 40000 : 64);
		leave();
		leave();
	}
	call(CLOSURE, 40);
	leave();
}

int main(int argc, char **argv)
{
	struct store_meta meta = { .pid = 4711, .program = "engine", .source = "emu", .clock = "virtual" };

	if (argc != 3)
		return 2;
	if (strcmp(argv[1], "hostile") == 0) {
		meta.clock = "virtual\x9b";
		cxx[CLOSURE].name = "[engine]";
		cxx[CLOSURE].build_id = "ab\x9b";
	}
	functions = strcmp(argv[1], "rust") == 0 ? rust : cxx;
	for (unsigned i = 0; i < ROLES; i++) {
		functions[i].id = i;
		functions[i].start = 0x1000u * (i + 1);
		functions[i].file = functions[i].file ? functions[i].file : "";
	}
	site.function = &functions[PUSH];
	site.call_file = functions[BOOK].file;
	if (store_create(STDOUT_FILENO, &meta, &writer) < 0 || store_thread_add(writer, 4711, "engine", &thread) < 0)
		return 1;
	put(CALL_EVENT_SEGMENT, 0, 0);
	enter(MAIN);
	run(100);
	enter(LOOP);
	for (unsigned i = 0; i < CALLS; i++) {
		request(i, (unsigned)atoi(argv[2]));
		run(30);
		if (i % 20 == 19)
			wait_for(WRITE, 4000);
	}
	leave();
	leave();
	if (store_thread_end(writer, thread, NULL) < 0 || store_finish(writer) < 0)
		return 1;
	store_writer_free(writer);
	return 0;
}
