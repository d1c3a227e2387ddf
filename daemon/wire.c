/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <string.h>

#include "daemon/wire.h"
#include "lib/base/buf.h"

static const char *const errors[] = {
	[WIRE_NO_SUCH_PROCESS] = "org.csight.NoSuchProcess",
	[WIRE_NO_SUCH_SNAPSHOT] = "org.csight.NoSuchSnapshot",
	[WIRE_CANNOT_TRACE] = "org.csight.CannotTrace",
	[WIRE_OPTION_REFUSED] = "org.csight.OptionRefused",
	[WIRE_NOT_ARMED] = "org.csight.NotArmed",
	[WIRE_NOT_READY] = "org.csight.NotReady",
	[WIRE_NOT_RECORDING] = "org.csight.NotRecording",
	[WIRE_SHARED_TRACE] = "org.csight.SharedTrace",
	[WIRE_SNAPSHOT_FAILED] = "org.csight.SnapshotFailed",
	[WIRE_LIMIT_REACHED] = "org.csight.LimitReached",
	[WIRE_NOT_KEPT] = "org.csight.NotKept",
	[WIRE_INVALID_CONFIGURATION] = "org.csight.InvalidConfiguration",
	[WIRE_NO_SUCH_TRIGGER] = "org.csight.NoSuchTrigger",
	[WIRE_INVALID_TRIGGER] = "org.csight.InvalidTrigger",
	[WIRE_NO_SUCH_STANDING_TARGET] = "org.csight.NoSuchStandingTarget",
	[WIRE_INVALID_RULE] = "org.csight.InvalidRule",
	[WIRE_ENDING] = "org.csight.Ending",
	[WIRE_TOO_SLOW] = "org.csight.TooSlow",
};

const char *wire_error_str(enum wire_error error)
{
	return errors[error];
}

json_object *wire_error_of_process(pid_t pid, const char *reason)
{
	json_object *o = json_object_new_object();

	json_add_i64(o, "pid", pid);
	json_add_str(o, "reason", reason);
	return o;
}

json_object *wire_error_of_snapshot(const char *id, const char *state)
{
	json_object *o = json_object_new_object();

	json_add_str(o, "id", id);
	json_add_str(o, "state", state);
	return o;
}

json_object *wire_error_of_limit(const struct ledger_refusal *why)
{
	json_object *o = json_object_new_object();
	struct reason reason = { "" };

	ledger_explain(why, &reason);
	json_add_str(o, "limit", ledger_setting(why->kind, why->machine));
	json_add_u64(o, "value", why->limit);
	json_add_u64(o, "used", why->used);
	json_add_u64(o, "wanted", why->wanted);
	json_add_str(o, "reason", reason.text);
	return o;
}

json_object *wire_error_of_configuration(const struct reason *why)
{
	json_object *o = json_object_new_object();

	json_add_bytes(o, "reason", why->text);
	return o;
}

json_object *wire_error_of_trigger(uint64_t id)
{
	json_object *o = json_object_new_object();

	json_add_u64(o, "id", id);
	return o;
}

json_object *wire_error_of_ending(const char *id)
{
	json_object *o = json_object_new_object();

	json_add_str(o, "id", id);
	json_add_str(o, "reason",
		     id ? "it ends before the decode; the snapshot is kept, and the next csightd decodes it"
			: "it accepts no more work; repeat this when it has been started again");
	return o;
}

static json_object *array_of_names(const char *const *names, size_t n)
{
	json_object *list = json_object_new_array();

	for (size_t i = 0; i < n; i++)
		json_array_add_bytes(list, names[i]);
	return list;
}

json_object *wire_changes(const struct settings_changes *changes)
{
	json_object *o = json_object_new_object();

	json_add(o, "changed", array_of_names(changes->names, changes->n));
	json_add(o, "afterRestart", array_of_names(changes->fixed, changes->n_fixed));
	return o;
}

static json_object *use_json(enum ledger_kind kind, uint64_t used, uint64_t limit, bool machine)
{
	json_object *o = json_object_new_object();

	json_add_str(o, "resource", ledger_kind_str(kind));
	json_add_u64(o, "used", used);
	if (limit != LEDGER_UNLIMITED)
		json_add_u64(o, "limit", limit);
	if (ledger_unit(kind))
		json_add_str(o, "unit", ledger_unit(kind));
	json_add_str(o, "setting", ledger_setting(kind, machine));
	return o;
}

