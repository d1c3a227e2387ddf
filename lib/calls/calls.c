/* SPDX-License-Identifier: MIT */
/*
 * What elements do to the stack. Control transfers are in arrival.c.
 *
 *   element                                       action
 *   range                                         control arrives at its start, then passes through it; its last
 *                                                 instruction determines how control arrives at the next one
 *   range, torn                                   gap first
 *   exception                                     control arrives at the preferred return address; RESUME is next
 *   exception by a system call                    push CALL_SYSCALL; RESUME is next
 *   exception behind a branch, filtered           INTERRUPTED is next: control arrives if the next range begins at the
 *                                                 preferred return address, else gap
 *   exception return                              RESUME is next
 *   trace on                                      gap, except after an exception and its return; without another
 *                                                 cause, the trace is taken as filtered
 *   trace on, in the kernel                       SWITCHED is next: control arrives where it is back in the function
 *                                                 that switches to another thread
 *   no sync, no image, unknown address, no path   gap
 *   timestamp                                     assigns times to pending events; of the emulated trace unit, in a
 *                                                 system call: divides its time
 *   event of the emulated trace unit              in a system call: its number
 *   any with cycles                               counts them
 *
 * A gap leaves all frames; the next range begins a segment.
 */
#include <string.h>

#include "lib/base/util.h"
#include "lib/calls/arrival.h"
#include "lib/etm/native-runs.h"

/* Only ranges of functions that have a name can be memoised. */
static inline bool has_memos(struct calls *c)
{
	return c->memos && c->depth && calls_top(c)->function->kind == REGION_FUNCTION;
}

/* Returns true if control that arrives in the function on top remains in its frame. */
static inline bool may_stay(const struct calls *c)
{
	return (c->arrival == ARRIVE_FLOW || c->arrival == ARRIVE_JUMP) && !c->indirect;
}

static inline void stay_in_top(struct calls *c, uint64_t addr)
{
	c->counts.unexplained += c->arrival == ARRIVE_FLOW && addr != c->successor;
	c->arrival = ARRIVE_FLOW;
}

/* Handles control at addr after a call or a return. */
static inline int arrive_elsewhere(struct calls *c, uint64_t addr)
{
	int rc = calls_set_here(c, addr);

	if (rc < 0)
		return rc;
	c->address = addr;
	return c->arrival == ARRIVE_CALL ? arrival_call(c, addr) : arrival_return(c, addr);
}

/* Handles control at addr. */
static int arrive(struct calls *c, uint64_t addr)
{
	int rc;

	if (c->arrival == ARRIVE_CALL || c->arrival == ARRIVE_RETURN)
		return arrive_elsewhere(c, addr);
	rc = calls_set_here(c, addr);
	if (rc < 0)
		return rc;
	c->address = addr;
	if (!may_stay(c) || calls_top(c)->function != c->here.region)
		return arrival_transfer(c, addr);
	stay_in_top(c, addr);
	return 0;
}

static enum arrival after_range(const struct element *e)
{
	if (!e->taken || (e->instr != INSTR_BR && e->instr != INSTR_IBR))
		return ARRIVE_FLOW;
	switch (e->sub) {
	case SUB_LINK:
		return ARRIVE_CALL;
	case SUB_RET:
	case SUB_IMPLRET:
		return ARRIVE_RETURN;
	case SUB_ERET:
		return ARRIVE_RESUME;
	default:
		return ARRIVE_JUMP;
	}
}

/* Notes in which interval of addresses control is. */
static inline void enter_interval(struct calls *c)
{
	/* A move to a lower address begins another iteration of a loop; the leaves before it are final. */
	if (c->here.start < c->last_start)
		event_times_commit(&c->times);
	c->last_start = c->here.start;
	c->last_leave = LEAVE_RETURN;
}

/* Enters and leaves inlined functions of the frame on top, with control at addr. */
static inline int update_inlined(struct calls *c, uint64_t addr, bool backward)
{
	const struct calls_frame *f = calls_top(c);
	enum leave_kind kind = c->last_leave == LEAVE_UNWOUND ? LEAVE_UNWOUND : LEAVE_RETURN;

	enter_interval(c);
	return f->function == c->here.region ? inlined_arrive(c, addr, backward, kind) : 0;
}

/*
 * Handles a range that runs from one function into the next, which has its end. Code between them belongs to neither.
 */
