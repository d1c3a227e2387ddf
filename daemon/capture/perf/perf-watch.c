/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/capture/perf/perf-internal.h"
#include "daemon/capture/perf/watch-calls.h"
#include "daemon/capture/perf/watch-events.h"
#include "daemon/capture/process/credentials.h"
#include "lib/base/array.h"
#include "lib/base/log.h"
#include "lib/base/quantile.h"
#include "lib/base/reader.h"
#include "lib/emu/watch-join.h"

enum {
	STORM_EVENTS = 2000, /* after more than these in STORM_MS a slot is not watched for REST_MS */
	STORM_MS = 100,
	REST_MS = 900,
	HELD_MAX_SECONDS = 60,
};

#define MS 1000000ull
/* Captures of others wait while the events of a list are opened. */
#define OPENING_MAX (1000 * MS)
/* And the process may map other code all the time: this many times as long as it took, nothing is opened again. */
#define OPENING_REST 9

/* A watch point of the list. */
struct watch_slot {
	struct watch_events *events; /* NULL: it is not in use, or the process has not mapped its code */
	struct watch_calls calls;
	uint64_t window, rests_since; /* CLOCK_MONOTONIC; rests_since 0: the slot is watched now */
	uint64_t n_in_window;
	unsigned losing;          /* rings of which samples were lost at the time of the last sample */
	struct quantile *lengths; /* of calls, where they are compared with each other; or NULL */
};

struct perf_watch {
	/* Used by the capture thread only: */
	struct capture_watch_list list;
	struct watch_slot slots[EMU_WATCHES_MAX];
	struct watch_join joins[EMU_WATCHES_MAX]; /* of the entries that are EMU_WATCH_JOIN */
	uint64_t newest;                          /* time of a sample, in the records' clock */
	uint32_t *exited;                         /* threads that have ended since the last reading */
	size_t n_exited, exited_room;
	unsigned n_switches; /* slots of which switches are recorded */
	bool stale;          /* the process has mapped other code */
	uint64_t opens_at;   /* CLOCK_MONOTONIC: before, events of other code are not opened again */
	bool settles;        /* a hit has stopped tracing in this turn */
	uint64_t held_since; /* CLOCK_MONOTONIC; 0: no hit has stopped tracing */
	/* Under the machine's lock: */
	struct emu_watch_count counts[EMU_WATCHES_MAX];
	uint64_t hold[EMU_WATCHES_MAX]; /* as in lib/emu/ring.h */
	uint64_t rests[EMU_WATCHES_MAX], rested_ns[EMU_WATCHES_MAX];
	uint64_t n_hits;
	struct emu_hit hits[EMU_HITS_MAX];
	bool unnoticed;
	uint64_t read_at; /* CLOCK_MONOTONIC: all hits before are known */
};

/* True if the kernel has events for an entry. */
static bool has_events(const struct emu_watch *w)
{
	return w->kind != EMU_WATCH_NONE && w->kind != EMU_WATCH_JOIN;
}

static bool is_code(enum emu_watch_kind kind)
{
	return kind == EMU_WATCH_POINT || kind == EMU_WATCH_CALL || kind == EMU_WATCH_GO_CALL;
}

static void count_unknown(struct perf_target *s, uint32_t slot, uint64_t n)
{
	if (!n)
		return;
	pthread_mutex_lock(&s->m->lock);
	s->watch->counts[slot].unknown += n;
	pthread_mutex_unlock(&s->m->lock);
}

static void count_one_unknown(void *data, uint32_t slot)
{
	count_unknown(data, slot, 1);
}

/* Calls that do not return. A system call or a wait that does not has ended its thread. */
static void count_left(struct perf_target *s, uint32_t slot, uint64_t n)
{
	enum emu_watch_kind kind = s->watch->list.watches[slot].kind;

	if (kind != EMU_WATCH_SYSCALL && kind != EMU_WATCH_OFF_CPU)
		count_unknown(s, slot, n);
}

static void drop_call(void *data, uint32_t slot)
{
	count_left(data, slot, 1);
}

/* The slot is not watched from now on. */
static void drop_calls(struct perf_target *s, struct watch_slot *slot)
{
	watch_calls_drop(&slot->calls, 0, drop_call, s);
}

static void count_hits(struct perf_target *s, uint32_t slot, uint64_t n)
{
	pthread_mutex_lock(&s->m->lock);
	s->watch->counts[slot].hits += n;
	pthread_mutex_unlock(&s->m->lock);
}

