/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "lib/base/util.h"
#include "lib/emu/stacks.h"
#include "tests/calls/stacks.h"

enum {
	STACKS = 4096,
	/* bytes; functions of the cases have smaller frames, and stacks of a program are further apart */
	FRAME_MOST = 16384,
};

struct stack_truth {
	struct region_map *regions;
	const struct stack_record *records;
	size_t n, next;
	struct truth_stack *stacks[STACKS], *now;
	size_t n_stacks, odd;
	/* an indirect jump, not a return, to where the link register points; or NULL */
	const struct stack_record *linked;
	struct truth_frame *waiting; /* handlers interrupted by other signals before their first instruction */
	size_t n_waiting;
};

static const struct region *region(struct stack_truth *t, uint64_t pc)
{
	struct region_hit hit;

	if (region_map_find(t->regions, pc, UINT64_MAX - 1, &hit) < 0)
		abort();
	return hit.region;
}

static struct truth_frame *top(struct stack_truth *t)
{
	return t->now && t->now->n ? &t->now->frames[t->now->n - 1] : NULL;
}

static void push(struct stack_truth *t, struct truth_frame f)
{
	struct truth_stack *s = t->now;

	if (s->n == s->capacity) {
		s->capacity = s->capacity ? 2 * s->capacity : 64;
		s->frames = reallocarray(s->frames, s->capacity, sizeof(*s->frames));
		if (!s->frames)
			abort();
	}
	f.low = f.sp;
	s->frames[s->n++] = f;
}

static void begin_stack(struct stack_truth *t, const struct stack_record *r, bool whole)
{
	struct truth_stack *s = calloc(1, sizeof(*s));

	if (!s || t->n_stacks == STACKS)
		abort();
	s->whole = whole;
	s->g = r->g;
	s->caller = region(t, r->lr);
	t->now = t->stacks[t->n_stacks++] = s;
	push(t, (struct truth_frame){ .function = region(t, r->pc), .ret = r->lr, .sp = r->sp, .apart = true });
}

/* Code in memory of no file. */
static bool is_compiled(const struct region *r)
{
	return r->kind == REGION_ANON || r->kind == REGION_UNKNOWN;
}

/* Returns true if the frame on top was called by compiled code, or by such that V8 has in its library. */
static bool called_by_compiler(const struct truth_stack *s)
{
	const struct region *from = s->n > 1 ? s->frames[s->n - 2].function : NULL;

	return from && (is_compiled(from) || from->kind == REGION_UNNAMED);
}

/* Returns the index of the frame that returns to pc with this stack pointer, or SIZE_MAX. */
static size_t returning(const struct truth_stack *s, uint64_t pc, uint64_t sp)
{
	for (size_t i = s->n; i-- > 1;)
		if (s->frames[i].ret == pc && s->frames[i].sp == sp)
			return i;
	/* A function that V8's code calls may leave something on the stack, or take its arguments from it. */
	if (s->n > 1 && s->frames[s->n - 1].ret == pc && called_by_compiler(s) &&
	    sp + FRAME_MOST > s->frames[s->n - 1].sp && sp < s->frames[s->n - 1].sp + FRAME_MOST)
		return s->n - 1;
	return SIZE_MAX;
}

/* Returns how many frames remain when a jump sets the stack pointer to sp, or 0 if sp is not on this stack. */
static size_t reaching(const struct truth_stack *s, uint64_t sp, const struct region *to)
{
	size_t end = s->n;

	while (end > 0) {
		size_t first = end - 1;

		while (first > 0 && !s->frames[first].apart)
			first--;
		/* The top function may not have used the stack yet. */
		if (sp <= s->frames[first].sp && sp + FRAME_MOST > s->frames[first].low) {
			/* A function that made a call with its initial stack pointer has not used the stack. */
			while (end > first + 1 && s->frames[end - 1].sp <= sp &&
			       !(end < s->n && s->frames[end - 1].function == to && s->frames[end].sp == sp))
				end--;
			return end;
		}
		end = first;
	}
	return 0;
}

static bool is_plt(const struct region *r)
{
	return r->kind == REGION_PLT;
}

/*
 * Control is in another function of the frame on top. At its start, with the stack pointer and link register of the
 * frame's own start, that is a tail call; elsewhere it is a part of a function that the compiler has put apart, or a
 * jump back.
 */