static int fall_through(struct calls *c, uint64_t last, uint64_t *at)
{
	int rc = calls_set_here(c, last);
	uint64_t start = c->here.region->start;

	if (start > *at && start <= last)
		*at = start;
	return rc < 0 ? rc : arrival_jump(c, start);
}

/* Returns how many instructions of the range precede end. */
static inline uint64_t instructions_before(const struct element *e, uint64_t end)
{
	if (e->range.end - e->range.start == (uint64_t)e->range.count * INSTRUCTION_SIZE)
		return (end - e->range.start) / INSTRUCTION_SIZE;
	return (uint64_t)((unsigned __int128)e->range.count * (end - e->range.start) / (e->range.end - e->range.start));
}

/* Follows a range beyond the interval of addresses in which it began. */
static int extend_range(struct calls *c, const struct element *e, uint64_t last)
{
	uint64_t before = c->counts.instructions;
	int rc = 0;

	while (rc == 0 && last >= c->here.end) {
		const struct region *region = c->here.region;
		uint64_t at = region->kind == REGION_FUNCTION ? c->here.end : last;

		rc = calls_set_here(c, at);
		if (rc < 0)
			break;
		c->counts.instructions = before + instructions_before(e, at);
		if (c->here.region != region) {
			rc = fall_through(c, last, &at);
			c->counts.instructions = before + instructions_before(e, at);
			if (rc == 0)
				rc = calls_set_here(c, at);
		}
		if (rc == 0)
			rc = update_inlined(c, at, false);
	}
	c->counts.instructions = before;
	return rc;
}

/* Returns true if a range is in the function on top and in no inlined one. */
static inline bool is_plain(struct calls *c, uint64_t last)
{
	const struct calls_frame *f = calls_top(c);

	return !c->here.inlined && !c->here.entered && last < c->here.end && !f->inlined &&
	       f->function == c->here.region;
}

/* Emits what a range does to functions and inlined functions, and memoises it. */
static int execute_range(struct calls *c, const struct element *e, uint64_t last, bool backward)
{
	const struct inlined *from = calls_top(c)->inlined;
	int rc = update_inlined(c, e->range.start, backward);

	if (rc == 0 && last >= c->here.end)
		rc = extend_range(c, e, last);
	if (rc == 0 && has_memos(c))
		inlined_memoise(c, e, last, from);
	return rc;
}

static inline uint64_t last_instruction(const struct element *e)
{
	return e->range.end - MAX(e->range.last_size, 1);
}

/* Returns true if a range that control arrives at within the function on top is behind a jump to a lower address. */
static inline bool goes_back(const struct calls *c, const struct element *e)
{
	return e->range.start < c->successor;
}

/* The same of an address that control comes to by an exception return. */
static bool resumes_back(const struct calls *c, uint64_t addr)
{
	return c->interrupted_back && c->has_successor && addr == c->successor;
}

/* Accounts for a range, and determines how control arrives at the next. */
static inline void end_range(struct calls *c, const struct element *e)
{
	c->counts.ranges += e->several ? e->offset : 1;
	c->counts.instructions += e->range.count;
	c->arrival = after_range(e);
	c->indirect = c->arrival == ARRIVE_JUMP && e->instr == INSTR_IBR;
	c->successor = e->range.end;
	c->has_successor = c->arrival != ARRIVE_RESUME;
	c->system_call = false;
	c->exception_return = c->arrival == ARRIVE_RESUME;
}

/*
 * Returns true if the outermost frame, to which control came by a return or at the beginning of the segment, has set
 * the stack pointer to a value from elsewhere. So it has left frames that are older than the segment, which are
 * unknown: it is LuaJIT's exit handler, and the trace began in it or beneath it.
 */
static bool left_older_frames(struct calls *c, enum arrival arrival, uint64_t addr)
{
	return (arrival == ARRIVE_RETURN || arrival == ARRIVE_SEGMENT) && c->depth == 1 &&
	       calls_top(c)->anchor == ANCHOR_NONE && region_loads_stack(calls_top(c)->function, addr);
}

/*
 * Executes a range that control has arrived at, other than within the function on top. backward: it is there as behind
 * a jump to a lower address.
 */
