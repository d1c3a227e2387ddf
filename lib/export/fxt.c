/* SPDX-License-Identifier: MIT */
/*
 * Fuchsia's trace format. Perfetto's trace processor loads it several times as fast as Perfetto's own format: a call is
 * one record instead of two packets. All records are 64-bit words. The description of the snapshot, for which it has no
 * record, is in packets of Perfetto's within a blob.
 */
#include <string.h>

#include "lib/base/array.h"
#include "lib/base/escape.h"
#include "lib/export/out.h"
#include "lib/export/perfetto.h"
#include "lib/export/protobuf.h"
#include "lib/export/walk.h"

enum {
	RECORD_INIT = 1,
	RECORD_STRING,
	RECORD_THREAD,
	RECORD_EVENT,
	RECORD_BLOB,
	RECORD_KERNEL = 7,

	EVENT_INSTANT = 0,
	EVENT_COUNTER = 1,
	EVENT_BEGIN = 2,
	EVENT_END = 3,
	EVENT_COMPLETE = 4,
	EVENT_ASYNC_BEGIN = 5,
	EVENT_ASYNC_END = 7,

	ARGUMENT_UINT = 4,
	ARGUMENT_STRING = 6,
	ARGUMENT_KOID = 8,

	OBJECT_PROCESS = 1,
	OBJECT_THREAD = 2,

	BLOB_PERFETTO = 3,
	BLOB_MAX = 4094 * 8, /* a record has 4095 words */

	/* Strings have 15-bit numbers. Those of functions are reused; the last ones are this file's own strings. */
	STRINGS = 32000,
	STRING_CATEGORY,
	STRING_NAME,
	STRING_TEXT,
	STRING_INLINE_MAX = 8192, /* a name of 2,000 bytes, all of them escaped, and a mark */
};

#define FXT_MAGIC 0x0016547846040010ull

/* An open frame. */
struct fxt_frame {
	uint32_t function;
	uint64_t enter;
	const char *why; /* name and text of the argument that explains the enter, or NULL */
	const char *how;
	bool begun; /* its enter has been written; otherwise its leave writes both */
};

struct fxt_writer {
	struct out out;
	const struct export_walk *walk;
	struct export_result *result;
	uint16_t *numbers;  /* string numbers by function; 0: none */
	uint32_t *holders;  /* functions by string number */
	uint32_t n_numbers; /* numbers assigned so far, including reuse */
	struct fxt_frame *frames;
	size_t depth, cap_frames;
	const struct store_thread *thread;
	uint64_t spans;   /* so far */
	uint64_t hidden;  /* calls of the thread that are too deep */
	bool has_process; /* one is written; pid: the last one */
	uint32_t pid;
};

static void put_padded(struct buf *b, const void *bytes, size_t size)
{
	buf_add(b, bytes, size);
	buf_zero(b, (8 - size % 8) % 8);
}

static uint64_t words(size_t bytes)
{
	return (bytes + 7) / 8;
}

static void put_string(struct fxt_writer *w, unsigned number, const char *text)
{
	char clean[STRING_INLINE_MAX];
	size_t size;

	escape_text(text, clean, sizeof(clean));
	size = strlen(clean);
	buf_u64(&w->out.buf, RECORD_STRING | (1 + words(size)) << 4 | (uint64_t)number << 16 | (uint64_t)size << 32);
	put_padded(&w->out.buf, clean, size);
}

static unsigned string_number(struct fxt_writer *w, uint32_t function)
{
	unsigned number = w->numbers[function];

	if (number)
		return number;
	number = 1 + w->n_numbers++ % (STRINGS - 1);
	if (w->n_numbers >= STRINGS)
		w->numbers[w->holders[number]] = 0;
	w->numbers[function] = (uint16_t)number;
	w->holders[number] = function;
	put_string(w, number, store_function(w->walk->store, function)->name);
	return number;
}

/* Writes one of the strings with fixed numbers that the trace file uses for its own texts. */
static uint64_t put_own_string(struct fxt_writer *w, unsigned number, const char *text)
{
	put_string(w, number, text);
	return number;
}

struct fxt_argument {
	const char *name, *text;
};

