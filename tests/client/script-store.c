/* SPDX-License-Identifier: MIT */
/*
 * A store of the events that are written on standard input, one a line, so that a test plants what a report is about.
 * usage: script-store [PID [CONDITION FUNCTION TIME]] >STORE, where the last ones are of a trigger
 *
 *	thread NAME               events of another thread follow
 *	cpu N                     the same, of all threads of a CPU
 *	bound NS|unknown          the error of the times that follow; 0 at the beginning
 *	run N                     N instructions, which take N ns
 *	segment [again]
 *	enter NAME[@ADDRESS] [KIND]
 *	root NAME
 *	leave [HOW]
 *	gap [KIND]
 *	at NS                     the time, which is 1000 at the beginning
 *	system NAME               the function is a system call, of that name, or the wait "waiting"
 *	uncertain NAME            where calls of this inlined function begin is a guess
 *	ended TEXT                how the process ended
 *	note KIND TIME UNTIL VALUE LABEL   of the thread
 *
 * KIND and HOW are the texts of lib/calls/kind-names.c. Functions with one name and different addresses are one of a
 * file that was loaded again.
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/util.h"
#include "lib/store/store.h"

enum { FUNCTIONS = 128 };

struct function {
	char name[1280];
	uint64_t address;
	struct region region;
	struct inlined inlined;
};

static struct function functions[FUNCTIONS];
static unsigned n_functions;
static struct store_writer *writer;
static uint32_t thread, tid, next_tid = 100;
static uint64_t now = 1000, instructions, bound;

_Noreturn static void refuse(const char *line)
{
	fprintf(stderr, "script-store: %s\n", line);
	exit(2);
}

static struct function *find(const char *text, bool inlined)
{
	char name[sizeof(((struct function *)0)->name)];
	unsigned long address = 0;
	struct function *f;

	if (sscanf(text, "%1279[^@]@%lx", name, &address) < 1)
		refuse(text);
	for (f = functions; f < functions + n_functions; f++)
		if (strcmp(f->name, name) == 0 && f->address == address && (f->inlined.depth > 0) == inlined)
			return f;
	if (n_functions == FUNCTIONS)
		refuse("too many functions");
	n_functions++;
	strcpy(f->name, name);
	f->address = address;
	f->region = (struct region){ .id = n_functions,
				     .kind = inlined ? REGION_INLINED : REGION_FUNCTION,
				     .start = 0x10000u * n_functions,
				     .name = f->name,
				     .image = "/usr/bin/app",
				     .build_id = "ab",
				     .file = "app.c",
				     .line = 1 };
	/* Equal for all that differ by the address alone. */
	for (const char *c = name; *c; c++)
		f->region.offset = f->region.offset * 31 + (unsigned char)*c;
	f->inlined = (struct inlined){ .function = &f->region, .call_file = "app.c", .call_line = 9, .depth = inlined };
	return f;
}

static unsigned number_of(const char *text, const char *(*name)(unsigned n))
{
	for (unsigned n = 0; strcmp(name(n), "?") != 0; n++)
		if (strcmp(name(n), text) == 0)
			return n;
	refuse(text);
}

static const char *kind_name(unsigned n)
{
	return calls_kind_str((enum call_kind)n);
}

static const char *leave_name(unsigned n)
{
	return calls_leave_str((enum leave_kind)n);
}

static const char *gap_name(unsigned n)
{
	return calls_gap_str((enum gap_kind)n);
}

static void put(enum call_event_type type, unsigned kind, const struct function *f)
{
	struct call_event e = { .type = type,
				.kind = (uint8_t)kind,
				.time = now,
				.bound = bound,
				.instructions = instructions,
				.function = f ? &f->region : NULL,
				.inlined = f && f->inlined.depth ? &f->inlined : NULL };

	if (store_event(writer, thread, &e) < 0)
		refuse("an event that is impossible here");
}

static void end_thread(void)
{
	const struct calls_counts counts = { .instructions = instructions };

	if (store_thread_end(writer, thread, &counts) < 0)
		refuse("calls are open at the end of the thread");
}