static inline int execute_elsewhere(struct calls *c, const struct element *e, bool backward)
{
	uint64_t last = last_instruction(e);
	int rc;

	/* For the first range after a call or a return, a memo costs more than it saves. */
	if (is_plain(c, last)) {
		enter_interval(c);
		return 0;
	}
	rc = has_memos(c) ? inlined_replay(c, e, last, backward) : 0;
	return rc == 0 ? execute_range(c, e, last, backward) : MIN(rc, 0);
}

/* Ends a range, after its execution returned rc. arrival: how control arrived at it. */
static inline int finish_range(struct calls *c, const struct element *e, enum arrival arrival, int rc)
{
	end_range(c, e);
	return rc == 0 && left_older_frames(c, arrival, e->range.start) ? calls_set_was_uncertain(c) : rc;
}

/* Trace goes on at addr after an interrupted branch: at its target, control arrives by the branch; elsewhere, gap. */
static int continue_branch(struct calls *c, uint64_t addr)
{
	c->arrival = c->branched;
	return addr == c->branch_target ? 0 : calls_gap(c, GAP_PAUSED);
}

static int run_range(struct calls *c, const struct element *e)
{
	int rc = e->torn                            ? calls_gap(c, GAP_BAD_IMAGE)
		 : c->arrival == ARRIVE_INTERRUPTED ? continue_branch(c, e->range.start)
						    : 0;
	bool stays = may_stay(c), backward = stays && goes_back(c, e);
	enum arrival arrival = c->arrival;

	if (rc == 0)
		rc = arrive(c, e->range.start);
	if (rc == 0)
		rc = stays ? execute_range(c, e, last_instruction(e), backward)
			   : execute_elsewhere(c, e, arrival == ARRIVE_RESUME && resumes_back(c, e->range.start));
	return finish_range(c, e, arrival, rc);
}

/*
 * Executes a range after a switch. What the kernel does until it is back in the function that switched is not of the
 * thread: it starts the trace.
 */
static int skip_switch(struct calls *c, const struct element *e)
{
	int rc = calls_set_here(c, e->range.start);

	if (rc < 0)
		return rc;
	c->address = e->range.start;
	/* In user space, or at the start of the function, control is not back in the call that switched. */
	if (!(c->address >> 63) || (c->here.region == calls_top(c)->function && c->address == c->here.region->start))
		return calls_gap(c, GAP_PAUSED);
	if (c->here.region == calls_top(c)->function)
		c->arrival = ARRIVE_FLOW;
	else
		c->counts.instructions += e->range.count;
	c->successor = e->range.start;
	return 0;
}

static int on_range(struct calls *c, const struct element *e)
{
	if (c->arrival == ARRIVE_SWITCHED && !e->torn) {
		int skipped = skip_switch(c, e);

		if (skipped < 0 || c->arrival == ARRIVE_SWITCHED)
			return skipped;
	}
	return run_range(c, e);
}

/* Returns the number of the system call that control has just made, or -1. */
static int64_t find_number(const struct calls *c)
{
	return c->find_syscall && c->has_successor ? c->find_syscall(c->find_user, c->successor - INSTRUCTION_SIZE)
						   : -1;
}

/*
 * Returns true if the filter may leave out the preferred return address: a branch led there, and nothing was executed.
 * A trace unit traces an exception that follows a traced instruction, wherever that led. Filters are of the program and
 * its libraries: the kernel is left out as a whole or not at all.
 */
static bool may_be_left_out(const struct calls *c, const struct element *e)
{
	bool branched = c->arrival == ARRIVE_JUMP || c->arrival == ARRIVE_CALL || c->arrival == ARRIVE_RETURN;

	return c->filtered && branched && e->exception.has_ret && !e->exception.syscall && !(e->exception.ret >> 63);
}

static int add_exception_place(struct calls *c)
{
	return c->times.has_switches ? 0 : event_times_add_place(&c->times, c->counts.instructions);
}

static int interrupt_branch(struct calls *c, uint64_t target)
{
	c->branched = c->arrival;
	c->branch_target = target;
	c->arrival = ARRIVE_INTERRUPTED;
	return add_exception_place(c);
}

