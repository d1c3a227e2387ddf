/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/quantile.h"
#include "lib/base/util.h"
#include "lib/code/a64.h"
#include "lib/emu/guest.h"
#include "lib/emu/maps.h"
#include "lib/emu/watch.h"
#include "lib/emu/watch-goroutines.h"
#include "lib/emu/watch-join.h"

enum {
	OPEN_MAX = 32,      /* watched calls of a thread that are open at a time */
	FRAMES_MAX = 65536, /* that is_caller() reads */
	LINKS = 64,         /* return addresses of a thread that are remembered; a power of two */
	STALE_MAX = 256,    /* translations that one new list discards */
};

/* A call that is open. */
struct watched_call {
	uint64_t sp, fp, lr, start;
	uint32_t watch, serial;
	uint32_t links; /* return addresses on the thread's list, with that of this call */
	bool cut;       /* the thread was not traced in part of it */
};

struct watch_thread {
	uint64_t alternate, alternate_end; /* the stack of signal handlers */
	uint64_t links[LINKS];             /* the newest are valid; they only save reading the stack pointer */
	uint32_t n_links, n_open;
	struct watched_call open[OPEN_MAX];
};

/* A watch of a block. The serial distinguishes it from a later one in the same place of the list. */
struct watched_place {
	uint32_t watch, serial;
};

struct watched_block {
	struct traced_block *block;
	uint64_t address;
	unsigned n;
	struct watched_place places[];
};

/* The list in effect: written under the lock, read without. An entry changes only with its serial. */
static struct emu_watch list[EMU_WATCHES_MAX];
static _Atomic uint32_t serials[EMU_WATCHES_MAX]; /* 0: not in use */
static _Atomic uint32_t epoch;
/* The lengths of the calls of each watch with EMU_LONGER_THAN_P99. The lock guards them. */
static struct quantile *lengths[EMU_WATCHES_MAX];
/* Of each watch 1 + the index of its EMU_WATCH_JOIN; 0: it belongs to none. Set before the watch is in use. */
static _Atomic uint32_t join_of[EMU_WATCHES_MAX];
/* Of each EMU_WATCH_JOIN. The lock guards them. */
static struct watch_join joins[EMU_WATCHES_MAX];

static bool in_use(uint32_t watch, uint32_t serial)
{
	return atomic_load_explicit(&serials[watch], memory_order_acquire) == serial;
}

/* Freezes the rings if the daemon wants that for this value and they are not frozen. Returns true if it froze them. */
static bool hold(uint32_t watch, uint64_t value, uint64_t now)
{
	struct emu_watching *w = tracing.shared.watching;
	uint32_t word = atomic_load(tracing.control_word);
	uint64_t least = atomic_load(&w->hold[watch]);

	if (word & 1 || !least || value < least - 1 || !atomic_compare_exchange_strong(&w->hold[watch], &least, 0))
		return false;
	atomic_store(&w->held_ns, now);
	return atomic_compare_exchange_strong(tracing.control_word, &word, word + 1);
}

/* Passes a hit to the join of its watch. Returns true if it is one of the join. The lock orders the hits of threads. */
static bool complete_join(uint32_t watch, uint32_t join, uint64_t *ret_now)
{
	bool complete;

	pthread_mutex_lock(&tracing.lock);
	*ret_now = now_ns(CLOCK_MONOTONIC);
	complete = watch_join_has(&list[join], watch) && watch_join_hit(&joins[join], &list[join], watch, *ret_now);
	pthread_mutex_unlock(&tracing.lock);
	return complete;
}