struct fxt_event {
	unsigned type;
	uint64_t name; /* number of a string */
	uint64_t time;
	uint64_t end; /* the end time of EVENT_COMPLETE; the ID of asynchronous events */
};

/*
 * Writes an event. Threads are written one after another, so every event is of thread 1. Arguments without a text are
 * left out.
 */
static void put_event(struct fxt_writer *w, const struct fxt_event *e, const struct fxt_argument *list, size_t n)
{
	struct fxt_argument present[4];
	bool more = e->type != EVENT_INSTANT && e->type != EVENT_BEGIN && e->type != EVENT_END;
	uint64_t size = 2 + more, k = 0;
	_cleanup_buf_ struct buf arguments = { 0 };

	for (size_t i = 0; i < n; i++)
		if (list[i].text)
			present[k++] = list[i];
	for (size_t i = 0; i < k; i++) {
		size_t name_size = strlen(present[i].name), text_size = strlen(present[i].text);
		uint64_t all = 1 + words(name_size) + words(text_size);

		/* A reference with the highest bit set is the length of a string that follows. */
		buf_u64(&arguments, ARGUMENT_STRING | all << 4 | (0x8000u | name_size) << 16 |
					(uint64_t)(0x8000u | text_size) << 32);
		put_padded(&arguments, present[i].name, name_size);
		put_padded(&arguments, present[i].text, text_size);
		size += all;
	}
	buf_u64(&w->out.buf, RECORD_EVENT | size << 4 | (uint64_t)e->type << 16 | k << 20 | 1u << 24 |
				 (uint64_t)STRING_CATEGORY << 32 | e->name << 48);
	buf_u64(&w->out.buf, e->time);
	if (k)
		buf_add(&w->out.buf, arguments.data, arguments.size);
	if (more)
		buf_u64(&w->out.buf, e->end);
	out_flush_if_full(&w->out);
}

static void write_begin(struct fxt_writer *w, struct fxt_frame *f)
{
	if (f->begun)
		return;
	put_event(w, &(struct fxt_event){ EVENT_BEGIN, string_number(w, f->function), f->enter, 0 },
		  &(struct fxt_argument){ f->why, f->how }, 1);
	f->begun = true;
}

/*
 * Readers order records by begin, and equal begins by their order in the file, which must be outermost
 * first. So frames that begin at the same time as a new one must be written before it.
 */
static void write_outer_begins(struct fxt_writer *w, uint64_t time)
{
	size_t from = w->depth;

	while (from && w->frames[from - 1].enter == time && !w->frames[from - 1].begun)
		from--;
	for (; from < w->depth; from++)
		write_begin(w, &w->frames[from]);
}

static int write_enter(struct fxt_writer *w, const struct store_event *e, bool cut)
{
	struct fxt_frame f = { .function = e->frame.function, .enter = e->time };

	write_outer_begins(w, e->time);
	perfetto_reason(e, cut, &f.why, &f.how);
	if (array_reserve(w->frames, w->depth, &w->cap_frames) < 0)
		return -ENOMEM;
	w->frames[w->depth++] = f;
	w->result->slices++;
	return 0;
}

static void write_leave(struct fxt_writer *w, const struct store_event *e, bool cut)
{
	struct fxt_frame *f = &w->frames[--w->depth];
	struct fxt_argument list[4] = { { f->why, f->how } };
	uint64_t left_out = walk_left_out(e, &w->hidden);
	bool trigger = walk_is_trigger(w->walk, w->thread, &e->frame, e->depth);
	char condition[WALK_TRIGGER_SIZE], number[24];
	uint64_t name;

	perfetto_reason(e, cut, &list[1].name, &list[1].text);
	if (trigger)
		list[2] = (struct fxt_argument){ "trigger", escape_text(w->walk->trigger.condition, condition,
									sizeof(condition)) };
	snprintf(number, sizeof(number), "%ju", (uintmax_t)left_out);
	if (left_out)
		list[3] = (struct fxt_argument){ WALK_LEFT_OUT, number };
	/*
	 * A call that is written as one record has ended for readers when another record has the time of its end, but
	 * one of no length has not ended for another one of no length.
	 */
	if (f->enter == e->time && w->depth)
		write_begin(w, &w->frames[w->depth - 1]);
	if (f->enter == e->time)
		write_begin(w, f);
	/* The number of a name may be used for another one when that is written. */
	name = string_number(w, f->function);
	if (f->begun)
		put_event(w, &(struct fxt_event){ EVENT_END, name, e->time, 0 }, &list[1], 3);
	else
		put_event(w, &(struct fxt_event){ EVENT_COMPLETE, name, f->enter, e->time }, list, 4);
}

