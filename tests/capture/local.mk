# SPDX-License-Identifier: MIT
# The code of real processes.
check_PROGRAMS += tests/capture/unit-process
tests_capture_unit_process_SOURCES = tests/capture/unit-process.c tests/capture/process-child.c tests/capture/process-child.h \
	tests/capture/process-files.c tests/capture/process-held.c
tests_capture_unit_process_LDADD = daemon/capture/libcapture.la daemon/decode/libdecode.la
TESTS += tests/capture/unit-process tests/capture/names.test
EXTRA_DIST += tests/capture/names.test

# The kernel's PMU: what needs no trace unit.
capture_units = tests/capture/unit-filter tests/capture/unit-plan tests/capture/unit-perf-records tests/capture/unit-thread-table tests/capture/unit-sideband \
	tests/capture/unit-credentials tests/capture/unit-code-history tests/capture/unit-code-log tests/capture/unit-emu tests/capture/unit-keeper \
	tests/capture/unit-pmu-counters tests/capture/unit-perf-watch tests/capture/unit-address-space tests/capture/unit-perf-share tests/capture/unit-perf-follow tests/capture/unit-watch-calls tests/capture/unit-watch-repeats tests/capture/unit-watch-events
check_PROGRAMS += $(capture_units) tests/capture/plan-of
tests_capture_unit_filter_LDADD = daemon/capture/libcapture.la
tests_capture_unit_plan_LDADD = daemon/capture/libcapture.la
tests_capture_plan_of_LDADD = daemon/capture/libcapture.la
tests_capture_unit_perf_records_SOURCES = tests/capture/unit-perf-records.c tests/capture/perf-record.h
tests_capture_unit_perf_records_LDADD = daemon/capture/libcapture.la
tests_capture_unit_thread_table_SOURCES = tests/capture/unit-thread-table.c tests/capture/perf-record.h
tests_capture_unit_thread_table_LDADD = daemon/capture/libcapture.la
tests_capture_unit_sideband_LDADD = daemon/capture/libcapture.la
tests_capture_unit_emu_LDADD = daemon/capture/libcapture.la
tests_capture_unit_code_history_LDADD = daemon/capture/libcapture.la
tests_capture_unit_code_log_LDADD = daemon/capture/libcapture.la
tests_capture_unit_keeper_LDADD = daemon/capture/libcapture.la
tests_capture_unit_pmu_counters_LDADD = daemon/capture/libcapture.la
tests_capture_unit_perf_watch_LDADD = daemon/capture/libcapture.la
tests_capture_unit_watch_calls_LDADD = daemon/capture/libcapture.la
tests_capture_unit_watch_repeats_LDADD = daemon/capture/libcapture.la
tests_capture_unit_watch_events_LDADD = daemon/capture/libcapture.la
tests_capture_unit_credentials_LDADD = daemon/capture/libcapture.la
tests_capture_unit_address_space_LDADD = daemon/capture/libcapture.la
tests_capture_unit_perf_follow_LDADD = daemon/capture/libcapture.la
tests_capture_unit_perf_share_LDADD = daemon/capture/libcapture.la
TESTS += $(capture_units) tests/capture/plans.test
EXTRA_DIST += tests/capture/plans.test