static void in_other_function(struct stack_truth *t, const struct stack_record *r, const struct region *to)
{
	struct truth_frame *f = top(t);
	/* The first entry of a PLT jumps to the resolver; some PLTs have one region with all stubs. */
	bool resolver = is_plt(f->function) && !is_plt(to) && strcmp(f->function->name, "[plt]") == 0 &&
			r[-1].pc == f->function->start;
	unsigned first = f->n_callers;

	/* The function of a stub, and the one that the resolver found, are called in place of these. */
	if (is_plt(f->function) || f->binds) {
		f->function = to;
		f->binds = resolver;
		return;
	}
	while (first-- > 0 && f->callers[first] != to)
		;
	if (first < f->n_callers && r->pc != to->start) {
		f->n_callers = first;
	} else if (f->folded || first < f->n_callers || f->n_callers == TRUTH_CALLERS_MAX) {
		if (!f->n_callers)
			f->callers[0] = f->function;
		f->n_callers = 1;
		f->folded = true;
	} else {
		f->callers[f->n_callers++] = f->function;
	}
	f->function = to;
}

/* Control is in the frame on top: a tail call, or a jump within a function. */
static void in_frame(struct stack_truth *t, const struct stack_record *r)
{
	const struct region *to = region(t, r->pc);

	if (top(t)->function != to)
		in_other_function(t, r, to);
}

/* Another function has taken the place of that of the frame on top. */
static void replace(struct stack_truth *t, const struct region *function)
{
	top(t)->function = function;
	top(t)->n_callers = 0;
	top(t)->folded = top(t)->binds = false;
}

static void land(struct stack_truth *t, const struct stack_record *r)
{
	const struct region *to = region(t, r->pc);

	/* Back into a function that had jumped. */
	for (unsigned i = top(t)->n_callers; top(t)->function != to && i-- > 0;)
		if (top(t)->callers[i] == to) {
			top(t)->n_callers = i;
			top(t)->function = to;
		}
	if (top(t)->function != to) {
		t->odd++;
		if (getenv("STACKS_ODD"))
			printf("# odd: at instruction %" PRIu64 " in %s, with %s on top of the stack\n", r->count,
			       to->name, top(t)->function->name);
		replace(t, to);
	}
}

static bool switched(struct stack_truth *t, const struct stack_record *r)
{
	for (size_t i = t->n_stacks; i-- > 0;) {
		size_t frame = returning(t->stacks[i], r->pc, r->sp);

		if (t->stacks[i] == t->now || frame == SIZE_MAX)
			continue;
		t->now = t->stacks[i];
		t->now->n = frame;
		land(t, r);
		return true;
	}
	for (size_t i = t->n_stacks; i-- > 0;) {
		size_t depth = reaching(t->stacks[i], r->sp, region(t, r->pc));

		if (t->stacks[i] == t->now || !depth)
			continue;
		t->now = t->stacks[i];
		t->now->n = depth;
		land(t, r);
		return true;
	}
	return false;
}

/* The goroutine's stack was moved: adjusts its frames by the distance. */
static bool returning_moved(struct truth_stack *s, uint64_t pc, uint64_t sp, size_t *ret)
{
	for (size_t i = s->n; i-- > 1;) {
		uint64_t by = sp - s->frames[i].sp;

		if (s->frames[i].ret != pc || s->frames[i].apart)
			continue;
		for (size_t k = 0; by && k <= i; k++) {
			s->frames[k].sp += by;
			s->frames[k].low += by;
		}
		*ret = i;
		return true;
	}
	return false;
}

/* A stack that another thread left, or whose begin was not traced: in the middle of a function, LR may be of any call.
 */
static void begin_stack_anywhere(struct stack_truth *t, const struct stack_record *r)
{
	begin_stack(t, r, false);
	if (r->pc != region(t, r->pc)->start)
		top(t)->ret = 0;
}

/* To another goroutine, or back to the same one. */
static void go_jump(struct stack_truth *t, const struct stack_record *r)
{
	const struct region *to = region(t, r->pc);
	size_t frame;

	for (size_t i = t->n_stacks; i-- > 0 && r->pc != to->start;) {
		if (t->stacks[i]->g != r->g || !returning_moved(t->stacks[i], r->pc, r->sp, &frame))
			continue;
		t->now = t->stacks[i];
		t->now->n = frame;
		land(t, r);
		return;
	}
	/* The former goroutine at this address has ended. */
	for (size_t i = 0; i < t->n_stacks; i++)
		if (t->stacks[i]->g == r->g)
			t->stacks[i]->g = 1;
	begin_stack_anywhere(t, r);
}

/* A return from the first frame of a stack that began before it was traced. */
static bool return_past(struct stack_truth *t, const struct stack_record *r)
{
	struct truth_frame *f = top(t);

	if (t->now->n != 1 || t->now->whole || f->ret || r->sp < f->sp || r->sp - f->sp > FRAME_MOST)
		return false;
	replace(t, region(t, r->pc));
	f->sp = r->sp;
	return true;
}

/*
 * V8 replaces a function by its compiled code while it runs: a function that it called sets the link register to the
 * next instruction, returns to that, and jumps to the code. Returns true if it does so, and has left that function.
 */