static void record_hit(struct traced_thread *t, uint32_t watch, enum emu_hit_how how, uint64_t value)
{
	uint32_t join = atomic_load(&join_of[watch]), holder = join ? join - 1 : watch;
	struct emu_watching *w = tracing.shared.watching;
	uint64_t number, now = now_ns(CLOCK_MONOTONIC);
	struct emu_hit *h;

	atomic_fetch_add(&w->counts[watch].hits, 1);
	if (join && !complete_join(watch, holder, &now))
		return;
	if (join)
		atomic_fetch_add(&w->counts[holder].hits, 1);
	number = atomic_fetch_add(&w->n_hits, 1);
	h = &w->hits[number % EMU_HITS_MAX];
	atomic_store(&h->number, 0);
	h->watch = watch;
	h->trigger = list[watch].trigger;
	h->tid = t->slot ? t->slot->tid : (uint32_t)syscall(SYS_gettid);
	h->how = how;
	h->time_ns = tracing_now(t);
	h->value = value;
	h->monotonic_ns = now;
	h->held = hold(holder, value, now);
	atomic_store(&h->number, number + 1);
	if (!atomic_load(&w->wanted) || !atomic_exchange(&w->wanted, 0))
		return;
	pthread_mutex_lock(&tracing.lock);
	shared_send_hits(&tracing.shared);
	pthread_mutex_unlock(&tracing.lock);
}

/* Returns whether a call that took ns is a hit of its watch. */
static bool is_long(uint32_t watch, uint64_t ns)
{
	bool longer = false;

	if (list[watch].longer_than != EMU_LONGER_THAN_P99)
		return ns > list[watch].longer_than;
	pthread_mutex_lock(&tracing.lock);
	if (!lengths[watch])
		lengths[watch] = calloc(1, sizeof(*lengths[watch]));
	if (lengths[watch])
		longer = quantile_add(lengths[watch], now_ns(CLOCK_MONOTONIC), ns);
	pthread_mutex_unlock(&tracing.lock);
	return longer;
}

static bool on_alternate(const struct watch_thread *w, uint64_t sp)
{
	return sp > w->alternate && sp <= w->alternate_end;
}

static void count_unknown(uint32_t watch)
{
	atomic_fetch_add(&tracing.shared.watching->counts[watch].unknown, 1);
}

/* Counts a call of known duration that has ended, and records a hit if it was long enough. */
static void count_call(struct traced_thread *t, uint32_t watch, enum emu_hit_how how, uint64_t value)
{
	atomic_fetch_add(&tracing.shared.watching->counts[watch].measured, 1);
	if (is_long(watch, value))
		record_hit(t, watch, how, value);
}

/*
 * True if the frame in which the thread is now is one from which the call was made, by the list of frames that x29
 * begins: an exception or longjmp() led there. Else the thread has left the stack of the call, and may return to it.
 */
static bool is_caller(const struct watched_call *c)
{
	uint64_t now = guest_register(GUEST_FP), frame = c->fp, next;

	for (unsigned i = 0; frame < now && i < FRAMES_MAX; i++, frame = next)
		if (!guest_try_read(tracing.base, frame, &next, sizeof(next)) || next <= frame)
			return false;
	return frame == now;
}

/* Ends the innermost open call. */
static void close_call(struct traced_thread *t, enum emu_hit_how how)
{
	struct watch_thread *w = t->watch;
	const struct watched_call *c = &w->open[--w->n_open];
	uint64_t now = tracing_now(t);

	t->watching = w->n_open > 0;
	w->n_links = MIN(w->n_links, c->links - 1);
	if (!in_use(c->watch, c->serial))
		return;
	if (c->cut || tracing_clock_stands(t) || (how == EMU_HIT_LEFT && !is_caller(c)))
		count_unknown(c->watch);
	else
		count_call(t, c->watch, how, now > c->start ? now - c->start : 0);
}

static void close_goroutine_call(struct traced_thread *t, const struct watch_goroutines_end *end)
{
	if (!in_use(end->watch, end->serial))
		return;
	if (end->known)
		count_call(t, end->watch, end->how, end->ns);
	else
		count_unknown(end->watch);
}

