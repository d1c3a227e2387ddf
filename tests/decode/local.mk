decode_tests = tests/decode/decode.test tests/decode/inputs.test tests/decode/formats.test tests/decode/demux.test \
	tests/decode/damage.test tests/decode/cage.test
TESTS += $(decode_tests)
EXTRA_DIST += $(decode_tests) tests/decode/autofdo-count tests/decode/autofdo-image tests/decode/perfdata-sinks

# A decoder whose OpenCSD crashes.
check_PROGRAMS += tests/decode/crashing
tests_decode_crashing_SOURCES = tests/decode/crashing.c daemon/decode/main.c
tests_decode_crashing_CFLAGS = $(AM_CFLAGS)
tests_decode_crashing_LDADD = daemon/decode/libdecode.la
tests_decode_crashing_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=ocsd_dt_process_data

# A hostile decoder, in csight-decode's cage and without it.
check_PROGRAMS += tests/decode/cage tests/decode/planted tests/decode/planted-loose
tests_decode_cage_LDADD = lib/decoder/libdecoder.la
tests_decode_planted_SOURCES = tests/decode/planted.c daemon/decode/main.c daemon/decode/job.c daemon/decode/cage.c
tests_decode_planted_CFLAGS = $(AM_CFLAGS)
tests_decode_planted_LDADD = lib/etm/libetm.la lib/decoder/libdecoder.la lib/base/libbase.la
tests_decode_planted_loose_SOURCES = tests/decode/planted.c daemon/decode/main.c daemon/decode/job.c
tests_decode_planted_loose_CFLAGS = $(AM_CFLAGS) -DNO_CAGE
tests_decode_planted_loose_LDADD = $(tests_decode_planted_LDADD)
TESTS += tests/decode/cage

# A machine that does not exist: the trace of its CPUs, and what its threads really did.
check_PROGRAMS += tests/decode/machine
tests_decode_machine_LDADD = lib/emu/libemuring.la lib/perfdata/libperfdata.la lib/base/libbase.la

check_PROGRAMS += tests/decode/damage
tests_decode_damage_LDADD = lib/decoder/libdecoder.la lib/perfdata/libperfdata.la