static int on_event(void *user, const struct store_event *e, bool cut)
{
	struct fxt_writer *w = user;
	char text[64], length[24];

	if (walk_is_too_deep(e, &w->hidden))
		return 0;
	switch (e->type) {
	case STORE_ENTER:
		return write_enter(w, e, cut);
	case STORE_LEAVE:
		write_leave(w, e, cut);
		break;
	case STORE_GAP:
		w->result->gaps++;
		snprintf(text, sizeof(text), "trace gap (%s)", calls_gap_str(e->kind));
		snprintf(length, sizeof(length), "%ju", (uintmax_t)(e->until - e->time));
		put_event(w, &(struct fxt_event){ EVENT_INSTANT, put_own_string(w, STRING_TEXT, text), e->time, 0 },
			  &(struct fxt_argument){ "duration ns", length }, 1);
		break;
	case STORE_MARK:
		snprintf(text, sizeof(text), "%s", calls_mark_str(e->kind));
		put_event(w, &(struct fxt_event){ EVENT_INSTANT, put_own_string(w, STRING_TEXT, text), e->time, 0 },
			  NULL, 0);
		break;
	}
	return w->out.error;
}

static void put_object(struct fxt_writer *w, unsigned type, uint64_t id, const char *name, uint64_t process)
{
	struct buf *b = &w->out.buf;
	uint64_t reference = put_own_string(w, STRING_NAME, name);
	static const char key[8] = "process";
	bool argument = type == OBJECT_THREAD;

	buf_u64(b, RECORD_KERNEL | (uint64_t)(argument ? 5 : 2) << 4 | (uint64_t)type << 16 | reference << 24 |
		       (uint64_t)argument << 40);
	buf_u64(b, id);
	if (!argument)
		return;
	buf_u64(b, ARGUMENT_KOID | 3u << 4 | (0x8000u | (sizeof(key) - 1)) << 16);
	buf_add(b, key, sizeof(key));
	buf_u64(b, process);
}

static void put_blob(struct fxt_writer *w, const struct buf *bytes)
{
	buf_u64(&w->out.buf, RECORD_BLOB | (1 + words(bytes->size)) << 4 | (uint64_t)STRING_CATEGORY << 16 |
				 (uint64_t)bytes->size << 32 | (uint64_t)BLOB_PERFETTO << 48);
	put_padded(&w->out.buf, bytes->data, bytes->size);
}

static void write_header(struct fxt_writer *w, const struct store *s)
{
	_cleanup_buf_ struct buf description = { .limit = BLOB_MAX };

	buf_u64(&w->out.buf, FXT_MAGIC);
	/* Times are ns. */
	buf_u64(&w->out.buf, RECORD_INIT | 2 << 4);
	buf_u64(&w->out.buf, 1000000000);
	put_own_string(w, STRING_CATEGORY, "csight");
	perfetto_description(s, w->result, &description);
	if (!buf_error(&description))
		put_blob(w, &description);
}

/* Notes are instants of the thread. Spans may cross calls, which only asynchronous events may. */
static void put_note(struct fxt_writer *w, const struct store_note *n)
{
	bool span = n->kind == STORE_NOTE_SPAN || n->kind == STORE_NOTE_OPEN;
	struct fxt_argument value = { "value", NULL };
	char text[24], label[WALK_NOTE_SIZE];

	snprintf(text, sizeof(text), "%jd", (intmax_t)n->value);
	value.text = text;
	put_event(w,
		  &(struct fxt_event){ span ? EVENT_ASYNC_BEGIN : EVENT_INSTANT,
				       put_own_string(w, STRING_TEXT, walk_note_text(n, label)), n->time, ++w->spans },
		  &value, 1);
	if (n->kind == STORE_NOTE_SPAN)
		put_event(w, &(struct fxt_event){ EVENT_ASYNC_END, STRING_TEXT, n->until, w->spans }, NULL, 0);
}

