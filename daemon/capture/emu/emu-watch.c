/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "daemon/capture/emu/emu-internal.h"
#include "lib/base/util.h"

enum { HELD_MAX_SECONDS = 60 };

/*
 * Of what is mapped, only the words control and disarmed are accessed directly: they are in the header, whose page
 * exists. Storing to a page of the program's memory that the system cannot supply would raise a signal.
 */

static uint64_t place_of(const struct emu_source *s, size_t field)
{
	return s->watching_offset + field;
}

#define PLACE(s, field) place_of(s, offsetof(struct emu_watching, field))

static int write_list(struct capture_source *source, const struct emu_watch *list);

/* True if a hit has stored the word by which the next freeze would stop the threads. */
static bool is_held(const struct emu_source *s)
{
	return !(s->control & 1) && atomic_load(&s->map->control) == s->control + 1;
}

uint64_t emu_held_since(const struct emu_source *s, uint64_t now)
{
	uint64_t since;

	if (!is_held(s) || emu_pread(s->memfd, &since, sizeof(since), PLACE(s, held_ns)) < 0 || since > now ||
	    now - since > HELD_MAX_SECONDS * 1000000000ull)
		return now;
	return since;
}

int emu_watching_reset(struct emu_source *s)
{
	_cleanup_free_ struct emu_watch *none = calloc(EMU_WATCHES_MAX, sizeof(*none));

	return none ? write_list(&s->base, none) : -ENOMEM;
}

static int write_list(struct capture_source *source, const struct emu_watch *list)
{
	struct emu_source *s = emu_source_of(source);
	uint64_t zeros[EMU_WATCHES_MAX] = { 0 };
	uint32_t epoch, word = s->control;
	int rc = emu_pread(s->memfd, &epoch, sizeof(epoch), PLACE(s, epoch));

	if (rc == 0)
		rc = emu_store(s, PLACE(s, hold), zeros, sizeof(zeros));
	if (rc == 0)
		rc = emu_store(s, PLACE(s, watches), list, EMU_WATCHES_MAX * sizeof(*list));
	epoch++;
	if (rc == 0)
		rc = emu_store(s, PLACE(s, epoch), &epoch, sizeof(epoch));
	/* A new word makes the threads read the list. If a hit has frozen them it stays: they read it at the thaw. */
	atomic_thread_fence(memory_order_seq_cst);
	if (rc == 0 && atomic_compare_exchange_strong(&s->map->control, &word, s->control + 2))
		s->control += 2;
	return rc;
}

static int set_list(struct capture_source *source, const struct capture_watch_list *list, struct reason *why)
{
	int rc = write_list(source, list->watches);

	return rc < 0 ? reason_set(why, rc, "writing the watch points: %s", strerror(-rc)) : 0;
}

static int release(struct capture_source *source)
{
	struct emu_source *s = emu_source_of(source);

	if (!is_held(s))
		return 0;
	s->control++;
	emu_set_control(s);
	return 0;
}

static void freeze_now(struct capture_source *source)
{
	const struct emu_source *s = emu_source_of(source);
	uint32_t word = s->control;
	uint64_t now = now_ns(CLOCK_MONOTONIC);

	if (word & 1 || is_held(s) || emu_store(s, PLACE(s, held_ns), &now, sizeof(now)) < 0)
		return;
	atomic_compare_exchange_strong(&s->map->control, &word, word + 1);
}

static void hold(struct capture_source *source, uint32_t slot, uint64_t least)
{
	const struct emu_source *s = emu_source_of(source);
	uint64_t word = least < UINT64_MAX ? least + 1 : 0;

	emu_store(s, PLACE(s, hold) + slot * sizeof(word), &word, sizeof(word));
}

static void want(struct capture_source *source)
{
	const struct emu_source *s = emu_source_of(source);
	const uint32_t word = 1;

	emu_store(s, PLACE(s, wanted), &word, sizeof(word));
}

static size_t read_hits(struct capture_source *source, uint64_t *cursor, struct emu_hit *ret, size_t max)
{
	struct emu_source *s = emu_source_of(source);
	uint64_t head;
	size_t n = 0;

	if (emu_pread(s->memfd, &head, sizeof(head), PLACE(s, n_hits)) < 0)
		return 0;
	if (*cursor > head)
		*cursor = head;
	if (head - *cursor > EMU_HITS_MAX)
		*cursor = head - EMU_HITS_MAX;
	while (n < max && *cursor < head) {
		uint64_t at = *cursor % EMU_HITS_MAX, left = MIN(head - *cursor, EMU_HITS_MAX - at);
		size_t some = MIN(max - n, left), kept = n;

		if (emu_pread(s->memfd, &ret[n], some * sizeof(*ret), PLACE(s, hits) + at * sizeof(*ret)) < 0)
			break;
		for (size_t i = n; i < n + some; i++) {
			/* A hit that is being written is read the next time, or skipped if half the ring follows it. */
			if (atomic_load(&ret[i].number) == 0 && head - *cursor < EMU_HITS_MAX / 2)
				return kept;
			if (atomic_load(&ret[i].number) == ++*cursor)
				memmove(&ret[kept++], &ret[i], sizeof(*ret));
		}
		n = kept;
	}
	return n;
}

static int read_counts(struct capture_source *source, struct emu_watch_count *ret)
{
	struct emu_source *s = emu_source_of(source);

	return emu_pread(s->memfd, ret, EMU_WATCHES_MAX * sizeof(*ret), PLACE(s, counts));
}

static bool is_applied(struct capture_source *source, uint32_t *ret_limits)
{
	const struct emu_source *s = emu_source_of(source);
	_cleanup_free_ uint8_t *slots = NULL;
	struct {
		uint32_t epoch, applied, wanted, limits;
	} is = { 0 };

	if (emu_pread(s->memfd, &is, sizeof(is), PLACE(s, epoch)) < 0)
		return false;
	*ret_limits = is.limits | (is.limits & EMU_KNOWS_P99 ? 0 : EMU_CANNOT_P99) |
		      (is.limits & EMU_KNOWS_JOINS ? 0 : EMU_CANNOT_JOIN) |
		      (is.limits & EMU_KNOWS_GO_CALLS ? 0 : EMU_CANNOT_GO_CALLS) |
		      (is.limits & EMU_KNOWS_OFF_CPU ? 0 : EMU_CANNOT_OFF_CPU);
	if (is.epoch == is.applied)
		return true;
	if (emu_copy_slots(s, &slots) < 0)
		return false;
	/* A thread in a system call reads the list when it returns. */
	for (uint32_t n = 0; n < s->n_rings; n++)
		if (atomic_load(&emu_raw_slot(s, slots, n)->state) == EMU_RUNNING)
			return false;
	return true;
}

static void describe_watching(struct capture_source *source, enum emu_watch_kind kind, struct capture_watch_state *ret)
{
	*ret = (struct capture_watch_state){ .mechanism = "emulator", .cost = "a call within the emulator" };
}

static bool is_settled(struct capture_source *source, uint64_t ended)
{
	return true;
}

const struct capture_watching emu_watching = {
	.set = set_list,
	.freeze = freeze_now,
	.release = release,
	.hold = hold,
	.want = want,
	.hits = read_hits,
	.counts = read_counts,
	.applied = is_applied,
	.state = describe_watching,
	.settled = is_settled,
};
