/* SPDX-License-Identifier: MIT */
/* Stores of random valid events, and the events that a reader must return. */
#ifndef CSIGHT_TESTS_STOREGEN_H
#define CSIGHT_TESTS_STOREGEN_H

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/base/util.h"
#include "lib/store/store.h"

enum { FUNCTIONS = 40, INLINED = 5, PLACES = 12, NESTED = 64, NESTING = 16 };

static struct region functions[FUNCTIONS];
static const struct region waiting = { .kind = REGION_WAITING, .name = "waiting", .image = "" };
static char names[FUNCTIONS][24];
static bool clones; /* some functions are clones of another one in the same image */

/* Inlined functions, each at several sites; each site has several instances. */
static struct region inlined_functions[INLINED];
static struct inlined places[2 * PLACES];

/* The same sites in chains of NESTING inlined functions. */
static struct inlined nested[NESTED];

/*
 * An event that the reader must return. roots_seen and depth: the depth is final at the end of the segment only, when
 * its roots are known.
 */
struct expected {
	enum store_event_type type;
	uint8_t kind;
	uint64_t time, instructions, enter;
	int function; /* FUNCTIONS: waiting; above: a site */
	uint32_t depth, roots_seen;
};

struct thread {
	struct store_writer *writer;
	uint32_t index;
	uint64_t time, instructions;
	struct expected *events;
	size_t n, capacity, segment_at;
	struct expected stack[4096];
	size_t depth;
	int roots[64];
	uint32_t n_roots;
	uint64_t segment_time, segment_instructions;
	bool failed;
};

static void expect(struct thread *t, size_t at, struct expected e)
{
	if (t->n == t->capacity) {
		t->capacity = t->capacity ? t->capacity * 2 : 1024;
		t->events = realloc(t->events, t->capacity * sizeof(*t->events));
	}
	memmove(t->events + at + 1, t->events + at, (t->n - at) * sizeof(*t->events));
	t->events[at] = e;
	t->n++;
}

static void put(struct thread *t, enum call_event_type type, unsigned kind, int function)
{
	struct call_event e = { type, (uint8_t)kind, t->time, t->instructions, 10 };

	if (function >= 0)
		e.function = function < FUNCTIONS ? &functions[function] : &waiting;
	if (function > FUNCTIONS) {
		e.inlined = &places[function - FUNCTIONS - 1 + (rand() & 1 ? PLACES : 0)];
		e.function = e.inlined->function;
	}
	if (store_event(t->writer, t->index, &e) < 0)
		t->failed = true;
}

static void segment(struct thread *t)
{
	t->segment_at = t->n;
	t->n_roots = 0;
	t->segment_time = t->time;
	t->segment_instructions = t->instructions;
	put(t, CALL_EVENT_SEGMENT, 0, -1);
}

static void expect_enter(struct thread *t, unsigned kind, int function)
{
	struct expected e = { STORE_ENTER, (uint8_t)kind,      t->time,   t->instructions, t->time,
			      function,    (uint32_t)t->depth, t->n_roots };

	expect(t, t->n, e);
	t->stack[t->depth++] = e;
}

static void enter(struct thread *t, unsigned kind, int function)
{
	expect_enter(t, kind, function);
	put(t, CALL_EVENT_ENTER, kind, function);
}

static void root(struct thread *t, int function)
{
	struct expected e = { STORE_ENTER,     CALL_INFERRED, t->segment_time, t->segment_instructions,
			      t->segment_time, function };

	t->stack[t->depth++] = e;
	t->roots[t->n_roots++] = function;
	put(t, CALL_EVENT_ROOT, CALL_INFERRED, function);
}

static void expect_leave(struct thread *t, unsigned kind)
{
	struct expected *top = &t->stack[--t->depth];
	struct expected e = { STORE_LEAVE,   (uint8_t)kind,      t->time,   t->instructions, top->enter,
			      top->function, (uint32_t)t->depth, t->n_roots };

	expect(t, t->n, e);
}

static void leave(struct thread *t, unsigned kind)
{
	expect_leave(t, kind);
	put(t, CALL_EVENT_LEAVE, kind, -1);
}

