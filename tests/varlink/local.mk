# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/varlink/unit-varlink tests/varlink/call
tests_varlink_unit_varlink_LDADD = lib/varlink/libvarlink.la
tests_varlink_call_LDADD = lib/varlink/libvarlink.la lib/base/libbase.la
TESTS += tests/varlink/unit-varlink
