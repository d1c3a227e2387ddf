# SPDX-License-Identifier: MIT
check_PROGRAMS += tests/daemon/tail tests/daemon/image-of tests/daemon/build-ids tests/daemon/rings tests/daemon/wire tests/daemon/children tests/daemon/unit-symbol-cache tests/daemon/unit-snapshot-writer tests/daemon/unit-ledger tests/daemon/unit-fair-queue tests/daemon/unit-spool-room tests/daemon/unit-build-ids tests/daemon/unit-audit tests/daemon/unit-standing tests/daemon/unit-target tests/daemon/unit-kernel
tests_daemon_build_ids_SOURCES = tests/daemon/build-ids.c tests/daemon/help.c tests/daemon/help.h
tests_daemon_build_ids_LDADD = lib/varlink/libvarlink.la lib/perfdata/libperfdata.la lib/base/libbase.la
tests_daemon_rings_SOURCES = tests/daemon/rings.c tests/daemon/help.c tests/daemon/help.h
tests_daemon_rings_LDADD = lib/varlink/libvarlink.la lib/perfdata/libperfdata.la lib/base/libbase.la
tests_daemon_wire_SOURCES = tests/daemon/wire.c tests/daemon/help.c tests/daemon/help.h
tests_daemon_wire_LDADD = lib/varlink/libvarlink.la lib/base/libbase.la
tests_daemon_unit_snapshot_writer_LDADD = daemon/libdaemon.la
tests_daemon_unit_fair_queue_LDADD = daemon/libdaemon.la
tests_daemon_unit_spool_room_LDADD = daemon/libdaemon.la
tests_daemon_unit_build_ids_LDADD = daemon/libdaemon.la
tests_daemon_unit_audit_LDADD = daemon/libdaemon.la
tests_daemon_unit_standing_LDADD = daemon/libdaemon.la
tests_daemon_unit_target_LDADD = daemon/libdaemon.la
tests_daemon_unit_ledger_LDADD = daemon/libdaemon.la
tests_daemon_unit_kernel_LDADD = daemon/kernel/libkernel.la daemon/capture/libcapture.la lib/code/libcode.la
tests_daemon_tail_LDADD = lib/csight/libclient.la lib/base/libbase.la
tests_daemon_image_of_LDADD = daemon/libdaemon.la
tests_daemon_unit_symbol_cache_LDADD = daemon/libdaemon.la
daemon_tests = tests/daemon/parsers.test tests/daemon/start.test tests/daemon/reload.test tests/daemon/units.test tests/daemon/state.test tests/daemon/state-room.test tests/daemon/access.test tests/daemon/standing.test tests/daemon/pause.test tests/daemon/overhead.test tests/daemon/ending.test tests/daemon/stream.test tests/daemon/tail.test tests/daemon/jobs.test tests/daemon/users.test tests/daemon/faults.test \
	tests/daemon/attacks.test tests/daemon/audit.test tests/daemon/neighbours.test tests/daemon/quotas.test tests/daemon/load.test
TESTS += tests/daemon/build-ids tests/daemon/rings tests/daemon/wire tests/daemon/unit-symbol-cache tests/daemon/unit-snapshot-writer tests/daemon/unit-ledger tests/daemon/unit-fair-queue tests/daemon/unit-spool-room tests/daemon/unit-build-ids tests/daemon/unit-audit tests/daemon/unit-standing tests/daemon/unit-target tests/daemon/unit-kernel $(daemon_tests)
check_DATA += tests/daemon/slow-fsync.so
CLEANFILES += tests/daemon/slow-fsync.so
tests/daemon/slow-fsync.so: tests/daemon/slow-fsync.c
	$(AM_V_CC)$(MKDIR_P) tests/daemon && $(CC) -std=gnu11 -D_GNU_SOURCE $(CSIGHT_PLAIN_CFLAGS) -O1 -fPIC -shared -o $@ $(top_srcdir)/tests/daemon/slow-fsync.c
EXTRA_DIST += tests/daemon/slow-fsync.c $(daemon_tests) tests/daemon/attack-table tests/daemon/attacks.py tests/daemon/audit.py tests/daemon/tail.py tests/daemon/quotas.py tests/daemon/load.py