/* Ends the open calls that an indirect branch to pc has left. */
static void close_left(struct traced_thread *t, uint64_t pc)
{
	struct watch_thread *w = t->watch;
	uint64_t sp = guest_register(GUEST_SP), lr = guest_register(GUEST_LR);

	while (w->n_open) {
		const struct watched_call *c = &w->open[w->n_open - 1];

		if (on_alternate(w, sp) != on_alternate(w, c->sp) || sp < c->sp)
			return;
		if (sp == c->sp && pc == c->lr) {
			close_call(t, EMU_HIT_RETURNED);
			continue;
		}
		/*
		 * With the stack pointer of its entry, a call executes before it has a frame, or in a tail call: then
		 * it has called nothing that is still open, and the branch does not go to the return address of
		 * another.
		 */
		if (sp == c->sp && w->n_links <= c->links && pc != lr)
			return;
		close_call(t, EMU_HIT_LEFT);
	}
}

/* Removes the newest return address that equals address, and those above it; they were left without a return. */
static bool pop_link(struct watch_thread *w, uint64_t address)
{
	for (uint32_t n = w->n_links, end = n - MIN(n, LINKS); n > end; n--)
		if (w->links[(n - 1) % LINKS] == address) {
			bool newest = n == w->n_links;

			w->n_links = n - 1;
			return newest;
		}
	return false;
}

void watch_step(struct traced_thread *t, const struct traced_block *before, uint64_t address)
{
	struct watch_goroutines_end end;
	struct watch_thread *w = t->watch;

	while (tracing.following && watch_goroutines_step(t, before, address, &end))
		close_goroutine_call(t, &end);
	if (!t->watching)
		return;
	if (t->stopped)
		for (uint32_t i = 0; i < w->n_open; i++)
			w->open[i].cut |= tracing_clock_stands(t);
	if (!before || (!before->link && before->kind != A64_INDIRECT))
		return;
	if (before->link) {
		w->links[w->n_links++ % LINKS] = before->end;
		return;
	}
	if (pop_link(w, address) && w->n_links >= w->open[w->n_open - 1].links)
		return;
	close_left(t, address);
}

/* Ends, at the entry of a function, the calls that the thread left while it was not traced. called: by a call. */
static void close_unseen(struct traced_thread *t, bool called)
{
	const struct watch_thread *w = t->watch;
	uint64_t sp = guest_register(GUEST_SP);

	while (w->n_open && on_alternate(w, sp) == on_alternate(w, w->open[w->n_open - 1].sp) &&
	       (w->open[w->n_open - 1].sp < sp || (called && w->open[w->n_open - 1].sp == sp)))
		close_call(t, EMU_HIT_LEFT);
}

static void open_call(struct traced_thread *t, const struct watched_place *p)
{
	struct watch_thread *w = t->watch;
	uint64_t sp = guest_register(GUEST_SP), lr = guest_register(GUEST_LR);

	if (w->n_open == OPEN_MAX) {
		count_unknown(p->watch);
		return;
	}
	if (!w->n_open)
		w->n_links = 0;
	if (!w->n_links || w->links[(w->n_links - 1) % LINKS] != lr)
		w->links[w->n_links++ % LINKS] = lr;
	w->open[w->n_open++] = (struct watched_call){ .sp = sp,
						      .fp = guest_register(GUEST_FP),
						      .lr = lr,
						      .start = tracing_now(t),
						      .watch = p->watch,
						      .serial = p->serial,
						      .links = w->n_links,
						      .cut = tracing_clock_stands(t) };
	t->watching = true;
}

static void open_goroutine_call(struct traced_thread *t, const struct watched_place *p, uint64_t pc)
{
	const struct watch_goroutines_place place = { p->watch, p->serial, pc, list[p->watch].size };
	struct watch_goroutines_end end;

	while (watch_goroutines_left(t, &place, &end))
		close_goroutine_call(t, &end);
	if (!watch_goroutines_enter(t, &place))
		count_unknown(p->watch);
}

