# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/decoder/unit-decoder
tests_decoder_unit_decoder_LDADD = daemon/decode/libdecode.la lib/decoder/libdecoder.la lib/perfdata/libperfdata.la
TESTS += tests/decoder/unit-decoder