/* Hits that no sample reports; of calls, it is unknown whether they are hits. */
static void count_lost(struct perf_target *s, uint32_t slot, uint64_t n)
{
	enum emu_watch_kind kind = s->watch->list.watches[slot].kind;

	if (kind == EMU_WATCH_POINT || kind == EMU_WATCH_SIGNAL)
		count_hits(s, slot, n);
	else
		count_unknown(s, slot, n);
}

/* Where a call for the trace events waits, those of the same threads would wait for it. */
static void close_slot(struct perf_target *s, uint32_t slot)
{
	struct watch_slot *is = &s->watch->slots[slot];

	drop_calls(s, is);
	if (is->events && !s->grid.stuck)
		count_lost(s, slot, watch_events_unread(is->events));
	if (is->events && s->watch->list.watches[slot].kind == EMU_WATCH_OFF_CPU)
		s->watch->n_switches--;
	is->events = s->grid.stuck ? watch_events_free_in_thread(is->events) : watch_events_free(is->events);
	is->rests_since = is->n_in_window = 0;
	is->losing = 0;
	free(is->lengths);
	is->lengths = NULL;
}

/* The process must be its owner's after the events exist: until then they count nothing. */
static int check_owner(const struct perf_target *s, struct reason *why)
{
	struct credentials c;
	int rc = credentials_read(s->pid, &c);

	if (rc == 0 && (s->lost || !credentials_owned(&c, s->uid)))
		return reason_set(why, -EACCES, "the process is not its owner's alone");
	return rc;
}

static int open_slot(struct perf_target *s, uint32_t slot, uint64_t until, struct reason *why)
{
	_cleanup_free_ uint32_t *cpus = calloc(s->m->topology->n_cpus + 1, sizeof(*cpus));
	const struct process_of of = perf_target_process(s);
	struct watch_opening o = { .of = { of.account, of.pid },
				   .cpus = cpus,
				   .poll_fd = s->m->poll_fd,
				   .most = perf_share_events(s),
				   .until = until };
	struct watch_slot *is = &s->watch->slots[slot];
	struct watch_specs specs = { 0 };
	int rc = cpus ? 0 : -ENOMEM;

	for (size_t i = 0; rc == 0 && i < s->m->topology->n_cpus; i++)
		if (s->m->topology->cpus[i].online)
			cpus[o.n_cpus++] = s->m->topology->cpus[i].cpu;
	if (rc == 0)
		rc = watch_places_find(&of, &s->watch->list, slot, &specs, why);
	if (rc == 0)
		rc = watch_events_open(&o, &specs, &is->events, why);
	watch_specs_done(&specs);
	if (rc == 0)
		rc = check_owner(s, why);
	if (rc < 0) {
		is->events = watch_events_free(is->events);
		return rc;
	}
	if (s->watch->list.watches[slot].kind == EMU_WATCH_OFF_CPU)
		s->watch->n_switches++;
	is->window = now_ns(CLOCK_MONOTONIC);
	watch_events_enable(is->events, true);
	return 0;
}

static bool is_same(const struct capture_watch_list *a, const struct capture_watch_list *b, uint32_t slot)
{
	return memcmp(&a->watches[slot], &b->watches[slot], sizeof(a->watches[slot])) == 0 &&
	       memcmp(&a->ends[slot], &b->ends[slot], sizeof(a->ends[slot])) == 0;
}

static int ensure_watch(struct perf_target *s)
{
	struct perf_watch *w = s->watch ? s->watch : calloc(1, sizeof(*w));

	pthread_mutex_lock(&s->m->lock);
	s->watch = w;
	pthread_mutex_unlock(&s->m->lock);
	return w ? 0 : -ENOMEM;
}

/* The entries that remain the same are watched all the time. */
static int set_list(struct capture_source *source, const struct capture_watch_list *list, struct reason *why)
{
	struct perf_target *s = perf_target_of(source);
	uint64_t changed = 0, until = now_ns(CLOCK_MONOTONIC) + OPENING_MAX;
	int rc = ensure_watch(s);

	for (uint32_t i = 0; i < EMU_WATCHES_MAX && rc == 0; i++) {
		if (is_same(&s->watch->list, list, i))
			continue;
		changed |= 1ull << i;
		close_slot(s, i);
		s->watch->list.watches[i] = list->watches[i];
		s->watch->list.ends[i] = list->ends[i];
		s->watch->joins[i] = (struct watch_join){ { 0 } };
		pthread_mutex_lock(&s->m->lock);
		s->watch->hold[i] = 0;
		pthread_mutex_unlock(&s->m->lock);
	}
	for (uint32_t i = 0; i < EMU_WATCHES_MAX && rc == 0; i++)
		if (changed >> i & 1 && has_events(&list->watches[i]) && s->armed)
			rc = open_slot(s, i, until, why);
	if (rc < 0 && !*why->text)
		reason_set(why, rc, "setting the watch points: %s", strerror(-rc));
	return rc;
}