/* Leaves and then enters inlined functions, as one event. */
static void move(struct thread *t, unsigned left, unsigned entered)
{
	int first = NESTING * (rand() % (NESTED / NESTING)) + rand() % (int)(NESTING + 1 - entered);
	struct call_event e = { CALL_EVENT_MOVE, 0, t->time, t->instructions, 10 };

	e.left = (uint8_t)left;
	e.entered = (uint8_t)entered;
	e.inlined = entered ? &nested[first + (int)entered - 1] : NULL;
	while (left--)
		expect_leave(t, LEAVE_RETURN);
	for (unsigned i = 0; i < entered; i++)
		expect_enter(t, CALL_INLINED, FUNCTIONS + 1 + (first + (int)i) % PLACES);
	if (store_event(t->writer, t->index, &e) < 0)
		t->failed = true;
}

/* The roots are known now: they precede all other events of the segment, which move down. */
static void end_segment(struct thread *t, unsigned kind)
{
	while (t->depth)
		leave(t, kind);
	for (size_t i = t->segment_at; i < t->n; i++)
		t->events[i].depth += t->n_roots - t->events[i].roots_seen;
	for (uint32_t i = 0; i < t->n_roots; i++) {
		struct expected e = { STORE_ENTER,     CALL_INFERRED, t->segment_time,   t->segment_instructions,
				      t->segment_time, t->roots[i],   t->n_roots - 1 - i };

		expect(t, t->segment_at, e);
	}
}

static void gap(struct thread *t, unsigned kind)
{
	end_segment(t, LEAVE_GAP);
	expect(t, t->n, (struct expected){ STORE_GAP, (uint8_t)kind, t->time, t->instructions });
	put(t, CALL_EVENT_GAP, kind, -1);
}

/* The last one is rare. */
static int any_function(void)
{
	int f = rand() % FUNCTIONS;

	return f == FUNCTIONS - 1 && rand() % 500 ? 0 : f;
}

static int any_place(void)
{
	return FUNCTIONS + 1 + rand() % PLACES;
}

/* Returns the number that the store assigns to a function: inlined ones follow `waiting`. */
__attribute__((unused)) static int number_of(int function)
{
	return function > FUNCTIONS ? FUNCTIONS + 1 + (function - FUNCTIONS - 1) % INLINED : function;
}

__attribute__((unused)) static int number_in(const struct store_function *f)
{
	if (f->kind == REGION_INLINED)
		return FUNCTIONS + (int)f->line;
	return strcmp(f->name, "waiting") == 0 ? FUNCTIONS : atoi(f->name + strlen("function"));
}

__attribute__((unused)) static const char *name_in(int function)
{
	if (function > FUNCTIONS)
		return inlined_functions[(function - FUNCTIONS - 1) % INLINED].name;
	return function == FUNCTIONS ? "waiting" : names[function];
}

enum { NUMBERS = FUNCTIONS + 1 + INLINED };

/* A random walk over all events that lib/calls emits; deterministic. */
__attribute__((unused)) static void step(struct thread *t)
{
	unsigned dice = (unsigned)rand() % 1000;

	t->time += (unsigned)rand() % 4 ? (unsigned)rand() % 50 : 0;
	t->instructions += (unsigned)rand() % 30;
	if (dice < 450 && t->depth < 200) {
		if (dice % 4 == 0 && t->depth)
			enter(t, CALL_INLINED, any_place());
		else
			enter(t, dice % 16 != 1 ? CALL_PLAIN : CALL_SIGNAL, any_function());
	} else if (dice < 470 && t->depth) {
		enter(t, CALL_SYSCALL, FUNCTIONS);
		t->time += 1000;
		leave(t, LEAVE_RETURN);
	} else if (dice < 480 && t->depth) {
		leave(t, dice % 2 ? LEAVE_TAIL : LEAVE_FOLDED);
		enter(t, dice % 2 ? CALL_ODD : CALL_FOLDED, any_function());
	} else if (dice < 500 && t->depth && t->depth < 200) {
		enter(t, CALL_TAIL, any_function());
	} else if (dice < 501) {
		gap(t, dice % 6);
		t->time += 5000;
		segment(t);
		enter(t, CALL_INFERRED, any_function());
		if (t->time % 2)
			enter(t, CALL_INFERRED, any_place());
	} else if (dice >= 960 && t->depth > 4 && t->depth < 200) {
		move(t, dice % 4, dice % 10 == 9 ? 11 : dice % 3 + !(dice % 4));
	} else if (t->depth > 1) {
		leave(t, dice < 505 ? LEAVE_BACK : dice < 510 ? LEAVE_UNWOUND : LEAVE_RETURN);
	} else if (t->n_roots < 60 && dice % 20 == 0) {
		leave(t, LEAVE_RETURN);
		root(t, t->time % 3 ? any_function() : any_place());
	}
}

