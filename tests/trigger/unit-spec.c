/* SPDX-License-Identifier: MIT */
/* lib/trigger: the grammar of triggers. */
#include "lib/trigger/trigger-spec.h"
#include "tests/unit.h"

/* Returns the text of what a text parses to, or the error. */
static const char *again(const char *text)
{
	_cleanup_buf_ struct buf condition = { 0 }, rules = { 0 };
	struct trigger_spec spec = { 0 };
	struct reason why = { "" };
	static char result[4096];

	if (trigger_spec_parse(text, &spec, &why) < 0) {
		snprintf(result, sizeof(result), "error: %s", why.text);
		return result;
	}
	trigger_spec_append_text(&spec, &condition);
	trigger_spec_rules(&spec, &rules);
	snprintf(result, sizeof(result), "%s|%s", (const char *)condition.data, (const char *)rules.data);
	return result;
}

static void test_texts(void)
{
	static const char *const texts[][2] = {
		{ "function work", "function work|" },
		{ "  function\twork  ", "function work|" },
		{ "longer-than 0.5s function work", "function work longer-than 500ms|" },
		{ "function \"operator new(unsigned long)\" once", "function \"operator new(unsigned long)\"|once" },
		{ "function \"a\\\"b\\\\\"", "function \"a\\\"b\\\\\"|" },
		{ "max 1 crash", "crash|once" },
		{ "oom or exit", "oom or exit|" },
		{ "once period 100ms", "period 100ms|once" },
		{ "period 1500ms or crash every 10s", "period 1500ms or crash|every 10s" },
		{ "off-cpu-longer-than 5000us keep 3", "off-cpu-longer-than 5ms|keep 3" },
		{ "crash or off-cpu-longer-than p99", "crash or off-cpu-longer-than p99|" },
		{ "off-cpu-longer-than 1s and signal 1 within 5s", "off-cpu-longer-than 1s and signal 1 within 5s|" },
		{ "crash max 0", "crash|max 0" },
		{ "syscall read longer-than 0ns", "syscall read longer-than 0ns|" },
		{ "signal SIGUSR1 every 90s after 2ms", "signal SIGUSR1|every 90s after 2ms" },
		{ "exit-status 3 min-history 1h", "exit-status 3|min-history 1h" },
		{ "exit", "exit|" },
		{ "address 0x4005f0", "address 0x4005f0|" },
		{ "function f longer-than 1us keep worst=10", "function f longer-than 1us|keep 10" },
		{ "function f longer-than p99", "function f longer-than p99|" },
		{ "group tree crash", "crash|group tree" },
		{ "exit group unit once", "exit|once group unit" },
		{ "exit group cgroup", "exit|group cgroup" },
		{ "exec \"echo \\\"$A\\\"\" exit once", "exit|once exec \"echo \\\"$A\\\"\"" },
		{ "exec a exec true exit", "exit|exec true" },
		{ "function f or signal USR1", "function f or signal USR1|" },
		{ "once crash or every 1s exit-status 3 or exit-status 4",
		  "crash or exit-status 3 or exit-status 4|once every 1s" },
		{ "function or or function and", "function or or function and|" },
		{ "longer-than 1ms function f or syscall read longer-than p99 keep 2",
		  "function f longer-than 1ms or syscall read longer-than p99|keep 2" },
		{ "function f or function g longer-than 1s", "function f or function g longer-than 1s|" },
		{ "exit-status 1 or exit-status 2 or exit-status 3 or crash",
		  "exit-status 1 or exit-status 2 or exit-status 3 or crash|" },
		{ "function f and signal USR1 within 5ms", "function f and signal USR1 within 5ms|" },
		{ "within 1s once function f longer-than 1ms and signal 10 and syscall read longer-than p99",
		  "function f longer-than 1ms and signal 10 and syscall read longer-than p99 within 1s|once" },
		{ "function or and function and within 7ns", "function or and function and within 7ns|" },
		{ "address 1 and address 2 and address 3 and address 4 within 1h every 1s",
		  "address 1 and address 2 and address 3 and address 4 within 1h|every 1s" },
	};
	struct trigger_spec spec = { 0 };

	for (size_t i = 0; i < ELEMENTS(texts); i++)
		CHECK_STR(again(texts[i][0]), texts[i][1]);
	CHECK(trigger_spec_parse("signal USR1", &spec, NULL) == 0);
	CHECK_EQ(spec.conditions[0].number, 10);
	CHECK(trigger_spec_parse("address 18", &spec, NULL) == 0);
	CHECK_EQ(spec.conditions[0].number, 18);
	CHECK(trigger_spec_parse("crash or function f longer-than 1ms or address 3", &spec, NULL) == 0);
	CHECK_EQ(trigger_spec_count(&spec), 3);
	CHECK_EQ(spec.conditions[0].event, TRIGGER_CRASH);
	CHECK_EQ(spec.conditions[1].event, TRIGGER_FUNCTION);
	CHECK_EQ(spec.conditions[1].longer_than, 1000000);
	CHECK_STR(spec.conditions[1].value, "f");
	CHECK(!spec.conditions[0].timed && spec.conditions[1].timed && !spec.conditions[2].timed);
	CHECK_EQ(spec.conditions[2].number, 3);
	CHECK(!spec.all && spec.within == 0);
	CHECK(trigger_spec_parse("signal 1 and signal 2 within 5ms", &spec, NULL) == 0);
	CHECK(spec.all && spec.within == 5000000);
	CHECK_EQ(trigger_spec_count(&spec), 2);
}

