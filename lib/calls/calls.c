#include <string.h>

#include "lib/base/util.h"
#include "lib/calls/spread.h"

enum { DEPTH_MAX = 1 << 16, EXCEPTION_CALL = 2 /* SVC and its like: IHI0064, "Exception packets" */ };

/* What must happen for a frame to be left the regular way. */
enum anchor {
	ANCHOR_NONE,   /* not known */
	ANCHOR_RETURN, /* a return to address */
	ANCHOR_RESUME, /* an interrupted program goes on at address */
};

struct frame {
	const struct region *function; /* NULL: in a system call */
	uint64_t address;
	uint8_t anchor;
};

/* How the next range is reached. */
enum next {
	NEXT_SEGMENT, /* from nowhere: it begins a segment */
	NEXT_FLOW,    /* from the instruction before it */
	NEXT_JUMP,
	NEXT_CALL,
	NEXT_RETURN,
	NEXT_RESUME, /* after an exception, or a return from one */
};

struct calls {
	struct region_map *regions;
	struct spread spread;
	struct calls_counts counts;
	struct frame *stack;
	size_t depth, room;
	struct region_hit here; /* of the last address arrived at */
	enum next next;
	uint64_t from; /* the address after the last instruction; of an exception: where it says to go on */
	bool has_from;
	bool indirect;                      /* NEXT_JUMP: not by the instruction alone */
	bool system_call, exception_return; /* NEXT_RESUME: what it was */
};

static int put(struct calls *c, enum call_event_type type, unsigned kind, const struct region *function)
{
	return spread_put(&c->spread, c->counts.instructions, type, kind, function);
}

static struct frame *top(struct calls *c)
{
	return c->depth ? &c->stack[c->depth - 1] : NULL;
}

static int look(struct calls *c, uint64_t addr)
{
	if (c->here.region && region_hit_holds(&c->here, addr, c->spread.stamp))
		return 0;
	return region_map_find(c->regions, addr, c->spread.stamp, &c->here);
}

static int pop(struct calls *c, enum leave_kind kind)
{
	const struct region *function = top(c)->function;

	c->depth--;
	if (kind == LEAVE_UNWOUND)
		c->counts.unwound++;
	return put(c, CALL_EVENT_LEAVE, kind, function);
}

/* Down to so many frames; the last one that goes is left in its own way. */
static int pop_to(struct calls *c, size_t depth, enum leave_kind last)
{
	int rc = 0;

	while (rc == 0 && c->depth > depth)
		rc = pop(c, c->depth == depth + 1 ? last : LEAVE_UNWOUND);
	return rc;
}

static int gap(struct calls *c, enum gap_kind kind)
{
	int rc = 0;

	c->next = NEXT_SEGMENT;
	if (!c->depth)
		return 0;
	while (rc == 0 && c->depth)
		rc = pop(c, LEAVE_GAP);
	if (rc == 0)
		rc = put(c, CALL_EVENT_GAP, kind, NULL);
	spread_wait(&c->spread);
	c->counts.gaps++;
	return rc;
}

static int push(struct calls *c, enum call_event_type type, enum call_kind kind, struct frame frame)
{
	if (c->depth == c->room) {
		size_t room = c->room ? c->room * 2 : 64;
		struct frame *stack = realloc(c->stack, room * sizeof(*stack));

		if (!stack)
			return -ENOMEM;
		c->stack = stack;
		c->room = room;
	}
	c->stack[c->depth++] = frame;
	c->counts.deepest = (uint32_t)MAX(c->counts.deepest, c->depth);
	return put(c, type, kind, frame.function);
}

static int begin_segment(struct calls *c)
{
	int rc = put(c, CALL_EVENT_SEGMENT, 0, NULL);

	return rc < 0 ? rc : push(c, CALL_EVENT_ENTER, CALL_INFERRED, (struct frame){ .function = c->here.region });
}