/* Control reached a watched address, at pc, from a block; before: NULL if that is unknown. */
static void reached(struct traced_thread *t, const struct watched_place *p, uint64_t pc,
		    const struct traced_block *before)
{
	const struct emu_watch *w = &list[p->watch];
	bool called = before && before->link;

	if (!in_use(p->watch, p->serial))
		return;
	/* A function that jumps to its own beginning is not called again. */
	if (before && !called && before->start >= pc && before->start - pc < w->size)
		return;
	if (w->kind == EMU_WATCH_POINT) {
		record_hit(t, p->watch, EMU_HIT_REACHED, 0);
		return;
	}
	if (w->kind == EMU_WATCH_GO_CALL) {
		open_goroutine_call(t, p, pc);
		return;
	}
	if (!t->watch)
		t->watch = calloc(1, sizeof(*t->watch));
	if (t->watch)
		open_call(t, p);
}

/* Called instead of tracing_block() before a block that begins with a watched address. */
static void enter_block(unsigned vcpu, void *userdata)
{
	const struct watched_block *w = userdata;
	struct traced_thread *t = tracing_thread;
	const struct traced_block *before = t && t->last ? t->last : t ? t->untraced : NULL;

	tracing_block(vcpu, w->block);
	t = tracing_thread;
	if (t && t->watching)
		close_unseen(t, before && before->link);
	for (unsigned i = 0; t && i < w->n; i++)
		reached(t, &w->places[i], w->block->start, before);
}

/* Called before an instruction within a block. */
static void enter_instruction(unsigned vcpu, void *userdata)
{
	const struct watched_block *w = userdata;
	struct traced_thread *t = tracing_thread;

	for (unsigned i = 0; t && i < w->n; i++)
		reached(t, &w->places[i], w->address, NULL);
}

static bool is_place(const struct emu_watch *w)
{
	return w->kind == EMU_WATCH_POINT || w->kind == EMU_WATCH_CALL || w->kind == EMU_WATCH_GO_CALL;
}

/* Sets *ret to the address of a watch. Returns false if that is an offset in a file which the region does not map. */
static bool find_place_in(const struct emu_watch *w, const struct maps_region *r, uint64_t *ret)
{
	if (!w->inode) {
		*ret = w->place;
		return true;
	}
	if (!r || !r->file || r->file->inode != w->inode || r->file->major != w->major || r->file->minor != w->minor ||
	    w->place < r->offset || w->place - r->offset >= r->end - r->start)
		return false;
	*ret = r->start + (w->place - r->offset);
	return true;
}

/* Finds the watches of an address; NULL: there are none, or no memory. The result is never freed, like the block. */
static struct watched_block *find_places(struct traced_block *b, const struct maps_region *r, uint64_t address)
{
	struct watched_place found[EMU_WATCHES_MAX];
	struct watched_block *ret;
	uint64_t place;
	unsigned n = 0;

	for (uint32_t i = 0; i < EMU_WATCHES_MAX; i++)
		if (atomic_load(&serials[i]) && is_place(&list[i]) && find_place_in(&list[i], r, &place) &&
		    place == address)
			found[n++] = (struct watched_place){ i, atomic_load(&serials[i]) };
	ret = n ? malloc(sizeof(*ret) + n * sizeof(*found)) : NULL;
	if (!ret)
		return NULL;
	*ret = (struct watched_block){ .block = b, .address = address, .n = n };
	memcpy(ret->places, found, n * sizeof(*found));
	return ret;
}

/* True if the block holds a watched address. */
static bool holds_place(const struct traced_block *b, const struct maps_region *r)
{
	uint64_t place;

	for (uint32_t i = 0; i < EMU_WATCHES_MAX; i++)
		if (atomic_load(&serials[i]) && is_place(&list[i]) && find_place_in(&list[i], r, &place) &&
		    place >= b->start && place < b->end)
			return true;
	return false;
}

