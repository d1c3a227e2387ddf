# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/store/unit-store tests/store/unit-clones
tests_store_unit_store_SOURCES = tests/store/unit-store.c tests/store/storegen.h
tests_store_unit_store_LDADD = lib/store/libstore.la
tests_store_unit_clones_LDADD = lib/store/libstore.la
TESTS += tests/store/unit-store tests/store/unit-clones tests/store/renamed.test
EXTRA_DIST += tests/store/renamed.test tests/store/store-read
