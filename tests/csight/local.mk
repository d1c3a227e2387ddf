# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/csight/region-of tests/csight/watch-at tests/csight/unit-libcsight tests/csight/unit-async tests/csight/unit-notes tests/csight/decode-cancel tests/csight/decode-print tests/csight/doctor-print tests/csight/store-print
tests_csight_region_of_LDADD = lib/csight/libclient.la lib/base/libbase.la
tests_csight_watch_at_LDADD = lib/csight/libclient.la
tests_csight_decode_cancel_LDADD = lib/csight/libclient.la
tests_csight_decode_print_LDADD = lib/csight/libclient.la
tests_csight_store_print_LDADD = lib/csight/libclient.la
tests_csight_unit_libcsight_LDADD = lib/csight/libclient.la
tests_csight_unit_async_LDADD = lib/csight/libclient.la
tests_csight_unit_notes_LDADD = lib/csight/libclient.la
tests_csight_doctor_print_LDADD = lib/csight/libclient.la
TESTS += tests/csight/unit-libcsight tests/csight/unit-async tests/csight/unit-notes tests/csight/notes.test tests/csight/decode.test tests/csight/doctor.test tests/csight/threads.test tests/csight/libcsight.test tests/csight/abi.test tests/csight/store.test tests/csight/examples.test tests/csight/events.test tests/csight/region.test
EXTRA_DIST += tests/csight/decode.test tests/csight/doctor.test tests/csight/notes.test tests/csight/noted.c tests/csight/open-alone.c tests/csight/region.test tests/csight/events.test tests/csight/examples.test tests/csight/store.test tests/csight/threads.test tests/csight/libcsight.test tests/csight/abi.test tests/csight/abi-record tests/csight/libcsight.abi

# Records the binary interface of libcsight, with which abi.test compares it. For x86-64.
record-abi: lib/csight/libcsight.la
	$(top_srcdir)/tests/csight/abi-record lib/csight/.libs/libcsight.so $(top_srcdir)/lib/csight/csight.h \
		$(top_srcdir)/tests/csight/libcsight.abi
.PHONY: record-abi
