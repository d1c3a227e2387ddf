/* SPDX-License-Identifier: MIT */
/* lib/calls: chains of tail calls, jumps back into them, stubs and lazy binding. */
#include "tests/calls/elements.h"

/* Makes the function at an address a stub of the PLT. */
static void make_stub(uint64_t address)
{
	struct region_hit hit;

	region_map_find(regions, address, 0, &hit);
	((struct region *)(uintptr_t)hit.region)->kind = REGION_PLT;
}

static void test_chain(void)
{
	begin();
	bl(MAIN);
	run(F, 1);
	b(F + 4);
	bl(G);
	ret(H);
	br(G + 4);
	exception(SYSCALL, H);
	run(H, 1);
	ret(H + 4);
	bl(MAIN + 4);
	ret(G);
	run(MAIN + 8, 1);
	end(0, "segment inferred:main( f( tail:g( h( ) tail:h( syscall( ) ) ) ) g( ) )end");
	CHECK_EQ(counts.tails, 2);
	CHECK_EQ(counts.unexplained, 0);
	CHECK_EQ(counts.deepest, 3);
}

/* All functions of a chain end alike. */
static void test_ends(void)
{
	begin();
	bl(MAIN); /* setjmp, here f */
	ret(F);
	bl(MAIN + 4);
	b(F);
	b(G);
	br(H); /* longjmp */
	run(MAIN + 4, 1);
	end(0, "segment inferred:main( f( ) f( tail:g( tail:h( )unwound )unwound )unwound was-uncertain )end");
	begin();
	bl(MAIN);
	b(F);
	run(G, 1);
	no_sync(REASON_BAD_PACKET);
	run(MAIN, 1);
	end(0, "segment inferred:main( f( tail:g( )gap )gap )gap gap:no sync segment inferred:main( )end");
	/* A chain that began before the segment. */
	begin();
	run(F + 8, 1);
	b(F + 12);
	ret(G);
	run(MAIN + 8, 1);
	end(0, "segment inferred:f( tail:g( ) ) root:main( )end");
	CHECK_EQ(counts.roots, 1);
}

static void test_jump_back(void)
{
	begin();
	bl(MAIN);
	b(F);
	b(G);
	b(H); /* into the middle of f, which calls and returns */
	bl(F + 0x20);
	ret(G);
	ret(F + 0x24);
	run(MAIN + 4, 1);
	end(0, "segment inferred:main( f( tail:g( tail:h( ) )jump back g( ) ) )end");
	CHECK_EQ(counts.unexplained, 0);
	/* By an indirect jump, and through code that no symbol covers, as linkers insert it. */
	begin();
	bl(MAIN);
	b(F);
	br(NAMELESS);
	b(F + 0x20);
	b(NAMELESS + 8);
	ret(F + 0x40);
	run(MAIN + 4, 1);
	end(0, "segment inferred:main( f( tail:[prog+0x510]( )jump back tail:[prog+0x510]( )jump back ) )end");
	CHECK_EQ(counts.unexplained, 0);
}

static void test_fold(void)
{
	char want[8192], *at = want;

	/* A function that is in the chain already. */
	begin();
	bl(MAIN);
	b(F);
	b(G);
	b(H);
	b(F);
	b(G);
	ret(H);
	run(MAIN + 4, 1);
	end(0,
	    "segment inferred:main( f( tail:g( tail:h( )folded )folded folded tail:f( )folded folded tail:g( )folded "
	    "folded tail:h( ) ) )end");
	CHECK_EQ(counts.tails, 5);
	/* A jump back to the first one. */
	begin();
	bl(MAIN);
	b(F);
	b(G);
	b(F);
	b(G + 4);
	b(F + 0x20);
	ret(H);
	run(MAIN + 4, 1);
	end(0, "segment inferred:main( f( tail:g( )folded folded tail:f( )folded folded tail:g( )jump back "
	       "folded tail:h( ) ) )end");
	/* A long chain. */
	begin();
	bl(MAIN);
	for (unsigned i = 0; i < LINKS; i++)
		b(LINK + i * LINK_SIZE);
	ret(F);
	run(MAIN + 4, 1);
	at += sprintf(at, "segment inferred:main( link0( ");
	for (unsigned i = 1; i <= 32; i++)
		at += sprintf(at, "tail:link%u( ", i);
	for (unsigned i = 1; i <= 32; i++)
		at += sprintf(at, ")folded ");
	for (unsigned i = 33; i < LINKS; i++)
		at += sprintf(at, "folded tail:link%u( )folded ", i);
	sprintf(at, "folded tail:f( ) ) )end");
	end(0, want);
}