static bool replaced(struct stack_truth *t, const struct stack_record *r)
{
	bool linked = t->linked == r - 1;

	t->linked = r->pc == r->lr ? r : NULL;
	if (t->now->n < 2 || !linked || is_compiled(top(t)->function) || !is_compiled(region(t, r->pc)))
		return false;
	t->now->n--;
	in_frame(t, r);
	return true;
}

static void jump(struct stack_truth *t, const struct stack_record *r)
{
	size_t frame = returning(t->now, r->pc, r->sp), depth;
	const struct region *to = region(t, r->pc);

	if (top(t)->signal && top(t)->ret == r->pc && top(t)->sp == r->sp) {
		replace(t, to);
		return;
	}
	if (frame != SIZE_MAX) {
		t->now->n = frame;
		land(t, r);
		return;
	}
	if (replaced(t, r))
		return;
	/* Such code moves its arguments when it jumps to another function, which the link register shows. */
	if (called_by_compiler(t->now) && r->lr == top(t)->ret) {
		in_frame(t, r);
		return;
	}
	depth = reaching(t->now, r->sp, to);
	if (depth == 0) {
		if (!switched(t, r))
			begin_stack_anywhere(t, r);
		return;
	}
	if (depth < t->now->n) {
		/* A frame with an initial stack pointer equal to the current one may not have used the stack. */
		if (top(t)->sp == r->sp) {
			if (r->pc == to->start || top(t)->function == to) {
				in_frame(t, r);
				return;
			}
			/*
			 * Another part of it, or of a function that it jumped to; a return would lead to the frame
			 * below.
			 */
			if (t->now->frames[depth - 1].function != to) {
				in_frame(t, r);
				return;
			}
		}
		t->now->n = depth;
		land(t, r);
		return;
	}
	in_frame(t, r);
}

/*
 * A trace of LuaJIT calls a stub of its own, whose second instruction calls the exit handler, in the middle of the
 * interpreter.
 */
static bool is_exit(struct stack_truth *t, const struct stack_record *r)
{
	const struct region *to = region(t, r->pc);

	return t->now->n > 1 && !is_compiled(to) && r->pc != to->start && r[-1].how == STACK_CALL &&
	       r->count - r[-1].count == 2 && is_compiled(top(t)->function) && is_compiled(top(t)[-1].function);
}

/*
 * The exit handler has used the stack and restores the stack pointer of the interpreter: leaves it, the stub and the
 * trace. Returns true if this is so.
 */
static bool exited(struct stack_truth *t, const struct stack_record *r)
{
	const struct region *to = region(t, r->pc);
	struct truth_frame *f = top(t);
	unsigned i;

	if (!f->exit || r->sp < f->sp || f->low >= f->sp || to != f->function)
		return false;
	t->now->n -= 2;
	f = top(t);
	for (i = f->n_callers; i-- > 0 && f->callers[i] != to;)
		;
	if (i < f->n_callers) {
		f->n_callers = i;
		f->function = to;
	} else {
		replace(t, to);
	}
	return true;
}

static void call(struct stack_truth *t, const struct stack_record *r)
{
	bool exit = is_exit(t, r);

	push(t, (struct truth_frame){ .function = region(t, r->pc),
				      .ret = r->lr,
				      .sp = r->sp,
				      .exit = exit,
				      .apart = reaching(t->now, r->sp, NULL) == 0 });
}

static bool handler_waited(struct stack_truth *t, const struct stack_record *r)
{
	struct truth_frame *f = t->n_waiting ? &t->waiting[t->n_waiting - 1] : NULL;

	if (!f || f->function->start != r->pc || f->sp != r->sp)
		return false;
	push(t, *f);
	t->n_waiting--;
	return true;
}

static void sigreturn(struct stack_truth *t, const struct stack_record *r)
{
	size_t n = t->now->n;

	while (n > 0 && !t->now->frames[n - 1].signal)
		n--;
	if (!n) {
		t->odd++;
		return;
	}
	t->now->n = n - 1;
	if (handler_waited(t, r))
		return;
	/*
	 * A handler may make the program resume elsewhere, as if it had called a function or jumped. A function that is
	 * interrupted before its first instruction has not begun.
	 */
	if (region(t, r->pc) != top(t)->function && region(t, r->pc)->start == r->pc) {
		if (!r->interrupted)
			call(t, r);
	} else if (t->now->frames[n - 1].resume == r->pc) {
		land(t, r);
	} else {
		jump(t, r);
	}
}