json_object *wire_use(struct ledger *l, uid_t uid)
{
	json_object *list = json_object_new_array();

	for (enum ledger_kind k = 0; k < LEDGER_KINDS; k++)
		json_array_add(list, use_json(k, ledger_used(l, uid, k), ledger_limit(l, uid, k), false));
	return list;
}

json_object *wire_use_of_all(struct ledger *l)
{
	json_object *list = json_object_new_array();

	for (enum ledger_kind k = 0; k < LEDGER_RATES; k++)
		json_array_add(list, use_json(k, ledger_sum(l, k), ledger_most(l, 0, k), true));
	return list;
}

json_object *wire_users(struct ledger *l)
{
	json_object *list = json_object_new_array();
	_cleanup_free_ uid_t *uids = NULL;
	size_t n = 0;

	if (ledger_users(l, &uids, &n) < 0)
		json_array_add(list, NULL);
	for (size_t i = 0; i < n; i++) {
		json_object *o = json_object_new_object();

		json_add_u64(o, "uid", uids[i]);
		json_add(o, "use", wire_use(l, uids[i]));
		json_array_add(list, o);
	}
	return list;
}

enum { THREADS_LISTED = 64, THREADS_FRESH_MS = 100 };

/* A ring that has overwritten trace is assumed to have been written at its average rate. */
static void measure_span(struct target *t, const struct capture_thread *threads, size_t n)
{
	uint64_t now = now_ns(CLOCK_REALTIME), age = now - MIN(now, t->armed_time);

	t->span_ns = age;
	t->span_estimated = false;
	for (size_t i = 0; i < n; i++) {
		const struct capture_thread *thread = &threads[i];

		if (!thread->wrapped || !thread->running)
			continue;
		if (thread->written <= thread->size) {
			t->span_ns = UINT64_MAX;
			return;
		}
		t->span_estimated = true;
		t->span_ns = MIN(t->span_ns, (uint64_t)((double)age * (double)thread->size / (double)thread->written));
	}
}

static void describe_threads(struct target *t)
{
	json_object *list = json_object_new_array();
	_cleanup_free_ struct capture_thread *threads = NULL;
	size_t n_threads = 0;

	t->ring.source->ops->threads(t->ring.source, &threads, &n_threads);
	t->thread_bytes = 0;
	for (size_t n = 0; n < n_threads; n++)
		t->thread_bytes += threads[n].size;
	for (size_t n = 0; n < MIN(n_threads, (size_t)THREADS_LISTED); n++) {
		json_object *o = json_object_new_object();

		json_add_u64(o, "tid", threads[n].tid);
		json_add_bytes(o, "name", threads[n].name);
		json_add_u64(o, "bytes", threads[n].size);
		json_add_bool(o, "wrapped", threads[n].wrapped);
		json_add_bool(o, "full", threads[n].full);
		json_add_bool(o, "running", threads[n].running && t->ring.state != RING_GONE);
		json_array_add(list, o);
	}
	measure_span(t, threads, n_threads);
	json_object_put(t->threads);
	t->threads = list;
	t->n_threads = n_threads;
}

/* Reading the slots of all threads takes time, so that the description is made ten times a second at most. */
static void add_threads(json_object *o, struct target *t)
{
	uint64_t now = now_ns(CLOCK_MONOTONIC);

	if (!t->threads || json_is_incomplete(t->threads) || t->threads_state != t->ring.state ||
	    now - t->threads_ns > THREADS_FRESH_MS * 1000000ull) {
		describe_threads(t);
		t->threads_state = t->ring.state;
		t->threads_ns = now;
	}
	json_add(o, "threads", json_object_get(t->threads));
	json_add_u64(o, "threadCount", t->n_threads);
	json_add_u64(o, "bytes", MIN(t->thread_bytes, (uint64_t)INT64_MAX));
	if (t->ring.state == RING_GONE || t->ring.state == RING_DISARMED || t->span_ns == UINT64_MAX)
		return;
	json_add_u64(o, "span", t->span_ns);
	json_add_bool(o, "spanEstimated", t->span_estimated);
}