/* A loop by a jump to a function's own start is no call. */
static void test_loop(void)
{
	begin();
	bl(MAIN);
	for (int i = 0; i < 3; i++)
		b(F + 4);
	range(F, 1, INSTR_BR, SUB_NONE, false);
	ret(F + 4);
	run(MAIN + 4, 1);
	end(0, "segment inferred:main( f( ) )end");
	CHECK_EQ(counts.tails, 0);
}

/* A stub has the name of its function, whatever comes between. */
static void test_stub(void)
{
	begin();
	make_stub(STUB);
	timestamp(1000);
	bl(MAIN);
	run(STUB, 1);
	timestamp(2000);
	br(STUB + 4);
	b(F);
	br(STUB);
	ret(G);
	run(MAIN + 4, 1);
	timestamp(3000);
	end(0, "segment inferred:main( f( tail:g( ) ) )end");
	/* A signal handler. */
	begin();
	make_stub(STUB);
	bl(MAIN);
	run(STUB, 1);
	exception(FAULT, STUB + 4);
	ret(HANDLER);
	run(TRAMPOLINE, 2);
	exception(SYSCALL, TRAMPOLINE + 8);
	br(STUB + 4);
	ret(F);
	run(MAIN + 4, 1);
	end(0, "segment inferred:main( stub( signal:handler( ) signal:[anon]( syscall( ) ) )tail f( ) )end");
	CHECK_EQ(counts.tails, 0);
}

/* The first call through a stub: the PLT's first entry, here PLT, jumps to the resolver, here h. */
static void test_lazy_binding(void)
{
	begin();
	make_stub(STUB);
	make_stub(PLT);
	bl(MAIN);
	br(STUB);
	br(PLT);
	bl(H);
	ret(G);
	br(H + 4);
	ret(F);
	run(MAIN + 4, 1);
	end(0, "segment inferred:main( h( g( ) )tail f( ) )end");
	CHECK_EQ(counts.tails, 0);
	/* In a tail call. */
	begin();
	make_stub(STUB);
	make_stub(PLT);
	bl(MAIN);
	b(F);
	br(STUB);
	br(PLT);
	bl(H);
	ret(HANDLER);
	br(H + 4);
	ret(G);
	run(MAIN + 4, 1);
	end(0, "segment inferred:main( f( tail:h( handler( ) )tail tail:g( ) ) )end");
	CHECK_EQ(counts.tails, 1);
}

static uint64_t entered_at[4];
static size_t n_entered;

static int on_enter(void *user, const struct call_event *e)
{
	if (e->type == CALL_EVENT_ENTER && n_entered < ELEMENTS(entered_at))
		entered_at[n_entered++] = e->instructions;
	return 0;
}

/* A function that is called through a stub begins where the stub does, also if a timestamp is between the two. */
static void test_position(void)
{
	static const struct calls_sink sink = { on_enter, NULL };

	begin();
	calls_free(calls);
	calls_new(regions, &sink, &calls);
	make_stub(STUB);
	n_entered = 0;
	run(MAIN, 9);
	bl(MAIN + 36);
	run(STUB, 3);
	br(STUB + 12);
	timestamp(1000);
	run(F, 5);
	end(0, "");
	CHECK_EQ(n_entered, 2);
	CHECK_EQ(entered_at[1], 10);
}

