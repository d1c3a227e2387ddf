# SPDX-License-Identifier: MIT
# csightd under a real systemd, in a container of this machine's own tree: a minute or more, and root's.
BOOT_TESTS = tests/boot/units.boot
BOOT_LOG_DRIVER = $(LOG_DRIVER)
BOOT_LOG_COMPILER = $(top_srcdir)/tests/boot/boot
EXTRA_DIST += $(BOOT_TESTS) tests/boot/boot tests/boot/guest.py tests/boot/csight-boot.service

check-boot:
	@$(top_srcdir)/tests/check-summary . boot-tests
boot-tests: all traced
	@$(MAKE) --no-print-directory TESTS='$(BOOT_TESTS)' check-TESTS
.PHONY: check-boot boot-tests

CLEANFILES += boot-tests.log