json_object *wire_target(struct target *t)
{
	_cleanup_buf_ struct buf missing = { .limit = CAPTURE_MISSING_MAX }, trouble = { .limit = CAPTURE_MISSING_MAX };
	json_object *o = json_object_new_object();

	json_add_i64(o, "pid", t->pid);
	json_add_i64(o, "uid", t->uid);
	if (t->owner != t->uid)
		json_add_i64(o, "owner", t->owner);
	json_add_bytes(o, "name", t->name);
	if (t->exe[0])
		json_add_bytes(o, "exe", t->exe);
	json_add(o, "arguments", json_array_of_texts(t->arguments, t->arguments_size));
	json_add_str(o, "capture", t->ring.source->ops->name);
	target_trouble(t, &trouble);
	json_add_str(o, "state",
		     trouble.size && t->ring.state == RING_ARMED ? "blocked" : ring_state_str(t->ring.state));
	if (trouble.size)
		json_add_bytes(o, "trouble", (const char *)trouble.data);
	json_add_bool(o, "running", t->ring.state != RING_GONE);
	if (t->ring.state == RING_ARMED && !t->ring.source->ops->holds(t->ring.source))
		json_add_bool(o, "idle", true);
	if (t->ring.state == RING_GONE && target_ending(t)->known)
		json_add(o, "ended", ending_json(&t->ending));
	if (t->parent > 0)
		json_add_i64(o, "parent", t->parent);
	if (t->standing)
		json_add_i64(o, "standing", t->standing);
	json_add_u64(o, "armedAt", t->armed_time);
	add_threads(o, t);
	t->ring.source->ops->missing(t->ring.source, &missing);
	if (buf_error(&missing) == -ENOMEM || buf_error(&trouble) == -ENOMEM)
		json_add(o, "missing", NULL);
	else
		json_add(o, "missing", json_array_of_texts((const char *)missing.data, missing.size));
	return o;
}

json_object *wire_snapshot_in_list(const struct snapshot *s, const char *spool)
{
	json_object *o = json_object_new_object();
	_cleanup_free_ char *path = NULL;

	json_add_str(o, "id", s->id);
	json_add_str(o, "state", snapshot_state_str(s->state));
	json_add_i64(o, "pid", s->pid);
	json_add_i64(o, "uid", s->uid);
	if (s->owner != s->uid)
		json_add_i64(o, "owner", s->owner);
	json_add_bytes(o, "name", s->name);
	json_add_u64(o, "time", s->time);
	json_add_u64(o, "blind", s->blind);
	if (s->unrecorded)
		json_add_u64(o, "unrecorded", s->unrecorded);
	json_add_u64(o, "threads", s->threads);
	json_add_u64(o, "size", s->size);
	json_add_i64(o, "attempts", s->attempts);
	if (s->reason)
		json_add_bytes(o, "reason", s->reason);
	if (s->mark)
		json_add(o, "trigger", json_object_get(s->mark));
	if (s->ended)
		json_add(o, "ended", json_object_get(s->ended));
	if (s->recording)
		json_add(o, "recording", json_object_get(s->recording));
	json_add_bool(o, "kept", s->kept);
	annotation_add(&s->annotation, o);
	if (asprintf(&path, "%s/%s", spool, s->id) < 0)
		path = NULL;
	json_add(o, "path", path ? json_object_new_string(path) : NULL);
	return o;
}

static json_object *wire_snapshot(const struct snapshot *s, const char *spool)
{
	json_object *o = wire_snapshot_in_list(s, spool);

	if (s->decode)
		json_add(o, "decode", snapshot_decode(s));
	json_add(o, "missing", s->missing ? json_object_get(s->missing) : json_object_new_array());
	return o;
}

json_object *wire_snapshot_reply(const struct snapshot *s, const char *spool)
{
	json_object *o = json_object_new_object();

	json_add(o, "snapshot", wire_snapshot(s, spool));
	return o;
}

json_object *wire_phase(const char *phase)
{
	json_object *o = json_object_new_object();

	json_add_str(o, "phase", phase);
	return o;
}

json_object *wire_recording(const struct snapshot *s, const char *spool)
{
	json_object *o = wire_phase("recording");

	json_add(o, "snapshot", wire_snapshot_in_list(s, spool));
	return o;
}