static void make_functions(void)
{
	for (int i = 0; i < FUNCTIONS; i++) {
		snprintf(names[i], sizeof(names[i]), clones && i % 4 == 3 ? "function%d.part.0" : "function%d",
			 clones && i % 4 == 3 ? i - 2 : i);
		functions[i] = (struct region){ .id = (uint32_t)i,
						.start = 0x1000u * (unsigned)i,
						.name = names[i],
						.image = i % 2 ? "/lib/odd.so" : "/bin/even" };
	}
	for (int i = 0; i < INLINED; i++)
		inlined_functions[i] = (struct region){ .kind = REGION_INLINED,
							.name = i < 3 ? "small" : "tiny",
							.image = "/bin/even",
							.file = "small.h",
							.line = (unsigned)(i + 1) };
	/* Sites of different functions with the same name, and with and without a file, are different. */
	for (int i = 0; i < 2 * PLACES; i++)
		places[i] = (struct inlined){ .function = &inlined_functions[i % PLACES % INLINED],
					      .call_file = i % 2 ? "even.c" : NULL,
					      .call_line = (unsigned)(i % PLACES),
					      .depth = 1 };
	for (int i = 0; i < NESTED; i++) {
		nested[i] = places[i % PLACES];
		nested[i].parent = i % NESTING ? &nested[i - 1] : NULL;
		nested[i].depth = (uint32_t)(i % NESTING + 1);
	}
}

__attribute__((unused)) static int make_store(struct thread *threads, size_t n, size_t steps)
{
	struct store_meta meta = {
		.pid = 77, .program = "prog", .source = "test", .realtime = 1700000000000000000, .monotonic = 5
	};
	_cleanup_(store_writer_freep) struct store_writer *w = NULL;
	int fd = memfd_create("store", MFD_CLOEXEC);
	char name[24];

	srand(7);
	make_functions();
	if (store_create(fd, &meta, &w) < 0)
		return -1;
	for (uint32_t i = 0; i < 5; i++)
		if (store_put_note(w, &(struct store_note){ .tid = 100 + i % 2,
							    .kind = i % STORE_NOTE_KINDS,
							    .label = i ? "note of /home/user" : "",
							    .time = 1000 * i,
							    .until = 1000 * i + 10,
							    .value = -1 }) < 0)
			return -1;
	for (size_t i = 0; i < n; i++) {
		threads[i].writer = w;
		threads[i].time = 1000000 + 1000 * i;
		snprintf(name, sizeof(name), "thread%zu", i);
		if (store_thread_add(w, (uint32_t)(100 + i), name, &threads[i].index) < 0)
			return -1;
		segment(&threads[i]);
		enter(&threads[i], CALL_INFERRED, 0);
	}
	/* Interleaved, as in a trace by CPU. */
	for (size_t k = 0; k < steps; k++) {
		for (size_t i = 0; i < n; i++)
			step(&threads[i]);
	}
	for (size_t i = 0; i < n; i++) {
		end_segment(&threads[i], LEAVE_END);
		if (threads[i].failed || store_thread_end(w, threads[i].index, NULL) < 0)
			return -1;
	}
	return store_finish(w) < 0 ? -1 : fd;
}

static inline bool same(const struct store *s, const struct store_event *got, const struct expected *want)
{
	if (got->type != want->type || got->kind != want->kind || got->time != want->time ||
	    got->instructions != want->instructions || got->depth != want->depth)
		return false;
	if (got->type == STORE_GAP)
		return got->until == want->time + 5000;
	if (got->frame.site != STORE_NO_SITE || want->function > FUNCTIONS) {
		const struct store_site *site = store_site(s, got->frame.site);
		const struct inlined *place = &places[want->function - FUNCTIONS - 1];
		const struct store_function *f = store_function(s, got->frame.function);

		return site && want->function > FUNCTIONS && got->frame.enter == want->enter &&
		       site->line == place->call_line &&
		       strcmp(site->file, place->call_file ? place->call_file : "") == 0 &&
		       site->function == got->frame.function && strcmp(f->name, place->function->name) == 0 &&
		       f->line == place->function->line && f->kind == REGION_INLINED;
	}
	return got->frame.enter == want->enter &&
	       strcmp(store_function(s, got->frame.function)->name, name_in(want->function)) == 0;
}

static inline bool is_near(uint64_t got, uint64_t want)
{
	return got <= want + want / 16 + 1 && want <= got + got / 16 + 1;
}

#endif