static void test_errors(void)
{
	static const char *const texts[] = {
		"",
		"once",
		"function",
		"function \"\"",
		"function \"f",
		"function f function g",
		"function f crash",
		"crash longer-than 5ms",
		"oom yes",
		"off-cpu-longer-than",
		"off-cpu-longer-than 5",
		"off-cpu-longer-than 5ms longer-than 5ms",
		"longer-than 5ms off-cpu-longer-than 5ms",
		"off-cpu-longer-than 5ms or off-cpu-longer-than 6ms",
		"oom longer-than 5ms",
		"syscall read",
		"function f longer-than 5",
		"function f longer-than -5ms",
		"function f longer-than inf",
		"function f longer-than p98",
		"function f longer-than 18446744073709551616ns",
		"function f every p99",
		"function f longer-than 5ms extra",
		"signal NOSUCH",
		"signal 0",
		"signal 65",
		"exit-status 256",
		"address work",
		"line work.c",
		"line work.c:0",
		"function f keep 3",
		"function f longer-than 1ms keep 0",
		"function f longer-than 1ms keep 101",
		"function f max many",
		"function f group",
		"exit exec",
		"exit exec \"\"",
		"function f group family",
		"function f longer-than 1ms keep 3 group tree",
		"a-key-that-is-longer-than-any-that-there-is 1",
		"or",
		"or crash",
		"crash or",
		"once or crash",
		"crash or or exit",
		"crash or once",
		"crash or longer-than 5ms",
		"function f longer-than 5ms or crash longer-than 5ms",
		"function f or syscall read",
		"function f longer-than 1ms or crash keep 3",
		"function f or crash function g",
		"exit-status 1 or exit-status 2 or exit-status 3 or exit-status 4 or crash",
		"function f or crash or function f",
		"function f or function f longer-than 1ms",
		"signal USR1 or signal 10",
		"address 0x10 or address 0x10",
		"and",
		"and signal 1 within 1s",
		"signal 1 and within 1s",
		"signal 1 within 1s",
		"signal 1 and signal 2",
		"signal 1 and signal 2 within 0s",
		"signal 1 and signal 2 within 5",
		"signal 1 and signal 2 within p99",
		"signal 1 or signal 2 within 1s",
		"signal 1 or signal 2 and signal 3 within 1s",
		"signal 1 and signal 2 or signal 3 within 1s",
		"signal 1 and signal USR1 and signal 10 within 1s",
		"signal 1 and crash within 1s",
		"oom and signal 1 within 1s",
		"exit and signal 1 within 1s",
		"signal 1 and period 1s within 1s",
		"period",
		"period 99ms",
		"period 5",
		"period 1s longer-than 5ms",
		"period 1s or crash or period 2s",
		"signal 1 and exit-status 1 within 1s",
		"address 1 and address 2 and address 3 and address 4 and address 5 within 1s",
	};
	char text[TRIGGER_VALUE_SIZE + 32] = "function ";
	struct trigger_spec spec = { .conditions[0].event = TRIGGER_EXIT };
	struct reason why = { "" };

	for (size_t i = 0; i < ELEMENTS(texts); i++) {
		why.text[0] = 0;
		unit_check(trigger_spec_parse(texts[i], &spec, &why) == -EINVAL && why.text[0], __FILE__, __LINE__,
			   "\"%s\" is refused: %s", texts[i], why.text);
	}
	memset(text + 9, 'f', TRIGGER_VALUE_SIZE);
	CHECK(trigger_spec_parse(text, &spec, &why) == -EINVAL);
	text[9 + TRIGGER_VALUE_SIZE - 1] = 0;
	CHECK_EQ(spec.conditions[0].event, TRIGGER_EXIT);
	CHECK(trigger_spec_parse(text, &spec, &why) == 0);
}

int main(void)
{
	test_texts();
	test_errors();
	return unit_end();
}