static int on_exception(struct calls *c, const struct element *e)
{
	uint64_t at = e->exception.ret;
	bool back = may_stay(c) ? at < c->successor : c->arrival == ARRIVE_RESUME && resumes_back(c, at);
	int rc = 0;

	if (!c->depth || c->arrival == ARRIVE_SWITCHED)
		return 0;
	if (c->arrival == ARRIVE_INTERRUPTED && e->exception.has_ret)
		rc = continue_branch(c, e->exception.ret);
	if (rc < 0 || c->arrival == ARRIVE_SEGMENT)
		return rc;
	if (may_be_left_out(c, e))
		return interrupt_branch(c, e->exception.ret);
	/*
	 * Control was at the preferred return address, even if no instruction was executed there. That of a system call
	 * is behind its instruction, and may belong to another function, or to none.
	 */
	if (e->exception.has_ret &&
	    !(e->exception.syscall && c->arrival == ARRIVE_FLOW && e->exception.ret == c->successor))
		rc = arrive(c, e->exception.ret);
	else if (c->arrival != ARRIVE_FLOW)
		return 0;
	c->arrival = ARRIVE_RESUME;
	c->interrupted_back = back;
	c->successor = e->exception.ret;
	c->has_successor = e->exception.has_ret;
	/* The kernel makes calls of firmware or a hypervisor by the same exception. */
	c->system_call = e->exception.syscall && !(e->exception.has_ret && e->exception.ret >> 63);
	c->calls_out = e->exception.syscall;
	c->exception_return = c->restarted = false;
	if (rc < 0)
		return rc;
	if (!c->system_call)
		return add_exception_place(c);
	c->counts.syscalls++;
	c->call_digits = c->call_stamps = 0;
	c->call_number = 0;
	rc = calls_push(c, CALL_EVENT_ENTER, CALL_SYSCALL,
			(struct calls_frame){ .function = calls_syscall_region(find_number(c)) });
	if (rc == 0)
		rc = add_exception_place(c);
	if (!c->emulated && !c->times.has_switches && !c->kernel_traced)
		event_times_add_wait(&c->times);
	return rc;
}

/* True while the emulated trace unit describes a system call. */
static bool describes_call(struct calls *c)
{
	return c->emulated && c->arrival == ARRIVE_RESUME && c->system_call && calls_in_syscall(c);
}

/* Handles a digit of the number of a system call. */
static void on_call_digit(struct calls *c, uint64_t digit)
{
	enum { DIGITS = 3, BASE = 15 };
	const struct region *region;

	c->call_number = c->call_number * BASE + (uint32_t)(digit - 1);
	if (++c->call_digits != DIGITS)
		return;
	region = calls_syscall_region(c->call_number);
	if (event_times_retarget(&c->times, calls_top(c)->function, region))
		calls_top(c)->function = region;
}

/* Emits that the thread did not run from the last timestamp on until the time that follows. */
static int emit_off_cpu(struct calls *c, const struct region *why)
{
	int rc = calls_emit(c, CALL_EVENT_ENTER, CALL_SYSCALL, why);

	event_times_add_wait(&c->times);
	return rc;
}

/* Handles a timestamp within a system call. */
static int on_call_time(struct calls *c, uint64_t time)
{
	const struct region *const all[] = { NULL, NULL, &calls_waiting, &calls_preempted };
	unsigned n = c->call_stamps < ELEMENTS(all) ? c->call_stamps++ : 0;
	const struct region *why = c->times.exact && n == 1 ? &calls_waiting : all[n];
	int rc = 0;

	if (!n || time <= c->times.stamp)
		return event_times_add_timestamp(&c->times, c->counts.instructions, time);
	if (why)
		rc = emit_off_cpu(c, why);
	else
		event_times_add_wait(&c->times);
	if (rc == 0)
		rc = event_times_add_timestamp(&c->times, c->counts.instructions, time);
	return rc < 0 || !why ? rc : calls_emit(c, CALL_EVENT_LEAVE, LEAVE_RETURN, why);
}

/* Handles a trace that ends in a system call: the call is blocked until the end of the trace. */
static int end_in_call(struct calls *c)
{
	int rc = emit_off_cpu(c, &calls_waiting);

	return rc < 0 ? rc : calls_emit(c, CALL_EVENT_LEAVE, LEAVE_END, &calls_waiting);
}

/* Several events may be in one packet. */
static int on_event(struct calls *c, uint64_t events)
{
	int rc = 0;

	if (describes_call(c)) {
		on_call_digit(c, events);
		return 0;
	}
	if (events == UINT64_MAX)
		return calls_emit(c, CALL_EVENT_MARK, MARK_TRIGGER, NULL);
	for (unsigned n = 0; rc == 0 && n < 4; n++)
		if (events >> n & 1)
			rc = calls_emit(c, CALL_EVENT_MARK, MARK_EVENT_0 + n, NULL);
	return rc;
}

