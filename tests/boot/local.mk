# SPDX-License-Identifier: MIT
# csightd under a real systemd, in a container of this machine's own tree: a minute or more, and root's.
BOOT_TESTS = tests/boot/units.boot
BOOT_LOG_DRIVER = $(LOG_DRIVER)
BOOT_LOG_COMPILER = $(top_srcdir)/tests/boot/boot
EXTRA_DIST += $(BOOT_TESTS) tests/boot/restricted.boot tests/boot/restricted-tests tests/boot/boot tests/boot/guest.py tests/boot/confine.py tests/boot/csight-boot.service

check-boot:
	@$(top_srcdir)/tests/check-summary . boot-tests
boot-tests: all traced
	@$(MAKE) --no-print-directory TESTS='$(BOOT_TESTS)' check-TESTS

# The tests that start csightd, with csightd under the restrictions of its unit: half an hour. RESTRICTED_TESTS names others.
check-restricted:
	@BOOT_SECONDS=$${BOOT_SECONDS:-5400} $(top_srcdir)/tests/check-summary . restricted-tests
restricted-tests: all traced $(check_PROGRAMS)
	@RESTRICTED_TESTS="$${RESTRICTED_TESTS:-$$($(top_srcdir)/tests/boot/restricted-tests)}" \
		$(MAKE) --no-print-directory TESTS=tests/boot/restricted.boot check-TESTS
.PHONY: check-boot boot-tests check-restricted restricted-tests

CLEANFILES += boot-tests.log restricted-tests.log
