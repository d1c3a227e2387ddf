# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/base/unit-base
tests_base_unit_base_LDADD = lib/base/libbase.la
TESTS += tests/base/unit-base