void perf_watch_arm(struct perf_target *s)
{
	uint64_t until = now_ns(CLOCK_MONOTONIC) + OPENING_MAX;
	struct reason why = { "" };

	for (uint32_t i = 0; s->watch && i < EMU_WATCHES_MAX; i++)
		if (has_events(&s->watch->list.watches[i]) && !s->watch->slots[i].events &&
		    open_slot(s, i, until, &why) < 0)
			log_debug("cannot watch process %d again: %s", (int)s->pid, why.text);
	if (s->watch)
		s->watch->stale = false;
}

void perf_watch_close(struct perf_target *s)
{
	for (uint32_t i = 0; s->watch && i < EMU_WATCHES_MAX; i++) {
		close_slot(s, i);
		s->watch->joins[i] = (struct watch_join){ { 0 } };
	}
	if (s->watch)
		s->watch->held_since = 0;
}

void perf_watch_free(struct perf_target *s)
{
	perf_watch_close(s);
	for (uint32_t i = 0; s->watch && i < EMU_WATCHES_MAX; i++)
		watch_calls_done(&s->watch->slots[i].calls);
	if (s->watch)
		free(s->watch->exited);
	free(s->watch);
}

static bool is_mapped_anew(const struct perf_watch *w, const struct perf_record *r)
{
	struct reader body = reader_of(r->body, r->size);
	const uint8_t *skipped;
	uint64_t inode;

	if (rd_bytes(&body, 40, &skipped) < 0 || rd_u64(&body, &inode) < 0)
		return false;
	for (uint32_t i = 0; i < EMU_WATCHES_MAX; i++)
		if (has_events(&w->list.watches[i]) && w->list.watches[i].inode == inode && inode)
			return true;
	return false;
}

void perf_watch_record(struct perf_target *s, const struct perf_record *r)
{
	struct reader body = reader_of(r->body, r->size);
	struct perf_watch *w = s->watch;
	uint32_t pid, parent, tid;

	if (!w)
		return;
	if ((r->type == PERF_RECORD_COMM && r->misc & PERF_RECORD_MISC_COMM_EXEC) ||
	    (r->type == PERF_RECORD_MMAP2 && is_mapped_anew(w, r)))
		w->stale = true;
	if (r->type == PERF_RECORD_EXIT && rd_u32(&body, &pid) == 0 && rd_u32(&body, &parent) == 0 &&
	    rd_u32(&body, &tid) == 0 && array_reserve(w->exited, w->n_exited, &w->exited_room) == 0)
		w->exited[w->n_exited++] = tid;
}

/* Stops tracing, so that the rings keep what led to the hit. Sinks that targets share are emptied into their rings. */
static bool freeze(struct perf_target *s, uint32_t slot, uint64_t value)
{
	struct perf_watch *w = s->watch;
	uint64_t least;

	/* The next hit after the pause is to freeze them. */
	if (s->paused)
		return false;
	pthread_mutex_lock(&s->m->lock);
	least = w->hold[slot];
	if (least && value >= least - 1)
		w->hold[slot] = 0;
	else
		least = 0;
	pthread_mutex_unlock(&s->m->lock);
	if (!least || w->held_since || s->m->paused || s->lost)
		return false;
	if (s->shared) {
		arena_flush(&s->m->arena);
		return true;
	}
	grid_stop(&s->grid);
	w->held_since = now_ns(CLOCK_MONOTONIC);
	w->settles = true;
	return true;
}

/* Returns the slot of the EMU_WATCH_JOIN to which a slot belongs, or else the slot itself. */
static uint32_t join_slot_of(const struct perf_watch *w, uint32_t slot)
{
	for (uint32_t i = 0; i < EMU_WATCHES_MAX; i++)
		if (watch_join_has(&w->list.watches[i], slot))
			return i;
	return slot;
}

