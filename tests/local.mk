# SPDX-License-Identifier: MIT
# Every test speaks TAP; skips name their reason. The tests of a room are in the folder of its name, which lists its own
# programs in check_PROGRAMS and TESTS.
TEST_EXTENSIONS = .test .rig .boot
LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
TEST_LOG_DRIVER = $(LOG_DRIVER)
# A test that waits forever fails.
TEST_LOG_COMPILER = timeout $${CSIGHT_TEST_MAX:-$(if $(CSIGHT_LONG),6h,20m)}
AM_TESTS_ENVIRONMENT = top_srcdir='$(abs_top_srcdir)'; export top_srcdir; top_builddir='$(abs_top_builddir)'; export top_builddir; \
	AARCH64_CC='$(AARCH64_CC)'; export AARCH64_CC; AARCH64_CXX='$(AARCH64_CXX)'; export AARCH64_CXX; \
	QEMU_AARCH64='$(QEMU_AARCH64)'; export QEMU_AARCH64; PYTHON3='$(PYTHON3)'; export PYTHON3; \
	CSIGHT_LONG='$(CSIGHT_LONG)'; export CSIGHT_LONG; \
	LSAN_OPTIONS='suppressions=$(abs_top_srcdir)/tests/lsan.supp:print_suppressions=0'; export LSAN_OPTIONS;
EXTRA_DIST += tests/lsan.supp .shellcheckrc tests/unit.h tests/lib.sh tests/check-summary

# Tests that run for minutes; with CSIGHT_LONG=1 others do more of the same.
LONG_TESTS = tests/builds.test tests/packages.test tests/perfdata/large.test

check-long: all
	$(MAKE) CSIGHT_LONG=1 TESTS='$(TESTS) $(LONG_TESTS)' check
.PHONY: check-long

# The tree itself: its scripts, its manual pages, the first command of the README.
TESTS += tests/scripts.test tests/man.test tests/demo.test
EXTRA_DIST += tests/scripts.test tests/man.test tests/demo.test tests/demo tests/builds.test tests/packages.test

# What the demo and the summaries leave.
CLEANFILES += demo/demo.pftrace check.log check-long.log