static void begin_thread(const char *name, uint32_t number)
{
	static bool others;

	if (others)
		end_thread();
	others = true;
	tid = number;
	if (store_thread_add(writer, tid, name, &thread) < 0)
		refuse("no memory");
	now = 1000;
	instructions = 0;
}

static void note(const char *kind, const char *text)
{
	struct store_note n = { .tid = tid };
	char label[80] = "";

	while (strcmp(kind, store_note_kind_str(n.kind)) != 0)
		if (++n.kind == STORE_NOTE_KINDS)
			refuse(kind);
	n.label = label;
	if (sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNd64 " %79s", &n.time, &n.until, &n.value, label) != 4 ||
	    store_put_note(writer, &n) < 0)
		refuse(text);
}

static void act(const char *verb, const char *word, const char *rest)
{
	bool inlined = strcmp(rest, "inlined") == 0 || strcmp(rest, "resumed") == 0;

	if (strcmp(verb, "thread") == 0) {
		begin_thread(word, next_tid++);
	} else if (strcmp(verb, "cpu") == 0) {
		char name[16];

		snprintf(name, sizeof(name), "cpu %.8s", word);
		begin_thread(name, (uint32_t)strtoul(word, NULL, 10));
	} else if (strcmp(verb, "note") == 0) {
		note(word, rest);
	} else if (strcmp(verb, "bound") == 0) {
		bound = strcmp(word, "unknown") == 0 ? UINT64_MAX : strtoull(word, NULL, 10);
	} else if (strcmp(verb, "run") == 0) {
		now += strtoull(word, NULL, 10);
		instructions += strtoull(word, NULL, 10);
	} else if (strcmp(verb, "segment") == 0) {
		put(CALL_EVENT_SEGMENT, *word ? SEGMENT_AGAIN : SEGMENT_NEW, NULL);
	} else if (strcmp(verb, "enter") == 0) {
		put(CALL_EVENT_ENTER, *rest ? number_of(rest, kind_name) : CALL_PLAIN, find(word, inlined));
	} else if (strcmp(verb, "root") == 0) {
		put(CALL_EVENT_ROOT, CALL_INFERRED, find(word, false));
	} else if (strcmp(verb, "leave") == 0) {
		put(CALL_EVENT_LEAVE, *word ? number_of(word, leave_name) : LEAVE_RETURN, NULL);
	} else if (strcmp(verb, "gap") == 0) {
		put(CALL_EVENT_GAP, *word ? number_of(word, gap_name) : GAP_OVERFLOW, NULL);
	} else if (strcmp(verb, "at") == 0) {
		now = strtoull(word, NULL, 10);
	} else if (strcmp(verb, "system") == 0) {
		find(word, false)->region.kind = strcmp(word, "waiting") == 0 ? REGION_WAITING : REGION_SYSCALL;
	} else if (strcmp(verb, "uncertain") == 0) {
		find(word, true)->inlined.uncertain = true;
	} else if (strcmp(verb, "ended") == 0) {
		store_set_ending(writer, word, 0);
	} else {
		refuse(verb);
	}
}

int main(int argc, char **argv)
{
	struct store_meta meta = { .pid = 100, .program = "app", .source = "perf.data", .clock = "monotonic" };
	char line[1400];

	if (argc > 1)
		meta.pid = next_tid = (uint32_t)strtoul(argv[1], NULL, 10);
	if (argc > 4)
		meta.trigger = (struct store_trigger){
			.condition = argv[2], .function = argv[3], .tid = meta.pid, .time = strtoull(argv[4], NULL, 10)
		};
	if (store_create(STDOUT_FILENO, &meta, &writer) < 0)
		return 1;
	begin_thread("app", next_tid++);
	while (fgets(line, sizeof(line), stdin)) {
		char verb[16] = "", word[1300] = "", rest[80] = "";

		if (sscanf(line, "%15s %1299s %79[^\n]", verb, word, rest) > 0)
			act(verb, word, rest);
	}
	end_thread();
	if (store_finish(writer) < 0)
		return 1;
	store_writer_free(writer);
	return 0;
}