static int add_timestamp(struct calls *c, uint64_t time)
{
	return event_times_add_timestamp(&c->times, c->counts.instructions, time);
}

/* A trace unit that starts may emit the time of that before the trace-on, which says where the thread paused. */
static int on_timestamp(struct calls *c, const struct element *e)
{
	if (e->time_unknown)
		return 0;
	if (describes_call(c))
		return on_call_time(c, e->value);
	if (!calls_may_switch(c))
		return add_timestamp(c, e->value);
	event_times_set_switches(&c->times);
	c->stamped = c->arrival;
	c->stamp = e->value;
	c->arrival = ARRIVE_STAMPED;
	return 0;
}

/* Handles the timestamp that waits for what follows, which is e or the end. */
static int after_timestamp(struct calls *c, const struct element *e)
{
	uint64_t stamp = c->stamp;

	c->arrival = c->stamped;
	if (e && e->kind == ELEM_TRACE_ON && e->reason != REASON_OVERFLOW)
		return 0;
	c->stamp = 0;
	return add_timestamp(c, stamp);
}

static int on_trace_on(struct calls *c, const struct element *e)
{
	if (e->reason == REASON_OVERFLOW)
		return calls_gap(c, GAP_OVERFLOW);
	if (c->arrival == ARRIVE_INTERRUPTED)
		return 0;
	if (c->depth && c->address >> 63 && c->arrival != ARRIVE_SEGMENT && c->arrival != ARRIVE_RESUME)
		return calls_switch(c);
	/*
	 * After an exception tracing stops while the kernel runs, which is not a gap. The emulated trace unit ends each
	 * exception with a return, unless tracing was stopped before that.
	 */
	if (c->arrival == ARRIVE_RESUME && (!c->emulated || c->exception_return)) {
		c->restarted = c->exception_return;
		return 0;
	}
	if (!c->filters_known && c->depth && e->reason == REASON_BEGIN)
		c->filtered = true;
	return calls_gap(c, GAP_PAUSED);
}

static int on_no_sync(struct calls *c, const struct element *e)
{
	switch (e->reason) {
	case REASON_END_OF_TRACE:
		return 0;
	case REASON_OVERFLOW:
		return calls_gap(c, GAP_OVERFLOW);
	case REASON_BAD_IMAGE:
		return calls_gap(c, GAP_BAD_IMAGE);
	case REASON_PAUSED:
		return calls_gap(c, GAP_PAUSED);
	case REASON_TRUNCATED:
		return calls_gap(c, GAP_TRUNCATED);
	case REASON_LOST:
		return calls_gap(c, GAP_LOST);
	case REASON_OVERWRITTEN:
		return calls_gap(c, GAP_OVERWRITTEN);
	case REASON_UNTRACED:
		return calls_gap(c, GAP_UNTRACED);
	default:
		return calls_gap(c, GAP_NO_SYNC);
	}
}

/* Handles an element that is not a range. */
static int on_other(struct calls *c, const struct element *e)
{
	switch (e->kind) {
	case ELEM_RANGE_NOPATH:
	case ELEM_UNKNOWN_ADDRESS:
		return calls_gap(c, GAP_NO_SYNC);
	case ELEM_NO_IMAGE:
		return calls_gap(c, GAP_NO_IMAGE);
	case ELEM_EXCEPTION:
		return on_exception(c, e);
	case ELEM_EXCEPTION_RETURN:
		if (!c->depth || c->arrival == ARRIVE_INTERRUPTED || c->arrival == ARRIVE_SWITCHED)
			return 0;
		/* Directly after an exception, this is the return from the kernel, whose code is not traced. */
		if (c->arrival != ARRIVE_RESUME)
			c->has_successor = c->system_call = false;
		c->arrival = ARRIVE_RESUME;
		c->exception_return = true;
		return 0;
	case ELEM_TRACE_ON:
		return on_trace_on(c, e);
	case ELEM_NO_SYNC:
		return on_no_sync(c, e);
	case ELEM_CONTEXT:
		return calls_context(c, e);
	case ELEM_TIMESTAMP:
		return on_timestamp(c, e);
	case ELEM_EVENT:
		return on_event(c, e->value);
	default:
		return 0;
	}
}

