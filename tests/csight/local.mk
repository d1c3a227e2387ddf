# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/csight/unit-libcsight
tests_csight_unit_libcsight_LDADD = lib/csight/libclient.la
TESTS += tests/csight/unit-libcsight tests/csight/libcsight.test
EXTRA_DIST += tests/csight/libcsight.test
