# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/store/unit-store tests/store/unit-totals tests/store/unit-damage tests/store/unit-call tests/store/unit-clones tests/store/unit-physical
tests_store_unit_store_SOURCES = tests/store/unit-store.c tests/store/storegen.h
tests_store_unit_store_LDADD = lib/store/libstore.la
tests_store_unit_totals_SOURCES = tests/store/unit-totals.c tests/store/storegen.h
tests_store_unit_totals_LDADD = lib/store/libstore.la
tests_store_unit_damage_SOURCES = tests/store/unit-damage.c tests/store/storegen.h
tests_store_unit_damage_LDADD = lib/store/libstore.la
tests_store_unit_call_SOURCES = tests/store/unit-call.c tests/store/storegen.h
tests_store_unit_call_LDADD = lib/store/libstore.la lib/calls/libcalls.la
tests_store_unit_clones_LDADD = lib/store/libstore.la
tests_store_unit_physical_SOURCES = tests/store/unit-physical.c tests/store/storegen.h
tests_store_unit_physical_LDADD = lib/store/libstore.la lib/calls/libcalls.la
check_PROGRAMS += tests/store/unit-marks tests/store/unit-redact tests/store/unit-trigger
check_PROGRAMS += tests/store/text-store tests/store/unit-merge
tests_store_unit_merge_LDADD = lib/store/libstore.la lib/calls/libcalls.la
tests_store_text_store_LDADD = lib/store/libstore.la
tests_store_unit_marks_LDADD = lib/store/libstore.la
tests_store_unit_trigger_LDADD = lib/store/libstore.la lib/calls/libcalls.la
tests_store_unit_redact_SOURCES = tests/store/unit-redact.c tests/store/storegen.h
tests_store_unit_redact_LDADD = lib/store/libstore.la lib/calls/libcalls.la
TESTS += tests/store/unit-marks tests/store/unit-merge tests/store/unit-redact tests/store/unit-trigger
TESTS += tests/store/unit-store tests/store/unit-totals tests/store/unit-damage tests/store/unit-call tests/store/unit-clones tests/store/unit-physical tests/store/renamed.test \
	tests/store/versions.test
EXTRA_DIST += tests/store/renamed.test tests/store/versions.test tests/store/store-read tests/store/version-5