int calls_element(void *user, const struct element *e)
{
	struct calls *c = user;
	int rc = 0;

	/* Fast path of nearly all ranges, where functions are inlined. */
	if (e->kind == ELEM_RANGE && !e->torn && has_memos(c) && may_stay(c))
		rc = inlined_replay(c, e, last_instruction(e), goes_back(c, e));
	if (rc == 1) {
		stay_in_top(c, e->range.start);
		end_range(c, e);
		rc = 0;
	} else if (rc == 0) {
		rc = c->arrival == ARRIVE_STAMPED ? after_timestamp(c, e) : 0;
		if (rc == 0)
			rc = e->kind == ELEM_RANGE ? on_range(c, e) : on_other(c, e);
	}
	if (e->has_cycles && !e->cycles_repeated)
		event_times_add_cycles(&c->times, e->cycles);
	return rc;
}

/*
 * Handles a run as calls_element() does. Inlined in calls_batch(): what a decode does with nearly all calls and
 * returns is one loop.
 */
static inline __attribute__((always_inline)) int on_run(void *user, const struct element *run)
{
	struct calls *c = user;
	enum arrival arrival = c->arrival;
	int rc;

	if (run->torn || (arrival != ARRIVE_CALL && arrival != ARRIVE_RETURN))
		return calls_element(c, run);
	rc = arrive_elsewhere(c, run->range.start);
	if (rc == 0)
		rc = execute_elsewhere(c, run, false);
	rc = finish_range(c, run, arrival, rc);
	if (run->has_cycles)
		event_times_add_cycles(&c->times, run->cycles);
	return rc;
}

int calls_batch(struct calls *c, struct native_runs *r, const struct native_batch *b)
{
	return native_runs_read(r, b, on_run, c);
}

void calls_set_resolution(struct calls *c, uint64_t ns)
{
	c->times.resolution = ns;
}

void calls_set_pauses(struct calls *c, calls_pause_fn find, void *user)
{
	c->times.find_pause = find;
	c->times.pause_user = user;
}

void calls_set_syscalls(struct calls *c, calls_syscall_fn find, void *user)
{
	c->find_syscall = find;
	c->find_user = user;
}

void calls_set_emulated(struct calls *c, bool exact)
{
	c->emulated = true;
	c->times.exact = exact;
}

void calls_set_filtered(struct calls *c, bool filtered)
{
	c->filters_known = true;
	c->filtered = filtered;
}

int calls_end(struct calls *c, uint64_t end)
{
	int rc;

	c->uncertain_below = 0;
	rc = c->arrival == ARRIVE_STAMPED ? after_timestamp(c, NULL) : 0;
	if (rc == 0 && describes_call(c) && c->call_stamps == 1)
		rc = end_in_call(c);
	if (rc == 0 && calls_may_switch(c))
		rc = calls_add_switch(c);
	if (rc == 0)
		rc = calls_pop_all(c, LEAVE_END);
	c->arrival = ARRIVE_SEGMENT;
	return rc < 0 ? rc : event_times_end(&c->times, c->counts.instructions, end);
}

size_t calls_addresses(const struct calls *c, uint64_t *ret, size_t n, bool *ret_syscall)
{
	bool interrupted = c->depth && c->arrival == ARRIVE_INTERRUPTED;
	size_t found = 0;

	*ret_syscall = calls_in_syscall(c);
	if (interrupted && n)
		ret[found++] = c->branch_target;
	if (c->depth && c->has_successor && found < n && (!interrupted || c->branched == ARRIVE_CALL))
		ret[found++] = c->successor - (interrupted || *ret_syscall ? INSTRUCTION_SIZE : 0);
	/* The address at which a frame ends is where its caller continues. */
	for (size_t i = c->depth; i-- > 0 && found < n;) {
		if (c->stack[i].anchor == ANCHOR_RETURN)
			ret[found++] = c->stack[i].address - INSTRUCTION_SIZE;
		else if (c->stack[i].anchor == ANCHOR_RESUME)
			ret[found++] = c->stack[i].address;
	}
	return found;
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
	c->recent = region_map_recent(regions);
	inlined_init(c);
	c->times.sink = *sink;
	c->times.counts = &c->counts;
	*ret = c;
	return 0;
}

struct calls *calls_free(struct calls *c)
{
	if (!c)
		return NULL;
	event_times_done(&c->times);
	fibres_forget(c);
	free(c->saved);
	free(c->callers);
	free(c->stack);
	free(c);
	return NULL;
}