static bool preempted_once(void *user, uint64_t from, uint64_t to, struct calls_pause *ret)
{
	(void)user;
	*ret = (struct calls_pause){ 1100, 1200, true };
	return ret->to > from && ret->from < to;
}

/* A thread that is preempted in a stub is so before the stub, which still gets its function's name. */
static void test_preempted_in_stub(bool timestamp_before)
{
	begin();
	calls_set_pauses(calls, preempted_once, NULL);
	make_stub(STUB);
	timestamp(1000);
	run(MAIN, 9);
	bl(MAIN + 36);
	run(STUB, 2);
	if (timestamp_before)
		timestamp(1050);
	exception(FAULT, STUB + 8);
	timestamp(1250);
	run(STUB + 8, 1);
	br(STUB + 12);
	ret(F);
	timestamp(1300);
	run(MAIN + 40, 1);
	end(1400, "segment inferred:main( preempted( ) f( ) )end");
	CHECK_EQ(counts.unexplained, 0);
}

/* The function of a stub that something else followed is known: a pause in the stub stays where it was. */
static void test_preempted_in_known_stub(void)
{
	begin();
	calls_set_pauses(calls, preempted_once, NULL);
	make_stub(STUB);
	timestamp(1000);
	run(MAIN, 9);
	bl(MAIN + 36);
	run(STUB, 2);
	exception(FAULT, STUB + 8);
	bl(STUB + 8);
	ret(H);
	timestamp(1250);
	ret(STUB + 12);
	timestamp(1300);
	run(MAIN + 40, 1);
	end(1400, "segment inferred:main( stub( preempted( ) h( ) ) )end");
	CHECK_EQ(counts.unexplained, 0);
}

/* Go makes a preempted goroutine call asyncPreempt, here h, which ends in BR, also to the first instruction of f. */
static void test_preempted(void)
{
	static const unsigned at[] = { 0, 4 };

	for (size_t i = 0; i < ELEMENTS(at); i++) {
		begin();
		bl(MAIN);
		if (at[i])
			run(F, 1);
		exception(FAULT, F + at[i]);
		ret(HANDLER);
		run(TRAMPOLINE, 2);
		exception(SYSCALL, TRAMPOLINE + 8);
		br(H);
		ret(F + at[i]);
		run(MAIN + 4, 1);
		end(0, "segment inferred:main( f( signal:handler( ) signal:[anon]( syscall( ) ) signal:h( ) ) )end");
		CHECK_EQ(counts.tails, 0);
		CHECK_EQ(counts.unexplained, 0);
	}
}

/* A trace of LuaJIT, here TRAMPOLINE, calls its stub, which calls the middle of the interpreter, here f, and that g. */
static void take_exit(void)
{
	run(TRAMPOLINE, 16);
	bl(TRAMPOLINE + 0x40);
	range(TRAMPOLINE + 0x20, 2, INSTR_BR, SUB_LINK, true);
	bl(F + 0x40);
	ret(G);
	br(F + 0x44);
}

static void test_exit(void)
{
	begin();
	bl(MAIN);
	for (int i = 0; i < 2; i++) {
		br(F);
		take_exit();
		br(F + 0x60);
	}
	/* Functions of the interpreter's in assembler return. */
	br(F);
	bl(TRAMPOLINE);
	ret(F + 0x80);
	bl(TRAMPOLINE + 4);
	bl(F + 0x90);
	ret(G);
	ret(F + 0x94);
	b(TRAMPOLINE + 8);
	ret(F + 0x30);
	run(MAIN + 4, 1);
	end(0, "segment inferred:main( f( "
	       "tail:[anon]( [anon]( f( g( ) )unwound )unwound )jump back uncertain certain "
	       "tail:[anon]( [anon]( f( g( ) )unwound )unwound )jump back uncertain certain "
	       "tail:[anon]( f( ) f( g( ) ) )jump back ) )end");
	CHECK_EQ(counts.unexplained, 0);
}