static int call(struct calls *c, enum call_kind kind, enum anchor anchor, uint64_t address)
{
	if (c->depth >= DEPTH_MAX) {
		int rc = gap(c, GAP_DEPTH);

		return rc < 0 ? rc : begin_segment(c);
	}
	return push(c, CALL_EVENT_ENTER, kind, (struct frame){ c->here.region, address, anchor });
}

/* Another function takes the place of the one on top, and will return in its stead. */
static int replace(struct calls *c, enum leave_kind how, enum call_kind kind)
{
	struct frame frame = *top(c);
	int rc;

	if (kind == CALL_TAIL && frame.function && frame.function->kind == REGION_PLT &&
	    spread_rename(&c->spread, frame.function, c->here.region)) {
		top(c)->function = c->here.region;
		return 0;
	}
	c->counts.tails += kind == CALL_TAIL;
	c->counts.unexplained += kind == CALL_ODD;
	frame.function = c->here.region;
	rc = pop(c, how);
	return rc < 0 ? rc : push(c, CALL_EVENT_ENTER, kind, frame);
}

/* The depth below the innermost frame with this anchor; SIZE_MAX: none. */
static size_t find_anchor(const struct calls *c, enum anchor anchor, uint64_t address)
{
	for (size_t i = c->depth; i-- > 0;) {
		if (c->stack[i].anchor == anchor && c->stack[i].address == address)
			return i;
	}
	return SIZE_MAX;
}

/* The depth that leaves the innermost frame of this function, of those below depth, on top; SIZE_MAX: none. */
static size_t find_below(const struct calls *c, size_t depth, const struct region *function)
{
	for (size_t i = MIN(depth, c->depth); i-- > 0;) {
		if (c->stack[i].function == function)
			return i + 1;
	}
	return SIZE_MAX;
}

/* Control is back in a frame that should be the one on top now. */
static int settle(struct calls *c)
{
	return top(c)->function == c->here.region ? 0 : replace(c, LEAVE_TAIL, CALL_ODD);
}

/*
 * Back into a function that waits for a call to return, at another place than that: longjmp, or an exception caught. Of
 * a recursion the innermost frame is taken, which need not be the right one. -ENOENT: no such function.
 */
static int unwind(struct calls *c)
{
	size_t depth = find_below(c, c->depth - 1, c->here.region);

	if (depth == SIZE_MAX)
		return -ENOENT;
	c->counts.unexplained += find_below(c, depth - 1, c->here.region) != SIZE_MAX;
	return pop_to(c, depth, LEAVE_UNWOUND);
}

/* A return to addr, or something that has the effect of one, where no frame waits for exactly that. */
static int return_unmatched(struct calls *c, enum leave_kind how)
{
	int rc;

	if (c->depth == 1 && top(c)->anchor == ANCHOR_NONE) {
		rc = pop(c, LEAVE_RETURN);
		c->counts.roots++;
		return rc < 0 ? rc
			      : push(c, CALL_EVENT_ROOT, CALL_INFERRED, (struct frame){ .function = c->here.region });
	}
	rc = unwind(c);
	return rc != -ENOENT ? rc : replace(c, how, CALL_ODD);
}

static int do_return(struct calls *c, uint64_t addr)
{
	size_t depth = find_anchor(c, ANCHOR_RETURN, addr);
	int rc;

	if (depth != SIZE_MAX) {
		rc = pop_to(c, depth, LEAVE_RETURN);
		return rc < 0 ? rc : settle(c);
	}
	/* A handler returns to the trampoline that asks the kernel to resume what was interrupted. */
	if (top(c)->anchor == ANCHOR_RESUME)
		return replace(c, LEAVE_RETURN, CALL_TAIL);
	return return_unmatched(c, LEAVE_RETURN);
}

