# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/calls/unit-calls tests/calls/unit-pauses tests/calls/unit-tails tests/calls/stacks
tests_calls_unit_calls_SOURCES = tests/calls/unit-calls.c tests/calls/elements.h tests/code/symbol-list.h
tests_calls_unit_calls_LDADD = lib/store/libstore.la lib/calls/libcalls.la
tests_calls_unit_pauses_SOURCES = tests/calls/unit-pauses.c tests/calls/elements.h tests/code/symbol-list.h
tests_calls_unit_pauses_LDADD = lib/calls/libcalls.la
tests_calls_unit_tails_SOURCES = tests/calls/unit-tails.c tests/calls/elements.h tests/code/symbol-list.h
tests_calls_unit_tails_LDADD = lib/calls/libcalls.la
tests_calls_stacks_SOURCES = tests/calls/stacks.c tests/calls/stacks-truth.c tests/calls/stacks.h tests/emu/truth.h
tests_calls_stacks_LDADD = lib/store/libstore.la lib/calls/libcalls.la lib/perfdata/libperfdata.la
calls_tests = tests/calls/stacks.test tests/calls/random.test tests/calls/inlined.test tests/calls/tails.test \
	tests/calls/times.test tests/calls/counts.test
TESTS += tests/calls/unit-calls tests/calls/unit-pauses tests/calls/unit-tails $(calls_tests)
EXTRA_DIST += $(calls_tests) tests/calls/stacks-run tests/calls/stacks-generate tests/calls/inlined-fold tests/calls/cases \
	tests/calls/inlined-counts tests/calls/counts
