# SPDX-License-Identifier: MIT
# exact compares decodes with truth logs.
check_PROGRAMS += tests/emu/exact tests/emu/unit-encode tests/emu/unit-maps tests/emu/unit-thread-clock
tests_emu_exact_SOURCES = tests/emu/exact.c tests/emu/truth.h
tests_emu_unit_encode_LDADD = lib/emu/libemuring.la lib/etm/libetm.la
tests_emu_unit_maps_LDADD = lib/emu/libplugin.la lib/emu/libemuring.la lib/base/libbase.la
tests_emu_unit_thread_clock_LDADD = lib/emu/libplugin.la lib/emu/libemuring.la lib/base/libbase.la
TESTS += tests/emu/unit-encode tests/emu/unit-maps tests/emu/unit-thread-clock tests/emu/emu-exact.test tests/emu/emu-truth.test tests/emu/freeze.test \
	tests/emu/clock.test tests/emu/waits.test tests/emu/restart.test tests/emu/window.test tests/emu/container.test tests/emu/limits.test
EXTRA_DIST += tests/emu/emu-exact.test tests/emu/exact-run tests/emu/emu-truth.test tests/emu/freeze.test tests/emu/freeze-run \
	tests/emu/clock.test tests/emu/clock-run tests/emu/waits.test tests/emu/restart.test tests/emu/restart-run \
	tests/emu/window.test tests/emu/window-run tests/emu/container.test tests/emu/limits.test
