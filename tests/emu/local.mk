# SPDX-License-Identifier: MIT
# exact compares decodes with truth logs.
check_PROGRAMS += tests/emu/exact tests/emu/unit-encode tests/emu/unit-maps
tests_emu_exact_SOURCES = tests/emu/exact.c tests/emu/truth.h
tests_emu_unit_encode_LDADD = lib/emu/libemuring.la lib/etm/libetm.la
# Compiles the plugin's sources, since a program cannot link a module.
tests_emu_unit_maps_SOURCES = tests/emu/unit-maps.c lib/emu/buildid.c lib/emu/files.c lib/emu/maps.c lib/emu/shared.c
tests_emu_unit_maps_CFLAGS = $(AM_CFLAGS)
tests_emu_unit_maps_LDADD = lib/emu/libemuring.la lib/base/libbase.la
TESTS += tests/emu/unit-encode tests/emu/unit-maps tests/emu/emu-exact.test tests/emu/emu-truth.test tests/emu/freeze.test \
	tests/emu/clock.test tests/emu/waits.test
EXTRA_DIST += tests/emu/emu-exact.test tests/emu/exact-run tests/emu/emu-truth.test tests/emu/freeze.test tests/emu/freeze-run \
	tests/emu/clock.test tests/emu/clock-run tests/emu/waits.test
