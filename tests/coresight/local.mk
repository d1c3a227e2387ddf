# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/coresight/unit-deframe tests/coresight/unit-topology
tests_coresight_unit_deframe_LDADD = lib/coresight/libcoresight.la $(OPENCSD_LIBS)
tests_coresight_unit_topology_LDADD = lib/coresight/libcoresight.la
TESTS += tests/coresight/unit-deframe tests/coresight/unit-topology
EXTRA_DIST += tests/topology
