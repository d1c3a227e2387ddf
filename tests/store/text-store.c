/* SPDX-License-Identifier: MIT */
/*
 * Writes the store of one thread from its events, one a line: the nanoseconds and instructions since the event before,
 * then call, inlined, resumed or inferred with the name of a function, return, cut (by a gap), end, gap or segment; or
 * the word ended, if the process ended. usage: text-store <EVENTS >STORE
 */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/util.h"
#include "lib/store/store.h"

enum { FUNCTIONS = 32, NAME_SIZE = 64 };

static const struct {
	const char *word;
	enum call_event_type type;
	unsigned kind;
} events[] = {
	{ "call", CALL_EVENT_ENTER, CALL_PLAIN },      { "inlined", CALL_EVENT_ENTER, CALL_INLINED },
	{ "resumed", CALL_EVENT_ENTER, CALL_RESUMED }, { "inferred", CALL_EVENT_ENTER, CALL_INFERRED },
	{ "return", CALL_EVENT_LEAVE, LEAVE_RETURN },  { "cut", CALL_EVENT_LEAVE, LEAVE_GAP },
	{ "end", CALL_EVENT_LEAVE, LEAVE_END },        { "gap", CALL_EVENT_GAP, GAP_OVERFLOW },
	{ "segment", CALL_EVENT_SEGMENT, 0 },
};

static char names[FUNCTIONS][NAME_SIZE];
static struct region plain[FUNCTIONS], inlined[FUNCTIONS];
static struct inlined sites[FUNCTIONS];

/* Returns the number of a function. */
static unsigned function_of(const char *name)
{
	unsigned i = 0;

	while (i < FUNCTIONS - 1 && names[i][0] && strcmp(names[i], name) != 0)
		i++;
	snprintf(names[i], NAME_SIZE, "%s", name);
	plain[i] =
	    (struct region){ .id = i, .start = 0x1000u * (i + 1), .name = names[i], .image = "/bin/text", .file = "" };
	inlined[i] = plain[i];
	inlined[i].kind = REGION_INLINED;
	sites[i] = (struct inlined){ .function = &inlined[i], .call_file = "text.c", .call_line = i + 1, .depth = 1 };
	return i;
}

/* Sets the event of a word. Returns false if there is none. */
static bool set_event(const char *word, const char *name, struct call_event *e)
{
	for (size_t i = 0; i < ELEMENTS(events); i++) {
		unsigned n;

		if (strcmp(events[i].word, word) != 0)
			continue;
		e->type = events[i].type;
		e->kind = (uint8_t)events[i].kind;
		if (e->type != CALL_EVENT_ENTER)
			return true;
		n = function_of(name);
		e->function = &plain[n];
		e->inlined = e->kind == CALL_INLINED || e->kind == CALL_RESUMED ? &sites[n] : NULL;
		return true;
	}
	return false;
}

int main(void)
{
	const struct store_meta meta = { .pid = 1, .program = "text", .source = "emu", .clock = "virtual" };
	_cleanup_(store_writer_freep) struct store_writer *w = NULL;
	struct call_event e = { .time = 1000 };
	char line[256], word[16], name[NAME_SIZE];
	unsigned long ns, instructions;
	uint32_t thread;

	if (store_create(STDOUT_FILENO, &meta, &w) < 0 || store_thread_add(w, 1, "text", &thread) < 0)
		return 1;
	while (fgets(line, sizeof(line), stdin)) {
		if (strcmp(line, "ended\n") == 0) {
			store_set_ending(w, "exited with status 0", 1);
			continue;
		}
		if (sscanf(line, "%lu %lu %15s %63s", &ns, &instructions, word, name) < 3)
			return 2;
		e = (struct call_event){ .time = e.time + ns, .instructions = e.instructions + instructions };
		if (!set_event(word, name, &e) || store_event(w, thread, &e) < 0)
			return 2;
	}
	return store_thread_end(w, thread, NULL) < 0 || store_finish(w) < 0;
}
