# SPDX-License-Identifier: MIT
client_tests = tests/client/client.test tests/client/run.test tests/client/doctor.test tests/client/report.test tests/client/tail.test \
	tests/client/open.test tests/client/hunt.test tests/client/images.test tests/client/names.test tests/client/diff.test
client_tests += tests/client/any-input.test tests/client/debug-files.test tests/client/crash.test tests/client/errors.test tests/client/screens.test tests/client/show.test tests/client/explain.test tests/client/list.test tests/client/arm.test tests/client/modes.test tests/client/record.test tests/client/assert.test
client_tests += tests/client/metrics.test tests/client/bundle.test tests/client/selftest.test tests/client/answers.test
check_PROGRAMS += tests/client/unit-behaviour tests/client/unit-spread tests/client/unit-names
tests_client_unit_behaviour_SOURCES = tests/client/unit-behaviour.c client/behaviour.c client/comparison.c client/spread.c
tests_client_unit_behaviour_LDADD = lib/store/libstore.la -lm
tests_client_unit_spread_SOURCES = tests/client/unit-spread.c client/spread.c
tests_client_unit_spread_LDADD = -lm
tests_client_unit_names_SOURCES = tests/client/unit-names.c client/function-name.c client/similar.c
tests_client_unit_names_LDADD = lib/store/libstore.la
check_PROGRAMS += tests/client/unit-selftest tests/client/known
tests_client_known_SOURCES = client/known-program.c
tests_client_unit_selftest_SOURCES = tests/client/unit-selftest.c client/selftest-log.c client/selftest-log.h client/selftest-step.c
tests_client_unit_selftest_LDADD = lib/base/libbase.la
check_PROGRAMS += tests/client/unit-explanation
tests_client_unit_explanation_SOURCES = tests/client/unit-explanation.c client/call-groups.c client/call-list.c client/call-list-typical.c \
	client/call-tree.c client/explanation.c client/library-code.c client/waker.c
tests_client_unit_explanation_LDADD = lib/store/libstore.la -lm
check_PROGRAMS += tests/client/screen-stores tests/client/script-store
tests_client_screen_stores_LDADD = lib/store/libstore.la
tests_client_script_store_LDADD = lib/calls/libkinds.la lib/store/libstore.la
TESTS += tests/client/unit-selftest tests/client/unit-explanation tests/client/unit-behaviour tests/client/unit-spread tests/client/unit-names $(client_tests)
EXTRA_DIST += $(client_tests) tests/client/explain tests/client/screens tests/client/open-chromium tests/client/metrics.py tests/client/selftest-damage