qemu_plugin_vcpu_udata_cb_t watch_instrument(struct qemu_plugin_tb *tb, struct traced_block *b, void **ret_data)
{
	const struct maps_region *r = maps_known(b->start);
	struct watched_block *found;

	*ret_data = b;
	if (!atomic_load(&epoch) || !holds_place(b, r))
		return tracing_block;
	for (uint32_t i = 1; i < b->count; i++) {
		found = find_places(b, r, b->start + 4 * i);
		if (found)
			qemu_plugin_register_vcpu_insn_exec_cb(qemu_plugin_tb_get_insn(tb, i), enter_instruction,
							       QEMU_PLUGIN_CB_NO_REGS, found);
	}
	found = find_places(b, r, b->start);
	if (!found)
		return tracing_block;
	*ret_data = found;
	return enter_block;
}

struct stale {
	uint64_t addresses[STALE_MAX];
	unsigned n;
};

static void add_stale(void *data, uint64_t address)
{
	struct stale *s = data;

	if (s->n < STALE_MAX)
		s->addresses[s->n++] = address;
}

/* Puts an entry of the daemon's list into effect; collects the addresses of which translations are out of date. */
static void replace_entry(uint32_t i, const struct emu_watch *fresh, struct stale *stale)
{
	static uint32_t serial;

	if (memcmp(&list[i], fresh, sizeof(*fresh)) == 0)
		return;
	for (unsigned n = 0; n < 2; n++) {
		const struct emu_watch *w = n == 0 ? &list[i] : fresh;
		const struct mapped_file file = { .inode = w->inode, .major = w->major, .minor = w->minor };

		if (is_place(w) && w->inode)
			maps_places(&file, w->place, add_stale, stale);
		else if (is_place(w))
			add_stale(stale, w->place);
	}
	atomic_store(&serials[i], 0);
	free(lengths[i]);
	lengths[i] = NULL;
	joins[i] = (struct watch_join){ { 0 } };
	list[i] = *fresh;
	if (fresh->kind != EMU_WATCH_NONE)
		atomic_store(&serials[i], ++serial ? serial : ++serial);
}

/* A watch that is about to be in use must have its join: alone, its hits would be hits of the trigger. */
static void read_joins(void)
{
	const struct emu_watching *w = tracing.shared.watching;
	uint32_t fresh[EMU_WATCHES_MAX] = { 0 };

	for (uint32_t k = 0; k < EMU_WATCHES_MAX; k++) {
		const struct emu_watch join = w->watches[k];

		for (uint32_t i = 0; join.kind == EMU_WATCH_JOIN && i < EMU_WATCHES_MAX; i++)
			if (watch_join_has(&join, i))
				fresh[i] = k + 1;
	}
	for (uint32_t i = 0; i < EMU_WATCHES_MAX; i++)
		atomic_store(&join_of[i], fresh[i]);
}

static void read_list(struct stale *stale)
{
	const struct emu_watching *w = tracing.shared.watching;
	bool syscalls = false, signals = false;

	read_joins();
	for (uint32_t i = 0; i < EMU_WATCHES_MAX; i++) {
		struct emu_watch fresh = w->watches[i];

		replace_entry(i, &fresh, stale);
		syscalls |= fresh.kind == EMU_WATCH_SYSCALL || fresh.kind == EMU_WATCH_OFF_CPU;
		signals |= fresh.kind == EMU_WATCH_SIGNAL;
	}
	atomic_store(&tracing.watching_syscalls, syscalls);
	atomic_store(&tracing.watching_signals, signals);
}

static bool can_retranslate(void)
{
	return mmap_lock && mmap_unlock && tb_invalidate_phys_range;
}