/* The trace began in the trace of LuaJIT, or in its stub. */
static void test_exit_first(void)
{
	begin();
	take_exit();
	ret(F + 0x60);
	run(MAIN + 4, 1);
	end(0, "segment inferred:[anon]( [anon]( f( g( ) )unwound )unwound )unwound inferred:f( uncertain certain ) "
	       "root:main( )end");
	CHECK_EQ(counts.unexplained, 0);

	begin();
	range(TRAMPOLINE + 0x24, 1, INSTR_BR, SUB_LINK, true);
	bl(F + 0x40);
	ret(G);
	ret(F + 0x44);
	run(MAIN + 4, 1);
	end(0, "segment inferred:[anon]( f( g( ) )unwound )unwound inferred:f( uncertain certain ) root:main( )end");
	CHECK_EQ(counts.unexplained, 0);
}

/* Compiled code that a function calls jumps into the middle of an interpreter, which may have unwound: LuaJIT's
 * callbacks. */
static void test_callback(void)
{
	begin();
	bl(MAIN);
	bl(F);
	bl(G);
	br(TRAMPOLINE);
	ret(F + 0x40);
	ret(G + 4);
	ret(F + 4);
	run(MAIN + 4, 1);
	end(0, "segment inferred:main( f( g( [anon]( tail:f( uncertain ) ) certain ) ) )end");
	CHECK_EQ(counts.unexplained, 0);
}

/* Returns that are jumps: to compiled code, and within a function. */
static void test_return_jumps(void)
{
	begin();
	bl(MAIN);
	ret(F);
	run(TRAMPOLINE, 4);
	ret(TRAMPOLINE + 16);
	run(MAIN + 4, 1);
	end(0, "segment inferred:main( f( tail:[anon]( uncertain ) ) certain )end");
	CHECK_EQ(counts.unexplained, 1);

	begin();
	bl(MAIN);
	bl(F);
	bl(G);
	ret(G + 0x40);
	ret(G + 0x20);
	ret(G + 4);
	ret(F + 4);
	run(MAIN + 4, 1);
	end(0, "segment inferred:main( f( g( g( uncertain ) certain ) ) )end");
	CHECK_EQ(counts.unexplained, 1);
}

/*
 * Compiled code replaces a function while that runs in the interpreter, here f, which calls handlers, here g, from one
 * place.
 */
static void test_replaced(void)
{
	begin();
	bl(MAIN);
	bl(F + 0x10);
	br(G);
	run(F, 4);
	bl(F + 0x10);
	ret(G);
	br(G + 0x20);
	bl(TRAMPOLINE);
	ret(H);
	ret(TRAMPOLINE + 4);
	ret(F + 0x14);
	run(MAIN + 4, 1);
	end(0, "segment inferred:main( f( g( tail:f( g( uncertain )unwound tail:[anon]( h( ) ) ) ) certain ) )end");
	CHECK_EQ(counts.unexplained, 1);

	/* The compiled code is replaced by better one. */
	begin();
	bl(MAIN);
	bl(F + 0x10);
	br(G);
	bl(TRAMPOLINE + 0x10);
	ret(G);
	br(G + 0x20);
	ret(TRAMPOLINE + 0x80);
	ret(F + 0x14);
	run(MAIN + 4, 1);
	end(0, "segment inferred:main( f( g( tail:[anon]( g( uncertain )unwound ) ) certain ) )end");
	CHECK_EQ(counts.unexplained, 1);
}

static void test_all(void)
{
	test_chain();
	test_ends();
	test_jump_back();
	test_fold();
	test_loop();
	test_stub();
	test_preempted_in_stub(false);
	test_preempted_in_stub(true);
	test_preempted_in_known_stub();
	test_lazy_binding();
	test_position();
	test_preempted();
	test_exit();
	test_exit_first();
	test_callback();
	test_return_jumps();
	test_replaced();
}

int main(void)
{
	return test_both(test_all);
}