/* A handler that is interrupted before its first instruction begins when control comes back to it. */
static void signal_begins(struct stack_truth *t, const struct stack_record *r, const struct stack_record *before)
{
	struct truth_frame f = { .function = region(t, r->pc),
				 .ret = r->lr,
				 .sp = r->sp,
				 .signal = true,
				 .apart = true,
				 .resume = before->pc };

	if (t->next == t->n || !r[1].interrupted || r[1].count != r->count || r[1].pc != r->pc) {
		push(t, f);
		return;
	}
	t->waiting = reallocarray(t->waiting, t->n_waiting + 1, sizeof(f));
	if (!t->waiting)
		abort();
	t->waiting[t->n_waiting++] = f;
}

uint64_t stack_truth_next(const struct stack_truth *t)
{
	return t->next < t->n ? t->records[t->next].count : UINT64_MAX;
}

static void apply_step(struct stack_truth *t, const struct stack_record *r, const struct stack_record *before)
{
	if (!t->now || r->how == STACK_START) {
		begin_stack(t, r, r->how == STACK_START);
		return;
	}
	switch (r->how) {
	case STACK_JUMP:
		/* A direct branch is neither a return nor an unwind. */
		if (!exited(t, r))
			in_frame(t, r);
		break;
	case STACK_INDIRECT:
		/* Go's runtime ends in this function, whatever it does on its own stack. */
		if (strcmp(top(t)->function->name, "gogo") == 0 && region(t, r->pc) != top(t)->function)
			go_jump(t, r);
		else if (!return_past(t, r) && !exited(t, r))
			jump(t, r);
		break;
	case STACK_CALL:
		call(t, r);
		break;
	case STACK_SIGRETURN:
		sigreturn(t, r);
		break;
	case STACK_SIGNAL:
		signal_begins(t, r, before);
		break;
	default:
		break;
	}
	/* The instructions before a switch have the stack pointer of the next stack. */
	if (!reaching(t->now, r->sp, NULL))
		return;
	for (size_t i = t->now->n; i-- > 0;) {
		if (t->now->frames[i].apart || t->now->frames[i].exit)
			t->now->frames[i].low = MIN(t->now->frames[i].low, r->sp);
		if (t->now->frames[i].apart)
			break;
	}
}

bool stack_truth_step(struct stack_truth *t)
{
	const struct stack_record *r = &t->records[t->next++];

	apply_step(t, r, r - 1);
	return r->how == STACK_SYSCALL || r->how == STACK_SIGRETURN;
}

void stack_truth_forget_callers(struct stack_truth *t)
{
	for (size_t i = 0; i < t->n_stacks; i++)
		for (size_t k = 0; k < t->stacks[i]->n; k++)
			t->stacks[i]->frames[k].n_callers = 0;
}

const struct truth_stack *stack_truth_now(const struct stack_truth *t)
{
	return t->now;
}

size_t stack_truth_odd(const struct stack_truth *t)
{
	return t->odd;
}

static int map_records(const char *path, const struct stack_record **ret, size_t *ret_n)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *p;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	*ret = p;
	*ret_n = 0;
	while (*ret_n < (size_t)st.st_size / sizeof(**ret) && (*ret)[*ret_n].how != STACK_NONE)
		(*ret_n)++;
	return 0;
}

/* A child process inherits the parent's steps up to the fork; its own counts start anew after them. */
static int inherit(struct stack_truth *t, const char *path)
{
	const struct stack_record *forked = &t->records[0], *own = t->records;
	const char *slash = strrchr(path, '/');
	size_t n = t->n;
	char parent[4096];
	int rc;

	snprintf(parent, sizeof(parent), "%.*s%" PRIu64 ".%" PRIu64 ".%" PRIu64 ".stacks",
		 slash ? (int)(slash - path + 1) : 0, path, forked->pc, forked->sp, forked->lr);
	rc = map_records(parent, &t->records, &t->n);
	if (rc < 0)
		return rc;
	if (t->n && t->records[0].how == STACK_FORKED) {
		rc = inherit(t, parent);
		if (rc < 0)
			return rc;
	}
	while (t->next < t->n && t->next < forked->g)
		stack_truth_step(t);
	t->records = own;
	t->n = n;
	t->next = 1;
	return 0;
}

int stack_truth_open(const char *path, struct region_map *regions, struct stack_truth **ret)
{
	struct stack_truth *t = calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return -ENOMEM;
	t->regions = regions;
	rc = map_records(path, &t->records, &t->n);
	if (rc == 0 && t->n && t->records[0].how == STACK_FORKED)
		rc = inherit(t, path);
	if (rc < 0) {
		free(t);
		return rc;
	}
	*ret = t;
	return 0;
}

void stack_truth_close(struct stack_truth *t)
{
	for (size_t i = 0; i < t->n_stacks; i++) {
		free(t->stacks[i]->frames);
		free(t->stacks[i]);
	}
	free(t->waiting);
	free(t);
}
