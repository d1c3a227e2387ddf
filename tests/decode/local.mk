# SPDX-License-Identifier: MIT
decode_tests = tests/decode/decode.test tests/decode/inputs.test tests/decode/formats.test tests/decode/demux.test tests/decode/counters.test \
	tests/decode/damage.test tests/decode/cage.test
TESTS += $(decode_tests)
EXTRA_DIST += $(decode_tests) tests/decode/autofdo-count tests/decode/autofdo-image tests/decode/perfdata-sinks

# csight-decode with an OpenCSD that crashes.
check_PROGRAMS += tests/decode/crashing
tests_decode_crashing_SOURCES = tests/decode/crashing.c
tests_decode_crashing_LDADD = daemon/decode/libdecode.la
tests_decode_crashing_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=ocsd_dt_process_data

# csight-decode that writes to its standard error.
check_PROGRAMS += tests/decode/noisy
tests_decode_noisy_SOURCES = tests/decode/noisy.c
tests_decode_noisy_LDADD = daemon/decode/libdecode.la

# A hostile decoder, inside csight-decode's cage and without it. Objects of these programs take precedence over those of
# the same functions in libdecode.la.
check_PROGRAMS += tests/decode/cage tests/decode/planted tests/decode/planted-loose
tests_decode_cage_LDADD = lib/decoder/libdecoder.la
tests_decode_planted_SOURCES = tests/decode/planted.c
tests_decode_planted_LDADD = daemon/decode/libdecode.la
tests_decode_planted_loose_SOURCES = tests/decode/planted.c tests/decode/no-cage.c
tests_decode_planted_loose_LDADD = daemon/decode/libdecode.la
TESTS += tests/decode/cage

# A simulated machine: the trace of its CPUs, and the addresses that its threads really executed.
check_PROGRAMS += tests/decode/machine
tests_decode_machine_LDADD = lib/emu/libemuring.la lib/code/libcode.la lib/perfdata/libperfdata.la lib/base/libbase.la

check_PROGRAMS += tests/decode/follow
tests_decode_follow_LDADD = daemon/decode/libdecode.la

check_PROGRAMS += tests/decode/damage tests/decode/unit-jitdump tests/decode/unit-store-queue
tests_decode_unit_store_queue_LDADD = daemon/decode/libdecode.la
tests_decode_unit_jitdump_LDADD = daemon/decode/libdecode.la
TESTS += tests/decode/unit-jitdump tests/decode/unit-store-queue
tests_decode_damage_LDADD = lib/decoder/libdecoder.la lib/perfdata/libperfdata.la