static int do_jump(struct calls *c, uint64_t addr)
{
	const struct region *to = c->here.region;
	size_t depth;
	int rc;

	if (top(c)->function == to)
		return 0;
	if (addr == to->start)
		return replace(c, LEAVE_TAIL, CALL_TAIL);
	/* A function written in assembler may return by BR. */
	depth = find_anchor(c, ANCHOR_RETURN, addr);
	if (depth != SIZE_MAX) {
		rc = pop_to(c, depth, depth + 1 == c->depth ? LEAVE_RETURN : LEAVE_UNWOUND);
		return rc < 0 ? rc : settle(c);
	}
	if (to->kind != REGION_FUNCTION)
		return replace(c, LEAVE_TAIL, CALL_TAIL);
	rc = unwind(c);
	if (rc != -ENOENT)
		return rc;
	/* What the instruction itself names is meant to be gone to: functions in assembler share their ends. */
	return replace(c, LEAVE_TAIL, c->indirect ? CALL_ODD : CALL_TAIL);
}

/* The depth below the handler that has now ended; SIZE_MAX: none has. */
static size_t find_resumed(const struct calls *c, uint64_t addr)
{
	size_t depth = find_anchor(c, ANCHOR_RESUME, addr), handler = c->depth;

	if (depth != SIZE_MAX || addr == c->here.region->start)
		return depth;
	/* The handler may have changed where to go on; and a system call that was broken off may be begun anew. */
	while (handler > 0 && c->stack[handler - 1].anchor != ANCHOR_RESUME)
		handler--;
	return handler ? find_below(c, handler - 1, c->here.region) : SIZE_MAX;
}

/* Where the kernel let the program go on is where it stopped, or a signal's handler, or where a handler had begun. */
static int do_resume(struct calls *c, uint64_t addr)
{
	const struct region *to = c->here.region;
	size_t depth = SIZE_MAX;
	int rc = 0;

	if (!top(c)->function)
		rc = pop(c, LEAVE_RETURN);
	if (rc < 0 || (c->has_from && addr == c->from))
		return rc;
	if (c->system_call || c->exception_return)
		depth = find_resumed(c, addr);
	if (depth != SIZE_MAX) {
		rc = pop_to(c, depth, LEAVE_RETURN);
		return rc < 0 ? rc : settle(c);
	}
	if (addr == to->start || to->kind != REGION_FUNCTION) {
		c->counts.signals++;
		return call(c, addr >> 63 ? CALL_KERNEL : CALL_SIGNAL, ANCHOR_RESUME,
			    c->has_from ? c->from : UINT64_MAX);
	}
	return return_unmatched(c, LEAVE_RETURN);
}

/* Control is at addr now. */
static int arrive(struct calls *c, uint64_t addr)
{
	enum next next = c->next;
	int rc = look(c, addr);

	if (rc < 0)
		return rc;
	c->next = NEXT_FLOW;
	switch (next) {
	case NEXT_SEGMENT:
		return begin_segment(c);
	case NEXT_FLOW:
		if (addr != c->from)
			c->counts.unexplained++;
		return do_jump(c, addr);
	case NEXT_JUMP:
		return do_jump(c, addr);
	case NEXT_CALL:
		c->counts.calls++;
		return call(c, CALL_PLAIN, ANCHOR_RETURN, c->from);
	case NEXT_RETURN:
		return do_return(c, addr);
	case NEXT_RESUME:
		return do_resume(c, addr);
	}
	return 0;
}

static enum next after_range(const struct element *e)
{
	if (!e->taken || (e->instr != INSTR_BR && e->instr != INSTR_IBR))
		return NEXT_FLOW;
	switch (e->sub) {
	case SUB_LINK:
		return NEXT_CALL;
	case SUB_RET:
	case SUB_IMPLRET:
		return NEXT_RETURN;
	case SUB_ERET:
		return NEXT_RESUME;
	default:
		return NEXT_JUMP;
	}
}

static int range(struct calls *c, const struct element *e)
{
	uint64_t last = e->range.end - MAX(e->range.last_size, 1);
	int rc = e->torn ? gap(c, GAP_BAD_IMAGE) : 0;

	if (rc == 0)
		rc = arrive(c, e->range.start);
	c->counts.ranges += e->several ? e->offset : 1;
	c->counts.instructions += e->range.count;
	if (rc == 0 && last > e->range.start && !region_hit_holds(&c->here, last, c->spread.stamp)) {
		/* One function ran on into the next. */
		rc = look(c, last);
		if (rc == 0)
			rc = do_jump(c, c->here.region->start);
	}
	c->next = after_range(e);
	c->indirect = c->next == NEXT_JUMP && e->instr == INSTR_IBR;
	c->from = e->range.end;
	c->has_from = c->next != NEXT_RESUME;
	c->system_call = false;
	c->exception_return = c->next == NEXT_RESUME;
	return rc;
}