void watch_begin(void)
{
	tracing.shared.watching->limits = EMU_KNOWS_P99 | EMU_KNOWS_JOINS | EMU_KNOWS_GO_CALLS | EMU_KNOWS_OFF_CPU |
					  (can_retranslate() ? 0 : EMU_CANNOT_RETRANSLATE) |
					  (guest_has_registers() ? 0 : EMU_CANNOT_READ_REGISTERS);
}

void watch_update(void)
{
	struct emu_watching *w = tracing.shared.watching;
	struct stale stale = { .n = 0 };
	uint32_t now;

	if (!w || atomic_load(&w->epoch) == atomic_load(&epoch))
		return;
	pthread_mutex_lock(&tracing.lock);
	now = atomic_load(&w->epoch);
	if (now != atomic_load(&epoch)) {
		read_list(&stale);
		atomic_store(&epoch, now);
	}
	pthread_mutex_unlock(&tracing.lock);
	/* QEMU translates with its lock held, and then takes ours. */
	if (stale.n && can_retranslate()) {
		mmap_lock();
		for (unsigned i = 0; i < stale.n; i++)
			tb_invalidate_phys_range(stale.addresses[i], stale.addresses[i] + 4);
		mmap_unlock();
	}
	atomic_store(&w->applied, now);
}

void watch_forked(struct traced_thread *t)
{
	/* The stack of signal handlers remains. */
	if (t && t->watch)
		t->watch->n_open = 0;
	memset(list, 0, sizeof(list));
	memset(joins, 0, sizeof(joins));
	for (uint32_t i = 0; i < EMU_WATCHES_MAX; i++) {
		atomic_store(&serials[i], 0);
		atomic_store(&join_of[i], 0);
	}
	atomic_store(&epoch, 0);
	watch_goroutines_forked();
	atomic_store(&tracing.watching_syscalls, false);
	atomic_store(&tracing.watching_signals, false);
}

void watch_syscall(struct traced_thread *t, int64_t number, uint64_t ns, uint64_t off_ns)
{
	for (uint32_t i = 0; i < EMU_WATCHES_MAX; i++) {
		bool is = list[i].kind == EMU_WATCH_SYSCALL && list[i].place == (uint64_t)number;
		bool off = list[i].kind == EMU_WATCH_OFF_CPU && off_ns > 0;

		if (!atomic_load(&serials[i]) || (!is && !off))
			continue;
		atomic_fetch_add(&tracing.shared.watching->counts[i].measured, 1);
		if (is_long(i, off ? off_ns : ns))
			record_hit(t, i, EMU_HIT_RETURNED, off ? off_ns : ns);
	}
}

void watch_signal(struct traced_thread *t, unsigned number, bool ends)
{
	for (uint32_t i = 0; i < EMU_WATCHES_MAX; i++)
		if (atomic_load(&serials[i]) && list[i].kind == EMU_WATCH_SIGNAL && list[i].place == number)
			record_hit(t, i, ends ? EMU_HIT_ENDED : EMU_HIT_REACHED, 0);
}

void watch_signal_stack(struct traced_thread *t, uint64_t address)
{
	enum { DISABLED = 2 };
	uint64_t base = guest_u64(tracing.base, address), size = guest_u64(tracing.base, address + 16);
	bool disabled = guest_u64(tracing.base, address + 8) & DISABLED;

	if (!t->watch)
		t->watch = calloc(1, sizeof(*t->watch));
	if (!t->watch)
		return;
	t->watch->alternate = disabled ? 0 : base;
	t->watch->alternate_end = disabled ? 0 : base + size;
}

void watch_thread_ends(struct traced_thread *t)
{
	struct watch_goroutines_end end;

	while (t->watching)
		close_call(t, EMU_HIT_ENDED);
	while (tracing.following && watch_goroutines_thread_ends(t, &end))
		close_goroutine_call(t, &end);
}

void watch_thread_done(struct traced_thread *t)
{
	watch_goroutines_thread_done(t);
	free(t->watch);
	t->watch = NULL;
	t->watching = false;
}