json_object *wire_decode_progress(const struct snapshot *s)
{
	json_object *o = wire_phase("decoding");

	json_add_u64(o, "done", s->done);
	json_add_u64(o, "total", s->total);
	return o;
}

json_object *wire_options(const struct capture_options *options)
{
	json_object *o = json_object_new_object();

	json_add_bool(o, "kernel", options->kernel);
	json_add_bool(o, "cycles", options->cycles);
	json_add_bool(o, "noTimestamps", options->no_timestamps);
	json_add_bool(o, "noContexts", options->no_contexts);
	json_add_bool(o, "branchBroadcast", options->branch_broadcast);
	json_add_bool(o, "noReturnStack", options->no_return_stack);
	if (options->cycle_threshold)
		json_add_u64(o, "cycleThreshold", options->cycle_threshold);
	if (options->timestamp_interval)
		json_add_u64(o, "timestampInterval", options->timestamp_interval);
	if (options->thread)
		json_add_u64(o, "thread", options->thread);
	json_add_str(o, "filter", options->filter);
	json_add_str(o, "sink", options->sink);
	json_add_str(o, "counters", options->counters);
	json_add_str(o, "cpus", options->cpus);
	json_add_str(o, "mode", capture_mode_str(options->mode));
	if (options->ring_size)
		json_add_u64(o, "ringSize", options->ring_size);
	return o;
}

static bool is_power_of_two_or_0(uint64_t n)
{
	return (n & (n - 1)) == 0;
}

static bool is_ring_size(uint64_t size)
{
	return size >= EMU_RING_SIZE_MIN && size <= EMU_RING_SIZE_MAX && is_power_of_two_or_0(size);
}

int wire_read_options(json_object *o, struct capture_options *ret, const char **ret_bad)
{
	struct capture_options options = { 0 };
	const char *mode = NULL;
	int64_t thread = 0;
	const struct {
		const char *name;
		bool *flag;
		const char **text;
	} members[] = { { .name = "kernel", .flag = &options.kernel },
			{ .name = "cycles", .flag = &options.cycles },
			{ .name = "noTimestamps", .flag = &options.no_timestamps },
			{ .name = "noContexts", .flag = &options.no_contexts },
			{ .name = "branchBroadcast", .flag = &options.branch_broadcast },
			{ .name = "noReturnStack", .flag = &options.no_return_stack },
			{ .name = "filter", .text = &options.filter },
			{ .name = "sink", .text = &options.sink },
			{ .name = "counters", .text = &options.counters },
			{ .name = "cpus", .text = &options.cpus } };

	for (size_t i = 0; i < ELEMENTS(members); i++) {
		*ret_bad = members[i].name;
		if ((members[i].flag ? json_get_bool(o, members[i].name, members[i].flag)
				     : json_get_str(o, members[i].name, members[i].text)) == -EINVAL)
			return -EINVAL;
	}
	*ret_bad = "cpus";
	if (options.cpus && capture_cpus_check(options.cpus) < 0)
		return -EINVAL;
	*ret_bad = "mode";
	if (json_get_str(o, *ret_bad, &mode) == -EINVAL || (mode && capture_mode_parse(mode, &options.mode) < 0))
		return -EINVAL;
	*ret_bad = "cycleThreshold";
	if (json_get_u64(o, *ret_bad, &options.cycle_threshold) == -EINVAL ||
	    options.cycle_threshold > CAPTURE_CYCLE_THRESHOLD_MAX)
		return -EINVAL;
	*ret_bad = "timestampInterval";
	if (json_get_u64(o, *ret_bad, &options.timestamp_interval) == -EINVAL ||
	    !is_power_of_two_or_0(options.timestamp_interval) ||
	    options.timestamp_interval > CAPTURE_TIMESTAMP_INTERVAL_MAX)
		return -EINVAL;
	*ret_bad = "thread";
	if (json_get_within(o, *ret_bad, 1, INT32_MAX, &thread) == -EINVAL)
		return -EINVAL;
	options.thread = (uint32_t)thread;
	*ret_bad = "ringSize";
	if (json_get_u64(o, *ret_bad, &options.ring_size) == -EINVAL ||
	    (options.ring_size && !is_ring_size(options.ring_size)))
		return -EINVAL;
	*ret = options;
	return 0;
}