static void record_hit(struct perf_target *s, const struct watch_sample *x, enum emu_hit_how how, uint64_t value)
{
	struct perf_watch *w = s->watch;
	uint32_t slot = x->spec->slot;
	bool held = freeze(s, join_slot_of(w, slot), value);
	uint64_t time = x->time - (uint64_t)sideband_shift(s->m->sideband);
	struct emu_hit *h;

	pthread_mutex_lock(&s->m->lock);
	h = &w->hits[w->n_hits++ % EMU_HITS_MAX];
	*h = (struct emu_hit){ .number = w->n_hits,
			       .watch = slot,
			       .trigger = w->list.watches[slot].trigger,
			       .tid = x->tid,
			       .how = how,
			       .time_ns = time,
			       .value = value,
			       .monotonic_ns = time,
			       .held = held };
	w->unnoticed = true;
	pthread_mutex_unlock(&s->m->lock);
	if (held)
		log_debug("process %d: %llu us from the hit to the freeze", (int)s->pid,
			  (unsigned long long)(now_ns(CLOCK_MONOTONIC) - time) / 1000);
}

static void add_hit(struct perf_target *s, const struct watch_sample *x, enum emu_hit_how how, uint64_t value)
{
	struct perf_watch *w = s->watch;
	uint32_t slot = x->spec->slot, holder = join_slot_of(w, slot);

	count_hits(s, slot, 1);
	if (holder != slot && !watch_join_hit(&w->joins[holder], &w->list.watches[holder], slot, w->newest))
		return;
	if (holder != slot)
		count_hits(s, holder, 1);
	record_hit(s, x, how, value);
}

/* Returns whether a call of known length is a hit. */
static bool is_long(struct watch_slot *is, const struct emu_watch *w, uint64_t time, uint64_t ns)
{
	if (w->longer_than != EMU_LONGER_THAN_P99)
		return ns > w->longer_than;
	if (!is->lengths)
		is->lengths = calloc(1, sizeof(*is->lengths));
	return is->lengths && quantile_add(is->lengths, time, ns);
}

/* In the time in which samples were lost, that of the return may be one of them, and this one another call's. */
static void on_lost(struct perf_target *s, struct watch_slot *is, bool loses)
{
	watch_calls_drop(&is->calls, 0, count_one_unknown, s);
	is->losing += loses ? 1 : -1u;
}

static void on_return(struct perf_target *s, const struct watch_sample *x, uint64_t ns)
{
	struct watch_slot *is = &s->watch->slots[x->spec->slot];

	pthread_mutex_lock(&s->m->lock);
	if (is->losing)
		s->watch->counts[x->spec->slot].unknown++;
	else
		s->watch->counts[x->spec->slot].measured++;
	pthread_mutex_unlock(&s->m->lock);
	if (!is->losing && is_long(is, &s->watch->list.watches[x->spec->slot], x->time, ns))
		add_hit(s, x, EMU_HIT_RETURNED, ns);
}

/* A thread is away from its switch out to its next switch in, as if in a call. */
static enum watch_role role_of(const struct watch_sample *x)
{
	return x->spec->role != WATCH_SWITCH ? x->spec->role : x->out ? WATCH_ENTER : WATCH_LEAVE;
}

static void on_sample(void *data, const struct watch_sample *x)
{
	struct perf_target *s = data;
	struct watch_slot *is = &s->watch->slots[x->spec->slot];
	const uint64_t *registers = x->registers.values;
	const struct watch_moment at = { .slot = x->spec->slot,
					 .tid = x->tid,
					 .goroutine = x->spec->go ? registers[WATCH_GOROUTINE] : 0,
					 .sp = registers[WATCH_SP],
					 .lr = registers[WATCH_LR],
					 .time = x->time };
	unsigned unknown = 0;
	uint64_t ns;

	/* What a switch costs is little beside the switch. */
	is->n_in_window += x->spec->role != WATCH_SWITCH;
	/* A sample that was written late, after newer ones had been read, counts as the newest. */
	s->watch->newest = MAX(s->watch->newest, x->time);
	if (x->pid != (uint32_t)s->pid)
		return;
	switch (role_of(x)) {
	case WATCH_REACHED:
	case WATCH_ENDS:
		add_hit(s, x, x->spec->role == WATCH_ENDS ? EMU_HIT_ENDED : EMU_HIT_REACHED, 0);
		return;
	case WATCH_HANDLER:
		return;
	case WATCH_ENTER:
		unknown = watch_calls_enter(&is->calls, &at);
		break;
	case WATCH_LEAVE:
	case WATCH_SWITCH:
		if (watch_calls_leave(&is->calls, &at, &ns, &unknown))
			on_return(s, x, ns);
		break;
	case WATCH_LOSES:
	case WATCH_LOST:
		on_lost(s, is, x->spec->role == WATCH_LOSES);
		return;
	}
	count_left(s, at.slot, unknown);
}