static int exception(struct calls *c, const struct element *e)
{
	int rc = 0;

	if (!c->depth)
		return 0;
	/* Control was where the exception says to go on, even if no instruction of there was executed. */
	if (e->exception.has_ret)
		rc = arrive(c, e->exception.ret);
	else if (c->next != NEXT_FLOW)
		return 0;
	c->next = NEXT_RESUME;
	c->from = e->exception.ret;
	c->has_from = e->exception.has_ret;
	c->system_call = e->exception.number == EXCEPTION_CALL;
	c->exception_return = false;
	if (rc < 0 || !c->system_call)
		return rc;
	c->counts.syscalls++;
	rc = push(c, CALL_EVENT_ENTER, CALL_SYSCALL, (struct frame){ 0 });
	spread_wait(&c->spread);
	return rc;
}

static int trace_on(struct calls *c, const struct element *e)
{
	if (e->reason == REASON_OVERFLOW)
		return gap(c, GAP_OVERFLOW);
	/* After an exception tracing pauses while the kernel runs, which is no gap. */
	return c->next == NEXT_RESUME ? 0 : gap(c, GAP_PAUSED);
}

static int no_sync(struct calls *c, const struct element *e)
{
	switch (e->reason) {
	case REASON_END_OF_TRACE:
		return 0;
	case REASON_OVERFLOW:
		return gap(c, GAP_OVERFLOW);
	case REASON_BAD_IMAGE:
		return gap(c, GAP_BAD_IMAGE);
	default:
		return gap(c, GAP_NO_SYNC);
	}
}

int calls_element(void *user, const struct element *e)
{
	struct calls *c = user;

	switch (e->kind) {
	case ELEM_RANGE:
		return range(c, e);
	case ELEM_RANGE_NOPATH:
	case ELEM_UNKNOWN_ADDRESS:
		return gap(c, GAP_NO_SYNC);
	case ELEM_NO_IMAGE:
		return gap(c, GAP_NO_IMAGE);
	case ELEM_EXCEPTION:
		return exception(c, e);
	case ELEM_EXCEPTION_RETURN:
		if (!c->depth)
			return 0;
		/* Straight after an exception it is the end of that one: a kernel that is not traced came between. */
		if (c->next != NEXT_RESUME)
			c->has_from = c->system_call = false;
		c->next = NEXT_RESUME;
		c->exception_return = true;
		return 0;
	case ELEM_TRACE_ON:
		return trace_on(c, e);
	case ELEM_NO_SYNC:
		return no_sync(c, e);
	case ELEM_TIMESTAMP:
		/* Zero is what a trace unit says that does not know the time (IHI0064, "Timestamp packets"). */
		return e->value ? spread_timestamp(&c->spread, c->counts.instructions, e->value) : 0;
	default:
		return 0;
	}
}

int calls_end(struct calls *c, uint64_t end)
{
	int rc = 0;

	while (rc == 0 && c->depth)
		rc = pop(c, LEAVE_END);
	c->next = NEXT_SEGMENT;
	return rc < 0 ? rc : spread_end(&c->spread, c->counts.instructions, end);
}

const struct calls_counts *calls_counts(const struct calls *c)
{
	return &c->counts;
}

int calls_new(struct region_map *regions, const struct calls_sink *sink, struct calls **ret)
{
	struct calls *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->regions = regions;
	c->spread.sink = *sink;
	c->spread.counts = &c->counts;
	*ret = c;
	return 0;
}

struct calls *calls_free(struct calls *c)
{
	if (!c)
		return NULL;
	spread_done(&c->spread);
	free(c->stack);
	free(c);
	return NULL;
}
