# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/perfdata/unit-perfdata tests/perfdata/unit-perfdata-kinds tests/perfdata/unit-samples tests/perfdata/unit-live \
	tests/perfdata/perfdata-grow
tests_perfdata_unit_perfdata_LDADD = lib/perfdata/libperfdata.la
tests_perfdata_unit_perfdata_kinds_LDADD = lib/perfdata/libperfdata.la
tests_perfdata_unit_samples_LDADD = lib/perfdata/libperfdata.la
tests_perfdata_unit_live_LDADD = lib/perfdata/libperfdata.la
tests_perfdata_perfdata_grow_LDADD = lib/perfdata/libperfdata.la
TESTS += tests/perfdata/unit-perfdata tests/perfdata/unit-perfdata-kinds tests/perfdata/unit-samples tests/perfdata/unit-live
EXTRA_DIST += tests/perfdata/large.test