/* Counters belong to processes; the name of one of a thread says of which. */
static void put_counters(struct fxt_writer *w, const struct store_thread *t)
{
	static const char key[8] = "value";
	struct buf *b = &w->out.buf;
	const struct store_note *n;
	size_t at = 0;
	bool inside;

	while ((n = walk_sample(w->walk, t, &at, &inside))) {
		char name[256];

		if (!inside)
			continue;
		snprintf(name, sizeof(name), t ? "%s, thread %u" : "%s", n->label, t ? t->tid : 0);
		put_own_string(w, STRING_TEXT, name);
		buf_u64(b, RECORD_EVENT | 6 << 4 | EVENT_COUNTER << 16 | 1 << 20 | 1u << 24 |
			       (uint64_t)STRING_CATEGORY << 32 | (uint64_t)STRING_TEXT << 48);
		buf_u64(b, n->time);
		buf_u64(b, ARGUMENT_UINT | 3 << 4 | (0x8000u | strlen(key)) << 16);
		buf_add(b, key, sizeof(key));
		buf_u64(b, (uint64_t)n->value);
		buf_u64(b, 0); /* the ID of the counter: each has a name of its own */
		out_flush_if_full(&w->out);
	}
}

static int put_thread(struct fxt_writer *w, size_t index)
{
	const struct store_thread *t = store_thread(w->walk->store, index);
	const struct store_process process = store_process_of(w->walk->store, index);
	const struct walk_sink sink = { on_event, w };
	const char *ending = walk_ending(w->walk, t);
	char trigger[WALK_TRIGGER_SIZE];
	const struct store_note *note;
	size_t at = 0;
	uint64_t time;
	int rc;

	w->thread = t;
	w->hidden = 0;
	if (!w->has_process || process.pid != w->pid)
		put_object(w, OBJECT_PROCESS, process.pid, process.program, 0);
	w->has_process = true;
	w->pid = process.pid;
	put_object(w, OBJECT_THREAD, t->tid, t->name, process.pid);
	buf_u64(&w->out.buf, RECORD_THREAD | 3 << 4 | 1 << 16);
	buf_u64(&w->out.buf, process.pid);
	buf_u64(&w->out.buf, t->tid);
	rc = walk_thread(w->walk, index, &sink);
	while (rc == 0 && (note = walk_note(w->walk, t, &at)))
		put_note(w, note);
	if (rc == 0)
		put_counters(w, t);
	if (rc == 0 && walk_trigger(w->walk, t, &time, trigger))
		put_event(w, &(struct fxt_event){ EVENT_INSTANT, put_own_string(w, STRING_TEXT, trigger), time, 0 },
			  NULL, 0);
	if (rc == 0 && ending)
		put_event(w, &(struct fxt_event){ EVENT_INSTANT, put_own_string(w, STRING_TEXT, ending), t->last, 0 },
			  NULL, 0);
	return rc;
}

static void fxt_writer_done(struct fxt_writer *w)
{
	out_done(&w->out);
	free(w->numbers);
	free(w->holders);
	free(w->frames);
}

static int fxt_write(const struct store *s, int fd, const struct export_options *o, struct export_result *ret)
{
	struct export_walk walk;
	_cleanup_(fxt_writer_done) struct fxt_writer w = { .out.fd = fd, .walk = &walk, .result = ret };
	int rc = 0;

	walk_begin(&walk, s, o, ret);
	w.numbers = calloc(store_functions(s) + 1, sizeof(*w.numbers));
	w.holders = calloc(STRINGS, sizeof(*w.holders));
	if (!w.numbers || !w.holders)
		return -ENOMEM;
	write_header(&w, s);
	for (size_t i = 0; rc == 0 && i < store_threads(s); i++)
		if (walk_wants(&walk, store_thread(s, i)))
			rc = put_thread(&w, i);
	if (rc == 0 && walk.tid < 0 && w.thread)
		put_counters(&w, NULL);
	return rc < 0 ? rc : out_finish(&w.out);
}

const struct export_ops export_fxt = { "fxt", ".fxt",
				       "a timeline for ui.perfetto.dev that loads faster, for very many calls",
				       fxt_write };
