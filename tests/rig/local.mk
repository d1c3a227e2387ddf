# SPDX-License-Identifier: MIT
# csightd in a virtual machine, on the real kernel's CoreSight code: too long for `make check`, minutes in all.
# The longest ones first.
RIG_TESTS = tests/rig/kernel-exact.rig tests/rig/triggers.rig tests/rig/options.rig tests/rig/keep.rig \
	tests/rig/standing.rig tests/rig/line.rig tests/rig/stream.rig tests/rig/tail.rig tests/rig/loss.rig tests/rig/pauses.rig tests/rig/counters.rig tests/rig/machine.rig tests/rig/fill.rig \
	tests/rig/run.rig tests/rig/kernel.rig tests/rig/filters.rig tests/rig/jit.rig tests/rig/four.rig tests/rig/search.rig tests/rig/cpus.rig \
	tests/rig/crash.rig tests/rig/deaths.rig tests/rig/container.rig tests/rig/variants.rig tests/rig/selftest.rig \
	tests/rig/smoke.rig tests/rig/capture.rig tests/rig/bare.rig tests/rig/units.rig tests/rig/exact.rig tests/rig/killed.rig \
	tests/rig/unload.rig tests/rig/settings.rig tests/rig/perf-script.rig
RIG_HOSTS = tests/rig/line.host tests/rig/perf-script.host tests/rig/jit.host tests/rig/four.host tests/rig/search.host tests/rig/cpus.host \
	tests/rig/loss.host tests/rig/pauses.host tests/rig/counters.host tests/rig/machine.host tests/rig/fill.host tests/rig/stream.host tests/rig/keep.host tests/rig/container.host \
	tests/rig/kernel-exact.host tests/rig/variants.host tests/rig/tail.host tests/rig/exact.host tests/rig/filters.host
RIG_LOG_DRIVER = $(LOG_DRIVER)
RIG_LOG_COMPILER = $(top_srcdir)/tests/rig/rig
AM_RIG_LOG_FLAGS = test
EXTRA_DIST += $(RIG_TESTS) $(RIG_HOSTS) tests/rig/rig tests/rig/init tests/rig/run tests/rig/rig.service tests/rig/guest.sh \
	tests/rig/host.sh tests/rig/kernel-calls tests/rig/soak.rig tests/rig/heap.c

rig-built: all
	@$(AM_TESTS_ENVIRONMENT) if $(top_srcdir)/tests/rig/rig tools; then $(top_srcdir)/tests/rig/rig all; fi
check-rig:
	@$(top_srcdir)/tests/check-summary . rig-tests
rig-tests: rig-built
	@$(MAKE) --no-print-directory $${RIG_JOBS:+-j$$RIG_JOBS -O} TESTS='$(RIG_TESTS)' check-TESTS
# The same on each kernel, then a table.
check-rig-kernels:
	@status=0; for kernel in $$($(top_srcdir)/tests/rig/rig kernels | cut -d ' ' -f 1); do echo "==> $$kernel"; \
		RIG_KERNEL=$$kernel $(MAKE) --no-print-directory check-rig || status=1; done; \
	top_srcdir=$(top_srcdir) top_builddir=. $(top_srcdir)/tests/rig/rig results; exit $$status
# Endurance: SOAK_MINUTES of targets and snapshots.
SOAK_MINUTES = 30
soak-rig: rig-built
	@$(AM_TESTS_ENVIRONMENT) $(top_srcdir)/tests/rig/rig boot --no-truth --limit $$(($(SOAK_MINUTES) * 90 + 1200)) \
		--set MINUTES=$(SOAK_MINUTES) $(top_srcdir)/tests/rig/soak.rig tests/rig/out/soak
.PHONY: rig-built rig-tests check-rig check-rig-kernels soak-rig

CLEANFILES += rig-tests.log
clean-local: clean-rig
clean-rig:
	rm -rf tests/rig/aarch64 tests/rig/install tests/rig/module tests/rig/out
.PHONY: clean-rig

# The emulated CoreSight: a kernel module, a QEMU plugin, and what compares decodes with its truth log.
check_PROGRAMS += tests/rig/compare
tests_rig_compare_SOURCES = tests/rig/compare.c tests/rig/alignment.c tests/rig/alignment.h tests/rig/runs.c tests/rig/runs.h \
	tests/rig/shared.h
tests_rig_compare_LDADD = lib/base/libbase.la
check_PROGRAMS += tests/rig/held
tests_rig_held_SOURCES = tests/rig/held.c
tests_rig_held_LDADD = lib/base/libbase.la
check_PROGRAMS += tests/rig/stops
tests_rig_stops_SOURCES = tests/rig/stops.c tests/rig/shared.h
tests_rig_stops_LDADD = lib/base/libbase.la
EXTRA_DIST += tests/rig/module/Kbuild tests/rig/module/rig.h tests/rig/module/main.c tests/rig/module/source.c \
	tests/rig/module/etr.c tests/rig/module/trbe.c tests/rig/module/frequencies.c tests/rig/plugin/plugin.c tests/rig/plugin/truth.c tests/rig/plugin/truth.h \
	tests/rig/plugin/formatter.c tests/rig/plugin/formatter.h

TESTS += tests/rig/compare.test
EXTRA_DIST += tests/rig/compare.test
