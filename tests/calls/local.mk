# SPDX-License-Identifier: MIT
calls_units = tests/calls/unit-calls tests/calls/unit-kernel tests/calls/unit-inlined tests/calls/unit-event-times \
	tests/calls/unit-pauses tests/calls/unit-tails
check_PROGRAMS += $(calls_units) tests/calls/stacks
elements_header = tests/calls/elements.h tests/code/symbol-list.h
tests_calls_unit_calls_SOURCES = tests/calls/unit-calls.c tests/calls/dynamic-file.h $(elements_header)
tests_calls_unit_calls_LDADD = lib/calls/libcalls.la
tests_calls_unit_kernel_SOURCES = tests/calls/unit-kernel.c $(elements_header)
tests_calls_unit_kernel_LDADD = lib/calls/libcalls.la
tests_calls_unit_inlined_SOURCES = tests/calls/unit-inlined.c tests/calls/dynamic-file.h $(elements_header)
tests_calls_unit_inlined_LDADD = lib/store/libstore.la lib/calls/libcalls.la
tests_calls_unit_event_times_SOURCES = tests/calls/unit-event-times.c $(elements_header)
tests_calls_unit_event_times_LDADD = lib/calls/libcalls.la
tests_calls_unit_pauses_SOURCES = tests/calls/unit-pauses.c $(elements_header)
tests_calls_unit_pauses_LDADD = lib/calls/libcalls.la
tests_calls_unit_tails_SOURCES = tests/calls/unit-tails.c $(elements_header)
tests_calls_unit_tails_LDADD = lib/calls/libcalls.la
tests_calls_stacks_SOURCES = tests/calls/stacks.c tests/calls/stacks-truth.c tests/calls/stacks.h tests/emu/truth.h
tests_calls_stacks_LDADD = lib/store/libstore.la lib/calls/libcalls.la lib/perfdata/libperfdata.la
calls_tests = tests/calls/stacks.test tests/calls/random.test tests/calls/inlined.test tests/calls/tails.test \
	tests/calls/times.test tests/calls/counts.test
TESTS += $(calls_units) $(calls_tests)
EXTRA_DIST += $(calls_tests) tests/calls/stacks-run tests/calls/stacks-generate tests/calls/inlined-fold tests/calls/cases \
	tests/calls/inlined-counts tests/calls/counts