/* A slot with too many events would cost its program most of its time: it is not watched for a while. */
static void limit_slot(struct perf_target *s, uint32_t slot, uint64_t now)
{
	struct watch_slot *is = &s->watch->slots[slot];

	if (is->rests_since && now - is->rests_since < REST_MS * MS)
		return;
	if (is->rests_since) {
		pthread_mutex_lock(&s->m->lock);
		s->watch->rested_ns[slot] += now - is->rests_since;
		pthread_mutex_unlock(&s->m->lock);
		is->rests_since = is->n_in_window = 0;
		is->window = now;
		/* Calls whose entry was read after the rest had begun. */
		drop_calls(s, is);
		watch_events_enable(is->events, true);
	} else if (is->n_in_window > STORM_EVENTS) {
		watch_events_enable(is->events, false);
		is->rests_since = now;
		drop_calls(s, is);
		pthread_mutex_lock(&s->m->lock);
		s->watch->rests[slot]++;
		pthread_mutex_unlock(&s->m->lock);
	} else if (now - is->window > STORM_MS * MS) {
		is->window = now;
		is->n_in_window = 0;
	}
}

static void read_slots(struct perf_target *s)
{
	struct watch_events *all[EMU_WATCHES_MAX];

	for (uint32_t i = 0; i < EMU_WATCHES_MAX; i++)
		all[i] = s->watch->slots[i].events;
	watch_events_read(all, EMU_WATCHES_MAX, on_sample, s);
	for (uint32_t i = 0; i < EMU_WATCHES_MAX; i++) {
		if (!all[i])
			continue;
		count_lost(s, i, watch_events_lost(all[i]));
		limit_slot(s, i, now_ns(CLOCK_MONOTONIC));
	}
}

static void drop_exited(struct perf_target *s, size_t n)
{
	struct perf_watch *w = s->watch;

	for (size_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < EMU_WATCHES_MAX; k++) {
			watch_calls_drop(&w->slots[k].calls, w->exited[i], drop_call, s);
			if (w->slots[k].events)
				watch_events_forget(w->slots[k].events, w->exited[i]);
		}
	w->n_exited -= n;
	memmove(w->exited, w->exited + n, w->n_exited * sizeof(*w->exited));
}

static void open_stale(struct perf_target *s)
{
	uint64_t begin = now_ns(CLOCK_MONOTONIC), end;

	for (uint32_t i = 0; i < EMU_WATCHES_MAX; i++)
		if (is_code(s->watch->list.watches[i].kind))
			close_slot(s, i);
	perf_watch_arm(s);
	perf_share_worked(s, begin);
	end = now_ns(CLOCK_MONOTONIC);
	s->watch->opens_at = end + OPENING_REST * (end - begin);
}

void perf_watch_drain(struct perf_target *s)
{
	uint64_t now = now_ns(CLOCK_MONOTONIC);
	struct perf_watch *w = s->watch;
	size_t exited;

	if (!w)
		return;
	exited = w->n_exited;
	read_slots(s);
	pthread_mutex_lock(&s->m->lock);
	w->read_at = now;
	pthread_mutex_unlock(&s->m->lock);
	if (!s->armed)
		return;
	if (exited)
		drop_exited(s, exited);
	if (w->settles) {
		/* What was recorded up to the stop is read before threads may run untraced. */
		w->settles = false;
		perf_machine_read_records(s->m);
		grid_pause(&s->grid, true);
	}
	if (w->held_since && now_ns(CLOCK_MONOTONIC) - w->held_since > HELD_MAX_SECONDS * 1000 * MS)
		perf_watch_thaw(s);
	if (w->stale && now >= w->opens_at && !perf_share_rests(s) && !s->lost && !s->thread_table.ended)
		open_stale(s);
}

bool perf_watch_polls(const struct perf_target *s)
{
	return s->watch && s->watch->n_switches && !s->lost && !s->thread_table.ended;
}

size_t perf_watch_events(const struct perf_target *s)
{
	size_t n = 0;

	for (uint32_t i = 0; s->watch && i < EMU_WATCHES_MAX; i++)
		if (s->watch->slots[i].events)
			n += watch_events_count(s->watch->slots[i].events);
	return n;
}

uint64_t perf_watch_held(const struct perf_target *s)
{
	return s->watch ? s->watch->held_since : 0;
}

void perf_watch_thaw(struct perf_target *s)
{
	if (!perf_watch_held(s))
		return;
	s->watch->held_since = 0;
	perf_machine_read_records(s->m);
	if (!s->m->paused && !s->paused && !s->lost)
		grid_pause(&s->grid, false);
	perf_machine_read_records(s->m);
}

static int release(struct capture_source *source)
{
	struct perf_target *s = perf_target_of(source);

	if (s->armed)
		perf_watch_thaw(s);
	return 0;
}

static void hold(struct capture_source *source, uint32_t slot, uint64_t least)
{
	struct perf_target *s = perf_target_of(source);

	pthread_mutex_lock(&s->m->lock);
	if (s->watch)
		s->watch->hold[slot] = least < UINT64_MAX ? least + 1 : 0;
	pthread_mutex_unlock(&s->m->lock);
}

/* Each drain that finds hits gives notice. */
static void want(struct capture_source *source)
{
}

bool perf_target_has_hits(struct capture_source *source)
{
	struct perf_target *s = perf_target_of(source);
	bool has;

	pthread_mutex_lock(&s->m->lock);
	has = s->watch && s->watch->unnoticed;
	if (has)
		s->watch->unnoticed = false;
	pthread_mutex_unlock(&s->m->lock);
	return has;
}

static size_t read_hits(struct capture_source *source, uint64_t *cursor, struct emu_hit *ret, size_t max)
{
	struct perf_target *s = perf_target_of(source);
	uint64_t head;
	size_t n = 0;

	pthread_mutex_lock(&s->m->lock);
	head = s->watch ? s->watch->n_hits : 0;
	*cursor = MIN(*cursor, head);
	if (head - *cursor > EMU_HITS_MAX)
		*cursor = head - EMU_HITS_MAX;
	while (n < max && *cursor < head)
		ret[n++] = s->watch->hits[(*cursor)++ % EMU_HITS_MAX];
	pthread_mutex_unlock(&s->m->lock);
	return n;
}

static int read_counts(struct capture_source *source, struct emu_watch_count *ret)
{
	struct perf_target *s = perf_target_of(source);

	pthread_mutex_lock(&s->m->lock);
	if (s->watch)
		memcpy(ret, s->watch->counts, sizeof(s->watch->counts));
	else
		memset(ret, 0, sizeof(s->watch->counts));
	pthread_mutex_unlock(&s->m->lock);
	return 0;
}

static bool is_applied(struct capture_source *source, uint32_t *ret_limits)
{
	*ret_limits = 0;
	return true;
}

static void describe_watching(struct capture_source *source, enum emu_watch_kind kind, struct capture_watch_state *ret)
{
	struct perf_target *s = perf_target_of(source);
	bool code = is_code(kind), switches = kind == EMU_WATCH_OFF_CPU;

	*ret = (struct capture_watch_state){ .mechanism = code       ? "breakpoint"
							  : switches ? "switches"
								     : "tracepoint",
					     .cost = code       ? "two exceptions, to the kernel and back"
						     : switches ? "two records in the kernel"
								: "a record in the kernel" };
	pthread_mutex_lock(&s->m->lock);
	for (uint32_t i = 0; s->watch && i < EMU_WATCHES_MAX; i++) {
		ret->rests += s->watch->rests[i];
		ret->rested_ns += s->watch->rested_ns[i];
	}
	pthread_mutex_unlock(&s->m->lock);
}

static bool is_settled(struct capture_source *source, uint64_t ended)
{
	struct perf_target *s = perf_target_of(source);
	bool settled;

	pthread_mutex_lock(&s->m->lock);
	/* The rings of a target that is disarmed are read no more. */
	settled = !s->watch || s->cpu_time == UINT64_MAX || s->watch->read_at > ended;
	pthread_mutex_unlock(&s->m->lock);
	return settled;
}

const struct capture_watching perf_watching = {
	.set = set_list,
	.release = release,
	.hold = hold,
	.want = want,
	.hits = read_hits,
	.counts = read_counts,
	.applied = is_applied,
	.state = describe_watching,
	.settled = is_settled,
};
